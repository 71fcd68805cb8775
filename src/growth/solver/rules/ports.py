"""Are the host ports the pod wants free on the node? The same port of the same protocol conflicts unless both name
different host IPs.
"""

from __future__ import annotations

from collections.abc import Iterator

from growth.model.pod import HostPort
from growth.solver.arrays import Amounts, Mask
from growth.solver.reasons import Kind, Reason, Rule, refusal
from growth.solver.rules.counters import DomainCounter, Weight
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.rule import NodeRule

ANY_IP = "0.0.0.0"  # noqa: S104  (the wildcard of the API, nothing is bound here)


def conflicts(one: HostPort, other: HostPort) -> bool:
    if one.port != other.port or one.protocol != other.protocol:
        return False
    return one.host_ip == other.host_ip or ANY_IP in (one.host_ip, other.host_ip)


def conflicts_with(wanted: HostPort) -> Weight:
    """How many ports of a pod stand in the way of this one."""

    def weight(pod_class: PodClass) -> int:
        return sum(conflicts(wanted, used) for used in pod_class.shape.host_ports)

    return weight


def describe_port(port: HostPort) -> str:
    text = f"{port.port}/{port.protocol}"
    return text if port.host_ip == ANY_IP else f"{port.host_ip}:{text}"


class NodePorts(NodeRule):
    rule = Rule.NODE_PORTS
    looks_at_pods = True

    def __init__(self, uses: dict[HostPort, DomainCounter]) -> None:
        self._uses = uses  # conflicting uses of each wanted port, by node

    def narrow(self, span: slice, mask: Mask) -> None:
        for counter in self._uses.values():
            mask &= counter.on(span) <= 0

    def passes_on(self, index: int) -> bool:
        return all(counter.at(index) <= 0 for counter in self._uses.values())

    def looks(self, span: slice) -> Iterator[Amounts]:
        for counter in self._uses.values():
            yield from counter.looks(span)

    def avoided(self) -> Iterator[DomainCounter]:
        yield from self._uses.values()

    def explain(self, index: int) -> Reason:
        taken = next(port for port, counter in self._uses.items() if counter.at(index) > 0)
        return refusal(Kind.HOSTPORT, self.rule, describe_port(taken), f"host port {describe_port(taken)} taken")
