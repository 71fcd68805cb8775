"""How do the rules between pods bound what one node holds? The one place where the rules of classes become limits on
the tallies of a node; `bins` applies them to all nodes at once, `rows` turns them into numbers for `solver/patterns`.

| rule of a class | limit on a tally of its node |
| --- | --- |
| anti-affinity, host port, legacy disk | at most `limit` matching pods while a pod of the class is there |
| spread over nodes | at most `max_skew`, as beside an empty node: that holds whatever comes |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from growth.solver.arrays import BOUNDLESS
from growth.solver.purchase.layout import Layout
from growth.solver.purchase.pod_rules import ShapeRules


def concerns_no_pods(rules: ShapeRules) -> bool:
    """Does no rule between pods concern it?"""
    return not (rules.adds or rules.anti or rules.spreads or rules.affinity)


def looks_beyond_node(layout: Layout, index: int) -> bool:
    """Is the class under a rule whose domain is larger than a node, or counted by one?"""
    rules = layout.rules[index]
    asked = *(limit.tally for limit in rules.anti), *(view.rule.tally for view in layout.spreads[index])
    return any(layout.tally_key[tally] >= 0 for tally in (*rules.adds, *rules.affinity, *asked))


def node_limits(layout: Layout, index: int, with_spreads: bool = True) -> list[tuple[int, float]]:
    """What a class asks of the tallies of its node: (tally, at most so many)."""
    key, views = layout.tally_key, layout.spreads[index] if with_spreads else ()
    anti = [(limit.tally, float(limit.limit)) for limit in layout.rules[index].anti if key[limit.tally] < 0]
    return anti + [(view.rule.tally, float(view.rule.max_skew)) for view in views if key[view.rule.tally] < 0]


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

    __slots__ = ("_choice", "_layout", "counts", "limits")

    def __init__(self, layout: Layout, choice: int, contents: Mapping[int, int] | None = None) -> None:
        self._layout, self._choice = layout, choice
        self.counts: dict[int, int] = {}
        self.limits: dict[int, float] = {}
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
        self._count(self._layout.rules[index], count, node_limits(self._layout, index))

    def _count(self, rules: ShapeRules, count: int, limits: Sequence[tuple[int, float]]) -> None:
        for tally in rules.adds:
            self.counts[tally] = self.counts.get(tally, 0) + count
        for tally, limit in limits:
            self.limits[tally] = min(self.limits.get(tally, BOUNDLESS), limit)

    def with_contents(self, contents: Mapping[int, int], less: int | None = None) -> NodeTally:
        """The tallies of the same node with these contents, less one pod of a class."""
        kept = {index: count - (index == less) for index, count in contents.items()}
        return NodeTally(self._layout, self._choice, kept)
