"""An object that cannot be read is told so, and nothing else stops."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from growth.sim.apiserver import objects
from growth.sim.apiserver.server import kind_of
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess

Json = dict[str, Any]


def pool(name: str, **spec: Any) -> Json:
    return {"apiVersion": "growth.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def request(name: str, **spec: Any) -> Json:
    return {"apiVersion": "growth.dev/v1alpha1", "kind": "NodeRequest", "metadata": {"name": name}, "spec": spec}


def removal(name: str, **spec: Any) -> Json:
    return {"apiVersion": "growth.dev/v1alpha1", "kind": "NodeRemovalRequest", "metadata": {"name": name}, "spec": spec}


def with_labels(item: Json, **labels: str) -> Json:
    item["metadata"].setdefault("labels", {}).update(labels)
    return item


def smuggle(cluster: Cluster, item: Json) -> None:
    """Past the API server's own checks, as an older server or another schema would have let it in."""
    stored = copy.deepcopy(item)
    stored["metadata"] |= {"uid": "uid-broken", "creationTimestamp": "2026-01-01T00:00:00Z"}
    stored.setdefault("status", {})
    cluster.store.put(kind_of(stored), stored, "user")


BROKEN = {
    "pod: bad quantity": objects.pod("broken", cpu="one half"),
    "pod: unknown operator": objects.pod(
        "broken",
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]
                }
            }
        },
    ),
    "node: bad quantity": objects.node("broken", cpu="many"),
    "pool: no server types": pool("broken"),
    "pool: bad limit": pool("broken", serverTypes=[{"name": "CX33"}], limits={"cpu": "lots"}),
    "pool: min above max": pool("broken", serverTypes=[{"name": "CX33", "min": 3, "max": 1}]),
    "request: missing fields": request("broken"),
    "request: wrong types": request("broken", pool=["default"], targetOffering=7),
    "removal: missing fields": removal("broken"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_malformed_object_is_reported_on_itself_and_the_others_are_served(case: str) -> None:
    async def play() -> tuple[list[Json], list[Json], list[Any]]:
        cluster = Cluster(case)
        cluster.create(objects.node_pool("default", "CX33"))
        smuggle(cluster, BROKEN[case])
        growth = GrowthProcess(cluster).start()
        cluster.create(with_labels(objects.pod("good"), app="good"))
        await cluster.runtime.sleep(120)
        events = [event for event in cluster.objects("Event") if event["regarding"]["name"] == "broken"]
        return events, cluster.objects("Pod"), growth.failures

    events, pods, failures = run_virtual(play())
    phases = {pod["metadata"]["name"]: pod["status"].get("phase") for pod in pods}
    assert phases["good"] == "Running"
    assert any(event["type"] == "Warning" and "read" in event["note"] for event in events), events
    assert failures == []


def test_a_label_of_300_characters_does_no_harm() -> None:
    async def play() -> list[Json]:
        cluster = Cluster("long label")
        cluster.create(objects.node_pool("default", "CX33"))
        GrowthProcess(cluster).start()
        smuggle(cluster, with_labels(objects.pod("long"), app="x" * 300))
        cluster.create(objects.pod("good"))
        await cluster.runtime.sleep(120)
        return cluster.objects("Pod")

    assert {pod["metadata"]["name"] for pod in run_virtual(play()) if pod["status"].get("phase") == "Running"} >= {
        "good"
    }
