"""Texts are checked to their last character, by growth as by the API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from growth.controllers.configuration import Configuration
from growth.model.api import GroupText, KindName, LabelKey, LabelValue, Name, QuantityText, portable
from growth.model.nodepool import NodePoolSpec, NodePoolStatus
from growth.model.noderequest import NodeRemovalRequestSpec, NodeRequestSpec
from growth.model.poolautoscaler import PoolAutoscalerSpec, PoolAutoscalerStatus
from growth.providers.catalogue import Catalogue

READ = (
    Configuration,
    NodePoolSpec,
    NodePoolStatus,
    NodeRequestSpec,
    NodeRemovalRequestSpec,
    PoolAutoscalerSpec,
    PoolAutoscalerStatus,
    Catalogue,
)


def patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        schema = list(schema.values())
    if isinstance(schema, list | tuple):
        for part in schema:
            yield from patterns(part)


@pytest.mark.parametrize("kind", READ)
def test_no_pattern_lets_a_line_break_through_at_the_end(kind: type) -> None:
    found = list(patterns(msgspec.json.schema_components([kind])))
    assert all(each.endswith(r"\Z") for each in found), found


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Name, "web"),
        (LabelKey, "example.com/team"),
        (LabelValue, "web"),
        (LabelValue, ""),
        (QuantityText, "1.5Gi"),
        (KindName, "SandboxSet"),
        (GroupText, "apps"),
    ],
)
def test_a_text_is_taken_and_the_same_with_a_line_break_is_not(kind: Any, text: str) -> None:
    assert msgspec.convert(text, kind) == text
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(f"{text}\n", kind)


def test_a_label_key_of_a_pool_that_ends_in_a_line_break_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"serverTypes": [{"name": "CAX11"}], "labels": {"zz\n": "x"}}, NodePoolSpec)


def test_schemas_for_others_end_in_a_dollar() -> None:
    schema = {"anyOf": [{"pattern": r"^a\Z"}], "properties": {"pattern": {"type": "string", "pattern": r"^(b|c)\Z"}}}
    told = {"anyOf": [{"pattern": "^a$"}], "properties": {"pattern": {"type": "string", "pattern": "^(b|c)$"}}}
    assert portable(schema) == told
