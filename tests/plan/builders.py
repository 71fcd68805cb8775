"""Small worlds for plans: "given these objects, this decision". Amounts are written as people write them (cpu, MiB)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from growth.model.action import (
    Action,
    CreateNodeRequest,
    UnmarkScaleDown,
    WriteNodeRequestStatus,
)
from growth.model.api import FINALIZER
from growth.model.decision import Decision
from growth.model.instant import format_instant
from growth.model.labels import ARCHITECTURE, HOSTNAME, Labels
from growth.model.node import OFFERING_LABEL, POOL_LABEL, REQUEST_LABEL, Node
from growth.model.nodepool import NodePool, NodePoolSpec, NodePoolStatus, PoolTrials, ServerTypeChoice
from growth.model.noderequest import NodeRequest, NodeRequestSpec, NodeRequestStatus, RequestPhase
from growth.model.offering import CLUSTER_LABEL, REQUEST_UID_LABEL, Machine, Offering
from growth.model.pod import Owner, Pod, PodShape
from growth.model.resources import Resources
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_up import scale_up
from growth.plan.world.swaps import template_digest
from growth.solver.purchase.solve import solve

MIB = 1024 * 1024
NOW = 1_800_000_000.0
CLUSTER = "cluster-1"
AT_ONCE = Settings(batch_quiet_seconds=0.0)

HETZNER = {  # cpu, GiB, price per hour
    "cx22": (2, 4, 0.0060), "cx32": (4, 8, 0.0106), "cx42": (8, 16, 0.0170), "cx52": (16, 32, 0.0314),
    "cax11": (2, 4, 0.0074), "cax21": (4, 8, 0.0122), "cax31": (8, 16, 0.0226), "cax41": (16, 32, 0.0443),
    "ccx13": (2, 8, 0.0386), "ccx63": (48, 192, 0.5347),
}  # fmt: skip


def amounts(cpu: float = 0, mib: int = 0, pods: int = 0, **more: int) -> Resources:
    named = {name.replace("__", "/").replace("_", "."): amount for name, amount in more.items()}
    return Resources({"cpu": round(cpu * 1000), "memory": mib * MIB, "pods": pods, **named})


def offering(
    server_type: str, cpu: float, mib: int, price: float, location: str = "fsn1", pods: int = 110, **more: Any
) -> Offering:
    architecture = more.pop("architecture", "arm64" if server_type.lower().startswith("cax") else "amd64")
    labels = Labels({ARCHITECTURE: architecture, **more.pop("labels", {})})
    devices = more.pop("devices", {})
    allocatable = amounts(cpu, mib, pods) + Resources(devices)
    return Offering(f"sim-{server_type.lower()}", server_type, location, price, allocatable, labels, **more)


def hetzner(*types: str, location: str = "fsn1") -> tuple[Offering, ...]:
    chosen = types or tuple(HETZNER)
    return tuple(
        offering(name, HETZNER[name][0], HETZNER[name][1] * 1024, HETZNER[name][2], location) for name in chosen
    )


def pool(name: str = "default", *types: str | ServerTypeChoice, **fields: Any) -> NodePool:
    """Its machines have been of use before, unless its status says otherwise."""
    meta = {
        key: fields.pop(key)
        for key in ("annotations", "deleted_at", "generation", "finalizers", "status")
        if key in fields
    }
    choices = tuple(
        each if isinstance(each, ServerTypeChoice) else ServerTypeChoice(each) for each in types or ("small",)
    )
    meta.setdefault("finalizers", (FINALIZER,))
    spec = NodePoolSpec(choices, **fields)
    meta.setdefault("status", NodePoolStatus(trials=PoolTrials(template=template_digest(spec))))
    return NodePool(name, spec, uid=f"uid-{name}", resource_version="1", **meta)


def limited(name: str, most: int | None = None, least: int = 0, priority: int = 0) -> ServerTypeChoice:
    return ServerTypeChoice(name, least, most, priority)


def shape(cpu: float = 0, mib: int = 0, **fields: Any) -> PodShape:
    extra = fields.pop("devices", {})
    for key in ("labels", "node_selector"):
        if key in fields:
            fields[key] = Labels(fields[key])
    if "pool" in fields:
        fields["node_selector"] = Labels({POOL_LABEL: fields.pop("pool")})
    return PodShape(requests=Resources({**amounts(cpu, mib), **extra}), **fields)


def pod(name: str, cpu: float = 1, mib: int = 512, **fields: Any) -> Pod:
    """A waiting pod that the scheduler found no place for."""
    of_pod = (
        "owner",
        "node_name",
        "nominated_node",
        "phase",
        "created_at",
        "deleted_at",
        "unschedulable_at",
        "is_gated",
        "is_mirror",
        "annotations",
        "group",
    )
    given = {key: fields.pop(key) for key in of_pod if key in fields}
    given.setdefault("created_at", NOW - 60)
    given.setdefault("unschedulable_at", NOW - 60)
    if "annotations" in given:
        given["annotations"] = Labels(given["annotations"])
    pod_shape = fields.pop("shape", None) or shape(cpu, mib, **fields)
    return Pod(name, pod_shape, uid=f"uid-{name}", resource_version="1", **given)


def pods(count: int, cpu: float = 1, mib: int = 512, prefix: str = "p", **fields: Any) -> tuple[Pod, ...]:
    one = fields.pop("shape", None) or shape(cpu, mib, **fields)
    return tuple(pod(f"{prefix}{number:04d}", shape=one) for number in range(count))


def bound(pod_: Pod, node_name: str, phase: str = "Running") -> Pod:
    return replace(pod_, node_name=node_name, phase=phase, unschedulable_at=None)


def daemon_pod(name: str, node_name: str, cpu: float = 0.1, daemon: str = "agent") -> Pod:
    return Pod(
        name, shape(cpu, 64), uid=f"uid-{name}", owner=Owner("DaemonSet", daemon), node_name=node_name, phase="Running"
    )


def node(name: str, of_pool: str = "default", of: Offering | None = None, **fields: Any) -> Node:
    """A registered, Ready node of growth's."""
    labels = {HOSTNAME: name, **(dict(of.labels) if of is not None else {})}
    if of_pool:
        labels |= {POOL_LABEL: of_pool, REQUEST_LABEL: name, OFFERING_LABEL: of.name if of is not None else "sim-small"}
    labels |= fields.pop("labels", {})
    fields.setdefault("allocatable", of.allocatable if of is not None else amounts(4, 8192, 110))
    fields.setdefault("created_at", NOW - 3600)
    fields.setdefault("ready_changed_at", NOW - 3500)
    fields["annotations"] = Labels(fields.get("annotations", {}))
    of_label = labels.get(OFFERING_LABEL, "")
    fields.setdefault("pool", labels.get(POOL_LABEL, ""))
    fields.setdefault("offering", of_label)
    return Node(name, Labels(labels), uid=f"uid-{name}", resource_version="7", **fields)


