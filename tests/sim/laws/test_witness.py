"""The brake counts nodes that have been Ready, as far as growth could be told."""

from __future__ import annotations

from collections.abc import Callable

from growth.sim.apiserver.kinds import NODE, Json
from growth.sim.apiserver.objects import node
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.laws.witness import REQUEST, Witness

NAMES = ("a", "b", "c")


def says_ready(status: str) -> Callable[[Json], None]:
    return lambda item: item["status"].update(conditions=[{"type": "Ready", "status": status}])


def is_braked(*, hears: bool, phase: str = "Provisioning", hears_later: bool = False) -> bool:
    """After three nodes were Ready for a while, and are so no more. `hears`: growth had news of nodes meanwhile."""

    async def run() -> bool:
        cluster = Cluster("blind")
        witness = Witness(cluster)
        for name in NAMES:
            about = {"apiVersion": "growth.dev/v1alpha1", "kind": "NodeRequest", "metadata": {"name": name}}
            spec = {"pool": "default", "targetOffering": "sim-cx33", "location": "fsn1"}
            if phase:
                cluster.create({**about, "spec": spec})
                cluster.verbs.modify(
                    REQUEST, name, "", lambda item: item.update(status={"phase": phase}), "growth", "status"
                )
            cluster.create(node(name))
            cluster.verbs.modify(NODE, name, "", says_ready("True"), "kubelet", "status")
        if hears:
            witness.hear_kind("nodes")
        for name in NAMES:
            cluster.verbs.modify(NODE, name, "", says_ready("False"), "kubelet", "status")
        if hears_later:
            witness.hear_kind("nodes")
        return "" in witness.braked_since

    return run_virtual(run())


def test_nodes_on_their_way_that_were_ready_only_while_growth_heard_nothing_do_not_hold_the_brake() -> None:
    assert is_braked(hears=True)
    assert not is_braked(hears=False)
    assert not is_braked(hears=False, hears_later=True)  # then they are not Ready any more


def test_of_nodes_that_are_not_on_their_way_growth_needs_no_news() -> None:
    assert is_braked(hears=False, phase="Ready")
    assert is_braked(hears=False, phase="")
