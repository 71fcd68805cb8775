"""A cluster becomes a scenario that runs, and that says nothing it should not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from growth.kube.api.client import Client
from growth.model.node import OFFERING_LABEL
from growth.sim.apiserver.objects import (
    capacity_buffer,
    daemon_set,
    deployment,
    disruption_budget,
    job,
    node,
    node_pool,
    pod,
    pool_autoscaler,
    stateful_set,
)
from growth.sim.clock import SimRuntime, run_virtual
from growth.sim.cluster import Cluster
from growth.sim.scenarios.record import read_cluster, recorded_scenario
from growth.sim.scenarios.result import Result
from growth.sim.scenarios.sweep import Job, run_job

Json = dict[str, Any]
SECRETS = ("hunter2", "s3cr3t", "DATABASE_URL", "--password", "settings.ini", "kubectl.kubernetes.io/last-applied")
NAMES = ("acme", "checkout", "ledger", "corp.example", "gold", "worker-from-acme", "batch-of-acme")


def shop() -> Json:
    """A Deployment with much to hide, and rules that only match where labels do."""
    near = {"labelSelector": {"matchLabels": {"app": "acme-checkout"}}, "topologyKey": "kubernetes.io/hostname"}
    made = deployment(
        "acme-checkout",
        3,
        cpu="1",
        namespace="acme",
        nodeSelector={"corp.example/tier": "gold", "growth.dev/pool": "gold"},
        tolerations=[{"key": "corp.example/tier", "value": "gold", "effect": "NoSchedule"}],
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}},
        priorityClassName="acme-important",
        volumes=[{"name": "settings", "configMap": {"name": "settings.ini"}}],
    )
    made["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "hunter2"}
    made["spec"]["template"]["metadata"]["annotations"] = {"growth.dev/do-not-disrupt": "true", "token": "s3cr3t"}
    [container] = made["spec"]["template"]["spec"]["containers"]
    container |= {
        "image": "registry.acme/checkout:1",
        "command": ["run", "--password", "hunter2"],
        "env": [{"name": "DATABASE_URL", "value": "s3cr3t"}],
        "envFrom": [{"secretRef": {"name": "s3cr3t"}}],
    }
    return made


def objects() -> list[Json]:
    budget = disruption_budget("acme-checkout", "acme-checkout", "acme", maxUnavailable=1)
    tiered = node_pool(
        "gold",
        "CX33",
        labels={"corp.example/tier": "gold"},
        taints=[{"key": "corp.example/tier", "value": "gold", "effect": "NoSchedule"}],
        startupTaints=[{"key": "corp.example/agent", "effect": "NoSchedule"}],
        allowedNamespaces=["acme"],
    )
    foreign = node("worker-from-acme", cpu="2", labels={"corp.example/room": "ledger"})
    ours = node("bought", labels={OFFERING_LABEL: "sim-cx33", "growth.dev/pool": "gold"})
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 10}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "acme", "labels": {"team": "acme"}}},
        {**priority, "metadata": {"name": "acme-important"}},
        tiered,
        node_pool("default", "CX33"),
        foreign,
        ours,
        shop(),
        budget,
        stateful_set("ledger", 1, namespace="acme", cpu="100m"),
        daemon_set("acme-agent"),
        job("batch-of-acme", 1),
        pod("acme-alone", "1", nodeName="worker-from-acme"),
        pod("acme-elsewhere", "100m", nodeName="bought"),
        capacity_buffer("spare-ledger", "acme-cache", replicas=1),
        deployment("acme-cache", 1, cpu="200m"),
        pool_autoscaler(
            "cache-of-acme", "acme-cache", 1, 4, targetAvailable=2, inUse={"matchLabels": {"acme": "busy"}}
        ),
    ]


def record(*, anonymise: bool, namespaces: tuple[str, ...] = ()) -> str:
    async def run() -> str:
        cluster = Cluster("real")
        cluster.create(*objects())
        runtime = SimRuntime("reader")
        await runtime.sleep(30)
        found = await read_cluster(Client(cluster.api, runtime, may_write=lambda: False), namespaces)
        return recorded_scenario(found, anonymise=anonymise)

    return run_virtual(run())


def run_again(folder: Path, text: str) -> Result:
    path = folder / "recorded.yaml"
    path.write_text(text)
    return run_job(Job(str(path), {"duration": "20m"})).result


@pytest.mark.parametrize("anonymise", [False, True])
def test_a_recording_runs_and_has_nothing_secret(tmp_path: Path, anonymise: bool) -> None:
    text = record(anonymise=anonymise)
    assert not [word for word in SECRETS if word in text]
    result = run_again(tmp_path, text)
    assert result.pods.made == 3 + 1 + 1 + 1 + 2, "three workloads, a job, and two bare pods"
    assert result.pods.pending == 0
    assert result.machines.bought >= 3, "one of the tier for each pod of the shop"
    assert result.laws_broken == ()


def test_the_same_cluster_is_the_same_with_other_names(tmp_path: Path) -> None:
    plain, hidden = (run_again(tmp_path, record(anonymise=each)) for each in (False, True))
    assert (plain.pods.running, plain.machines.bought) == (hidden.pods.running, hidden.machines.bought)
    assert plain.nodes.by_offering == hidden.nodes.by_offering


def test_anonymised_no_name_is_left_and_the_file_is_the_same_each_time() -> None:
    text = record(anonymise=True)
    assert not [name for name in NAMES if name in text]
    assert record(anonymise=True) == text
    assert "growth.dev/do-not-disrupt" in text
    assert "namespace-1" in text


def test_only_what_growth_did_not_buy_and_what_nobody_makes_is_recorded() -> None:
    found = yaml.safe_load(record(anonymise=False))["objects"]
    names = {(item["kind"], item["metadata"]["name"]): item for item in found}
    assert ("Node", "worker-from-acme") in names
    assert ("Node", "bought") not in names
    assert not [kind for kind, _ in names if kind == "ReplicaSet"]
    assert {name for kind, name in names if kind == "Pod"} == {"acme-alone", "acme-elsewhere"}
    assert names["Pod", "acme-alone"]["spec"]["nodeName"] == "worker-from-acme"
    assert "nodeName" not in names["Pod", "acme-elsewhere"]["spec"]
    assert "startupTaints" not in names["NodePool", "gold"]["spec"]


def test_a_recording_can_be_of_one_namespace() -> None:
    found = yaml.safe_load(record(anonymise=False, namespaces=("acme",)))["objects"]
    assert {item["metadata"]["namespace"] for item in found if "namespace" in item["metadata"]} == {"acme"}
    assert {item["kind"] for item in found} >= {"Node", "NodePool", "Deployment", "StatefulSet"}


def test_server_types_that_the_built_in_catalogue_lacks_are_named() -> None:
    pool: Json = {**node_pool("odd", "M7"), "apiVersion": "growth.dev/v1alpha1"}
    assert "# The built-in catalogue has no M7: say under `catalogue` what they are." in recorded_scenario([pool])
