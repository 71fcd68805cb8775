"""What does an object look like after a merge patch or a strategic merge patch? Asked by the server.

Both return a new value. The strategic form knows the lists of pods and nodes that merge by key; every other list is
replaced."""

from __future__ import annotations

import copy
from typing import Any, Final

MERGE_KEYS: Final[dict[tuple[str, ...], str]] = {  # lists of objects that merge, by the path's last names
    ("status", "conditions"): "type",
    ("status", "addresses"): "type",
    ("metadata", "ownerReferences"): "uid",
    ("spec", "containers"): "name",
    ("spec", "initContainers"): "name",
    ("spec", "volumes"): "name",
    ("status", "containerStatuses"): "name",
}
MERGE_SETS: Final = {("metadata", "finalizers")}  # lists of plain values that merge


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def strategic_merge_patch(target: Any, patch: Any, path: tuple[str, ...] = ()) -> Any:
    """As merge patch, but lists with a merge key merge element by element and `$patch: delete` removes one."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        here = (*path, name)
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, list):
            merged[name] = _merged_list(merged.get(name) or [], value, here)
        else:
            merged[name] = strategic_merge_patch(merged.get(name), value, here)
    for name, value in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            field = name.partition("/")[2]
            merged[field] = [kept for kept in merged.get(field) or [] if kept not in value]
    return merged


def _merged_list(old: list[Any], new: list[Any], path: tuple[str, ...]) -> list[Any]:
    if path[-2:] in MERGE_SETS:
        return [*old, *(value for value in new if value not in old)]
    key = MERGE_KEYS.get(path[-2:])
    if key is None or any(part.get("$patch") == "replace" for part in new if isinstance(part, dict)):
        return [copy.deepcopy(part) for part in new if not (isinstance(part, dict) and part.get("$patch") == "replace")]
    merged = {part[key]: part for part in old}
    for part in new:
        if part.get("$patch") == "delete":
            merged.pop(part[key], None)
        else:
            merged[part[key]] = strategic_merge_patch(merged.get(part[key], {}), part, path)
    return list(merged.values())
