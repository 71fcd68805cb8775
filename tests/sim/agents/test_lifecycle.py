"""NoExecute, tolerationSeconds and the tolerations that every pod gets, in the embedded cluster."""

from __future__ import annotations

from typing import Any

import pytest

from growth.sim.apiserver.kinds import NODE, Json
from growth.sim.apiserver.objects import node, pod
from growth.sim.cluster import Cluster
from tests.sim.embedded import in_cluster

MINE = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}
AGES = "2026-01-01T00:00:10Z"


def taint(cluster: Cluster, **fields: str) -> None:
    def put(item: Json) -> None:
        item["spec"]["taints"] = [*(item["spec"].get("taints") or []), {"key": "maintenance", **fields}]

    cluster.verbs.modify(NODE, "n1", "", put, "user")


def names(cluster: Cluster) -> set[str]:
    return {one["metadata"]["name"] for one in cluster.objects("Pod")}


async def with_pods(cluster: Cluster, **tolerations: list[Json]) -> None:
    cluster.create(node("n1"), *(pod(name, cpu="100m", tolerations=each) for name, each in tolerations.items()))
    await cluster.runtime.sleep(8)
    assert names(cluster) == set(tolerations)


@pytest.mark.parametrize("added", [{}, {"timeAdded": AGES}])
def test_without_a_toleration_evicted_with_sixty_seconds_after_them_with_a_plain_one_it_stays(
    added: dict[str, str],
) -> None:
    async def test(cluster: Cluster) -> None:
        await with_pods(cluster, none=[], sixty=[{**MINE, "tolerationSeconds": 60}], always=[MINE])
        taint(cluster, effect="NoExecute", **added)
        await cluster.runtime.sleep(20)
        assert names(cluster) == {"sixty", "always"}
        await cluster.runtime.sleep(60)
        assert names(cluster) == {"always"}
        await cluster.runtime.sleep(600)
        assert names(cluster) == {"always"}

    in_cluster(test)


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule"])
def test_a_taint_of_another_effect_leaves_running_pods_alone(effect: str) -> None:
    async def test(cluster: Cluster) -> None:
        await with_pods(cluster, none=[])
        taint(cluster, effect=effect)
        await cluster.runtime.sleep(600)
        assert names(cluster) == {"none"}

    in_cluster(test)


def test_the_shortest_of_several_stays_counts() -> None:
    async def test(cluster: Cluster) -> None:
        await with_pods(
            cluster,
            both=[
                {**MINE, "tolerationSeconds": 30},
                {**MINE, "operator": "Equal", "value": "", "tolerationSeconds": 300},
            ],
        )
        taint(cluster, effect="NoExecute")
        await cluster.runtime.sleep(50)
        assert names(cluster) == set()

    in_cluster(test)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ([], {"node.kubernetes.io/not-ready": 300, "node.kubernetes.io/unreachable": 300}),
        (
            [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
            {"node.kubernetes.io/unreachable": 300},
        ),
        ([{"operator": "Exists"}], {}),
    ],
)
def test_a_pod_gets_five_minutes_on_a_node_that_is_not_ready_or_unreachable_unless_it_says_otherwise(
    own: list[Json], expected: dict[str, int]
) -> None:
    async def test(cluster: Cluster) -> None:
        await with_pods(cluster, one=own)
        (made,) = cluster.objects("Pod")
        given: list[Any] = [each for each in made["spec"]["tolerations"] if each not in own]
        assert {each["key"]: each["tolerationSeconds"] for each in given} == expected

    in_cluster(test)
