"""What can scheduling see of this pod? From wire to PodShape. Asked by `PodDecoder` for each shape not seen before.

A part that cannot be read is left out and named in `malformed`; the other parts stay, so that the pod still counts on
its node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Raw

from growth.kube.codec.rules import node_term, node_terms, pod_term, toleration, topology_spread
from growth.kube.codec.text import Part, UnreadableError, read, read_raw_labels
from growth.kube.codec.volumes import volume_uses
from growth.kube.codec.wire import (
    WireAny,
    WireCondition,
    WireContainer,
    WireContainerStatus,
    WirePodSpec,
    WirePodStatus,
    WirePort,
    WireQuantities,
)
from growth.kube.codec.wire_cluster import WireAffinity, WirePodAffinity, WireSpread, WireToleration
from growth.model.labels import NO_LABELS, Labels, NodeSelectorTerm
from growth.model.pod import (
    HostPort,
    PodAffinityTerm,
    PodShape,
    PreferredNodes,
    PreferredPods,
    Toleration,
    TopologySpread,
)
from growth.model.pod_requests import Asked, PodAsked, Quantities, effective_requests
from growth.model.quantity import QuantityError
from growth.model.resources import NOTHING, Resources

NodesWanted: TypeAlias = tuple[tuple[NodeSelectorTerm, ...] | None, tuple[PreferredNodes, ...]]
PodsWanted: TypeAlias = tuple[tuple[PodAffinityTerm, ...], tuple[PreferredPods, ...]]

_quantities = msgspec.json.Decoder(dict[str, str | int | float] | None)
_resources = msgspec.json.Decoder(WireQuantities | None)
_ports = msgspec.json.Decoder(tuple[WirePort, ...] | None)
_tolerations = msgspec.json.Decoder(tuple[WireToleration, ...] | None)
_affinity = msgspec.json.Decoder(WireAffinity | None)
_spread = msgspec.json.Decoder(tuple[WireSpread, ...] | None)
_conditions = msgspec.json.Decoder(tuple[WireCondition, ...] | None)
_number = msgspec.json.Decoder(int | None)
_text = msgspec.json.Decoder(str | None)
_switch = msgspec.json.Decoder(bool | None)
_claims = msgspec.json.Decoder(tuple[WireAny, ...] | None)

_NO_AFFINITY = WireAffinity()
_NO_POD_AFFINITY = WirePodAffinity()
_NO_STATUS = WirePodStatus()
_NO_NODES_WANTED: NodesWanted = (None, ())
_NO_PODS_WANTED: PodsWanted = ((), ())


class ShapeSource(msgspec.Struct, frozen=True, gc=False):
    """All parts of a pod that its shape is read from."""

    namespace: str
    labels: Raw
    spec: WirePodSpec
    status: WirePodStatus = _NO_STATUS
    is_settled_daemon: bool = False  # a DaemonSet's bound pod never moves: the rule naming its own node is dropped
    required_node: str = ""


class _Parts:
    """Reads part after part and keeps the sentences on what could not be read."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def take(self, reader: Callable[[], Part], otherwise: Part) -> Part:
        try:
            return reader()
        except (UnreadableError, QuantityError) as error:
            self.problems.append(str(error))
            return otherwise


def read_shape(source: ShapeSource) -> PodShape:
    spec, parts = source.spec, _Parts()
    labels = parts.take(lambda: read_raw_labels(source.labels), NO_LABELS)
    affinity = parts.take(lambda: read(_affinity, spec.affinity, "spec.affinity"), None) or _NO_AFFINITY
    settled = source.is_settled_daemon
    node_affinity, preferred_nodes = parts.take(lambda: _nodes_wanted(affinity, settled), _NO_NODES_WANTED)
    near, preferred_near = parts.take(lambda: _pods_wanted(affinity.pod_affinity, labels), _NO_PODS_WANTED)
    apart, preferred_apart = parts.take(lambda: _pods_wanted(affinity.pod_anti_affinity, labels), _NO_PODS_WANTED)
    if not spec.containers:
        parts.problems.append("spec.containers: there are none")
    return PodShape(
        namespace=source.namespace,
        labels=labels,
        requests=parts.take(lambda: _requests(spec, source.status), NOTHING),
        tolerations=parts.take(lambda: _tolerated(spec), ()),
        node_selector=parts.take(lambda: read_raw_labels(spec.node_selector, "spec.nodeSelector"), NO_LABELS),
        node_affinity=node_affinity,
        preferred_nodes=preferred_nodes,
        affinity=near,
        anti_affinity=apart,
        preferred_affinity=preferred_near,
        preferred_anti_affinity=preferred_apart,
        spread=parts.take(lambda: _spread_rules(spec), ()),
        host_ports=parts.take(lambda: tuple(_host_ports(spec)), ()),
        volumes=parts.take(lambda: tuple(volume_uses(spec.volumes or ())), ()),
        priority=parts.take(lambda: read(_number, spec.priority, "spec.priority") or 0, 0),
        scheduler_name=parts.take(lambda: read(_text, spec.scheduler_name, "spec.schedulerName"), None)
        or "default-scheduler",
        never_preempts=parts.take(lambda: read(_text, spec.preemption_policy, "spec.preemptionPolicy"), None)
        == "Never",
        required_node=source.required_node,
        uses_resource_claims=parts.take(lambda: bool(read(_claims, spec.resource_claims, "spec.resourceClaims")), True),
        malformed="; ".join(parts.problems),
    )


