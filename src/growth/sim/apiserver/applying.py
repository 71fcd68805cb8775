"""What does an object look like after a server-side apply, and who owns which field? Asked by the verbs.

Ownership is kept beside the objects, by UID: for each manager the set of fields it applied last. A field that a manager
applied before and leaves out now goes away, unless another one owns it too. A field that another manager owns with
another value is a conflict, unless forced. Only appliers own fields here; plain updates take no ownership away."""

from __future__ import annotations

import copy
from typing import Any, Final

from growth.sim.apiserver.kinds import Json, Kind
from growth.sim.apiserver.patches import MERGE_KEYS, MERGE_SETS
from growth.sim.apiserver.refusal import Refusal

Path = tuple[str, ...]
Fields = dict[Path, Any]

_IDENTITY: Final = {
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "uid"),
    ("metadata", "resourceVersion"),
}


class FieldOwners:
    """Who applied what, for every object."""

    def __init__(self) -> None:
        self._owned: dict[str, dict[str, Fields]] = {}  # by UID, then by manager

    def forget(self, uid: str) -> None:
        self._owned.pop(uid, None)

    def applied(self, kind: Kind, live: Json, intent: Json, manager: str, force: bool) -> Json:
        """The live object with the intent laid over it; ownership is not yet changed."""
        wanted = _fields(intent)
        owners = self._owned.get(live["metadata"].get("uid", ""), {})
        others = {name: fields for name, fields in owners.items() if name != manager}
        if not force:
            _refuse_conflicts(kind, live, wanted, others)
        result: Any = copy.deepcopy(live)
        for path in owners.get(manager, {}):
            if path not in wanted and not any(path in fields for fields in others.values()):
                _remove(result, path)
        for path, value in wanted.items():
            _set(result, path, copy.deepcopy(value))
        return dict(result)

    def take(self, uid: str, intent: Json, manager: str) -> None:
        """The apply was written: the manager owns these fields, others lose those it forced."""
        owners = self._owned.setdefault(uid, {})
        wanted = _fields(intent)
        for fields in owners.values():
            for path in [path for path in fields if path in wanted and fields[path] != wanted[path]]:
                del fields[path]
        owners[manager] = wanted


def _refuse_conflicts(kind: Kind, live: Json, wanted: Fields, others: dict[str, Fields]) -> None:
    for name, fields in others.items():
        taken = [path for path, value in wanted.items() if path in fields and fields[path] != value]
        if taken:
            shown = ", ".join("." + ".".join(path) for path in taken)
            causes = [
                {"reason": "FieldManagerConflict", "message": f'conflict with "{name}"', "field": "." + ".".join(path)}
                for path in taken
            ]
            details = {
                "name": live["metadata"]["name"],
                "group": kind.resource.group,
                "kind": kind.resource.plural,
                "causes": causes,
            }
            raise Refusal(
                409, "Conflict", f'Apply failed with {len(taken)} conflict: conflict with "{name}": {shown}', details
            )


def _fields(intent: Json) -> Fields:
    found: Fields = {}
    _collect(intent, (), found)
    return {path: value for path, value in found.items() if path not in _IDENTITY}


def _collect(value: Any, path: Path, found: Fields) -> None:
    if isinstance(value, dict) and (value or not path):
        for name, part in value.items():
            _collect(part, (*path, name), found)
    elif isinstance(value, list) and path[-2:] in MERGE_KEYS:
        key = MERGE_KEYS[path[-2:]]
        for part in value:
            _collect(part, (*path, f"[{key}={part[key]}]"), found)
    elif isinstance(value, list) and path[-2:] in MERGE_SETS:
        for part in value:
            found[(*path, f"[={part}]")] = part
    else:
        found[path] = value


def _set(target: Any, path: Path, value: Any) -> None:
    for place, name in enumerate(path[:-1]):
        target = _step(target, name, is_list=path[place + 1].startswith("["))
    last = path[-1]
    if last.startswith("[="):
        if value not in target:
            target.append(value)
    elif value != {} or not isinstance(target.get(last), dict):  # an empty map asks for nothing in it
        target[last] = value


def _step(target: Any, name: str, is_list: bool) -> Any:
    if name.startswith("["):
        key, _, wanted = name[1:-1].partition("=")
        for part in target:
            if str(part.get(key)) == wanted:
                return part
        target.append({key: wanted})
        return target[-1]
    if target.get(name) is None:
        target[name] = [] if is_list else {}
    return target[name]


def _remove(target: Any, path: Path) -> None:
    """Take the field out. A list element goes when nothing but its key is left; until then the key stays, to find it
    by.
    """
    parent, last = _find(target, path[:-1]), path[-1]
    if isinstance(parent, list):
        parent[:] = [value for value in parent if f"[={value}]" != last]
    elif isinstance(parent, dict):
        element = path[-2] if len(path) > 1 else ""
        key = element[1:].partition("=")[0] if element.startswith("[") else ""
        if last != key:
            parent.pop(last, None)
        if key and list(parent) == [key]:
            around = _find(target, path[:-2])
            around[:] = [part for part in around if part is not parent]


def _find(target: Any, path: Path) -> Any:
    for name in path:
        if name.startswith("[") and isinstance(target, list):
            key, _, wanted = name[1:-1].partition("=")
            target = next((part for part in target if str(part.get(key)) == wanted), None)
        else:
            target = target.get(name) if isinstance(target, dict) else None
    return target
