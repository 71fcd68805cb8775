"""What is the cheapest way through the network? One linear program, whose corners are whole numbers because it is a
network. Asked by `flow/rounds`.

minimise   Σ cost_a sent_a + Σ cost_s used_s + Σ price_g waiting_g
where      Σ_{a from g} sent_a + waiting_g = pods_g            every pod of a group goes somewhere
           Σ_{a into m} sent_a = Σ_{s of m} used_s             what comes into a class of machines goes on to the sink
           0 <= sent_a <= room_a,  0 <= used_s <= width_s
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from growth.solver.arrays import IntArray
from growth.solver.linear import Coefficients, LinearProgram, solve_linear


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
