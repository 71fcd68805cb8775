"""Which nodes with pods could be replaced by cheaper ones? Only in pools with `consolidation: Full`. Buys first, then
moves, then gives back.

    question  nodes that may go, everything that stays, everything that may be bought: put to the solver (`solver/existing/exchange`)
    plan      the answer as orders; and of swaps whose machines have come, the old nodes marked, so that consolidation empties them

| seen | then |
| --- | --- |
| nothing waits, nothing moves, nothing has changed for a while, and an exchange saves enough | CreateNodeRequest for each machine, naming what it replaces |
| a swap whose machines are on their way | wait |
| they have come, the old nodes' pods fit on what stays, and half of that saving is left | MarkScaleDown on the old nodes, within the budgets |
| the pods do not fit, or too little is saved | nothing: the swap lapses; what was bought stays if pods have come, else scale-down takes it |
| a swap is over, and some of its old nodes are still there | the pool rests, each time in a row four times as long: nothing is bought for it |
| some of the old nodes have gone already | the others follow as soon as their pods fit |

Emptying (`plan/nodes_down/consolidation`) comes first: it buys nothing. An attempt that finds nothing is repeated less
and less often, until the nodes change. What was bought is not looked at again for the settling time. All that matters
is in the NodeRequests; what is remembered may be lost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import Action, CreateNodeRequest
from growth.model.decision import Decision, Settled
from growth.model.instant import format_instant
from growth.model.node import Node
from growth.model.nodepool import NodePool
from growth.model.note import About, Note
from growth.model.outcome import Accepted
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down.budgets import Recent, with_moment
from growth.plan.nodes_down.candidates import (
    Movable,
    Setback,
    delay_seconds,
    full_pools,
    is_paused,
    kind_of,
    minimum,
    with_attempts,
)
from growth.plan.nodes_down.exchange import REPLACEMENT, Asked, after_buying, ask, orders
from growth.plan.nodes_down.neighbourhoods import neighbourhoods
from growth.plan.nodes_down.what_if import Emptying, Evictability, empty_from, is_being_emptied
from growth.plan.world.machines import CONSOLIDATED
from growth.plan.world.nodes import is_protected_node, working_pods
from growth.plan.world.orders import Orders, settle_order
from growth.plan.world.records import about_node, sooner
from growth.plan.world.swaps import Swap, is_going, swaps
from growth.solver.existing.exchange import Exchange

_LONGEST_PAUSE_SECONDS: Final = 6 * 3600.0
_MOST_IN_VAIN: Final = 30
_RETRY_SECONDS: Final = 5.0
_PODS_APART: Final = 20  # counts of pods that differ by less than one part in so many are the same

Fleet = tuple[
    frozenset[str], int, float
]  # names of nodes, about how many pods, what everything for sale costs together


class Ledger(Struct, frozen=True):
    recent: Recent = Recent()
    fleet: Fleet | None = None
    fleet_since: float = 0.0
    asked_at: float = 0.0
    looked_at: float = 0.0  # it was the time to ask, and there was nothing to ask about
    in_vain: int = 0  # how often nothing was found in this fleet
    orders: Orders = Orders()
    tried: frozenset[str] = frozenset()  # old nodes of swaps under way that were marked once
    under_way: Mapping[tuple[str, ...], frozenset[str]] = {}  # the nodes that each swap replaces, and their pools
    setbacks: Mapping[str, Setback] = {}  # by pool


def question(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Asked | None:
    """None: it is not the time."""
    if snapshot.now < (_next_ask_at(snapshot, ledger, settings) or math.inf) or not _is_quiet(
        snapshot, ledger, settings
    ):
        return None
    movable = Movable(snapshot, settings, with_moment(ledger.recent, snapshot, settings))
    evictability = Evictability(snapshot, settings)
    resting = {pool for pool, setback in ledger.setbacks.items() if snapshot.now < setback.until}
    nodes = [
        node
        for _, node in sorted(snapshot.nodes.items())
        if node.pool not in resting and _may_go(node, movable, evictability, snapshot, settings)
    ]
    spare = {
        kind_of(node): movable.staying.get(kind_of(node), 0) - minimum(node, movable.pools[node.pool]) for node in nodes
    }
    guess = partial(neighbourhoods, left=movable.left, spare=spare, turn=ledger.in_vain)
    offered = [(node, movable.price(node), movable.disruption(node)) for node in nodes]
    return ask(snapshot, settings, offered, guess, closed=ledger.orders.closed_pools(snapshot.now))


def _may_go(node: Node, movable: Movable, evictability: Evictability, snapshot: Snapshot, settings: Settings) -> bool:
    if not movable.is_candidate(node) or is_protected_node(node) or is_paused(movable.pools[node.pool], settings):
        return False
    if movable.price(node) <= 0 or movable.why_wait(node, movable.pools[node.pool]):
        return False
    return evictability.why_not_all(working_pods(snapshot, node.name)) is None


def _is_quiet(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> bool:
    """Nobody looks for a place, nothing is being moved, and all orders are seen."""
    if not snapshot.buffers.is_known or ledger.orders.busy_until(snapshot) is not None:
        return False
    if any(pod.unschedulable_at is not None and pod.deleted_at is None for pod in snapshot.waiting_pods) or swaps(
        snapshot, settings
    ):
        return False
    is_moving = any(removal.spec.reason == CONSOLIDATED for removal in snapshot.removals.values())
    return not is_moving and not any(is_being_emptied(node) for node in snapshot.nodes.values())


def _next_ask_at(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> float | None:
    """A fleet is looked at once it has been the same for an interval, then less and less often. None: no pool wants it."""
    if not full_pools(snapshot) or ledger.fleet != _fleet(snapshot):
        return None
    pause = min(_LONGEST_PAUSE_SECONDS, settings.consolidation_interval_seconds * 2.0**ledger.in_vain)
    since = max(ledger.fleet_since, ledger.looked_at if ledger.looked_at <= snapshot.now else 0.0)
    return max(since + settings.consolidation_interval_seconds, ledger.asked_at + pause if ledger.in_vain else 0.0)


def _fleet(snapshot: Snapshot) -> Fleet:
    pods = sum(len(pods) for pods in snapshot.pods_by_node.values())
    return (
        frozenset(snapshot.nodes),
        round(_PODS_APART * math.log(1 + pods)),
        sum(each.price_per_hour for each in snapshot.offerings if each.is_available),
    )


# ----------------------------------------------------------------------------------------- the plan


def plan(
    snapshot: Snapshot,
    ledger: Ledger,
    settings: Settings,
    question: Asked | None = None,
    answers: tuple[Exchange, ...] | None = None,
) -> Decision[Ledger]:
    if not full_pools(snapshot):
        return Decision(replace(ledger, recent=with_moment(ledger.recent, snapshot, settings), fleet=None))
    ledger = _looked(ledger, snapshot, settings)
    if question is not None:
        return _answered(question, answers or (), snapshot, ledger, settings)
    ledger, notes = _without_those_over(ledger, snapshot, settings)
    turn = _Turn(snapshot, ledger, settings)
    for swap in _under_way(snapshot, settings):
        turn.look_at(swap)
    if (_next_ask_at(snapshot, ledger, settings) or math.inf) <= snapshot.now:
        ledger = replace(ledger, looked_at=snapshot.now)
    again = sooner(_next_ask_at(snapshot, ledger, settings), *turn.again)
    return Decision(replace(ledger, tried=turn.tried), tuple(turn.actions), (*notes, *turn.notes), again)


def _under_way(snapshot: Snapshot, settings: Settings) -> list[Swap]:
    return [swap for swap in swaps(snapshot, settings) if swap.reason == REPLACEMENT]


def _without_those_over(ledger: Ledger, snapshot: Snapshot, settings: Settings) -> tuple[Ledger, tuple[Note, ...]]:
    """What came of swaps that were under way. One whose old nodes are still going is not over, even if its records are
    gone.
    """
    seen_now = {
        swap.replaced: frozenset(snapshot.nodes[name].pool for name in swap.old)
        for swap in _under_way(snapshot, settings)
    }
    over = {
        old: pools
        for old, pools in ledger.under_way.items()
        if old not in seen_now and not any(is_going(name, snapshot) for name in old)
    }
    failed = {pool for old, pools in over.items() if any(name in snapshot.nodes for name in old) for pool in pools}
    worked = {pool for pools in over.values() for pool in pools if pool not in failed}
    setbacks = with_attempts(ledger.setbacks, worked, failed, snapshot.now, settings.settling_seconds)
    under_way = {**{old: pools for old, pools in ledger.under_way.items() if old not in over}, **seen_now}
    tried = frozenset(name for name in ledger.tried if any(name in old for old in under_way))
    anew = sorted(pool for pool in failed if pool in snapshot.pools and setbacks[pool] != ledger.setbacks.get(pool))
    notes = tuple(_told_of_setback(snapshot.pools[pool], setbacks[pool]) for pool in anew)
    return replace(ledger, under_way=under_way, setbacks=setbacks, tried=tried), notes


def _told_of_setback(pool: NodePool, setback: Setback) -> Note:
    text = f"no node of NodePool {pool.name} is replaced before {format_instant(setback.until)}, after {setback.words} given up: old nodes could not go"
    return Note(About("NodePool", pool.name, uid=pool.uid), "ReplacementGivenUp", text)


def _looked(ledger: Ledger, snapshot: Snapshot, settings: Settings) -> Ledger:
    ledger = replace(
        ledger, recent=with_moment(ledger.recent, snapshot, settings), orders=ledger.orders.still_open(snapshot)
    )
    fleet = _fleet(snapshot)
    is_same = fleet == ledger.fleet and ledger.fleet_since <= snapshot.now
    return ledger if is_same else replace(ledger, fleet=fleet, fleet_since=snapshot.now, in_vain=0, asked_at=0.0)


def _answered(
    asked: Asked, answers: tuple[Exchange, ...], snapshot: Snapshot, ledger: Ledger, settings: Settings
) -> Decision[Ledger]:
    """The best answer that holds: within the limits, and worth it by the nodes that can go then, by the check that is
    made then.
    """
    for answer in answers:
        made = (
            orders(asked, answer, snapshot) if answer.saved_per_hour >= _enough(answer.price_before, settings) else None
        )
        plan_ = (
            None
            if not made
            else _held_against(after_buying(snapshot, made), asked.names(answer), answer.price_after, settings)
        )
        if made and plan_ is not None:
            return Decision(
                replace(ledger, asked_at=snapshot.now, in_vain=0),
                _replacing(made, plan_.old),
                _told(plan_, made, snapshot),
            )
    ledger = replace(ledger, asked_at=snapshot.now, in_vain=min(ledger.in_vain + 1, _MOST_IN_VAIN))
    return Decision(ledger, again_at=_next_ask_at(snapshot, ledger, settings))


class _Worth(Struct, frozen=True):
    """What is left of an answer after the check."""

    old: tuple[str, ...]
    price_before: float
    price_after: float


def _held_against(later: Snapshot, names: tuple[str, ...], price_after: float, settings: Settings) -> _Worth | None:
    movable = Movable(later, settings, Recent())
    nodes = sorted((later.nodes[name] for name in names), key=lambda each: _dearest_first(each, movable))
    going = _emptied_together(nodes, later, settings)
    before = sum(movable.price(node) for node in going)
    return (
        _Worth(tuple(sorted(node.name for node in going)), before, price_after)
        if before - price_after >= _enough(before, settings)
        else None
    )


def _replacing(made: Iterable[CreateNodeRequest], old: tuple[str, ...]) -> tuple[CreateNodeRequest, ...]:
    return tuple(replace(action, spec=replace(action.spec, replaces=old)) for action in made)


def _emptied_together(nodes: list[Node], snapshot: Snapshot, settings: Settings) -> list[Node]:
    return Emptying(snapshot, settings, settings.consolidation_headroom).choose_all(nodes)


def _dearest_first(node: Node, movable: Movable) -> tuple[float, str]:
    return (-movable.price(node), node.name)


def _enough(price_before: float, settings: Settings) -> float:
    """What must be saved at least, of nodes that cost so much."""
    return max(settings.minimum_saving_per_hour, settings.minimum_saving_share * price_before)


def _told(worth: _Worth, made: Iterable[CreateNodeRequest], snapshot: Snapshot) -> tuple[Note, ...]:
    names, bought, saved = worth.old, tuple(made), worth.price_before - worth.price_after
    moved = sum(len(working_pods(snapshot, name)) for name in names)
    text = (
        f"replaces {len(names)} node{'s' if len(names) > 1 else ''} ({worth.price_before:.4f} per hour) by {len(bought)} new"
        f" ({worth.price_after:.4f}): saves {saved:.4f} per hour and moves {moved} pods"
    )
    fields = (("saved_per_hour", round(saved, 6)), ("bought", len(bought)), ("pods", moved))
    about = [
        About("NodePool", name, uid=snapshot.pools[name].uid)
        for name in sorted({snapshot.nodes[name].pool for name in names})
    ]
    on_nodes = tuple(
        Note(about_node(snapshot.nodes[name]), "Replacing", "the node goes once cheaper ones are Ready for its pods")
        for name in names
    )
    return (*(Note(each, "Replacing", text, fields=fields) for each in about), *on_nodes)


class _Turn:
    """One look at swaps whose machines have come."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> None:
        self.snapshot, self.settings = snapshot, settings
        self.actions: list[Action] = []
        self.notes: list[Note] = []
        self.again: list[float] = []
        self.tried = ledger.tried
        self._movable = Movable(snapshot, settings, ledger.recent)

    def look_at(self, swap: Swap) -> None:
        nodes = [self.snapshot.nodes[name] for name in swap.old if name not in self.tried]
        nodes = [
            node
            for node in nodes
            if not node.is_marked and node.name not in self.snapshot.removals and node.pool in self._movable.pools
        ]
        if (
            swap.is_coming
            or not nodes
            or any(is_paused(self._movable.pools[node.pool], self.settings) for node in nodes)
        ):
            return
        self.again.append(self.snapshot.now + self.settings.consolidation_interval_seconds)
        chosen = self._chosen(nodes)
        saved = sum(self._movable.price(node) for node in chosen) - self._price_of_new(swap)
        if chosen and (
            swap.has_begun or saved >= _enough(sum(self._movable.price(node) for node in nodes), self.settings) / 2
        ):
            for node in chosen:
                self._mark(node)

    def _chosen(self, nodes: list[Node]) -> list[Node]:
        """As many as can go together and the budgets let go, the dearest first."""
        allowed = []
        for node in sorted(nodes, key=lambda each: _dearest_first(each, self._movable)):
            if self._movable.left[node.pool] > 0:
                self._movable.choose(node)
                allowed.append(node)
        return _emptied_together(allowed, self.snapshot, self.settings)

    def _price_of_new(self, swap: Swap) -> float:
        return sum(self._movable.price(self.snapshot.nodes[name]) for name in swap.new if name in self.snapshot.nodes)

    def _mark(self, node: Node) -> None:
        delay = delay_seconds(self._movable.pools[node.pool], self.settings)
        self.actions.append(empty_from(node, self.snapshot.now + delay))
        self.tried |= {node.name}
        self.notes.append(
            Note(about_node(node), "ScaleDown", f"cheaper nodes are Ready; its pods will move in {delay:.0f} s")
        )


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    """Orders that were accepted, or may have been, must be seen before anything is asked again; a mark that failed is
    tried anew.
    """
    action, outcome, now = settled.action, settled.outcome, snapshot.now
    if isinstance(action, CreateNodeRequest):
        orders, notes, again_at = settle_order(action, outcome, snapshot, ledger.orders, _RETRY_SECONDS)
        return Decision(replace(ledger, orders=orders), notes=notes, again_at=again_at)
    if isinstance(outcome, Accepted):
        return Decision(ledger)
    name = getattr(getattr(action, "node", None), "name", "")
    return Decision(replace(ledger, tried=ledger.tried - {name}), again_at=now + _RETRY_SECONDS)
