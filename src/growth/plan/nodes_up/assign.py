"""Which pod goes where, now that the solver has counted, and what are people told? Asked by scale-up with the solver's
answer.

The answer speaks of classes and counts; here the demands behind each class are dealt out, the oldest first: into rooms,
onto nodes to buy, and what is left is unplaced. An order that would break a limit is not made, whatever the answer
says. One note tells each pod, one each pool that buys; of buffers one each that got too little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Final

from msgspec import Struct

from growth.model.decision import Note
from growth.model.instant import format_instant
from growth.model.offering import Offering
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_up.demand import Demand
from growth.plan.nodes_up.survey import Survey
from growth.plan.nodes_up.waiting import Wait
from growth.plan.world.limits import Allowance, Member, members
from growth.plan.world.market import struck_out
from growth.plan.world.orders import Purchases
from growth.plan.world.pools import offerings_of, why_not_buying
from growth.plan.world.turn import about, cut
from growth.solver.purchase.answer import LIMIT_REACHED
from growth.solver.purchase.problem import Choice, PlacementProblem, PlacementSolution, PlannedNode, Room

_LONGEST_MESSAGE: Final = 1000

Hand = tuple[Demand, ...]  # one for each pod; a demand of several virtual pods as often as it has pods


class Dealt(Struct, frozen=True):
    """The answer, with names."""

    orders: tuple[tuple[Choice, Hand], ...] = ()
    into_rooms: tuple[tuple[Room, Hand], ...] = ()
    unplaced: tuple[tuple[Demand, tuple[str, ...]], ...] = ()  # each demand once
    allowances: tuple[Allowance, ...] = ()  # what these orders leave
    gap: str = ""  # in words: how far all of it is above the cheapest possible, at most


def deal(
    problem: PlacementProblem, classes: tuple[Hand, ...], solution: PlacementSolution, purchases: Purchases
) -> Dealt:
    """`classes`: the demands behind each class of the problem, the oldest first. A gang for which an order is refused,
    and not only put off, gets nothing.
    """
    broken: dict[int, str] = {}
    while True:
        counted = copy(purchases)
        dealt, found = _deal(problem, classes, solution, counted, broken)
        if not found:
            return dealt
        broken |= found


def _deal(
    problem: PlacementProblem,
    classes: tuple[Hand, ...],
    solution: PlacementSolution,
    purchases: Purchases,
    broken: Mapping[int, str],
) -> tuple[Dealt, dict[int, str]]:
    """What is dealt, and classes of gangs that are broken by it, each with the reason; `broken` ones get nothing."""
    stock = [list(reversed(hand)) for hand in classes]

    def take(index: int, count: int) -> list[Demand]:
        return [] if index in broken else [stock[index].pop() for _ in range(min(count, len(stock[index])))]

    into: dict[int, list[Demand]] = {}
    for placement in solution.placements:
        into.setdefault(placement.room, []).extend(take(placement.demand, placement.count))
    orders: list[tuple[Choice, Hand]] = []
    reasons = {left.demand: left.reasons for left in solution.unplaced}
    refused: dict[int, dict[str, None]] = {index: {why: None} for index, why in broken.items()}
    short: dict[int, str] = {}
    for node in _by_turn(solution.nodes, classes) if purchases.has_pace else solution.nodes:
        choice = problem.choices[node.choice]
        if all(index in broken for index, _ in node.contents):
            continue
        is_paced, why_not = purchases.is_paced(choice), purchases.add(choice)
        if not why_not:
            orders.append((choice, tuple(demand for index, count in node.contents for demand in take(index, count))))
            continue
        for index, _ in node.contents:
            refused.setdefault(index, {})[why_not] = None
            short |= {} if is_paced else _of_its_gang(problem, index, why_not)
    unplaced: dict[str, tuple[Demand, tuple[str, ...]]] = {}
    for index, left in enumerate(stock):
        told = (*reasons.get(index, ()), *refused.get(index, ())) or ("no place was found",)
        unplaced |= {demand.name: (demand, told) for demand in reversed(left)}
    rooms = tuple((problem.rooms[index], tuple(hand)) for index, hand in sorted(into.items()) if hand)
    dealt = Dealt(tuple(orders), rooms, tuple(unplaced.values()), purchases.left, solution.gap_in_words)
    return dealt, {index: why for index, why in short.items() if index not in broken}


def _of_its_gang(problem: PlacementProblem, index: int, why_not: str) -> dict[int, str]:
    gangs = (gang for gang in problem.gangs if index in gang.demands)
    return {number: f"gang {gang.name} starts as a whole: {why_not}" for gang in gangs for number in gang.demands}


def _by_turn(nodes: Iterable[PlannedNode], classes: tuple[Hand, ...]) -> list[PlannedNode]:
    """Not all may be bought now: those for the highest priority first, then for the pods that have waited longest."""

    def turn(node: PlannedNode) -> tuple[int, float, int]:
        firsts = [classes[index][0].pod for index, _ in node.contents]
        priority, since = max(pod.shape.priority for pod in firsts), min(pod.created_at for pod in firsts)
        return (-priority, since, -sum(count for _, count in node.contents))

    return sorted(nodes, key=turn)


# --------------------------------------------------------------------------------- what people read


def notes_for(
    dealt: Dealt, found: Survey, waits: Mapping[str, Wait], snapshot: Snapshot, settings: Settings
) -> tuple[Note, ...]:
    """`waits`: as they are after this plan."""
    if found.is_virtual:
        return (*_of_pools_for_buffers(dealt, snapshot), *_of_short_buffers(dealt))
    unplaced = _of_unplaced(dealt, found, waits, snapshot, settings)
    return (*_of_pools(dealt, snapshot), *_of_placed(dealt, found), *unplaced)


def _of_pools(dealt: Dealt, snapshot: Snapshot) -> tuple[Note, ...]:
    """One sentence for each pool: what it buys, for how many pods, at what price, and how far above the cheapest."""
    notes = []
    for name in sorted({choice.pool for choice, _ in dealt.orders}):
        orders = [(choice.offering, hand) for choice, hand in dealt.orders if choice.pool == name]
        counts = Counter(_where(offering) for offering, _ in orders)
        told = ", ".join(f"{count} × {what}" for what, count in sorted(counts.items()))
        notes.append(_of_pool(name, orders, "ScaleUp", f"orders {told} for {{pods}} pods", snapshot, dealt.gap))
    return tuple(notes)


def of_minimum(choices: Iterable[Choice], snapshot: Snapshot) -> tuple[Note, ...]:
    """What each pool buys so that its `min` is kept."""
    orders: dict[str, list[tuple[Offering, Hand]]] = {}
    for choice in choices:
        orders.setdefault(choice.pool, []).append((choice.offering, ()))
    told = {name: f"orders {len(some)} nodes to keep its minimum" for name, some in orders.items()}
    return tuple(_of_pool(name, some, "ScaleUp", told[name], snapshot) for name, some in sorted(orders.items()))


def _of_pools_for_buffers(dealt: Dealt, snapshot: Snapshot) -> tuple[Note, ...]:
    notes = []
    for name in sorted({choice.pool for choice, _ in dealt.orders}):
        orders = [(choice.offering, hand) for choice, hand in dealt.orders if choice.pool == name]
        buffers = sorted({demand.pod.key for _, hand in orders for demand in hand})
        told = ", ".join(buffers[:3]) + (f" and {len(buffers) - 3} more" if len(buffers) > 3 else "")
        message = f"orders {len(orders)} nodes for {{pods}} virtual pods of CapacityBuffer {told}"
        notes.append(_of_pool(name, orders, "BufferScaleUp", message, snapshot))
    return tuple(notes)


def _of_pool(
    name: str, orders: list[tuple[Offering, Hand]], reason: str, message: str, snapshot: Snapshot, gap: str = ""
) -> Note:
    pods, price = sum(len(hand) for _, hand in orders), sum(offering.price_per_hour for offering, _ in orders)
    fields = (("nodes", len(orders)), ("pods", pods), ("price_per_hour", round(price, 6)))
    told = f"{message.format(pods=pods)}, {price:.4f} per hour{gap}"
    return Note(about(snapshot.pools[name]), reason, told, fields=fields)


def _where(offering: Offering) -> str:
    return f"{offering.name} in {offering.location}" if offering.location else offering.name


def _of_placed(dealt: Dealt, found: Survey) -> tuple[Note, ...]:
    notes = []
    for choice, hand in dealt.orders:
        message = f"planned onto a new {_where(choice.offering)} of NodePool {choice.pool}"
        notes += [Note(demand.about, "Planned", message) for demand in hand]
    for room, hand in dealt.into_rooms:
        node = room.node.name
        if room.kind == "in-flight":
            notes += [Note(each.about, "Planned", f"planned onto {node}, which is on its way") for each in hand]
        elif room.kind == "marked":
            notes += [Note(each.about, "Revived", f"node {node} is kept: there is room for this pod") for each in hand]
        else:
            message = f"node {node} has room for this pod; nothing is bought, the scheduler decides"
            notes += [Note(each.about, "RoomExists", message) for each in hand if _was_lodged(each, found)]
    return tuple(notes)


def _was_lodged(demand: Demand, found: Survey) -> bool:
    """The scheduler had its time: by now people wonder."""
    wait = found.waits.get(demand.name)
    return wait is not None and bool(wait.lodged_on) and demand.pod.unschedulable_at is not None


def _of_unplaced(
    dealt: Dealt, found: Survey, waits: Mapping[str, Wait], snapshot: Snapshot, settings: Settings
) -> tuple[Note, ...]:
    notes = []
    asides = {name: why_less(name, found, snapshot, settings) for name in snapshot.pools}
    silent = [each for each in members(snapshot) if each.may_come_until is not None] if dealt.unplaced else []
    for demand, reasons in dealt.unplaced:
        more = tuple(asides[name] for name in demand.pools if asides.get(name))
        more += _of_silent_orders(demand, reasons, silent)
        message = cut("no place for this pod: " + "; ".join(reasons + more), _LONGEST_MESSAGE)
        notes.append(Note(demand.about, "Unplaced", message, "Warning"))
        before, now = found.waits.get(demand.name), waits[demand.name]
        if now.is_backed_off and not (before is not None and before.is_backed_off):
            notes.append(Note(demand.about, "BackOff", _back_off(now), "Warning"))
    return tuple(notes)


def _of_silent_orders(demand: Demand, reasons: Iterable[str], silent: Iterable[Member]) -> tuple[str, ...]:
    """Somebody who sees fewer nodes than a limit allows asks what else counts."""
    limited = [each for each in reasons if LIMIT_REACHED in each]
    is_of_all = any("limits of the settings" in each for each in limited)
    counted = [each for each in silent if is_of_all or each.pool in demand.pools] if limited else []
    if not counted:
        return ()
    until = format_instant(max(each.may_come_until or 0.0 for each in counted))
    return (f"orders without an answer count, since machines may still come: {len(counted)}, until {until}",)


def _of_short_buffers(dealt: Dealt) -> tuple[Note, ...]:
    notes = []
    for demand, reasons in dealt.unplaced:
        message = cut("no room for all of this buffer: " + "; ".join(reasons), _LONGEST_MESSAGE)
        notes.append(Note(demand.about, "Unplaced", message, "Warning"))
    return tuple(notes)


def _back_off(wait: Wait) -> str:
    return (
        f"no place was found {wait.misses} times in a row; tried again every {wait.seconds:.0f} s, and at once when "
        "its pool changes, an offering recovers, room appears or a volume it waits for is made"
    )


def why_less(name: str, found: Survey, snapshot: Snapshot, settings: Settings) -> str:
    """What the solver cannot know: why a pool sells less than it lists."""
    pool = snapshot.pools[name]
    closed = why_not_buying(pool, settings.is_paused)
    if closed:
        return closed
    struck = struck_out(snapshot.requests.values(), snapshot.now, settings.unmet_seconds)
    listed = offerings_of(pool, snapshot.offerings)
    unmet = [each for each in listed if (each.name, each.location) in struck]
    gone = [each for each in listed if not each.is_available]
    told = [f"{len(unmet)} of {len(listed)} offerings of NodePool {name} are Unmet"] if unmet else []
    told += [f"{len(gone)} of {len(listed)} are out of stock"] if gone else []
    standing = found.market.standings.get(name)
    if standing is not None and any(standing.is_closed((each.name, each.location), snapshot.now) for each in listed):
        told.append(standing.why or f"machines of NodePool {name} were in vain")
    types = ", ".join(dict.fromkeys(each.name for each in pool.spec.server_types))
    where = f" in {', '.join(pool.spec.locations)}" if pool.spec.locations else ""
    unsold = f"NodePool {name} lists no server type that the provider sells ({cut(types, 200)}{where})"
    return ", ".join(told) if listed else unsold
