"""What is the very best placement of a few pods? An exact model on bare numbers: a whole number for every class of pods
on every place. Asked by `solver/purchase/improve` where quicker ways leave pods over, or are dear for what is proven.

| in words | in the model |
| --- | --- |
| so many pods of a class on a place | `put`, a whole number |
| a place is bought | 0 or 1; what exists already is always there |
| a class is somewhere in a domain | 0 or 1; asked by rules only |

A placement is judged as it stands when all of it is there: every place that exists or is bought is a domain of a
spread. That is how a scheduler sees it that fills the emptiest domain first.

The least important pods are left out first; then what the least preferred places cost counts, and so on up to the most
preferred."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from growth.solver.arrays import MANY, BoolArray, FloatArray, IntArray
from growth.solver.linear import INFINITE, Coefficients, LinearProgram, solve_linear

_TINY = 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Matching pods that a rule looks at, in domains: for each place its domain (-1: none), the pods that are there
    already, and how many of them these allow."""

    domain: IntArray  # N
    held: IntArray  # N
    bound: IntArray  # N
    adds: BoolArray  # C: classes that match


@dataclass(frozen=True, slots=True)
class Apart:
    """While the class is in a domain, at most `limit` matching pods are."""

    index: int
    counted: int
    limit: int


@dataclass(frozen=True, slots=True)
class Near:
    """The class goes only where matching pods are; if it matches itself, the first may begin anywhere."""

    index: int
    counted: tuple[int, ...]
    may_begin: bool


@dataclass(frozen=True, slots=True, eq=False)
class Even:
    """Where the class is, at most `max_skew` matching pods above the emptiest domain of the places that count."""

    index: int
    counted: int
    max_skew: int
    min_domains: int
    places: BoolArray  # N


@dataclass(frozen=True, slots=True, eq=False)
class FewPods:
    """C classes, N places, R resources, L limits. Equal places that could be bought stand beside each other."""

    need: IntArray  # C × R
    count: IntArray  # C
    rank: IntArray  # C: 0 is left out last
    free: IntArray  # N × R
    fits: BoolArray  # C × N
    kind: IntArray  # N: what it would be bought as; -1 if it exists
    price: FloatArray  # N
    tier: IntArray  # N: 0 is preferred
    limit_use: FloatArray  # L × N
    limit_bound: FloatArray  # L
    counted: tuple[Counted, ...] = ()
    apart: tuple[Apart, ...] = ()
    near: tuple[Near, ...] = ()
    even: tuple[Even, ...] = ()


def place_few(few: FewPods, can_all: bool, most_nodes: int) -> IntArray | None:
    """How many of each class on each place (C × N); None if none was found. `can_all`: a placement of all is known."""
    model = _Model(few)
    found: FloatArray | None = None
    if can_all:
        model.exactly(dict.fromkeys(model.missing, 1.0), 0)
    else:
        for rank in range(int(few.rank.max(initial=0)) + 1):
            left = {one: 1.0 for one, own in zip(model.missing, few.rank, strict=True) if own == rank}
            found = model.least(left, most_nodes) if left else found
            if left and found is None:
                return None
            if left and found is not None:
                model.at_most(left, round(sum(float(found[one]) for one in left)))
    for tier in reversed(range(int(few.tier.max(initial=0)) + 1)):
        spent = {one: float(few.price[place]) for place, one in model.bought.items() if few.tier[place] == tier}
        cheaper = model.least(spent, most_nodes) if spent else found
        if cheaper is None:
            break
        found = cheaper
        model.at_most(spent, sum(price * float(found[one]) for one, price in spent.items()) + _TINY)
    return None if found is None else model.placed(found)


@dataclass(slots=True)
class _Program:
    upper: list[float] = field(default_factory=list)
    rows: list[tuple[Mapping[int, float], float, float]] = field(default_factory=list)

    def number(self, upper: float) -> int:
        self.upper.append(float(upper))
        return len(self.upper) - 1

    def at_most(self, terms: Mapping[int, float], bound: float) -> None:
        self.rows.append((terms, -INFINITE, float(bound)))

    def exactly(self, terms: Mapping[int, float], amount: float) -> None:
        self.rows.append((terms, float(amount), float(amount)))

    def least(self, objective: Mapping[int, float], most_nodes: int) -> FloatArray | None:
        """Where the objective is least, as far as that was found."""
        cost = np.zeros(len(self.upper))
        cost[list(objective)] = list(objective.values())
        entries = [(row, one, value) for row, (terms, _, _) in enumerate(self.rows) for one, value in terms.items()]
        table = np.array(entries, dtype=np.float64).reshape(len(entries), 3)
        coefficients = Coefficients(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2])
        lower, upper = (np.array([row[side] for row in self.rows]) for side in (1, 2))
        program = LinearProgram(cost, np.array(self.upper), lower, upper, coefficients, is_integer=True)
        found = solve_linear(program, presolve="on", mip_rel_gap=1e-6, mip_abs_gap=1e-6, mip_max_nodes=most_nodes)
        return np.round(found.columns) if found.is_feasible else None


