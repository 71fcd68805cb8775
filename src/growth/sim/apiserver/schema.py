"""Does an object of ours keep the OpenAPI schema of its CRD? Asked by admission; the schemas come from the generated
CRDs.

Types, required fields, bounds, patterns, enumerations and defaults are checked; unknown fields are pruned, as a real
API server does. CEL rules are not evaluated here: the real control plane's tests see to those."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from growth.model.instant import InstantError, parse_instant
from growth.sim.apiserver.kinds import Json, Kind

Cause = tuple[str, str]
Schema = Mapping[str, Any]

_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


_SIZES: Final[dict[type, str]] = {str: "Length", list: "Items", dict: "Properties"}  # of minLength, maxItems …


class Schemas:
    """The schema of each custom kind, by kind name; a kind without one takes anything."""

    def __init__(self, by_kind: Mapping[str, Schema]) -> None:
        self._by_kind = by_kind

    @classmethod
    def from_crds(cls, definitions: list[Json]) -> Schemas:
        """From CustomResourceDefinitions, their stored version."""
        found: dict[str, Schema] = {}
        for definition in definitions:
            for version in definition["spec"]["versions"]:
                if version.get("storage"):
                    found[definition["spec"]["names"]["kind"]] = version["schema"]["openAPIV3Schema"]
        return cls(found)

    def complete(self, kind: Kind, item: Json) -> None:
        """Prune what the schema does not know and fill in its defaults, in place."""
        schema = self._by_kind.get(kind.name)
        for name in [name for name in item if name not in ("apiVersion", "kind", "metadata")] if schema else ():
            known = (schema or {}).get("properties", {}).get(name)
            if known is None:
                del item[name]
            else:
                _complete(known, item[name])

    def causes(self, kind: Kind, item: Json) -> Iterator[Cause]:
        schema = self._by_kind.get(kind.name)
        if schema is None:
            return
        for name in schema.get("required", ()):
            if name not in item:
                yield name, "Required value"
        for name, known in schema.get("properties", {}).items():
            if name not in ("apiVersion", "kind", "metadata") and item.get(name) is not None:
                yield from _causes(known, item[name], name)


def _complete(schema: Schema, value: Any) -> None:
    if isinstance(value, list):
        for part in value:
            _complete(schema.get("items", {}), part)
    elif isinstance(value, dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        _complete_object(schema.get("properties", {}), schema.get("additionalProperties"), value)


def _complete_object(known: Schema, more: Any, value: Json) -> None:
    for name in [name for name in value if value[name] is None or (name not in known and not more)]:
        del value[name]  # null means absent
    for name, part in known.items():
        if name not in value and "default" in part:
            value[name] = copy.deepcopy(part["default"])
    for name, part in value.items():
        _complete(known.get(name, more if isinstance(more, dict) else {}), part)


def _causes(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    wanted = schema.get("type")
    if wanted and not _TYPES[wanted](value) and not schema.get("x-kubernetes-int-or-string"):
        yield path, f'Invalid value: "{type(value).__name__}": {path} in body must be of type {wanted}'
        return
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(f'"{choice}"' for choice in schema["enum"])
        yield path, f'Unsupported value: "{value}": supported values: {supported}'
    yield from _bound_causes(schema, value, path)
    if isinstance(value, dict):
        yield from _object_causes(schema, value, path)
    if isinstance(value, list):
        for place, part in enumerate(value):
            yield from _causes(schema.get("items", {}), part, f"{path}[{place}]")


def _object_causes(schema: Schema, value: Json, path: str) -> Iterator[Cause]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}", "Required value"
    known, more = schema.get("properties", {}), schema.get("additionalProperties")
    for name, part in value.items():
        inner = known.get(name, more if isinstance(more, dict) else {})
        yield from _causes(inner, part, f"{path}.{name}")


def _bound_causes(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    size = len(value) if isinstance(value, str | list | dict) else value
    kind = _SIZES.get(type(value), "imum")
    low, high = schema.get(f"min{kind}"), schema.get(f"max{kind}")
    if low is not None and size < low:
        yield path, f"Invalid value: {path} in body should be at least {low}"
    if high is not None and size > high:
        yield path, f"Too long: may not be more than {high}"
    if isinstance(value, str):
        yield from _text_causes(schema, value, path)


def _text_causes(schema: Schema, value: str, path: str) -> Iterator[Cause]:
    pattern = schema.get("pattern")
    if pattern and not re.search(re.sub(r"\$\Z", r"\\Z", pattern), value):  # to the API server `$` is the very end
        yield path, f"Invalid value: \"{value[:80]}\": {path} in body should match '{pattern}'"
    if schema.get("format") == "date-time":
        try:
            parse_instant(value)
        except InstantError as error:
            yield path, f"Invalid value: {error}"
