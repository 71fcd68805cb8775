"""What may a scenario file say? Told to editors as a JSON schema, and to people as the reference; both made from the
classes that read the file.

Asked by `growth simulate --schema` and by what generates the documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from growth.model.api import portable
from growth.sim.faults.duration import PATTERN, Duration
from growth.sim.faults.kinds import AnyFault
from growth.sim.scenarios.file import Scenario

_ID = "https://growth.dev/schemas/scenario.json"


def scenario_schema() -> dict[str, Any]:
    """A JSON schema (2020-12) of scenario files."""
    (schema,), components = msgspec.json.schema_components(
        [Scenario], schema_hook=_schema_of, ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": _ID,
        **schema,
        "$defs": portable(components),
    }


def _schema_of(kind: type) -> dict[str, Any]:
    if kind is Duration:
        return {"anyOf": [{"type": "string", "pattern": PATTERN}, {"type": "number"}]}
    raise NotImplementedError(kind)


def fields_of(kind: Any) -> Iterator[tuple[str, str, str]]:
    """Name, default and sentence of each field, as the reference prints them."""
    described = scenario_schema()["$defs"][kind.__name__]["properties"]
    for each in msgspec.structs.fields(kind):
        yield each.encode_name, _default(each), described.get(each.encode_name, {}).get("description", "")


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return "" if value in (None, (), {}, "") else f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def fault_kinds() -> tuple[Any, ...]:
    return get_args(AnyFault)


def tag_of(fault: Any) -> str:
    return str(fault.__struct_config__.tag)


def sentence_of(kind: Any) -> str:
    return str(kind.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")
