"""How many more volumes may be attached to each room? Asked when a problem is laid out, and only if a demand attaches
any.

Each attached volume of a pod counts, also where two pods of a node would share it: never too little. New nodes have no
known limit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from growth.model.pod import PodShape
from growth.solver.arrays import MANY, IntArray
from growth.solver.purchase.problem import PlacementProblem, Room
from growth.solver.rules import Neighbours
from growth.solver.rules.claims import NO_VOLUMES, VolumeNeeds, volume_needs


class Attaching:
    """Attachments by driver."""

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
