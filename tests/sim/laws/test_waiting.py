"""What growth tells a pod is compared with the world, and nobody waits while a place can be bought."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from growth.model.node import POOL_LABEL
from growth.sim.apiserver.objects import node_pool, pod
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.laws import Judge
from growth.sim.laws.memory import Said
from growth.sim.laws.witness import POOL, Witness

TAINT = {"key": "example.com/team", "value": "red", "effect": "NoSchedule"}


def judged(arrange: Callable[[Cluster], object], words: str = "", *, seconds: int = 300) -> list[str]:
    """The laws broken in a calm world without any growth, in which the pod called waiting was told these words."""

    async def run() -> list[str]:
        cluster = Cluster("waiting")
        witness = Witness(cluster)
        judge = Judge(witness)
        arrange(cluster)
        if words:
            uid = cluster.objects("Pod")[0]["metadata"]["uid"]
            said = Said("default", "waiting", uid, "Unplaced", f"no place for this pod: {words}")
            witness.patience.told[uid] = said
            witness.patience.unproven.append((0.0, said))
        for _ in range(seconds // 15):
            await cluster.runtime.sleep(15.0)
            judge.hear_time(is_calm=True)
        return sorted({each.law for each in judge.violations})

    return run_virtual(run())


def pool_and_pod(cpu: str = "1", **spec: Any) -> Callable[[Cluster], object]:
    def arrange(cluster: Cluster) -> None:
        cluster.create(node_pool("default", "CX33", **spec), pod("waiting", cpu))

    return arrange


WAITS, LIES = "nobody waits for nothing", "the true reason"


def test_a_pod_that_waits_for_nothing_is_noticed_after_a_minute_of_calm() -> None:
    assert judged(pool_and_pod()) == [WAITS]
    assert judged(pool_and_pod(), seconds=105) == []


def test_a_pod_for_which_nothing_can_be_bought_may_wait() -> None:
    assert judged(pool_and_pod(cpu="500")) == []
    assert judged(pool_and_pod(taints=[TAINT])) == []
    assert judged(lambda cluster: cluster.create(pod("waiting"))) == []


def test_a_limit_excuses_only_if_the_pod_is_told() -> None:
    words = "3 of 3 offerings: limit reached: limits of NodePool default: at most 0 nodes"
    assert judged(pool_and_pod(limits={"nodes": 0})) == [WAITS]
    assert judged(pool_and_pod(limits={"nodes": 0}), words) == []


def test_a_paused_pool_excuses_only_if_the_pod_is_told() -> None:
    def paused(cluster: Cluster) -> None:
        pool_and_pod()(cluster)
        cluster.verbs.modify(
            POOL, "default", "", lambda item: item["metadata"].update(annotations={"growth.dev/paused": "true"}), "user"
        )

    assert judged(paused) == [WAITS]
    assert judged(paused, "NodePool default is paused") == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "3 of 3 offerings: untolerated taint example.com/team=red:NoSchedule"),
        ({}, "3 of 3 offerings: didn't match node selector disk=golden"),
        ({}, "3 of 3 offerings: insufficient cpu (needs 1, has 3900m)"),
        ({}, "2 of 3 nodes: not ready; 1: takes no pods; 3 of 3 offerings: insufficient memory (needs 1, has 2)"),
        ({}, "3 of 3 offerings: limit reached: max 1 of CX33 in NodePool default"),
        ({"limits": {"nodes": 5}}, "3 of 3 offerings: limit reached: limits of NodePool default: at most 5 nodes"),
        ({"limits": {"cpu": "99"}}, "3 of 3 offerings: limit reached: limits of NodePool default: at most 99 cpu"),
        ({}, "no place was found"),
    ],
)
def test_a_constraint_that_does_not_stand_against_the_pod_is_noticed(spec: dict[str, Any], words: str) -> None:
    assert LIES in judged(pool_and_pod(**spec), words)


@pytest.mark.parametrize(
    ("arrange", "words"),
    [
        (pool_and_pod(taints=[TAINT]), "3 of 3 offerings: untolerated taint example.com/team=red:NoSchedule"),
        (pool_and_pod(cpu="500"), "3 of 3 offerings: insufficient cpu (needs 500, has 3900m)"),
        (
            pool_and_pod(limits={"cpu": "2"}),
            "3 of 3 offerings: limit reached: limits of NodePool default: at most 2 cpu",
        ),
    ],
)
def test_the_constraint_that_stands_against_the_pod_is_no_lie(arrange: Callable[[Cluster], object], words: str) -> None:
    assert LIES not in judged(arrange, words)


def test_a_limit_that_only_the_larger_machines_would_break_is_told_of_those_alone() -> None:
    def arrange(cluster: Cluster) -> None:
        cluster.create(node_pool("default", "CX33", "CX31", limits={"cpu": "2"}), pod("waiting", "3"))

    limit = "limit reached: limits of NodePool default: at most 2 cpu"
    assert judged(arrange, f"3 of 6 offerings: {limit}; 3: insufficient cpu (needs 3, has 1900m)") == []
    assert judged(arrange, f"6 of 6 offerings: {limit}") == [LIES]


def test_a_selector_that_no_offering_has_is_no_lie() -> None:
    def arrange(cluster: Cluster) -> None:
        selector = {POOL_LABEL: "default", "disk": "golden"}
        cluster.create(node_pool("default", "CX33"), pod("waiting", nodeSelector=selector))

    assert judged(arrange, "3 of 3 offerings: didn't match node selector disk=golden") == []