class _Model(_Program):
    """All variables and rows of one question."""

    def __init__(self, few: FewPods) -> None:
        super().__init__()
        self.few = few
        self.bought = {int(place): self.number(1) for place in np.flatnonzero(few.kind >= 0)}
        pairs = ((int(index), int(place)) for index, place in zip(*np.nonzero(few.fits), strict=True))
        self.put = {(index, place): self.number(few.count[index]) for index, place in pairs}
        self.missing = [self.number(count) for count in few.count]
        self._here: dict[tuple[int, int, int], int] = {}
        self._domains = [_domains(counted) for counted in few.counted]
        self._write_amounts()
        for counted in range(len(few.counted)):
            self._write_bounds(counted)
        for apart in few.apart:
            self._write_apart(apart)
        for near in few.near:
            self._write_near(near)
        for even in few.even:
            self._write_even(even)

    def placed(self, found: FloatArray) -> IntArray:
        counts = np.zeros(self.few.fits.shape, dtype=np.int64)
        for (index, place), variable in self.put.items():
            counts[index, place] = int(found[variable])
        return counts

    # ------------------------------------------------------------------------- amounts and limits

    def _write_amounts(self) -> None:
        few = self.few
        for index, count in enumerate(few.count):
            placed = dict.fromkeys(self._count([index], range(len(few.kind))), 1.0)
            self.exactly({**placed, self.missing[index]: 1.0}, count)
        for place in range(len(few.kind)):
            on_place = [
                (index, self.put[index, place]) for index in range(len(few.count)) if (index, place) in self.put
            ]
            for resource, free in enumerate(np.maximum(few.free[place], 0)):
                scale = max(1.0, float(free))
                used = {one: float(few.need[index, resource]) / scale for index, one in on_place}
                self._write_if_there(place, used, float(free) / scale)
        for one, other in pairwise(self.bought):  # of equal places, the first is bought first
            if few.kind[one] == few.kind[other]:
                self.at_most({self.bought[other]: 1.0, self.bought[one]: -1.0}, 0)
        for use, bound in zip(few.limit_use, few.limit_bound, strict=True):
            scale = max(1.0, float(use.max(initial=0.0)))
            self.at_most(
                {one: float(use[place]) / scale for place, one in self.bought.items() if use[place]},
                max(0.0, float(bound)) / scale * (1 + 1e-9),
            )

    def _write_if_there(self, place: int, used: Mapping[int, float], most: float) -> None:
        """Nothing is on a place that is not bought."""
        if not any(used.values()):
            return
        if place in self.bought:
            self.at_most({**used, self.bought[place]: -most}, 0)
        else:
            self.at_most(used, most)

    # ------------------------------------------------------------------------- rules between pods

    def _count(self, indices: Iterable[int], places: Iterable[int]) -> list[int]:
        wanted = list(indices)
        return [self.put[one, place] for place in places for one in wanted if (one, place) in self.put]

    def _matching(self, number: int, places: Sequence[int]) -> tuple[dict[int, float], float]:
        """Matching pods on these places: as terms, those that come with a place that is bought included, and how many
        are there already.
        """
        counted = self.few.counted[number]
        terms = dict.fromkeys(self._count(np.flatnonzero(counted.adds).tolist(), places), 1.0)
        terms |= {
            self.bought[one]: float(counted.held[one]) for one in places if one in self.bought and counted.held[one]
        }
        return terms, float(sum(counted.held[one] for one in places if one not in self.bought))

    def _most(self, terms: Mapping[int, float]) -> float:
        return sum(self.upper[one] * amount for one, amount in terms.items())

    def _is_here(self, index: int, number: int, domain: int) -> int | None:
        """1 where the class has a pod in the domain; None if it can have none there."""
        name = index, number, domain
        if name not in self._here:
            found = self._count([index], self._domains[number][domain])
            if not found:
                return None
            self._here[name] = self.number(1)
            for variable in found:
                self.at_most({variable: 1.0, self._here[name]: -self.upper[variable]}, 0)
        return self._here[name]

    def _sites(self, index: int, number: int) -> Iterator[tuple[int, list[int], int]]:
        """The domains where a class can be: with their places, and what is 1 where it is."""
        for domain, places in self._domains[number].items():
            here = self._is_here(index, number, domain)
            if here is not None:
                yield domain, places, here

    def _write_bounds(self, number: int) -> None:
        """Pods that are there already keep others away."""
        counted = self.few.counted[number]
        for place in np.flatnonzero((counted.bound < MANY) & (counted.domain >= 0)):
            terms, held = self._matching(number, self._domains[number][int(counted.domain[place])])
            bound = max(0.0, float(counted.bound[place]) - held)
            if int(place) in self.bought:
                most = self._most(terms)
                self.at_most(_plus(terms, {self.bought[int(place)]: most}), bound + most)
            else:
                self.at_most(terms, bound)

    def _write_apart(self, apart: Apart) -> None:
        for _, places, here in self._sites(apart.index, apart.counted):
            terms, held = self._matching(apart.counted, places)
            most = self._most(terms) + held
            self.at_most({**terms, here: most}, apart.limit - held + most)

    def _write_near(self, near: Near) -> None:
        few = self.few
        begins = near.may_begin and not any(few.counted[number].held.any() for number in near.counted)
        for number in near.counted:
            sites = list(self._sites(near.index, number))
            for place in np.flatnonzero(few.counted[number].domain < 0):
                self.at_most(dict.fromkeys(self._count([near.index], [int(place)]), 1.0), 0)
            if begins:
                for other in self._of_one_kind(number):
                    sites += self._sites(other, number) if other != near.index else ()
                self._write_one_domain(sites)
            matching = np.flatnonzero(few.counted[number].adds).tolist()
            others = [one for one in matching if not self._follows(one, near.index)]
            if begins and not others:
                continue
            alone = self._is_alone(others) if begins else None
            for _, places, here in sites:
                there = dict.fromkeys(self._count(others, places), -1.0) | ({alone: -1.0} if alone is not None else {})
                if not any(few.counted[number].held[one] for one in places):
                    self.at_most({here: 1.0, **there}, 0)

    def _write_one_domain(self, sites: Sequence[tuple[int, list[int], int]]) -> None:
        """A group that begins is in one domain."""
        group = {domain: self.number(1) for domain, _, _ in sites}
        for domain, _, here in sites:
            self.at_most({here: 1.0, group[domain]: -1.0}, 0)
        self.at_most(dict.fromkeys(group.values(), 1.0), 1)

    def _is_alone(self, others: Sequence[int]) -> int:
        """1 only where none of the other classes is anywhere."""
        alone, anywhere = self.number(1), self._count(others, range(len(self.few.kind)))
        most = sum(self.upper[one] for one in anywhere)
        self.at_most({**dict.fromkeys(anywhere, 1.0), alone: most}, most)
        return alone

    def _of_one_kind(self, number: int) -> list[int]:
        """Classes that match, and must be near what matches: they begin together."""
        return [
            near.index for near in self.few.near if number in near.counted and self.few.counted[number].adds[near.index]
        ]

    def _follows(self, index: int, other: int) -> bool:
        """Does a class wait for the other one, or is it that one? Then the other cannot wait for it."""
        waiting, seen = [index], set[int]()
        while waiting:
            one = waiting.pop()
            if one == other:
                return True
            if one not in seen:
                seen.add(one)
                followed = [number for near in self.few.near if near.index == one for number in near.counted]
                waiting += [
                    int(match) for number in followed for match in np.flatnonzero(self.few.counted[number].adds)
                ]
        return False

    def _write_even(self, even: Even) -> None:
        """No domain may be too far above a level, and the level is at most what every domain holds that is there."""
        for place in np.flatnonzero(self.few.counted[even.counted].domain < 0):
            self.at_most(dict.fromkeys(self._count([even.index], [int(place)]), 1.0), 0)
        counted = self._domains[even.counted].items()
        kept = {domain: [one for one in places if even.places[one]] for domain, places in counted}
        domains = {domain: (places, *self._matching(even.counted, places)) for domain, places in kept.items() if places}
        certain = sum(any(one not in self.bought for one in places) for places, _, _ in domains.values())
        is_short = certain < even.min_domains and even.min_domains > 1  # then the emptiest may count as empty
        highest = max((self._most(terms) + held for _, terms, held in domains.values()), default=0.0)
        level = self.number(0 if is_short else highest)
        for domain, (places, terms, held) in domains.items():
            here, most = self._is_here(even.index, even.counted, domain), self._most(terms) + held
            if here is not None:
                self.at_most({**terms, level: -1.0, here: most}, even.max_skew - held + most)
            below = {level: 1.0, **{one: -amount for one, amount in terms.items()}}
            if any(one not in self.bought for one in places):
                self.at_most(below, held)
            else:
                for one in places:
                    self.at_most(_plus(below, {self.bought[one]: highest}), held + highest)


def _domains(counted: Counted) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for place, domain in enumerate(counted.domain):
        if domain >= 0:
            found.setdefault(int(domain), []).append(place)
    return found


def _plus(terms: Mapping[int, float], more: Mapping[int, float]) -> dict[int, float]:
    return {
        one: terms.get(one, 0.0) + more.get(one, 0.0) for one in (*terms, *(one for one in more if one not in terms))
    }
