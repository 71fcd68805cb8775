"""What do the rules of the scheduler say of each pod, in numbers? Asked once, when a problem is laid out; the packers
look only at these numbers. Which pods match and which nodes fit is decided by the functions of `solver/rules`.

Every rule between pods becomes a tally (a count of matching pods in each domain of a topology key) and what a class
demands of it:

| rule of a class | demand on the tally of the domain where it is put |
| --- | --- |
| anti-affinity | at most 0 others: 1 if the class counts itself, else 0; and no later pod may break it (symmetry) |
| host port, legacy disk | the same, with the node as its domain |
| claim for one pod alone | the same, with the whole cluster as its domain |
| spread, DoNotSchedule | at most `max_skew` above the emptiest eligible domain |
| affinity | above 0, or no pod matches anywhere and the class matches itself |

A tally that no placement of these pods can bring beyond what is allowed binds nobody and is left out: of a class with
one pod, for instance, every rule that looks at its own kind (`without_idle`).

Rules that look at nodes only say which nodes a shape may go to (`AllowedNodes`). Attached volumes are one more resource
(`Attachments`): each one counts, also where two pods of a node would share it; new nodes have no known limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from growth.model.labels import HOSTNAME, NO_LABELS, Requirement
from growth.model.node import Node
from growth.model.pod import PodAffinityTerm, PodShape, TopologySpread
from growth.solver.arrays import MANY, BoolArray, IntArray
from growth.solver.purchase.problem import PlacementProblem, Room
from growth.solver.rules import Neighbours
from growth.solver.rules.claims import NO_VOLUMES, VolumeNeeds, volume_needs
from growth.solver.rules.pod_affinity import matching_all, read_terms, repelling_terms, why_not_readable
from growth.solver.rules.pod_class import Carriers, Entry, PodClass, as_nodes_see_it, telling
from growth.solver.rules.resources import conflicts_with
from growth.solver.rules.spread import hard_constraints, matching_pods, read_constraint, why_not_spreadable
from growth.solver.rules.volumes import disk_conflicts, users_of

EVERYWHERE: Final = ""  # the topology key that puts all nodes into one domain

Weight = Callable[[PodClass], int]
_Demands = tuple[tuple["TallyLimit", ...], tuple["SpreadRule", ...], tuple[int, ...], bool]


class TallyLimit(Struct, frozen=True, gc=False):
    """At most `limit` matching pods in the domain."""

    tally: int
    limit: int


class SpreadRule(Struct, frozen=True, gc=False):
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
    anti: tuple[TallyLimit, ...] = ()
    spreads: tuple[SpreadRule, ...] = ()
    affinity: tuple[int, ...] = ()
    is_first_of_its_kind: bool = False  # it matches its own affinity, so the first may begin anywhere


@dataclass(slots=True)
class Rulebook:
    """All tallies of a problem, by their keys, and the rules of each shape."""

    keys: list[str] = field(default_factory=list)
    rules: list[ShapeRules] = field(default_factory=list)


def read_rules(shapes: Sequence[PodShape], demanded: int, problem: PlacementProblem) -> Rulebook:
    """Rules of every shape; of shapes that are only on nodes already (from `demanded` on), nothing but their
    anti-affinity binds newcomers.
    """
    return _Reader(shapes, demanded, problem).read()


class _Reader:
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
        self._by_label = Carriers()
        for pod_class in self._classes:
            self._by_label.add(pod_class.number, pod_class.labels)

    def read(self) -> Rulebook:
        drafts = [self._draft(pod_class) for pod_class in self._classes]
        adds: list[list[int]] = [[] for _ in self._classes]
        for tally, members in enumerate(self._members):
            for index in members:
                adds[index].append(tally)
        rules = [ShapeRules(tuple(added), *draft) for added, draft in zip(adds, drafts, strict=True)]
        return Rulebook(self._keys, rules)

    def _draft(self, pod_class: PodClass) -> _Demands:
        shape, number = pod_class.shape, pod_class.number
        binds = number < self._demanded or repelling_terms(shape)
        tallies = [self._repelled(term, shape) for term in shape.anti_affinity] if binds else []
        tallies += [self._tally(("port", port), HOSTNAME, conflicts_with(port)) for port in shape.host_ports]
        tallies += [self._tally(("disk", disk), HOSTNAME, disk_conflicts(disk)) for disk in pod_class.needs.disks]
        tallies += [self._tally(("claim", claim), EVERYWHERE, users_of(claim)) for claim in pod_class.needs.exclusive]
        anti = tuple(TallyLimit(tally, 1 if number in self._members[tally] else 0) for tally in dict.fromkeys(tallies))
        if number >= self._demanded:
            return anti, (), (), False
        spreads = tuple(self._spread(spread, shape) for spread in hard_constraints(pod_class))
        return anti, spreads, *self._affinity(pod_class)

    def _repelled(self, stated: PodAffinityTerm, shape: PodShape) -> int:
        """Whom the term keeps away, as the term of a waiting pod and as that of a running one."""
        waiting = read_terms((stated,), shape.namespace, self._namespaces)[0]
        running = read_terms((stated,), shape.namespace)[0]

        def weight(other: PodClass) -> int:
            namespace = self._namespaces.get(other.namespace, NO_LABELS)
            return int(waiting.matches(other) or running.repels(other, namespace))

        return self._tally(("anti", waiting, running), stated.topology_key, weight, waiting.selector.requirements)

    def _spread(self, spread: TopologySpread, shape: PodShape) -> SpreadRule:
        read = read_constraint(spread, shape)
        name = ("spread", spread.topology_key, read.selector, shape.namespace)
        weight = matching_pods(read.selector, shape.namespace)
        tally = self._tally(name, spread.topology_key, weight, read.selector.requirements)
        honours = spread.node_affinity_policy == "Honor", spread.node_taints_policy == "Honor"
        return SpreadRule(tally, spread.max_skew, read.matches_itself, read.minimum_domains, *honours)

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
            candidates = self._by_label.candidates(telling(requirements), range(len(self._classes)))
            self._members.append(frozenset(index for index in candidates if weight(self._classes[index])))
        return number


def without_idle(
    book: Rulebook, numbers: Mapping[PodShape, int], problem: PlacementProblem, nodes: Sequence[Node]
) -> Rulebook:
    """The same rules without tallies that can bind nobody: even if all pods were in one domain, there would not be too
    many. A spread also refuses nodes without its label, so that must be on all `nodes`.
    """
    labels = [frozenset(labels) for labels in {node.labels for node in nodes}]
    on_all_nodes = frozenset((HOSTNAME,)).union(frozenset.intersection(*labels) if labels else ())
    pods = _pods_of_shapes(numbers, problem)
    most, allowed = [0] * len(book.keys), [MANY] * len(book.keys)
    for rules, count in zip(book.rules, pods, strict=True):
        for tally in rules.adds:
            most[tally] += count
        for limit in rules.anti:
            allowed[limit.tally] = min(allowed[limit.tally], limit.limit)
        for spread in rules.spreads:
            usual = spread.max_skew if book.keys[spread.tally] in on_all_nodes else -1
            allowed[spread.tally] = min(allowed[spread.tally], usual)
        for tally in rules.affinity:
            allowed[tally] = -1
    kept = [tally for tally in range(len(book.keys)) if most[tally] > allowed[tally]]
    if len(kept) == len(book.keys):
        return book
    number = {tally: position for position, tally in enumerate(kept)}
    return Rulebook([book.keys[tally] for tally in kept], [_renumbered(rules, number) for rules in book.rules])


def _pods_of_shapes(numbers: Mapping[PodShape, int], problem: PlacementProblem) -> list[int]:
    """How many pods of each shape there can be at most."""
    pods = [0] * len(numbers)
    for demand in problem.demands:
        pods[numbers[demand.shape]] += demand.count
    for shape, count in (held for room in problem.rooms for held in room.contents):
        pods[numbers[shape]] += count
    for shape in (daemon for choice in problem.choices for daemon in choice.daemons):
        pods[numbers[shape]] = MANY
    return pods


def _renumbered(rules: ShapeRules, number: Mapping[int, int]) -> ShapeRules:
    """Without tallies that have no number."""
    return ShapeRules(
        tuple(number[tally] for tally in rules.adds if tally in number),
        tuple(TallyLimit(number[one.tally], one.limit) for one in rules.anti if one.tally in number),
        tuple(replace(one, tally=number[one.tally]) for one in rules.spreads if one.tally in number),
        tuple(number[tally] for tally in rules.affinity),
        rules.is_first_of_its_kind,
    )


class AllowedNodes:
    """For a fixed list of nodes: which of them may a shape go to, whatever else is there?"""

    def __init__(self, nodes: Sequence[Node], problem: PlacementProblem) -> None:
        self._neighbours = Neighbours(nodes, volumes=problem.volumes, namespaces=problem.namespaces)
        self._size = len(nodes)
        self._known: dict[PodShape, BoolArray] = {}

    def for_shapes(self, shapes: Sequence[PodShape]) -> BoolArray:
        """shapes × nodes"""
        answers = [self.for_shape(shape) for shape in shapes]
        return np.array(answers, dtype=np.bool_).reshape(len(shapes), self._size)

    def for_shape(self, shape: PodShape) -> BoolArray:
        """Shapes that rules about nodes cannot tell apart are asked about once."""
        if _has_unreadable_rules(shape):
            return np.zeros(self._size, dtype=np.bool_)
        seen = as_nodes_see_it(shape)
        if seen not in self._known:
            self._known[seen] = self._neighbours.question(self._neighbours.class_of(seen)).allowed_by_nodes()
        return self._known[seen]


def _has_unreadable_rules(shape: PodShape) -> bool:
    """A pod with a rule between pods that cannot be read goes nowhere, whatever the nodes are."""
    terms = shape.affinity or shape.anti_affinity or shape.preferred_affinity or shape.preferred_anti_affinity
    if not (shape.spread or terms):
        return False
    return bool(why_not_spreadable(PodClass(0, Entry(shape), shape.labels, NO_VOLUMES)) or why_not_readable(shape))


class Attachments:
    """Attached volumes by driver: how many a pod needs, how many more each room takes."""

    def __init__(self, problem: PlacementProblem, rooms: Sequence[Room]) -> None:
        self._world = problem.volumes
        self._needs: dict[PodShape, VolumeNeeds] = {}
        wanted = {one.driver for demand in problem.demands for one in self._of(demand.shape).attachments}
        self.drivers = tuple(sorted(wanted))
        self._neighbours = Neighbours(
            [room.node for room in rooms] if wanted else [], volumes=problem.volumes, namespaces=problem.namespaces
        )
        self._rooms = len(rooms)
        for number, room in enumerate(rooms if wanted else ()):
            for shape, count in room.contents:
                self._neighbours.add(self._neighbours.class_of(shape), number, count)

    def count(self, shape: PodShape, driver: str) -> int:
        return sum(one.driver == driver for one in self._of(shape).attachments)

    def left(self, driver: str) -> IntArray:
        """For each room; none where what is attached cannot be counted."""
        book, span = self._neighbours.book, slice(0, self._rooms)
        left = np.minimum(book.limit(driver, span) - book.attached(driver, span), MANY)
        return np.where(book.is_uncountable(span), 0, left).astype(np.int64)

    def _of(self, shape: PodShape) -> VolumeNeeds:
        if not shape.volumes:
            return NO_VOLUMES
        if shape not in self._needs:
            self._needs[shape] = volume_needs(shape, self._world)
        return self._needs[shape]


def has_preferences_about_pods(shape: PodShape) -> bool:
    return bool(shape.preferred_affinity or shape.preferred_anti_affinity) or any(
        one.when_unsatisfiable == "ScheduleAnyway" for one in shape.spread
    )
