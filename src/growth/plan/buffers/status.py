"""What does each CapacityBuffer say of itself? Writes its status and its PodTemplate, only when they say something new.
It buys nothing.

| condition | reasons |
| --- | --- |
| ReadyForProvisioning | true: AttributesSetSuccessfully |
| | false: ScalableRefNotFound, PodTemplateNotFound, ResolutionFailed, BufferEmpty |
| Provisioning | true: CapacityProvisioned (all fits on nodes that exist) |
| | false: RequiresNewCapacity, LimitedByPool, NotReadyForProvisioning |
| LimitedByQuotas | ResourceQuotasAllocated |

`status.replicas` is the number of virtual pods. For a scalableRef, `status.podTemplateRef` names a PodTemplate that the
buffer owns. Buffers with a strategy that growth does not know belong to others: nothing is written on them.

| LimitedByPool: why nothing is bought for the buffer | said |
| --- | --- |
| it may use no pool | why |
| no server type of its pools can hold a chunk, as sold or as nodes turned out | the types are too small, or closed |
| all that could is Unmet, out of stock, or its pool buys nothing | that |
| limits leave no room for one more node | that |
| the brake holds for a pool of it | that |
| rules about other pods keep a chunk off every node that could be bought | which |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import WriteBufferStatus, WritePodTemplate
from growth.model.api import Condition
from growth.model.capacitybuffer import (
    LIMITED_BY_QUOTAS,
    PROVISIONING,
    READY_FOR_PROVISIONING,
    CapacityBufferStatus,
    StoredTemplate,
    TemplateReference,
)
from growth.model.decision import About, Decision, Note, Settled
from growth.model.instant import is_due
from growth.model.outcome import Accepted, Refused
from growth.model.settings import Settings
from growth.model.snapshot import EMPTY, Snapshot
from growth.plan.buffers.giving_way import Standstills, may_run_on_new
from growth.plan.buffers.placement import BufferPlacement, look_seconds, occupied_rooms, place_buffers
from growth.plan.buffers.virtual_pods import ServedBuffer
from growth.plan.world.limits import allowances_now
from growth.plan.world.market import (
    NOTHING_LEARNED,
    REMEMBERED_SECONDS,
    Learned,
    Market,
    corrected,
    learn,
    open_market,
    orders_possible,
    placement_problem,
)
from growth.plan.world.pools import choice_labels, daemon_shapes, offerings_of, serving_taints, why_not_buying
from growth.plan.world.turn import NEVER_FAILED, Conditions, Failed, Turn, about, cut, seen, without_times
from growth.solver.purchase.problem import Choice, DemandClass, Room
from growth.solver.purchase.solve import solve
from growth.solver.rules.fit import free_amounts, is_enough, may_run_on

Write = WriteBufferStatus | WritePodTemplate

_OWN_CONDITIONS: Final = (READY_FOR_PROVISIONING, PROVISIONING, LIMITED_BY_QUOTAS)
_FINE: Final = ("RequiresNewCapacity", "NotReadyForProvisioning", "BufferEmpty")  # reasons that are no trouble


class Ledger(Struct, frozen=True):
    looked_at: float = 0.0
    learned: Learned = NOTHING_LEARNED
    told: BufferPlacement | None = None  # all that there is to say of this is written
    failed: Mapping[str, Failed] = EMPTY  # by kind of write and buffer: those that failed the last time


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    """A status may be a moment old, so that a busy cluster is not searched at every change."""
    world, now = snapshot.buffers, snapshot.now
    if not world.buffers or not world.is_known:
        return Decision(ledger)
    seconds = look_seconds(snapshot, settings)
    if not is_due(now, ledger.looked_at, seconds):
        return Decision(ledger, again_at=ledger.looked_at + seconds)
    placed = place_buffers(snapshot, settings)
    if placed is ledger.told:
        return Decision(ledger)
    young = (snapshot.nodes[name] for name in snapshot.requests if name in snapshot.nodes)
    learned = learn(snapshot, ledger.learned, young)
    shortfall, turn = Shortfall(snapshot, settings, placed, learned), Turn()
    uids = {served.buffer.uid for served in placed.buffers}
    failed = {key: each for key, each in ledger.failed.items() if key.partition(" ")[2] in uids}
    for served in placed.buffers:
        if served.size.is_awaited:
            continue
        view = _View(served, placed, snapshot, shortfall)
        for write in view.writes():
            failure = failed.get(_key_of(write), NEVER_FAILED)
            if now < failure.until:
                turn.wake(failure.until)
                continue
            turn.do(write)
            turn.tell(*(view.notes(write.status) if isinstance(write, WriteBufferStatus) else ()))
    is_told = not turn.actions and turn.again_at is None
    is_told = is_told and not placed.missing  # what is missing may find room with time alone
    return turn.decision(Ledger(now, learned, placed if is_told else None, failed))


def status_now(key: str, snapshot: Snapshot, settings: Settings) -> CapacityBufferStatus | None:
    """What the row would write on one buffer at its first look; None: nothing, as what it needs has not been read or
    the buffer is not growth's. Asked by `growth explain buffer`.
    """
    placed = place_buffers(snapshot, settings)
    served = next((each for each in placed.buffers if each.key == key), None)
    if served is None or served.size.is_awaited or not snapshot.buffers.is_known:
        return None
    since = snapshot.now - REMEMBERED_SECONDS  # as far back as a growth that has run for long remembers
    learned = learn(snapshot, NOTHING_LEARNED, (node for node in snapshot.nodes.values() if node.created_at >= since))
    shortfall = Shortfall(snapshot, settings, placed, learned)
    return _View(served, placed, snapshot, shortfall).status()


class _View:
    """One buffer with its template, its size and its room."""

    def __init__(self, served: ServedBuffer, placed: BufferPlacement, snapshot: Snapshot, shortfall: Shortfall) -> None:
        self._served, self._buffer, self._placed, self._shortfall = served, served.buffer, placed, shortfall
        reference = served.buffer.spec.pod_template_ref
        name = served.buffer.template_name if reference is None else reference.name
        self._stored: StoredTemplate | None = snapshot.buffers.templates.get(f"{served.buffer.namespace}/{name}")
        is_foreign = self._stored is not None and self._stored.owner_uid != served.buffer.uid
        self._is_taken = served.buffer.spec.scalable_ref is not None and is_foreign
        self._is_unread = bool(snapshot.buffers.unread_templates)
        self._conditions = Conditions(self._buffer.status.conditions, self._buffer.generation, snapshot.now)

    def writes(self) -> list[Write]:
        """What is not as it shall be."""
        status = self.status()
        is_same = without_times(status) == without_times(self._buffer.status)
        return [*self._template(), *([] if is_same else [WriteBufferStatus(seen(self._buffer), status)])]

    def _template(self) -> list[Write]:
        """The PodTemplate of a scalableRef follows the workload's own; a foreign one of that name stays as it is."""
        template, buffer = self._served.size.template, self._buffer
        if buffer.spec.scalable_ref is None or template is None or not template.text or self._is_taken:
            return []
        if self._is_unread or self._served.size.is_remembered:
            return []
        if self._stored is not None and self._stored.digest == template.digest:
            return []
        return [WritePodTemplate(seen(buffer), buffer.template_name, template.text, template.digest)]

    def status(self) -> CapacityBufferStatus:
        size, granted = self._served.size, self._served.granted
        stored = None if self._stored is None or self._is_taken or size.template is None else self._stored
        others = tuple(each for each in self._buffer.status.conditions if each.type not in _OWN_CONDITIONS)
        write, limited_by = self._conditions.write, granted.limited_by
        admitted = f"{limited_by} admits {granted.count} of {size.count} chunks"
        quota = admitted if limited_by else "no ResourceQuota holds it back"
        before, is_unread = self._buffer.status, self._is_unread and stored is None
        reference = before.pod_template_ref if is_unread else None
        generation = before.pod_template_generation if is_unread else None
        return CapacityBufferStatus(
            pod_template_ref=reference if stored is None else TemplateReference(stored.name),
            replicas=self._served.count,
            pod_template_generation=generation if stored is None else stored.generation,
            conditions=(
                write(READY_FOR_PROVISIONING, size.is_resolved, size.reason, size.message),
                self._provisioning(),
                write(LIMITED_BY_QUOTAS, bool(limited_by), "ResourceQuotasAllocated", quota),
                *others,
            ),
            provisioning_strategy=self._buffer.strategy,
        )

    def _provisioning(self) -> Condition:
        key, count, write = self._served.key, self._served.count, self._conditions.write
        if not self._served.size.is_ready:
            return write(PROVISIONING, False, "NotReadyForProvisioning", "the buffer has no size yet")
        standing, missing = self._placed.standing.get(key, 0), self._placed.missing.get(key, 0)
        if standing == count:
            message = f"there is room for all {count} chunks on nodes that exist"
            return write(PROVISIONING, True, "CapacityProvisioned", message)
        limited_by = self._shortfall.why_not_bought(self._served) if missing else ""
        if limited_by:
            message = f"there is no room for {missing} of {count} chunks: {limited_by}"
            return write(PROVISIONING, False, "LimitedByPool", message)
        return write(PROVISIONING, False, "RequiresNewCapacity", f"{count - standing} of {count} chunks wait for nodes")

    def notes(self, status: CapacityBufferStatus) -> list[Note]:
        """One event for each condition whose reason is new."""
        before = {each.type: (each.status, each.reason) for each in self._buffer.status.conditions}
        new = [each for each in status.conditions[:2] if before.get(each.type) != (each.status, each.reason)]
        buffer = about(self._buffer)
        found = [Note(buffer, each.reason, each.message, "Normal" if _is_fine(each) else "Warning") for each in new]
        if self._served.granted.limited_by:
            found.append(Note(buffer, LIMITED_BY_QUOTAS, status.conditions[2].message, "Warning"))
        if self._is_taken:
            message = (
                f"PodTemplate {self._buffer.template_name} belongs to somebody else and is left alone; "
                "status.podTemplateRef stays empty"
            )
            found.append(Note(buffer, "PodTemplateTaken", message, "Warning"))
        return found


