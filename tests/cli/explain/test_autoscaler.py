"""`growth explain poolautoscaler` as a calculator: the table of cases, watermarks, firings, and what is refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from growth.cli import main
from growth.cli.explain.autoscaler import look
from growth.kube.api.client import Client
from growth.model.settings import WarmPoolSettings
from growth.sim.apiserver import objects
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from tests.controllers.act.test_warm_pools import CLAIMED, autoscaler

Json = dict[str, Any]


def manifest(kind: str = "Deployment", group: str = "apps", **spec: Any) -> Json:
    reference = {"apiVersion": f"{group}/v1", "kind": kind, "name": "pool"}
    metadata = {"name": "scaler", "namespace": "team"}
    return {
        "apiVersion": "growth.dev/v1alpha1",
        "kind": "PoolAutoscaler",
        "metadata": metadata,
        "spec": {"scaleTargetRef": reference, "maxReplicas": 500, **spec},
    }


def capacity(target: int | str, tolerance: int | str | None = None) -> Json:
    policy = {"targetAvailable": target, "inUse": CLAIMED}
    return policy | ({} if tolerance is None else {"tolerance": tolerance})


def explained(tmp_path: Path, capsys: pytest.CaptureFixture[str], item: Json, *arguments: str) -> Json:
    file = tmp_path / "autoscaler.yaml"
    file.write_text(yaml.safe_dump(item))
    assert main(["explain", "poolautoscaler", "-f", str(file), *arguments, "--output", "json"]) == 0
    answer: Json = json.loads(capsys.readouterr().out)
    return answer


@pytest.mark.parametrize(
    ("target", "tolerance", "replicas", "available", "wanted"),
    [
        (7, 1, 5, 4, 8), (7, 1, 10, 9, 8), (10, 5, 5, 5, 5), (3, 1, 0, 0, 3),
        ("70%", "10%", 10, 10, 7), ("70%", "10%", 10, 5, 12), ("50%", "10%", 1, 0, 2), (1, None, 4, 0, 5),
    ],
)  # fmt: skip
def test_the_table_of_cases(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    target: int | str,
    tolerance: int | str | None,
    replicas: int,
    available: int,
    wanted: int,
) -> None:
    item = manifest(capacityPolicy=capacity(target, tolerance))
    answer = explained(tmp_path, capsys, item, "--replicas", str(replicas), "--available", str(available))
    assert answer["desiredReplicas"] == wanted


def test_watermarks_the_reason_and_what_would_happen_at_other_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = explained(
        tmp_path, capsys, manifest(capacityPolicy=capacity(5)), "--replicas", "9", "--available", "3", "--around", "2"
    )
    assert answer["watermarks"] == {"target": 5, "lower": 4, "upper": 6}
    assert answer["reason"] == "9 replicas become 11: 3 available is below [4, 6] around 5 of 9, 6 used"
    assert [(each["available"], each["desiredReplicas"]) for each in answer["atOtherNumbers"]] == [
        (1, 13),
        (2, 12),
        (4, 9),
        (5, 9),
    ]


def test_members_that_leave_are_used_unless_they_are_said_to_be_starting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item, numbers = manifest("SandboxSet", "agents.kruise.io", capacityPolicy=capacity(10, 2)), ("--replicas", "10")
    claimed = explained(tmp_path, capsys, item, *numbers, "--available", "3")
    assert (claimed["desiredReplicas"], claimed["used"], claimed["starting"]) == (17, 7, 0)
    starting = explained(tmp_path, capsys, item, *numbers, "--available", "3", "--starting", "7")
    assert (starting["desiredReplicas"], starting["used"], starting["starting"]) == (10, 0, 7)


def test_standard_input_is_read_and_the_calculation_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml.safe_dump(manifest(capacityPolicy=capacity("70%", "10%")))))
    assert main(["explain", "pa", "-f", "-", "--replicas", "20", "--available", "3"]) == 0
    told = capsys.readouterr().out
    assert "calculated T = 70% of 20 replicas, rounded up = 14" in told
    assert "calculated A = 3 < L = 12: 17 used + T = 31" in told


def test_a_pool_that_cannot_tell_what_is_in_use_has_only_its_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "unknown.yaml"
    file.write_text(yaml.safe_dump(manifest(minReplicas=4, capacityPolicy={"targetAvailable": "70%"})))
    assert main(["explain", "pa", "-f", str(file), "--replicas", "2", "--output", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["desiredReplicas"] == 4
    assert "nothing tells which pods of a Deployment are in use" in answer["problem"]


def test_starting_replicas_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    item = manifest(capacityPolicy=capacity("70%", "10%"))
    sizes = [
        explained(tmp_path, capsys, item, "--replicas", "7", "--available", "0", "--starting", "3")["desiredReplicas"]
    ]
    sizes.append(
        explained(tmp_path, capsys, item, "--replicas", "11", "--available", "0", "--starting", "7")["desiredReplicas"]
    )
    assert sizes == [9, 11]


@pytest.mark.parametrize(("replicas", "wanted"), [(3, 5), (12, 10), (7, 7)])
def test_bounds_only(tmp_path: Path, capsys: pytest.CaptureFixture[str], replicas: int, wanted: int) -> None:
    assert (
        explained(tmp_path, capsys, manifest(minReplicas=5, maxReplicas=10), "--replicas", str(replicas))[
            "desiredReplicas"
        ]
        == wanted
    )


def test_the_next_firings_are_told_with_their_local_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policies = [{"name": "morning", "schedule": "0 8 * * *", "targetReplicas": 5, "timeZone": "Asia/Tokyo"}]
    answer = explained(tmp_path, capsys, manifest(cronPolicies=policies), "--replicas", "2")
    assert answer["desiredReplicas"] == 2
    assert [each["at"][10:] for each in answer["nextFirings"]] == ["T23:00:00Z"] * 3
    assert all("08:00 JST" in each["local"] for each in answer["nextFirings"])


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"maxReplicas": 0}, "maxReplicas"),
        ({"minReplicas": 5, "maxReplicas": 4}, "minReplicas 5 is larger than maxReplicas 4"),
        (
            {
                "capacityPolicy": capacity(5),
                "cronPolicies": [{"name": "a", "schedule": "0 8 * * *", "targetReplicas": 1}],
            },
            "cannot be used together",
        ),
        ({"capacityPolicy": capacity(5, 5)}, "must be smaller"),
        ({"capacityPolicy": capacity(5, "0.01")}, "tolerance"),
        ({"cronPolicies": [{"name": "a", "schedule": "0 0 31 2 *", "targetReplicas": 1}]}, "no schedule"),
        ({"cronPolicies": [{"name": "a", "schedule": "0 0 8 * * *", "targetReplicas": 1}]}, "schedule"),
        (
            {"cronPolicies": [{"name": "a", "schedule": "0 8 * * *", "targetReplicas": 1, "timeZone": "Mars/Phobos"}]},
            "no time zone",
        ),
        ({"scaleTargetRef": {"apiVersion": "v1", "kind": "Secret", "name": "a"}}, "may not be scaled here"),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spec: Json, words: str
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(yaml.safe_dump(manifest(**spec)))
    assert main(["explain", "poolautoscaler", "-f", str(file), "--replicas", "3"]) == 1
    assert words in capsys.readouterr().err


def test_people_get_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "good.yaml"
    file.write_text(yaml.safe_dump(manifest(capacityPolicy=capacity(5))))
    assert main(["explain", "pa", "-f", str(file), "--replicas", "9", "--available", "5"]) == 0
    told = capsys.readouterr().out
    assert "PoolAutoscaler team/scaler of Deployment pool" in told
    assert "watermarks up below 4, down above 6, to 5 available" in told


def test_in_a_cluster_the_target_and_its_pods_are_looked_at() -> None:
    async def story() -> tuple[Any, Any, Any]:
        cluster = Cluster("explain")
        policy = {"targetAvailable": 2, "inUse": CLAIMED}
        cluster.create(
            objects.deployment("web", 3),
            autoscaler("scaler", "web", capacityPolicy=policy),
            autoscaler("rival", "web"),
            autoscaler("none", "gone"),
        )
        await cluster.runtime.sleep(5)
        client = Client(cluster.api, cluster.runtime)
        looks = [
            await look(client, name, "default", WarmPoolSettings(), cluster.runtime.now())
            for name in ("scaler", "rival", "none")
        ]
        return looks[0], looks[1], looks[2]

    found, rival, gone = run_virtual(story())
    assert msgspec.structs.astuple(found.counts)[:4] == (3, 0, 0, 3)
    assert {found.problem, rival.problem} == {"", "Deployment web is scaled by the older PoolAutoscaler rival"}
    assert gone.problem == "there is no Deployment gone in namespace default"
