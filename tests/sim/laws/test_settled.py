"""The liveness laws excuse exactly what growth cannot help."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from growth.model.labels import Labels
from growth.model.node import POOL_LABEL
from growth.model.offering import CLUSTER_LABEL
from growth.providers.simulated import NodeTemplate
from growth.sim.apiserver.objects import node, node_pool, pod
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.laws.memory import Call
from growth.sim.laws.settled import machines_without_a_record, pods_without_a_place
from growth.sim.laws.witness import REMOVAL, Witness

PLACES = {"crowd": 2}


def complaints(arrange: Callable[[Cluster], None]) -> list[str]:
    """Of a pool for two nodes that has both: one of three pods runs there, each needs a node of its own."""
    found: list[str] = []

    async def run() -> None:
        cluster = Cluster("rest")
        witness = Witness(cluster)
        for name in ("a", "b"):
            cluster.create(node(name, cpu="4", labels={POOL_LABEL: "tight"}))
        for number in range(3):
            place = {"nodeName": "a"} if number == 0 else {}
            cluster.create(
                pod(f"crowd-{number}", "3", "1Gi", labels={"app": "crowd"}, nodeSelector={POOL_LABEL: "tight"}, **place)
            )
        arrange(cluster)
        found.extend(each for each in pods_without_a_place(witness, PLACES) if "could be" in each)

    run_virtual(run())
    return found


def guest(cpu: str, node_name: str) -> Callable[[Cluster], None]:
    def arrange(cluster: Cluster) -> None:
        cluster.create(pod("guest", cpu, "1Gi", labels={"app": "guest"}, nodeName=node_name))

    return arrange


def test_a_pool_with_room_for_two_must_hold_two() -> None:
    assert complaints(lambda _cluster: None) == [
        "1 of 3 pods of crowd are bound, 2 could be; waiting: crowd-1, crowd-2"
    ]


def test_a_node_that_pods_of_others_have_filled_costs_a_place() -> None:
    assert complaints(guest("2", "b")) == []


@pytest.mark.parametrize(
    ("cpu", "node_name"),
    [("1", "b"), ("1", "a")],
    ids=["there is room beside the guest", "the guest is beside a pod that runs"],
)
def test_guests_that_stand_in_nobodys_way_excuse_nothing(cpu: str, node_name: str) -> None:
    assert len(complaints(guest(cpu, node_name))) == 1


@pytest.mark.parametrize(("name", "pool", "excused"), [("b", "tight", True), ("c", "other", False)])
def test_a_machine_that_could_not_be_removed_costs_a_place_in_its_own_pool_only(
    name: str, pool: str, excused: bool
) -> None:
    def fail(cluster: Cluster) -> None:
        spec = {"pool": pool, "nodeName": name, "reason": "Empty"}
        cluster.create(
            {
                "apiVersion": "growth.dev/v1alpha1",
                "kind": "NodeRemovalRequest",
                "metadata": {"name": name},
                "spec": spec,
            }
        )
        cluster.verbs.modify(
            REMOVAL, name, "", lambda item: item.update(status={"phase": "RemovalFailed"}), "growth", "status"
        )

    assert (complaints(fail) == []) is excused


def complaints_about_a_pool_of_its_own(most: int, cpu: str) -> list[str]:
    """Of a pool whose only machine is full but for so much, where a pod of 3 CPU waits."""
    found: list[str] = []

    async def run() -> None:
        cluster = Cluster("lane")
        witness = Witness(cluster)
        cluster.create(node_pool("lane", {"name": "CX33", "max": most}))
        labels = Labels({CLUSTER_LABEL: witness.cluster_id})
        await cluster.cloud.create_server("a", "sim-cx33", "fsn1", labels, NodeTemplate(Labels({POOL_LABEL: "lane"})))
        cluster.create(node("a", cpu="4", labels={POOL_LABEL: "lane"}))
        cluster.create(pod("guest", cpu, "1Gi", labels={"app": "guest"}, nodeName="a"))
        cluster.create(pod("turn", "3", "1Gi", labels={"app": "turn"}, nodeSelector={POOL_LABEL: "lane"}))
        found.extend(each for each in pods_without_a_place(witness, {}) if "could be" in each)

    run_virtual(run())
    return found


@pytest.mark.parametrize(
    ("most", "cpu", "excused"),
    [(1, "2", True), (2, "2", False), (1, "1", False)],
    ids=["full", "one more could be bought", "there is room"],
)
def test_a_pool_that_has_all_it_may_have_and_is_full_hosts_nobody_more(most: int, cpu: str, excused: bool) -> None:
    assert (complaints_about_a_pool_of_its_own(most, cpu) == []) is excused


ORDERED = Call("create a", leads=True, another_leads=False, stood_still=False, life=1)
SAYS = replace(ORDERED, text="PATCH something")


def is_complained_about(*later: Call, erased: bool = True, told: bool = True) -> bool:
    """Of a machine that nothing records, which the first growth ordered, and after which these calls were made."""
    found: list[str] = []

    async def run() -> None:
        cluster = Cluster("amnesia")
        witness = Witness(cluster)
        labels = Labels({CLUSTER_LABEL: witness.cluster_id})
        server = await cluster.cloud.create_server("a", "sim-cx33", "fsn1", labels, NodeTemplate())
        witness.erased |= {"a": None} if erased else {}
        for call in (ORDERED, *later):
            await cluster.runtime.sleep(1)
            witness.hear_sent(call)
        if told:
            note = f"machine a ({server.server_id}) has no NodeRequest; a person must decide"
            about = {"kind": "NodePool", "name": "amnesia"}
            event = {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": "told", "namespace": "default"},
            }
            cluster.create({**event, "reason": "OrphanedMachine", "note": note, "regarding": about})
        found.extend(machines_without_a_record(witness))

    run_virtual(run())
    return bool(found)


def test_a_machine_whose_record_a_user_erased_is_told_of_by_a_growth_that_did_not_order_it() -> None:
    other = replace(SAYS, life=2)
    assert not is_complained_about(other)
    assert is_complained_about(SAYS)  # which knows that it never had a node
    assert is_complained_about(other, told=False)
    assert is_complained_about(other, erased=False)


def test_what_a_growth_knew_in_its_last_term_or_before_its_clock_went_back_it_knows_no_more() -> None:
    other = replace(SAYS, life=2)
    assert not is_complained_about(other, SAYS)  # the same words of both
    assert not is_complained_about(replace(SAYS, memory=(2, 0)))
    assert not is_complained_about(replace(SAYS, memory=(0, 1)))


def test_what_a_growth_says_that_does_not_lead_takes_no_memory_from_the_one_that_does() -> None:
    assert is_complained_about(replace(SAYS, life=2, leads=False), SAYS)
