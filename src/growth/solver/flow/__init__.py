"""Where do waiting pods go, if all of them are looked at together? Placement by min-cost flow, onto nodes that exist;
it buys nothing, that is the business of `solver/purchase`. Asked by `plan/flow/scheduling` and `growth explain pod`.

    groups of equal pods ──arcs──▶ classes of machines ──steps of rising cost──▶ sink
            └──────────────────▶ unscheduled ─────────────────────────────────▶ sink

| step of one placement | |
| --- | --- |
| priorities | the highest first; a lower one gets what is left. A gang has the highest priority of its members |
| pods that look at each other | `flow/entangled`, in steps over classes |
| the others | `flow/network`; small rounds of several sizes also by `flow/exact`, and the cheaper one is used |
| gangs that are too few | give back what they got, the one farthest from its number first |
| pods that were overtaken | the band is placed again, those who have waited as long as they first (`flow/work`) |
| pods that are left | a reason that adds up over all machines |

What a gang gives back is offered to the others; at the end each such gang is tried once more. The fleet is left as it
was: what was placed is in the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

import numpy as np
from msgspec import Struct

from growth.model.node import Node
from growth.model.pod import Pod
from growth.model.scheduler import SchedulerSettings
from growth.model.snapshot import EMPTY
from growth.solver.arrays import FloatArray, Mask
from growth.solver.flow.costs import minutes_waited
from growth.solver.flow.entangled import looks_for_pods, open_counters, place_entangled
from growth.solver.flow.exact import SmallRound, place_exactly, small_round
from growth.solver.flow.fleet import Fleet
from growth.solver.flow.network import Arc, Arcs, arcs_of, place_by_flow
from growth.solver.flow.work import Member, Work, in_turns, oldest_overtaken
from growth.solver.reasons import sentence
from growth.solver.rules.claims import NO_VOLUMES

__all__ = ["Arc", "Arcs", "Fleet", "Group", "Left", "Placed", "Round", "arcs_of", "place"]

NO_TARGET = "going away"
_MOST_CUTS = 4  # so often a band is placed again for the sake of those who have waited longest


class Group(Struct, frozen=True):
    """Pods that no rule can tell apart, and that wait alike: `pod` is any of them."""

    pod: Pod
    count: int = 1
    gang: str = ""
    waiting_seconds: float = 0.0


class Placed(Struct, frozen=True, gc=False):
    group: int
    node: str
    count: int


class Left(Struct, frozen=True, gc=False):
    group: int
    count: int
    reason: str


class Round(Struct, frozen=True):
    """The answer, in the order in which pods were placed: the rules hold for each one when it comes. `cost` is that of
    the flows alone.
    """

    placed: tuple[Placed, ...] = ()
    left: tuple[Left, ...] = ()
    cost: int = 0


def place(
    fleet: Fleet,
    groups: Sequence[Group],
    settings: SchedulerSettings,
    gangs: Mapping[str, int] = EMPTY,
    is_target: Callable[[Node], bool] | None = None,
    price_of: Callable[[Node], float] | None = None,
) -> Round:
    """`gangs` says how many more of each must start at least. Nodes that are no target take no pods, but what is on
    them counts.
    """
    index = fleet.index
    for group in groups:  # a later one may split the class of an earlier one
        index.class_of_pod(group.pod)
    classes = [index.class_of_pod(group.pod) for group in groups]
    for pod_class in classes:  # before anything is placed: counters begin with what is in the index
        index.question(pod_class)
        open_counters(index, pod_class)
    members = [
        Member(number, pod_class, group.count, minutes_waited(group.waiting_seconds), group.gang)
        for number, (group, pod_class) in enumerate(zip(groups, classes, strict=True))
    ]
    is_open = _here(fleet)
    if is_target is not None:
        is_open &= np.array([is_target(node) for node in index.table.nodes], np.bool_)
    work = Work(fleet, settings, is_open, _upkeep(fleet, settings, price_of))
    try:
        cost = sum(_place_band(work, list(band), gangs) for band in _bands(groups, members))
        return Round(_placed(work), _left(work, members, gangs), cost)
    finally:
        work.take_back()


def _here(fleet: Fleet) -> Mask:
    return fleet.index.table.is_here[: len(fleet.index.table)].copy()


def _upkeep(fleet: Fleet, settings: SchedulerSettings, price_of: Callable[[Node], float] | None) -> FloatArray:
    """What keeping each machine costs that nothing else keeps. Looked at by one cost model only."""
    if settings.cost_model != "cheapest" or price_of is None:
        return np.zeros(len(fleet.index.table))
    prices = np.array([price_of(node) for node in fleet.index.table.nodes], np.float64)
    return np.where(fleet.in_use() > 0, 0.0, prices)


def _bands(groups: Sequence[Group], members: list[Member]) -> list[list[Member]]:
    highest: dict[str, int] = {}
    for group in groups:
        if group.gang:
            highest[group.gang] = max(group.pod.shape.priority, highest.get(group.gang, group.pod.shape.priority))

    def priority(member: Member) -> int:
        return highest[member.gang] if member.gang else groups[member.number].pod.shape.priority

    return [list(band) for _, band in groupby(sorted(members, key=priority, reverse=True), key=priority)]


# ----------------------------------------------------------------------------------------- one band


def _place_band(work: Work, members: list[Member], gangs: Mapping[str, int]) -> int:
    """All together; then again, in turns by age, as long as somebody is left whose room younger ones got."""
    begun, cuts = len(work.placed), set[int]()
    cost = _place_turn(work, members, gangs)
    while len(cuts) < _MOST_CUTS:
        found = oldest_overtaken(work, members, begun, cuts)
        if found is None:
            break
        cuts.add(found)
        work.take_back(since=begun)
        cost = sum(_place_turn(work, turn, gangs) for turn in in_turns(members, cuts))
    return cost


def _place_turn(work: Work, members: list[Member], gangs: Mapping[str, int]) -> int:
    cost = _place_all(work, members, gangs)
    barred: list[str] = []
    while (gang := _farthest_from_its_number(work, members, gangs, barred)) is not None:
        barred.append(gang)
        work.take_back(gang)
        _place_all(work, [member for member in members if member.gang not in barred], gangs)
    for gang in barred:
        own = [member for member in members if member.gang == gang]
        _place_all(work, own, EMPTY)  # as many as fit: it is whole, or people are told how many that is
        if work.count_of(gang) < gangs.get(gang, 0):
            work.why_short[gang] = _why_short(work, own)
            work.take_back(gang)
    return cost


def _farthest_from_its_number(
    work: Work, members: list[Member], gangs: Mapping[str, int], barred: list[str]
) -> str | None:
    """Of gangs that are too few, the one with the smallest share of what it needs."""
    shares = []
    for gang in sorted({member.gang for member in members if member.gang and member.gang not in barred}):
        needed = gangs.get(gang, 0)
        if work.count_of(gang) < needed:
            shares.append((work.count_of(gang) / needed, gang))
    return min(shares)[1] if shares else None


def _place_all(work: Work, members: list[Member], gangs: Mapping[str, int]) -> int:
    """Pods that look at each other first, then the others; what the exact model finds for these is used if it is
    cheaper. Host ports it can express, as long as nobody in the band has other rules between pods.
    """
    entangled = _entangled(work, members)
    bound = [member for member in members if member.number in entangled]
    if all(_has_only_ports(member) for member in bound):
        tied, free = [], members
    else:
        tied, free = bound, [member for member in members if member.number not in entangled]
    place_entangled(work, sorted(tied, key=_urgency))
    asked = small_round(work, free, gangs) if _is_mixed(free) else None
    before = len(work.placed)
    place_entangled(work, sorted((member for member in free if member.number in entangled), key=_urgency))
    cost = place_by_flow(work, [member for member in free if member.number not in entangled])
    return cost if asked is None else _improve(work, asked, before, cost)


def _has_only_ports(member: Member) -> bool:
    shape = member.pod_class.shape
    has_rules = shape.affinity or shape.anti_affinity or shape.spread or looks_for_pods(shape)
    return bool(shape.host_ports) and not has_rules and member.pod_class.needs is NO_VOLUMES


def _is_mixed(members: list[Member]) -> bool:
    """Do they differ in size, want ports or start together? Else the flow is exact."""
    waiting = [member for member in members if member.left]
    sizes = {tuple(sorted(member.needs.items())) for member in waiting}
    return len(sizes) > 1 or any(member.gang or member.pod_class.shape.host_ports for member in waiting)


def _improve(work: Work, asked: SmallRound, before: int, cost: int) -> int:
    """The better of what was placed since `before` and what the exact model finds."""
    known = asked.cost_of(asked.counts_of(work.placed[before:]))
    counts = place_exactly(asked)
    if counts is None or (found := asked.cost_of(counts)) >= known:
        return cost
    work.take_back(since=before)
    for member, row in zip(asked.members, counts, strict=True):
        work.put(member, asked.numbers, row)
    return round(found)


def _entangled(work: Work, members: list[Member]) -> set[int]:
    """Groups whose pods change where pods of this band may go, or would rather go, beyond amounts."""
    reads, counts = dict[int, set[int]](), dict[int, set[int]]()  # counters by the number of a group
    for member in members:
        reads[member.number] = {id(counter) for counter in work.index.question(member.pod_class).reads()}
        counts[member.number] = {id(counter) for counter in work.index.counters_with(member.pod_class)}
    read, counted = set().union(*reads.values()), set().union(*counts.values())

    def is_entangled(member: Member) -> bool:
        looks_at_others = reads[member.number] & counted or counts[member.number] & read
        pod_class = member.pod_class
        return bool(looks_at_others) or pod_class.needs is not NO_VOLUMES or looks_for_pods(pod_class.shape)

    return {member.number for member in members if is_entangled(member)}


def _urgency(member: Member) -> tuple[bool, int, float, int]:
    """Pods with the least freedom first; pods that are spread after those they are counted with, so that the spread
    holds at the end too; pods with affinity last: they need others to be there.
    """
    shape = member.pod_class.shape
    freedom = 0 if shape.anti_affinity else 2 if shape.spread else 1
    return bool(shape.affinity), freedom, -float(shape.requests["cpu"]), member.number


# --------------------------------------------------------------------------------------- the answer


def _placed(work: Work) -> tuple[Placed, ...]:
    nodes = work.index.table.nodes
    return tuple(
        Placed(member.number, nodes[number].name, count)
        for member, numbers, counts in work.placed
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
    )


def _left(work: Work, members: list[Member], gangs: Mapping[str, int]) -> tuple[Left, ...]:
    reasons: dict[int, str] = {}  # by class
    left = []
    for member in members:
        if not member.left:
            continue
        missing = gangs.get(member.gang, 0) - work.count_of(member.gang) if member.gang else 0
        if missing > 0:
            reason = f"gang {member.gang}: {gangs[member.gang]} more must start together, and there is room for "
            reason += work.why_short.get(member.gang, "fewer")
        else:
            if member.pod_class.number not in reasons:
                reasons[member.pod_class.number] = _why(work, member)
            reason = reasons[member.pod_class.number]
        left.append(Left(member.number, member.left, reason))
    return tuple(left)


def _why_short(work: Work, members: list[Member]) -> str:
    """For how many of a gang there is room, while these have it, and why there is none for another one."""
    placed, left = work.count_of(members[0].gang), next((member for member in members if member.left), None)
    return str(placed) if left is None else f"{placed}; for another one: {_why(work, left)}"


def _why(work: Work, member: Member) -> str:
    """`0/12 nodes are available: …`, as the machines are at the end of the round."""
    here = _here(work.fleet)
    phrases = work.index.why_refused(member.pod_class, here & work.is_open)
    closed = int((here & ~work.is_open).sum())
    return sentence({**phrases, **({NO_TARGET: closed} if closed else {})}, int(here.sum()))
