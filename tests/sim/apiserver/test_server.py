"""Patches as the API server applies them."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from growth.sim.apiserver.server import merge_patch, strategic_merge_patch

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
