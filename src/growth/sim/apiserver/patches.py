"""What does an object look like after a patch? JSON patch, merge patch and strategic merge patch, as the API server
applies them.

Asked by the verbs. Functions return a new value; a patch that does not fit raises a Refusal. The strategic form knows
the lists of pods and nodes that merge by key; every other list is replaced."""

from __future__ import annotations

import copy
from typing import Any, Final

from growth.sim.apiserver.kinds import Json
from growth.sim.apiserver.refusal import Refusal, bad_request

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


# --------------------------------------------------------------------------------------------- JSON
# patch


def json_patch(target: Json, operations: list[Json]) -> Any:
    """RFC 6902; a failed test or a path that leads nowhere refuses the whole patch."""
    document: Any = copy.deepcopy(target)
    for operation in operations:
        try:
            document = _perform(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise _unprocessable(
                f"{operation.get('op')} operation does not apply: doc is missing path: {operation.get('path')}: {error}"
            ) from None
    return document


def _perform(document: Any, operation: Json) -> Any:
    name, path = operation["op"], _pointer(operation["path"])
    if name == "test":
        _check(document, path, operation)
    elif name == "remove":
        document = _removed(document, path)
    elif name == "add":
        document = _added(document, path, copy.deepcopy(operation.get("value")))
    elif name == "replace":
        _at(document, path)
        document = (
            _added(_removed(document, path), path, copy.deepcopy(operation.get("value")))
            if path
            else copy.deepcopy(operation.get("value"))
        )
    elif name in ("move", "copy"):
        source = _pointer(operation["from"])
        value = copy.deepcopy(_at(document, source))
        document = _added(_removed(document, source) if name == "move" else document, path, value)
    else:
        raise bad_request(f"unexpected kind of operation: {name}")
    return document


def _check(document: Any, path: list[str], operation: Json) -> None:
    try:
        value = _at(document, path)
    except KeyError:
        value = None
    if value != operation.get("value"):
        raise _unprocessable(f"testing value {operation['path']} failed")


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise ValueError(f"{text!r} is not a JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _at(document: Any, path: list[str]) -> Any:
    for part in path:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def _removed(document: Any, path: list[str]) -> Any:
    parent = _at(document, path[:-1])
    if isinstance(parent, list):
        parent.pop(int(path[-1]))
    else:
        del parent[path[-1]]
    return document


def _added(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _at(document, path[:-1])
    if isinstance(parent, list):
        place = len(parent) if path[-1] == "-" else int(path[-1])
        if place > len(parent):
            raise IndexError(f"index {place} is out of bounds")
        parent.insert(place, value)
    else:
        parent[path[-1]] = value
    return document


def _unprocessable(message: str) -> Refusal:
    return Refusal(422, "Invalid", f"the server rejected our request due to an error in our request: {message}")


# ---------------------------------------------------------------------------------- strategic merge
# patch


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
