"""How does each CapacityBuffer stand? Writes its status and its PodTemplate, only when they say something new. It buys
nothing.

| condition | reasons |
| --- | --- |
| ReadyForProvisioning | AttributesSetSuccessfully; ScalableRefNotFound, PodTemplateNotFound, ResolutionFailed, BufferEmpty |
| Provisioning | CapacityProvisioned: all fits on nodes that exist; RequiresNewCapacity, LimitedByPool, NotReadyForProvisioning |
| LimitedByQuotas | ResourceQuotasAllocated |

`status.replicas` is the number of virtual pods. For a scalableRef, `status.podTemplateRef` names a PodTemplate that the
buffer owns. Buffers with a strategy that growth does not know are somebody else's: nothing is written on them.

Why is nothing bought for a buffer that lacks room? Asked by the buffers' status; scale-up finds the same out from
the solver.

| what stands in the way | said |
| --- | --- |
| it may use no pool | why |
| no server type of its pools can hold a chunk | the types are too small, or selectors and taints keep it away |
| all that could is Unmet, out of stock, or its pool buys nothing | that |
| limits leave no room for one more node | that |
"""

from __future__ import annotations

from collections.abc import Mapping
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
from growth.plan.buffers.placement import BufferPlacement, look_seconds, place_buffers
from growth.plan.buffers.virtual_pods import ServedBuffer
from growth.plan.world.limits import allowances, members
from growth.plan.world.market import Market, open_market, orders_possible
from growth.plan.world.pools import choice_labels, daemon_shapes, offerings_of, serving_taints, why_not_buying
from growth.plan.world.records import cut
from growth.solver.purchase.problem import Choice
from growth.solver.rules.fit import free_amounts, is_enough, may_run_on

_RETRY_SECONDS: Final = 5.0
_OWN_CONDITIONS: Final = (READY_FOR_PROVISIONING, PROVISIONING, LIMITED_BY_QUOTAS)


class Ledger(Struct, frozen=True):
    looked_at: float = 0.0
    told: BufferPlacement | None = None  # all that there is to say of this is written


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    """A status may be a moment old, so that a busy cluster is not searched at every change."""
    world, now = snapshot.buffers, snapshot.now
    if not world.buffers or not world.is_known:
        return Decision(ledger)
    next_look_at = ledger.looked_at + look_seconds(snapshot, settings)
    if ledger.looked_at <= now < next_look_at:
        return Decision(ledger, again_at=next_look_at)
    kept = place_buffers(snapshot, settings)
    if kept is ledger.told:
        return Decision(ledger)
    shortfall = Shortfall(snapshot, settings, kept.missing)
    actions: list[Action] = []
    notes: list[Note] = []
    for spare in kept.buffers:
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

    def __init__(self, spare: ServedBuffer, kept: BufferPlacement, snapshot: Snapshot, shortfall: Shortfall) -> None:
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


class Shortfall:
    """Looks at pools and limits once, and only if some buffer lacks room."""

    def __init__(self, snapshot: Snapshot, settings: Settings, missing: Mapping[str, int]) -> None:
        self._snapshot, self._settings = snapshot, settings
        self._market, self._possible = Market((), {}, None), dict[str, int]()
        if missing:
            self._market = open_market(snapshot, tuple(snapshot.pools), snapshot.offerings, {}, settings)
            self._possible = orders_possible(
                self._market, allowances(snapshot.pools, settings.limits, members(snapshot))
            )

    def why_not_bought(self, spare: ServedBuffer) -> str:
        """Empty: it can be bought, and will be."""
        pools = ", ".join(spare.pools)
        if not spare.pools:
            return spare.problem
        closed = [why_not_buying(self._snapshot.pools[name], self._settings.is_paused) for name in spare.pools]
        if all(closed):
            return "; ".join(dict.fromkeys(closed))
        if not any(self._can_hold(spare, name) for name in spare.pools):
            return f"no server type of NodePool {pools} can hold a chunk that asks for {spare.shape.requests}"
        fitting = [
            choice for choice in self._market.choices if choice.pool in spare.pools and _has_room_for(choice, spare)
        ]
        if not fitting:
            return f"everything in NodePool {pools} that could hold a chunk is Unmet or out of stock"
        orders = (
            self._possible[f"{choice.pool} {choice.offering.name} {choice.offering.location}"] for choice in fitting
        )
        return "" if any(orders) else f"the limits of NodePool {pools} leave no room for one more node"

    def _can_hold(self, spare: ServedBuffer, name: str) -> bool:
        pool = self._snapshot.pools[name]
        for offering in offerings_of(pool, self._snapshot.offerings):
            labels, taints = choice_labels(pool, offering), serving_taints(pool)
            free = free_amounts(offering.allocatable, daemon_shapes(self._snapshot.daemon_sets, labels, taints))
            if is_enough(free, spare.shape) and may_run_on(spare.shape, labels, taints):
                return True
        return False


def _has_room_for(choice: Choice, spare: ServedBuffer) -> bool:
    free = free_amounts(choice.offering.allocatable, choice.daemons)
    return is_enough(free, spare.shape) and may_run_on(spare.shape, choice.labels, choice.taints)
