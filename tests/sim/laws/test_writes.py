"""Laws on what growth may write, where an example says more than a seed."""

from __future__ import annotations

from typing import Any

import pytest

from growth.model.node import POOL_LABEL
from growth.sim.apiserver.kinds import Json
from growth.sim.apiserver.objects import node, pod
from growth.sim.apiserver.store import Write
from growth.sim.apiserver.subresources import bind
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.laws.witness import Call, Witness
from growth.sim.laws.writes import no_node_is_overcommitted, nothing_of_an_earlier_leader

NOBODY: Any = None  # this law asks nothing of the witness


def _late(**known: bool) -> Call:
    return Call(
        "DELETE /apis/growth.dev/v1alpha1/noderemovalrequests/old", False, True, **{"stood_still": False} | known
    )


def test_a_write_that_a_former_leader_still_waits_for_must_not_take_effect() -> None:
    assert "of a former leader" in (nothing_of_an_earlier_leader(NOBODY, _late()) or "")


def test_what_the_network_delivers_after_its_sender_gave_it_up_is_nobodys_doing() -> None:
    assert nothing_of_an_earlier_leader(NOBODY, _late(was_given_up=True)) is None
    assert nothing_of_an_earlier_leader(NOBODY, _late(stood_still=True)) is None


def is_overcommitted(seconds: float, tolerations: tuple[Json, ...] = (), scheduler: str = "another") -> bool:
    """growth binds 3 of 4 CPU; so long after that a scheduler, whose news are half a second old, binds 2 more."""
    found: list[str | None] = []

    async def run() -> None:
        cluster = Cluster("hive")
        witness = Witness(cluster)

        def look(write: Write) -> None:
            found.append(no_node_is_overcommitted(witness, write))

        cluster.store.on_write(look)
        cluster.scheduler.lag_seconds = 0.5
        cluster.create(node("a", cpu="4", labels={POOL_LABEL: "hive"}))
        await cluster.runtime.sleep(60)  # a user has just changed it
        cluster.create(pod("planned", "3", "1Gi", schedulerName=scheduler))
        cluster.create(pod("bee", "2", "1Gi", schedulerName="another", tolerations=tolerations))
        for name, actor in (("planned", "growth"), ("bee", "scheduler")):
            bind(cluster.verbs, name, "default", {"target": {"name": "a"}}, actor)
            await cluster.runtime.sleep(seconds)

    run_virtual(run())
    return any(found)


@pytest.mark.parametrize(
    ("given", "is_broken"),
    [
        ({}, True),
        ({"tolerations": ({"operator": "Exists"},)}, False),
        ({"scheduler": "growth"}, False),
        ({"tolerations": ({"operator": "Exists"},), "seconds": 0.6}, True),
    ],
    ids=["our taint was off", "it came past our taint", "the node is open to both", "it had heard of it"],
)
def test_two_schedulers_may_only_miss_each_others_latest_binds(given: Any, is_broken: bool) -> None:
    assert is_overcommitted(**{"seconds": 0.3} | given) == is_broken
