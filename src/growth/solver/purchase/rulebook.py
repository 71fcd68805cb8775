"""What do the rules between pods say, in numbers? Asked when a problem is laid out; the packers look only at what
stands here.

Every rule between pods becomes a tally (a count of matching pods in each domain of a topology key) and what a class
demands of it. Who matches is decided by the very functions of `solver/rules`.

| rule of a class | demand on the tally of the domain where it is put |
| --- | --- |
| anti-affinity | at most 0 others: bound 1 if the class counts itself, else 0; and no later pod may break it (symmetry) |
| host port, legacy disk | the same, with the node as its domain |
| claim for one pod alone | the same, with the whole cluster as its domain |
| spread, DoNotSchedule | at most `max_skew` above the emptiest eligible domain |
| affinity | above 0, or nobody matches anywhere and the class matches itself |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from growth.model.labels import HOSTNAME, NO_LABELS, Requirement
from growth.model.pod import PodAffinityTerm, PodShape, TopologySpread
from growth.solver.purchase.problem import PlacementProblem
from growth.solver.rules.claims import NO_VOLUMES, volume_needs
from growth.solver.rules.pod_affinity import matching_all, read_terms, repelling_terms
from growth.solver.rules.pod_class import Entry, PodClass
from growth.solver.rules.resources import conflicts_with
from growth.solver.rules.spread import hard_constraints, matching_pods, read_constraint
from growth.solver.rules.volumes import disk_conflicts, users_of

EVERYWHERE: Final = ""  # the topology key that puts all nodes into one domain

Weight = Callable[[PodClass], int]


class Bound(Struct, frozen=True, gc=False):
    """At most `limit` matching pods in the domain."""

    tally: int
    limit: int


class Spread(Struct, frozen=True, gc=False):
    """At most `max_skew` matching pods above the emptiest eligible domain."""

    tally: int
    max_skew: int
    counts_itself: bool
    min_domains: int = 1
    honours_affinity: bool = True
    honours_taints: bool = False


class ShapeRules(Struct, frozen=True, cache_hash=True):
    """What a shape adds to and asks of the tallies."""

    adds: tuple[int, ...] = ()
    anti: tuple[Bound, ...] = ()
    spreads: tuple[Spread, ...] = ()
    affinity: tuple[int, ...] = ()
    is_first_of_its_kind: bool = False  # it matches its own affinity, so the first may begin anywhere


@dataclass(slots=True)
class Rulebook:
    """All tallies of a problem, by their keys, and the rules of each shape."""

    keys: list[str] = field(default_factory=list)
    rules: list[ShapeRules] = field(default_factory=list)


def write_rulebook(shapes: Sequence[PodShape], demanded: int, problem: PlacementProblem) -> Rulebook:
    """Rules of every shape; of a shape that only stands there already (from `demanded` on), nothing but its
    anti-affinity binds newcomers.
    """
    return _Writer(shapes, demanded, problem).write()


class _Writer:
    def __init__(self, shapes: Sequence[PodShape], demanded: int, problem: PlacementProblem) -> None:
        self._demanded = demanded
        self._namespaces = problem.namespaces
        volumes = [volume_needs(shape, problem.volumes) if shape.volumes else NO_VOLUMES for shape in shapes]
        self._classes = [
            PodClass(number, Entry(shape), shape.labels, needs)
            for number, (shape, needs) in enumerate(zip(shapes, volumes, strict=True))
        ]
        self._numbers: dict[tuple[object, ...], int] = {}
        self._keys: list[str] = []
        self._members: list[frozenset[int]] = []
        self._index = _ShapeIndex(self._classes)

    def write(self) -> Rulebook:
        drafts = [self._draft(pod_class) for pod_class in self._classes]
        adds: list[list[int]] = [[] for _ in self._classes]
        for tally, members in enumerate(self._members):
            for index in members:
                adds[index].append(tally)
        rules = [ShapeRules(tuple(added), *draft) for added, draft in zip(adds, drafts, strict=True)]
        return Rulebook(self._keys, rules)

    def _draft(self, pod_class: PodClass) -> tuple[tuple[Bound, ...], tuple[Spread, ...], tuple[int, ...], bool]:
        shape, number = pod_class.shape, pod_class.number
        tallies = (
            [self._repelled(term, shape) for term in shape.anti_affinity]
            if repelling_terms(shape) or number < self._demanded
            else []
        )
        tallies += [self._tally(("port", port), HOSTNAME, conflicts_with(port)) for port in shape.host_ports]
        tallies += [self._tally(("disk", disk), HOSTNAME, disk_conflicts(disk)) for disk in pod_class.needs.disks]
        tallies += [self._tally(("claim", claim), EVERYWHERE, users_of(claim)) for claim in pod_class.needs.exclusive]
        anti = tuple(Bound(tally, 1 if number in self._members[tally] else 0) for tally in dict.fromkeys(tallies))
        if number >= self._demanded:
            return anti, (), (), False
        spreads = tuple(self._spread(spread, shape) for spread in hard_constraints(pod_class))
        return anti, spreads, *self._affinity(pod_class)

    def _repelled(self, stated: PodAffinityTerm, shape: PodShape) -> int:
        """Whom the term keeps away, as the term of a waiting pod and as that of a running one."""
        waiting = read_terms((stated,), shape.namespace, self._namespaces)[0]
        running = read_terms((stated,), shape.namespace)[0]

        def weight(other: PodClass) -> int:
            return int(
                waiting.matches(other) or running.repels(other, self._namespaces.get(other.namespace, NO_LABELS))
            )

        return self._tally(("anti", waiting, running), stated.topology_key, weight, waiting.selector.requirements)

    def _spread(self, spread: TopologySpread, shape: PodShape) -> Spread:
        read = read_constraint(spread, shape)
        weight = matching_pods(read.selector, shape.namespace)
        tally = self._tally(
            ("spread", spread.topology_key, read.selector, shape.namespace),
            spread.topology_key,
            weight,
            read.selector.requirements,
        )
        honours = spread.node_affinity_policy == "Honor", spread.node_taints_policy == "Honor"
        return Spread(tally, spread.max_skew, read.matches_itself, read.minimum_domains, *honours)

    def _affinity(self, pod_class: PodClass) -> tuple[tuple[int, ...], bool]:
        """A pod counts towards any of the terms only if it matches all of them."""
        shape = pod_class.shape
        terms = read_terms(shape.affinity, shape.namespace, self._namespaces)
        if not terms:
            return (), False
        requirements = tuple(requirement for term in terms for requirement in term.selector.requirements)
        keys = sorted({term.topology_key for term in terms})
        tallies = tuple(self._tally(("near", terms, key), key, matching_all(terms), requirements) for key in keys)
        return tallies, all(term.matches(pod_class) for term in terms)

    def _tally(
        self, name: tuple[object, ...], key: str, weight: Weight, requirements: tuple[Requirement, ...] = ()
    ) -> int:
        number = self._numbers.setdefault(name, len(self._numbers))
        if number == len(self._keys):
            self._keys.append(key)
            self._members.append(
                frozenset(index for index in self._index.candidates(requirements) if weight(self._classes[index]))
            )
        return number


class _ShapeIndex:
    """Finds the shapes that may match without looking at all of them."""

    def __init__(self, classes: Sequence[PodClass]) -> None:
        self._everything = range(len(classes))
        self._by_label: dict[tuple[str, str], list[int]] = {}
        for index, pod_class in enumerate(classes):
            for pair in pod_class.labels.items():
                self._by_label.setdefault(pair, []).append(index)

    def candidates(self, requirements: Sequence[Requirement]) -> Sequence[int]:
        for requirement in requirements:
            if requirement.operator == "In":
                return sorted(
                    {
                        index
                        for value in requirement.values
                        for index in self._by_label.get((requirement.key, value), ())
                    }
                )
        return self._everything
