"""Warm pools on a real control plane: a Deployment, a CapacityBuffer and a SandboxSet, scaled by growth's own process
under its own role.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from growth.kube.crds.buffer import buffer_definition
from growth.kube.crds.policies import policies
from growth.model.instant import parse_instant
from tests.e2e.controlplane.cluster import ControlPlane, KubectlError
from tests.e2e.manifests import SANDBOX_SET, autoscaler, deployment, kwok_node, sandbox_set, sandbox_set_definition
from tests.e2e.running import GrowthProcess, install, refused_calls

Json = dict[str, Any]
QUICK = {"plans": {"warmPools": {"samplingIntervalSeconds": 5, "observationWindowSeconds": 30}}}
pytestmark = pytest.mark.timeout(400)  # schedules fire at whole minutes
AT_ONCE = {"scaleUp": {"stabilizationWindowSeconds": 0}, "scaleDown": {"stabilizationWindowSeconds": 0}}


class Warm:
    """A cluster with growth in it."""

    def __init__(self, cluster: ControlPlane) -> None:
        self.cluster = cluster

    def replicas(self, kind: str, name: str) -> int:
        found = json.loads(self.cluster.kubectl("get", kind, name, "--output=json"))
        return int(found["spec"].get("replicas", 0))

    def wait_for(self, kind: str, name: str, replicas: int, seconds: float = 60.0) -> None:
        self.cluster.wait_until(
            lambda: self.replicas(kind, name) == replicas, f"{kind} {name} has {replicas} replicas", seconds
        )

    def status(self, name: str) -> Json:
        status: Json = json.loads(self.cluster.kubectl("get", "pa", name, "--output=json")).get("status", {})
        return status

    def condition(self, name: str, kind: str) -> tuple[str, str]:
        return next(
            (
                (each["status"], each["reason"])
                for each in self.status(name).get("conditions", [])
                if each["type"] == kind
            ),
            ("", ""),
        )

    def wait_for_condition(self, name: str, kind: str, wanted: tuple[str, str]) -> None:
        self.cluster.wait_until(lambda: self.condition(name, kind) == wanted, f"{kind} of {name} is {wanted}")

    def events(self, name: str) -> set[str]:
        events = self.cluster.objects("events.events.k8s.io", "--namespace=default")
        return {
            event["reason"]
            for event in events
            if event["regarding"]["kind"] == "PoolAutoscaler" and event["regarding"]["name"] == name
        }

    def claim(self, app: str, count: int) -> None:
        pods = [
            pod["metadata"]["name"]
            for pod in self.cluster.objects("pods", "--namespace=default", f"--selector=app={app}")
        ]
        for place, pod in enumerate(sorted(pods)):
            self.cluster.kubectl("label", "pod", pod, "claimed=yes" if place < count else "claimed-", "--overwrite")


def explained(name: str, kubeconfig: Path) -> Json:
    """What the command says of it, asked as a person would."""
    command = [
        sys.executable,
        "-m",
        "growth",
        "explain",
        "poolautoscaler",
        name,
        "--kubeconfig",
        str(kubeconfig),
        "--output",
        "json",
    ]
    answer: Json = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return answer


@pytest.fixture
def warm(cluster: ControlPlane, tmp_path: Path) -> Iterator[Warm]:
    install(cluster)
    cluster.apply(*policies(), sandbox_set_definition(), buffer_definition())
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    cluster.apply(kwok_node("node-1", cpu="64", memory="128Gi", pods=250))
    growth = GrowthProcess(cluster, tmp_path, QUICK).start()
    try:
        yield Warm(cluster)
        assert growth.is_running
        assert refused_calls(cluster) == []
    finally:
        growth.stop()


def test_a_deployment_rises_with_its_claims_and_falls_when_they_end(warm: Warm) -> None:
    policy = {"targetAvailable": 3, "tolerance": 1, "inUse": {"matchLabels": {"claimed": "yes"}}, **AT_ONCE}
    warm.cluster.apply(deployment("web", 1), autoscaler("scaler", "web", capacityPolicy=policy))
    warm.wait_for("deployment", "web", 3)
    warm.cluster.wait_until(
        lambda: warm.status("scaler").get("currentCapacity", {}).get("available") == 3, "three are available"
    )
    warm.claim("web", 3)
    warm.wait_for("deployment", "web", 6)
    warm.cluster.wait_until(
        lambda: warm.status("scaler")["currentCapacity"] == {"available": 3, "used": 3, "starting": 0},
        "three of six are used",
    )
    line = warm.cluster.kubectl("get", "pa", "scaler").splitlines()
    assert line[0].split() == [
        "NAME",
        "KIND",
        "TARGET",
        "MIN",
        "MAX",
        "CURRENT",
        "DESIRED",
        "AVAILABLE",
        "ACTIVE",
        "LAST",
        "SCALE",
        "POLICY",
        "AGE",
    ]
    assert line[1].split()[:9] == ["scaler", "Deployment", "web", "0", "20", "6", "6", "3", "True"]
    told = explained("scaler", warm.cluster.kubeconfig)
    assert (told["desiredReplicas"], told["available"], told["used"], told["watermarks"]) == (
        6,
        3,
        3,
        {"target": 3, "lower": 2, "upper": 4},
    )
    assert told["recommendations"][-1]["replicas"] == 6
    warm.claim("web", 0)
    warm.wait_for("deployment", "web", 3, 120)  # after a full observation window
    warm.cluster.wait_until(lambda: {"ScaledUp", "ScaledDown", "ScaleBlocked"} <= warm.events("scaler"), "it was told")
    assert warm.condition("scaler", "ScalingActive") == ("True", "CapacityPolicy")


def test_a_buffer_is_sized_through_its_scale_and_its_bounds_are_enforced_at_once(warm: Warm) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]},
    }
    warm.cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "chunk", "namespace": "default"},
            "template": template,
        }
    )
    spec = {"podTemplateRef": {"name": "chunk"}, "replicas": 1}
    metadata = {"name": "spare", "namespace": "default"}
    warm.cluster.apply(
        {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": metadata, "spec": spec}
    )
    warm.cluster.apply(autoscaler("scaler", "spare", ("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer"), minReplicas=4))
    warm.wait_for("capacitybuffer", "spare", 4, 20)
    warm.cluster.kubectl("scale", "capacitybuffer", "spare", "--replicas=30")
    warm.wait_for("capacitybuffer", "spare", 20, 20)
    warm.cluster.wait_until(
        lambda: warm.status("scaler").get("currentCapacity", {}).get("available") == 20, "all chunks have room"
    )


def test_a_sandbox_set_follows_its_schedule_is_suspended_deleted_and_made_again(warm: Warm) -> None:
    """The same minute shows both: the schedule of `other` is followed, that of the suspended one is not."""
    every_minute = [{"name": "often", "schedule": "* * * * *", "targetReplicas": 7}]
    for scaler, target in (("scaler", "agents"), ("other", "others")):
        warm.cluster.apply(sandbox_set(target, 2), autoscaler(scaler, target, SANDBOX_SET, cronPolicies=every_minute))
    for scaler in ("scaler", "other"):
        warm.wait_for_condition(scaler, "ScalingActive", ("True", "CronPolicies"))
    warm.cluster.kubectl("patch", "pa", "scaler", "--type=merge", '--patch={"spec": {"suspend": true}}')
    warm.wait_for_condition("scaler", "ScalingActive", ("False", "Suspended"))
    warm.cluster.kubectl("scale", "sandboxset", "agents", "--replicas=3")
    suspended_at = time.time()
    warm.cluster.wait_until(lambda: fired_at(warm, "other") > suspended_at, "the other one's schedule fires", 75)
    warm.wait_for("sandboxset", "others", 7)
    warm.cluster.wait_until(lambda: warm.status("other")["activePolicy"] == "cron/often", "the policy is named")
    time.sleep(6)  # a whole look at all of them after that
    assert warm.replicas("sandboxset", "agents") == 3
    warm.cluster.kubectl("delete", "pa", "scaler", "other")
    warm.cluster.apply(
        autoscaler("scaler", "agents", SANDBOX_SET, capacityPolicy={"targetAvailable": 5, "tolerance": 1, **AT_ONCE})
    )
    warm.cluster.kubectl(
        "patch",
        "sandboxset",
        "agents",
        "--type=merge",
        "--subresource=status",
        '--patch={"status": {"replicas": 3, "availableReplicas": 3}}',
    )
    warm.wait_for("sandboxset", "agents", 5)
    warm.cluster.kubectl("delete", "pa", "scaler")
    time.sleep(6)
    assert warm.replicas("sandboxset", "agents") == 5


def fired_at(warm: Warm, name: str) -> float:
    """When the schedule of this autoscaler fired last."""
    applied = warm.status(name).get("appliedCronPolicies", [])
    return max((parse_instant(each["lastScheduleTime"]) for each in applied if "lastScheduleTime" in each), default=0.0)


def test_a_second_autoscaler_for_one_target_is_refused_and_where_that_is_not_asked_the_older_wins(warm: Warm) -> None:
    warm.cluster.apply(deployment("web", 1), autoscaler("first", "web", minReplicas=2))
    warm.wait_for("deployment", "web", 2)
    with pytest.raises(KubectlError, match="Deployment web is scaled by PoolAutoscaler first already"):
        warm.cluster.apply(autoscaler("second", "web", minReplicas=9))
    warm.cluster.apply(autoscaler("first", "web", minReplicas=3))  # itself is no other
    warm.cluster.kubectl("delete", "validatingadmissionpolicybinding", "poolautoscalers-one-for-a-target.growth.dev")
    warm.cluster.wait_until(lambda: _is_taken(warm, autoscaler("second", "web", minReplicas=9)), "it is not asked")
    warm.wait_for_condition("second", "ScalingActive", ("False", "TargetTaken"))
    warm.wait_for("deployment", "web", 3)
    warm.cluster.kubectl("delete", "pa", "first")
    warm.wait_for("deployment", "web", 9)


def _is_taken(warm: Warm, manifest: Json) -> bool:
    try:
        warm.cluster.apply(manifest)
    except KubectlError:
        return False
    return True


def test_what_admission_cannot_see_is_told_on_the_object(warm: Warm) -> None:
    warm.cluster.apply(deployment("web", 1))
    bad = {
        "impossible": (
            autoscaler(
                "impossible", "web", cronPolicies=[{"name": "a", "schedule": "0 0 30-31 2 *", "targetReplicas": 3}]
            ),
            "InvalidSchedule",
        ),
        "zone": (
            autoscaler(
                "zone",
                "api",
                cronPolicies=[{"name": "a", "schedule": "0 8 * * *", "targetReplicas": 3, "timeZone": "Mars/Phobos"}],
            ),
            "UnknownTimeZone",
        ),
        "missing": (autoscaler("missing", "nowhere"), "FailedGetScale"),
        "unserved": (
            autoscaler("unserved", "x", ("extensions.agents.x-k8s.io/v1alpha1", "SandboxWarmPool")),
            "FailedGetScale",
        ),
        "other": (autoscaler("other", "x", ("batch/v1", "Job")), "KindNotAllowed"),
    }
    warm.cluster.apply(*(manifest for manifest, _ in bad.values()))
    for name, (_, reason) in bad.items():
        warm.wait_for_condition(name, "ScalingActive", ("False", reason))
    warm.cluster.wait_until(lambda: "UnknownTimeZone" in warm.events("zone"), "the zone has its event")