def request(
    name: str,
    of: Offering,
    phase: RequestPhase = "Pending",
    of_pool: str = "default",
    planned: Iterable[str] = (),
    **fields: Any,
) -> NodeRequest:
    status_fields = {
        key: fields.pop(key) for key in ("machine_id", "events", "expires_at", "added_pods") if key in fields
    }
    changed_at = fields.get("changed_at", NOW - 5)
    status = NodeRequestStatus(
        phase,
        node_id=name if phase == "Provisioning" else "",
        last_transition_time=format_instant(changed_at),
        **status_fields,
    )
    quantities = {key: (f"{amount}m" if key == "cpu" else str(amount)) for key, amount in of.allocatable.items()}
    spec = NodeRequestSpec(of_pool, of.name, of.location, quantities, tuple(planned), fields.pop("reason", "Demand"))
    fields.setdefault("created_at", NOW - 10)
    fields.setdefault("changed_at", changed_at)
    fields.setdefault("finalizers", (FINALIZER,))
    return NodeRequest(name, spec, status, uid=f"uid-{name}", resource_version="3", **fields)


def machine(name: str, of: Offering, request_uid: str | None = None, **fields: Any) -> Machine:
    labels = Labels({CLUSTER_LABEL: CLUSTER, REQUEST_UID_LABEL: f"uid-{name}" if request_uid is None else request_uid})
    fields.setdefault("created_at", NOW - 8)
    return Machine(f"id-{name}", name, of.name, of.location, labels, **fields)


