"""Patches as the API server applies them, and server-side apply with owners of fields."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.kube.api.errors import Conflict, Invalid
from growth.kube.api.resources import NODES
from growth.kube.api.transport import Request
from growth.sim.apiserver.objects import node
from growth.sim.apiserver.patches import json_patch, merge_patch, strategic_merge_patch
from growth.sim.apiserver.refusal import Refusal
from tests.sim.embedded import Bench, on_api_server

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


def test_a_json_patch_can_guard_a_list_of_taints() -> None:
    async def test(bench: Bench) -> None:
        await bench.client.create(NODES, node("n", taints=[{"key": "a", "effect": "NoSchedule"}]))
        taints = (await bench.read(NODES, "n"))["spec"]["taints"]
        guarded = [
            {"op": "test", "path": "/spec/taints", "value": taints},
            {"op": "replace", "path": "/spec/taints", "value": taints[:1]},
        ]
        await bench.client.json_patch(NODES, "n", guarded)
        with pytest.raises(Invalid):
            await bench.client.json_patch(NODES, "n", guarded)
        assert (await bench.read(NODES, "n"))["spec"]["taints"] == taints[:1]

    on_api_server(test)


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


# ------------------------------------------------------------------------------------------------------ server-side
# apply


def applied(manager: str, intent: dict[str, Any], force: bool = False) -> Request:
    path = f"/api/v1/nodes/n?fieldManager={manager}&force={str(force).lower()}"
    return Request(
        "PATCH",
        path,
        {"content-type": "application/apply-patch+yaml"},
        msgspec.json.encode({"apiVersion": "v1", "kind": "Node", **intent}),
    )


def test_apply_creates_and_what_is_left_out_later_goes_away() -> None:
    async def test(bench: Bench) -> None:
        first = await bench.api.send(applied("one", {"metadata": {"labels": {"a": "1", "b": "1"}}}))
        assert first.status == 201
        await bench.api.send(applied("one", {"metadata": {"labels": {"a": "2"}}}))
        assert (await bench.read(NODES, "n"))["metadata"]["labels"] == {"a": "2"}

    on_api_server(test)


def test_apply_leaves_fields_of_others_alone_and_conflicts_unless_forced() -> None:
    async def test(bench: Bench) -> None:
        await bench.api.send(applied("one", {"metadata": {"labels": {"a": "1"}}}))
        await bench.api.send(applied("two", {"metadata": {"labels": {"b": "1"}}}))
        refused = await bench.api.send(applied("two", {"metadata": {"labels": {"a": "2", "b": "1"}}}))
        assert refused.status == 409
        forced = await bench.api.send(applied("two", {"metadata": {"labels": {"a": "2", "b": "1"}}}, force=True))
        assert forced.status == 200
        await bench.api.send(applied("one", {"metadata": {}}))
        assert (await bench.read(NODES, "n"))["metadata"]["labels"] == {"a": "2", "b": "1"}

    on_api_server(test)


def test_apply_merges_conditions_by_type() -> None:
    async def test(bench: Bench) -> None:
        await bench.client.create(NODES, node("n"))
        intent = {"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Odd", "status": "True"}]}}
        await bench.client.apply(NODES, {"apiVersion": "v1", "kind": "Node", **intent}, "status")
        types = [one["type"] for one in (await bench.read(NODES, "n"))["status"]["conditions"]]
        assert types == ["Ready", "Odd"]
        await bench.client.apply(
            NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {}}, "status"
        )
        assert [one["type"] for one in (await bench.read(NODES, "n"))["status"]["conditions"]] == ["Ready"]

    on_api_server(test)


def test_apply_with_an_old_version_is_a_conflict() -> None:
    async def test(bench: Bench) -> None:
        created = msgspec.json.decode(await bench.client.create(NODES, node("n")))
        await bench.client.merge_patch(NODES, "n", {"metadata": {"labels": {"a": "b"}}})
        metadata = {"name": "n", "resourceVersion": created["metadata"]["resourceVersion"], "labels": {"a": "c"}}
        with pytest.raises(Conflict):
            await bench.client.apply(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})

    on_api_server(test)
