"""Which volumes are attached where, as the limits of CSI drivers count them? Asked by the rule on attach limits.

A volume that several pods of a node share is attached once, so this is a book of references, not a sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from growth.model.volumes import VolumeNode
from growth.solver.arrays import Amounts, Mask
from growth.solver.rules.claims import Attachment, VolumeNeeds
from growth.solver.rules.node_table import NodeTable
from growth.solver.rules.rule import all_false

NO_LIMIT: Final = 2**40
_NO_NODE: Final = VolumeNode("")


class AttachmentBook:
    """References of pods to volumes, by node; limits of drivers, by node."""

    def __init__(self, table: NodeTable, stated: Mapping[str, VolumeNode]) -> None:
        self._table = table
        self._stated = stated
        self._holders: dict[Attachment, dict[int, int]] = {}
        self._attached: dict[str, dict[int, int]] = {}
        self._uncountable: dict[int, int] = {}
        self._limits: dict[str, list[int]] = {}

    def add(self, index: int, needs: VolumeNeeds, amount: int) -> None:
        """So many more (or fewer) pods with these needs on a node."""
        if needs.is_uncountable:
            _count(self._uncountable, index, amount)
        for attachment in needs.attachments:
            held = self._holders.setdefault(attachment, {})
            before = held.get(index, 0)
            _count(held, index, amount)
            _count(self._attached.setdefault(attachment.driver, {}), index, (before + amount > 0) - (before > 0))

    def clear(self) -> None:
        """Nothing is attached any more; the limits stay."""
        self._holders.clear()
        self._attached.clear()
        self._uncountable.clear()

    def forget_node(self, index: int) -> None:
        """The last node is taken off the table."""
        for limits in self._limits.values():
            del limits[index:]

    def limit(self, driver: str, span: slice) -> Amounts:
        """The driver's limit on each node of the span."""
        limits = self._limits.setdefault(driver, [])
        limits.extend(self._limit_on(driver, node.name) for node in self._table.nodes[len(limits) :])
        return np.array(limits[span], np.int64)

    def _limit_on(self, driver: str, node: str) -> int:
        stated = [
            limit.count
            for limit in self._stated.get(node, _NO_NODE).limits
            if limit.driver == driver and limit.count is not None
        ]
        return stated[-1] if stated else NO_LIMIT

    def attached(self, driver: str, span: slice) -> Amounts:
        """How many volumes of the driver are attached on each node of the span."""
        return _spread_out(self._attached.get(driver, {}), span)

    def holds(self, attachment: Attachment, span: slice) -> Mask:
        """Is this very volume attached there already?"""
        return _spread_out(self._holders.get(attachment, {}), span) > 0

    def is_uncountable(self, span: slice) -> Mask:
        """A pod there has a claim that is not its own: where limits are stated, the scheduler gives up on the node."""
        if not self._uncountable:
            return all_false(span)
        limited = [
            any(limit.count is not None for limit in self._stated.get(node.name, _NO_NODE).limits)
            for node in self._table.nodes[span]
        ]
        return (_spread_out(self._uncountable, span) > 0) & np.array(limited, np.bool_)


def _count(counts: dict[int, int], index: int, amount: int) -> None:
    total = counts.get(index, 0) + amount
    if total:
        counts[index] = total
    else:
        counts.pop(index, None)


def _spread_out(counts: dict[int, int], span: slice) -> Amounts:
    out = np.zeros(span.stop - span.start, np.int64)
    if span.stop - span.start == 1:
        out[0] = counts.get(span.start, 0)
        return out
    for index, count in counts.items():
        if span.start <= index < span.stop:
            out[index - span.start] = count
    return out
