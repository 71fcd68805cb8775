"""What do the rules between pods say, in numbers? Asked when a problem is laid out; the packers look only at what stands here.

Every rule between pods becomes a tally (a count of matching pods in each domain of a topology key) and what a class demands of it:

| rule of a class | demand on the tally of the domain where it is put |
| --- | --- |
| anti-affinity | at most 0 others: bound 1 if the class counts itself, else 0; and no later pod may break it (symmetry) |
| host port | the same, with the node as its domain |
| spread, DoNotSchedule | at most `max_skew` above the emptiest eligible domain |
| affinity | above 0, or nobody matches anywhere and the class matches itself |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from growth.model.labels import HOSTNAME, Labels
from growth.model.pod import HostPort, PodShape
from growth.solver.terms import Matcher, Namespaces, ShapeIndex, Tally, spread_tally

_ANY_ADDRESS = ("0.0.0.0", "::", "")  # noqa: S104  (the wildcard of the API, nothing is bound here)


class Bound(Struct, frozen=True, gc=False):
    """At most `limit` matching pods in the domain."""

    tally: int
    limit: int


class Spread(Struct, frozen=True, gc=False):
    """At most `max_skew` matching pods above the emptiest eligible domain."""

    tally: int
    max_skew: int
    min_domains: int = 1
    honours_affinity: bool = True
    honours_taints: bool = False


class ShapeRules(Struct, frozen=True, cache_hash=True):
    """What a shape adds to and asks of the tallies."""

    adds: tuple[int, ...] = ()
    anti: tuple[Bound, ...] = ()
    spreads: tuple[Spread, ...] = ()
    affinity: tuple[int, ...] = ()


@dataclass(slots=True)
class Rulebook:
    """All tallies of a problem and the rules of each shape."""

    tallies: list[Tally] = field(default_factory=list)
    rules: list[ShapeRules] = field(default_factory=list)

    def keys(self) -> tuple[str, ...]:
        """Topology keys beside the node itself."""
        return tuple(sorted({tally.key for tally in self.tallies if tally.key != HOSTNAME}))


def write_rulebook(shapes: Sequence[PodShape], placed: Sequence[bool], namespaces: Mapping[str, Labels]) -> Rulebook:
    """Rules of every shape; of a shape that only stands there already (`placed`), nothing but its anti-affinity binds newcomers."""
    return _Writer(shapes, placed, namespaces).write()


class _Writer:
    def __init__(self, shapes: Sequence[PodShape], placed: Sequence[bool], namespaces: Mapping[str, Labels]) -> None:
        self._shapes, self._placed = shapes, placed
        self._namespaces = Namespaces(namespaces, shapes)
        self._index = ShapeIndex(shapes)
        self._ids: dict[Tally, int] = {}
        self._members: list[list[int]] = []
        self._member_sets: list[frozenset[int]] = []
        self._ports = [(index, port) for index, shape in enumerate(shapes) for port in shape.host_ports]

    def write(self) -> Rulebook:
        drafts = [self._draft(index, shape) for index, shape in enumerate(self._shapes)]
        adds: list[list[int]] = [[] for _ in self._shapes]
        for tally, members in enumerate(self._members):
            for index in members:
                adds[index].append(tally)
        rules = [ShapeRules(tuple(added), *draft) for added, draft in zip(adds, drafts, strict=True)]
        return Rulebook(list(self._ids), rules)

    def _draft(self, index: int, shape: PodShape) -> tuple[tuple[Bound, ...], tuple[Spread, ...], tuple[int, ...]]:
        anti = [self._bound(index, self._namespaces.tally(term, shape.namespace)) for term in shape.anti_affinity]
        anti += [Bound(self._port_tally(port), 1) for port in shape.host_ports]
        if self._placed[index]:
            return tuple(anti), (), ()
        spreads = tuple(self._spread(shape, number) for number, spread in enumerate(shape.spread) if spread.when_unsatisfiable == "DoNotSchedule")
        return tuple(anti), spreads, self._affinity(shape)

    def _bound(self, index: int, tally: Tally) -> Bound:
        number = self._tally(tally)
        return Bound(number, 1 if index in self._member_sets[number] else 0)

    def _spread(self, shape: PodShape, number: int) -> Spread:
        spread = shape.spread[number]
        tally = self._tally(spread_tally(spread, shape))
        return Spread(tally, spread.max_skew, spread.min_domains or 1, spread.node_affinity_policy == "Honor", spread.node_taints_policy == "Honor")

    def _affinity(self, shape: PodShape) -> tuple[int, ...]:
        """A pod counts towards any of the terms only if it matches all of them."""
        if not shape.affinity:
            return ()
        found = [self._namespaces.of(term, shape.namespace) for term in shape.affinity]
        shared = tuple(sorted(frozenset(found[0]).intersection(*found[1:])))
        matcher = Matcher(shared, tuple(term.selector for term in shape.affinity))
        return tuple(self._tally(Tally(key, matcher)) for key in sorted({term.topology_key for term in shape.affinity}))

    def _tally(self, tally: Tally) -> int:
        number = self._ids.setdefault(tally, len(self._ids))
        if number == len(self._members):
            self._members.append(self._index.matched_by(tally.matcher))
            self._member_sets.append(frozenset(self._members[-1]))
        return number

    def _port_tally(self, port: HostPort) -> int:
        name = f"port {port.protocol} {port.port} {port.host_ip}"
        tally = Tally(HOSTNAME, Matcher((name,), ()))
        number = self._ids.setdefault(tally, len(self._ids))
        if number == len(self._members):
            self._members.append(sorted({index for index, other in self._ports if _ports_clash(port, other)}))
            self._member_sets.append(frozenset(self._members[-1]))
        return number


def _ports_clash(one: HostPort, other: HostPort) -> bool:
    if (one.port, one.protocol) != (other.port, other.protocol):
        return False
    return one.host_ip == other.host_ip or one.host_ip in _ANY_ADDRESS or other.host_ip in _ANY_ADDRESS
