"""Patches as the API server applies them, and server-side apply with owners of fields."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.sim.apiserver.patches import json_patch, merge_patch, strategic_merge_patch
from growth.sim.apiserver.refusal import Refusal

trees = st.recursive(
    st.integers() | st.text(max_size=3) | st.booleans(),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=3), parts, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), trees, max_size=4),
    st.dictionaries(st.text(min_size=1, max_size=3), trees, max_size=4),
)
def test_a_merge_patch_without_nulls_is_idempotent_and_leaves_its_target_alone(
    target: dict[str, Any], patch: dict[str, Any]
) -> None:
    before = msgspec.json.encode(target)
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once
    assert msgspec.json.encode(target) == before


@given(st.dictionaries(st.text(min_size=1, max_size=3), trees, max_size=4))
def test_merging_nulls_removes(target: dict[str, Any]) -> None:
    assert merge_patch(target, dict.fromkeys(target)) == {}


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/b", "value": 2}], {"a": [1, 2], "b": 2}),
        ([{"op": "add", "path": "/a/-", "value": 3}], {"a": [1, 2, 3]}),
        ([{"op": "add", "path": "/a/0", "value": 0}], {"a": [0, 1, 2]}),
        ([{"op": "replace", "path": "/a/1", "value": 9}], {"a": [1, 9]}),
        ([{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ([{"op": "test", "path": "/a/0", "value": 1}, {"op": "remove", "path": "/a"}], {}),
        ([{"op": "copy", "from": "/a/0", "path": "/b"}], {"a": [1, 2], "b": 1}),
        ([{"op": "move", "from": "/a", "path": "/x~1y"}], {"x/y": [1, 2]}),
    ],
)
def test_json_patch_operations(operations: list[dict[str, Any]], result: dict[str, Any]) -> None:
    assert json_patch({"a": [1, 2]}, operations) == result


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/missing"},
        {"op": "replace", "path": "/missing", "value": 1},
        {"op": "test", "path": "/a/0", "value": 7},
        {"op": "test", "path": "/missing", "value": 7},
        {"op": "add", "path": "/a/9", "value": 1},
        {"op": "add", "path": "nonsense", "value": 1},
        {"op": "dance", "path": "/a"},
    ],
)
def test_a_json_patch_that_does_not_fit_is_refused(operation: dict[str, Any]) -> None:
    with pytest.raises(Refusal):
        json_patch({"a": [1, 2]}, [operation])


def test_a_strategic_merge_patch_merges_conditions_by_type_and_replaces_taints() -> None:
    target = {
        "status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]},
        "spec": {"taints": [{"key": "x"}]},
    }
    patch = {
        "status": {"conditions": [{"type": "B", "status": "False"}, {"type": "A", "$patch": "delete"}]},
        "spec": {"taints": [{"key": "y"}]},
    }
    assert strategic_merge_patch(target, patch) == {
        "status": {"conditions": [{"type": "B", "status": "False"}]},
        "spec": {"taints": [{"key": "y"}]},
    }


def test_a_strategic_merge_patch_adds_to_and_takes_from_finalizers() -> None:
    target = {"metadata": {"finalizers": ["a", "b"]}}
    assert strategic_merge_patch(target, {"metadata": {"finalizers": ["c"]}}) == {
        "metadata": {"finalizers": ["a", "b", "c"]}
    }
    assert strategic_merge_patch(target, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}) == {
        "metadata": {"finalizers": ["b"]}
    }
