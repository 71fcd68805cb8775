"""Small changes to a case: the neighbour of a case that fits is where rules go wrong. Some changes make objects
malformed on purpose.

Names of nodes, sizes of volumes and whom they are reserved for are left alone: two nodes of one name, two volumes of
one size or for one claim are decided by luck in Kubernetes. Amounts stay below 2^63, where the scheduler itself
overflows, and neither amounts, labels nor items become null, which no API server writes."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from tests.oracle.draws import Draws, Json

Site = tuple[Any, Any, tuple[str, ...]]  # the container, the key or position in it, and the path of keys that led there

ODD_TEXTS = (
    "",
    "0",
    "-5",
    "+5",
    "007",
    "1e3",
    "1.5Gi",
    "-1",
    "Exists",
    "DoesNotExist",
    "Gt",
    "In",
    "Equal",
    "NoSchedule",
    "NoExecute",
    "Honor",
    "Ignore",
    "ScheduleAnyway",
    "Always",
    "a/b/c",
    "/",
    "-bad",
    "x" * 64,
    "é",
    "n0",
    "default",
    "9223372036854775808",
)
ODD_VALUES: tuple[Any, ...] = (None, 0, -1, 7, 2**31, 0.5, True, "text", [], {}, ["text"], {"key": "value"})
KEPT = (
    "metadata",
    "metadata.name",
    "spec.capacity",
    "spec.capacity.storage",
    "spec.claimRef",
    "spec.claimRef.name",
    "spec.claimRef.namespace",
)
AMOUNTS = ("requests", "limits", "allocatable", "allocatedResources", "overhead", "capacity")
TEXTS = ("labels", "annotations", "nodeSelector", "matchLabels")


def mutated(draws: Draws, case: Json) -> Json:
    """A copy with one to three small changes."""
    changed = deepcopy(case)
    for _ in range(draws.one((1, 1, 2, 3))):
        sites = list(_sites(changed))
        _change(draws, draws.one(sites), sites)
    return changed


def _sites(case: Json) -> Iterator[Site]:
    for part, value in case.items():
        if part == "pod":  # a waiting pod has no status worth the name
            yield from (site for site in _inside(value, ()) if site[2][0] != "status")
        elif isinstance(value, list):
            for item in value:
                yield from _inside(item, ())


def _inside(value: Any, path: tuple[str, ...]) -> Iterator[Site]:
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    for key in keys:
        deeper = (*path, key) if isinstance(key, str) else path
        if ".".join(deeper) not in KEPT:
            yield value, key, deeper
        yield from _inside(value[key], deeper)


def _change(draws: Draws, site: Site, sites: list[Site]) -> None:
    container, key, path = site
    value = container[key]
    luck = draws.random.random()
    if luck < 0.05:
        may_be_null = isinstance(container, dict) and not any(part in AMOUNTS + TEXTS for part in path)
        container[key] = draws.one(ODD_VALUES if may_be_null else ODD_VALUES[1:])
    elif luck < 0.2:
        _remove(container, key)
    elif luck < 0.45:
        _take_from_elsewhere(draws, container, key, path, sites)
    else:
        container[key] = _nudged(draws, value, ODD_TEXTS[:-1] if any(part in AMOUNTS for part in path) else ODD_TEXTS)


def _remove(container: Any, key: Any) -> None:
    del container[key]


def _take_from_elsewhere(draws: Draws, container: Any, key: Any, path: tuple[str, ...], sites: list[Site]) -> None:
    """The value that the same field has in another object."""
    same = [other[name] for other, name, where in sites if where == path and type(other) is type(container)]
    container[key] = deepcopy(draws.one(same))


def _nudged(draws: Draws, value: Any, texts: tuple[str, ...]) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + draws.one((-1, 1))
    if isinstance(value, str):
        return draws.one(texts)
    if isinstance(value, list) and value:
        return draws.one((value[1:], value[:-1], [*value, deepcopy(value[0])], value[::-1], []))
    if isinstance(value, dict):
        return {}
    return value
