"""Small worlds to look at, and how an event of the stream is read."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from growth.model.labels import Labels
from growth.model.node import Node
from growth.model.nodepool import NodePool, NodePoolSpec, ServerTypeChoice
from growth.model.offering import Offering
from growth.model.pod import Owner, Pod, PodShape
from growth.model.resources import Resources
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.web.notes import Notes
from growth.web.state import Look

WEB = PodShape(requests=Resources.parse({"cpu": "500m", "memory": "1Gi"}))
OFFERING = Offering("sim-cx32", "CX32", "fsn1", 0.02, Resources.parse({"cpu": "4", "memory": "8Gi"}))
POOL = NodePool("default", NodePoolSpec(server_types=(ServerTypeChoice("CX32"),)))


def pod(name: str, node: str = "", workload: str = "web", shape: PodShape = WEB, phase: str = "Running") -> Pod:
    owner = Owner("ReplicaSet", f"{workload}-5d9f7c", workload)
    return Pod(name, shape, name, owner, node, phase=phase if node else "Pending", created_at=5.0)


def node(name: str, **changed: Any) -> Node:
    size = Resources.parse({"cpu": "4", "memory": "8Gi"})
    made = Node(name, Labels({"topology.kubernetes.io/zone": "fsn1"}), allocatable=size, pool="default")
    return replace(made, offering="sim-cx32", **changed)


def world(nodes: dict[str, tuple[Pod, ...]], waiting: tuple[Pod, ...] = (), **other: object) -> Snapshot:
    return Snapshot(
        100.0,
        nodes={name: node(name) for name in nodes},
        pods_by_node={name: pods for name, pods in nodes.items() if pods},
        waiting_pods=waiting,
        pools={"default": POOL},
        offerings=(OFFERING,),
        **other,  # type: ignore[arg-type]
    )


def look(snapshot: Snapshot, notes: Notes | None = None, bound: float | None = None) -> Look:
    return Look(snapshot, Settings(), notes or Notes(lambda: 100.0), object(), bound_per_hour=bound)


def read(event: bytes) -> tuple[str, Any]:
    """The name of an event, and what it says."""
    number, name, data, *_ = event.decode().split("\n")
    assert number.startswith("id: ")
    return name.removeprefix("event: "), msgspec.json.decode(data.removeprefix("data: "))
