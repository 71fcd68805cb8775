"""A law about an order is judged when growth orders, whenever the cloud makes the machine."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from growth.model.labels import Labels
from growth.model.node import POOL_LABEL
from growth.model.offering import CLUSTER_LABEL, REQUEST_UID_LABEL
from growth.providers.simulated import NodeTemplate
from growth.sim.apiserver.objects import node_pool
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.faults.duration import Duration
from growth.sim.faults.kinds import LateEffect
from growth.sim.laws import Judge
from growth.sim.laws.witness import Witness


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
