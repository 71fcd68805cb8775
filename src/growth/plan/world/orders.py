"""How is a machine bought? By scale-up (for pods, buffers and `min`), replacement and renewal, all on this path.

| step | |
| --- | --- |
| within the limits | `Purchases` counts each node before it is ordered: what would break a limit is not made |
| written ahead | `create_request`: a NodeRequest exists before the provider is asked for anything |
| seen | an order that was accepted, or may have been, must show before its row plans again (`Orders.busy_until`) |
| refused | the API server refuses a NodeRequest: nothing is ordered for that pool for a minute, and the pool is told |
| not made | the row waits a moment, or as long as the API server says |
| judged | `verdict`: was the machine of use, or in vain (`plan/world/trials`) |

Without the third step the same pods would be bought for twice: a cache may lag, or be filled again from an older list.
Time alone says nothing: while the API server is away, nothing is seen. Only what a cache lacks that was proved whole
some time after the order was deleted at once, or never made; then planning goes on.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import CreateNodeRequest, LaunchMachine
from growth.model.decision import About, Note
from growth.model.node import REQUEST_LABEL
from growth.model.nodepool import NodePool
from growth.model.noderequest import (
    CLASSES,
    DEPROVISIONING,
    PENDING,
    PROVISIONING,
    READY,
    UNMET,
    NodeRequest,
    NodeRequestSpec,
    classes_in,
)
from growth.model.offering import Offering
from growth.model.outcome import Accepted, Outcome, Refused, Unknown
from growth.model.resources import CPU, Resources, format_amount
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.brake import Brake
from growth.plan.world.limits import (
    DEMAND,
    RENEWAL,
    Allowance,
    Member,
    allowances,
    members,
    why_not_one_more,
    with_member,
    with_surge,
)
from growth.plan.world.pools import OfferingKey, boot_taints, node_labels
from growth.plan.world.turn import instant_of, retry_at, seen
from growth.solver.purchase.problem import Choice

PATIENCE_SECONDS: Final = 30.0  # with an order that was accepted
DOUBT_SECONDS: Final = 10.0  # with one of unknown fate: long enough for a watch to show what a lost answer did

_REFUSED_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 2.0
_JUST_COME_SECONDS: Final = 120.0  # so long the planned pods of a node may need until they run there


class Purchases:
    """Nodes to buy, counted one after the other: each must fit under what the limits leave."""

    def __init__(self, allowances: tuple[Allowance, ...]) -> None:
        self.left = allowances

    @property
    def has_pace(self) -> bool:
        """May some be bought only later?"""
        return any(each.is_pace for each in self.left)

    def why_not(self, choice: Choice) -> str:
        """Which limit one more such node would break. Empty: none."""
        return why_not_one_more(self.left, self._member(choice))

    def is_paced(self, choice: Choice) -> bool:
        """Could it be bought, if not now, then soon?"""
        return not why_not_one_more([each for each in self.left if not each.is_pace], self._member(choice))

    def add(self, choice: Choice) -> str:
        """Why it must not be bought; if it may, it counts from now on."""
        why_not = self.why_not(choice)
        if not why_not:
            self.left = with_member(self.left, self._member(choice))
        return why_not

    def _member(self, choice: Choice) -> Member:
        """The node an order becomes, as limits count it."""
        offering = choice.offering
        return Member("", choice.pool, offering.name, choice.amounts, offering.price_per_hour)


def create_request(
    choice: Choice,
    snapshot: Snapshot,
    reason: str,
    planned: tuple[str, ...] = (),
    replaces: tuple[str, ...] = (),
    gap: str = "",
) -> CreateNodeRequest:
    spec = replace(request_spec(choice, reason, planned, replaces), gap=gap)
    return CreateNodeRequest(seen(snapshot.pools[choice.pool]), spec)


def request_spec(
    choice: Choice, reason: str, planned: tuple[str, ...] = (), replaces: tuple[str, ...] = ()
) -> NodeRequestSpec:
    """What a NodeRequest for this choice says; `planned`: the pods it is bought for."""
    offering, amounts = choice.offering, quantities(choice.offering.allocatable)
    return NodeRequestSpec(choice.pool, offering.name, offering.location, amounts, planned, reason, replaces)


def launch_of(request: NodeRequest, pool: NodePool, sold: Mapping[OfferingKey, Offering]) -> LaunchMachine:
    """The node boots with everything but the label that says growth has registered it."""
    spec = request.spec
    offering = sold.get((spec.target_offering, spec.location)) or Offering(spec.target_offering, "", spec.location, 0.0)
    labels = {key: value for key, value in node_labels(pool, offering, request.name).items() if key != REQUEST_LABEL}
    annotations = tuple(sorted(pool.spec.annotations.items()))
    chosen = pool.spec.provider_settings or ""
    return LaunchMachine(seen(request), spec, tuple(labels.items()), annotations, boot_taints(pool), chosen)


def quantities(amounts: Resources) -> dict[str, str]:
    """Exact, as the API reads them."""
    return {name: format_amount(name, amount) if name == CPU else str(amount) for name, amount in amounts.items()}


def over_limit(snapshot: Snapshot, settings: Settings) -> dict[str, str]:
    """Pending requests that no longer fit under a limit (it was lowered, or others were faster), or that the brake
    holds back, and why; the oldest fit first.
    """
    requests = snapshot.requests
    pending = {name for name, each in requests.items() if each.phase == PENDING and name not in snapshot.machines}
    if not pending:
        return {}
    present = {member.name: member for member in members(snapshot)}
    others = (member for name, member in present.items() if name not in pending)
    left, brake = allowances(snapshot.pools, settings, others), Brake(snapshot)
    held = (brake.allowance(pool, pending) for pool in sorted({requests[name].spec.pool for name in pending}))
    left = (*left, *(each[0] for each in held if each is not None))
    over: dict[str, str] = {}
    for name in sorted(pending, key=lambda each: (requests[each].created_at, each)):
        spec = requests[name].spec
        bounds = with_surge(left) if spec.reason == RENEWAL else left
        why_not = why_not_one_more(bounds, present[name]) or (spec.reason != DEMAND and brake.why(spec.pool))
        if why_not:
            over[name] = why_not
        else:
            left = with_member(left, present[name])
    return over


# ----------------------------------------------------------------------------------------- outcomes


class Awaited(Struct, frozen=True):
    """An order, how many equal ones were known when it was made, and how much later a cache must be whole to say that
    it is not there.
    """

    spec: NodeRequestSpec
    at: float
    known: int
    seconds: float = PATIENCE_SECONDS


class Orders(Struct, frozen=True):
    """What a row remembers of the orders it made."""

    awaited: tuple[Awaited, ...] = ()  # made, or perhaps made, and not seen yet
    hold_until: float = 0.0  # an order could not be made
    closed: Mapping[str, float] = {}  # pools for which the API server refuses orders, and until when

    def busy_until(self, snapshot: Snapshot) -> float | None:
        """Nothing is ordered before it is known what became of the last orders. None: nothing is in the way."""
        if snapshot.now < self.hold_until:
            return self.hold_until
        return snapshot.now + _RETRY_SECONDS if still_awaited(self.awaited, snapshot) else None

    def still_open(self, snapshot: Snapshot) -> Orders:
        """Without those that are seen by now."""
        return replace(self, awaited=still_awaited(self.awaited, snapshot))

    def closed_pools(self, now: float) -> dict[str, float]:
        return {name: at for name, at in self.closed.items() if at > now}


def settle_order(
    action: CreateNodeRequest,
    outcome: Outcome,
    snapshot: Snapshot,
    orders: Orders,
    retry_seconds: float = _RETRY_SECONDS,
) -> tuple[Orders, tuple[Note, ...], float | None]:
    """What came of an order: what is remembered, what is told, and when to look again."""
    now = snapshot.now
    if isinstance(outcome, Accepted | Unknown):
        awaited = with_order(orders.awaited, action.spec, outcome, snapshot)
        return replace(orders, awaited=awaited), (), None if isinstance(outcome, Accepted) else now + retry_seconds
    if isinstance(outcome, Refused):
        about = About("NodePool", action.pool.name, uid=action.pool.uid)
        note = Note(about, "OrderRefused", f"a NodeRequest was refused: {outcome.reason}", "Warning")
        closed = {**orders.closed_pools(now), action.pool.name: now + _REFUSED_SECONDS}
        return replace(orders, closed=closed), (note,), now + retry_seconds
    hold_until = max(orders.hold_until, retry_at(outcome, now, retry_seconds))
    return replace(orders, hold_until=hold_until), (), hold_until


def with_order(
    awaited: tuple[Awaited, ...], spec: NodeRequestSpec, outcome: Outcome, snapshot: Snapshot
) -> tuple[Awaited, ...]:
    """The snapshot is that of the plan, and its time that of the answer."""
    known = _count(spec, snapshot) + sum(1 for each in awaited if each.spec == spec)
    seconds = DOUBT_SECONDS if isinstance(outcome, Unknown) else PATIENCE_SECONDS
    return (*awaited, Awaited(spec, snapshot.now, known, seconds))


def still_awaited(awaited: tuple[Awaited, ...], snapshot: Snapshot) -> tuple[Awaited, ...]:
    proved_at = snapshot.now - snapshot.requests_age_seconds
    return tuple(
        each
        for each in awaited
        if each.at <= snapshot.now and proved_at < each.at + each.seconds and _count(each.spec, snapshot) <= each.known
    )


def _count(spec: NodeRequestSpec, snapshot: Snapshot) -> int:
    return sum(1 for request in snapshot.requests.values() if request.spec == spec)


def _waiting_keys(snapshot: Snapshot) -> frozenset[str]:
    pods = snapshot.waiting_pods
    return snapshot.memo.recall("keys of waiting pods", (pods,), lambda: frozenset(pod.key for pod in pods))


def is_doubled(request: NodeRequest, snapshot: Snapshot, asked: Container[str]) -> bool:
    """Do the pods of this waiting request have their machines without it? What an earlier leader wrote can arrive after
    its successor has ordered for the same pods. `asked` are the requests that were ordered a moment ago.
    """
    if request.name in asked or request.spec.reason != DEMAND or not request.planned_pods:
        return False
    waiting = _waiting_keys(snapshot) & set(request.planned_pods)
    mine = (request.created_at, request.name)
    for other in snapshot.requests.values():
        is_young = snapshot.now - other.created_at < _JUST_COME_SECONDS
        is_coming = other.phase in (PENDING, PROVISIONING) and (is_young or other.name not in snapshot.nodes)
        is_before = other.name in asked or (other.created_at, other.name) < mine
        if is_coming and is_before and other.deleted_at is None and other.name != request.name:
            waiting -= set(other.planned_pods)
    return not waiting


# ------------------------------------------------------------------------------ what came of it

NOT_READY_EVENT: Final = "nodeNotReady"
USED_EVENT: Final = "nodeUsed"
NOT_USED_EVENT: Final = "nodeNotUsed"


class Verdict(Struct, frozen=True):
    """What one machine showed."""

    at: float
    cause: str = ""  # why it was in vain; empty: it was of use
    classes: tuple[str, ...] = ()


def verdict(request: NodeRequest) -> Verdict | None:
    """None: nothing is known, yet or ever."""
    events = request.status.events
    if request.phase in (DEPROVISIONING, UNMET):
        last = events[-1] if events else None
        if last is None or last.name != NOT_READY_EVENT:
            return None
        return Verdict(instant_of(last.at) or request.changed_at, last.reason or "no Ready node in time")
    if request.phase != READY:
        return None
    if not needs_pods(request):
        return Verdict(request.changed_at)
    for event in reversed(events):
        at = instant_of(event.at) or request.changed_at
        if event.name == USED_EVENT:
            return Verdict(at, classes=classes_in(event.reason))
        if event.name == NOT_USED_EVENT:
            cause, _, classes = event.reason.rpartition(CLASSES)
            return Verdict(at, cause or event.reason, classes_in(classes))
    return None


def needs_pods(request: NodeRequest) -> bool:
    """Is it of use only once one of its pods is there? Others stand for what may come."""
    return request.spec.reason == DEMAND and bool(request.spec.planned_pods)
