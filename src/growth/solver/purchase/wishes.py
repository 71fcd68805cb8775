"""Can a planned node be somewhere its pods would rather be? Asked by `solver/purchase/solve` at the very end, unless
preferences are ignored.

No node is bought for a wish: a node only becomes another choice that holds the same. All wishes of all its pods
together are worth one percent of its price, so a plan gets dearer by that at most. Which of the nodes that are there a
pod prefers is left to the scheduler, which decides it.

| wish | how far a node grants it |
| --- | --- |
| preferred nodes | the weights of the terms that match |
| preferred affinity, beyond the node | the share of all matching pods that stand in its domain |
| preferred anti-affinity, spread with ScheduleAnyway, beyond the node | the share that stands elsewhere |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from growth.model.labels import HOSTNAME
from growth.model.node import Node
from growth.model.pod import PodShape
from growth.solver.arrays import FloatArray, IntArray
from growth.solver.purchase.bins import Bins
from growth.solver.purchase.thrift import could_become
from growth.solver.rules import Neighbours
from growth.solver.rules.claims import NO_VOLUMES
from growth.solver.rules.pod_affinity import matching, read_terms
from growth.solver.rules.pod_class import Entry, PodClass
from growth.solver.rules.rule import Weight
from growth.solver.rules.selectors import any_term_matches
from growth.solver.rules.spread import matching_pods, read_constraint

_WORTH = 0.01  # of a node's price
_FULL_WEIGHT = 100  # the most that one wish may weigh
_SPREAD_WEIGHT = 50


def grant_wishes(bins: Bins) -> None:
    """Exchange the choices of planned nodes for others that their pods prefer."""
    if not any(has_wishes(shape) for shape in bins.layout.shapes):
        return
    reader = _Reader(bins)
    wishes = {index: wish for index, shape in enumerate(bins.layout.shapes) if (wish := reader.read(shape)) is not None}
    for number in range(bins.rooms, bins.size):
        wanted = [(wishes[index], count) for index, count in sorted(bins.contents[number].items()) if index in wishes]
        if wanted:
            better = _preferred(bins, number, wanted)
            reader.move(bins.contents[number], int(bins.choice[number]), better)
            bins.exchange(number, better)


def has_wishes(shape: PodShape) -> bool:
    return bool(shape.preferred_nodes) or has_wishes_about_pods(shape)


def has_wishes_about_pods(shape: PodShape) -> bool:
    return bool(shape.preferred_affinity or shape.preferred_anti_affinity) or any(
        one.when_unsatisfiable == "ScheduleAnyway" for one in shape.spread
    )


def _preferred(bins: Bins, number: int, wanted: Sequence[tuple[_Wish, int]]) -> int:
    layout, choice, content = bins.layout, int(bins.choice[number]), bins.contents[number]
    granted = np.zeros(len(layout.price))
    for wish, count in wanted:
        granted += wish.granted(choice, content) * count
    score = layout.price - _WORTH * layout.price[choice] * granted / sum(content.values())
    allowed = could_become(bins, number) & (score < score[choice] - 1e-12)
    for candidate in sorted(np.flatnonzero(allowed), key=lambda able: (score[able], able)):
        if layout.daemons[candidate] == layout.daemons[choice]:
            return int(candidate)
    return choice


@dataclass(frozen=True, slots=True)
class _Wish:
    """What the pods of one class would like: choices by weight, and crowds to be in or to avoid."""

    weights: FloatArray  # K
    crowds: tuple[_Crowd, ...]
    scale: float

    def granted(self, choice: int, content: dict[int, int]) -> FloatArray:
        """From 0 to 1 for each choice, for a pod of a node that is of `choice` now."""
        total = self.weights.copy()
        for crowd in self.crowds:
            total += crowd.granted(choice, content)
        return np.asarray(total / self.scale)


@dataclass(frozen=True, slots=True)
class _Crowd:
    """Pods that a term matches; a negative weight says that they are avoided."""

    census: _Census
    weight: int
    members: frozenset[int]  # classes
    standing: FloatArray  # pods that stand there already, in each domain

    def granted(self, choice: int, content: dict[int, int]) -> FloatArray:
        counts = self.standing + self.census.counts[:, sorted(self.members)].sum(axis=1)
        counts[self.census.domain[choice]] -= sum(count for index, count in content.items() if index in self.members)
        counts[-1] = 0.0  # where the label is absent, nobody stands near anybody
        share = counts[self.census.domain] / max(1.0, float(counts.sum()))
        return np.asarray(self.weight * share if self.weight > 0 else -self.weight * (1 - share))


class _Census:
    """How many pods of each class are planned, and of each shape stand already, in each domain of a key; the last
    stands for an absent label.
    """

    def __init__(self, bins: Bins, key: str) -> None:
        layout, problem = bins.layout, bins.layout.problem
        of_choices = [problem.choices[int(index)].labels.get(key) for index in layout.choice_index]
        of_rooms = [problem.rooms[int(index)].node.labels.get(key) for index in layout.room_index]
        names = sorted({name for name in (*of_choices, *of_rooms) if name is not None})
        position: dict[str | None, int] = {name: number for number, name in enumerate(names)}
        self.domain: IntArray = np.array([position.get(name, len(names)) for name in of_choices], dtype=np.int64)
        of_room = [position.get(name, len(names)) for name in of_rooms]
        self.counts = np.zeros((len(names) + 1, len(layout.count)))
        self.standing: dict[PodShape, FloatArray] = {}
        for room, domain in enumerate(of_room):
            for shape, count in problem.rooms[int(layout.room_index[room])].contents:
                self.standing.setdefault(shape, np.zeros(len(names) + 1))[domain] += count
        for number in range(bins.size):
            domain = of_room[number] if number < bins.rooms else int(self.domain[bins.choice[number]])
            for index, count in bins.contents[number].items():
                self.counts[domain, index] += count

    def move(self, content: dict[int, int], before: int, after: int) -> None:
        for index, count in content.items():
            self.counts[self.domain[before], index] -= count
            self.counts[self.domain[after], index] += count


class _Reader:
    """Reads the wishes of shapes; what several of them look at is counted once."""

    def __init__(self, bins: Bins) -> None:
        self._bins = bins
        self._choices = [bins.layout.problem.choices[int(index)] for index in bins.layout.choice_index]
        self._table = Neighbours(
            [Node(f"choice {number}", choice.labels) for number, choice in enumerate(self._choices)]
        ).table
        self._classes = [_as_class(shape) for shape in bins.layout.shapes]
        self._censuses: dict[str, _Census] = {}

    def read(self, shape: PodShape) -> _Wish | None:
        """None if it has none that a choice of node could grant."""
        weights = np.zeros(len(self._choices))
        for preferred in shape.preferred_nodes:
            weights += preferred.weight * any_term_matches(self._table, (preferred.term,), slice(0, len(self._choices)))
        crowds = tuple(self._crowd(*look) for look in self._looks(shape) if look[0] != HOSTNAME)
        stated = sum(one.weight for one in shape.preferred_nodes) + sum(abs(crowd.weight) for crowd in crowds)
        return _Wish(weights, crowds, float(max(_FULL_WEIGHT, stated))) if weights.any() or crowds else None

    def _looks(self, shape: PodShape) -> Iterator[tuple[str, int, Weight]]:
        """Topology keys, weights, and who matches."""
        for sign, preferences in ((1, shape.preferred_affinity), (-1, shape.preferred_anti_affinity)):
            for preferred in preferences:
                term = read_terms((preferred.term,), shape.namespace, self._bins.layout.problem.namespaces)[0]
                yield term.topology_key, sign * preferred.weight, matching(term)
        for spread in shape.spread:
            if spread.when_unsatisfiable == "ScheduleAnyway":
                yield (
                    spread.topology_key,
                    -_SPREAD_WEIGHT,
                    matching_pods(read_constraint(spread, shape).selector, shape.namespace),
                )

    def _crowd(self, key: str, weight: int, matches: Weight) -> _Crowd:
        if key not in self._censuses:
            self._censuses[key] = _Census(self._bins, key)
        census = self._censuses[key]
        members = frozenset(index for index, pod_class in enumerate(self._classes) if matches(pod_class))
        standing = np.zeros(len(census.counts))
        for shape, counts in census.standing.items():
            standing += counts * matches(_as_class(shape))
        return _Crowd(census, weight, members, standing)

    def move(self, content: dict[int, int], before: int, after: int) -> None:
        if before != after:
            for census in self._censuses.values():
                census.move(content, before, after)


def _as_class(shape: PodShape) -> PodClass:
    return PodClass(0, Entry(shape), shape.labels, NO_VOLUMES)
