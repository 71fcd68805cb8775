"""The question in numbers: classes, choices and rooms as arrays, in an order that does not depend on the order of the
input.

Asked by every stage of the solver. Demand classes that no rule can tell apart are one class here, whatever their labels
and names are. Nothing here changes after it is made."""

from __future__ import annotations

from dataclasses import dataclass

from growth.model.pod import PodShape
from growth.solver.arrays import BoolArray, FloatArray, IntArray
from growth.solver.purchase.problem import PlacementProblem
from growth.solver.purchase.rulebook import ShapeRules, Spread


@dataclass(frozen=True, slots=True, eq=False)
class SpreadView:
    """A spread rule of a class, with the nodes among which it counts and compares."""

    rule: Spread
    rooms: BoolArray
    choices: BoolArray


@dataclass(frozen=True, slots=True)
class Layout:
    """C classes, K choices, M rooms, R resources (pods last), T topology keys beside the node itself, L limit rows."""

    problem: PlacementProblem
    resources: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]  # demand classes of each class
    shapes: tuple[PodShape, ...]  # of the first member
    count: IntArray
    need: IntArray  # C × R
    is_virtual: BoolArray
    rules: tuple[ShapeRules, ...]
    spreads: tuple[tuple[SpreadView, ...], ...]
    implied: tuple[
        tuple[SpreadView, ...], ...
    ]  # spread rules of other classes that it counts for, the strictest of each tally
    choice_index: IntArray  # K: where it stands in the problem
    room_index: IntArray  # M: where it stands in the problem
    offer: IntArray  # K × R: what daemons leave
    price: FloatArray
    level: IntArray  # 0 is used up first
    fits: BoolArray  # C × K
    daemons: tuple[tuple[ShapeRules, ...], ...]  # K
    room_left: IntArray  # M × R
    room_kind: IntArray
    room_fits: BoolArray  # C × M
    contents: tuple[tuple[tuple[ShapeRules, int], ...], ...]  # M
    tally_key: IntArray  # per tally: index of its key, -1 for the node itself
    domains: tuple[tuple[str, ...], ...]  # T: names of the domains of each key
    room_domain: IntArray  # T × M, -1: the label is absent
    choice_domain: IntArray  # T × K
    limit_use: FloatArray  # L × K
    limit_bound: FloatArray  # L
    limit_name: tuple[str, ...]
