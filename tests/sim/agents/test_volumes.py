"""Provisioners and the volume controller of the embedded cluster."""

from __future__ import annotations

from typing import Any

from growth.sim.apiserver.kinds import BY_NAME
from growth.sim.apiserver.objects import node
from growth.sim.clock import SimRuntime
from growth.sim.cluster import Cluster
from tests.sim.embedded import in_cluster

Json = dict[str, Any]
CLAIM = BY_NAME["PersistentVolumeClaim"]
SELECTED = "volume.kubernetes.io/selected-node"


def storage_class(provisioner: str = "example.com/disk", **annotations: str) -> Json:
    marks = {f"sim.growth.dev/provision-{name}": value for name, value in annotations.items()}
    metadata = {"name": "made", "annotations": marks}
    of = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata}
    return {**of, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}


def claim(selected: str = "") -> Json:
    metadata = {"name": "data", "namespace": "default", "annotations": {SELECTED: selected} if selected else {}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "made", "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


async def after(cluster: Cluster, seconds: float, *items: Json) -> Json:
    """The claim, so long after these were made."""
    cluster.create(node("n1", labels={"topology.kubernetes.io/zone": "a"}), *items)
    await SimRuntime("test").sleep(seconds)
    return cluster.verbs.live(CLAIM, "data", "default")


def test_a_claim_that_is_promised_to_a_node_gets_a_volume_there_and_is_bound() -> None:
    async def story(cluster: Cluster) -> None:
        found = await after(cluster, 10, storage_class(), claim("n1"))
        volume = cluster.verbs.live(BY_NAME["PersistentVolume"], found["spec"]["volumeName"])
        assert found["status"]["phase"] == volume["status"]["phase"] == "Bound"
        assert found["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
        terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert terms == [
            {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}
        ]
        cluster.delete("PersistentVolumeClaim", "data", "default")
        await SimRuntime("test").sleep(2)
        assert cluster.objects("PersistentVolume") == []

    in_cluster(story)


def test_a_claim_without_a_promise_or_without_a_provisioner_that_answers_stays_unbound() -> None:
    for parts in (
        (storage_class(), claim()),
        (storage_class(never="true"), claim("n1")),
        (storage_class("kubernetes.io/no-provisioner"), claim("n1")),
    ):
        assert "volumeName" not in in_cluster(lambda cluster, parts=parts: after(cluster, 60, *parts))["spec"]  # type: ignore[misc]


def test_a_provisioner_that_fails_takes_the_promise_off_and_so_does_one_whose_node_is_gone() -> None:
    for parts in ((storage_class(fails="1", seconds="5"), claim("n1")), (storage_class(seconds="5"), claim("gone"))):
        found = in_cluster(lambda cluster, parts=parts: after(cluster, 6, *parts))  # type: ignore[misc]
        assert SELECTED not in found["metadata"]["annotations"]


def test_a_free_volume_is_available_and_is_bound_when_it_is_reserved() -> None:
    async def story(cluster: Cluster) -> None:
        kind = BY_NAME["PersistentVolume"]
        disk = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": {}}
        found = await after(cluster, 2, storage_class(), claim(), disk)
        assert cluster.verbs.live(kind, "disk")["status"]["phase"] == "Available"

        def reserve(item: Json) -> None:
            item["spec"]["claimRef"] = {name: found["metadata"][name] for name in ("namespace", "name", "uid")}

        cluster.verbs.modify(kind, "disk", "", reserve, "test")
        await SimRuntime("test").sleep(2)
        assert cluster.verbs.live(CLAIM, "data", "default")["spec"]["volumeName"] == "disk"

    in_cluster(story)
