"""What do a pod's volumes demand of a node, and which volumes are attached where? Read once for each class; the volume
rules and the classes ask.

| state of a claim | demand |
| --- | --- |
| missing, lost, being deleted, or another pod's (ephemeral) | none can meet it: the pod is refused, nothing bought |
| bound | the volume's node affinity and zone labels |
| unbound, its class waits for a consumer | a free volume that suits, or a class that can make one there |
| unbound otherwise | the volume controller must bind it first: the pod is refused |
| ephemeral, no pod named (a template) | what its class allows, as for a claim that waits |

A volume that several pods of a node share is attached once, so `AttachmentBook` counts references, by node, as the
limits of CSI drivers count them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from growth.model.labels import NodeSelectorTerm
from growth.model.pod import PodShape, VolumeUse
from growth.model.snapshot import VolumeWorld
from growth.model.volumes import Claim, Volume, VolumeNode
from growth.solver.arrays import MANY, Amounts, Mask
from growth.solver.reasons import Kind, Reason, Rule, refusal
from growth.solver.rules.node_table import NodeTable, all_false

ZONE_LABELS: Final = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
EXCLUSIVE: Final = "ReadWriteOncePod"
_NO_NODE: Final = VolumeNode("")
_ZONES_APART: Final = "__"  # a volume in several zones names them in one label
_MIGRATED: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
# by the kind before the colon of a disk's name
_MIGRATED_DISKS: Final = {"ebs": "ebs.csi.aws.com", "gce": "pd.csi.storage.gke.io"}
# the scheduler knows no limits for them
_NEVER_COUNTED: Final = ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")


class BoundVolume(Struct, frozen=True, gc=False):
    """A volume that a claim is bound to."""

    name: str
    exists: bool
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None


class ZoneDemand(Struct, frozen=True, gc=False):
    """A zone label of a bound volume: the node must have one of these values."""

    volume: str
    key: str
    values: tuple[str, ...]


class Attachment(Struct, frozen=True, gc=False):
    """One volume of a driver as its limits count it."""

    driver: str
    handle: str


class Disk(Struct, frozen=True, gc=False):
    """A legacy disk that two pods of a node share only for reading."""

    name: str
    read_only: bool


class VolumeNeeds(Struct, frozen=True, cache_hash=True):
    """All that the volume rules can see of a pod."""

    refusals: tuple[Reason, ...] = ()  # before any node is looked at, in the scheduler's order
    limit_refusal: Reason | None = None  # the same, from the rule that only speaks of nodes
    bound: tuple[BoundVolume, ...] = ()
    waiting: tuple[Claim, ...] = ()
    zones: tuple[ZoneDemand, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    is_uncountable: bool = False  # once on a node, attachments there can no longer be counted
    claims: tuple[str, ...] = ()  # namespace/name, ephemeral ones apart
    exclusive: tuple[str, ...] = ()  # those that one pod alone may use
    disks: tuple[Disk, ...] = ()


NO_VOLUMES: Final = VolumeNeeds()


def volume_needs(shape: PodShape, world: VolumeWorld, pod_name: str = "", pod_uid: str = "") -> VolumeNeeds:
    """Read every volume of the shape. Without a pod's name, ephemeral claims are those their template would make."""
    reader = _Reader(shape, world, pod_name, pod_uid)
    named = [use for use in reader.uses if not use.is_ephemeral]
    refusals = (reader.why_not_restrictions(named), reader.why_not_binding(), reader.why_not_zones(named))
    exclusive = {claim.key for claim in map(reader.claim, named) if claim and EXCLUSIVE in claim.access_modes}
    return VolumeNeeds(
        refusals=tuple(filter(None, refusals)),
        limit_refusal=reader.why_not_limits(),
        bound=tuple(reader.bound()),
        waiting=tuple(claim for claim in reader.found if not claim.is_bound),
        zones=tuple(reader.zones(named)),
        attachments=tuple(dict.fromkeys(reader.attachments())),
        is_uncountable=reader.is_uncountable,
        claims=tuple(f"{shape.namespace}/{use.claim}" for use in named),
        exclusive=tuple(sorted(exclusive)),
        disks=tuple(Disk(use.disk, use.read_only) for use in shape.volumes if use.disk),
    )


