"""How does each CapacityBuffer stand? Writes its status and its PodTemplate, only when they say something new. It buys
nothing.

| condition | reasons |
| --- | --- |
| ReadyForProvisioning | AttributesSetSuccessfully; ScalableRefNotFound, PodTemplateNotFound, ResolutionFailed, BufferEmpty |
| Provisioning | CapacityProvisioned: all fits on nodes that exist; RequiresNewCapacity, LimitedByPool, NotReadyForProvisioning |
| LimitedByQuotas | ResourceQuotasAllocated |

`status.replicas` is the number of virtual pods. For a scalableRef, `status.podTemplateRef` names a PodTemplate that the
buffer owns. Buffers with a strategy that growth does not know are somebody else's: nothing is written on them."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import Action, Seen, WriteBufferStatus, WritePodTemplate
from growth.model.api import Condition
from growth.model.capacitybuffer import (
    LIMITED_BY_QUOTAS,
    PROVISIONING,
    READY_FOR_PROVISIONING,
    CapacityBuffer,
    CapacityBufferStatus,
    StoredTemplate,
    TemplateReference,
)
from growth.model.decision import Decision, Settled
from growth.model.instant import format_instant
from growth.model.note import About, Note
from growth.model.outcome import Accepted, Refused, TryLater
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import Kept, keep, look_seconds
from growth.plan.buffers.shortfall import Shortfall
from growth.plan.buffers.virtual_pods import Spare
from growth.plan.world.records import cut

_RETRY_SECONDS: Final = 5.0
_OWN_CONDITIONS: Final = (READY_FOR_PROVISIONING, PROVISIONING, LIMITED_BY_QUOTAS)


class Ledger(Struct, frozen=True):
    looked_at: float = 0.0
    told: Kept | None = None  # all that there is to say of this is written


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    """A status may be a moment old, so that a busy cluster is not searched at every change."""
    world, now = snapshot.buffers, snapshot.now
    if not world.buffers or not world.is_known:
        return Decision(ledger)
    next_look_at = ledger.looked_at + look_seconds(snapshot, settings)
    if ledger.looked_at <= now < next_look_at:
        return Decision(ledger, again_at=next_look_at)
    kept = keep(snapshot, settings)
    if kept is ledger.told:
        return Decision(ledger)
    shortfall = Shortfall(snapshot, settings, kept.missing)
    actions: list[Action] = []
    notes: list[Note] = []
    for spare in kept.spares:
        view = _View(spare, kept, snapshot, shortfall)
        actions += view.template_actions()
        status = view.status()
        if _as_told(status) != _as_told(spare.buffer.status):
            actions.append(WriteBufferStatus(seen_buffer(spare.buffer), status))
            notes += view.notes(status)
    is_told = not actions and not kept.missing  # what is missing may find room with time alone
    return Decision(Ledger(now, kept if is_told else None), tuple(actions), tuple(notes))


def seen_buffer(buffer: CapacityBuffer) -> Seen:
    return Seen(buffer.name, buffer.uid, buffer.resource_version, buffer.namespace)


def _as_told(status: CapacityBufferStatus) -> CapacityBufferStatus:
    """Without the times of its conditions: they follow from the rest."""
    return replace(
        status,
        conditions=tuple(
            replace(condition, last_transition_time="", observed_generation=0) for condition in status.conditions
        ),
    )


class _View:
    """One buffer, looked at from all sides."""

    def __init__(self, spare: Spare, kept: Kept, snapshot: Snapshot, shortfall: Shortfall) -> None:
        self.spare, self.buffer, self.kept, self.snapshot = spare, spare.buffer, kept, snapshot
        self._shortfall = shortfall
        name = (
            self.buffer.spec.pod_template_ref.name
            if self.buffer.spec.pod_template_ref is not None
            else self.buffer.template_name
        )
        self._stored: StoredTemplate | None = snapshot.buffers.templates.get(f"{self.buffer.namespace}/{name}")

    # ------------------------------------------------------------------------------------- template

    def template_actions(self) -> list[Action]:
        """The PodTemplate of a scalableRef follows the workload's own; a foreign one of that name stays as it is."""
        template = self.spare.sized.template
        if self.buffer.spec.scalable_ref is None or template is None or not template.text or self._is_taken:
            return []
        if self._stored is not None and self._stored.digest == template.digest:
            return []
        return [WritePodTemplate(seen_buffer(self.buffer), self.buffer.template_name, template.text, template.digest)]

    @property
    def _is_taken(self) -> bool:
        return (
            self.buffer.spec.scalable_ref is not None
            and self._stored is not None
            and self._stored.owner_uid != self.buffer.uid
        )

    # --------------------------------------------------------------------------------------- status

    def status(self) -> CapacityBufferStatus:
        stored = None if self._stored is None or self._is_taken or self.spare.sized.template is None else self._stored
        others = tuple(each for each in self.buffer.status.conditions if each.type not in _OWN_CONDITIONS)
        return CapacityBufferStatus(
            pod_template_ref=None if stored is None else TemplateReference(stored.name),
            replicas=self.spare.count,
            pod_template_generation=None if stored is None else stored.generation,
            conditions=(self._ready(), self._provisioning(), self._limited(), *others),
            provisioning_strategy=self.buffer.strategy,
        )

    def _ready(self) -> Condition:
        size = self.spare.sized
        return self._condition(READY_FOR_PROVISIONING, size.is_ready, size.reason, size.message)

    def _provisioning(self) -> Condition:
        key, count = self.spare.key, self.spare.count
        if not self.spare.sized.is_ready:
            return self._condition(PROVISIONING, False, "NotReadyForProvisioning", "the buffer has no size yet")
        standing, missing = self.kept.standing.get(key, 0), self.kept.missing.get(key, 0)
        if standing == count:
            return self._condition(
                PROVISIONING, True, "CapacityProvisioned", f"there is room for all {count} chunks on nodes that exist"
            )
        limited_by = self._shortfall.why_not_bought(self.spare) if missing else ""
        if limited_by:
            return self._condition(
                PROVISIONING, False, "LimitedByPool", f"there is no room for {missing} of {count} chunks: {limited_by}"
            )
        return self._condition(
            PROVISIONING, False, "RequiresNewCapacity", f"{count - standing} of {count} chunks wait for nodes"
        )

    def _limited(self) -> Condition:
        granted, wanted = self.spare.granted, self.spare.sized.count
        told = (
            f"{granted.limited_by} admits {granted.count} of {wanted} chunks"
            if granted.limited_by
            else "no ResourceQuota holds it back"
        )
        return self._condition(LIMITED_BY_QUOTAS, bool(granted.limited_by), "ResourceQuotasAllocated", told)

    def _condition(self, kind: str, holds: bool, reason: str, message: str) -> Condition:
        """Its time changes only when its status does."""
        status: Literal["True", "False"] = "True" if holds else "False"
        before = next((each for each in self.buffer.status.conditions if each.type == kind), None)
        since = (
            before.last_transition_time
            if before is not None and before.status == status
            else format_instant(self.snapshot.now)
        )
        return Condition(kind, status, reason, cut(message), since, self.buffer.generation)

    # ---------------------------------------------------------------------------------------- words

    def notes(self, status: CapacityBufferStatus) -> list[Note]:
        """One event for each condition whose reason is new."""
        before = {each.type: (each.status, each.reason) for each in self.buffer.status.conditions}
        about = About("CapacityBuffer", self.buffer.name, self.buffer.namespace, self.buffer.uid)
        found = [
            _told(about, each) for each in status.conditions[:2] if before.get(each.type) != (each.status, each.reason)
        ]
        if self.spare.granted.limited_by:
            found.append(Note(about, LIMITED_BY_QUOTAS, status.conditions[2].message, "Warning"))
        if self._is_taken:
            message = f"PodTemplate {self.buffer.template_name} belongs to somebody else and is left alone; status.podTemplateRef stays empty"
            found.append(Note(about, "PodTemplateTaken", message, "Warning"))
        return found


def _told(about: About, condition: Condition) -> Note:
    is_fine = condition.status == "True" or condition.reason in (
        "RequiresNewCapacity",
        "NotReadyForProvisioning",
        "BufferEmpty",
    )
    return Note(about, condition.reason, condition.message, "Normal" if is_fine else "Warning")


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    outcome, action = settled.outcome, settled.action
    if isinstance(outcome, Accepted):
        return Decision(ledger)
    seconds = outcome.retry_after_seconds if isinstance(outcome, TryLater) else _RETRY_SECONDS
    notes: tuple[Note, ...] = ()
    if isinstance(outcome, Refused) and isinstance(action, WriteBufferStatus | WritePodTemplate):
        about = About("CapacityBuffer", action.buffer.name, action.buffer.namespace, action.buffer.uid)
        notes = (Note(about, "WriteRefused", cut(f"{type(action).__name__} was refused: {outcome.reason}"), "Warning"),)
        seconds = 60.0
    return Decision(Ledger(), notes=notes, again_at=snapshot.now + seconds)
