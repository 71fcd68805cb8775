"""`growth explain poolautoscaler NAME` says what the controller says in its status: the same counts, number and
obstacles, for random autoscalers in an embedded cluster with growth running in it. `GROWTH_CASES=1000` looks at more.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

from growth.cli.explain.autoscaler import Looked, answer_in_cluster, look
from growth.kube.api.client import Client
from growth.model.settings import WarmPoolSettings
from growth.sim.apiserver import objects
from growth.sim.apiserver.kinds import CLAIMED, POD
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess

Json = dict[str, Any]
CASES = int(os.environ.get("GROWTH_CASES", "60"))
A_CLUSTER = 30  # autoscalers in one
MAKERS = {"Deployment": objects.deployment, "StatefulSet": objects.stateful_set, "ReplicaSet": objects.replica_set}
KINDS = (*MAKERS, *MAKERS, "SandboxSet", "CapacityBuffer", "nobody", "Secret")
VERSIONS = {
    "SandboxSet": "agents.kruise.io/v1alpha1",
    "CapacityBuffer": "autoscaling.x-k8s.io/v1beta1",
    "Secret": "v1",
}
IN_USE = {"matchExpressions": [{"key": CLAIMED, "operator": "Exists"}]}


def some_target(chance: Random, kind: str, name: str) -> list[Json]:
    cpu, replicas = "90" if chance.random() < 0.1 else "100m", chance.randint(0, 8)  # some never start
    if kind == "CapacityBuffer":
        return [objects.deployment(name, 1, "100m", "64Mi"), objects.capacity_buffer(name, name, replicas=replicas)]
    make = MAKERS.get(kind, objects.sandbox_set)
    return [] if kind in ("nobody", "Secret") else [make(name, replicas, cpu, "64Mi")]


def some_autoscaler(chance: Random, kind: str, name: str, target: str) -> Json:
    reference = {"apiVersion": VERSIONS.get(kind, "apps/v1"), "kind": kind, "name": target}
    reference["kind"] = "Deployment" if kind == "nobody" else kind
    spec: Json = {"scaleTargetRef": reference, "minReplicas": chance.randint(0, 3), "maxReplicas": chance.randint(4, 9)}
    form = chance.choice(["bounds", "cron", "capacity", "capacity", "capacity"])
    at_once = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    if form == "capacity":
        target_available = chance.choice([1, 3, 5, "30%", "60%"])
        spec["capacityPolicy"] = {
            "targetAvailable": target_available,
            "tolerance": chance.choice([0, "10%"]),
            **at_once,
        }
        spec["capacityPolicy"] |= {"inUse": IN_USE} if kind in MAKERS and chance.random() < 0.8 else {}
    if form == "cron":
        zone = {"timeZone": "Mars/Phobos"} if chance.random() < 0.2 else {}
        schedule = chance.choice(["* * * * *", "*/5 * * * *", "0 0 1 1 *", "0 0 31 2 *"])
        spec["cronPolicies"] = [{"name": "a", "schedule": schedule, "targetReplicas": chance.randint(0, 12), **zone}]
    spec |= {"suspend": True} if chance.random() < 0.1 else {}
    spec |= {"minReplicas": 10} if chance.random() < 0.05 else {}
    whole = {"apiVersion": "growth.dev/v1alpha1", "kind": "PoolAutoscaler"}
    return {**whole, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def claim_some(cluster: Cluster, chance: Random) -> None:
    for item in cluster.objects("Pod", "default"):
        if chance.random() < 0.3 and item["status"]["phase"] == "Running":
            name = item["metadata"]["name"]
            cluster.verbs.modify(POD, name, "default", lambda it: it["metadata"]["labels"].update({CLAIMED: "y"}), "u")


async def story(seed: int, count: int) -> list[tuple[Looked, Json, float]]:
    cluster, chance = Cluster(f"autoscalers {seed}"), Random(seed)
    cluster.create(objects.node_pool("default", "CX33", "CX32"))
    names = list[str]()
    for number in range(count):
        kind, target = chance.choice(KINDS), f"pool-{number}"
        cluster.create(*some_target(chance, kind, target))
        for name in (target, f"{target}-rival")[: 2 if chance.random() < 0.1 else 1]:
            cluster.create(some_autoscaler(chance, kind, name, target))
            names.append(name)
    process = GrowthProcess(cluster).start()
    await cluster.runtime.sleep(120)
    claim_some(cluster, chance)
    await cluster.runtime.sleep(1000)
    process.kill()
    client, settings = Client(cluster.api, cluster.runtime), WarmPoolSettings()
    looked = [await look(client, name, "default", settings, cluster.runtime.now()) for name in names]
    stored = {item["metadata"]["name"]: item.get("status") or {} for item in cluster.objects("PoolAutoscaler")}
    assert process.failures == []
    return [(each, stored[each.autoscaler.name], cluster.runtime.now()) for each in looked]


def test_in_a_cluster_explain_agrees_with_the_controller() -> None:
    compared = 0
    for seed, first in enumerate(range(0, CASES, A_CLUSTER)):
        for looked, status, now in run_virtual(story(seed, min(A_CLUSTER, CASES - first))):
            agrees(looked, status, now, f"seed {seed}, {looked.autoscaler.spec}")
            compared += 1
    assert compared >= CASES


def agrees(looked: Looked, status: Json, now: float, told: str) -> None:
    conditions = {each["type"]: each for each in status["conditions"]}
    active, able = conditions["ScalingActive"], conditions["AbleToScale"]
    answer = answer_in_cluster(looked, 0, WarmPoolSettings(), now)
    assert answer.problem == ("" if active["status"] == "True" else active["message"]), (told, answer.problem)
    if looked.problem:
        return
    counted = status.get("currentCapacity") or {}
    assert status.get("currentReplicas", 0) == answer.replicas, told
    assert [counted.get(name, 0) for name in ("available", "used", "starting")] == [
        answer.available,
        answer.used,
        answer.starting,
    ], told
    assert bool(looked.stuck) == (able["reason"] == "ReplicasNotStarting"), told
    if looked.autoscaler.spec.cron_policies:
        return  # what fires depends on the moment
    assert answer.desired_replicas == status.get("desiredReplicas", 0), (told, answer, status)
