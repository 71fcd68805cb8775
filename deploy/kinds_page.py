"""The page docs/reference/kinds.md: every field of growth's kinds, read from the definitions that are installed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from growth.kube.crds import definitions

Json = dict[str, Any]

INTRODUCTION = """# Kinds

The objects that growth brings, field by field, as `growth crds` installs them. `[]` is an item of a list, `{}` a \
value under any name.
"""

CLOSING = """
This page is generated from the code: `python -m deploy.generate`.
"""

_BOUNDS = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("minLength", "{} characters or more"),
    ("maxLength", "{} characters or fewer"),
    ("minItems", "{} items or more"),
    ("maxItems", "{} items or fewer"),
)


def kinds_page() -> str:
    return INTRODUCTION + "".join(map(_kind, definitions())) + CLOSING


def _kind(definition: Json) -> str:
    spec = definition["spec"]
    names, version = spec["names"], spec["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    short = ", ".join(f"`{name}`" for name in names.get("shortNames", ()))
    scope = "in a namespace" if spec["scope"] == "Namespaced" else "of the whole cluster"
    told = f"`{spec['group']}/{version['name']}`, {scope}" + (f", short {short}" if short else "")
    parts = [f"\n## {names['kind']}\n\n{schema.get('description', '')}\n\n{told}.\n"]
    for part in ("spec", "status"):
        rows = list(_rows(schema["properties"].get(part, {}), part))
        if rows:
            parts.append("\n| field | type | means |\n| --- | --- | --- |\n" + "".join(rows))
    rules = [rule for each in ("spec", "status") for rule in _rules(schema["properties"].get(each, {}))]
    if rules:
        parts.append("\nRefused:\n\n" + "".join(f"- {rule}\n" for rule in dict.fromkeys(rules)))
    return "".join(parts)


def _rows(schema: Json, path: str) -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in sorted(schema.get("properties", {}).items()):
        at = f"{path}.{name}"
        yield f"| `{at}` | {_type(field)} | {_meaning(field, name in required)} |\n"
        yield from _rows(field, at)
        yield from _rows(field.get("items", {}), f"{at}[]")
        inner = field.get("additionalProperties")
        yield from _rows(inner, f"{at}{{}}") if isinstance(inner, dict) else ()


def _type(field: Json) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    inner = field.get("items") or field.get("additionalProperties")
    of = f" of {_type(inner)}" if isinstance(inner, dict) and inner.get("type") not in (None, "object") else ""
    return f"{field.get('type', 'any')}{of}"


def _meaning(field: Json, is_required: bool) -> str:
    bounds = [text.format(field[key]) for key, text in _BOUNDS if key in field]
    parts = [field.get("description", "").replace("|", "\\|").replace("\n", " ").strip()]
    parts += ["Required."] if is_required else []
    parts += [f"Default `{json.dumps(field['default'])}`."] if "default" in field else []
    parts += [f"{', '.join(bounds).capitalize()}."] if bounds else []
    return " ".join(part for part in parts if part)


def _rules(schema: Json) -> Iterator[str]:
    """What the API server says when it refuses an object."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield rule.get("message", rule["rule"])
    for field in [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]:
        if isinstance(field, dict):
            yield from _rules(field)