class _Reader:
    """Looks up the claims of one pod."""

    def __init__(self, shape: PodShape, world: VolumeWorld, pod_name: str, pod_uid: str) -> None:
        self._namespace, self._world, self._pod_name, self._pod_uid = shape.namespace, world, pod_name, pod_uid
        self._disks = [use.disk for use in shape.volumes if use.disk]
        self.uses = [use for use in shape.volumes if not use.disk and not use.driver]
        self.found = [claim for claim in map(self.claim, self.uses) if claim]
        self.is_uncountable = any(_is_nameless(use) or self._why_foreign(use) for use in self.uses)

    def claim(self, use: VolumeUse) -> Claim | None:
        if use.is_ephemeral and not self._pod_name:
            return Claim(self._namespace, use.claim, storage_class=use.storage_class)
        return self._world.claims.get(self._key(use))

    def _key(self, use: VolumeUse) -> str:
        name = f"{self._pod_name}-{use.claim}" if use.is_ephemeral else use.claim
        return f"{self._namespace}/{name}"

    def _why_foreign(self, use: VolumeUse) -> str:
        """An ephemeral claim must have been made for this very pod."""
        claim = self.claim(use) if use.is_ephemeral and self._pod_name else None
        if claim is None or (claim.owner_uid and claim.owner_uid == self._pod_uid):
            return ""
        return f"claim {claim.key} was not made for this pod"

    def _first_refusal(self, rule: Rule, uses: list[VolumeUse], why: Callable[[VolumeUse], str]) -> Reason | None:
        for use in uses:
            problem = why(use)
            if problem:
                return _refuse(rule, self._key(use), problem)
        return None

    def _why_missing(self, use: VolumeUse) -> str:
        return f"claim {self._key(use)} not found" if self.claim(use) is None else ""

    def why_not_restrictions(self, named: list[VolumeUse]) -> Reason | None:
        return self._first_refusal(Rule.VOLUME_RESTRICTIONS, named, self._why_missing)

    def why_not_binding(self) -> Reason | None:
        waiting = (claim for claim in self.found if not claim.is_bound)
        unbound = ", ".join(claim.key for claim in waiting if claim.volume or not self._waits(claim))
        refused = self._first_refusal(Rule.VOLUME_BINDING, self.uses, self._why_unusable)
        if refused is not None or not unbound:
            return refused
        return _refuse(Rule.VOLUME_BINDING, unbound, f"unbound immediate claims {unbound}")

    def _why_unusable(self, use: VolumeUse) -> str:
        claim = self.claim(use)
        if claim is None:
            return self._why_missing(use) + " (waiting for the ephemeral volume controller)" * use.is_ephemeral
        if claim.is_lost:
            return f"claim {claim.key} lost its volume {claim.volume}"
        if claim.deleted_at is not None:
            return f"claim {claim.key} is being deleted"
        return self._why_foreign(use)

    def _waits(self, claim: Claim) -> bool:
        known = self._world.classes.get(claim.storage_class or "")
        return known is not None and known.waits_for_consumer

    def why_not_zones(self, named: list[VolumeUse]) -> Reason | None:
        return self._first_refusal(Rule.VOLUME_ZONE, named, self._why_no_zone)

    def _why_no_zone(self, use: VolumeUse) -> str:
        claim = self.claim(use)
        if not use.claim or claim is None:
            return self._why_missing(use) if use.claim else "a claim without a name"
        if claim.volume:
            is_known = claim.volume in self._world.volumes
            return "" if is_known else f"volume {claim.volume} of claim {claim.key} not found"
        if not claim.storage_class:
            return f"claim {claim.key} has neither volume nor storage class"
        if claim.storage_class not in self._world.classes:
            return f"storage class {claim.storage_class} of claim {claim.key} not found"
        return "" if self._waits(claim) else f"claim {claim.key} is not bound yet"

    def why_not_limits(self) -> Reason | None:
        def why(use: VolumeUse) -> str:
            return "a claim without a name" if _is_nameless(use) else self._why_missing(use) or self._why_foreign(use)

        return self._first_refusal(Rule.NODE_VOLUME_LIMITS, self.uses, why)

    def bound(self) -> Iterator[BoundVolume]:
        for claim in self.found:
            if claim.is_bound:
                volume = self._world.volumes.get(claim.volume)
                yield BoundVolume(claim.volume, volume is not None, volume.node_affinity if volume else None)

    def zones(self, named: list[VolumeUse]) -> Iterator[ZoneDemand]:
        for use in named:
            claim = self.claim(use)
            volume = self._world.volumes.get(claim.volume) if claim else None
            if volume is not None:
                yield from zone_demands(volume)

    def attachments(self) -> Iterator[Attachment]:
        """A claim that is missing, or without driver or handle, is not counted."""
        for claim in self.found:
            volume = self._world.volumes.get(claim.volume)
            made = Attachment(volume.driver, volume.handle) if volume else self._to_be_made(claim)
            if made.driver and made.handle:
                yield made
        for disk in self._disks:
            kind, _, name = disk.partition(":")
            if kind in _MIGRATED_DISKS:
                yield Attachment(_MIGRATED_DISKS[kind], name)

    def _to_be_made(self, claim: Claim) -> Attachment:
        known = self._world.classes.get(claim.storage_class or "")
        provisioner = known.provisioner if known and known.provisioner not in _NEVER_COUNTED else ""
        return Attachment(_MIGRATED.get(provisioner, provisioner), f"?{claim.key}")


