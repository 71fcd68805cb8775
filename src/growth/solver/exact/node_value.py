"""What is the most value that one node can hold, if each pod has a value? Asked by the checker of plans, which may not
believe the solver's own knapsacks.

| answer | how |
| --- | --- |
| with pods that can be cut | the linear program of one node: an upper bound in a millisecond |
| in whole steps | that bound, if all values are multiples of the least one |
| with whole pods of the kinds worth most there | one such program for each count of such a kind, twice over |
| exactly, as far as it is above a number | the integer program over pods that can be in so good a pattern |

What pods say of each other on one node is part of both: a pod may want to be the only one of its kind, sets of pods may
want to be the only one of them all, and of pods that are spread over nodes a new node takes only so many. That a pod
keeps others off its node is part of the exact answer only: there it is a choice, the pod or the others.

Several nodes may be looked at as one that can be cut, for a bound of what they hold together; then only amounts and
counts bind."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from growth.model.labels import HOSTNAME, Labels, Requirement
from growth.model.pod import PodShape
from growth.solver.arrays import BoolArray, FloatArray, IntArray
from growth.solver.linear import INFINITE, LinearProgram, coefficients_of, solve_linear
from growth.solver.rules import Neighbours
from growth.solver.rules.claims import NO_VOLUMES
from growth.solver.rules.node_table import ABSENT
from growth.solver.rules.pod_affinity import matching, read_terms
from growth.solver.rules.pod_class import Carriers, Entry, PodClass, telling
from growth.solver.rules.resources import conflicts_with
from growth.solver.rules.rule import DomainCounter, Weight

_SEARCH_NODES = 20_000
_KINDS_COUNTED = 2  # one after the other
_MOST_COUNTED = 8  # of one kind
_ALMOST = 1e-9  # of a value: so far may it be from a multiple of the least
_NEAR = 1e-6  # of the value: an exact answer may be so far above the truth, never below


@dataclass(frozen=True, slots=True)
class _Rule:
    """Whom a pod keeps off its node."""

    name: object
    asked: Requirement | None  # those who do not meet it are not meant
    weight: Weight

    def refuses(self, shape: PodShape) -> bool:
        return bool(self.weight(PodClass(0, Entry(shape), shape.labels, NO_VOLUMES)))


def _rules_on_node(shape: PodShape, namespaces: Mapping[str, Labels]) -> list[_Rule]:
    rules = [_Rule(port, None, conflicts_with(port)) for port in shape.host_ports]
    for stated in shape.anti_affinity:
        if stated.topology_key == HOSTNAME:
            term = read_terms((stated,), shape.namespace, namespaces)[0]
            rules.append(_Rule(term, telling(term.selector.requirements), matching(term)))
    return rules


def may_share_node(one: PodShape, other: PodShape, namespaces: Mapping[str, Labels]) -> bool:
    """By the host ports and the anti-affinity of both."""
    refused = (rule.refuses(other) for rule in _rules_on_node(one, namespaces))
    return not any(refused) and not any(rule.refuses(one) for rule in _rules_on_node(other, namespaces))


class Crowd(NamedTuple):
    """Kinds of pods of which one new node takes at most so many together."""

    members: IntArray
    most: float


@dataclass(frozen=True, slots=True)
class ValuedPods:
    """D kinds of pods, R resources."""

    need: FloatArray  # D × R
    value: FloatArray  # D
    cap: FloatArray  # D: most of a kind on one node
    together: Sequence[Crowd]
    kept_off: Mapping[int, IntArray]  # by kind: other kinds that may not be on the node of such a pod
    alike: IntArray  # D: kinds of one number differ in nothing that matters here

    def most_on_node(
        self, offer: FloatArray, usable: BoolArray, count: FloatArray, exactly_above: float | None = None
    ) -> float:
        """The most value that fits on a node: if pods could be cut, or exactly as far as it is above a number."""
        rows = self._rows(offer, usable, count)
        if not len(rows):
            return 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            by_amounts = np.nanmin(np.floor(offer / self.need[rows]), axis=1)
        upper = np.minimum(np.minimum(count[rows], self.cap[rows]), by_amounts)
        _, first, group = np.unique(self.alike[rows], return_index=True, return_inverse=True)
        rows = rows[first]
        upper = np.asarray(np.bincount(group.ravel(), weights=upper), dtype=np.float64)
        table, bounds = self._of_one_node(rows, offer)
        found, slack, _ = self._cut(rows, upper, table, bounds)
        found = self._whole_steps(rows, found)
        if exactly_above is None or found <= exactly_above:
            return found
        counted = self._by_counts(rows, upper, offer, exactly_above, _KINDS_COUNTED)
        if counted <= exactly_above:
            return exactly_above
        # a pod that costs more value than there is to gain is in no better pattern
        kept = slack <= (found - exactly_above) * (1 + _NEAR) + 1e-12
        best = self._whole(rows[kept], upper[kept], table[:, kept], bounds, exactly_above)
        return max(exactly_above, min(counted, best))

    def _whole_steps(self, rows: IntArray, most: float) -> float:
        """Where every value is so many times the least one, whatever a node holds is worth so many times that, too."""
        step = float(self.value[rows].min())
        times = self.value[rows] / step
        if step <= 0 or (np.abs(times - times.round()) > _ALMOST * times).any():
            return most
        return min(most, (1 + _ALMOST) * step * float(np.floor((1 + _ALMOST) * most / step)))

    def _by_counts(self, rows: IntArray, upper: FloatArray, offer: FloatArray, enough: float, kinds: int) -> float:
        """An upper bound of the value on a node, as far as it is above `enough`: the kind that is worth most in
        the linear program is tried in every count, and others that still fit share what that leaves.
        """
        if not len(rows):
            return 0.0
        found, _, amounts = self._cut(rows, upper, *self._of_one_node(rows, offer))
        main = int((amounts * self.value[rows]).argmax())
        if found <= enough or not kinds or upper[main] > _MOST_COUNTED:
            return found
        best = enough
        for count in range(int(upper[main]) + 1):
            left = offer - count * self.need[rows[main]]
            if (left < 0).any():
                break
            fitting = (self.need[rows] <= left).all(axis=1)
            fitting[main] = False
            worth = count * float(self.value[rows[main]])
            others = self._by_counts(rows[fitting], upper[fitting], left, enough - worth, kinds - 1)
            best = max(best, worth + others)
        return min(found, best)

    def most_on_many(self, free: FloatArray, count: FloatArray) -> float:
        """The most value that fits on nodes that have so much free in sum."""
        rows = self._rows(free, count > 0, count)
        if not len(rows):
            return 0.0
        scale = np.maximum(free, 1.0)
        return self._cut(rows, count[rows], (self.need[rows] / scale).T, free / scale)[0]

    def _rows(self, offer: FloatArray, usable: BoolArray, count: FloatArray) -> IntArray:
        return np.flatnonzero(usable & (count > 0) & (self.value > 0) & (self.need <= offer).all(axis=1))

    def _of_one_node(self, rows: IntArray, offer: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What bounds the pods of these kinds on one node, as a table and its upper bounds."""
        scale = np.maximum(offer, 1.0)
        inside = [(np.isin(rows, crowd.members), crowd.most) for crowd in self.together]
        shared = [(here.astype(np.float64), most) for here, most in inside if here.any()]
        table = np.vstack([(self.need[rows] / scale).T, *(here[None] for here, _ in shared)])
        return table, np.concatenate([offer / scale, [most for _, most in shared]])

    def _cut(
        self, rows: IntArray, upper: FloatArray, table: FloatArray, bounds: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """The value with pods that can be cut, how much value one pod of each kind would cost, and how many of each
        there are.
        """
        found = solve_linear(self._program(self.value[rows], upper, table, bounds))
        costs = np.maximum(-found.row_duals, 0.0) @ table
        return -found.objective, np.maximum(costs - self.value[rows], 0.0), found.columns

    def _whole(self, rows: IntArray, upper: FloatArray, table: FloatArray, bounds: FloatArray, least: float) -> float:
        """An upper bound of the value of whole pods, or that they are worth no more than `least`. For a kind that keeps
        others off, one more column: is it here?
        """
        choices = [
            (int(position), others)
            for position, kind in enumerate(rows.tolist())
            if len(others := np.flatnonzero(np.isin(rows, self.kept_off.get(kind, ()))))
        ]
        extra = len(choices)
        wide = np.zeros((len(table) + 2 * extra + 1, len(rows) + extra))
        wide[: len(table), : len(rows)] = table
        wide[-1, : len(rows)] = -self.value[rows] / max(least, 1e-12)  # only what is worth more is looked for
        for number, (position, others) in enumerate(choices):
            here, first = len(rows) + number, len(table) + 2 * number
            wide[first, position], wide[first, here] = 1.0, -upper[position]  # here, or none of them
            wide[first + 1, others], wide[first + 1, here] = 1.0, float(upper[others].sum())  # not here, or no others
        of_choices = [0.0 if row % 2 == 0 else float(upper[choices[row // 2][1]].sum()) for row in range(2 * extra)]
        program = self._program(
            np.concatenate([self.value[rows], np.zeros(extra)]),
            np.concatenate([upper, np.ones(extra)]),
            wide,
            np.concatenate([bounds, of_choices, [-1.0]]),
            is_integer=True,
        )
        found = solve_linear(program, mip_rel_gap=_NEAR, mip_max_nodes=_SEARCH_NODES, mip_heuristic_effort=0.0)
        return -found.lower_bound  # of a program without a solution: minus infinity

    @staticmethod
    def _program(
        value: FloatArray, upper: FloatArray, table: FloatArray, bounds: FloatArray, is_integer: bool = False
    ) -> LinearProgram:
        return LinearProgram(
            cost=-value,
            upper=upper,
            row_lower=np.full(len(table), -INFINITE),
            row_upper=bounds,
            coefficients=coefficients_of(table),
            is_integer=is_integer,
        )


def valued_pods(
    need: FloatArray,
    value: FloatArray,
    shapes: Sequence[PodShape],
    namespaces: Mapping[str, Labels],
    places: Places | None = None,
) -> ValuedPods:
    """Pods of these shapes, and what they say of each other on one node: by host ports, by anti-affinity and, where it
    is known which places there are, by spreads over nodes.
    """
    carriers, cap = Carriers(), np.full(len(shapes), np.inf)
    for number, shape in enumerate(shapes):
        carriers.add(number, shape.labels)
    owners, kept_off = dict[object, list[int]](), dict[int, set[int]]()
    for number, shape in enumerate(shapes):
        for rule in _rules_on_node(shape, namespaces):
            everybody = carriers.candidates(rule.asked, range(len(shapes)))
            refused = {other for other in everybody if rule.refuses(shapes[other])}
            if number in refused:
                owners.setdefault(rule.name, []).append(number)
            kept_off.setdefault(number, set()).update(refused - {number})
    crowds = [Crowd(np.array(members, dtype=np.int64), 1.0) for members in owners.values()]
    for members, _ in crowds:  # said by the set already
        for number in members.tolist():
            kept_off[number] -= set(members.tolist())
    others = {number: np.array(sorted(kept), dtype=np.int64) for number, kept in kept_off.items() if kept}
    crowds += _Spreads(shapes, carriers, places).crowds(crowds) if places is not None else ()
    for members, most in crowds:
        cap[members] = np.minimum(cap[members], most)
    together = [crowd for crowd in crowds if len(crowd.members) > 1]
    return ValuedPods(need, value, cap, together, others, _alike(need, value, together, others))


def _alike(
    need: FloatArray, value: FloatArray, together: Sequence[Crowd], kept_off: Mapping[int, IntArray]
) -> IntArray:
    """The number of each kind's equals: a search among equals would look at the same content many times."""
    said: list[list[object]] = [[] for _ in value]
    for number, crowd in enumerate(together):
        for member in crowd.members.tolist():
            said[member].append(("one of", number))
    for owner, others in kept_off.items():
        said[owner].append(("keeps off", owner))
        for other in others.tolist():
            said[other].append(("kept off by", owner))
    known: dict[tuple[object, ...], int] = {}
    names = zip(need, value.tolist(), said, strict=True)
    return np.array([known.setdefault((size.tobytes(), worth, *of), len(known)) for size, worth, of in names])


# --------------------------------------------------------------------------------- spread over nodes


@dataclass(frozen=True, slots=True)
class Places:
    """Where pods of D kinds can be: M rooms with what they hold, and new nodes of K choices."""

    index: Neighbours  # the rooms, then a node of each choice
    rooms: int
    room_for: Callable[[int], FloatArray]  # M: how many pods of a kind the rooms take, each looked at alone
    on_new: FloatArray  # D: how many of a kind a new node takes at most
    usable: BoolArray  # D × K
    daemons: Sequence[PodShape]  # that will be on new nodes
    count: FloatArray  # D: pods that are placed


@dataclass(frozen=True, slots=True)
class _Spread:
    """A rule that some kinds have, and the domains among which it counts."""

    skew: int
    least_domains: int
    pods: float  # that count and are placed
    held: FloatArray  # pods that count in each domain of rooms, now
    filled: FloatArray  # and at most in the end
    choices: BoolArray  # K

    def most_on_new(self, new_nodes: int) -> float:
        """A pod comes to a node that has at most `skew` more then, itself included, than the emptiest domain; what that
        holds can only grow. To fill all domains up to a level takes pods, on so many new nodes all of them.
        """
        new_nodes = max(new_nodes, self.least_domains - len(self.held))
        highest = int(min(self.pods // new_nodes, self.filled.min(initial=np.inf)))

        def needed(level: int) -> float:
            return float(np.maximum(level - self.held, 0.0).sum()) + level * new_nodes

        return float(self.skew + bisect_right(range(highest + 1), self.pods, key=needed) - 1)


class _Spreads:
    """How many pods that are spread over nodes does one new node take, in whatever plan?"""

    def __init__(self, shapes: Sequence[PodShape], carriers: Carriers, places: Places) -> None:
        self._shapes, self._carriers, self._places = shapes, carriers, places
        self._rules: dict[object, dict[object, _Spread]] = {}  # by what is counted
        self._members: dict[object, list[int]] = {}
        for kind in np.flatnonzero(places.count > 0).tolist():
            if any(one.topology_key == HOSTNAME for one in shapes[kind].spread):
                self._read(kind)

    def _read(self, kind: int) -> None:
        index, shape = self._places.index, self._shapes[kind]
        spreads = index.question(index.class_of(shape)).spreads
        for constraint, counter in spreads.constraints if spreads is not None else ():
            stated = constraint.stated
            counts_itself = constraint.matches_itself and counter.weight(index.class_of(shape))
            if stated.topology_key == HOSTNAME and counts_itself and not self._is_of_daemons(counter):
                what, who = (shape.namespace, constraint.selector), (id(counter), stated.max_skew, stated.min_domains)
                self._members.setdefault(what, []).append(kind)
                rules = self._rules.setdefault(what, {})
                if who not in rules:
                    rules[who] = self._spread(stated.max_skew, constraint.minimum_domains, counter)

    def _is_of_daemons(self, counter: DomainCounter) -> bool:
        """What daemons hold on new nodes is not thought of."""
        index = self._places.index
        return any(counter.weight(index.class_of(shape)) for shape in self._places.daemons)

    def _spread(self, skew: int, least_domains: int, counter: DomainCounter) -> _Spread:
        index, rooms = self._places.index, self._places.rooms
        domain = counter.column.codes[: len(index.table)]
        counted = (counter.present[domain] > 0) & (domain != ABSENT)
        everybody = self._carriers.candidates(counter.asked, range(len(self._shapes)))
        counting = [kind for kind in everybody if counter.weight(index.class_of(self._shapes[kind]))]
        more = np.zeros(len(counter.sums))
        for kind in counting:
            np.add.at(more, domain[:rooms], self._places.room_for(kind))
        of_rooms = np.unique(domain[:rooms][counted[:rooms]])
        held = counter.sums[of_rooms].astype(np.float64)
        pods = float(self._places.count[counting].sum())
        return _Spread(skew, least_domains, pods, held, held + more[of_rooms], counted[rooms:])

    def crowds(self, others: Sequence[Crowd]) -> list[Crowd]:
        """Kinds that are spread by the same count, with what is proven; beside these, others say how many nodes there
        must be.
        """
        if not self._rules:
            return []
        beyond = np.array([self._beyond(kind) for kind in range(len(self._shapes))])
        found, known = self._next(beyond, others), list[Crowd]()
        while [crowd.most for crowd in found] != [crowd.most for crowd in known]:
            found, known = self._next(beyond, (*others, *found)), found
        return found

    def _next(self, beyond: FloatArray, crowds: Sequence[Crowd]) -> list[Crowd]:
        """What follows, if one new node takes no more of these crowds."""
        found = list[Crowd]()
        for what, rules in self._rules.items():
            most = max(rule.most_on_new(self._new_nodes(rule.choices, beyond, crowds)) for rule in rules.values())
            found.append(Crowd(np.array(self._members[what], dtype=np.int64), most))
        return found

    def _beyond(self, kind: int) -> float:
        """Pods of a kind for which rooms have no place."""
        count = float(self._places.count[kind])
        return max(0.0, count - float(np.minimum(self._places.room_for(kind), count).sum())) if count else 0.0

    def _new_nodes(self, domains: BoolArray, beyond: FloatArray, crowds: Sequence[Crowd]) -> int:
        """At least so many of the new nodes are domains: pods that can go nowhere else need them."""
        pods = np.where(self._places.usable[:, ~domains].any(axis=1), 0.0, beyond)
        alone = np.ceil(pods / np.maximum(self._places.on_new, 1.0)).max(initial=1.0)
        return int(max([alone, *(np.ceil(pods[crowd.members].sum() / crowd.most) for crowd in crowds)]))
