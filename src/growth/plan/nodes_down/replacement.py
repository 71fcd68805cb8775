"""Which nodes with pods could be replaced by cheaper ones? Only in pools with `consolidation: Full`. Buys first, then
moves, then gives back.

    question  nodes that may go, everything that stays, everything that may be bought: `solver/existing/exchange`
    plan      the answer as orders; and the old nodes of swaps whose machines have come, marked for consolidation

| seen | then |
| --- | --- |
| all is quiet, nothing has changed for a while, and an exchange saves enough | CreateNodeRequest for each machine |
| a swap whose machines are on their way | wait |
| they have come, the old nodes' pods fit on what stays, half of that saving is left | MarkScaleDown on the old nodes |
| the pods do not fit, or too little is saved | nothing: the swap ends; if what was bought is empty, scale-down has it |
| a swap is over, and some of its old nodes are still there | the pool rests (`plan/nodes_down/candidates`) |
| some of the old nodes have gone already | the others follow as soon as their pods fit |

Quiet: no pod is being moved and all orders are seen; a pool that a pod may use which growth is about to place rests.
Emptying (`plan/nodes_down/consolidation`) comes first: it buys nothing. An attempt that finds nothing is repeated less
and less often, until the basis of its answer changes. What was bought is not looked at again for the settling time.
All that matters is in the NodeRequests; what is remembered may be lost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import CreateNodeRequest
from growth.model.decision import About, Decision, Note, Settled
from growth.model.instant import format_instant
from growth.model.node import Node
from growth.model.outcome import Accepted
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.evictions import Evictability
from growth.plan.nodes_down.awaited import awaiting_pools
from growth.plan.nodes_down.budgets import Recent, with_moment
from growth.plan.nodes_down.candidates import Candidates, Setback, full_pools, with_attempts
from growth.plan.nodes_down.exchange import REPLACEMENT, ExchangeQuestion, after_buying, ask, neighbourhoods, orders
from growth.plan.nodes_down.what_if import Emptying
from growth.plan.world.machines import CONSOLIDATED
from growth.plan.world.marks import CONSOLIDATION, is_marked_by, mark_node
from growth.plan.world.nodes import (
    delay_seconds,
    is_paused,
    is_protected_node,
    kind_of,
    state_of,
    working_pods,
)
from growth.plan.world.orders import Orders, settle_order
from growth.plan.world.swaps import Swap, swaps
from growth.plan.world.turn import Turn, about
from growth.solver.existing.exchange import Exchange

_LONGEST_PAUSE_SECONDS: Final = 6 * 3600.0
_MOST_IN_VAIN: Final = 30
_RETRY_SECONDS: Final = 5.0
_PODS_APART: Final = 20  # counts of pods that differ by less than one part in so many are the same


class Basis(Struct, frozen=True):
    """What an answer depends on, roughly: while this is the same, asking again would hardly find anything else."""

    nodes: frozenset[str]
    pods: int  # how many, on a logarithmic scale
    prices: float  # of everything for sale, together


class Ledger(Struct, frozen=True):
    recent: Recent = Recent()
    basis: Basis | None = None
    ask_at: float = 0.0  # when to ask next, if the basis is still the same
    in_vain: int = 0  # how often nothing was found on this basis
    orders: Orders = Orders()
    tried: frozenset[str] = frozenset()  # old nodes of swaps under way that were marked once
    under_way: Mapping[tuple[str, ...], frozenset[str]] = {}  # the nodes that each swap replaces, and their pools
    setbacks: Mapping[str, Setback] = {}  # by pool


def question(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> ExchangeQuestion | None:
    """None: it is not the time."""
    if not _is_due(snapshot, ledger) or not _is_quiet(snapshot, ledger, settings):
        return None
    candidates = Candidates(snapshot, settings, with_moment(ledger.recent, snapshot, settings))
    evictability = Evictability(snapshot, settings)
    resting = {pool for pool, setback in ledger.setbacks.items() if snapshot.now < setback.until}
    resting |= awaiting_pools(snapshot, settings)
    nodes = [
        node
        for _, node in sorted(snapshot.nodes.items())
        if node.pool not in resting and _may_go(node, candidates, evictability, snapshot, settings)
    ]
    above_minimum = {kind_of(node): candidates.above_minimum(node, candidates.pools[node.pool]) for node in nodes}
    guess = partial(neighbourhoods, left=candidates.left, above_minimum=above_minimum, draw=ledger.in_vain)
    offered = [(node, candidates.price(node), candidates.disruption(node)) for node in nodes]
    return ask(snapshot, settings, offered, guess, REPLACEMENT, ledger.orders.closed_pools(snapshot.now))


def _is_due(snapshot: Snapshot, ledger: Ledger) -> bool:
    return ledger.ask_at <= snapshot.now and bool(full_pools(snapshot)) and ledger.basis == _basis(snapshot)


def _basis(snapshot: Snapshot) -> Basis:
    pods = sum(len(pods) for pods in snapshot.pods_by_node.values())
    prices = sum(each.price_per_hour for each in snapshot.offerings if each.is_available)
    return Basis(frozenset(snapshot.nodes), round(_PODS_APART * math.log(1 + pods)), prices)


def _is_quiet(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> bool:
    if not snapshot.buffers.is_known or ledger.orders.busy_until(snapshot) is not None:
        return False
    is_moving = any(removal.spec.reason == CONSOLIDATED for removal in snapshot.removals.values())
    is_marked = any(is_marked_by(CONSOLIDATION, node) for node in snapshot.nodes.values())
    return not is_moving and not is_marked and not swaps(snapshot, settings)


def _may_go(
    node: Node, candidates: Candidates, evictability: Evictability, snapshot: Snapshot, settings: Settings
) -> bool:
    if not candidates.is_candidate(node) or is_protected_node(node) or is_paused(candidates.pools[node.pool], settings):
        return False
    if candidates.price(node) <= 0 or candidates.why_wait(node, candidates.pools[node.pool]):
        return False
    return evictability.why_not_all(working_pods(snapshot, node.name)) is None


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
    if not full_pools(snapshot):
        return Decision(replace(ledger, basis=None))
    basis, next_at = _basis(snapshot), now + settings.consolidation_interval_seconds
    ledger = replace(ledger, orders=ledger.orders.still_open(snapshot))
    if ledger.basis != basis:
        ledger = replace(ledger, basis=basis, ask_at=next_at, in_vain=0)
    if question is not None:
        return _plan_answer(question, answers or (), snapshot, ledger, settings)
    if ledger.ask_at <= now:  # there was nothing to ask about
        ledger = replace(ledger, ask_at=next_at)
    turn = Turn()
    turn.wake(ledger.ask_at)
    under_way = [swap for swap in swaps(snapshot, settings) if swap.reason == REPLACEMENT.reason]
    ledger = _without_those_over(ledger, under_way, snapshot, settings, turn)
    tried = _mark_old_nodes(under_way, snapshot, ledger, settings, turn)
    return turn.decision(replace(ledger, tried=tried))


# ---------------------------------------------------------------------------------------- an answer


class _Worth(Struct, frozen=True):
    """What is left of an answer after the check: these orders let the old nodes go."""

    orders: tuple[CreateNodeRequest, ...]
    old: tuple[str, ...]
    price_before: float
    price_after: float


def _plan_answer(
    asked: ExchangeQuestion, answers: tuple[Exchange, ...], snapshot: Snapshot, ledger: Ledger, settings: Settings
) -> Decision[Ledger]:
    """The best answer that holds."""
    for answer in answers:
        worth = _check(asked, answer, snapshot, settings)
        if worth is not None:
            return Decision(replace(ledger, in_vain=0), worth.orders, _notes_of(worth, snapshot))
    in_vain = min(ledger.in_vain + 1, _MOST_IN_VAIN)
    pause = min(_LONGEST_PAUSE_SECONDS, settings.consolidation_interval_seconds * 2.0**in_vain)
    ledger = replace(ledger, ask_at=max(ledger.ask_at, snapshot.now + pause), in_vain=in_vain)
    return Decision(ledger, again_at=ledger.ask_at)


def _check(asked: ExchangeQuestion, answer: Exchange, snapshot: Snapshot, settings: Settings) -> _Worth | None:
    """Is it within the limits, and worth it by the nodes that can go when the new ones serve, by the check that is made
    then?
    """
    if answer.saved_per_hour < _enough(answer.price_before, settings):
        return None
    made = orders(asked, answer, snapshot)
    if not made:
        return None
    later = after_buying(snapshot, made)
    candidates = Candidates(later, settings, Recent())
    nodes = _dearest_first([later.nodes[name] for name in asked.names(answer)], candidates)
    going = Emptying(later, settings, settings.consolidation_headroom).choose_all(nodes)
    old, before = tuple(sorted(node.name for node in going)), sum(candidates.price(node) for node in going)
    if before - answer.price_after < _enough(before, settings):
        return None
    made = tuple(replace(action, spec=replace(action.spec, replaces=old)) for action in made)
    return _Worth(made, old, before, answer.price_after)


def _enough(price_before: float, settings: Settings) -> float:
    """What must be saved at least, of nodes that cost so much."""
    return max(settings.minimum_saving_per_hour, settings.minimum_saving_share * price_before)


def _dearest_first(nodes: list[Node], candidates: Candidates) -> list[Node]:
    return sorted(nodes, key=lambda each: (-candidates.price(each), each.name))


def _notes_of(worth: _Worth, snapshot: Snapshot) -> tuple[Note, ...]:
    names, bought, saved = worth.old, len(worth.orders), worth.price_before - worth.price_after
    moved = sum(len(working_pods(snapshot, name)) for name in names)
    text = (
        f"replaces {len(names)} node{'s' if len(names) > 1 else ''} ({worth.price_before:.4f} per hour) by {bought} new"
        f" ({worth.price_after:.4f}): saves {saved:.4f} per hour and moves {moved} pods"
    )
    fields = (("saved_per_hour", round(saved, 6)), ("bought", bought), ("pods", moved))
    pools = [snapshot.pools[name] for name in sorted({snapshot.nodes[name].pool for name in names})]
    on_pools = [Note(about(pool), "Replacing", text, fields=fields) for pool in pools]
    going = "the node goes once cheaper ones are Ready for its pods"
    return (*on_pools, *(Note(about(snapshot.nodes[name]), "Replacing", going) for name in names))


# ---------------------------------------------------------------------------------- swaps under way


def _without_those_over(
    ledger: Ledger, swaps_now: list[Swap], snapshot: Snapshot, settings: Settings, turn: Turn
) -> Ledger:
    """What came of swaps that were under way. One whose old nodes are still going is not over, even if its records are
    gone.
    """
    seen_now = {swap.replaced: frozenset(snapshot.nodes[name].pool for name in swap.old) for swap in swaps_now}
    over = {
        old: pools
        for old, pools in ledger.under_way.items()
        if old not in seen_now and not any(state_of(name, snapshot).is_going for name in old)
    }
    failed = {pool for old, pools in over.items() if any(name in snapshot.nodes for name in old) for pool in pools}
    worked = {pool for pools in over.values() for pool in pools if pool not in failed}
    setbacks = with_attempts(ledger.setbacks, worked, failed, snapshot.now, settings.settling_seconds)
    under_way = {**{old: pools for old, pools in ledger.under_way.items() if old not in over}, **seen_now}
    tried = frozenset(name for name in ledger.tried if any(name in old for old in under_way))
    for name in sorted(failed & set(snapshot.pools)):
        if setbacks[name] != ledger.setbacks.get(name):
            turn.tell(_setback_note(about(snapshot.pools[name]), setbacks[name]))
    return replace(ledger, under_way=under_way, setbacks=setbacks, tried=tried)


def _setback_note(pool: About, setback: Setback) -> Note:
    text = f"no node of NodePool {pool.name} is replaced before {format_instant(setback.until)}"
    return Note(pool, "ReplacementGivenUp", f"{text}, after {setback.words} given up: old nodes could not go")


def _mark_old_nodes(
    under_way: list[Swap], snapshot: Snapshot, ledger: Ledger, settings: Settings, turn: Turn
) -> frozenset[str]:
    """Of swaps whose machines have come, if half of the saving is left. Returns which old nodes were marked once."""
    if not under_way:
        return ledger.tried
    candidates, tried = Candidates(snapshot, settings, ledger.recent), ledger.tried
    for swap in under_way:
        nodes = [snapshot.nodes[name] for name in swap.old if name not in tried]
        nodes = [node for node in nodes if not state_of(node.name, snapshot).is_going and node.pool in candidates.pools]
        if swap.is_coming or not nodes or any(is_paused(candidates.pools[node.pool], settings) for node in nodes):
            continue
        turn.wake(snapshot.now + settings.consolidation_interval_seconds)
        chosen = _choose(nodes, candidates, snapshot, settings)
        new_nodes = [snapshot.nodes[name] for name in swap.new if name in snapshot.nodes]
        saved = sum(map(candidates.price, chosen)) - sum(map(candidates.price, new_nodes))
        if not chosen or not (swap.has_begun or saved >= _enough(sum(map(candidates.price, nodes)), settings) / 2):
            continue
        tried |= {node.name for node in chosen}
        for node in chosen:
            delay = delay_seconds(candidates.pools[node.pool], settings)
            turn.do(mark_node(node, CONSOLIDATION, snapshot.now + delay))
            text = f"cheaper nodes are Ready; its pods will move in {delay:.0f} s"
            turn.tell(Note(about(node), "ScaleDown", text))
    return tried


def _choose(nodes: list[Node], candidates: Candidates, snapshot: Snapshot, settings: Settings) -> list[Node]:
    """As many as can go together and the budgets let go, the dearest first."""
    allowed = []
    for node in _dearest_first(nodes, candidates):
        if candidates.left[node.pool] > 0:
            candidates.choose(node)
            allowed.append(node)
    return Emptying(snapshot, settings, settings.consolidation_headroom).choose_all(allowed)


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, _settings: Settings) -> Decision[Ledger]:
    """Orders that were accepted, or may have been, must be seen before anything is asked again; a mark that failed is
    tried again.
    """
    action, outcome, now = settled.action, settled.outcome, snapshot.now
    if isinstance(action, CreateNodeRequest):
        orders, notes, again_at = settle_order(action, outcome, snapshot, ledger.orders, _RETRY_SECONDS)
        return Decision(replace(ledger, orders=orders), notes=notes, again_at=again_at)
    if isinstance(outcome, Accepted):
        return Decision(ledger)
    name = getattr(getattr(action, "node", None), "name", "")
    return Decision(replace(ledger, tried=ledger.tried - {name}), again_at=now + _RETRY_SECONDS)
