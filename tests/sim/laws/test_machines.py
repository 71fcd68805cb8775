"""A law about an order is judged when growth orders, whenever the cloud makes the machine."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from growth.model.labels import Labels
from growth.model.node import POOL_LABEL
from growth.model.offering import CLUSTER_LABEL, REQUEST_UID_LABEL
from growth.providers.simulated import NodeTemplate
from growth.sim.apiserver.objects import node, node_pool
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.faults.duration import Duration
from growth.sim.faults.kinds import LateEffect
from growth.sim.laws import Judge
from growth.sim.laws.machines import only_ours, removal_is_written_first
from growth.sim.laws.witness import REMOVAL, Witness


def laws_broken(*, looks_first: bool, is_late: bool) -> list[str]:
    """By an order whose request was read live just before, or not, and whose machine comes at once, or late."""

    async def run() -> list[str]:
        cluster = Cluster("late")
        witness = Witness(cluster)
        judge = Judge(witness)
        cluster.create(node_pool("default", "CX33"))
        if looks_first:
            witness.live_reads["apis/growth.dev/v1alpha1/noderequests/new"] = 0.0
        if is_late:
            cluster.cloud.faults.turn_on(LateEffect(seconds=Duration(3600)))
        labels = Labels({CLUSTER_LABEL: witness.cluster_id, REQUEST_UID_LABEL: "uid"})
        template = NodeTemplate(Labels({POOL_LABEL: "default"}))
        with suppress(TimeoutError):
            await cluster.cloud.create_server("new", "sim-cx33", "fsn1", labels, template)
        await asyncio.sleep(7200)
        assert len(cluster.cloud.creates) == 1
        return [each.law for each in judge.violations]

    return run_virtual(run())


@pytest.mark.parametrize("is_late", [False, True])
def test_an_order_after_a_live_look_breaks_no_law_however_late_its_machine_is(is_late: bool) -> None:
    assert laws_broken(looks_first=True, is_late=is_late) == []


@pytest.mark.parametrize("is_late", [False, True])
def test_an_order_without_a_live_look_is_noticed_however_late_its_machine_is(is_late: bool) -> None:
    assert laws_broken(looks_first=False, is_late=is_late) == ["live before launch"]


@pytest.mark.parametrize(
    ("phase", "asked_at", "is_broken"),
    [("Deprovisioning", 50.0, False), ("CouldNotRemove", 5.0, False), ("CouldNotRemove", 50.0, True), ("", 5.0, True)],
    ids=["as it should be", "asked before, and done late", "asked again too soon", "asked too soon"],
)
def test_a_provider_may_delete_late_what_it_was_asked_for_in_time(phase: str, asked_at: float, is_broken: bool) -> None:
    async def run() -> str | None:
        cluster = Cluster("late")
        witness = Witness(cluster)
        server = await cluster.cloud.create_server("old", "sim-cx33", "fsn1", Labels({}), NodeTemplate())
        await asyncio.sleep(10)
        spec = {"nodeName": "old", "pool": "default", "reason": "Empty", "machineID": server.server_id}
        about = {"apiVersion": "growth.dev/v1alpha1", "kind": "NodeRemovalRequest", "metadata": {"name": "old"}}
        cluster.create({**about, "spec": spec})
        status = {"phase": phase} if phase else {}
        cluster.verbs.modify(REMOVAL, "old", "", lambda item: item.update(status=status), "growth", "status")
        await asyncio.sleep(100)
        witness.sent_at[f"delete {server.server_id}"] = asked_at
        return removal_is_written_first(witness, server)

    assert (run_virtual(run()) is not None) is is_broken


@pytest.mark.parametrize(("asked_after_seconds", "is_broken"), [(0.0, False), (20.0, True), (None, True)])
def test_a_user_who_deletes_a_node_takes_no_removal_back_that_was_under_way(
    asked_after_seconds: float | None, is_broken: bool
) -> None:
    async def run() -> str | None:
        cluster = Cluster("by hand")
        witness = Witness(cluster)
        labels = Labels({CLUSTER_LABEL: witness.cluster_id})
        server = await cluster.cloud.create_server("old", "sim-cx33", "fsn1", labels, NodeTemplate())
        cluster.create(node("old"))
        about = {"apiVersion": "growth.dev/v1alpha1", "kind": "NodeRemovalRequest", "metadata": {"name": "old"}}
        spec = {"nodeName": "old", "pool": "default", "reason": "Empty", "machineID": server.server_id}
        for seconds in (0.0, 10.0, 20.0):
            if seconds == asked_after_seconds:
                cluster.create({**about, "spec": spec})
            if seconds == 10.0:
                cluster.delete("Node", "old")
            await asyncio.sleep(10)
        return only_ours(witness, cluster.shop.servers[server.server_id])

    assert (run_virtual(run()) is not None) is is_broken
