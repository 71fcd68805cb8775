"""Can planned nodes be cheaper, or be where their pods prefer to be? Asked when all pods are placed. No pod moves: a
node only becomes another choice that holds the same, of equal tier and with equal daemons; it stays in its zone if any
of its pods is under a rule about zones, and goes to no zone that would be a new domain of a spread. Only where pods are
few are all of them placed anew, by the exact model of `solver/exact`.

All preferences of all pods of a node together are worth one percent of its price, so a plan gets dearer by that at
most. Which of the nodes that exist a pod prefers is left to the scheduler, which decides it.

| preference | how far a node meets it |
| --- | --- |
| preferred nodes | the weights of the terms that match |
| preferred affinity, beyond the node | the share of all matching pods that are in its domain |
| preferred anti-affinity, spread with ScheduleAnyway, beyond the node | the share that are elsewhere |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from growth.model.labels import HOSTNAME
from growth.model.node import Node
from growth.model.pod import PodShape
from growth.solver.arrays import MANY, BoolArray, FloatArray, IntArray
from growth.solver.exact.few_pods import Apart, Counted, Even, FewPods, Near, place_few
from growth.solver.purchase.bins import UNBOUND, Bins, planned
from growth.solver.purchase.layout import Layout
from growth.solver.purchase.pod_rules import has_preferences_about_pods
from growth.solver.purchase.tallies import looks_beyond_node
from growth.solver.rules import Neighbours
from growth.solver.rules.claims import NO_VOLUMES
from growth.solver.rules.pod_affinity import matching, read_terms
from growth.solver.rules.pod_class import Entry, PodClass
from growth.solver.rules.rule import Weight
from growth.solver.rules.selectors import any_term_matches
from growth.solver.rules.spread import matching_pods, read_constraint

_WORTH = 0.01  # of a node's price
_FULL_WEIGHT = 100  # the most that one preference may weigh
_SPREAD_WEIGHT = 50
_MOST_PODS = 40  # that are placed by the exact model
_MOST_PAIRS = 800  # of a class and a place there
_MOST_ALIKE = 10  # places of one choice there
_MOST_ENLARGED = 60  # pods for which nodes become larger
_SEARCH_NODES = 5  # for each pricing round of the budget


def make_cheaper(bins: Bins) -> None:
    """Exchange the choices of planned nodes for cheaper ones that hold the same."""
    known, spreads = dict[tuple[object, ...], int](), _Spreads(bins)
    for number in planned(bins):
        choice = int(bins.choice[number])
        name = (choice, *sorted(bins.contents[number].items()))
        cheaper = known.get(name, -1)
        if cheaper < 0 or (cheaper != choice and bins.openable()[cheaper] < 1):
            cheaper = known[name] = _best_of(bins, number, bins.layout.price, spreads)
        if cheaper != choice:
            spreads.exchange(number, cheaper)


class _Spreads:
    """What a planned node may become without a new domain, which would be empty for pods that are spread. Which nodes
    there are is counted once; their choices then change by `exchange` only.
    """

    def __init__(self, bins: Bins) -> None:
        self._bins, layout = bins, bins.layout
        views = [view for views in layout.spreads for view in views]
        keyed = [(int(layout.tally_key[view.rule.tally]), view.choices) for view in views]
        self._looked_at = list({(key, choices.tobytes()): (key, choices) for key, choices in keyed}.values())
        there = [number for number in range(bins.size) if number < bins.rooms or bins.contents[number]]
        most = int(max(layout.choice_domain.max(initial=-1), bins.domain.max(initial=-1))) + 2
        self._nodes = {  # by key and domain, from -1 on: those without
            key: np.bincount(bins.domain[key, there] + 1, minlength=most) for key, _ in self._looked_at if key >= 0
        }

    def kept_by(self, choice: int) -> BoolArray:
        """The choices that a node of this one may become."""
        layout, able = self._bins.layout, np.ones(len(self._bins.layout.price), dtype=np.bool_)
        for key, choices in self._looked_at:
            if key < 0 and self._bins.keeps_domains:
                able &= choices == choices[choice]
            elif key >= 0:
                able &= ~choices | (self._nodes[key][layout.choice_domain[key] + 1] > 0)
        return able

    def exchange(self, number: int, choice: int) -> None:
        domain = self._bins.layout.choice_domain
        for key, nodes in self._nodes.items():
            nodes[domain[key, self._bins.choice[number]] + 1] -= 1
            nodes[domain[key, choice] + 1] += 1
        self._bins.exchange(number, choice)


def _best_of(bins: Bins, number: int, score: FloatArray, spreads: _Spreads) -> int:
    """The choice with the lowest score that a planned node could become; its own if none is lower."""
    layout, choice = bins.layout, int(bins.choice[number])
    classes = list(bins.contents[number])
    used = layout.offer[choice] - bins.left[number]
    able = (layout.offer >= used).all(axis=1) & layout.fits[classes].all(axis=0) & (bins.openable() >= 1)
    able &= (layout.tier == layout.tier[choice]) & (score < score[choice] - 1e-12)
    if any(looks_beyond_node(layout, index) for index in classes):
        able &= (layout.choice_domain == layout.choice_domain[:, choice, None]).all(axis=0)
    able &= spreads.kept_by(choice)
    for candidate in sorted(np.flatnonzero(able), key=lambda one: (score[one], one)):
        if layout.daemons[candidate] == layout.daemons[choice]:
            return int(candidate)
    return choice


def enlarge(bins: Bins, missing: IntArray) -> IntArray:
    """Put these pods onto planned nodes that become larger, where that costs least; returns those that found no place.
    No node is bought for them, so rules are read as they are written.
    """
    left, spreads, bins.is_strict = missing.copy(), _Spreads(bins), False
    for index in np.flatnonzero(left).tolist() if left.sum() <= _MOST_ENLARGED else ():
        while left[index] and _enlarge_for(bins, index, spreads):
            left[index] -= 1
    bins.is_strict = True
    return left


def _enlarge_for(bins: Bins, index: int, spreads: _Spreads) -> bool:
    """One pod of the class onto the node where that costs least."""
    layout, found = bins.layout, list[tuple[float, int, int]]()
    for number in planned(bins):
        choice, classes = int(bins.choice[number]), [index, *bins.contents[number]]
        needed = layout.offer[choice] - bins.left[number] + layout.need[index]
        able = (layout.offer >= needed).all(axis=1) & layout.fits[classes].all(axis=0) & (bins.openable() >= 1)
        able &= layout.tier == layout.tier[choice]
        able &= (layout.choice_domain == layout.choice_domain[:, choice, None]).all(axis=0)
        able &= spreads.kept_by(choice)
        able[choice] = bool((bins.left[number] >= layout.need[index]).all() and layout.fits[index, choice])
        if able.any():
            larger = int(np.where(able, layout.price, np.inf).argmin())
            found.append((float(layout.price[larger] - layout.price[choice]), number, larger))
    for _, number, larger in sorted(found):
        before = int(bins.choice[number])
        if layout.daemons[larger] == layout.daemons[before]:
            spreads.exchange(number, larger)
            if bins.space(index)[number] > 0:
                bins.put(index, number, 1)
                return True
            spreads.exchange(number, before)
    return False


def place_anew(layout: Layout, rank: IntArray, can_all: bool) -> Bins | None:
    """The best placement of all pods, where they are few: an important pod (of a low rank) is left out last. None if
    they are too many, or nothing was found; `can_all` if it is known that there is a place for all.
    """
    if int(layout.count.sum()) > _MOST_PODS:
        return None
    bins = Bins(layout)
    slots = _slots(bins)
    if len(layout.count) * (bins.size + len(slots)) > _MOST_PAIRS:
        return None
    search_nodes = _SEARCH_NODES * layout.problem.budget.pricing_rounds
    found = place_few(_few_pods(bins, slots, rank), can_all, search_nodes)
    if found is None:
        return None
    for place in np.flatnonzero(found.any(axis=0)):
        number = int(place) if place < bins.rooms else bins.open(int(slots[place - bins.rooms]))
        for index in np.flatnonzero(found[:, place]):
            bins.put(int(index), number, int(found[index, place]))
    return bins


def _slots(bins: Bins) -> IntArray:
    """Nodes that could be bought, by their choices: as many of each as limits and pods allow, none of a choice that
    another beats.
    """
    layout, openable, found = bins.layout, bins.openable(), list[int]()
    for choice in range(len(layout.price)):
        usable = layout.fits[:, choice] & (layout.need <= layout.offer[choice]).all(axis=1)
        most = min(int(openable[choice]), int(layout.count[usable].sum()), _MOST_ALIKE)
        if most > 0 and not _is_beaten(layout, choice, usable, openable):
            found += [choice] * most
    return np.array(found, dtype=np.int64)


def _is_beaten(layout: Layout, choice: int, usable: BoolArray, openable: IntArray) -> bool:
    """Is another choice in the same domains no dearer and at least as good? Of equals the first is."""
    better = (layout.offer >= layout.offer[choice]).all(axis=1) & (layout.price <= layout.price[choice])
    better &= (layout.choice_domain == layout.choice_domain[:, choice, None]).all(axis=0)
    better &= (layout.limit_use <= layout.limit_use[:, choice, None]).all(axis=0) & (openable >= openable[choice])
    better &= (layout.tier == layout.tier[choice]) & layout.fits[usable].all(axis=0)
    for other in np.flatnonzero(better):
        is_equal = layout.price[other] == layout.price[choice] and (layout.offer[other] == layout.offer[choice]).all()
        if other != choice and layout.daemons[other] == layout.daemons[choice] and (other < choice or not is_equal):
            return all(view.choices[other] == view.choices[choice] for views in layout.spreads for view in views)
    return False


def _few_pods(bins: Bins, slots: IntArray, rank: IntArray) -> FewPods:
    """All classes, on all rooms and on nodes of these choices that could be bought."""
    layout, size = bins.layout, bins.size
    rules, spreads = (
        list(enumerate(layout.rules)),
        [(i, view) for i, views in enumerate(layout.spreads) for view in views],
    )
    of_rooms = np.zeros(size)
    return FewPods(
        need=layout.need,
        count=layout.count,
        rank=rank,
        free=np.vstack([bins.left[:size], layout.offer[slots]]),
        fits=np.hstack([layout.room_fits, layout.fits[:, slots]]),
        kind=np.concatenate([np.full(size, -1), slots]),
        price=np.concatenate([of_rooms, layout.price[slots]]),
        tier=np.concatenate([of_rooms.astype(np.int64), layout.tier[slots]]),
        limit_use=np.hstack([np.zeros((len(layout.limit_bound), size)), layout.limit_use[:, slots]]),
        limit_bound=bins.limit_left,
        counted=tuple(_counted(bins, tally, slots) for tally in range(len(layout.tally_key))),
        apart=tuple(Apart(index, limit.tally, limit.limit) for index, one in rules for limit in one.anti),
        near=tuple(Near(index, one.affinity, one.is_first_of_its_kind) for index, one in rules if one.affinity),
        even=tuple(
            Even(
                index, view.rule.tally, view.rule.max_skew, view.rule.min_domains,
                np.concatenate([view.rooms, view.choices[slots]]),
            )
            for index, view in spreads
        ),
    )  # fmt: skip


def _counted(bins: Bins, tally: int, slots: IntArray) -> Counted:
    layout, size, key = bins.layout, bins.size, int(bins.layout.tally_key[tally])
    domain = np.arange(size + len(slots))
    if key >= 0:
        domain = np.concatenate([bins.domain[key, :size], layout.choice_domain[key, slots]])
    daemons = [bins.daemons[choice] for choice in slots]
    bound_here = bins.bound[:size, tally].astype(np.int64)
    held = [alone.counts.get(tally, 0) for alone in daemons]
    bound = [min(MANY, int(alone.limits.get(tally, MANY))) for alone in daemons]
    adds = np.array([tally in rules.adds for rules in layout.rules], dtype=np.bool_)
    return Counted(
        domain,
        np.concatenate([bins.tally[:size, tally].astype(np.int64), np.array(held, dtype=np.int64)]),
        np.concatenate([np.where(bound_here < UNBOUND, bound_here, MANY), np.array(bound, dtype=np.int64)]),
        adds,
    )


def follow_preferences(bins: Bins) -> None:
    """Exchange the choices of planned nodes for others that their pods prefer."""
    shapes = bins.layout.shapes
    if not any(shape.preferred_nodes or has_preferences_about_pods(shape) for shape in shapes):
        return
    reader, spreads = _Reader(bins), _Spreads(bins)
    stated = {index: one for index, shape in enumerate(shapes) if (one := reader.read(shape)) is not None}
    for number in range(bins.rooms, bins.size):
        content, choice = bins.contents[number], int(bins.choice[number])
        if any(index in stated for index in content):
            met = np.zeros(len(bins.layout.price))
            for index, count in sorted(content.items()):
                if index in stated:
                    met += stated[index].met(choice, content) * count
            worth = _WORTH * bins.layout.price[choice] * met / sum(content.values())
            better = _best_of(bins, number, bins.layout.price - worth, spreads)
            reader.move(content, choice, better)
            spreads.exchange(number, better)


@dataclass(frozen=True, slots=True)
class _Preferences:
    """What the pods of one class prefer: choices by weight, and groups of pods to be near or to avoid."""

    weights: FloatArray  # K
    groups: tuple[_Group, ...]
    scale: float

    def met(self, choice: int, content: dict[int, int]) -> FloatArray:
        """From 0 to 1 for each choice, for a pod of a node that is of `choice` now."""
        total = self.weights.copy()
        for group in self.groups:
            total += group.met(choice, content)
        return np.asarray(total / self.scale)


@dataclass(frozen=True, slots=True)
class _Group:
    """Pods that a term matches; a negative weight says that they are avoided."""

    domains: _DomainCounts
    weight: int
    members: frozenset[int]  # classes
    present: FloatArray  # pods that are there already, in each domain

    def met(self, choice: int, content: dict[int, int]) -> FloatArray:
        counts = self.present + self.domains.counts[:, sorted(self.members)].sum(axis=1)
        counts[self.domains.domain[choice]] -= sum(count for index, count in content.items() if index in self.members)
        counts[-1] = 0.0  # where the label is absent, no pod is near another
        share = counts[self.domains.domain] / max(1.0, float(counts.sum()))
        return np.asarray(self.weight * share if self.weight > 0 else -self.weight * (1 - share))


class _DomainCounts:
    """How many pods of each class are planned, and of each shape are there already, in each domain of a key; the last
    one is for an absent label.
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
        self.present: dict[PodShape, FloatArray] = {}
        for room, domain in enumerate(of_room):
            for shape, count in problem.rooms[int(layout.room_index[room])].contents:
                self.present.setdefault(shape, np.zeros(len(names) + 1))[domain] += count
        for number in range(bins.size):
            domain = of_room[number] if number < bins.rooms else int(self.domain[bins.choice[number]])
            for index, count in bins.contents[number].items():
                self.counts[domain, index] += count

    def move(self, content: dict[int, int], before: int, after: int) -> None:
        for index, count in content.items():
            self.counts[self.domain[before], index] -= count
            self.counts[self.domain[after], index] += count


