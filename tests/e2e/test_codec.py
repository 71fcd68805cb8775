"""Is an object read the same from the real API server as from the file it was made from? Defaults, quantities and times
are the server's.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from msgspec import Raw, structs

from growth.kube.api.resources import PODS
from growth.kube.cache.pods import PodCache
from growth.kube.codec import Codec
from growth.kube.codec.manifest import decode_manifest_text
from growth.model.pod import Pod, PodShape
from growth.model.resources import Resources
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import deployment, kwok_node

CONTAINER = {"name": "main", "image": "registry.invalid/main:1"}


def asks(**quantities: Any) -> dict[str, Any]:
    return {**CONTAINER, "resources": {"requests": quantities}}


PODS_ASKED: dict[str, dict[str, Any]] = {
    "plain": {"containers": [asks(cpu="100m", memory="64Mi")]},
    "odd-quantities": {"containers": [asks(cpu="0.1005", memory="1.5e6", **{"ephemeral-storage": "1Ki"})]},
    "limits-only": {"containers": [{**CONTAINER, "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}]},
    "sidecars": {
        "initContainers": [
            {**asks(cpu="1"), "name": "first"},
            {**asks(cpu="200m"), "name": "proxy", "restartPolicy": "Always"},
            {**asks(cpu="2"), "name": "last"},
        ],
        "containers": [asks(cpu="300m")],
    },
    "pod-level": {"resources": {"requests": {"cpu": "3"}, "limits": {"memory": "4Gi"}}, "containers": [asks(cpu="1")]},
    "pod-level-limits": {"resources": {"limits": {"cpu": "3", "memory": "1Gi"}}, "containers": [asks(memory="2Mi")]},
    "host-network": {"hostNetwork": True, "containers": [{**CONTAINER, "ports": [{"containerPort": 8080}]}]},
    "rules": {
        "containers": [CONTAINER],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"app": "rules"}},
                        "matchLabelKeys": ["version"],
                    }
                ]
            }
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            }
        ],
        "volumes": [
            {"name": "scratch", "emptyDir": {}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        ],
    },
    "critical": {"priorityClassName": "system-cluster-critical", "containers": [CONTAINER]},
}


def manifest(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name, "version": "1"}},
        "spec": PODS_ASKED[name],
    }


def without_added_tolerations(shape: PodShape) -> PodShape:
    """The server gives every pod five minutes on a failing node."""
    added = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    return structs.replace(shape, tolerations=tuple(one for one in shape.tolerations if one.key not in added))


def live_pods(cluster: ControlPlane) -> dict[str, Pod]:
    codec, listed = Codec(), json.loads(cluster.kubectl("get", "--raw", "/api/v1/namespaces/default/pods"))
    pods = [codec.decode_pod(json.dumps(item).encode()) for item in listed["items"]]
    return {pod.name: pod for pod in pods}


def test_a_pod_is_read_the_same_from_the_server_as_from_its_file(cluster: ControlPlane) -> None:
    cluster.apply(*(manifest(name) for name in PODS_ASKED))
    live = live_pods(cluster)
    for name in PODS_ASKED:
        (from_file,) = decode_manifest_text(yaml.safe_dump(manifest(name))).pods
        assert without_added_tolerations(live[name].shape) == from_file.shape, name
        assert live[name].has_local_data == from_file.has_local_data
        assert live[name].shape.malformed == ""


@pytest.mark.parametrize(
    ("name", "amounts"),
    [
        ("sidecars", {"cpu": 2200}),
        ("pod-level", {"cpu": 3000, "memory": 4 * 2**30}),
        ("odd-quantities", {"cpu": 101, "memory": 1_500_000, "ephemeral-storage": 1024}),
    ],
)
def test_requests_are_those_the_scheduler_counts(cluster: ControlPlane, name: str, amounts: dict[str, int]) -> None:
    """A node with exactly that much takes the pod, one with a little less does not."""
    wanted = Resources(amounts)
    cluster.apply(manifest(name))
    assert live_pods(cluster)[name].shape.requests == wanted
    room = {"cpu": wanted["cpu"] or 100, "memory": wanted["memory"] or 2**20}
    cluster.apply(kwok_node("small", cpu=f"{room['cpu'] - 1}m", memory=str(room["memory"])))
    cluster.wait_until(
        lambda: live_pods(cluster)[name].unschedulable_at is not None and is_ready(cluster, "small"),
        "the small node to be refused",
        30,
    )
    assert live_pods(cluster)[name].node_name == ""
    cluster.apply(kwok_node("exact", cpu=f"{room['cpu']}m", memory=str(room["memory"])))
    cluster.wait_until(lambda: live_pods(cluster)[name].node_name == "exact", "the pod on the exact node", 30)


def is_ready(cluster: ControlPlane, name: str) -> bool:
    codec = Codec()
    nodes = [codec.decode_node(json.dumps(item).encode()) for item in cluster.objects("nodes")]
    return any(node.name == name and node.is_ready and not node.taints for node in nodes)


def test_real_pods_share_one_shape_and_are_found_on_their_node(cluster: ControlPlane) -> None:
    cluster.apply(kwok_node("one"), deployment("web", 10))
    cluster.wait_until(
        lambda: {pod.phase for pod in live_pods(cluster).values()} == {"Running"}, "ten running pods", 30
    )
    cache, listed = PodCache(Codec()), json.loads(cluster.kubectl("get", "--raw", PODS.path(namespace="default")))
    for _ in range(2):
        cache.relisting()
        cache.listed([Raw(json.dumps(item).encode()) for item in listed["items"]])
        cache.relisted(listed["metadata"]["resourceVersion"])
    assert (len(cache.by_node()["one"]), cache.waiting()) == (10, ())
    assert cache.version == 10, "the second listing changed nothing"
