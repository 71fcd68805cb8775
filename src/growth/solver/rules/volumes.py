"""May the pod's volumes be used on this node? Four rules, in the scheduler's order.

| rule | refuses when |
| --- | --- |
| VolumeRestrictions | a claim for one pod alone is in use anywhere, or a legacy disk is on the node already |
| NodeVolumeLimits | the driver's attach limit would be exceeded, counting each volume once |
| VolumeBinding | a bound volume cannot be reached from the node, or a waiting claim finds or makes none there |
| VolumeZone | a bound volume's zone or region label is not the node's |

A waiting claim takes a volume that is reserved for it or nothing; otherwise the smallest free one that suits. Claims
choose in order of size, and no two take the same volume.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from growth.model.labels import Requirement
from growth.model.snapshot import VolumeWorld
from growth.model.volumes import Claim, Volume
from growth.solver.arrays import Amounts, Mask
from growth.solver.reasons import Kind, Reason, Rule, refusal
from growth.solver.rules.claims import ZONE_LABELS, AttachmentBook, BoundVolume, Disk, VolumeNeeds, ZoneDemand
from growth.solver.rules.node_table import ABSENT, NodeTable, all_false, all_true
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.rule import DomainCounter, NodeRule, Weight, grouped
from growth.solver.rules.selectors import any_term_matches, describe_terms, labelled, read_selector

_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_MODERN = dict(zip(ZONE_LABELS[:2], ZONE_LABELS[2:], strict=True))


def users_of(claim: str) -> Weight:
    return lambda pod_class: int(claim in pod_class.needs.claims)


def disk_conflicts(disk: Disk) -> Weight:
    """Uses of the same disk that keep this one away: all, unless both only read."""

    def weight(pod_class: PodClass) -> int:
        uses = (used for used in pod_class.needs.disks if used.name == disk.name)
        return sum(not (used.read_only and disk.read_only) for used in uses)

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
        text = "attached volumes cannot be counted: a pod there uses a claim that is not its own"
        return refusal(Kind.VOLUME, self.rule, "", text)


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
            mask &= self._reaches(volume, span)
        return mask

    def _reaches(self, volume: BoundVolume, span: slice) -> Mask:
        if not volume.exists or volume.node_affinity is None:
            return all_true(span) if volume.exists else all_false(span)
        return any_term_matches(self._table, volume.node_affinity, span, with_fields=False)

    def _serves_waiting(self, span: slice) -> Mask:
        """Claims that were promised to a node are made there; the others take the smallest free volume, or are made."""
        mask = all_true(span)
        promised = [claim for claim in self._needs.waiting if claim.selected_node is not None]
        for claim in promised:
            mask &= self._static.may_make(claim, span)
            mask &= np.array([node.name == claim.selected_node for node in self._table.nodes[span]], np.bool_)
        others = [claim for claim in self._needs.waiting if claim.selected_node is None]
        if any(claim.selector is not None and read_selector(claim.selector).malformed for claim in others):
            return all_false(span)
        found = self._static.matches(others, span)
        for position, claim in enumerate(others):
            mask &= found[position] | self._static.may_make(claim, span)
        return mask

    def groups(self, numbers: Amounts) -> list[Amounts]:
        return grouped(numbers, numbers)  # each node may lack another volume

    def explain(self, index: int) -> Reason:
        one = slice(index, index + 1)
        for volume in self._needs.bound:
            if not volume.exists:
                return refusal(Kind.VOLUME, self.rule, volume.name, f"volume {volume.name} does not exist")
            if not self._reaches(volume, one)[0]:
                text = f"volume {volume.name} needs {describe_terms(volume.node_affinity or ())}"
                return refusal(Kind.VOLUME, self.rule, volume.name, text)
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
        mask = labelled(self._table, Requirement(demand.key, "In", demand.values), span)
        modern = _MODERN.get(demand.key)
        if modern is not None:
            is_absent = self._table.column(demand.key).codes[span] == ABSENT
            mask |= is_absent & labelled(self._table, Requirement(modern, "In", demand.values), span)
        return mask

    def groups(self, numbers: Amounts) -> list[Amounts]:
        return grouped(numbers, numbers)

    def explain(self, index: int) -> Reason:
        one = slice(index, index + 1)
        demand = next(demand for demand in self._zones if not self._is_in(demand, one)[0])
        text = f"volume {demand.volume} is in {demand.key} {', '.join(demand.values)}"
        return refusal(Kind.VOLUME, self.rule, demand.volume, text)


class Reach(NamedTuple):
    """A volume and the nodes of the span it can be used on."""

    volume: str
    nodes: Mask


class Offers(NamedTuple):
    """What a claim may take: volumes reserved for it, and free ones, the smallest first."""

    reserved: list[Reach]
    free: list[Reach]


class StaticVolumes:
    """The volumes that no claim uses yet."""

    def __init__(self, table: NodeTable, world: VolumeWorld) -> None:
        self._table = table
        self.world = world

    @cached_property
    def _free(self) -> dict[str, list[Volume]]:
        """By class, smallest first."""
        free: dict[str, list[Volume]] = {}
        for volume in sorted(self.world.volumes.values(), key=lambda one: (one.capacity_bytes, one.name)):
            if not volume.claim and volume.phase == "Available":
                free.setdefault(volume.storage_class, []).append(volume)
        return free

    @cached_property
    def _reserved(self) -> dict[tuple[str, str], list[Volume]]:
        """By class and the claim they are reserved for."""
        reserved: dict[tuple[str, str], list[Volume]] = {}
        for name in sorted(self.world.volumes):
            volume = self.world.volumes[name]
            if volume.claim:
                reserved.setdefault((volume.storage_class, volume.claim), []).append(volume)
        return reserved

    def matches(self, claims: list[Claim], span: slice) -> list[Mask]:
        """For each claim: on which nodes of the span does it find a volume?"""
        order = sorted(range(len(claims)), key=lambda position: claims[position].request_bytes)
        offers = [self._offers(claim, span) for claim in claims]
        found = [all_false(span) for _ in claims]
        if any(offer.reserved or offer.free for offer in offers):
            for node in range(span.stop - span.start):
                for position in _choose(order, offers, node, set()):
                    found[position][node] = True
        return found

    def choose(self, claims: Sequence[Claim], index: int, taken: Collection[str]) -> dict[str, str] | None:
        """For each of these unbound claims, by its key: the volume that it takes on this node, apart from those that
        are taken; empty: it is made there. None: for one of them neither is possible.
        """
        one, others = slice(index, index + 1), [claim for claim in claims if claim.selected_node is None]
        order = sorted(range(len(others)), key=lambda position: others[position].request_bytes)
        chosen = _choose(order, [self._offers(claim, one) for claim in others], 0, set(taken))
        found = {others[position].key: name for position, name in chosen.items()}
        if not all(claim.key in found or self.may_make(claim, one)[0] for claim in claims):
            return None
        return {claim.key: found.get(claim.key, "") for claim in claims}

    def may_make(self, claim: Claim, span: slice) -> Mask:
        known = self.world.classes.get(claim.storage_class or "")
        if known is None or known.provisioner in ("", _NO_PROVISIONER):
            return all_false(span)
        terms = known.allowed_topologies
        return all_true(span) if terms is None else any_term_matches(self._table, terms, span)

    def _offers(self, claim: Claim, span: slice) -> Offers:
        storage_class = claim.storage_class or ""
        selector = None if claim.selector is None else read_selector(claim.selector)

        def may_take(volume: Volume) -> bool:
            is_selected = selector is None or selector.matches(volume.labels)
            return is_selected and set(claim.access_modes) <= set(volume.access_modes)

        reserved = (
            one for one in self._reserved.get((storage_class, claim.key), ()) if one.claim_uid in ("", claim.uid)
        )
        free = (one for one in self._free.get(storage_class, ()) if may_take(one))
        return Offers(
            [self._reach(volume, span) for volume in reserved if _suits(volume, claim)],
            [self._reach(volume, span) for volume in free if _suits(volume, claim)],
        )

    def _reach(self, volume: Volume, span: slice) -> Reach:
        if volume.node_affinity is None:
            return Reach(volume.name, all_true(span))
        return Reach(volume.name, any_term_matches(self._table, volume.node_affinity, span, with_fields=False))


def _choose(order: list[int], offers: list[Offers], node: int, taken: set[str]) -> dict[int, str]:
    """Which claim takes which volume on one node?"""
    chosen: dict[int, str] = {}
    for position in order:
        offer = offers[position]
        reserved = next((reach for reach in offer.reserved if reach.volume not in taken), None)
        candidates = offer.free if reserved is None else [reserved]
        name = next((reach.volume for reach in candidates if reach.volume not in taken and reach.nodes[node]), None)
        if name is not None:
            taken.add(name)
            chosen[position] = name
    return chosen


def _suits(volume: Volume, claim: Claim) -> bool:
    """What holds on every node: size, mode, attributes, not on its way out."""
    return (
        volume.capacity_bytes >= claim.request_bytes
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and volume.deleted_at is None
    )