def world(
    pods: Iterable[Pod] = (),
    pools: Iterable[NodePool] = (),
    offerings: Iterable[Offering] = (),
    nodes: Iterable[Node] = (),
    requests: Iterable[NodeRequest] = (),
    machines: Iterable[Machine] | None = None,
    now: float = NOW,
    **fields: Any,
) -> Snapshot:
    """Pods with a node are bound there; machines given (even none) were listed just now."""
    by_node: dict[str, tuple[Pod, ...]] = {}
    for each in pods:
        if each.node_name:
            by_node[each.node_name] = (*by_node.get(each.node_name, ()), each)
    fields.setdefault("machines_at", None if machines is None else now)
    bound_priorities = (each.shape.priority for each in pods if each.node_name)
    fields.setdefault("lowest_priority", min(bound_priorities, default=math.inf))
    return Snapshot(
        now=now,
        nodes={each.name: each for each in nodes},
        pods_by_node=by_node,
        waiting_pods=tuple(each for each in pods if not each.node_name),
        pools={each.name: each for each in pools},
        requests={each.name: each for each in requests},
        offerings=tuple(offerings),
        machines={each.name: each for each in machines or ()},
        removals={each.name: each for each in fields.pop("removals", ())},
        **fields,
    )


# ----------------------------------------------------------------------------------- walking a plan


def run_scale_up(
    snapshot: Snapshot, ledger: scale_up.Ledger | None = None, settings: Settings = AT_ONCE
) -> Decision[scale_up.Ledger]:
    """As the loop does it: ask, solve, plan."""
    ledger = ledger or scale_up.Ledger()
    asked = scale_up.question(snapshot, ledger, settings)
    solution = None if asked is None else solve(asked.problem)
    return scale_up.plan(snapshot, ledger, settings, asked, solution)


def orders(actions: Iterable[Action]) -> list[NodeRequestSpec]:
    return [action.spec for action in actions if isinstance(action, CreateNodeRequest)]


def ordered(actions: Iterable[Action]) -> list[str]:
    """Offerings ordered, sorted."""
    return sorted(spec.target_offering for spec in orders(actions))


def notes_by_reason(decision: Decision[Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for note in decision.notes:
        found.setdefault(note.reason, []).append(f"{note.about}: {note.message}")
    return found


def applied(snapshot: Snapshot, actions: Iterable[Action], seconds: float = 0.0) -> Snapshot:
    """The world after scale-up's actions, as the API server would show it."""
    requests: dict[str, NodeRequest] = dict(snapshot.requests)
    nodes: dict[str, Node] = dict(snapshot.nodes)
    for number, action in enumerate(actions):
        if isinstance(action, CreateNodeRequest):
            name = f"{action.spec.pool}-pool-{len(requests):06d}{number:06d}"
            at = snapshot.now + seconds
            requests[name] = NodeRequest(
                name,
                action.spec,
                uid=f"uid-{name}",
                finalizers=(FINALIZER,),
                created_at=at,
                changed_at=at,
                resource_version="1",
            )
        elif isinstance(action, WriteNodeRequestStatus):
            requests[action.request.name] = replace(requests[action.request.name], status=action.status)
        elif isinstance(action, UnmarkScaleDown):
            old = nodes[action.node.name]
            nodes[old.name] = replace(old, taints=action.taints, annotations=_without_mark(old.annotations))
    return replace(snapshot, now=snapshot.now + seconds, requests=requests, nodes=nodes)


def _without_mark(annotations: Mapping[str, str]) -> Labels:
    return Labels({key: value for key, value in annotations.items() if key != "growth.dev/scale-down-at"})
