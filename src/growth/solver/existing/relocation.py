"""Where do these pods go among the nodes that stay? A search with a bound. Asked by the what-if, inside a trial.

| step | how |
| --- | --- |
| 1 | first fit, each class first where the last of its kind went; pods that only need amounts are counted apart |
| 2 | a pod that fits on no node even alone, and that no other pod can help: there is no place, whatever the order |
| 3 | tightest fit, largest first; a pod that finds no place is first in the next round (or last, if it was first) |
| 4 | up to twenty pods: an integer program over amounts says where all could go, or that there is no such way |
| 5 | few pods: every order and every target that differ, depth first |

What the program says is carried out by the rules before it counts: it knows of rules between pods only what keeps pods
of a kind off one node. Pods that are counted apart cost nothing to undo. Steps 3 to 5 spend from a budget of steps, so
that one hard node cannot delay the rest. When the budget is spent, no place was found; that errs on the side of keeping
a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from growth.model.pod import Pod
from growth.solver.arrays import Amounts, Mask
from growth.solver.linear import INFINITE, Coefficients, LinearProgram, solve_linear
from growth.solver.rules import Neighbours
from growth.solver.rules.pod_class import PodClass
from growth.solver.rules.resources import Vector

_ROUNDS: Final = 8
_FEW: Final = 12  # pods; more have too many ways
_SOME: Final = 20  # pods; more are too many for the program
_MOST_PAIRS: Final = 1_500  # of a class and a node in the program
_STEPS_OF_PROGRAM: Final = 400  # what asking it counts as
_SEARCH_NODES: Final = 500
_MOST_STEPS: Final = 600  # for one question


Rank: TypeAlias = tuple[int, int]


class Mover(NamedTuple):
    """A pod that must move; where it only holds room, its name for people. The search tells movers apart as objects."""

    pod: Pod | str
    pod_class: PodClass

    @property
    def name(self) -> str:
        return self.pod if isinstance(self.pod, str) else self.pod.key


class Relocated(NamedTuple):
    """Where each mover goes, by node number in the order of the movers; or the mover that found no place."""

    targets: list[int]
    stuck: Mover | None = None


class StepBudget:
    """Steps that searches may still take, all together."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def take_step(self) -> bool:
        self.left -= 1
        return self.left >= 0


class _Profile(NamedTuple):
    """What the search knows of a class."""

    is_plain: bool  # only amounts matter, and no rule looks where it is
    is_helpless: bool  # no placement of another pod can open a node for it
    rows: list[tuple[int, int]]
    order: tuple[bool, float, Rank]


