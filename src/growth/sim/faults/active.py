"""Which faults are on right now, and whom do they hit? Asked by the cloud, the network and the machines at the moment
when something could go wrong.

A fault with a share hits by chance, from one seeded source; one with `offering` or `location` hits only those.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TypeVar

from growth.sim.faults.kinds import Fault

Kind = TypeVar("Kind", bound=Fault)


class ActiveFaults:
    """The faults of one world that are on."""

    def __init__(self, seed: str) -> None:
        self._on: list[Fault] = []
        self._aims: list[tuple[Fault, int]] = []  # a fault that is meant for one growth, and its number
        self._chance = random.Random(f"{seed}/faults")

    @property
    def is_any_on(self) -> bool:
        return bool(self._on)

    def turn_on(self, fault: Fault) -> None:
        self._on.append(fault)

    def aim(self, fault: Fault, replica: int) -> None:
        """Only this growth shall have the fault."""
        self._aims.append((fault, replica))

    def is_for(self, fault: Fault, replica: int) -> bool:
        """Has the growth of this number the fault? One that is aimed at nobody is for all."""
        return all(number == replica for each, number in self._aims if each is fault)

    def turn_off(self, fault: Fault) -> None:
        self._on = [each for each in self._on if each is not fault]
        self._aims = [(each, number) for each, number in self._aims if each is not fault]

    def of(self, kind: type[Kind]) -> Iterator[Kind]:
        return (each for each in self._on if isinstance(each, kind))

    def hit(self, kind: type[Kind], **about: str) -> Kind | None:
        """The first fault of this kind that hits something like this, if any does."""
        if not self._on:
            return None
        for fault in self.of(kind):
            is_meant = all(_matches(getattr(fault, name, "*"), value) for name, value in about.items())
            if is_meant and self.happens(fault):
                return fault
        return None

    def happens(self, fault: Fault) -> bool:
        share = getattr(fault, "share", None)
        return share is None or share >= 1.0 or self._chance.random() < share


def _matches(pattern: str, value: str) -> bool:
    """Without regard to case; an offering also by its server type alone: `CX33` is `sim-cx33`."""
    wanted, found = pattern.lower(), value.lower()
    return fnmatchcase(found, wanted) or fnmatchcase(found.partition("-")[2], wanted)
