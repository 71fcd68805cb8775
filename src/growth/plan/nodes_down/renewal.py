"""Which nodes with pods are replaced because they are too old, or made from a template that has changed? Buys first,
then lets them go.

    question  nodes that must be replaced and may be disrupted now, the oldest first: `solver/existing/exchange`
    plan      the answer as orders that name the nodes they replace; and the old nodes of swaps whose machines have come

| node | then |
| --- | --- |
| Expired or Drifted, with pods, and the budgets let it go | what its pods need is asked, and ordered if need be |
| nothing need be bought, or what was bought is Ready | MarkScaleDown, due at once: scale-down hands it to removal |
| nothing can be bought | nothing: it stays as it is, and is asked about again later |
| bought machines never came | it is asked about again |
| a pod on it must not be disrupted | nothing: what is bought would stand empty, and others would wait for it |

Empty nodes, dead ones and those of pools that go are scale-down's own. Why a mark of renewal is scale-down's to hand
over: `plan/world/marks`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import CreateNodeRequest, RegisterNode
from growth.model.decision import Decision, Note, Settled
from growth.model.instant import is_due
from growth.model.node import TEMPLATE, Node
from growth.model.outcome import Accepted
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down.awaited import awaiting_pools
from growth.plan.nodes_down.budgets import Recent, disruptions_left, with_moment
from growth.plan.nodes_down.exchange import RENEWAL, ExchangeQuestion, ask, orders
from growth.plan.world.brake import Brake, why_braked
from growth.plan.world.machines import DRIFTED, EXPIRED
from growth.plan.world.marks import SCALE_DOWN, mark_node
from growth.plan.world.nodes import is_ours, is_paused, is_protected_pod, state_of, working_pods
from growth.plan.world.orders import Orders, settle_order
from growth.plan.world.swaps import changes_at, has_known_digest, swaps, template_digest, why_replaced
from growth.plan.world.turn import Turn, about, retry_at, seen_in_any_version
from growth.solver.existing.exchange import Exchange, Leaving
from growth.solver.purchase.problem import Choice, DemandClass

_PAUSE_SECONDS: Final = 60.0  # after an attempt for which nothing could be bought
_RETRY_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 15.0  # every node is looked at, so not at every change
_MOST_TOGETHER: Final = 20


class Ledger(Struct, frozen=True):
    recent: Recent = Recent()
    asked_at: float = 0.0
    looked_at: float = 0.0
    orders: Orders = Orders()


def question(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> ExchangeQuestion | None:
    now, orders = snapshot.now, ledger.orders
    if not is_due(now, ledger.looked_at, _LOOK_SECONDS) or not is_due(now, ledger.asked_at, _PAUSE_SECONDS):
        return None
    if orders.busy_until(snapshot) is not None or not snapshot.buffers.is_known:
        return None
    nodes = _due(snapshot, settings, with_moment(ledger.recent, snapshot, settings))
    offered = [(node, 0.0, 0.0) for node in nodes]
    return ask(snapshot, settings, offered, _all_or_the_first, RENEWAL, orders.closed_pools(now)) if nodes else None


def _all_or_the_first(
    leaving: Sequence[Leaving], _demands: Sequence[DemandClass], _choices: Sequence[Choice]
) -> tuple[tuple[int, ...], ...]:
    """If they cannot all be replaced at once (there may be room for one surge machine only), then the oldest alone."""
    whole = tuple(range(len(leaving)))
    return (whole, (0,)) if len(whole) > 1 else (whole,)


def _due(snapshot: Snapshot, settings: Settings, recent: Recent) -> list[Node]:
    """Those that may go now, the oldest first; nodes that are being replaced already are not asked about again."""
    under_way = {name for swap in swaps(snapshot, settings) for name in swap.replaced}
    awaiting = awaiting_pools(snapshot, settings)  # a pod that growth is about to place may use them: not now
    left = {
        name: 0 if name in awaiting else _left(name, snapshot, settings, recent, under_way) for name in snapshot.pools
    }
    found: list[Node] = []
    for node in _those_that_must_go(snapshot, settings):
        if node.name in under_way or left[node.pool] <= 0:
            continue
        left[node.pool] -= 1
        found.append(node)
    return found[:_MOST_TOGETHER]


def _left(name: str, snapshot: Snapshot, settings: Settings, recent: Recent, under_way: set[str]) -> int:
    """How many more nodes of a pool may be disrupted. Old nodes of swaps that are not marked yet will use the budget
    as well.
    """
    pool = snapshot.pools[name]
    if snapshot.now < recent.known_at(pool, settings) or why_braked(name, snapshot):
        return 0
    old = (snapshot.nodes[each] for each in under_way if each in snapshot.nodes)
    unmarked = sum(node.pool == name and not node.is_marked for node in old)
    return disruptions_left(pool, snapshot, settings, recent) - unmarked


def _those_that_must_go(snapshot: Snapshot, settings: Settings) -> tuple[Node, ...]:
    """The oldest first. Every node is looked at, so the answer is kept in the memo: a look asks twice."""

    def look() -> tuple[Node, ...]:
        found = (node for node in snapshot.nodes.values() if _must_go(node, snapshot, settings))
        return tuple(sorted(found, key=lambda each: (each.created_at, each.name)))

    made_from = (
        settings, snapshot.nodes, snapshot.pods_by_node, snapshot.pools, snapshot.requests, snapshot.removals,
        snapshot.machines,
    )  # fmt: skip
    return snapshot.memo.recall_now("nodes that must be replaced", snapshot.now, made_from, look, most=1)


def _must_go(node: Node, snapshot: Snapshot, settings: Settings) -> bool:
    pool = snapshot.pools.get(node.pool)
    if pool is None or pool.deleted_at is not None or is_paused(pool, settings) or not is_ours(node, snapshot):
        return False
    pods = working_pods(snapshot, node.name)
    if not state_of(node.name, snapshot).is_free or not pods or any(map(is_protected_pod, pods)):
        return False
    return why_replaced(node, pool, snapshot, settings) in (EXPIRED, DRIFTED)


# ----------------------------------------------------------------------------------------- the plan


def plan(
    snapshot: Snapshot,
    ledger: Ledger,
    settings: Settings,
    question: ExchangeQuestion | None = None,
    answers: tuple[Exchange, ...] | None = None,
) -> Decision[Ledger]:
    now = snapshot.now
    ledger = replace(ledger, recent=with_moment(ledger.recent, snapshot, settings))
    if not is_due(now, ledger.looked_at, _LOOK_SECONDS):
        return Decision(ledger, again_at=ledger.looked_at + _LOOK_SECONDS)
    turn = Turn()
    for swap in swaps(snapshot, settings):
        if swap.reason == RENEWAL.reason and not swap.is_coming:
            _let_go(swap.old, snapshot, settings, turn)
    _stamp_anew(snapshot, turn)
    if question is not None:
        _plan_answer(question, answers or (), snapshot, settings, turn)
    _wake_again(snapshot, settings, turn)
    asked_at = ledger.asked_at if question is None else now
    return turn.decision(replace(ledger, looked_at=now, asked_at=asked_at, orders=ledger.orders.still_open(snapshot)))


def _stamp_anew(snapshot: Snapshot, turn: Turn) -> None:
    """Digests of templates that another version wrote by another rule: from now on changes are seen again."""
    for node in snapshot.nodes.values():
        pool, written = snapshot.pools.get(node.pool), node.annotations.get(TEMPLATE)
        if pool is not None and written and not has_known_digest(node) and is_ours(node, snapshot):
            stamp = ((TEMPLATE, template_digest(pool.spec)),)
            turn.do(RegisterNode(seen_in_any_version(node), annotations=stamp))


def _let_go(names: Sequence[str], snapshot: Snapshot, settings: Settings, turn: Turn) -> None:
    brake = Brake(snapshot)
    for node in (snapshot.nodes[name] for name in names):
        if _must_go(node, snapshot, settings) and not brake.why_held(node):
            turn.do(mark_node(node, SCALE_DOWN, snapshot.now))
            text = f"{_why(node, snapshot, settings)}; its pods move now"
            turn.tell(Note(about(node), "ScaleDown", text))


def _why(node: Node, snapshot: Snapshot, settings: Settings) -> str:
    is_old = why_replaced(node, snapshot.pools[node.pool], snapshot, settings) == EXPIRED
    why = "it is older than its pool lets it be" if is_old else "its pool makes other nodes now"
    return f"the node is replaced: {why}"


def _plan_answer(
    asked: ExchangeQuestion, answers: tuple[Exchange, ...], snapshot: Snapshot, settings: Settings, turn: Turn
) -> None:
    """The first answer within the limits; what needs nothing bought goes at once."""
    for answer in answers:
        made = orders(asked, answer, snapshot)
        if made is None:
            continue
        if not made:
            _let_go(asked.names(answer), snapshot, settings, turn)
            return
        turn.do(*made)
        for node in (snapshot.nodes[name] for name in asked.names(answer)):
            turn.tell(Note(about(node), "Renewing", _why(node, snapshot, settings)))
        return


def _wake_again(snapshot: Snapshot, settings: Settings, turn: Turn) -> None:
    """Soon, while any node must go; else when the next one has grown old."""
    if _those_that_must_go(snapshot, settings):
        turn.wake(snapshot.now + _LOOK_SECONDS)
        return
    for node in snapshot.nodes.values():
        pool = snapshot.pools.get(node.pool)
        if pool is not None and pool.spec.expire_after_seconds is not None:
            turn.wake(changes_at(node, pool, snapshot, settings))


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, _settings: Settings) -> Decision[Ledger]:
    action, outcome = settled.action, settled.outcome
    if isinstance(action, CreateNodeRequest):
        orders, notes, again_at = settle_order(action, outcome, snapshot, ledger.orders, _RETRY_SECONDS)
        return Decision(replace(ledger, orders=orders), notes=notes, again_at=again_at)
    is_done = isinstance(outcome, Accepted)
    return Decision(ledger, again_at=None if is_done else retry_at(outcome, snapshot.now, _RETRY_SECONDS))
