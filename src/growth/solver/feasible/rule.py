"""The form of every rule: which nodes of a span pass, and why one of them does not.

A rule says what it means once, over a span of nodes; a single node is a span of one. So the quick answer for all nodes and the exact
reason for one come from the same code.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from growth.solver.feasible.nodes import Mask
from growth.solver.reasons import Reason, Rule


class NodeRule:
    """One of kube-scheduler's filters, put to one class of pods."""

    rule: ClassVar[Rule]
    looks_at_pods: ClassVar[bool] = False  # its answer changes with what is on the nodes

    def passes(self, span: slice) -> Mask:
        """For each node of the span: does this rule let the pod go there?"""
        raise NotImplementedError

    def explain(self, index: int, /) -> Reason:
        """Why the node does not pass; only asked for a node that does not."""
        raise NotImplementedError

    def why_not(self, index: int) -> Reason | None:
        return None if self.passes(slice(index, index + 1))[0] else self.explain(index)


def all_true(span: slice) -> Mask:
    return np.ones(span.stop - span.start, np.bool_)


def all_false(span: slice) -> Mask:
    return np.zeros(span.stop - span.start, np.bool_)