def _is_fine(condition: Condition) -> bool:
    return condition.status == "True" or condition.reason in _FINE


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    outcome, action = settled.outcome, settled.action
    if not isinstance(action, WriteBufferStatus | WritePodTemplate):
        return Decision(ledger)
    key = _key_of(action)
    others = {other: each for other, each in ledger.failed.items() if other != key}
    if isinstance(outcome, Accepted):
        return Decision(replace(ledger, failed=others) if key in ledger.failed else ledger)
    failed = ledger.failed.get(key, NEVER_FAILED).and_again(outcome, snapshot.now)
    notes: tuple[Note, ...] = ()
    if isinstance(outcome, Refused):
        buffer = About("CapacityBuffer", action.buffer.name, action.buffer.namespace, action.buffer.uid)
        message = cut(f"{type(action).__name__} was refused: {outcome.reason}")
        notes = (Note(buffer, "WriteRefused", message, "Warning"),)
    after = replace(ledger, looked_at=0.0, told=None, failed={**others, key: failed})
    return Decision(after, notes=notes, again_at=failed.until)


def _key_of(write: Write) -> str:
    return f"{type(write).__name__} {write.buffer.uid}"


class Shortfall:
    """Looks at pools and limits once, and only if some buffer lacks room."""

    def __init__(
        self, snapshot: Snapshot, settings: Settings, placed: BufferPlacement, learned: Learned = NOTHING_LEARNED
    ) -> None:
        self._snapshot, self._settings, self._placed = snapshot, settings, placed
        self._offerings = corrected(snapshot.offerings, learned)
        self._standstills, missing = Standstills(snapshot, placed.left), placed.missing
        self._market, self._possible = Market((), {}, None), dict[str, int]()
        if missing:
            self._market = open_market(snapshot, tuple(snapshot.pools), self._offerings, {}, settings)
            allowed = allowances_now(snapshot, settings)
            self._possible = orders_possible(self._market, (*allowed, *self._market.bounds))

    def why_not_bought(self, served: ServedBuffer) -> str:
        """Empty: it can be bought, and will be."""
        pools = ", ".join(served.pools)
        if not served.pools:
            return served.problem
        closed = [why_not_buying(self._snapshot.pools[name], self._settings.is_paused) for name in served.pools]
        if all(closed):
            return "; ".join(dict.fromkeys(closed))
        if not any(self._can_hold(served, name) for name in served.pools):
            return f"no server type of NodePool {pools} can hold a chunk that asks for {served.shape.requests}"
        fitting = [
            choice for choice in self._market.choices if choice.pool in served.pools and _has_room_for(choice, served)
        ]
        if not fitting:
            return f"everything in NodePool {pools} that could hold a chunk is Unmet or out of stock"
        names = (f"{each.pool} {each.offering.name} {each.offering.location}" for each in fitting)
        orders = (self._possible[name] for name in names)
        if not any(orders):
            standings = (self._market.standings[name] for name in served.pools)
            held = [each.why for each in standings if each.is_failing]
            return "; ".join(held) or f"the limits of NodePool {pools} leave no room for one more node"
        standstill = self._standstills.of(served.pools)
        if standstill is not None:
            return standstill.why if standstill.until is None else ""
        demand = DemandClass(served.shape, 1, served.pools, is_virtual=True)
        standing = occupied_rooms(self._placed)
        if may_run_on_new(self._snapshot, demand, fitting, standing):
            return ""
        return f"a chunk may run on no node that could be bought: {self._rules_against(demand, fitting, standing)}"

    def _rules_against(self, demand: DemandClass, choices: list[Choice], standing: tuple[Room, ...]) -> str:
        """Which rule keeps it off, in the words that pods hear."""
        closed = tuple(replace(room, is_open=False) for room in standing)
        problem = placement_problem(self._snapshot, [demand], closed, Market(tuple(choices), {}, None))
        left = solve(problem).unplaced
        return left[0].reasons[-1] if left else "no place was found beside what stands"

    def _can_hold(self, served: ServedBuffer, name: str) -> bool:
        pool = self._snapshot.pools[name]
        for offering in offerings_of(pool, self._offerings):
            labels, taints = choice_labels(pool, offering), serving_taints(pool)
            free = free_amounts(offering.allocatable, daemon_shapes(self._snapshot.daemon_sets, labels, taints))
            if is_enough(free, served.shape) and may_run_on(served.shape, labels, taints):
                return True
        return False


def _has_room_for(choice: Choice, served: ServedBuffer) -> bool:
    free = free_amounts(choice.offering.allocatable, choice.daemons)
    return is_enough(free, served.shape) and may_run_on(served.shape, choice.labels, choice.taints)
