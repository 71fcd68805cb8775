"""Where do pods go that do not look at each other? Round after round through the network, until no pod that is left has
room anywhere.

    groups ──▶ classes of machines ──▶ sink    each round: build what changed, solve, turn flow into pods on machines

A class of machines holds those that all groups of the round see alike: the same rules let them in, at the same cost of
taints and preferences. How full they are is no part of it: a group's arc is as wide as its pods fit, machine by machine
(the k-th place of a machine exists only if k pods fit), and fuller machines have higher steps to the sink. Several
groups may still be sent to the same place. Then the pods that have waited longest get it, then the larger ones, and the
others go through the network again, which by then knows that the place is taken: nothing is ever overcommitted.

The cheapest flow is one linear program, whose corners are whole numbers because it is a network:

minimise   Σ cost_a sent_a + Σ cost_s used_s + Σ price_g waiting_g
where      Σ_{a from g} sent_a + waiting_g = pods_g            every pod of a group goes somewhere
           Σ_{a into m} sent_a = Σ_{s of m} used_s             what comes into a class of machines goes on to the sink
           0 <= sent_a <= room_a,  0 <= used_s <= width_s
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from msgspec import Struct

from growth.model.node import Node
from growth.model.pod import Pod
from growth.model.scheduler import SchedulerSettings
from growth.solver.arrays import IntArray, Mask
from growth.solver.flow.costs import LoadCosts, price_of_waiting
from growth.solver.flow.fleet import Fleet
from growth.solver.flow.work import Member, Work
from growth.solver.linear import Coefficients, LinearProgram, solve_linear

_MANY = 1_000  # places are counted up to here


@dataclass(frozen=True, slots=True)
class Network:
    """Groups of pods, arcs to classes of machines, and the steps that lead on from there."""

    pods: IntArray  # G
    price: IntArray  # G: of leaving one unscheduled
    arc_group: IntArray
    arc_class: IntArray
    arc_room: IntArray
    arc_cost: IntArray
    step_class: IntArray
    step_width: IntArray
    step_cost: IntArray
    classes: int


@dataclass(frozen=True, slots=True)
class Flow:
    sent: IntArray  # along each arc
    waiting: IntArray  # of each group
    cost: int


@dataclass(frozen=True, slots=True)
class FlowStage:
    """What stays the same from round to round."""

    members: list[Member]
    allowed: list[Mask]  # by member: machines that the rules let it into
    class_of: IntArray  # N; -1: of use to no group
    machines: list[IntArray]  # by class


def place_by_flow(work: Work, members: list[Member]) -> int:
    """Places what it can; returns the cost of the first flow: that of the placement, if no two groups wanted the same
    place.
    """
    waiting = [member for member in members if member.left]
    if not waiting:
        return 0
    stage = set_stage(work, waiting)
    first_cost = None
    while any(member.left for member in waiting):
        costs = work.costs_for(waiting)
        network = build_network(work, stage, costs)
        flow = cheapest_flow(network)
        first_cost = flow.cost if first_cost is None else first_cost
        if not _put_flow(work, stage, network, flow, costs):
            break
    return first_cost or 0


def set_stage(work: Work, members: list[Member]) -> FlowStage:
    allowed = []
    for member in members:
        question = work.index.question(member.pod_class)
        allowed.append(question.fits(question.amounts) & work.is_open)
    class_of = _classes(work, members, allowed)
    order = np.argsort(class_of, kind="stable")
    bounds = np.searchsorted(class_of[order], np.arange(int(class_of.max(initial=-1)) + 2))
    machines = [order[start:end] for start, end in pairwise(bounds.tolist())]
    return FlowStage(members, allowed, class_of, machines)


def _classes(work: Work, members: list[Member], allowed: list[Mask]) -> IntArray:
    """Machines that all groups see alike have one number."""
    seen = np.ascontiguousarray(np.packbits(np.array(allowed), axis=0).T)
    every = (work.fleet.dislike(member.pod_class, work.settings) for member in members)
    dislikes = {id(dislike): dislike for dislike in every}.values()
    differing = [one.reshape(-1, 1).view(np.uint8) for one in dislikes if len(one) and one.min() != one.max()]
    looks = np.ascontiguousarray(np.concatenate([seen, *differing], axis=1))
    _, numbers = np.unique(looks.view(np.dtype((np.void, looks.shape[1]))).reshape(-1), return_inverse=True)
    is_of_use = seen.any(axis=1)
    _, dense = np.unique(numbers.reshape(-1)[is_of_use], return_inverse=True)
    class_of = np.full(len(seen), -1, np.int64)
    class_of[is_of_use] = dense.reshape(-1)
    return class_of


def build_network(work: Work, stage: FlowStage, costs: LoadCosts) -> Network:
    """As things are now. Arcs of groups that have nothing left, and arcs without room, are not there."""
    groups, classes = len(stage.members), len(stage.machines)
    parts = [_arcs(work, stage, number) for number in range(groups)]
    arc_group, arc_class, arc_room, arc_cost = (np.concatenate(part) for part in zip(*parts, strict=True))
    step_class, step_width, step_cost = costs.steps(stage.class_of)
    pods = np.array([member.left for member in stage.members], np.int64)
    top = int(step_cost.max(initial=0)) + max(1, work.settings.load_cost)
    price = top + int(arc_cost.max(initial=0)) + 1
    return Network(
        pods=pods,
        price=price + price_of_waiting(work.settings, (member.minutes for member in stage.members)),
        arc_group=arc_group,
        arc_class=arc_class,
        arc_room=arc_room,
        arc_cost=arc_cost,
        # small pods may be more than steps of mean size: for them a last step
        step_class=np.concatenate((step_class, np.arange(classes))),
        step_width=np.concatenate((step_width, np.full(classes, int(pods.sum())))),
        step_cost=np.concatenate((step_cost, np.full(classes, top))),
        classes=classes,
    )


def _arcs(work: Work, stage: FlowStage, number: int) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    member = stage.members[number]
    inside = np.flatnonzero(stage.allowed[number]) if member.left else np.zeros(0, np.int64)
    places = np.minimum(work.fleet.room_on(member.pod_class, inside), member.left)
    room = np.bincount(stage.class_of[inside], weights=places, minlength=len(stage.machines))
    classes = np.flatnonzero(room)
    dislike = work.fleet.dislike(member.pod_class, work.settings)
    cost = dislike[np.array([stage.machines[one][0] for one in classes], np.int64)]
    return np.full(len(classes), number), classes, np.minimum(room[classes], member.left).astype(np.int64), cost


def _put_flow(work: Work, stage: FlowStage, network: Network, flow: Flow, costs: LoadCosts) -> int:
    """Flow becomes pods on machines, the longest waiting first, then the largest; returns how many found a place."""
    used = np.flatnonzero(flow.sent)
    size = np.array([work.fleet.size(member.needs) for member in stage.members])
    groups = network.arc_group[used]
    order = used[np.lexsort((network.arc_class[used], groups, -size[groups], -network.price[groups]))]
    placed = 0
    for arc in order.tolist():
        member, numbers = stage.members[network.arc_group[arc]], stage.machines[network.arc_class[arc]]
        room = work.fleet.room_on(member.pod_class, numbers)
        placed += work.put_cheapest(member, numbers, room, int(flow.sent[arc]), costs)
    return placed


# -------------------------------------------------------------------------------- the cheapest flow


def cheapest_flow(network: Network) -> Flow:
    """The optimum. A network without pods or arcs needs no solver."""
    if not network.pods.sum() or not len(network.arc_room):
        return Flow(np.zeros(len(network.arc_room), np.int64), network.pods.copy(), int(network.pods @ network.price))
    values = np.rint(solve_linear(_program(network)).columns).astype(np.int64)
    sent, used = values[: len(network.arc_room)], values[len(network.arc_room) : -len(network.pods)]
    waiting = network.pods - np.bincount(network.arc_group, weights=sent, minlength=len(network.pods)).astype(np.int64)
    return Flow(sent, waiting, int(sent @ network.arc_cost + used @ network.step_cost + waiting @ network.price))


def _program(network: Network) -> LinearProgram:
    groups, arcs, steps = len(network.pods), len(network.arc_room), len(network.step_width)
    from_arcs, from_steps, waiting = np.arange(arcs), arcs + np.arange(steps), arcs + steps + np.arange(groups)
    bounds = np.concatenate((network.pods, np.zeros(network.classes, np.int64))).astype(np.float64)
    into = (network.arc_group, groups + network.arc_class, groups + network.step_class, np.arange(groups))
    return LinearProgram(
        cost=np.concatenate((network.arc_cost, network.step_cost, network.price)).astype(np.float64),
        upper=np.concatenate((network.arc_room, network.step_width, network.pods)).astype(np.float64),
        row_lower=bounds,
        row_upper=bounds,
        coefficients=Coefficients(
            rows=np.concatenate(into),
            columns=np.concatenate((from_arcs, from_arcs, from_steps, waiting)),
            values=np.concatenate((np.ones(2 * arcs), -np.ones(steps), np.ones(groups))),
        ),
    )


# ------------------------------------------------------------------------------ the ways of one pod


class Arc(Struct, frozen=True, gc=False):
    """The way to one class of machines. Its places cost `dislike`, and from `lowest` to `highest` as they fill."""

    first: str  # of its machines, by name
    machines: int
    places: int
    dislike: int
    lowest: int
    highest: int

    def __str__(self) -> str:
        alike = f"{self.first} and {self.machines - 1} like it" if self.machines > 1 else self.first
        cost = f"{self.lowest}" if self.lowest == self.highest else f"{self.lowest} to {self.highest}"
        disliked = f", and {self.dislike} for soft taints and preferences" if self.dislike else ""
        return f"{alike}: {self.places} places at {cost}{disliked}"


class Arcs(Struct, frozen=True):
    """All of them, and what leaving the pod out would cost."""

    arcs: tuple[Arc, ...]
    unscheduled: int


def arcs_of(
    fleet: Fleet, pod: Pod, settings: SchedulerSettings, is_target: Callable[[Node], bool] = lambda _: True
) -> Arcs:
    """Which ways through the network does one pod have? As if the pod and its like were alone in the round; nothing is
    placed. Pods that look at each other are placed before the flow: then these are the ways open now.
    """
    table = fleet.index.table
    is_open = table.is_here[: len(table)] & np.array([is_target(node) for node in table.nodes], np.bool_)
    work = Work(fleet, settings, is_open, np.zeros(len(table)))
    members = [Member(0, fleet.index.class_of_pod(pod), _MANY)]
    stage = set_stage(work, members)
    network = build_network(work, stage, work.costs_for(members))
    step_cost, step_class = network.step_cost[: -network.classes], network.step_class[: -network.classes]
    found = []
    for arc, number in enumerate(network.arc_class.tolist()):
        costs = step_cost[step_class == number]
        lowest, highest = int(costs.min(initial=2**31)), int(costs.max(initial=0))
        names = sorted(table.nodes[machine].name for machine in stage.machines[number].tolist())
        room, dislike = int(network.arc_room[arc]), int(network.arc_cost[arc])
        found.append(Arc(names[0], len(names), room, dislike, lowest, highest))
    return Arcs(tuple(sorted(found, key=lambda arc: (arc.lowest + arc.dislike, arc.first))), int(network.price[0]))
