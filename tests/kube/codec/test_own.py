"""PoolAutoscalers and their targets are read as the API server writes them; what cannot be read says why."""

from __future__ import annotations

from typing import Any

import pytest

from growth.kube.cache.pods import PodCache, WarmPoolCache
from growth.kube.codec import Codec
from growth.kube.codec.own import read_scale
from growth.model.malformed import Malformed
from growth.model.poolautoscaler import CapacityPolicy, PodSelector, PoolAutoscaler, ScaleTarget, ScalingRules
from growth.model.warmpool import CAPACITY_BUFFER, DEPLOYMENT, REPLICA_SET, SANDBOX_SET, WarmPool, WarmPoolKind
from tests.kube import objects, samples
from tests.kube.objects import CREATED_AT, Json, raw

OWN = WarmPoolKind("example.com", "v1", "desks", "Desk", "Stay", "status.desks.free", "status.desks.there")


def target(kind: WarmPoolKind, name: str = "pool", version: int = 7, status: Json | None = None, **spec: Any) -> Json:
    metadata: Json = {"name": name, "namespace": "web", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": spec,
        "status": status or {},
    }


def read(kind: WarmPoolKind, item: Json) -> WarmPool | Malformed | None:
    cache = WarmPoolCache(kind)
    cache.learned(raw(item))
    return cache.get("web/pool") or cache.malformed.get("web/pool")


def test_an_autoscaler_is_read() -> None:
    noun = Codec().decode("PoolAutoscaler", raw(samples.pool_autoscaler())).noun
    assert isinstance(noun, PoolAutoscaler)
    assert (noun.key, noun.generation, noun.created_at, noun.status.current_capacity.available) == (
        "web/web",
        2,
        CREATED_AT,
        2,
    )
    assert noun.spec.scale_target_ref == ScaleTarget("Deployment", "web", "apps/v1")
    assert noun.spec.capacity_policy == CapacityPolicy("50%", 1, None, ScalingRules(60), PodSelector({"a": "b"}))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("maxReplicas", 0),
        ("minReplicas", -1),
        ("capacityPolicy", {"targetAvailable": -1}),
        ("capacityPolicy", {"targetAvailable": "101%"}),
        ("capacityPolicy", {"targetAvailable": 5, "tolerance": "0.01"}),
        ("capacityPolicy", {"targetAvailable": 5, "tolerance": 0.01}),
        ("capacityPolicy", {"targetAvailable": 5, "scaleUp": {"stabilizationWindowSeconds": 3601}}),
        ("cronPolicies", [{"name": "a", "schedule": "0 0 8 * * *", "targetReplicas": 1}]),
        ("cronPolicies", [{"name": "a", "schedule": "0 8 * * *", "targetReplicas": -1}]),
        ("cronPolicies", [{"name": "", "schedule": "0 8 * * *", "targetReplicas": 1}]),
        ("scaleTargetRef", {"kind": "Deployment"}),
    ],
)
def test_an_autoscaler_that_breaks_its_schema_is_malformed(path: str, value: Any) -> None:
    item = samples.pool_autoscaler()
    item["spec"][path] = value
    noun = Codec().decode("PoolAutoscaler", raw(item)).noun
    assert isinstance(noun, Malformed)
    assert path in noun.why or "PoolAutoscaler" in noun.why


def test_targets_of_known_kinds_are_read_by_their_counts() -> None:
    counts = {"replicas": 6, "readyReplicas": 5, "availableReplicas": 4}
    assert read(DEPLOYMENT, target(DEPLOYMENT, status=counts, replicas=8)) == WarmPool(
        "pool", "web", 8, 5, 6, "uid-pool", "", "7"
    )
    assert read(SANDBOX_SET, target(SANDBOX_SET, status=counts, replicas=8)) == WarmPool(
        "pool", "web", 8, 4, 6, "uid-pool", "", "7"
    )
    owned = target(REPLICA_SET, replicas=1)
    owned["metadata"]["ownerReferences"] = [
        {"kind": "Deployment", "name": "d", "uid": "uid-d", "apiVersion": "apps/v1", "controller": True}
    ]
    assert read(REPLICA_SET, owned) == WarmPool("pool", "web", 1, 0, 0, "uid-pool", "uid-d", "7")


def test_a_buffer_without_room_has_nothing_available() -> None:
    status = {
        "replicas": 3,
        "conditions": [{"type": "Provisioning", "status": "False", "reason": "RequiresNewCapacity"}],
    }
    without, with_room = (
        target(CAPACITY_BUFFER, status=status, replicas=3),
        target(CAPACITY_BUFFER, status={"replicas": 3}, replicas=3),
    )
    assert [getattr(read(CAPACITY_BUFFER, item), "available", None) for item in (without, with_room)] == [0, 3]


def test_a_kind_of_the_users_own_is_read_by_its_paths() -> None:
    item = target(OWN, status={"desks": {"free": 2, "there": 5}}, replicas=9)
    assert read(OWN, item) == WarmPool("pool", "web", 9, 2, 5, "uid-pool", "", "7")
    item["status"]["desks"]["free"] = "two"
    found = read(OWN, item)
    assert isinstance(found, Malformed)
    assert found.why == "status.desks.free is no count"


def test_what_we_scaled_is_known_before_the_watch_brings_it() -> None:
    cache = WarmPoolCache(DEPLOYMENT)
    cache.learned(raw(target(DEPLOYMENT, replicas=3)))
    before = cache.version
    cache.scaled("web/pool", "uid-other", 9)
    assert cache.version == before
    cache.scaled("web/pool", "uid-pool", 9)
    found = cache.get("web/pool")
    assert found is not None
    assert (found.replicas, cache.version > before) == (9, True)


def test_a_scale_is_read() -> None:
    scale = {
        "kind": "Scale",
        "metadata": {"name": "p", "namespace": "web", "uid": "u", "resourceVersion": "3"},
        "spec": {"replicas": 4},
        "status": {"replicas": 2},
    }
    assert read_scale(raw(scale)).pool == WarmPool("p", "web", 4, 2, 2, "u", "", "3")


def test_pods_are_found_by_their_owner_and_by_whether_they_are_ready() -> None:
    cache = PodCache(Codec())
    pod = objects.full_pod()
    pod["metadata"]["ownerReferences"] = [
        {"kind": "ReplicaSet", "name": "r", "uid": "uid-r", "apiVersion": "apps/v1", "controller": True}
    ]
    pod["spec"]["nodeName"] = "node-1"
    pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "observedGeneration": 1, "status": "True"}]}
    cache.learned(raw(pod))
    (found,) = cache.by_owner()["uid-r"]
    assert found.is_ready
    pod["status"]["conditions"][0]["status"] = "False"
    pod["metadata"]["resourceVersion"] = "900"
    cache.learned(raw(pod))
    assert [each.is_ready for each in cache.by_owner()["uid-r"]] == [False]
    cache.forgot(found.name, found.namespace)
    assert cache.by_owner() == {}
