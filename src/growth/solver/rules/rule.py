"""The form of every rule: which nodes of a span pass, and why one of them does not.

A rule says what it means over a span of nodes; a single node is a span of one. So the quick answer for all nodes and
the exact reason for one come from the same code. Where a search asks pod by pod, a rule also answers for one node from
plain numbers; tests hold the two forms together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from growth.solver.arrays import Amounts, Mask
from growth.solver.reasons import Reason, Rule
from growth.solver.rules.counters import DomainCounter


class NodeRule:
    """One of kube-scheduler's filters, put to one class of pods. A rule defines `passes`, or `narrow` where that saves
    a mask.
    """

    rule: ClassVar[Rule]
    looks_at_pods: ClassVar[bool] = False  # its answer changes with what is on the nodes

    def passes(self, span: slice) -> Mask:
        """For each node of the span: does this rule let the pod go there?"""
        mask = all_true(span)
        self.narrow(span, mask)
        return mask

    def narrow(self, span: slice, mask: Mask) -> None:
        """Strike out of the mask the nodes of the span that do not pass."""
        mask &= self.passes(span)

    def passes_on(self, index: int) -> bool:
        """The same for one node. Rules that are asked pod by pod answer it from plain numbers."""
        return bool(self.passes(slice(index, index + 1))[0])

    def looks(self, span: slice) -> Iterator[Amounts]:
        """What this rule sees of each node, as numbers: nodes with equal numbers are alike to it, now and after equal
        placements.

        Rules that look at nodes only are seen by their answer.
        """
        yield self.passes(span).astype(np.int64)

    def avoided(self) -> Iterator[DomainCounter]:
        """Counters of which a domain must show 0: a pod that counts in one of them closes its domain for the next of
        its kind.
        """
        return iter(())

    def alike(self, numbers: Amounts) -> Amounts:
        """Of nodes that do not pass: those with equal numbers are refused in the same words."""
        size = int(numbers.max(initial=-1)) + 1
        seen = np.array([look[numbers] for look in self.looks(slice(0, size))])
        kinds: Amounts = np.unique(seen, axis=1, return_inverse=True)[1].reshape(-1)
        return kinds

    def explain(self, index: int, /) -> Reason:
        """Why the node does not pass; only asked for a node that does not."""
        raise NotImplementedError

    def why_not(self, index: int) -> Reason | None:
        return None if self.passes_on(index) else self.explain(index)


def all_true(span: slice) -> Mask:
    return np.ones(span.stop - span.start, np.bool_)


def all_false(span: slice) -> Mask:
    return np.zeros(span.stop - span.start, np.bool_)
