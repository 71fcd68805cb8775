"""`growth explain buffer` says what the controller does: the same size, reasons and words, for hundreds of random
buffers in an embedded cluster with growth running in it, both from a file and by one look at the cluster.
`GROWTH_CASES=2000` and `GROWTH_ROWS=20000` look at more.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from growth.cli import main
from growth.cli.explain.buffer import answer_in_cluster
from growth.controllers.observe.observer import look_once
from growth.kube.api.client import Client
from growth.model.action import WriteBufferStatus
from growth.model.node import POOL_LABEL
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers import status as buffer_status
from growth.providers.simulated import SimulatedProvider
from growth.sim.apiserver import objects
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess

Json = dict[str, Any]
CASES = int(os.environ.get("GROWTH_CASES", "150"))
ROWS = int(os.environ.get("GROWTH_ROWS", "300"))
A_CLUSTER = 50  # buffers in one
KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Job", "PodTemplate", "missing")
LOOKED_AT = ("CapacityBuffer", *KINDS[:-1], "ResourceQuota", "LimitRange", "PriorityClass", "RuntimeClass")
GROUPS = {"Job": "batch", "ReplicationController": ""}
POOLS = ("wide", "tight", "closed", "nowhere")
VERSIONS = {"Job": "batch/v1", "ReplicationController": "v1"}


def some_amounts(chance: Random) -> Json:
    cpu, memory = (
        chance.choice(["100m", "0.5", "1", "1.5", "2500m", "0"]),
        chance.choice(["64Mi", "1Gi", "1e9", "500M"]),
    )
    return {"cpu": cpu, "memory": memory} if chance.random() < 0.8 else chance.choice([{}, {"cpu": cpu}])


def some_container(chance: Random, name: str) -> Json:
    sections: Json = {"requests": some_amounts(chance)}
    sections |= {"limits": some_amounts(chance)} if chance.random() < 0.2 else {}
    return {"name": name, "image": "i", "resources": sections}


def some_template(chance: Random) -> Json:
    spec: Json = {"containers": [some_container(chance, f"c{number}") for number in range(chance.randint(1, 2))]}
    if chance.random() < 0.3:
        sidecar = {"restartPolicy": "Always"} if chance.random() < 0.5 else {}
        spec["initContainers"] = [{**some_container(chance, "first"), **sidecar}]
    spec |= {"priorityClassName": chance.choice(["known", "unknown"])} if chance.random() < 0.1 else {}
    spec |= {"runtimeClassName": chance.choice(["known", "unknown"])} if chance.random() < 0.1 else {}
    spec |= {"activeDeadlineSeconds": 60} if chance.random() < 0.1 else {}
    spec |= {"nodeSelector": {POOL_LABEL: chance.choice(POOLS)}} if chance.random() < 0.6 else {}
    return {"metadata": {"labels": {"app": "a"}}, "spec": spec}


def some_workload(chance: Random, kind: str, name: str, namespace: str) -> Json:
    metadata, template = {"name": name, "namespace": namespace}, some_template(chance)
    if kind == "PodTemplate":
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "template": template}
    size = {} if chance.random() < 0.1 else {"replicas": chance.randint(0, 40)}
    selector: Json = {"matchLabels": {"app": "a"}}
    if kind == "Job":
        size, template["spec"]["restartPolicy"] = {"parallelism": chance.randint(0, 20), "completions": 20}, "Never"
    spec = {**size, "template": template, **({} if kind == "Job" else {"selector": selector})}
    if kind == "ReplicationController":
        spec["selector"] = {"app": "a"}
    return {"apiVersion": VERSIONS.get(kind, "apps/v1"), "kind": kind, "metadata": metadata, "spec": spec}


def some_buffer(chance: Random, kind: str, name: str, namespace: str) -> Json:
    spec: Json = {"replicas": chance.randint(0, 30)} if chance.random() < 0.6 else {}
    spec |= {"percentage": chance.randint(0, 250)} if chance.random() < 0.5 else {}
    if chance.random() < 0.4:
        limits = {"cpu": chance.choice(["1", "7500m", "20", 4]), "memory": "10Gi", "pods": 3, "example.com/gpu": "2"}
        spec["limits"] = dict(chance.sample(sorted(limits.items(), key=str), chance.randint(1, 2)))
    reference: Json = {"scalableRef": {"apiGroup": GROUPS.get(kind, "apps"), "kind": kind, "name": name}}
    if kind == "PodTemplate":
        reference = {"podTemplateRef": {"name": name}}
    if kind == "missing":
        nobody = {"apiGroup": "apps", "kind": "Deployment", "name": "nobody"}
        reference = chance.choice([{"scalableRef": nobody}, {"podTemplateRef": {"name": "nobody"}}])
    if "podTemplateRef" in reference and not spec.keys() & {"replicas", "limits"}:
        spec["replicas"] = 2  # else it is refused
    if chance.random() < 0.05:
        spec["provisioningStrategy"] = "buffer.example.com/other"
    metadata = {"name": name, "namespace": namespace}
    version = chance.choice(["v1alpha1", "v1beta1"])
    whole = {"apiVersion": f"autoscaling.x-k8s.io/{version}", "kind": "CapacityBuffer", "metadata": metadata}
    return {**whole, "spec": {**reference, **spec}}


def some_quota(chance: Random, namespace: str) -> Json:
    hard = chance.choice([{"pods": "5"}, {"requests.cpu": "6", "pods": "20"}, {"limits.memory": "4Gi"}])
    made = objects.resource_quota("team", namespace, **hard)
    made["spec"] |= {"scopes": [chance.choice(["NotTerminating", "BestEffort"])]} if chance.random() < 0.2 else {}
    return made


def fill(cluster: Cluster, chance: Random, count: int) -> None:
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "known"},
        "value": 7,
    }
    overhead = {"podFixed": {"cpu": "250m", "memory": "120Mi"}}
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "known"}, "handler": "h"}
    cluster.create(priority, {**runtime, "overhead": overhead})
    cluster.create(objects.node_pool("wide", "CX33", "CX32", limits={"nodes": 4}))
    cluster.create(objects.node_pool("tight", "CX32", limits={"cpu": "6"}), objects.node_pool("closed", "NOSUCH"))
    for number in range(count):
        namespace, kind = f"team-{number // 3}", chance.choice(KINDS)
        if number % 3 == 0:
            cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            cluster.create(*([some_quota(chance, namespace)] if chance.random() < 0.4 else ()))
            limits = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "200m"}, "max": {"cpu": "2"}}]}
            named = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "all", "namespace": namespace}}
            cluster.create(*([{**named, "spec": limits}] if chance.random() < 0.2 else ()))
        cluster.create(*([some_workload(chance, kind, f"b{number}", namespace)] if kind != "missing" else ()))
        cluster.create(some_buffer(chance, kind, f"b{number}", namespace))


async def looked_at(cluster: Cluster) -> Snapshot:
    provider = SimulatedProvider(cluster.cloud, cluster.runtime)
    return await look_once(Client(cluster.api, cluster.runtime), provider, "growth", Settings())


def told_of(snapshot: Snapshot) -> dict[str, Json]:
    """What is said of every buffer by one look at the cluster."""
    keys = snapshot.buffers.buffers
    return {key: msgspec.to_builtins(answer_in_cluster(key, snapshot, Settings())) for key in keys}


def told_by_growth(seed: int, count: int) -> tuple[dict[str, Json], Json, dict[str, Json]]:
    """The buffers as they are before growth looks at them, with all they refer to; their statuses after; and what one
    look at the cluster says then.
    """

    async def run() -> tuple[dict[str, Json], Json, dict[str, Json]]:
        cluster = Cluster(f"sizes {seed}")
        fill(cluster, Random(seed), count)
        kinds = [(kind, item) for kind in LOOKED_AT for item in cluster.objects(kind)]
        before = {"kind": "List", "items": [{**item, "kind": kind} for kind, item in kinds]}
        process = GrowthProcess(cluster).start()
        await cluster.runtime.sleep(90)  # until machines have come and all statuses are written
        process.kill()
        looked = told_of(await looked_at(cluster))
        buffers = cluster.objects("CapacityBuffer")
        after = {
            f"{one['metadata']['namespace']}/{one['metadata']['name']}": one.get("status") or {} for one in buffers
        }
        assert process.failures == []
        return after, before, looked

    return run_virtual(run())


def test_explain_agrees_with_the_controller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ready = 0
    for seed, first in enumerate(range(0, CASES, A_CLUSTER)):
        statuses, before, looked = told_by_growth(seed, min(A_CLUSTER, CASES - first))
        file = tmp_path / "all.json"
        file.write_text(json.dumps(before))
        capsys.readouterr()
        main(["explain", "buffer", "-f", str(file), "--output", "json"])
        answers = {answer["buffer"]: answer for answer in json.loads(capsys.readouterr().out)}
        assert answers.keys() == statuses.keys() == looked.keys()
        for key, status in statuses.items():
            agrees(answers[key], status, f"seed {seed}, {key}")
            agrees_in_cluster(looked[key], status, f"seed {seed}, {key}")
            ready += bool(status) and status["replicas"] > 0
    assert ready > CASES / 4


def test_one_look_says_what_the_row_writes() -> None:
    """Without a growth that runs, so that very many can be compared."""
    compared = short = 0
    for seed, first in enumerate(range(0, ROWS, A_CLUSTER)):
        snapshot = run_virtual(without_growth(seed, min(A_CLUSTER, ROWS - first)))
        actions = buffer_status.plan(snapshot, buffer_status.Ledger(), Settings()).actions
        written = {f"{each.buffer.namespace}/{each.buffer.name}": msgspec.to_builtins(each.status) for each in actions
                   if isinstance(each, WriteBufferStatus)}  # fmt: skip
        for key, answer in told_of(snapshot).items():
            agrees_in_cluster(answer, written.get(key, {}), f"seed {seed}, {key}")
            compared, short = compared + 1, short + bool(answer["missing"])
    assert compared == ROWS
    assert short > ROWS / 10


async def without_growth(seed: int, count: int) -> Snapshot:
    cluster, chance = Cluster(f"rows {seed}"), Random(f"rows {seed}")
    fill(cluster, chance, count)
    for number in range(chance.randint(0, 6)):
        labels = chance.choice([{}, {POOL_LABEL: "wide"}, {POOL_LABEL: "tight"}])
        cluster.create(objects.node(f"n{number}", chance.choice(["2", "8", "32"]), "16Gi", labels=labels))
    return await looked_at(cluster)


def agrees(answer: Json, status: Json, told: str) -> None:
    if not status:
        assert "left alone" in answer["message"], told
        return
    conditions = {each["type"]: each for each in status["conditions"]}
    assert answer["size"] == status["replicas"], (told, answer, status)
    assert answer["reason"] == conditions["ReadyForProvisioning"]["reason"], told
    assert answer["message"] == conditions["ReadyForProvisioning"]["message"], told
    limited = conditions["LimitedByQuotas"]
    assert answer["quota"] == (limited["message"] if limited["status"] == "True" else ""), told
    if answer["calculation"] and not answer["quota"]:
        assert answer["calculation"][-1] == f"size = {answer['size']}", told


def agrees_in_cluster(answer: Json, status: Json, told: str) -> None:
    agrees(answer, status, told)
    said = {
        each["type"]: f"{each['status']}, {each['reason']}: {each['message']}" for each in status.get("conditions", ())
    }
    assert answer["conditions"] == said, told
    room = sum(answer["nodes"].values()) + sum(answer["onTheirWay"].values())
    assert room + answer["missing"] == status.get("replicas", 0), told