class _Reader:
    """Reads the preferences of shapes; what several of them look at is counted once."""

    def __init__(self, bins: Bins) -> None:
        self._bins = bins
        self._choices = [bins.layout.problem.choices[int(index)] for index in bins.layout.choice_index]
        nodes = [Node(f"choice {number}", choice.labels) for number, choice in enumerate(self._choices)]
        self._table = Neighbours(nodes).table
        self._classes = [_as_class(shape) for shape in bins.layout.shapes]
        self._domains: dict[str, _DomainCounts] = {}

    def read(self, shape: PodShape) -> _Preferences | None:
        """None if it has none that a choice of node could meet."""
        weights = np.zeros(len(self._choices))
        for preferred in shape.preferred_nodes:
            weights += preferred.weight * any_term_matches(self._table, (preferred.term,), slice(0, len(self._choices)))
        groups = tuple(self._group(*look) for look in self._looks(shape) if look[0] != HOSTNAME)
        stated = sum(one.weight for one in shape.preferred_nodes) + sum(abs(group.weight) for group in groups)
        return _Preferences(weights, groups, float(max(_FULL_WEIGHT, stated))) if weights.any() or groups else None

    def _looks(self, shape: PodShape) -> Iterator[tuple[str, int, Weight]]:
        """Topology keys, weights, and which pods match."""
        for sign, preferences in ((1, shape.preferred_affinity), (-1, shape.preferred_anti_affinity)):
            for preferred in preferences:
                term = read_terms((preferred.term,), shape.namespace, self._bins.layout.problem.namespaces)[0]
                yield term.topology_key, sign * preferred.weight, matching(term)
        for spread in shape.spread:
            if spread.when_unsatisfiable == "ScheduleAnyway":
                matches = matching_pods(read_constraint(spread, shape).selector, shape.namespace)
                yield spread.topology_key, -_SPREAD_WEIGHT, matches

    def _group(self, key: str, weight: int, matches: Weight) -> _Group:
        if key not in self._domains:
            self._domains[key] = _DomainCounts(self._bins, key)
        domains = self._domains[key]
        members = frozenset(index for index, pod_class in enumerate(self._classes) if matches(pod_class))
        present = np.zeros(len(domains.counts))
        for shape, counts in domains.present.items():
            present += counts * matches(_as_class(shape))
        return _Group(domains, weight, members, present)

    def move(self, content: dict[int, int], before: int, after: int) -> None:
        if before != after:
            for domains in self._domains.values():
                domains.move(content, before, after)


def _as_class(shape: PodShape) -> PodClass:
    return PodClass(0, Entry(shape), shape.labels, NO_VOLUMES)
