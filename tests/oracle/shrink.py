"""The smallest part of a case on which growth and the scheduler still differ: what people want to see of a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from tests.oracle.draws import Json


def shrink(case: Json, still_differs: Callable[[Json], bool], patience: int = 2_000) -> Json:
    """Take away part after part while the difference stays."""
    smallest, tries = case, 0
    found = True
    while found and tries < patience:
        found = False
        for smaller in _smaller(smallest):
            tries += 1
            if tries >= patience:
                break
            if still_differs(smaller):
                smallest, found = smaller, True
                break
    return smallest


def _smaller(case: Json) -> Iterator[Json]:
    for path in _paths(case, ()):
        if path != ("pod",):
            copy = deepcopy(case)
            container = copy
            for key in path[:-1]:
                container = container[key]
            del container[path[-1]]
            yield copy


def _paths(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    for key in keys:
        yield (*path, key)
    for key in keys:
        yield from _paths(value[key], (*path, key))
