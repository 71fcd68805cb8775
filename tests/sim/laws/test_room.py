"""The laws of room: what a buffer declares is there, or it says the true reason; no pod waits for a virtual one."""

from __future__ import annotations

from typing import Any

import pytest

from growth.model.node import POOL_LABEL
from growth.sim.apiserver.kinds import BY_NAME, Json
from growth.sim.apiserver.objects import capacity_buffer, deployment, node, node_pool, pod, resource_quota
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.laws.room import declared, declared_room, missing_chunks, pods_behind_buffers
from growth.sim.laws.witness import Witness
from growth.sim.process import GrowthProcess

ON_ROOM: Any = {"nodeSelector": {POOL_LABEL: "room"}}


def told(cluster: Cluster, replicas: int, reason: str, message: str = "") -> None:
    def write(item: Json) -> None:
        condition = {"type": "Provisioning", "status": "True", "reason": reason, "message": message}
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        item["status"] = {"replicas": replicas, "conditions": [condition]}

    cluster.verbs.modify(BY_NAME["CapacityBuffer"], "spare", "default", write, "growth", "status")


def complaints(reason: str, message: str = "", *, nodes: int = 1, says: int = 3, **pool: Any) -> list[str]:
    """Of a buffer of three chunks of one core, on so many nodes of two cores."""
    found: list[str] = []

    async def run() -> None:
        cluster = Cluster("room")
        witness = Witness(cluster)
        cluster.create(node_pool("room", "CX33", **pool), deployment("web", 0, "1", "1Gi", **ON_ROOM))
        cluster.create(*(node(f"n{number}", "2", labels={POOL_LABEL: "room"}) for number in range(nodes)))
        cluster.create(capacity_buffer("spare", "web", replicas=3))
        told(cluster, says, reason, message)
        await cluster.runtime.sleep(1)
        found.extend(declared_room(witness))

    run_virtual(run())
    return found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"reason": "CapacityProvisioned", "nodes": 2}, ""),
        ({"reason": "RequiresNewCapacity", "nodes": 2}, "there is room for all of buffer"),
        ({"reason": "CapacityProvisioned", "nodes": 2, "says": 2}, "its document asks for 3"),
        ({"reason": "CapacityProvisioned"}, "nothing stands against buying it"),
        ({"reason": "LimitedByPool", "message": "its limits leave no room for one more node"}, "nothing"),
        (
            {"reason": "LimitedByPool", "message": "its limits leave no room for one more node",
             "limits": {"cpu": "1"}},
            "",
        ),
        ({"reason": "CapacityProvisioned", "limits": {"cpu": "1"}}, "have no room since leave no room for one more"),
        (
            {"reason": "LimitedByPool", "message": "a chunk may run on no node that could be bought",
             "limits": {"cpu": "1"}},
            "have no room since",
        ),
    ],
)  # fmt: skip
def test_a_buffer_has_its_room_or_says_why_not(arguments: Json, words: str) -> None:
    found = complaints(**arguments)
    assert len(found) == bool(words)
    assert words in "".join(found)


@pytest.mark.parametrize(("size", "is_missing"), [(3, False), (5, True)])
def test_the_law_knows_the_words_in_which_growth_tells_of_a_rule(size: int, is_missing: bool) -> None:
    async def run() -> tuple[int, list[str]]:
        cluster = Cluster("zones")
        witness = Witness(cluster)
        term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "topology.kubernetes.io/zone"}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        cluster.create(node_pool("room", "CX33"), deployment("web", 0, "1", "1Gi", **ON_ROOM, affinity=apart))
        cluster.create(capacity_buffer("spare", "web", replicas=size))
        process = GrowthProcess(cluster).start()
        await cluster.runtime.sleep(300)
        process.kill()
        return missing_chunks(witness, declared(witness)), list(declared_room(witness))

    missing, found = run_virtual(run())
    assert (bool(missing), found) == (is_missing, [])


def test_a_quota_makes_a_buffer_smaller_and_a_share_is_rounded_down() -> None:
    async def run() -> list[int]:
        cluster = Cluster("sizes")
        witness = Witness(cluster)
        cluster.create(deployment("web", 7, "1", "1Gi", **ON_ROOM), capacity_buffer("spare", "web", percentage=50))
        sizes = [each.count for each in declared(witness)]
        cluster.create(resource_quota("team", "default", pods="2"))
        return sizes + [each.count for each in declared(witness)]

    assert run_virtual(run()) == [3, 2]


def test_a_pod_that_would_run_without_the_nodes_of_a_buffer_does_not_wait() -> None:
    async def run(limit: int) -> list[str]:
        cluster = Cluster("behind")
        witness = Witness(cluster)
        cluster.create(node_pool("room", "CX33", limits={"nodes": limit}))
        cluster.create(deployment("web", 0, "1", "1Gi", **ON_ROOM), capacity_buffer("spare", "web", replicas=1))
        cluster.create(node("n1", "2", labels={POOL_LABEL: "room"}), pod("big", "3", "1Gi", **ON_ROOM))
        await cluster.runtime.sleep(1)
        return list(pods_behind_buffers(witness))

    assert len(run_virtual(run(1))) == 1
    assert run_virtual(run(0)) == []
