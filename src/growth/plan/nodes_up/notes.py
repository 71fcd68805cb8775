"""What are people told about a scale-up? Asked by scale-up with its decision: one note for each pod, one for each pool
that buys.
"""

from __future__ import annotations

from collections import Counter

from growth.model.note import About, Note
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_up.assign import Dealt
from growth.plan.nodes_up.demand import Demand
from growth.plan.nodes_up.runaway import MOST_IN_VAIN
from growth.plan.nodes_up.survey import Ledger, Survey, identity
from growth.plan.world.market import struck_out
from growth.plan.world.pools import offerings_of, why_not_buying
from growth.plan.world.records import about_pod, cut

_LONGEST_MESSAGE = 1000


def notes_of(dealt: Dealt, found: Survey, after: Ledger, snapshot: Snapshot, settings: Settings) -> tuple[Note, ...]:
    return (
        *_of_pools(dealt, snapshot),
        *_of_placed(dealt, found),
        *_of_unplaced(dealt, found, after, snapshot, settings),
    )


def _of_pools(dealt: Dealt, snapshot: Snapshot) -> tuple[Note, ...]:
    """One sentence for each pool: what it buys, for how many pods, at what price."""
    notes = []
    for name in sorted({choice.pool for choice, _ in dealt.orders}):
        orders = [(choice.offering, len(hand)) for choice, hand in dealt.orders if choice.pool == name]
        counts = Counter(
            f"{offering.name} in {offering.location}" if offering.location else offering.name for offering, _ in orders
        )
        told = ", ".join(f"{count} × {what}" for what, count in sorted(counts.items()))
        pods, price = sum(count for _, count in orders), sum(offering.price_per_hour for offering, _ in orders)
        fields = (("nodes", len(orders)), ("pods", pods), ("price_per_hour", round(price, 6)))
        message = f"orders {told} for {pods} pods, {price:.4f} per hour"
        notes.append(Note(About("NodePool", name, uid=snapshot.pools[name].uid), "ScaleUp", message, fields=fields))
    return tuple(notes)


def _of_placed(dealt: Dealt, found: Survey) -> tuple[Note, ...]:
    notes = []
    for choice, hand in dealt.orders:
        where = (
            f"{choice.offering.name} in {choice.offering.location}"
            if choice.offering.location
            else choice.offering.name
        )
        notes += [
            Note(about_pod(demand.pod), "Planned", f"planned onto a new {where} of NodePool {choice.pool}")
            for demand in hand
        ]
    for room, hand in dealt.into_rooms:
        if room.kind == "in-flight":
            notes += [
                Note(about_pod(demand.pod), "Planned", f"planned onto {room.node.name}, which is on its way")
                for demand in hand
            ]
        elif room.kind == "marked":
            notes += [
                Note(about_pod(demand.pod), "Revived", f"node {room.node.name} is kept: there is room for this pod")
                for demand in hand
            ]
        else:
            notes += [_room_exists(demand, room.node.name) for demand in hand if _was_lodged(demand, found)]
    return tuple(notes)


def _was_lodged(demand: Demand, found: Survey) -> bool:
    """The scheduler had its time: by now people wonder."""
    wait = found.ledger.waits.get(identity(demand.pod))
    return wait is not None and bool(wait.lodged_on)


def _room_exists(demand: Demand, node: str) -> Note:
    return Note(
        about_pod(demand.pod),
        "RoomExists",
        f"node {node} has room for this pod; nothing is bought, the scheduler decides",
    )


def _of_unplaced(
    dealt: Dealt, found: Survey, after: Ledger, snapshot: Snapshot, settings: Settings
) -> tuple[Note, ...]:
    notes = []
    asides = {name: _aside(name, snapshot, settings) for name in snapshot.pools}
    for demand, reasons in dealt.unplaced:
        more = (*_bought_in_vain(demand, found.ledger), *(asides[name] for name in demand.pools if asides.get(name)))
        message = cut("no place for this pod: " + "; ".join(reasons + more), _LONGEST_MESSAGE)
        notes.append(Note(about_pod(demand.pod), "Unplaced", message, "Warning"))
        name = identity(demand.pod)
        before, now = found.ledger.waits.get(name), after.waits[name]
        if now.is_backed_off and not (before is not None and before.is_backed_off):
            notes.append(Note(about_pod(demand.pod), "BackOff", _back_off(now.misses), "Warning"))
    return tuple(notes)


def _bought_in_vain(demand: Demand, ledger: Ledger) -> list[str]:
    """To the solver such an offering is one that the pod's own rules exclude."""
    tried = {offering: len(machines) for offering, machines in sorted(ledger.in_vain.get(demand.pod.shape, {}).items())}
    return [
        f"{count} machines of {offering} became Ready for such pods and took none, so no more are bought: mend what keeps the pods off, then make them anew"
        for offering, count in tried.items()
        if count >= MOST_IN_VAIN
    ]


def _back_off(misses: int) -> str:
    return f"no place was found {misses} times in a row; tried again when its pool changes, an offering recovers or room appears"


def _aside(name: str, snapshot: Snapshot, settings: Settings) -> str:
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
    return ", ".join(told) if listed else f"NodePool {name} lists no server type that the provider sells"
