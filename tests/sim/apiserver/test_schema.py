"""Objects of ours are refused by the schema of their CRD, pruned and completed, as on a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from growth.kube.api.errors import Invalid
from growth.kube.api.resources import NODE_POOLS, NODE_REQUESTS
from growth.sim.apiserver.objects import node_pool
from tests.sim.embedded import Bench, on_api_server


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"serverTypes": []}, "spec.serverTypes"),
        ({"serverTypes": [{"max": 3}]}, "serverTypes[0].name"),
        ({"serverTypes": [{"name": "CX33", "max": -1}]}, "serverTypes[0].max"),
        ({"serverTypes": [{"name": "CX33", "max": "many"}]}, "serverTypes[0].max"),
        ({"serverTypes": [{"name": "CX33"}], "architectures": ["sparc"]}, "architectures[0]"),
        ({"serverTypes": [{"name": "CX33"}], "labels": {"a": "x" * 300}}, "spec.labels.a"),
        ({"serverTypes": [{"name": "CX33"}], "limits": {"cpu": "lots"}}, "spec.limits.cpu"),
        ({"serverTypes": [{"name": "CX33"}], "taints": [{"key": "a", "effect": "Sometimes"}]}, "taints[0].effect"),
    ],
)
def test_a_bad_pool_is_refused_and_the_field_is_named(spec: dict[str, Any], field: str) -> None:
    async def test(bench: Bench) -> None:
        with pytest.raises(Invalid) as refused:
            await bench.client.create(NODE_POOLS, {**node_pool("default"), "spec": spec})
        assert any(field in cause.field for cause in refused.value.causes)
        assert refused.value.code == 422

    on_api_server(test)


def test_unknown_fields_are_pruned_and_defaults_filled_in() -> None:
    async def test(bench: Bench) -> None:
        await bench.client.create(NODE_POOLS, node_pool("default", {"name": "CX33", "nonsense": 1}, colour="red"))
        spec = (await bench.read(NODE_POOLS, "default"))["spec"]
        assert "colour" not in spec
        assert spec["serverTypes"] == [{"name": "CX33", "min": 0, "priority": 0}]

    on_api_server(test)


def test_a_status_is_validated_too() -> None:
    async def test(bench: Bench) -> None:
        request = {"apiVersion": "growth.dev/v1alpha1", "kind": "NodeRequest", "metadata": {"name": "default-pool-1"}}
        await bench.client.create(NODE_REQUESTS, {**request, "spec": {"pool": "default", "targetOffering": "sim-cx33"}})
        with pytest.raises(Invalid, match="phase"):
            await bench.client.merge_patch(
                NODE_REQUESTS, "default-pool-1", {"status": {"phase": "Dreaming"}}, subresource="status"
            )
        with pytest.raises(Invalid, match="instant"):
            await bench.client.merge_patch(
                NODE_REQUESTS, "default-pool-1", {"status": {"lastTransitionTime": "yesterday"}}, subresource="status"
            )

    on_api_server(test)
