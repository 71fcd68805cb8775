"""Volumes that wait for a first consumer, on a real control plane: growth asks for them, and binds its pods when the
volume controller of Kubernetes has bound their claims. The test plays the provisioner.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from growth.model.labels import HOSTNAME
from growth.model.volumes import SELECTED_NODE
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import Manifest, kwok_node
from tests.e2e.running import running_growth

SETTINGS: Final = {"leaderElection": False, "plans": {"scheduler": {"enabled": True}}}
ONE: Final = {"storage": "1Gi"}


def storage_class(name: str, provisioner: str) -> Manifest:
    made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return {**made, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}


def claim(name: str, of: str) -> Manifest:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": of, "resources": {"requests": ONE}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def volume(name: str, of: str, node: str, **spec: Any) -> Manifest:
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
    where = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}, "local": {"path": "/disk"}}
    common = {"capacity": ONE, "accessModes": ["ReadWriteOnce"], "storageClassName": of}
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": {**common, **where, **spec}}


def pod(name: str, of: str) -> Manifest:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": of}}]
    spec = {"schedulerName": "growth", "containers": [{"name": "main", "image": "registry.invalid/main:1"}]}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "volumes": volumes}}


def found(cluster: ControlPlane, kind: str, name: str) -> Any:
    items = cluster.objects(kind, "--namespace=default")
    return next(each for each in items if each["metadata"]["name"] == name)


def selected(cluster: ControlPlane) -> str:
    marks = found(cluster, "persistentvolumeclaims", "made")["metadata"].get("annotations", {})
    return str(marks.get(SELECTED_NODE, ""))


def node_of(cluster: ControlPlane, name: str) -> str:
    return str(found(cluster, "pods", name)["spec"].get("nodeName", ""))


@pytest.mark.timeout(120)
def test_pods_are_bound_when_their_volumes_are(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.apply(
        *(kwok_node(name) for name in ("a", "b")),
        storage_class("disks", "kubernetes.io/no-provisioner"),
        storage_class("cloud", "example.com/cloud"),
        volume("disk-b", "disks", "b"),
    )
    with running_growth(cluster, tmp_path, SETTINGS):
        cluster.apply(claim("free", "disks"), claim("made", "cloud"), pod("db", "free"), pod("web", "made"))
        cluster.wait_until(lambda: node_of(cluster, "db") == "b", "the free disk is taken where it is", 60)
        cluster.wait_until(lambda: selected(cluster) != "", "the provisioner is asked", 60)
        cluster.wait_until(
            lambda: found(cluster, "pods", "web")["status"].get("nominatedNodeName") == selected(cluster),
            "the pod has its node",
            20,
        )
        assert node_of(cluster, "web") == ""
        owner, node = found(cluster, "persistentvolumeclaims", "made")["metadata"], selected(cluster)
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default"}
        reference |= {"name": "made", "uid": owner["uid"]}
        cluster.apply(volume("pvc-made", "cloud", node, claimRef=reference))
        cluster.wait_until(lambda: node_of(cluster, "web") == node, "the pod is bound where its volume is", 60)
    bound = [each["status"]["phase"] for each in cluster.objects("persistentvolumeclaims", "--namespace=default")]
    assert bound == ["Bound", "Bound"]
