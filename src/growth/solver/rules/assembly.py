"""Which rules apply to a class, and which counters do they read? Asked once for each class, when it is first asked
about.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from growth.model.pod import HostPort, TopologySpread
from growth.solver.arrays import Mask
from growth.solver.reasons import Kind, Reason, Rule, refusal
from growth.solver.rules.claims import Disk
from growth.solver.rules.counters import DomainCounter, Eligibility, Weight
from growth.solver.rules.node_affinity import NodeAffinity, NodeName, eligible, why_terms_conflict
from growth.solver.rules.node_table import ABSENT, Column
from growth.solver.rules.pod_affinity import (
    InterPodAffinity,
    Term,
    matching,
    matching_all,
    read_terms,
    view,
    why_not_readable,
)
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.ports import NodePorts, conflicts_with
from growth.solver.rules.resources import NodeResourcesFit, Vector
from growth.solver.rules.rule import NodeRule, all_true
from growth.solver.rules.spread import (
    Constraint,
    PodTopologySpread,
    hard_constraints,
    matching_pods,
    read_constraint,
    why_not_spreadable,
)
from growth.solver.rules.taints import NodeUnschedulable, Readable, TaintToleration
from growth.solver.rules.volumes import (
    NodeVolumeLimits,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
    disk_conflicts,
    users_of,
)

if TYPE_CHECKING:
    from growth.solver.rules.neighbours import Neighbours


class Assembled(NamedTuple):
    rules: list[NodeRule]
    counters: list[DomainCounter]
    fit: NodeResourcesFit
    around: InterPodAffinity


def refused_before(pod_class: PodClass) -> tuple[Reason, ...]:
    """Refusals that no node can change, in the scheduler's order."""
    shape = pod_class.shape
    unreadable = (
        refusal(Kind.MALFORMED, Rule.OBJECT, shape.malformed, f"malformed pod: {shape.malformed}")
        if shape.malformed
        else None
    )
    reasons = (
        unreadable,
        why_terms_conflict(shape),
        *pod_class.needs.refusals,
        why_not_spreadable(pod_class),
        why_not_readable(shape),
    )
    return tuple(filter(None, reasons))


def assemble(pod_class: PodClass, neighbours: Neighbours) -> Assembled:
    return _Assembly(pod_class, neighbours).assembled()


class _Assembly:
    """Builds the rules of one class."""

    def __init__(self, pod_class: PodClass, neighbours: Neighbours) -> None:
        self._class = pod_class
        self._shape = pod_class.shape
        self._neighbours = neighbours
        self._table = neighbours.table
        self._counters: list[DomainCounter] = []

    def assembled(self) -> Assembled:
        fit = NodeResourcesFit(self._table, Vector(self._table, self._shape.requests))
        around = self._around()
        rules = [*self._about_the_node(), *self._ports(), fit, *self._volumes(), *self._spread(), around]
        return Assembled(rules, self._counters, fit, around)

    def _about_the_node(self) -> Iterator[NodeRule]:
        shape = self._shape
        yield Readable(self._table)
        yield NodeUnschedulable(self._table, shape.tolerations)
        if shape.required_node:
            yield NodeName(self._table, shape.required_node)
        yield TaintToleration(self._table, shape.tolerations)
        if shape.node_selector or shape.node_affinity is not None:
            yield NodeAffinity(self._table, shape)

    def _ports(self) -> Iterator[NodeRule]:
        if self._shape.host_ports:
            yield NodePorts({port: self._port(port) for port in self._shape.host_ports})

    def _port(self, port: HostPort) -> DomainCounter:
        return self._counter(("port", port), self._table.each, conflicts_with(port))

    def _volumes(self) -> Iterator[NodeRule]:
        needs = self._class.needs
        if needs.exclusive or needs.disks:
            users = {
                claim: self._counter(("claim", claim), self._table.everywhere, users_of(claim))
                for claim in needs.exclusive
            }
            yield VolumeRestrictions(users, {disk.name: self._disk(disk) for disk in needs.disks})
        if needs.attachments or needs.limit_refusal is not None:
            yield NodeVolumeLimits(needs, self._neighbours.book)
        if needs.bound or needs.waiting:
            yield VolumeBinding(self._table, needs, self._neighbours.static_volumes)
        if needs.zones:
            yield VolumeZone(self._table, needs.zones)

    def _disk(self, disk: Disk) -> DomainCounter:
        return self._counter(("disk", disk), self._table.each, disk_conflicts(disk))

    def _spread(self) -> Iterator[NodeRule]:
        stated = hard_constraints(self._class)
        if stated:
            constraints = [read_constraint(spread, self._shape) for spread in stated]
            yield PodTopologySpread([(constraint, self._matching(constraint, stated)) for constraint in constraints])

    def _matching(self, constraint: Constraint, stated: list[TopologySpread]) -> DomainCounter:
        spread, shape = constraint.stated, self._shape
        keys = tuple(sorted({one.topology_key for one in stated}))
        honoured = (
            (shape.node_selector, shape.node_affinity) if spread.node_affinity_policy == "Honor" else None,
            shape.tolerations if spread.node_taints_policy == "Honor" else None,
        )
        return self._counter(
            ("spread", shape.namespace, constraint.selector, spread.topology_key, keys, honoured),
            self._table.column(spread.topology_key),
            matching_pods(constraint.selector, shape.namespace),
            frozenset((shape.namespace,)),
            self._eligibility(spread, keys),
        )

    def _eligibility(self, spread: TopologySpread, keys: tuple[str, ...]) -> Eligibility:
        table, shape = self._table, self._shape
        taints = TaintToleration(table, shape.tolerations)

        def eligibility(span: slice) -> Mask:
            mask = all_true(span)
            for key in keys:
                mask &= table.column(key).codes[span] != ABSENT
            if spread.node_affinity_policy == "Honor":
                mask &= eligible(table, shape, span)
            if spread.node_taints_policy == "Honor":
                mask &= taints.passes(span)
            return mask

        return eligibility

    def _around(self) -> InterPodAffinity:
        shape, namespaces = self._shape, self._neighbours.namespaces
        near = read_terms(shape.affinity, shape.namespace, namespaces)
        apart = read_terms(shape.anti_affinity, shape.namespace, namespaces)
        return InterPodAffinity(
            [(term, self._near(near, term)) for term in near],
            [(term, self._apart(term)) for term in apart],
            [],
            bool(near) and all(term.matches(self._class) for term in near),
        )

    def _near(self, terms: tuple[Term, ...], term: Term) -> DomainCounter:
        return self._counter(
            ("near", terms, term.topology_key), self._table.column(term.topology_key), matching_all(terms), view(terms)
        )

    def _apart(self, term: Term) -> DomainCounter:
        return self._counter(("apart", term), self._table.column(term.topology_key), matching(term), view([term]))

    def _counter(
        self,
        key: Hashable,
        column: Column,
        weight: Weight,
        namespaces: frozenset[str] | None = None,
        eligibility: Eligibility | None = None,
    ) -> DomainCounter:
        found = self._neighbours.counter(
            key, lambda: DomainCounter(self._table, column, weight, namespaces, eligibility)
        )
        self._counters.append(found)
        return found
