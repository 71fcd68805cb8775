"""Does an exchange keep to Hetzner's own description of its API? Asked of every request growth sends and every answer
the fake gives.

The description is not ours to keep: `GROWTH_BENCH_DATA` names the folder where it lies. Checked are path and method,
declared query parameters and their values, bodies without unknown fields, and answers with everything that is required.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from growth.sim.cloud.hetzner.api import FakeAnswer, FakeRequest

Json = dict[str, Any]


def description_path() -> Path | None:
    path = Path(os.environ.get("GROWTH_BENCH_DATA", "")) / "hcloud-openapi.json"
    return path if path.is_file() else None


class Description:
    """The API as it describes itself."""

    def __init__(self, path: Path) -> None:
        self._document: Json = json.loads(path.read_text(encoding="utf-8"))
        self._validators: dict[str, Draft202012Validator] = {}

    def violations(self, request: FakeRequest, answer: FakeAnswer) -> list[str]:
        what = f"{request.method} {request.path}"
        operation = self._operation(request)
        if operation is None:
            return [f"{what}: no such operation"]
        found = [
            *self._of_query(request, operation),
            *self._of_body(request, operation),
            *self._of_answer(answer, operation),
        ]
        return [f"{what}: {each}" for each in found]

    def _operation(self, request: FakeRequest) -> Json | None:
        parts = request.path.strip("/").split("/")
        template = "/" + "/".join("{id}" if part.isdecimal() else part for part in parts)
        operation: Json | None = self._document["paths"].get(template, {}).get(request.method.lower())
        return operation

    def _of_query(self, request: FakeRequest, operation: Json) -> list[str]:
        declared = {each["name"]: each["schema"] for each in operation.get("parameters", ()) if each["in"] == "query"}
        found = [f"unknown parameter {name}" for name in request.query if name not in declared]
        for name, values in request.query.items():
            schema = declared.get(name, {})
            value: Any = (
                [_typed(each, schema["items"]) for each in values]
                if schema.get("type") == "array"
                else _typed(values[0], schema)
            )
            found += [
                f"parameter {name}: {error.message}"
                for error in Draft202012Validator(_plain(schema)).iter_errors(value)
            ]
        return found

    def _of_body(self, request: FakeRequest, operation: Json) -> list[str]:
        if "requestBody" not in operation:
            return ["a body where none belongs"] if request.body else []
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = json.loads(request.body)
        known = self._resolved(schema)["properties"]
        return [*(f"unknown field {name}" for name in body if name not in known), *self._errors(schema, body)]

    def _of_answer(self, answer: FakeAnswer, operation: Json) -> list[str]:
        responses = operation["responses"]
        described = responses.get(str(answer.status)) or responses.get(f"{answer.status // 100}xx")
        if described is None:
            return [f"status {answer.status} is not described"]
        return [
            f"answer {answer.status}: {error}"
            for error in self._errors(described["content"]["application/json"]["schema"], answer.body)
        ]

    def _errors(self, schema: Json, value: Any) -> list[str]:
        key = json.dumps(schema, sort_keys=True)
        if key not in self._validators:
            components = {
                "schemas": {name: _plain(each) for name, each in self._document["components"]["schemas"].items()}
            }
            self._validators[key] = Draft202012Validator({**_plain(schema), "components": components})
        return [
            f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"
            for error in self._validators[key].iter_errors(value)
        ]

    def _resolved(self, schema: Json) -> Json:
        name = schema.get("$ref", "").rpartition("/")[2]
        resolved: Json = self._document["components"]["schemas"][name] if name else schema
        return resolved


def _plain(schema: Any) -> Any:
    """OpenAPI 3.0's `nullable` in the words of JSON schema."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        key: _plain(value)
        for key, value in schema.items()
        if key not in ("nullable", "example", "description", "discriminator")
    }
    return {"anyOf": [plain, {"type": "null"}]} if schema.get("nullable") is True else plain


def _typed(text: str, schema: Json) -> Any:
    if schema.get("type") == "integer":
        return int(text)
    return text == "true" if schema.get("type") == "boolean" else text


@cache
def described() -> Description | None:
    """None: the description is not at hand."""
    path = description_path()
    return None if path is None else Description(path)
