"""How do the rules between pods bound what one node holds? The one place where the rules of classes become limits on
the tallies of a node; `bins` applies them to all nodes at once, `rows` turns them into numbers for `solver/patterns`.

| rule of a class | limit on a tally of its node |
| --- | --- |
| anti-affinity, host port, legacy disk | at most `limit` matching pods while a pod of the class is there |
| spread over nodes, to build a plan | at most `max_skew`, as beside an empty node: that holds whatever comes |
| spread over nodes, to prove a bound | at most `max_skew` above what the emptiest node can hold (`proven_spreads`) |
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from growth.model.labels import HOSTNAME
from growth.solver.arrays import BOUNDLESS, BoolArray, IntArray
from growth.solver.linear import INFINITE, LinearProgram, coefficients_of, solve_linear
from growth.solver.purchase.layout import Layout, SpreadView
from growth.solver.purchase.pod_rules import ShapeRules


def concerns_no_pods(rules: ShapeRules) -> bool:
    """Does no rule between pods concern it?"""
    return not (rules.adds or rules.anti or rules.spreads or rules.affinity)


def looks_beyond_node(layout: Layout, index: int) -> bool:
    """Is the class under a rule whose domain is larger than a node, or counted by one?"""
    rules = layout.rules[index]
    asked = *(limit.tally for limit in rules.anti), *(view.rule.tally for view in layout.spreads[index])
    return any(layout.tally_key[tally] >= 0 for tally in (*rules.adds, *rules.affinity, *asked))


def node_limits(layout: Layout, index: int, proven: Mapping[int, float] | None = None) -> list[tuple[int, float]]:
    """What a class asks of the tallies of its node: (tally, at most so many); of spreads only what is `proven`, if
    that is given.
    """
    anti = [(limit.tally, float(limit.limit)) for limit in layout.rules[index].anti if _is_on_node(layout, limit.tally)]
    if proven is not None:
        return anti + [(tally, proven[tally]) for tally in _spread_by(layout, index) if tally in proven]
    rules = (view.rule for view in layout.spreads[index])
    return anti + [(rule.tally, float(rule.max_skew)) for rule in rules if _is_on_node(layout, rule.tally)]


def _is_on_node(layout: Layout, tally: int) -> bool:
    return bool(layout.tally_key[tally] < 0)


def _spread_by(layout: Layout, index: int) -> list[int]:
    """Tallies by which pods of the class are spread over nodes among themselves."""
    found = (view.rule for view in layout.spreads[index] if _is_on_node(layout, view.rule.tally))
    return [rule.tally for rule in found if rule.counts_itself and rule.tally in layout.rules[index].adds]


def own_limits(layout: Layout, index: int) -> Iterator[tuple[int, int]]:
    """Limits by which pods of the class keep each other away, with their tallies: those on a node and, of
    anti-affinity, those in larger domains.
    """
    rules = layout.rules[index]
    yield from ((limit.tally, limit.limit) for limit in rules.anti if limit.tally in rules.adds)
    for view in layout.spreads[index]:
        if view.rule.counts_itself and layout.tally_key[view.rule.tally] < 0:
            yield view.rule.tally, view.rule.max_skew


class NodeTally:
    """The tallies of one planned node as it is filled, and the limits of the pods on it."""

    __slots__ = ("_asked", "_layout", "counts", "limits")

    def __init__(self, layout: Layout, choice: int, contents: Mapping[int, int] | None = None) -> None:
        self._layout = layout
        self.counts: dict[int, int] = {}
        self.limits: dict[int, float] = {}
        self._asked: dict[int, dict[float, int]] = {}  # of each tally the limits, with the number of pods that ask it
        for rules in layout.daemons[choice]:
            self._count(rules, 1, [(limit.tally, float(limit.limit)) for limit in rules.anti])
        for index, count in (contents or {}).items():
            if count:
                self.add(index, count)

    def space(self, index: int) -> int:
        """How many more pods of the class the rules allow here."""
        rules, space = self._layout.rules[index], BOUNDLESS
        own = node_limits(self._layout, index)
        for tally, limit in own:
            if tally not in rules.adds and self.counts.get(tally, 0) > limit:
                return 0
        limits = dict(own)
        for tally in rules.adds:
            limit = min(self.limits.get(tally, BOUNDLESS), limits.get(tally, BOUNDLESS))
            space = min(space, limit - self.counts.get(tally, 0))
        return int(max(space, 0))

    def add(self, index: int, count: int) -> None:
        """Or take out, if the count is negative."""
        self._count(self._layout.rules[index], count, node_limits(self._layout, index))

    def _count(self, rules: ShapeRules, count: int, limits: Sequence[tuple[int, float]]) -> None:
        for tally in rules.adds:
            self.counts[tally] = self.counts.get(tally, 0) + count
        for tally, limit in limits:
            asked = self._asked.setdefault(tally, {})
            asked[limit] = asked.get(limit, 0) + count
            if not asked[limit]:
                del asked[limit]
            self.limits[tally] = min(asked, default=BOUNDLESS)


def kinds_on_node(layout: Layout) -> list[int]:
    """A number for each class: those with the same number are equal to every `NodeTally`."""
    kinds: dict[object, int] = {}
    on_node = [tuple(tally for tally in rules.adds if _is_on_node(layout, tally)) for rules in layout.rules]
    asked = ((adds, tuple(node_limits(layout, index))) for index, adds in enumerate(on_node))
    return [kinds.setdefault(each, len(kinds)) for each in asked]


# --------------------------------------------------------------- what is proven of spreads over nodes


_ROUNDS = 3  # nodes that one class needs are domains of others, which then need more nodes themselves


def proven_spreads(layout: Layout, placed: IntArray) -> dict[int, float]:
    """By tally: at most so many pods of all classes that are spread by it are on one new node, in any plan that places
    these pods. Tallies that bind no node, or that several classes are spread by, are left out.

    When the last of them came to the node, the node had at most `max_skew` more than the emptiest domain, and no domain
    has lost a pod since. So it is enough to know how much the emptiest domain can hold in the end, the level. Every
    room that is a domain must be filled up to it, as far as pods fit there, and so must every new node that is one; for
    all of that there are only the pods that are counted. New nodes are at least as many as any class needs by itself
    that can only go to domains, or as the rule asks for: with fewer, the level is 0."""
    spreads = dict[int, dict[int, SpreadView]]()
    for index in np.flatnonzero(placed).tolist():
        for view in layout.spreads[index]:
            if view.rule.tally in _spread_by(layout, index):
                spreads.setdefault(view.rule.tally, {})[index] = view
    for tally in {tally for daemons in layout.daemons for rules in daemons for tally in rules.adds}:
        spreads.pop(tally, None)  # what daemons hold on new nodes is not thought of
    return _Levels(layout, placed, spreads).bounds() if spreads else {}


class _Levels:
    """How far nodes can be filled with pods that are spread over them."""

    def __init__(self, layout: Layout, placed: IntArray, spreads: Mapping[int, Mapping[int, SpreadView]]) -> None:
        self._layout, self._spreads = layout, spreads
        rooms, classes = len(layout.room_left), np.flatnonzero(placed).tolist()
        self._most = np.zeros(len(placed), dtype=np.int64)  # on one new node
        self.beyond = np.zeros(len(placed), dtype=np.int64)  # pods for which rooms have no place
        self._pods = dict.fromkeys(spreads, 0)  # by tally, of those that are placed
        self._held = {tally: np.zeros(rooms, dtype=np.int64) for tally in spreads}
        self._filled = {tally: np.zeros(rooms, dtype=np.int64) for tally in spreads}  # as far as they can be
        for index in classes:
            most = how_often(layout, index, layout.offer, layout.fits[index]).max(initial=0)
            in_rooms = np.minimum(how_often(layout, index, layout.room_left, layout.room_fits[index]), placed[index])
            self._most[index] = min(int(most), int(placed[index]))
            self.beyond[index] = max(0, int(placed[index] - in_rooms.sum()))
            for tally in spreads.keys() & set(layout.rules[index].adds):
                self._pods[tally] += int(placed[index])
                self._filled[tally] += in_rooms
        for room, contents in enumerate(layout.contents):
            for tally, count in ((tally, count) for rules, count in contents for tally in rules.adds):
                if tally in spreads:
                    self._held[tally][room] += count
                    self._filled[tally][room] += count
        self._apart = dict[int, list[int]]()  # by tally: classes of which a node takes one pod
        for index in classes:
            for limit in layout.rules[index].anti:
                if limit.tally in layout.rules[index].adds and _is_on_node(layout, limit.tally):
                    self._apart.setdefault(limit.tally, []).append(index)
        nodes = [layout.problem.rooms[number].node for number in layout.room_index.tolist()]
        names = Counter(node.labels.get(HOSTNAME) for node in nodes)
        single = [HOSTNAME in node.labels and names[node.labels.get(HOSTNAME)] == 1 for node in nodes]
        self._is_domain = np.array(single, dtype=np.bool_)
        self._are_readable = not any(node.malformed for node in nodes)

    def bounds(self) -> dict[int, float]:
        """By tally, what `proven_spreads` says of it."""
        found = dict[int, int]()
        for _ in range(_ROUNDS):
            known, found, new_nodes = found, {}, dict[bytes, int]()
            for tally, views in self._spreads.items():
                for view in {(id(view.choices), view.rule): view for view in views.values()}.values():
                    domains = view.choices.tobytes()
                    if domains not in new_nodes:
                        new_nodes[domains] = self.new_nodes(view.choices, known)
                    most = view.rule.max_skew + self._level(view, new_nodes[domains])
                    found[tally] = max(found.get(tally, 0), most)
            if found == known:
                break
        # what many classes share makes the program over rows larger and its bound no better
        single = {tally: next(iter(views)) for tally, views in self._spreads.items() if len(views) == 1}
        return {tally: float(found[tally]) for tally, index in single.items() if found[tally] < self._most[index]}

    def new_nodes(self, domains: BoolArray, known: Mapping[int, int]) -> int:
        """At least so many new nodes are of these choices, since pods that can go to no others need them."""
        pods = np.where(self._layout.fits[:, ~domains].any(axis=1), 0, self.beyond)
        by_themselves = int((-(-pods // np.maximum(self._most, 1))).max(initial=1))
        together = [(members, 1) for members in self._apart.values()]
        together += [(list(self._spreads[tally]), most) for tally, most in known.items()]
        return max([1, by_themselves, *(-(-int(pods[members].sum()) // most) for members, most in together)])

    def _level(self, view: SpreadView, new_nodes: int) -> int:
        """The most that the emptiest domain can hold in the end."""
        tally, rooms = view.rule.tally, view.rooms & self._is_domain
        is_sure = self._are_readable and not view.rule.honours_taints
        new_nodes = max(new_nodes, view.rule.min_domains - (int(view.rooms.sum()) if is_sure else len(view.rooms)))
        held, pods = self._held[tally][rooms], self._pods[tally]
        lowest, highest = 0, min(pods // new_nodes, int(self._filled[tally][rooms].min(initial=pods)))
        while lowest < highest:
            level = (lowest + highest + 1) // 2
            is_reached = int(np.maximum(level - held, 0).sum()) + level * new_nodes <= pods
            lowest, highest = (level, highest) if is_reached else (lowest, level - 1)
        return lowest


def how_often(layout: Layout, index: int, offer: IntArray, fits: BoolArray) -> IntArray:
    """How many pods of the class each of these places has room for; limits of attached volumes are not looked at."""
    counted = np.array([name not in layout.drivers for name in layout.resources])
    asked = np.flatnonzero(counted & (layout.need[index] > 0))
    space = (np.maximum(offer[:, asked], 0) // layout.need[index, asked]).min(axis=1)
    return np.where(fits, space, 0)


# ---------------------------------------------------------------------------- nodes with an even share


_RATIO = 1.15  # from one number of nodes that is tried to the next
_KINDS = 3  # of nodes that are thought of alone
_NEAR_BEST = 0.005  # of the estimate
_NEAR = 1.03  # times the lowest estimate: so near to it, they say little
_FEW_NODES = 12  # of more, fractions say enough
_SUNK = 0.9  # of the cheapest such node: so much is paid anyway, whatever it holds


@dataclass(frozen=True, slots=True)
class EvenNodes:
    """So many new nodes that each begin with the same share of pods that are spread over nodes; what remains of them
    may go there as beside an empty node, since no node is emptier.
    """

    nodes: int
    share: Mapping[int, int]  # by class: so many pods on every node
    domains: BoolArray  # K: choices of such nodes
    usable: BoolArray  # K: those that hold the share
    rest: Layout  # what remains to be placed, in what the share leaves of the choices
    estimate: float  # what the nodes will cost, about


def even_nodes(layout: Layout, below: float) -> list[EvenNodes]:
    """Numbers of nodes that may well cost less than that: the cheapest first; of those that are about as cheap, the
    smallest.
    """
    views = _spread_evenly(layout)
    if not views:
        return []
    domains, most = next(iter(views.values())).choices, max(int(layout.count[index]) for index in views)
    levels = _Levels(layout, layout.count, {})
    least = levels.new_nodes(domains, {})
    asked = max(view.rule.min_domains for view in views.values())
    steps = range(1 + int(np.log(max(1.0, most / least)) / np.log(_RATIO)))
    numbers = {*(math.ceil(least * _RATIO**power) for power in steps), most, asked, *_of_one_kind(layout, domains)}
    tried = (_begun(layout, levels.beyond, views, number) for number in sorted(numbers) if least <= number <= most)
    found = [even for even in tried if even is not None and even.estimate < below]
    near = _NEAR * min((even.estimate for even in found), default=0.0)
    return sorted(found, key=lambda even: (max(even.estimate, near), even.nodes))


def _of_one_kind(layout: Layout, domains: BoolArray) -> list[int]:
    """How many nodes of one choice hold all pods, if pods could be cut; for the choices where that is cheapest."""
    needed = layout.count @ layout.need
    asked, choices = np.flatnonzero(needed), np.flatnonzero(domains & layout.fits.any(axis=0))
    nodes = np.ceil((needed[asked] / np.maximum(layout.offer[np.ix_(choices, asked)], 1)).max(axis=1, initial=1.0))
    return [int(nodes[one]) for one in np.argsort(nodes * layout.price[choices], kind="stable")[:_KINDS]]


def _spread_evenly(layout: Layout) -> dict[int, SpreadView]:
    """Classes under no rule between pods but their own spread over nodes; those that have the most common domains."""
    alike, counted = dict[bytes, dict[int, SpreadView]](), Counter[int]()
    for rules in (*layout.rules, *(one for daemons in layout.daemons for one in daemons)):
        counted.update(rules.adds)
    for index, rules in enumerate(layout.rules):
        spreads = layout.spreads[index]
        is_alone = len(spreads) == 1 and rules.adds == (spreads[0].rule.tally,) and counted[rules.adds[0]] == 1
        on_nodes = is_alone and layout.tally_key[rules.adds[0]] < 0
        if on_nodes and spreads[0].rule.counts_itself and not (rules.anti or rules.affinity):
            alike.setdefault(spreads[0].choices.tobytes(), {})[index] = spreads[0]
    return max(alike.values(), key=lambda views: sum(int(layout.count[index]) for index in views), default={})


def _begun(layout: Layout, beyond: IntArray, views: Mapping[int, SpreadView], nodes: int) -> EvenNodes | None:
    """So many nodes with an even share, if there are machines that hold it; `beyond` (C) are pods that rooms do not
    take.
    """
    share = dict[int, int]()
    for index, view in views.items():
        if nodes >= view.rule.min_domains - int(view.rooms.sum()):
            held = [_held(layout, room, view.rule.tally) for room in np.flatnonzero(view.rooms).tolist()]
            share[index] = min([int(layout.count[index]) // nodes, *held])
        if beyond[index] > nodes * (share.get(index, 0) + view.rule.max_skew):
            return None
    share = {index: count for index, count in share.items() if count}
    if not share:
        return None
    domains, classes, pods = next(iter(views.values())).choices, list(share), np.array(list(share.values()))
    offer = layout.offer - np.where(domains[:, None], pods @ layout.need[classes], 0)
    usable = domains & layout.fits[classes].all(axis=0) & (offer >= 0).all(axis=1)
    inside = np.where(layout.fits[:, ~domains].any(axis=1), 0, beyond)
    estimate = _estimate(layout, inside, usable, nodes) if usable.any() else None
    if estimate is None:
        return None
    count, sunk = layout.count.copy(), _SUNK * float(layout.price[usable].min())
    count[classes] -= pods * nodes
    rest = replace(
        layout,
        count=count,
        offer=np.maximum(offer, 0),
        fits=layout.fits & (usable | ~domains),
        price=np.where(usable, layout.price - sunk, layout.price),
        limit_use=np.vstack([layout.limit_use, domains.astype(np.float64)]),
        limit_bound=np.append(layout.limit_bound, float(nodes)),
        limit_name=(*layout.limit_name, "nodes"),
    )
    return EvenNodes(nodes, share, domains, usable, rest, estimate)


def _held(layout: Layout, room: int, tally: int) -> int:
    return sum(count for rules, count in layout.contents[room] if tally in rules.adds)


def _estimate(layout: Layout, pods: IntArray, usable: BoolArray, nodes: int) -> float | None:
    """What so many usable nodes cost that have enough for all these pods; None if there are none."""
    needed = pods @ layout.need
    cheapest = {layout.offer[choice].tobytes(): choice for choice in np.flatnonzero(usable)[::-1]}  # by price
    choices, asked = list(cheapest.values()), np.flatnonzero(needed)
    table = np.vstack([layout.offer[np.ix_(choices, asked)].T / needed[asked, None], np.ones(len(choices))])
    program = LinearProgram(
        cost=layout.price[choices],
        upper=np.full(len(choices), float(nodes)),
        row_lower=np.append(np.ones(len(asked)), nodes),
        row_upper=np.append(np.full(len(asked), INFINITE), nodes),
        coefficients=coefficients_of(table),
        is_integer=nodes <= _FEW_NODES,
    )
    found = solve_linear(program, mip_rel_gap=_NEAR_BEST, mip_max_nodes=100)
    return found.objective if found.is_feasible else None
