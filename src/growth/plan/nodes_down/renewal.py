"""Which nodes with pods are replaced because they are too old, or made from a template that has changed? Buys first,
then lets them go.

    question  nodes that must be replaced and may be disrupted now, the oldest first: put to the solver (`solver/existing/exchange`), like may replace like
    plan      the answer as orders that name the nodes they replace; and of swaps whose machines have come, the old nodes marked

| node | then |
| --- | --- |
| Expired or Drifted, with pods, and the budgets let it go | what its pods need is asked, and what must be bought is ordered, if need be one over `max` |
| nothing need be bought, or what was bought is Ready | MarkScaleDown, to go at once: scale-down hands it to removal, which evicts its pods |
| nothing can be bought | nothing: it stays as it is, and is asked about again later |
| bought machines never came | its turn comes again |

Empty nodes, dead ones and those of pools that go are scale-down's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import Action, CreateNodeRequest, MarkScaleDown
from growth.model.decision import Decision, Settled
from growth.model.node import SCALE_DOWN_TAINT, Node
from growth.model.note import Note
from growth.model.outcome import Accepted, TryLater
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down.budgets import Recent, disruptions_left, with_moment
from growth.plan.nodes_down.exchange import Asked, ask, orders
from growth.plan.nodes_down.what_if import without_mark
from growth.plan.world.limits import RENEWAL
from growth.plan.world.machines import DRIFTED, EXPIRED
from growth.plan.world.nodes import is_ours, working_pods
from growth.plan.world.orders import Orders, settle_order
from growth.plan.world.records import about_node, seen, sooner
from growth.plan.world.swaps import changes_at, swaps, why_replaced
from growth.solver.existing.exchange import Exchange, Leaving
from growth.solver.purchase.problem import Choice, DemandClass

_PAUSE_SECONDS: Final = 60.0  # after an attempt for which nothing could be bought
_RETRY_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 15.0
_MOST_TOGETHER: Final = 20


class Ledger(Struct, frozen=True):
    recent: Recent = Recent()
    asked_at: float = 0.0
    looked_at: float = 0.0
    orders: Orders = Orders()


def question(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Asked | None:
    if (
        not _is_time(snapshot, ledger)
        or ledger.asked_at <= snapshot.now < ledger.asked_at + _PAUSE_SECONDS
        or ledger.orders.busy_until(snapshot) is not None
    ):
        return None
    if not snapshot.buffers.is_known or any(pod.unschedulable_at is not None for pod in snapshot.waiting_pods):
        return None
    nodes = _due(snapshot, settings, with_moment(ledger.recent, snapshot, settings))
    closed, offered = ledger.orders.closed_pools(snapshot.now), [(node, 0.0, 0.0) for node in nodes]
    return ask(snapshot, settings, offered, _all_or_the_first, reason=RENEWAL, closed=closed) if nodes else None


def _is_time(snapshot: Snapshot, ledger: Ledger) -> bool:
    """Every node is looked at, so not at every change."""
    return not ledger.looked_at <= snapshot.now < ledger.looked_at + _LOOK_SECONDS


def _all_or_the_first(
    leaving: Sequence[Leaving], _demands: Sequence[DemandClass], _choices: Sequence[Choice]
) -> tuple[tuple[int, ...], ...]:
    """If they cannot all be replaced at once (there may be room for one surge machine only), then the oldest alone."""
    whole = tuple(range(len(leaving)))
    return (whole, (0,)) if len(whole) > 1 else (whole,)


def _due(snapshot: Snapshot, settings: Settings, recent: Recent) -> list[Node]:
    """Those that may go now, the oldest first; nodes that are being replaced already are not asked about again."""
    under_way = {name for swap in swaps(snapshot, settings) for name in swap.replaced}
    left = {name: _left(name, snapshot, settings, recent, under_way) for name in snapshot.pools}
    found: list[Node] = []
    for node in sorted(snapshot.nodes.values(), key=lambda each: (each.created_at, each.name)):
        if (
            node.name in under_way
            or not _must_go(node, snapshot, settings)
            or left[node.pool] <= 0
            or len(found) >= _MOST_TOGETHER
        ):
            continue
        left[node.pool] -= 1
        found.append(node)
    return found


def _left(name: str, snapshot: Snapshot, settings: Settings, recent: Recent, under_way: set[str]) -> int:
    """Swaps whose old nodes stand unmarked will use the budget as well."""
    pool = snapshot.pools[name]
    if snapshot.now < recent.known_at(pool, settings):
        return 0
    waiting = sum(
        1
        for each in under_way
        if each in snapshot.nodes and snapshot.nodes[each].pool == name and not snapshot.nodes[each].is_marked
    )
    return disruptions_left(pool, snapshot, settings, recent) - waiting


def _must_go(node: Node, snapshot: Snapshot, settings: Settings) -> bool:
    pool = snapshot.pools.get(node.pool)
    if (
        pool is None
        or pool.deleted_at is not None
        or pool.is_paused
        or settings.is_paused
        or not is_ours(node, snapshot)
    ):
        return False
    if (
        node.is_marked
        or node.name in snapshot.removals
        or node.deleted_at is not None
        or node.malformed
        or not working_pods(snapshot, node.name)
    ):
        return False
    return why_replaced(node, pool, snapshot, settings) in (EXPIRED, DRIFTED)


# ----------------------------------------------------------------------------------------- the plan


def plan(
    snapshot: Snapshot,
    ledger: Ledger,
    settings: Settings,
    question: Asked | None = None,
    answers: tuple[Exchange, ...] | None = None,
) -> Decision[Ledger]:
    ledger = replace(ledger, recent=with_moment(ledger.recent, snapshot, settings))
    if not _is_time(snapshot, ledger):
        return Decision(ledger, again_at=ledger.looked_at + _LOOK_SECONDS)
    turn = _Turn(snapshot, settings)
    for swap in swaps(snapshot, settings):
        if swap.reason == RENEWAL and not swap.is_coming:
            turn.let_go(swap.old)
    if question is not None:
        turn.answer(question, answers or ())
    asked_at = ledger.asked_at if question is None else snapshot.now
    ledger = replace(ledger, looked_at=snapshot.now, asked_at=asked_at, orders=ledger.orders.still_open(snapshot))
    return Decision(ledger, tuple(turn.actions), tuple(turn.notes), _look_again_at(snapshot, settings))


def _look_again_at(snapshot: Snapshot, settings: Settings) -> float | None:
    """Soon, while any node must go; else when the next one has grown old."""
    if any(_must_go(node, snapshot, settings) for node in snapshot.nodes.values()):
        return snapshot.now + _LOOK_SECONDS
    in_pools = [(node, snapshot.pools[node.pool]) for node in snapshot.nodes.values() if node.pool in snapshot.pools]
    return sooner(
        *(
            changes_at(node, pool, snapshot, settings)
            for node, pool in in_pools
            if pool.spec.expire_after_seconds is not None
        )
    )


class _Turn:
    """What comes of one look."""

    def __init__(self, snapshot: Snapshot, settings: Settings) -> None:
        self._snapshot, self._settings = snapshot, settings
        self.actions: list[Action] = []
        self.notes: list[Note] = []

    def answer(self, asked: Asked, answers: tuple[Exchange, ...]) -> None:
        """The first answer within the limits; what needs nothing bought goes at once."""
        for each in answers:
            made = orders(asked, each, self._snapshot)
            if made is None:
                continue
            self.actions += made
            if made:
                self.notes += [
                    Note(about_node(self._snapshot.nodes[name]), "Renewing", self._why(name))
                    for name in asked.names(each)
                ]
            else:
                self.let_go(asked.names(each))
            return

    def let_go(self, names: Sequence[str]) -> None:
        for node in (self._snapshot.nodes[name] for name in names):
            if _must_go(node, self._snapshot, self._settings):
                self.actions.append(
                    MarkScaleDown(seen(node), (*without_mark(node), SCALE_DOWN_TAINT), self._snapshot.now)
                )
                self.notes.append(Note(about_node(node), "ScaleDown", f"{self._why(node.name)}; its pods move now"))

    def _why(self, name: str) -> str:
        node = self._snapshot.nodes[name]
        is_old = why_replaced(node, self._snapshot.pools[node.pool], self._snapshot, self._settings) == EXPIRED
        return f"the node is replaced: {'it is older than its pool lets it be' if is_old else 'its pool makes other nodes now'}"


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    action, outcome, now = settled.action, settled.outcome, snapshot.now
    if isinstance(action, CreateNodeRequest):
        orders, notes, again_at = settle_order(action, outcome, snapshot, ledger.orders, _RETRY_SECONDS)
        return Decision(replace(ledger, orders=orders), notes=notes, again_at=again_at)
    if isinstance(outcome, Accepted):
        return Decision(ledger)
    return Decision(
        ledger, again_at=now + (outcome.retry_after_seconds if isinstance(outcome, TryLater) else _RETRY_SECONDS)
    )
