"""Which free volume would a waiting claim take on a node? Asked by VolumeBinding, for claims whose class waits for a
consumer.

A volume reserved for the claim is taken or nothing is; otherwise the smallest free one that suits. Claims choose in
order of size, and no two take the same volume."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from growth.model.snapshot import VolumeWorld
from growth.model.volumes import Claim, Volume
from growth.solver.arrays import Mask
from growth.solver.rules.node_affinity import any_term_matches
from growth.solver.rules.node_table import NodeTable
from growth.solver.rules.rule import all_false, all_true
from growth.solver.rules.selectors import read_selector


class Reach(NamedTuple):
    """A volume and the nodes of the span it can be used on."""

    volume: str
    nodes: Mask


class Offers(NamedTuple):
    """What a claim may take: volumes reserved for it, and free ones, the smallest first."""

    reserved: list[Reach]
    free: list[Reach]


class StaticVolumes:
    """The volumes that nobody uses yet."""

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
                _choose(order, offers, found, node)
        return found

    def _offers(self, claim: Claim, span: slice) -> Offers:
        reserved = self._reserved.get((claim.storage_class or "", claim.key), ())
        selector = read_selector(claim.selector) if claim.selector is not None else None
        free = [
            volume
            for volume in self._free.get(claim.storage_class or "", ())
            if _suits(volume, claim)
            and (selector is None or selector.matches(volume.labels))
            and set(claim.access_modes) <= set(volume.access_modes)
        ]
        return Offers(
            [self._reach(volume, span) for volume in reserved if _is_for(volume, claim) and _suits(volume, claim)],
            [self._reach(volume, span) for volume in free],
        )

    def _reach(self, volume: Volume, span: slice) -> Reach:
        if volume.node_affinity is None:
            return Reach(volume.name, all_true(span))
        return Reach(volume.name, any_term_matches(self._table, volume.node_affinity, span, with_fields=False))


def _choose(order: list[int], offers: list[Offers], found: list[Mask], node: int) -> None:
    """Let the claims take their volumes on one node."""
    taken: set[str] = set()
    for position in order:
        offer = offers[position]
        reserved = next((reach for reach in offer.reserved if reach.volume not in taken), None)
        candidates = offer.free if reserved is None else [reserved]
        name = next((reach.volume for reach in candidates if reach.volume not in taken and reach.nodes[node]), None)
        if name is not None:
            taken.add(name)
            found[position][node] = True


def _is_for(volume: Volume, claim: Claim) -> bool:
    return volume.claim == claim.key and volume.claim_uid in ("", claim.uid)


def _suits(volume: Volume, claim: Claim) -> bool:
    """What holds on every node: size, mode, attributes, not on its way out."""
    return (
        volume.capacity_bytes >= claim.request_bytes
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and volume.deleted_at is None
    )
