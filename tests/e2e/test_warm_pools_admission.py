"""Which PoolAutoscalers does a real API server take? Its own rules, and the policies that come with the kinds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from growth.kube.crds.policies import policies
from tests.e2e.controlplane.cluster import ControlPlane, KubectlError
from tests.e2e.manifests import autoscaler
from tests.e2e.running import install

Json = dict[str, Any]
AT_ONCE = {"scaleUp": {"stabilizationWindowSeconds": 0}, "scaleDown": {"stabilizationWindowSeconds": 0}}
BAD: dict[str, tuple[Json, str]] = {
    "max 0": ({"maxReplicas": 0}, "spec.maxReplicas in body should be greater than or equal to 1"),
    "min above max": ({"minReplicas": 5, "maxReplicas": 4}, "minReplicas must not be larger than maxReplicas"),
    "both policies": (
        {
            "cronPolicies": [{"name": "a", "schedule": "0 8 * * *", "targetReplicas": 1}],
            "capacityPolicy": {"targetAvailable": 1},
        },
        "cronPolicies and capacityPolicy cannot be used together",
    ),
    "six fields": (
        {"cronPolicies": [{"name": "a", "schedule": "0 0 8 * * *", "targetReplicas": 1}]},
        "schedule in body should match",
    ),
    "one name twice": (
        {"cronPolicies": [{"name": "a", "schedule": "0 8 * * *", "targetReplicas": 1}] * 2},
        "Duplicate value",
    ),
    "21 policies": (
        {
            "cronPolicies": [
                {"name": f"p{number}", "schedule": "0 8 * * *", "targetReplicas": 1} for number in range(21)
            ]
        },
        "must have at most 20 items",
    ),
    "negative target": ({"capacityPolicy": {"targetAvailable": -1}}, "should be greater than or equal to 0"),
    "negative cron target": (
        {"cronPolicies": [{"name": "a", "schedule": "0 8 * * *", "targetReplicas": -1}]},
        "should be greater than or equal to 0",
    ),
    "101 percent": ({"capacityPolicy": {"targetAvailable": "101%"}}, "targetAvailable in body should match"),
    "tolerance as large as the target": (
        {"capacityPolicy": {"targetAvailable": 5, "tolerance": 5}},
        "tolerance must be smaller than targetAvailable",
    ),
    "tolerance share": (
        {"capacityPolicy": {"targetAvailable": "10%", "tolerance": "10%"}},
        "tolerance must be smaller than targetAvailable",
    ),
    "tolerance of a count": (
        {"capacityPolicy": {"targetAvailable": 1, "tolerance": "10%"}},
        "tolerance must be smaller than targetAvailable",
    ),
    "tolerance 0.01 as text": (
        {"capacityPolicy": {"targetAvailable": 5, "tolerance": "0.01"}},
        "tolerance in body should match",
    ),
    "tolerance 0.01": ({"capacityPolicy": {"targetAvailable": 5, "tolerance": 0.01}}, "must be of type integer"),
    "a window of over an hour": (
        {"capacityPolicy": {"targetAvailable": 5, "scaleUp": {"stabilizationWindowSeconds": 3601}}},
        "less than or equal to 3600",
    ),
    "an operator without values": (
        {"capacityPolicy": {"targetAvailable": 5, "inUse": {"matchExpressions": [{"key": "a", "operator": "In"}]}}},
        "In and NotIn need values",
    ),
}

CLAIMED = {"matchLabels": {"claimed": "yes"}}
SCHEDULES = {
    **dict.fromkeys(["60 8 * * *", "0 24 * * *", "0 8 32 * *", "0 8 * 13 *", "0 8 * * 8", "0 8 0 * *", "*/0 8 * * *"],
                    "a schedule has five fields"),
    **dict.fromkeys(["0 0 31 2 *", "0 0 30 FEB *", "0 0 31 4,6,SEP *"], "there is no such day in these months"),
}  # fmt: skip
BAD |= {
    f"schedule {text}": ({"cronPolicies": [{"name": "a", "schedule": text, "targetReplicas": 1}]}, words)
    for text, words in SCHEDULES.items()
}
BAD |= {
    "a count that reaches every share": (
        {"maxReplicas": 50, "capacityPolicy": {"targetAvailable": "10%", "tolerance": 50}},
        "tolerance must be smaller than targetAvailable of maxReplicas",
    ),
    "a tolerance for one direction": (
        {"capacityPolicy": {"targetAvailable": 5, "scaleUp": {"tolerance": 5}}},
        "scaleUp.tolerance must be smaller than targetAvailable",
    ),
    "labels of pods in use said twice": (
        {"inUse": CLAIMED, "capacityPolicy": {"targetAvailable": 5, "inUse": CLAIMED}},
        "inUse and capacityPolicy.inUse cannot be used together",
    ),
}

GOOD: dict[str, Json] = {
    "tolerances for each direction": {
        "inUse": CLAIMED,
        "capacityPolicy": {"targetAvailable": 5, "scaleUp": {"tolerance": 4}, "scaleDown": {"tolerance": 300}},
    },
    "odd schedules": {
        "cronPolicies": [
            {"name": f"p{number}", "schedule": text, "targetReplicas": 1}
            for number, text in enumerate(
                ["0,30 */2 1-7/2 jan,Jun-AUG 1#1", "05 08 L 02 *", "0 0 29 2 *", "0 0 31 2 MON", "59 23 LW 12 5L"]
            )
        ]
    },
    "bounds": {"minReplicas": 0, "maxReplicas": 1},
    "counts": {"capacityPolicy": {"targetAvailable": 10, "tolerance": 5}},
    "shares": {"capacityPolicy": {"targetAvailable": "70%", "tolerance": "10%", **AT_ONCE}},
    "a share of a count": {"capacityPolicy": {"targetAvailable": 10, "tolerance": "50%"}},
    "a count beside a share": {"capacityPolicy": {"targetAvailable": "50%", "tolerance": 3}},
    "schedules": {
        "cronPolicies": [
            {
                "name": "a",
                "schedule": "*/5 8-18 * * MON-FRI",
                "targetReplicas": 1,
                "timeZone": "America/Argentina/Buenos_Aires",
            }
        ]
    },
}


def test_bad_objects_are_refused_with_the_reason_and_good_ones_taken(cluster: ControlPlane) -> None:
    install(cluster)
    wrong = []
    for what, (spec, words) in BAD.items():
        try:
            cluster.kubectl(
                "create", "--validate=ignore", "--filename=-", input=json.dumps(autoscaler("bad", "web", **spec))
            )
            wrong.append(f"{what}: taken")
        except KubectlError as error:
            if words not in str(error):
                wrong.append(f"{what}: {error}")
    assert not wrong, "\n".join(wrong)
    cluster.apply(*(autoscaler(f"good-{number}", f"web-{number}", **spec) for number, spec in enumerate(GOOD.values())))


def test_whoever_writes_an_autoscaler_must_be_allowed_to_scale_its_target(cluster: ControlPlane) -> None:
    install(cluster)
    cluster.apply(*policies())
    user = cluster.kubeconfig_for("alice")
    cluster.kubectl(
        "create", "role", "writer", "--verb=create,get,patch,update,delete", "--resource=poolautoscalers.growth.dev"
    )
    cluster.kubectl(
        "create", "role", "scaler", "--verb=patch", "--resource=deployments.apps/scale", "--resource-name=web"
    )
    cluster.kubectl("create", "rolebinding", "writer", "--role=writer", "--user=alice")
    cluster.kubectl("create", "rolebinding", "scaler", "--role=scaler", "--user=alice")

    def create(name: str, target: str) -> str:
        try:
            return cluster.kubectl(
                "create", "--filename=-", input=json.dumps(autoscaler(name, target)), kubeconfig=user
            )
        except KubectlError as error:
            return str(error)

    # of a target of its own: before the policy is in force it is created, and that target is taken from then on
    cluster.wait_until(
        lambda: "right to patch deployments/scale of other" in create("two", "other"), "the policy is in force"
    )
    cluster.wait_until(lambda: "created" in create("one", "web"), "what she may scale she may autoscale")
    moved = '{"spec": {"scaleTargetRef": {"name": "api"}}}'
    with pytest.raises(KubectlError, match="right to patch deployments/scale of api"):
        cluster.kubectl("patch", "pa", "one", "--type=merge", f"--patch={moved}", kubeconfig=user)
