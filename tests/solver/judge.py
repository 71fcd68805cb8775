"""What is the very best placement? An exact model of small problems, with a whole number for every class on every node:
what the solver's plans are held to. It shares nothing with the solver but the nouns.

A placement is judged as it stands when all of it is there: every room and every node that is bought counts as a domain
of a spread. (A plan that only holds because its rooms are filled before its nodes come is legal as well, and may be
better.) The first of a group that must be near itself may be anywhere; the others are where it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from growth.model.labels import HOSTNAME, ZONE, Labels, LabelSelector
from growth.model.pod import PodShape, TopologySpread
from growth.model.resources import Resources
from growth.solver.linear import INFINITE, Coefficients, LinearProgram, solve_linear
from growth.solver.purchase.problem import PlacementProblem, PlacementSolution

_MIB: Final = 1 << 20
_MOST_SLOTS: Final = 8  # nodes of one choice
_TIME: Final = 60.0  # seconds: what takes longer is not judged

Terms = Mapping[int, float]  # so many of each variable


@dataclass(frozen=True, slots=True)
class _Place:
    """A room, or a node that could be bought."""

    zone: str
    labels: Labels
    free: Resources
    held: tuple[tuple[PodShape, int], ...]  # pods that are there before any of ours
    choice: int | None = None
    takes: Callable[[tuple[str, ...]], bool] = lambda _: True  # pods that may use these pools


@dataclass(slots=True)
class _Program:
    """Whole numbers from 0 to their upper bounds, under rows of bounds."""

    upper: list[float] = field(default_factory=list)
    rows: list[tuple[Terms, float, float]] = field(default_factory=list)

    def number(self, upper: float) -> int:
        self.upper.append(upper)
        return len(self.upper) - 1

    def at_most(self, terms: Terms, bound: float) -> None:
        self.rows.append((terms, -INFINITE, bound))

    def exactly(self, terms: Terms, amount: float) -> None:
        self.rows.append((terms, amount, amount))

    def least(self, objective: Terms) -> float | None:
        """The least value of the objective; None if there is none, or it takes too long."""
        cost = np.zeros(len(self.upper))
        for variable, amount in objective.items():
            cost[variable] = amount
        entries = [(row, one, value) for row, (terms, _, _) in enumerate(self.rows) for one, value in terms.items()]
        rows, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
        program = LinearProgram(
            cost,
            np.array(self.upper),
            np.array([lower for _, lower, _ in self.rows]),
            np.array([upper for _, _, upper in self.rows]),
            Coefficients(np.array(rows, np.int64), np.array(columns, np.int64), np.array(values, np.float64)),
            is_integer=True,
        )
        exact: dict[str, str | float] = {
            "presolve": "on",
            "mip_rel_gap": 1e-7,
            "mip_abs_gap": 1e-7,
            "time_limit": _TIME,
        }
        found = solve_linear(program, **exact)
        is_proven = found.objective - found.lower_bound <= 1e-6 * max(1.0, abs(found.objective))
        return found.objective if found.is_feasible and is_proven else None


class Judge:
    """The model of one problem."""

    def __init__(self, problem: PlacementProblem) -> None:
        self.problem, self.program = problem, _Program()
        self.shapes = [demand.shape for demand in problem.demands]
        self.places = [*self._rooms(), *self._slots()]
        self.bought = {
            number: self.program.number(1) for number, place in enumerate(self.places) if place.choice is not None
        }
        self.put = {
            (index, number): self.program.number(demand.count)
            for index, demand in enumerate(problem.demands)
            for number, place in enumerate(self.places)
            if self._is_eligible(demand.shape, place) and place.takes(demand.pools)
        }
        self.missing = [self.program.number(demand.count) for demand in problem.demands]
        self._here: dict[tuple[int, str, str], int] = {}
        self._write_amounts()
        self._write_limits()
        for index, shape in enumerate(self.shapes):
            self._write_rules(index, shape)
        self._write_rules_of_residents()

    # ----------------------------------------------------------------------------------- questions

    def fewest_missing(self) -> tuple[int, ...] | None:
        """How many pods must be left out, the most important first."""
        found: list[int] = []
        for rank in _ranks(self.problem):
            missing = {self.missing[index]: 1.0 for index in rank}
            least = self.program.least(missing)
            if least is None:
                return None
            found.append(round(least))
            self.program.at_most(missing, found[-1])
        return tuple(found)

    def least_spent(self, left_out: Sequence[int]) -> tuple[float, ...] | None:
        """What nodes cost at least if just these pods are left out: for each priority of choices, the least preferred
        first."""
        for variable, count in zip(self.missing, left_out, strict=True):
            self.program.exactly({variable: 1.0}, count)
        found: list[float] = []
        for choices in _tiers(self.problem):
            spent = {
                variable: _price(self.problem, choice)
                for number, variable in self.bought.items()
                if (choice := self.places[number].choice) in choices and choice is not None
            }
            least = self.program.least(spent)
            if least is None:
                return None
            found.append(least)
            self.program.at_most(spent, least + 1e-6)
        return tuple(found)

    # -------------------------------------------------------------------------------------- places

    def _rooms(self) -> Iterable[_Place]:
        for room in self.problem.rooms:
            pool = room.node.pool if room.kind != "node" else ""

            def takes(pools: tuple[str, ...], is_open: bool = room.is_open, pool: str = pool) -> bool:
                return is_open and (not pool or pool in pools)

            yield _Place(room.node.labels[ZONE], room.node.labels, room.free(), room.contents, None, takes)

    def _slots(self) -> Iterable[_Place]:
        slots = min(_MOST_SLOTS, sum(demand.count for demand in self.problem.demands))
        for number, choice in enumerate(self.problem.choices):
            held = tuple((shape, 1) for shape in choice.daemons)
            free = choice.offering.allocatable
            for shape in choice.daemons:
                free = free - shape.requests - Resources({"pods": 1})

            def takes(pools: tuple[str, ...], pool: str = choice.pool) -> bool:
                return pool in pools

            for _ in range(slots):
                yield _Place(choice.labels[ZONE], choice.labels, free, held, number, takes)

    @staticmethod
    def _is_eligible(shape: PodShape, place: _Place) -> bool:
        return all(place.labels.get(key) == value for key, value in shape.node_selector.items())

    def _domains(self, key: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, place in enumerate(self.places):
            found.setdefault(place.zone if key == ZONE else str(number), []).append(number)
        return found

    # ------------------------------------------------------------------------------ counting pods

    def _count(self, matching: Iterable[int], places: Iterable[int]) -> dict[int, float]:
        matched = list(matching)
        return {self.put[one, number]: 1.0 for number in places for one in matched if (one, number) in self.put}

    def _held(self, matches: Callable[[PodShape], bool], number: int) -> int:
        return sum(count for shape, count in self.places[number].held if matches(shape))

    def _is_here(self, index: int, key: str, domain: str, places: Sequence[int]) -> int | None:
        """A variable that is 1 where the class has a pod in the domain; None if it can have none."""
        name = index, key, domain
        if name not in self._here:
            count = self._count([index], places)
            if not count:
                return None
            self._here[name] = self.program.number(1)
            for variable in count:
                most = self.program.upper[variable]
                self.program.at_most({variable: 1.0, self._here[name]: -most}, 0)
        return self._here[name]

    # --------------------------------------------------------------------------------------- rows

    def _write_amounts(self) -> None:
        for index, demand in enumerate(self.problem.demands):
            self.program.exactly(
                {**self._count([index], range(len(self.places))), self.missing[index]: 1.0}, demand.count
            )
        for number, place in enumerate(self.places):
            for name, unit in (("cpu", 1), ("memory", _MIB), ("pods", 1)):
                used = {
                    self.put[index, number]: (1 if name == "pods" else shape.requests[name] / unit)
                    for index, shape in enumerate(self.shapes)
                    if (index, number) in self.put
                }
                free = max(0.0, place.free[name] / unit)
                if number in self.bought:
                    self.program.at_most({**used, self.bought[number]: -free}, 0)
                else:
                    self.program.at_most(used, free)
        numbers = list(self.bought)
        for one, other in pairwise(numbers):
            if self.places[one].choice == self.places[other].choice:  # equal nodes: the first is bought first
                self.program.at_most({self.bought[other]: 1.0, self.bought[one]: -1.0}, 0)

    def _write_limits(self) -> None:
        offerings = [choice.offering for choice in self.problem.choices]
        for limit in self.problem.limits:
            inside = {
                variable: offerings[choice]
                for number, variable in self.bought.items()
                if (choice := self.places[number].choice) is not None and choice in limit.choices
            }
            if limit.nodes is not None:
                self.program.at_most(dict.fromkeys(inside, 1.0), limit.nodes)
            for name, most in limit.resources.items():
                self.program.at_most({one: float(of.allocatable[name]) for one, of in inside.items()}, most)
            if limit.price_per_hour is not None:
                prices = {one: of.price_per_hour for one, of in inside.items()}
                self.program.at_most(prices, limit.price_per_hour + 1e-9)

    def _write_rules(self, index: int, shape: PodShape) -> None:
        for term in shape.anti_affinity:
            self._write_apart(index, shape, term.topology_key, _matching(term.selector))
        for term in shape.affinity:
            self._write_near(index, shape, term.topology_key, _matching(term.selector))
        for constraint in shape.spread:
            self._write_spread(index, shape, constraint)
        if shape.host_ports:
            self._write_apart(index, shape, HOSTNAME, lambda other: bool(other.host_ports))

    def _write_apart(self, index: int, shape: PodShape, key: str, matches: Callable[[PodShape], bool]) -> None:
        """Where the class is, no other pod matches."""
        matching = [one for one, other in enumerate(self.shapes) if matches(other)]
        for domain, places in self._domains(key).items():
            here = self._is_here(index, key, domain, places)
            if here is not None:
                held = sum(self._held(matches, number) for number in places)
                count = self._count(matching, places)
                most = sum(self.program.upper[one] for one in count) + held
                self.program.at_most({**count, here: most}, most - held + matches(shape))

    def _write_rules_of_residents(self) -> None:
        """Pods that are there keep others away as well."""
        for number, place in enumerate(self.places):
            for held, _ in place.held:
                for term in held.anti_affinity:
                    matching = [one for one, shape in enumerate(self.shapes) if _matching(term.selector)(shape)]
                    domain = place.zone if term.topology_key == ZONE else str(number)
                    self.program.at_most(self._count(matching, self._domains(term.topology_key)[domain]), 0)

    def _write_near(self, index: int, shape: PodShape, key: str, matches: Callable[[PodShape], bool]) -> None:
        domains = self._domains(key)
        held = {domain: sum(self._held(matches, one) for one in places) for domain, places in domains.items()}
        others = [one for one, other in enumerate(self.shapes) if one != index and matches(other)]
        assert not (others and matches(shape)), "a group of several classes is not judged"
        found = {domain: self._is_here(index, key, domain, places) for domain, places in domains.items()}
        here = {domain: variable for domain, variable in found.items() if variable is not None}
        if matches(shape) and not any(held.values()):
            self.program.at_most(dict.fromkeys(here.values(), 1.0), 1)
            return
        for domain, variable in here.items():
            if not held[domain]:
                there = dict.fromkeys(self._count(others, domains[domain]), -1.0)
                self.program.at_most({variable: 1.0, **there}, 0)

    def _write_spread(self, index: int, shape: PodShape, constraint: TopologySpread) -> None:
        key, matches = constraint.topology_key, _matching(constraint.selector)
        matching = [one for one, other in enumerate(self.shapes) if matches(other)]
        domains = {}
        for domain, places in self._domains(key).items():
            eligible = [number for number in places if self._is_eligible(shape, self.places[number])]
            if eligible:
                held = sum(self._held(matches, number) for number in eligible if number not in self.bought)
                domains[domain] = eligible, self._count(matching, eligible), held
        for domain, (places, count, held) in domains.items():
            here = self._is_here(index, key, domain, places)
            for other, (there, counted, held_there) in domains.items() if here is not None else ():
                if other != domain and here is not None:
                    most = sum(self.program.upper[one] for one in count) + held
                    skew = {**count, **dict.fromkeys(counted, -1.0), here: most}
                    bound = constraint.max_skew + most - held + held_there
                    if any(number not in self.bought for number in there):
                        self.program.at_most(skew, bound)
                    else:
                        for number in there:
                            self.program.at_most({**skew, self.bought[number]: most}, bound + most)


def left_out(problem: PlacementProblem, solution: PlacementSolution) -> list[int]:
    """How many pods of each demand class a solution leaves out."""
    found = [0] * len(problem.demands)
    for one in solution.unplaced:
        found[one.demand] += one.count
    return found


def by_importance(problem: PlacementProblem, missing: Sequence[int]) -> tuple[int, ...]:
    return tuple(sum(missing[index] for index in rank) for rank in _ranks(problem))


def spent(problem: PlacementProblem, solution: PlacementSolution) -> tuple[float, ...]:
    """What a solution costs for each priority of choices, the least preferred first."""
    return tuple(
        sum(_price(problem, node.choice) for node in solution.nodes if node.choice in choices)
        for choices in _tiers(problem)
    )


def _ranks(problem: PlacementProblem) -> list[list[int]]:
    ranks: dict[int, list[int]] = {}
    for index, demand in enumerate(problem.demands):
        ranks.setdefault(-demand.shape.priority, []).append(index)
    return [ranks[key] for key in sorted(ranks)]


def _tiers(problem: PlacementProblem) -> list[list[int]]:
    tiers: dict[tuple[int, int], list[int]] = {}
    for number, choice in enumerate(problem.choices):
        tiers.setdefault((choice.pool_priority, choice.type_priority), []).append(number)
    return [tiers[key] for key in sorted(tiers)]


def _price(problem: PlacementProblem, choice: int) -> float:
    return problem.choices[choice].offering.price_per_hour + problem.node_price_per_hour


def _matching(selector: LabelSelector | None) -> Callable[[PodShape], bool]:
    assert selector is not None
    wanted = [(one.key, one.values) for one in selector.requirements]
    assert all(one.operator == "In" for one in selector.requirements)
    return lambda shape: all(shape.labels.get(key) in values for key, values in wanted)