def zone_demands(volume: Volume) -> Iterator[ZoneDemand]:
    """A label with an empty zone in it cannot be read and is left out."""
    for key in ZONE_LABELS:
        text = volume.labels.get(key, "")
        zones = tuple(sorted({zone.strip() for zone in text.split(_ZONES_APART)}))
        if all(zones):
            yield ZoneDemand(volume.name, key, zones)


def _is_nameless(use: VolumeUse) -> bool:
    """An ephemeral claim always has a name: it is made of the pod's."""
    return not use.claim and not use.is_ephemeral


def _refuse(rule: Rule, constraint: str, phrase: str) -> Reason:
    return refusal(Kind.VOLUME, rule, constraint, phrase)


class AttachmentBook:
    """References of pods to volumes, by node; limits of drivers, by node."""

    def __init__(self, table: NodeTable, stated: Mapping[str, VolumeNode]) -> None:
        self._table = table
        self._stated = stated
        self._holders: dict[Attachment, dict[int, int]] = {}
        self._attached: dict[str, dict[int, int]] = {}
        self._uncountable: dict[int, int] = {}
        self._limits: dict[str, list[int]] = {}

    def add(self, index: int, needs: VolumeNeeds, amount: int) -> None:
        """So many more (or fewer) pods with these needs on a node."""
        if needs.is_uncountable:
            _count(self._uncountable, index, amount)
        for attachment in needs.attachments:
            held = self._holders.setdefault(attachment, {})
            before = held.get(index, 0)
            _count(held, index, amount)
            _count(self._attached.setdefault(attachment.driver, {}), index, (before + amount > 0) - (before > 0))

    def clear(self) -> None:
        """Nothing is attached any more; the limits stay."""
        self._holders.clear()
        self._attached.clear()
        self._uncountable.clear()

    def forget_node(self, index: int) -> None:
        """The last node is taken off the table."""
        for limits in self._limits.values():
            del limits[index:]

    def limit(self, driver: str, span: slice) -> Amounts:
        """The driver's limit on each node of the span."""
        limits = self._limits.setdefault(driver, [])
        limits.extend(self._limit_on(driver, node.name) for node in self._table.nodes[len(limits) :])
        return np.array(limits[span], np.int64)

    def _limit_on(self, driver: str, node: str) -> int:
        limits = self._stated.get(node, _NO_NODE).limits
        stated = [limit.count for limit in limits if limit.driver == driver and limit.count is not None]
        return stated[-1] if stated else MANY

    def attached(self, driver: str, span: slice) -> Amounts:
        """How many volumes of the driver are attached on each node of the span."""
        return _spread_out(self._attached.get(driver, {}), span)

    def holds(self, attachment: Attachment, span: slice) -> Mask:
        """Is this very volume attached there already?"""
        return _spread_out(self._holders.get(attachment, {}), span) > 0

    def is_uncountable(self, span: slice) -> Mask:
        """A pod there has a claim that is not its own: where limits are stated, the scheduler gives up on the node."""
        if not self._uncountable:
            return all_false(span)
        stated = (self._stated.get(node.name, _NO_NODE).limits for node in self._table.nodes[span])
        limited = [any(limit.count is not None for limit in limits) for limits in stated]
        return (_spread_out(self._uncountable, span) > 0) & np.array(limited, np.bool_)


def _count(counts: dict[int, int], index: int, amount: int) -> None:
    total = counts.get(index, 0) + amount
    if total:
        counts[index] = total
    else:
        counts.pop(index, None)


def _spread_out(counts: dict[int, int], span: slice) -> Amounts:
    out = np.zeros(span.stop - span.start, np.int64)
    if span.stop - span.start == 1:
        out[0] = counts.get(span.start, 0)
        return out
    for index, count in counts.items():
        if span.start <= index < span.stop:
            out[index - span.start] = count
    return out