def _tolerated(spec: WirePodSpec) -> tuple[Toleration, ...]:
    return tuple(toleration(wire) for wire in read(_tolerations, spec.tolerations, "spec.tolerations") or ())


def _spread_rules(spec: WirePodSpec) -> tuple[TopologySpread, ...]:
    wires = read(_spread, spec.topology_spread_constraints, "spec.topologySpread") or ()
    return tuple(topology_spread(wire) for wire in wires)


def _nodes_wanted(affinity: WireAffinity, is_settled_daemon: bool) -> NodesWanted:
    wire = affinity.node_affinity
    if wire is None:
        return None, ()
    required = node_terms(wire.required) if wire.required is not None else None
    if required is not None and is_settled_daemon:
        required = _without_own_node(required)
    return required, tuple(PreferredNodes(one.weight, node_term(one.preference)) for one in wire.preferred or ())


def _without_own_node(terms: tuple[NodeSelectorTerm, ...]) -> tuple[NodeSelectorTerm, ...] | None:
    """The terms without the name of the node, so that all pods of a DaemonSet have one shape."""
    free = tuple(NodeSelectorTerm(term.expressions) for term in terms)
    return free if all(term.expressions for term in free) else None


def _pods_wanted(wire: WirePodAffinity | None, labels: Labels) -> PodsWanted:
    wire = wire or _NO_POD_AFFINITY
    preferred = (PreferredPods(one.weight, pod_term(one.pod_affinity_term, labels)) for one in wire.preferred or ())
    return tuple(pod_term(term, labels) for term in wire.required or ()), tuple(preferred)


def _host_ports(spec: WirePodSpec) -> Iterator[HostPort]:
    on_host = read(_switch, spec.host_network, "spec.hostNetwork")
    sidecars = [container for container in spec.init_containers or () if _is_sidecar(container)]
    for container in (*sidecars, *(spec.containers or ())):
        for port in read(_ports, container.ports, f"container {_name(container)}: ports") or ():
            number = port.host_port or (port.container_port if on_host else 0) or 0
            if not 0 <= number <= 65535:
                raise UnreadableError(f"container {_name(container)}: host port {number} is not between 1 and 65535")
            if number:
                address = port.host_ip or "0.0.0.0"  # noqa: S104  (the API's wildcard)
                yield HostPort(number, port.protocol or "TCP", address)


def _name(container: WireContainer | WireContainerStatus) -> str:
    return read(_text, container.name, "container name") or ""


def _is_sidecar(container: WireContainer) -> bool:
    return bytes(container.restart_policy) == b'"Always"'


def _requests(spec: WirePodSpec, status: WirePodStatus) -> Resources:
    all_statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    statuses = {_name(one): one for one in all_statuses}
    return effective_requests(
        PodAsked(
            containers=[_asked(container, statuses) for container in spec.containers or ()],
            init_containers=[_asked(container, statuses) for container in spec.init_containers or ()],
            pod_level=_asked_by_pod(spec, status),
            overhead=read(_quantities, spec.overhead, "spec.overhead") or {},
            is_resize_infeasible=_is_resize_infeasible(status),
        )
    )


def _asked(container: WireContainer, statuses: Mapping[str, WireContainerStatus]) -> Asked:
    name = _name(container)
    asked = read(_resources, container.resources, f"container {name}: resources") or WireQuantities()
    had = statuses.get(name)
    actual, allocated = _had(had.resources, had.allocated_resources, f"container {name}") if had else (None, {})
    return Asked(name, asked.requests or {}, asked.limits or {}, actual, allocated, _is_sidecar(container))


def _asked_by_pod(spec: WirePodSpec, status: WirePodStatus) -> Asked:
    asked = read(_resources, spec.resources, "spec.resources") or WireQuantities()
    actual, allocated = _had(status.resources, status.allocated_resources, "pod")
    return Asked("", asked.requests or {}, asked.limits or {}, actual, allocated)


def _had(resources: Raw, allocated: Raw, where: str) -> tuple[Quantities | None, Quantities]:
    actual = read(_resources, resources, f"{where}: status resources")
    given = read(_quantities, allocated, f"{where}: allocatedResources") or {}
    return (actual.requests or {}) if actual else None, given


def _is_resize_infeasible(status: WirePodStatus) -> bool:
    conditions = read(_conditions, status.conditions, "status.conditions") or ()
    return any(condition.type == "PodResizePending" and condition.reason == "Infeasible" for condition in conditions)