class Relocation:
    """Finds places. All classes that will be asked about are named first, each with its rank: then every rule that
    looks at others is known.
    """

    def __init__(self, neighbours: Neighbours, targets: Mask, ranks: Mapping[PodClass, Rank]) -> None:
        self._neighbours, self._ranks = neighbours, ranks
        self._others = {*ranks, *neighbours.classes_in_use()}  # whose rules matter
        self.targets = targets
        self._last: dict[int, int] = {}
        for pod_class in ranks:
            neighbours.question(pod_class)
        size, table = len(neighbours.table), neighbours.table
        free = np.where(table.is_here[:size], np.maximum(table.free[:, :size].astype(np.float64), 0.0), 0.0)
        total = free.sum(axis=1)
        self._weights = 1.0 / np.maximum(total, 1.0)
        self._profiles: dict[int, _Profile] = {}

    @contextmanager
    def begun_anew(self) -> Iterator[None]:
        """As if nothing had been placed before."""
        before, self._last = self._last, {}
        try:
            yield
        finally:
            self._last = before

    def profile(self, pod_class: PodClass) -> _Profile:
        known = self._profiles.get(pod_class.number)
        if known is None:
            known = self._profiles[pod_class.number] = self._describe(pod_class)
        return known

    def _describe(self, pod_class: PodClass) -> _Profile:
        neighbours, shape = self._neighbours, pod_class.shape
        rows = [(row, amount) for row, amount in Vector(neighbours.table, shape.requests).rows if amount > 0]
        is_watched = neighbours.is_watched_by(pod_class, self._others)
        is_plain = neighbours.question(pod_class).is_plain(self._others) and not is_watched
        size = sum(amount * self._weights[row] for row, amount in rows if row < len(self._weights))
        order = (is_plain, -float(size), self._ranks[pod_class])
        return _Profile(is_plain, not (shape.affinity or shape.spread), rows, order)

    def order(self, movers: Sequence[Mover]) -> list[Mover]:
        """Those with rules between pods first, then the largest."""
        order_of = {one: self.profile(one).order for one in dict.fromkeys(mover.pod_class for mover in movers)}
        return sorted(movers, key=lambda mover: order_of[mover.pod_class])

    # ------------------------------------------------------------------------------------ first fit

    def first_fit(self, movers: Sequence[Mover]) -> Relocated:
        """First fit. Leaves nothing placed."""
        taken: dict[int, list[int]] = {}  # what is left on nodes that took plain pods
        counted: list[tuple[PodClass, int]] = []
        targets: list[int] = []
        profiles = self._profiles  # all are known: the movers were put in order by them
        for mover in movers:
            pod_class = mover.pod_class
            profile = profiles[pod_class.number]
            if profile.is_plain:
                target = self._plain_target(pod_class, profile.rows, taken)
            else:
                target = self._first_target(pod_class)
                counted.append((pod_class, target))
            if target < 0:
                break
            targets.append(target)
        for pod_class, target in counted:
            if target >= 0:
                self._neighbours.count_in(pod_class, target, -1)
        return Relocated(targets, movers[len(targets)] if len(targets) < len(movers) else None)

    def _first_target(self, pod_class: PodClass) -> int:
        neighbours = self._neighbours
        target = self._last.get(pod_class.number, -1)
        if target < 0 or not neighbours.fits_on(pod_class, target):
            fits = neighbours.fits(pod_class) & self.targets
            target = int(fits.argmax())
            if not fits[target]:
                return -1
            self._last[pod_class.number] = target
        neighbours.count_in(pod_class, target, 1)
        return target

    def _plain_target(self, pod_class: PodClass, rows: list[tuple[int, int]], taken: dict[int, list[int]]) -> int:
        target = self._last.get(pod_class.number, -1)
        if target >= 0 and self._neighbours.table.is_here[target] and self._take(target, rows, taken):
            return target
        fits = self._neighbours.fits(pod_class) & self.targets
        while True:
            target = int(fits.argmax())
            if not fits[target]:
                return -1
            if self._take(target, rows, taken):
                self._last[pod_class.number] = target
                return target
            fits[target] = False

    def _take(self, target: int, rows: list[tuple[int, int]], taken: dict[int, list[int]]) -> bool:
        left = taken.get(target)
        if left is None:
            left = taken[target] = [row[target] for row in self._neighbours.table.free_one]
        for row, amount in rows:
            if left[row] < amount:
                return False
        for row, amount in rows:
            left[row] -= amount
        return True

    # ----------------------------------------------------------------------------------- reordering

    def first_that_fits_nowhere(self, movers: Sequence[Mover]) -> Mover | None:
        """A mover that fits on no target even alone, and that no placement of another pod can help."""
        for pod_class in dict.fromkeys(mover.pod_class for mover in movers):
            if self.profile(pod_class).is_helpless and not (self._neighbours.fits(pod_class) & self.targets).any():
                return next(mover for mover in movers if mover.pod_class is pod_class)
        return None

    def search(self, movers: Sequence[Mover], budget: StepBudget) -> Relocated | None:
        """In other orders; None if no place was found within the budget. Leaves nothing placed."""
        given = max(0, min(_MOST_STEPS, budget.left))
        own = StepBudget(given)
        try:
            order, seen = list(movers), set[tuple[int, ...]]()
            for _ in range(_ROUNDS):
                seen.add(tuple(id(mover) for mover in order))
                found = self._tightest_fit(order, own)
                if found.stuck is None:
                    return _in_order(movers, order, found.targets)
                order = _reordered(order, found.stuck)
                if tuple(id(mover) for mover in order) in seen:
                    break
            if len(movers) > _SOME or own.left <= 0:
                return None
            budget.left -= _STEPS_OF_PROGRAM
            planned = self._by_program(movers)
            if planned is not None and planned.stuck is None:
                return planned
            return self._search_all(movers, own) if planned is not None and len(movers) <= _FEW else None
        finally:
            budget.left -= given - max(0, own.left)

    def _tightest_fit(self, order: Sequence[Mover], budget: StepBudget) -> Relocated:
        targets: list[int] = []
        with self._neighbours.trial():
            for mover in order:
                nodes = self.targets_for(mover.pod_class) if budget.take_step() else []
                if not nodes:
                    return Relocated(targets, mover)
                self._neighbours.add(mover.pod_class, nodes[0])
                targets.append(nodes[0])
        return Relocated(targets)

    def targets_for(self, pod_class: PodClass) -> list[int]:
        """Nodes that take it, the tightest first."""
        numbers = np.flatnonzero(self._neighbours.fits(pod_class) & self.targets)
        if not len(numbers):
            return []
        free = self._neighbours.table.free
        weights = np.concatenate((self._weights, np.ones(len(free) - len(self._weights))))
        slack = weights @ free[:, numbers].astype(np.float64)
        return [int(number) for number in numbers[np.argsort(slack, kind="stable")]]

    # ------------------------------------------------------------------------------------ all at once

    def _by_program(self, movers: Sequence[Mover]) -> Relocated | None:
        """Where the program sends the movers, as far as the rules let them; None if not even amounts allow it."""
        classes = list(dict.fromkeys(mover.pod_class for mover in movers))
        fits = np.array([self._open_to(pod_class) for pod_class in classes])
        nodes = np.flatnonzero(fits.any(axis=0))
        if not fits.any(axis=1).all():
            return None
        if len(nodes) * len(classes) > _MOST_PAIRS:
            return Relocated([], movers[0])
        counts = [sum(mover.pod_class is pod_class for mover in movers) for pod_class in classes]
        found = self._send(classes, counts, fits[:, nodes], nodes)
        if found is None:
            return None
        sent = {one.number: list(np.repeat(nodes, row)) for one, row in zip(classes, found, strict=True)}
        return self._carried_out(movers, [int(sent[mover.pod_class.number].pop()) for mover in movers])

    def _open_to(self, pod_class: PodClass) -> Mask:
        """Where it might go once others are placed."""
        question = self._neighbours.question(pod_class)
        if self.profile(pod_class).is_helpless:
            return question.fits() & self.targets
        return question.fits_alone(self.targets & self._neighbours.table.is_here[: len(self.targets)])

    def _send(self, classes: list[PodClass], counts: list[int], fits: Mask, nodes: Amounts) -> Amounts | None:
        """Classes × nodes: so many pods of each class to each node, within what the nodes have left."""
        of_class, of_node = np.nonzero(fits)
        free = self._neighbours.table.free[:, nodes].astype(np.float64)
        scale = np.maximum(free.max(axis=1), 1.0)
        need = np.zeros((len(classes), len(free)))
        for number, pod_class in enumerate(classes):
            for row, amount in self.profile(pod_class).rows:
                need[number, row] = amount / scale[row]
        pairs, rows = len(of_class), np.arange(len(free))
        columns = np.arange(pairs)
        used = need[of_class]  # pairs × resources
        coefficients = Coefficients(
            rows=np.concatenate([of_class, (len(classes) + of_node[:, None] * len(free) + rows).ravel()]),
            columns=np.concatenate([columns, np.repeat(columns, len(free))]),
            values=np.concatenate([np.ones(pairs), used.ravel()]),
        )
        alone = np.array([self._minds_its_own(pod_class, fits[row], nodes) for row, pod_class in enumerate(classes)])
        wanted = np.array(counts, dtype=np.float64)
        room = (np.maximum(free, 0.0) / scale[:, None]).T.ravel()
        program = LinearProgram(
            cost=np.zeros(pairs),
            upper=np.where(alone[of_class], 1.0, wanted[of_class]),
            row_lower=np.concatenate([wanted, np.full(len(room), -INFINITE)]),
            row_upper=np.concatenate([wanted, room]),
            coefficients=coefficients,
            is_integer=True,
        )
        found = solve_linear(program, mip_max_nodes=_SEARCH_NODES, presolve="on")
        if not found.is_feasible or len(found.columns) != pairs:
            return None
        sent = np.zeros(fits.shape, np.int64)
        sent[of_class, of_node] = np.round(found.columns).astype(np.int64)
        return sent

    def _minds_its_own(self, pod_class: PodClass, fits: Mask, nodes: Amounts) -> bool:
        """Does one such pod keep the next off its node, whatever the amounts?"""
        if self.profile(pod_class).is_plain or not self.profile(pod_class).is_helpless or not fits.any():
            return False
        node = int(nodes[int(fits.argmax())])
        with self._neighbours.trial():
            self._neighbours.add(pod_class, node)
            question = self._neighbours.question(pod_class)
            return not bool(question.fits(without=question.amounts)[node])

    def _carried_out(self, movers: Sequence[Mover], targets: list[int]) -> Relocated:
        """The same, if the rules let every mover in, in one order or another."""
        waiting = list(zip(movers, targets, strict=True))
        with self._neighbours.trial():
            while waiting:
                left = []
                for mover, target in waiting:
                    if self._neighbours.fits_on(mover.pod_class, target):
                        self._neighbours.add(mover.pod_class, target)
                    else:
                        left.append((mover, target))
                if len(left) == len(waiting):
                    return Relocated([], left[0][0])
                waiting = left
        return Relocated(targets)

    # ------------------------------------------------------------------------------------ every way

    def _search_all(self, movers: Sequence[Mover], budget: StepBudget) -> Relocated | None:
        left = list(movers)
        placed: list[tuple[Mover, int]] = []
        if not self._place_all(left, placed, budget):
            return None
        order = [mover for mover, _ in placed]
        return _in_order(movers, order, [target for _, target in placed])

    def _place_all(self, left: list[Mover], placed: list[tuple[Mover, int]], budget: StepBudget) -> bool:
        if not left:
            return True
        tried: set[int] = set()
        for position, mover in enumerate(left):
            if mover.pod_class.number in tried:
                continue
            tried.add(mover.pod_class.number)
            rest = left[:position] + left[position + 1 :]
            for target in self._distinct_targets(mover.pod_class, left):
                if not budget.take_step():
                    return False
                with self._neighbours.trial():
                    self._neighbours.add(mover.pod_class, target)
                    placed.append((mover, target))
                    if self._place_all(rest, placed, budget):
                        return True
                    placed.pop()
            if self.profile(mover.pod_class).is_helpless:
                return False  # it must go somewhere, and no other pod can help it: later is no better
        return False

    def _distinct_targets(self, pod_class: PodClass, left: Sequence[Mover]) -> list[int]:
        """Nodes that take it, one of each kind: nodes that all pods left cannot tell apart lead to the same result."""
        nodes = self.targets_for(pod_class)
        alike = self._neighbours.node_classes(dict.fromkeys(mover.pod_class for mover in left))
        return list({int(alike[number]): number for number in reversed(nodes)}.values())[::-1]


def _reordered(order: list[Mover], stuck: Mover) -> list[Mover]:
    others = [mover for mover in order if mover is not stuck]
    return [*others, stuck] if order[0] is stuck else [stuck, *others]


def _in_order(movers: Sequence[Mover], order: Sequence[Mover], targets: Sequence[int]) -> Relocated:
    """The targets in the order that was asked for."""
    by_name: dict[int, int] = {id(mover): target for mover, target in zip(order, targets, strict=True)}
    return Relocated([by_name[id(mover)] for mover in movers])
