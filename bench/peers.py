"""A plan of a peer as a cluster: its nodes, with its pods on them. Asked by benchmarks that begin where another planner
stopped.

The plans lie in the folder that the variable GROWTH_BENCH_DATA names: catalogues, pods, and which node holds which.
Without it there is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from growth.model.labels import HOSTNAME, ZONE, Labels
from growth.model.node import OFFERING_LABEL, POOL_LABEL, REQUEST_LABEL, Node
from growth.model.nodepool import DisruptionBudget, NodePool, NodePoolSpec, ServerTypeChoice
from growth.model.offering import Offering
from growth.model.pod import Owner, Pod, PodShape
from growth.model.resources import Resources
from growth.model.snapshot import Snapshot

NOW = 1_800_000_000.0
Json = dict[str, Any]


def peer_cluster(catalogue: str, mix: str, budget: str = "100%") -> Snapshot | None:
    """What the peer's cheapest plan leaves, in one pool that may be consolidated; None where the data is missing."""
    folder = Path(os.environ.get("GROWTH_BENCH_DATA", "")) / "peer_bench"
    plan = folder / "results" / f"{catalogue}__{mix}.json"
    if not plan.is_file():
        return None
    sold = _offerings(_read(folder / "catalogs" / f"{catalogue}.json"))
    shapes = {item["metadata"]["name"]: _shape(item) for item in _read(folder / "inputs" / f"{mix}.json")["pods"]}
    by_place = {(each.server_type, each.location): each for each in sold}
    nodes, pods = {}, {}
    for number, planned in enumerate(_read(plan)["cheapestRun"]["nodeList"]):
        name = f"default-pool-{number:05d}"
        nodes[name] = node_of(name, by_place[planned["instanceType"], planned["zone"]], NOW - 9000)
        owner = Owner("ReplicaSet", "web", "uid-web")
        pods[name] = tuple(Pod(each, shapes[each], each, owner, name, phase="Running") for each in planned["pods"])
    return Snapshot(
        NOW, nodes=nodes, pods_by_node=pods, pools={"default": full_pool(sold, budget)}, offerings=sold, machines_at=NOW
    )


def full_pool(sold: tuple[Offering, ...], budget: str) -> NodePool:
    types = tuple(ServerTypeChoice(name) for name in dict.fromkeys(each.server_type for each in sold))
    return NodePool("default", NodePoolSpec(types, consolidation="Full", budgets=(DisruptionBudget(budget),)))


def node_of(name: str, offering: Offering, created_at: float) -> Node:
    labels = offering.labels.with_items(
        {HOSTNAME: name, POOL_LABEL: "default", OFFERING_LABEL: offering.name, REQUEST_LABEL: name}
    )
    return Node(name, labels, allocatable=offering.allocatable, uid=name, created_at=created_at)


def _offerings(types: list[Json]) -> tuple[Offering, ...]:
    return tuple(
        Offering(
            f"peer-{each['name']}",
            each["name"],
            place["zone"],
            place["price"],
            _amounts(each["allocatable"]),
            Labels({ZONE: place["zone"]}),
        )
        for each in types
        for place in each["offerings"]
        if place["available"] and place["capacityType"] == "on-demand"
    )


def _amounts(given: Json) -> Resources:
    return Resources({"cpu": given["cpuMillis"], "memory": given["memoryBytes"], "pods": given["pods"]})


def _shape(item: Json) -> PodShape:
    return PodShape(requests=Resources.parse(item["spec"]["containers"][0]["resources"]["requests"]))


def _read(path: Path) -> Any:
    return msgspec.json.decode(path.read_bytes())
