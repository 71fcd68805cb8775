"""Warm pools in the embedded cluster: growth itself, unchanged, scales Deployments through their scale subresource, in
virtual time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import pytest

from growth.controllers.act.pods import is_taken, query_of
from growth.controllers.growth import Installation
from growth.model.action import ScaleWarmPool, Seen, Sparing
from growth.model.poolautoscaler import PodExpression, PodSelector
from growth.model.settings import Settings, WarmPoolSettings
from growth.model.warmpool import DEPLOYMENT, STATEFUL_SET, WarmPoolKind
from growth.sim.apiserver import objects
from growth.sim.apiserver.kinds import POD
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess

Json = dict[str, Any]
Result = TypeVar("Result")
CLAIMED = {"matchLabels": {"claimed": "yes"}}


def autoscaler(name: str, target: str, kind: str = "Deployment", api_version: str = "apps/v1", **spec: Any) -> Json:
    reference = {"apiVersion": api_version, "kind": kind, "name": target}
    metadata = {"name": name, "namespace": "default"}
    whole = {"scaleTargetRef": reference, "maxReplicas": 40, **spec}
    return {"apiVersion": "growth.dev/v1alpha1", "kind": "PoolAutoscaler", "metadata": metadata, "spec": whole}


class Pool:
    """A cluster with growth in it and a Deployment `web`."""

    def __init__(self, settings: WarmPoolSettings | None = None) -> None:
        self.cluster = Cluster("warm")
        self.installation = Installation(settings=Settings(warm_pools=settings or WarmPoolSettings()))
        self.lives = 1
        self.process = GrowthProcess(self.cluster, self.installation).start()

    def restart(self) -> None:
        self.process.kill()
        self.lives += 1
        self.process = GrowthProcess(self.cluster, self.installation, self.lives).start()

    async def passes(self, seconds: float) -> None:
        await self.cluster.runtime.sleep(seconds)

    def replicas(self, kind: str = "Deployment") -> int:
        count: int = self.cluster.objects(kind)[0]["spec"]["replicas"]
        return count

    def status(self, name: str = "scaler") -> Json:
        found = next(each for each in self.cluster.objects("PoolAutoscaler") if each["metadata"]["name"] == name)
        status: Json = found["status"]
        return status

    def claim(self, count: int) -> None:
        """Mark that many running pods as in use, and no others."""
        running = [pod for pod in self.cluster.objects("Pod") if pod["status"]["phase"] == "Running"]
        for place, pod in enumerate(running):
            wanted = {"claimed": "yes"} if place < count else {}
            self.cluster.verbs.modify(POD, pod["metadata"]["name"], "default", partial(_label, wanted), "user")

    def events(self) -> list[str]:
        return [
            event["reason"] for event in self.cluster.objects("Event") if event["regarding"]["kind"] == "PoolAutoscaler"
        ]


def _label(wanted: Json, pod: Json) -> None:
    labels = {key: value for key, value in pod["metadata"]["labels"].items() if key != "claimed"}
    pod["metadata"]["labels"] = labels | wanted


def played(story: Callable[[Pool], Awaitable[Result]], settings: WarmPoolSettings | None = None) -> Result:
    async def play() -> Result:
        pool = Pool(settings)
        pool.cluster.create(objects.node_pool("default", "CX33"))
        result = await story(pool)
        assert pool.process.failures == []
        return result

    return run_virtual(play())


def test_a_deployment_follows_what_is_claimed_and_comes_back_after_its_windows() -> None:
    async def story(pool: Pool) -> tuple[list[int], Json, list[str]]:
        policy = {"targetAvailable": 4, "tolerance": 1, "inUse": CLAIMED}
        pool.cluster.create(objects.deployment("web", 1), autoscaler("scaler", "web", capacityPolicy=policy))
        await pool.passes(240)
        sizes = [pool.replicas()]
        pool.claim(4)
        await pool.passes(240)
        sizes.append(pool.replicas())
        status = pool.status()
        pool.claim(0)
        await pool.passes(200)
        sizes.append(pool.replicas())
        await pool.passes(300)
        sizes.append(pool.replicas())
        return sizes, status, pool.events()

    sizes, status, events = played(story)
    assert sizes == [4, 8, 8, 4]
    assert (status["currentReplicas"], status["desiredReplicas"], status["activePolicy"]) == (8, 8, "capacity")
    assert status["currentCapacity"] == {"available": 4, "used": 4, "starting": 0}
    assert [reason for reason in events if reason.startswith("Scaled")] == ["ScaledUp", "ScaledUp", "ScaledDown"]


def test_bounds_are_enforced_within_seconds_and_a_second_autoscaler_is_told() -> None:
    async def story(pool: Pool) -> tuple[list[int], Json]:
        pool.cluster.create(objects.stateful_set("db", 1, cpu="100m"))
        pool.cluster.create(autoscaler("scaler", "db", "StatefulSet", minReplicas=3, maxReplicas=5))
        await pool.passes(3)
        sizes = [pool.replicas("StatefulSet")]
        pool.cluster.create(autoscaler("second", "db", "StatefulSet", minReplicas=20))
        pool.cluster.scale("StatefulSet", "db", 9)
        await pool.passes(10)  # two writes are ten seconds apart
        sizes.append(pool.replicas("StatefulSet"))
        pool.cluster.delete("PoolAutoscaler", "scaler", "default")
        await pool.passes(20)
        sizes.append(pool.replicas("StatefulSet"))
        return sizes, pool.status("second")

    sizes, second = played(story)
    assert sizes == [3, 5, 20]
    assert second["conditions"][0]["status"] == "True"


def test_a_firing_that_growth_slept_through_is_applied_when_it_is_back() -> None:
    async def story(pool: Pool) -> tuple[int, int, Json]:
        now = pool.cluster.runtime.now()
        minute = int(now // 60 + 3) % 60
        hour = int((now + 180) // 3600) % 24
        policies = [{"name": "soon", "schedule": f"{minute} {hour} * * *", "targetReplicas": 7, "timeZone": "UTC"}]
        pool.cluster.create(
            objects.deployment("web", 2, cpu="100m"), autoscaler("scaler", "web", cronPolicies=policies)
        )
        await pool.passes(30)
        pool.process.kill()
        await pool.passes(600)
        before = pool.replicas()
        pool.restart()
        await pool.passes(30)
        return before, pool.replicas(), pool.status()

    before, after, status = played(story)
    assert (before, after, status["activePolicy"]) == (2, 7, "cron/soon")
    assert status["appliedCronPolicies"][0]["lastScheduleTime"]


def test_without_autoscalers_only_they_themselves_are_watched_and_a_missing_kind_stops_nothing() -> None:
    async def story(pool: Pool) -> tuple[int, int, list[str], Json]:
        await pool.passes(60)
        before = len(pool.process.growth.observer.warm_pools.views())  # type: ignore[union-attr]
        pool.cluster.create(
            autoscaler("scaler", "desk", "Desk", "example.com/v1"),
            objects.deployment("web", 1),
        )
        pool.cluster.create(autoscaler("other", "web", minReplicas=2))
        await pool.passes(60)
        return before, pool.replicas(), pool.events(), pool.status()

    desks = WarmPoolKind("example.com", "v1", "desks", "Desk")
    before, replicas, events, status = played(story, WarmPoolSettings(kinds=(desks,)))
    assert (before, replicas) == (0, 2)
    assert events.count("FailedGetScale") == 1
    assert "desks.example.com are not served by this cluster" in status["lastDecision"]


def test_a_kind_of_the_users_own_and_one_known_only_by_its_scale() -> None:
    own = WarmPoolKind("", "v1", "replicationcontrollers", "ReplicationController", "Leave", "status.readyReplicas")

    async def story(pool: Pool) -> int:
        template = objects.deployment("web", 1)["spec"]["template"]
        spec = {"replicas": 1, "selector": {"app": "web"}, "template": template}
        controller = {
            "apiVersion": "v1",
            "kind": "ReplicationController",
            "metadata": {"name": "old", "namespace": "default"},
            "spec": spec,
        }
        pool.cluster.create(controller, autoscaler("scaler", "old", "ReplicationController", "v1", minReplicas=4))
        await pool.passes(60)
        return pool.replicas("ReplicationController")

    assert played(story, WarmPoolSettings(kinds=(own,))) == 4
    by_scale = WarmPoolKind("", "v1", "replicationcontrollers", "ReplicationController", reads_scale=True)
    assert played(story, WarmPoolSettings(kinds=(by_scale,))) == 4


def test_scaling_is_one_write_and_rest_is_none() -> None:
    async def story(pool: Pool) -> tuple[int, int, list[float | None]]:
        pool.cluster.create(objects.deployment("web", 1, cpu="100m"), autoscaler("scaler", "web", minReplicas=3))
        await pool.passes(1500)  # nodes are bought, records expire
        at_rest = pool.cluster.api.writes_asked
        await pool.passes(300)
        quiet = pool.cluster.api.writes_asked - at_rest
        return quiet, pool.replicas(), [_reconciliations(pool, action) for action in ("scale_up", "scale_down")]

    assert played(story) == (0, 3, [1.0, 0.0])


def _reconciliations(pool: Pool, action: str) -> float | None:
    registry = pool.process.growth.metrics.registry
    assert (
        registry.get_sample_value("growth_poolautoscaler_reconciliations_total", {"action": "none", "error": "none"})
        or 0
    ) > 100
    return registry.get_sample_value(
        "growth_poolautoscaler_reconciliation_duration_seconds_count", {"action": action, "error": "none"}
    )


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (PodSelector(), ""),
        (PodSelector({"b": "2", "a": "1"}), "a=1,b=2"),
        (PodSelector(match_expressions=(PodExpression("a", "In", ("1", "2")),)), "a in (1,2)"),
        (PodSelector({"b": "2"}, (PodExpression("a", "NotIn", ("1",)),)), "b=2,a notin (1)"),
        (PodSelector(match_expressions=(PodExpression("a", "Exists"), PodExpression("b", "DoesNotExist"))), "a,!b"),
    ],
)
def test_labels_of_pods_in_use_are_asked_for_as_the_api_server_reads_them(labels: PodSelector, text: str) -> None:
    assert query_of(labels) == text


OF_WEB = {"controller": True, "kind": "ReplicaSet", "uid": "old", "name": "web-11"}
IN_USE: Json = {
    "metadata": {"name": "p", "uid": "p", "labels": {"pod-template-hash": "22"}, "ownerReferences": [OF_WEB]}
}


def in_use(status: Json | None = None, owner: Json | None = None, **metadata: Any) -> Json:
    owners = [OF_WEB | (owner or {})]
    return {"metadata": {**IN_USE["metadata"], "ownerReferences": owners, **metadata}, "status": status or {}}


@pytest.mark.parametrize(
    ("pod", "kind", "expected"),
    [
        (in_use(), DEPLOYMENT, True),
        (in_use(uid="known"), DEPLOYMENT, False),
        (in_use(deletionTimestamp="2026-01-01T00:00:00Z"), DEPLOYMENT, False),
        (in_use({"phase": "Succeeded"}), DEPLOYMENT, False),
        (in_use(owner={"uid": "new", "name": "web-22"}), DEPLOYMENT, True),
        (in_use(owner={"uid": "new", "name": "web-api-22"}), DEPLOYMENT, False),
        (in_use(owner={"uid": "new", "name": "web-22"}), STATEFUL_SET, False),
        (in_use(owner={"uid": "new", "name": "web-"}, labels={}), DEPLOYMENT, False),
        (in_use(owner={"uid": "new", "name": "web-None"}, labels=None), DEPLOYMENT, False),
        (in_use(ownerReferences=None), DEPLOYMENT, False),
    ],
)
def test_a_pod_in_use_is_of_the_pool_by_its_owner_or_by_the_name_of_a_replica_set_made_since(
    pod: Json, kind: WarmPoolKind, expected: bool
) -> None:
    sparing = Sparing(PodSelector(), ("old",), ("known",))
    action = ScaleWarmPool(Seen("web", "uid", "1", "default"), kind, "scaler", 10, 2, sparing=sparing)
    assert is_taken(pod, action, sparing) == expected
