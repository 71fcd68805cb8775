"""The brake counts nodes that are Ready, or were opened to pods."""

from __future__ import annotations

from collections.abc import Callable

from growth.model.node import STARTUP_TAINT, TEMPLATE
from growth.sim.apiserver.kinds import NODE, Json
from growth.sim.apiserver.objects import node
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.laws.witness import REQUEST, Witness

NAMES = ("a", "b", "c")


def says_ready(status: str) -> Callable[[Json], None]:
    return lambda item: item["status"].update(conditions=[{"type": "Ready", "status": status}])


def is_braked(*, is_closed: bool, phase: str = "Provisioning") -> bool:
    """After three nodes were Ready for a while, and are so no more. `is_closed`: growth has not opened them to pods."""

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
            cluster.create(registered(node(name), is_closed))
            cluster.verbs.modify(NODE, name, "", says_ready("True"), "kubelet", "status")
        for name in NAMES:
            cluster.verbs.modify(NODE, name, "", says_ready("False"), "kubelet", "status")
        return "" in witness.braked_since

    return run_virtual(run())


def registered(item: Json, is_closed: bool) -> Json:
    item["metadata"].setdefault("annotations", {})[TEMPLATE] = "v1-0"
    if is_closed:
        item.setdefault("spec", {}).setdefault("taints", []).append({"key": STARTUP_TAINT.key, "effect": "NoSchedule"})
    return item


def test_nodes_on_their_way_that_were_ready_but_never_opened_to_pods_do_not_hold_the_brake() -> None:
    assert is_braked(is_closed=False)
    assert not is_braked(is_closed=True)


def test_of_nodes_that_are_not_on_their_way_it_matters_only_that_they_were_ready() -> None:
    assert is_braked(is_closed=True, phase="Ready")
    assert is_braked(is_closed=False, phase="")


def test_where_the_record_was_erased_the_start_up_taint_tells() -> None:
    assert not is_braked(is_closed=True, phase="")
