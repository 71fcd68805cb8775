"""May the pod's volumes be used on this node? Four rules, in the scheduler's order.

| rule | refuses when |
| --- | --- |
| VolumeRestrictions | a claim for one pod alone is in use anywhere, or a legacy disk is on the node already |
| NodeVolumeLimits | the driver's attach limit would be exceeded, counting each volume once |
| VolumeBinding | a bound volume is not reachable from the node, or a waiting claim finds no volume and none can be made there |
| VolumeZone | a bound volume's zone or region label is not the node's |
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from growth.model.labels import Requirement
from growth.model.volumes import Claim
from growth.solver.arrays import Amounts, Mask
from growth.solver.reasons import Kind, Reason, Rule, refusal
from growth.solver.rules.attachments import AttachmentBook
from growth.solver.rules.claims import ZONE_LABELS, Disk, VolumeNeeds, ZoneDemand
from growth.solver.rules.counters import DomainCounter, Weight
from growth.solver.rules.node_affinity import any_term_matches, describe_terms
from growth.solver.rules.node_table import ABSENT, NodeTable
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.rule import NodeRule, all_false, all_true
from growth.solver.rules.selectors import read_selector
from growth.solver.rules.static_volumes import StaticVolumes

_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_MODERN = dict(zip(ZONE_LABELS[:2], ZONE_LABELS[2:], strict=True))


def users_of(claim: str) -> Weight:
    return lambda pod_class: int(claim in pod_class.needs.claims)


def disk_conflicts(disk: Disk) -> Weight:
    """Uses of the same disk that stand in the way: all, unless both only read."""

    def weight(pod_class: PodClass) -> int:
        return sum(
            1 for used in pod_class.needs.disks if used.name == disk.name and not (used.read_only and disk.read_only)
        )

    return weight


class VolumeRestrictions(NodeRule):
    rule = Rule.VOLUME_RESTRICTIONS
    looks_at_pods = True

    def __init__(self, users: dict[str, DomainCounter], disks: dict[str, DomainCounter]) -> None:
        self._users = users  # of each claim that is for one pod alone, anywhere
        self._disks = disks  # conflicting uses of each disk, by node

    def narrow(self, span: slice, mask: Mask) -> None:
        for counter in (*self._users.values(), *self._disks.values()):
            mask &= counter.on(span) <= 0

    def looks(self, span: slice) -> Iterator[Amounts]:
        for counter in (*self._users.values(), *self._disks.values()):
            yield counter.on(span)

    def avoided(self) -> Iterator[DomainCounter]:
        yield from (*self._users.values(), *self._disks.values())

    def explain(self, index: int) -> Reason:
        for disk, counter in self._disks.items():
            if counter.at(index) > 0:
                return refusal(Kind.VOLUME, self.rule, disk, f"disk {disk} in use")
        claim = next((claim for claim, counter in self._users.items() if counter.total > 0), "")
        return refusal(Kind.VOLUME, self.rule, claim, f"claim {claim} is for one pod alone and in use")


class NodeVolumeLimits(NodeRule):
    rule = Rule.NODE_VOLUME_LIMITS
    looks_at_pods = True

    def __init__(self, needs: VolumeNeeds, book: AttachmentBook) -> None:
        self._needs = needs
        self._book = book
        self._drivers = sorted({attachment.driver for attachment in needs.attachments})

    def passes(self, span: slice) -> Mask:
        if self._needs.limit_refusal is not None:
            return all_false(span)
        mask = all_true(span)
        if self._drivers:
            mask &= ~self._book.is_uncountable(span)
        for driver in self._drivers:
            mask &= self._has_room(driver, span)
        return mask

    def _has_room(self, driver: str, span: slice) -> Mask:
        new = np.zeros(span.stop - span.start, np.int64)
        for attachment in self._needs.attachments:
            if attachment.driver == driver:
                new += ~self._book.holds(attachment, span)
        has_room: Mask = (new == 0) | (self._book.attached(driver, span) + new <= self._book.limit(driver, span))
        return has_room

    def looks(self, span: slice) -> Iterator[Amounts]:
        yield self._book.is_uncountable(span).astype(np.int64)
        for driver in self._drivers:
            yield self._book.attached(driver, span)
            yield self._book.limit(driver, span)
        for attachment in self._needs.attachments:
            yield self._book.holds(attachment, span).astype(np.int64)

    def explain(self, index: int) -> Reason:
        if self._needs.limit_refusal is not None:
            return self._needs.limit_refusal
        one = slice(index, index + 1)
        for driver in self._drivers:
            if not self._has_room(driver, one)[0]:
                detail = f"{self._book.attached(driver, one)[0]} of {self._book.limit(driver, one)[0]} attached"
                return refusal(Kind.VOLUME, self.rule, driver, f"attach limit of {driver} reached", detail)
        return refusal(
            Kind.VOLUME,
            self.rule,
            "",
            "attached volumes cannot be counted: a pod there uses a claim that is not its own",
        )


class VolumeBinding(NodeRule):
    rule = Rule.VOLUME_BINDING

    def __init__(self, table: NodeTable, needs: VolumeNeeds, static: StaticVolumes) -> None:
        self._table = table
        self._needs = needs
        self._static = static

    def passes(self, span: slice) -> Mask:
        mask = self._reaches_bound(span)
        return mask & self._serves_waiting(span) if self._needs.waiting else mask

    def _reaches_bound(self, span: slice) -> Mask:
        mask = all_true(span)
        for volume in self._needs.bound:
            if not volume.exists:
                return all_false(span)
            if volume.node_affinity is not None:
                mask &= any_term_matches(self._table, volume.node_affinity, span, with_fields=False)
        return mask

    def _serves_waiting(self, span: slice) -> Mask:
        """Claims that were promised to a node are made there; the others take the smallest free volume, or are made."""
        mask = all_true(span)
        promised = [claim for claim in self._needs.waiting if claim.selected_node is not None]
        for claim in promised:
            mask &= self._may_make(claim, span)
            mask &= np.array([node.name == claim.selected_node for node in self._table.nodes[span]], np.bool_)
        others = [claim for claim in self._needs.waiting if claim.selected_node is None]
        if any(claim.selector is not None and read_selector(claim.selector).malformed for claim in others):
            return all_false(span)
        found = self._static.matches(others, span)
        for position, claim in enumerate(others):
            mask &= found[position] | self._may_make(claim, span)
        return mask

    def _may_make(self, claim: Claim, span: slice) -> Mask:
        known = self._static.world.classes.get(claim.storage_class or "")
        if known is None or known.provisioner in ("", _NO_PROVISIONER):
            return all_false(span)
        return (
            all_true(span)
            if known.allowed_topologies is None
            else any_term_matches(self._table, known.allowed_topologies, span)
        )

    def alike(self, numbers: Amounts) -> Amounts:
        return np.arange(len(numbers))  # each node may lack another volume

    def explain(self, index: int) -> Reason:
        one = slice(index, index + 1)
        for volume in self._needs.bound:
            if not volume.exists:
                return refusal(Kind.VOLUME, self.rule, volume.name, f"volume {volume.name} does not exist")
            if (
                volume.node_affinity is not None
                and not any_term_matches(self._table, volume.node_affinity, one, with_fields=False)[0]
            ):
                return refusal(
                    Kind.VOLUME,
                    self.rule,
                    volume.name,
                    f"volume {volume.name} needs {describe_terms(volume.node_affinity)}",
                )
        claims = ", ".join(claim.key for claim in self._needs.waiting)
        return refusal(Kind.VOLUME, self.rule, claims, f"no volume for {claims} and none can be made there")


class VolumeZone(NodeRule):
    rule = Rule.VOLUME_ZONE

    def __init__(self, table: NodeTable, zones: tuple[ZoneDemand, ...]) -> None:
        self._table = table
        self._zones = zones

    def passes(self, span: slice) -> Mask:
        """A node without any zone or region label is not held to them."""
        has_zone = all_false(span)
        for key in ZONE_LABELS:
            has_zone |= self._table.column(key).codes[span] != ABSENT
        suits = all_true(span)
        for demand in self._zones:
            suits &= self._is_in(demand, span)
        return ~has_zone | suits

    def _is_in(self, demand: ZoneDemand, span: slice) -> Mask:
        """The old label of a volume is answered by the new one of a node that has no old one."""
        column = self._table.column(demand.key)
        mask = column.flags(Requirement(demand.key, "In", demand.values))[column.codes[span]]
        modern = _MODERN.get(demand.key)
        if modern is not None:
            other = self._table.column(modern)
            mask |= (column.codes[span] == ABSENT) & other.flags(Requirement(modern, "In", demand.values))[
                other.codes[span]
            ]
        return mask

    def alike(self, numbers: Amounts) -> Amounts:
        return np.arange(len(numbers))

    def explain(self, index: int) -> Reason:
        one = slice(index, index + 1)
        demand = next(demand for demand in self._zones if not self._is_in(demand, one)[0])
        text = f"volume {demand.volume} is in {demand.key} {', '.join(demand.values)}"
        return refusal(Kind.VOLUME, self.rule, demand.volume, text)
