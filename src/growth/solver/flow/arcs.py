"""Which ways through the network does one pod have? Asked by `growth explain pod`; nothing is placed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from growth.model.node import Node
from growth.model.pod import Pod
from growth.model.settings import SchedulerSettings
from growth.solver.flow.fleet import Fleet
from growth.solver.flow.rounds import build_network, set_stage
from growth.solver.flow.work import Member, Work

_MANY = 1_000  # places are counted up to here


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
    """As if the pod and its like were alone in the round. Pods that look at each other are placed before the flow: then
    these are the ways open now.
    """
    table = fleet.index.table
    is_open = table.is_here[: len(table)] & np.array([is_target(node) for node in table.nodes], np.bool_)
    work = Work(fleet, settings, is_open, np.zeros(len(table)))
    members = [Member(0, fleet.index.class_of_pod(pod), _MANY)]
    stage = set_stage(work, members)
    network = build_network(work, stage, work.ground_for(members))
    found = []
    for number, room, dislike in zip(
        network.arc_class.tolist(), network.arc_room.tolist(), network.arc_cost.tolist(), strict=True
    ):
        costs = network.step_cost[: -network.classes][network.step_class[: -network.classes] == number]
        names = sorted(table.nodes[machine].name for machine in stage.machines[number].tolist())
        found.append(Arc(names[0], len(names), room, dislike, int(costs.min(initial=2**31)), int(costs.max(initial=0))))
    return Arcs(tuple(sorted(found, key=lambda arc: (arc.lowest + arc.dislike, arc.first))), int(network.price[0]))
