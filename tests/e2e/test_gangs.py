"""Gangs on a real control plane: PodGroups of Kubernetes and of scheduler-plugins start as a whole or not at all, and
so do twenty gangs of fifty pods at once.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from growth.model.instant import parse_instant
from tests.e2e.conftest import rights_used
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.crowd import Meter, create, wait_until_bound
from tests.e2e.manifests import Manifest, deployment, pod_group_definition
from tests.e2e.running import node_pool, running_growth

HAS_POD_GROUPS: Final = not os.environ.get("KUBERNETES_MINOR")  # those of Kubernetes itself: from 1.36 on
FLAGS: Final = [
    f"--feature-gates=WatchList=false{',GenericWorkload=true' if HAS_POD_GROUPS else ''}",
    *(["--runtime-config=scheduling.k8s.io/v1alpha2=true"] if HAS_POD_GROUPS else []),
]
GANGS: Final = 20
SIZE: Final = 50  # pods of a gang
ONE_GO_SECONDS: Final = 20.0  # what the requests for fifty pods, between those for others, take on a busy machine
SETTINGS: Final = {"plans": {"scheduler": {"enabled": True}}}


@pytest.fixture
def with_pod_groups(cluster: ControlPlane, request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """Its API server serves PodGroups, where it knows them, and lists them in pages. What is left is deleted while the
    kind is served, so the rights that were used are noted before.
    """
    command = cluster.processes["kube-apiserver"].command
    command.extend(FLAGS)
    cluster.restart_apiserver()
    yield cluster
    for flag in FLAGS:
        command.remove(flag)
    assert not rights_used(request.config).take(cluster.audit_events())
    cluster.clean()
    cluster.restart_apiserver()


def group(api_version: str, name: str, **spec: Any) -> Manifest:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}


def member(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Manifest:
    made = deployment(name, 2, cpu="1500m", memory="1Gi")
    template = made["spec"]["template"]
    template["metadata"]["labels"] |= labels or {}
    template["spec"] |= {"schedulerName": "growth", **spec}
    return made


def bound(cluster: ControlPlane) -> dict[str, int]:
    """How many pods of each Deployment have a node."""
    found: dict[str, int] = {}
    for pod in cluster.objects("pods", "--namespace=default"):
        name = pod["metadata"]["labels"]["app"]
        found[name] = found.get(name, 0) + bool(pod["spec"].get("nodeName"))
    return found


def told(cluster: ControlPlane) -> dict[str, int]:
    """How many pods of each Deployment are told that one of their group is missing."""
    found: dict[str, int] = {}
    for pod in cluster.objects("pods", "--namespace=default"):
        messages = [each.get("message", "") for each in pod["status"].get("conditions", ())]
        name = pod["metadata"]["labels"]["app"]
        found[name] = found.get(name, 0) + any("3 must run together, 2 can" in text for text in messages)
    return found


@pytest.mark.timeout(240)
def test_pods_that_name_a_pod_group_start_as_a_whole(with_pod_groups: ControlPlane, tmp_path: Path) -> None:
    cluster = with_pod_groups
    made = [group("scheduling.x-k8s.io/v1alpha1", "plugin", minMember=3)]
    members = [member("plugin", labels={"scheduling.x-k8s.io/pod-group": "plugin"})]
    if HAS_POD_GROUPS:
        policy = {"gang": {"minCount": 3}}
        made.append(group("scheduling.k8s.io/v1alpha2", "own", schedulingPolicy=policy))
        members.append(member("own", schedulingGroup={"podGroupName": "own"}))
    names = [each["metadata"]["name"] for each in members]
    cluster.apply(pod_group_definition())
    with running_growth(cluster, tmp_path, SETTINGS):
        cluster.apply(node_pool("default", "CX32"), *made, *members)
        cluster.wait_until(lambda: told(cluster) == dict.fromkeys(names, 2), "both of each know that they wait", 60)
        assert bound(cluster) == dict.fromkeys(names, 0)
        assert not cluster.objects("nodes")
        for name in names:
            cluster.kubectl("scale", f"deployment/{name}", "--replicas=3", "--namespace=default")
        cluster.wait_until(lambda: bound(cluster) == dict.fromkeys(names, 3), "all three of each have a node", 90)


def of_gang(number: int, place: int) -> Manifest:
    name = f"gang-{number:02d}"
    annotations = {"growth.dev/gang": f"{name}:{SIZE}"}
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    containers = [{"name": "main", "image": "registry.invalid/main:1", "resources": resources}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{name}-{place:02d}", "namespace": "default", "annotations": annotations},
        "spec": {"schedulerName": "growth", "containers": containers},
    }


def bindings(cluster: ControlPlane) -> dict[str, list[float]]:
    """When the pods of each gang were bound, by the audit log."""
    found = defaultdict(list)
    for event in cluster.audit_events():
        if event.resource == "pods/binding" and event.code == 201:
            found[event.object_ref.name[:-3]].append(parse_instant(event.stage_timestamp))
    return {name: sorted(at) for name, at in found.items()}


@pytest.mark.timeout(300)
def test_twenty_gangs_of_fifty_are_bought_for_and_each_is_bound_in_one_go_once_all_its_machines_are_there(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**SETTINGS, "leaderElection": False, "logLevel": "warning"}
    with running_growth(cluster, tmp_path, settings) as growth:
        cluster.apply(node_pool("default", "CAX41", limits={"nodes": 200}))
        began, meter = time.monotonic(), Meter(cluster, growth=growth.pid)
        create(cluster, [of_gang(number, place) for number in range(GANGS) for place in range(SIZE)])
        wait_until_bound(cluster, 180)
        seconds, spent = time.monotonic() - began, meter.spent()
        cluster.wait_until(lambda: sum(map(len, bindings(cluster).values())) == GANGS * SIZE, "every binding is logged")
    bound_at, nodes = bindings(cluster), cluster.objects("nodes")
    made_at = {node["metadata"]["name"]: parse_instant(node["metadata"]["creationTimestamp"]) for node in nodes}
    machines = defaultdict(set)
    for pod in cluster.objects("pods", "--namespace=default"):
        machines[pod["metadata"]["name"][:-3]].add(made_at[pod["spec"]["nodeName"]])
    spans = {name: at[-1] - at[0] for name, at in bound_at.items()}
    with capsys.disabled():
        print(
            f"\n{GANGS} gangs of {SIZE} pods bound after {seconds:.1f} s on {len(nodes)} nodes that were bought "
            f"for them; a gang in {max(spans.values()):.2f} s at most; CPU seconds: "
            + ", ".join(f"{who} {used:.1f}" for who, used in sorted(spent.items(), key=lambda item: -item[1]))
        )
    assert {name: len(at) for name, at in bound_at.items()} == {f"gang-{number:02d}": SIZE for number in range(GANGS)}
    assert [name for name, at in bound_at.items() if max(machines[name]) > at[0]] == []
    assert [name for name, span in spans.items() if span > ONE_GO_SECONDS] == []
