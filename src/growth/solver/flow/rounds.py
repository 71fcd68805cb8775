"""Where do pods go that do not look at each other? Round after round through the network, until no pod that is left has
room anywhere.

    groups ──▶ classes of machines ──▶ sink       each round: build what changed, solve, deal the flow out to machines

A class of machines holds those that all groups of the round see alike: the same rules let them in, at the same cost of
taints and preferences. How full they are is no part of it: a group's arc is as wide as its pods fit, machine by machine
(the k-th place of a machine exists only if k pods fit), and fuller machines stand on higher steps to the sink. Several
groups may still be sent to the same room. Then those get it that have waited longest, then the larger pods, and the
others go through the network again, which by then knows that the room is taken: nothing is ever overcommitted."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from growth.solver.arrays import IntArray, Mask
from growth.solver.flow.costs import Ground
from growth.solver.flow.filling import fill
from growth.solver.flow.network import Flow, Network, cheapest_flow
from growth.solver.flow.work import Member, Work


@dataclass(frozen=True, slots=True)
class Stage:
    """What stays the same from round to round."""

    members: list[Member]
    allowed: list[Mask]  # by member: machines that the rules let it into
    class_of: IntArray  # N; -1: of use to nobody
    machines: list[IntArray]  # by class


def place_by_flow(work: Work, members: list[Member]) -> int:
    """Places what it can; returns the cost of the first flow, which is the cost of the placement where nobody got in
    another's way.
    """
    waiting = [member for member in members if member.left]
    if not waiting:
        return 0
    stage = set_stage(work, waiting)
    first_cost = None
    while any(member.left for member in waiting):
        network = build_network(work, stage, work.ground_for(waiting))
        flow = cheapest_flow(network)
        first_cost = flow.cost if first_cost is None else first_cost
        if not _deal(work, stage, network, flow, work.ground_for(waiting)):
            break
    return first_cost or 0


def set_stage(work: Work, members: list[Member]) -> Stage:
    allowed = []
    for member in members:
        question = work.index.question(member.pod_class)
        allowed.append(question.fits(question.amounts) & work.is_open)
    class_of = _classes(work, members, allowed)
    order = np.argsort(class_of, kind="stable")
    bounds = np.searchsorted(class_of[order], np.arange(int(class_of.max(initial=-1)) + 2))
    machines = [order[start:end] for start, end in pairwise(bounds.tolist())]
    return Stage(members, allowed, class_of, machines)


def _classes(work: Work, members: list[Member], allowed: list[Mask]) -> IntArray:
    """Machines that everybody sees alike have one number."""
    seen = np.ascontiguousarray(np.packbits(np.array(allowed), axis=0).T)
    dislikes = {
        id(dislike): dislike for dislike in (work.fleet.dislike(member.pod_class, work.settings) for member in members)
    }.values()
    differing = [
        dislike.reshape(-1, 1).view(np.uint8) for dislike in dislikes if len(dislike) and dislike.min() != dislike.max()
    ]
    looks = np.ascontiguousarray(np.concatenate([seen, *differing], axis=1))
    _, numbers = np.unique(looks.view(np.dtype((np.void, looks.shape[1]))).reshape(-1), return_inverse=True)
    is_of_use = seen.any(axis=1)
    _, dense = np.unique(numbers.reshape(-1)[is_of_use], return_inverse=True)
    class_of = np.full(len(seen), -1, np.int64)
    class_of[is_of_use] = dense.reshape(-1)
    return class_of


def build_network(work: Work, stage: Stage, ground: Ground) -> Network:
    """As things stand now. Arcs of groups that have nothing left, and arcs without room, are not there."""
    groups, classes = len(stage.members), len(stage.machines)
    parts = [_arcs(work, stage, number) for number in range(groups)]
    arc_group, arc_class, arc_room, arc_cost = (np.concatenate(part) for part in zip(*parts, strict=True))
    step_class, step_width, step_cost = ground.steps(stage.class_of)
    pods = np.array([member.left for member in stage.members], np.int64)
    top = int(step_cost.max(initial=0)) + max(1, work.settings.load_cost)
    price = top + int(arc_cost.max(initial=0)) + 1
    return Network(
        pods=pods,
        price=price + work.settings.waiting_cost * np.array([member.minutes for member in stage.members], np.int64),
        arc_group=arc_group,
        arc_class=arc_class,
        arc_room=arc_room,
        arc_cost=arc_cost,
        step_class=np.concatenate(
            (step_class, np.arange(classes))
        ),  # small pods may be more than steps of mean size: for them a last step
        step_width=np.concatenate((step_width, np.full(classes, int(pods.sum())))),
        step_cost=np.concatenate((step_cost, np.full(classes, top))),
        classes=classes,
    )


def _arcs(work: Work, stage: Stage, number: int) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    member = stage.members[number]
    inside = np.flatnonzero(stage.allowed[number]) if member.left else np.zeros(0, np.int64)
    room = np.bincount(
        stage.class_of[inside],
        weights=np.minimum(work.fleet.room_on(member.pod_class, inside), member.left),
        minlength=len(stage.machines),
    )
    classes = np.flatnonzero(room)
    dislike = work.fleet.dislike(member.pod_class, work.settings)
    cost = dislike[np.array([stage.machines[one][0] for one in classes], np.int64)]
    return np.full(len(classes), number), classes, np.minimum(room[classes], member.left).astype(np.int64), cost


def _deal(work: Work, stage: Stage, network: Network, flow: Flow, ground: Ground) -> int:
    """Flow becomes pods on machines: who waited longest first, then the largest; returns how many found their place."""
    used = np.flatnonzero(flow.sent)
    size = np.array([work.fleet.size(member.needs) for member in stage.members])
    groups = network.arc_group[used]
    order = used[np.lexsort((network.arc_class[used], groups, -size[groups], -network.price[groups]))]
    placed = 0
    for arc in order.tolist():
        member, numbers = stage.members[network.arc_group[arc]], stage.machines[network.arc_class[arc]]
        placed += put_cheaply(
            work, member, numbers, int(flow.sent[arc]), ground, work.fleet.room_on(member.pod_class, numbers)
        )
    return placed


def put_cheaply(work: Work, member: Member, numbers: IntArray, count: int, ground: Ground, room: IntArray) -> int:
    """So many pods onto the cheapest of these machines, which the pod sees alike."""
    load, share = work.fleet.load(numbers), work.fleet.share(member.needs, numbers)
    counts = fill(ground.first(share, load, numbers), ground.slope(share), room, count, rank=-load)
    return work.put(member, numbers, counts)
