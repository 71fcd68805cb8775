"""Nodes, volumes, budgets and our own kinds, from bytes to nouns."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from growth.kube.codec import Codec
from growth.model.api import FINALIZER
from growth.model.disruption import PodDisruptionBudget, PriorityClass
from growth.model.labels import Labels, LabelSelector, NodeSelectorTerm, Requirement
from growth.model.malformed import Malformed
from growth.model.node import Node, Taint
from growth.model.nodepool import DisruptionBudget, NodePool, PoolLimits, PoolTaint, ServerTypeChoice
from growth.model.noderequest import (
    NodeRemovalRequest,
    NodeRemovalRequestSpec,
    NodeRequest,
    NodeRequestSpec,
)
from growth.model.resources import Resources
from growth.model.snapshot import DaemonSet
from growth.model.volumes import AttachLimit, Claim, StorageClass, Volume, VolumeNode
from tests.kube import objects, samples
from tests.kube.objects import CREATED_AT, Json, raw
from tests.kube.samples import SAMPLES

SELECTOR = LabelSelector((Requirement("app", "In", ("web",)), Requirement("tier", "NotIn", ("back",))))


def decode(kind: str, item: Any) -> Any:
    return Codec().decode(kind, raw(item)).noun


def changed(item: Json, *path: str | int, to: Any) -> Json:
    result = copy.deepcopy(item)
    inner: Any = result
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return result


# -------------------------------------------------------------------------------------------- nodes


def test_a_node_is_read() -> None:
    assert decode("Node", objects.node()) == Node(
        "node-1",
        Labels({"growth.dev/pool": "web"}),
        (Taint("gpu", "true", "NoSchedule"),),
        Resources({"cpu": 3920, "memory": 7 * 2**30, "pods": 110, "example.com/gpu": 1}),
        uid="uid-node-1",
        annotations=Labels({"growth.dev/scale-down-at": objects.CREATED}),
        is_unschedulable=True,
        is_ready=True,
        ready_changed_at=CREATED_AT,
        created_at=CREATED_AT,
        provider_id="kwok://node-1",
        resource_version="7",
    )


@pytest.mark.parametrize("status", ["False", "Unknown", None])
def test_a_node_is_ready_only_if_it_says_so(status: str | None) -> None:
    assert not decode("Node", objects.node(ready=status)).is_ready  # type: ignore[arg-type]
    assert not decode("Node", {"metadata": {"name": "new"}}).is_ready


@pytest.mark.parametrize(
    ("path", "to", "why"),
    [
        (("status", "allocatable", "memory"), "lots", "status.allocatable: memory: 'lots' is not a quantity"),
        (("metadata", "labels", "app"), "x" * 300, "(300 characters) is not a value for the label app"),
        (("spec", "taints"), [{"key": "a"}], "missing required field `effect`"),
        (("spec",), "none", "Expected `object | null`, got `str`"),
        (
            ("metadata", "creationTimestamp"),
            "yesterday",
            "metadata.creationTimestamp: 'yesterday' is not an RFC 3339 instant",
        ),
    ],
)
def test_a_malformed_node_stays_and_says_why(path: tuple[str, ...], to: Any, why: str) -> None:
    item = changed(objects.node(), "metadata", "labels", to={"growth.dev/pool": "web"})
    found = decode("Node", changed(item, *path, to=to))
    assert isinstance(found, Node)
    assert why in found.malformed
    assert (found.name, found.uid) == ("node-1", "uid-node-1")


def test_nodes_of_one_kind_share_their_amounts() -> None:
    codec = Codec()
    first, second = (codec.decode_node(raw(objects.node(name))) for name in ("a", "b"))
    assert first.allocatable is second.allocatable
    assert first.taints is second.taints


# ------------------------------------------------------------------------------------------ cluster


def test_a_claim_is_read() -> None:
    found = decode("PersistentVolumeClaim", samples.claim())
    assert isinstance(found, Claim)
    assert (found.key, found.volume, found.storage_class, found.is_bound, found.is_lost) == (
        "web/data",
        "pv-1",
        "fast",
        True,
        False,
    )
    assert (found.access_modes, found.selected_node, found.request_bytes) == (("ReadWriteOnce",), "node-1", 10 * 2**30)


def test_a_claim_is_bound_only_when_that_is_complete() -> None:
    assert not decode("PersistentVolumeClaim", changed(samples.claim(), "metadata", "annotations", to={})).is_bound
    assert not decode("PersistentVolumeClaim", changed(samples.claim(), "spec", "volumeName", to=None)).is_bound
    assert decode("PersistentVolumeClaim", changed(samples.claim(), "status", "phase", to="Lost")).is_lost


def test_a_volume_is_read() -> None:
    found = decode("PersistentVolume", samples.volume())
    assert isinstance(found, Volume)
    assert (found.name, found.driver, found.handle, found.claim, found.phase) == (
        "pv-1",
        "csi.example.com",
        "17",
        "web/data",
        "Bound",
    )
    assert found.node_affinity == (NodeSelectorTerm((Requirement("topology.kubernetes.io/zone", "In", ("fsn1",)),)),)
    assert (found.capacity_bytes, found.labels["topology.kubernetes.io/zone"]) == (10 * 2**30, "fsn1")


@pytest.mark.parametrize(
    ("source", "driver", "handle"),
    [
        ({"awsElasticBlockStore": {"volumeID": "v"}}, "ebs.csi.aws.com", "v"),
        ({"gcePersistentDisk": {"pdName": "v"}}, "pd.csi.storage.gke.io", "v"),
        ({"azureDisk": {"diskName": "v"}}, "disk.csi.azure.com", "v"),
        ({"cinder": {"volumeID": "v"}}, "cinder.csi.openstack.org", "v"),
        ({"nfs": {"server": "s"}}, "", ""),
    ],
)
def test_an_old_disk_counts_for_the_driver_that_took_over(source: Json, driver: str, handle: str) -> None:
    found = decode("PersistentVolume", {"metadata": {"name": "a"}, "spec": source})
    assert (found.driver, found.handle) == (driver, handle)


def test_storage_classes_and_attach_limits_are_read() -> None:
    found = decode("StorageClass", samples.storage_class())
    assert isinstance(found, StorageClass)
    assert (found.name, found.provisioner, found.waits_for_consumer) == ("fast", "csi.example.com", True)
    assert found.allowed_topologies == (NodeSelectorTerm((Requirement("zone", "In", ("a", "b")),)),)
    assert decode("CSINode", samples.volume_node()) == VolumeNode(
        "node-1", (AttachLimit("csi.example.com", 16), AttachLimit("other.example.com"))
    )


def test_namespaces_are_their_labels() -> None:
    assert decode("Namespace", samples.namespace()) == Labels({"team": "a"})


def test_a_daemon_set_is_the_shape_of_its_pods() -> None:
    found = decode("DaemonSet", samples.daemon_set())
    assert isinstance(found, DaemonSet)
    assert found.key == "kube-system/agent"
    assert (found.shape.namespace, found.shape.labels) == ("kube-system", Labels({"app": "agent"}))
    assert found.shape.requests == Resources({"cpu": 125, "memory": 2 * 2**30})


def test_a_template_with_only_limits_asks_for_them_as_its_pods_will() -> None:
    template = {"spec": {"nodeName": "node-1", "containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}]}}
    shape = Codec().decode_template(raw(template), "web")
    assert (shape.requests, shape.required_node) == (Resources({"cpu": 2000}), "node-1")


def test_a_budget_is_read() -> None:
    assert decode("PodDisruptionBudget", samples.budget()) == PodDisruptionBudget(
        "web", "web", SELECTOR, 1, True, True, "uid-web"
    )
    stale = decode("PodDisruptionBudget", changed(samples.budget(), "status", "observedGeneration", to=1))
    assert not stale.is_current
    assert decode("PodDisruptionBudget", {"metadata": {"name": "a"}, "spec": {}}).selector is None


def test_a_priority_class_is_read() -> None:
    assert decode("PriorityClass", samples.priority_class()) == PriorityClass("high", 1000, True)


# ---------------------------------------------------------------------------------------- our kinds


def test_a_node_pool_is_read() -> None:
    found = decode("NodePool", samples.node_pool())
    assert isinstance(found, NodePool)
    assert (found.name, found.uid, found.generation, found.resource_version, found.is_paused) == (
        "web",
        "uid-web",
        3,
        "7",
        True,
    )
    assert found.spec.server_types == (ServerTypeChoice("CAX11", 1, 3), ServerTypeChoice("CAX21"))
    assert (found.spec.taints, found.spec.limits) == ((PoolTaint("a", "NoSchedule"),), PoolLimits(cpu="100"))
    assert found.spec.budgets == (DisruptionBudget("20%"),)
    assert (found.status.nodes, found.status.in_flight, found.status.conditions[0].type) == (2, 1, "Ready")
    assert (found.finalizers, found.created_at) == ((FINALIZER,), CREATED_AT)


def test_a_node_request_is_read() -> None:
    found = decode("NodeRequest", samples.node_request())
    assert isinstance(found, NodeRequest)
    assert found.spec == NodeRequestSpec("web", "kwok-cax11", "fsn1", {"cpu": "2"}, ("web/a",))
    assert (found.phase, found.status.node_id, found.status.machine_id) == ("Provisioning", found.name, "17")
    assert (found.created_at, found.changed_at) == (CREATED_AT, CREATED_AT + 5)


def test_a_request_without_a_status_is_pending_since_it_was_made() -> None:
    item = samples.node_request()
    del item["status"]
    assert (decode("NodeRequest", item).phase, decode("NodeRequest", item).changed_at) == ("Pending", CREATED_AT)


def test_a_removal_is_read() -> None:
    found = decode("NodeRemovalRequest", samples.node_removal_request())
    assert isinstance(found, NodeRemovalRequest)
    assert found.spec == NodeRemovalRequestSpec("node-1", "web", "kwok-cax11", "17", "idle")
    assert (found.phase, found.status.removal_attempt, found.attempted_at) == ("CouldNotRemove", 2, CREATED_AT + 5)


@pytest.mark.parametrize(
    ("kind", "path", "to", "why"),
    [
        ("NodePool", ("spec",), None, "Expected `object`, got `null` at `.spec`"),
        ("NodePool", ("spec", "serverTypes"), [], "Expected `array` of length >= 1 at `.spec.serverTypes`"),
        ("NodePool", ("spec", "serverTypes"), [{"name": "a"}, {"name": "A"}], "spec.serverTypes: a is named twice"),
        ("NodePool", ("spec", "serverTypes", 0, "min"), 9, "CAX11: min 9 is larger than max 3"),
        ("NodePool", ("spec", "limits", "cpu"), "12 cores", "Expected `str` matching regex"),
        ("NodePool", ("spec", "labels"), {"team": "x" * 300}, "Expected `str` of length <= 63"),
        ("NodePool", ("spec", "consolidation"), "Sometimes", "Invalid enum value 'Sometimes'"),
        ("NodeRequest", ("spec", "pool"), None, "Expected `str`, got `null` at `.spec.pool`"),
        ("NodeRequest", ("status", "phase"), "Lost", "Invalid enum value 'Lost' at `.status.phase`"),
        (
            "NodeRequest",
            ("status", "lastTransitionTime"),
            "then",
            "status.lastTransitionTime: 'then' is not an RFC 3339 instant",
        ),
        ("NodeRemovalRequest", ("spec", "nodeName"), "", "Expected `str` of length >= 1"),
        (
            "PodDisruptionBudget",
            ("spec", "selector", "matchExpressions"),
            [{"key": "a", "operator": "Near"}],
            "unknown operator 'Near' on 'a'",
        ),
        (
            "PersistentVolumeClaim",
            ("spec", "resources", "requests", "storage"),
            "big",
            "spec.resources.requests.storage: 'big' is not a quantity",
        ),
        ("PersistentVolume", ("metadata", "labels"), {"-": ""}, "'-' is not a label key"),
        ("DaemonSet", ("spec", "template", "spec", "containers"), [], "spec.template: spec.containers: there are none"),
        ("DaemonSet", ("spec",), None, "spec: there is none"),
        ("CSINode", ("spec", "drivers"), [{}], "missing required field `name`"),
    ],
)
def test_a_malformed_object_is_named_and_says_why(kind: str, path: tuple[str | int, ...], to: Any, why: str) -> None:
    decoded = Codec().decode(kind, raw(changed(SAMPLES[kind], *path, to=to)))
    assert isinstance(decoded.noun, Malformed)
    assert why in decoded.noun.why
    meta = SAMPLES[kind]["metadata"]
    assert (decoded.noun.kind, decoded.noun.name, decoded.noun.uid, decoded.noun.resource_version) == (
        kind,
        meta["name"],
        meta["uid"],
        "7",
    )
    assert decoded.key == decoded.noun.key


def test_an_object_whose_metadata_is_broken_too_is_still_named_as_far_as_possible() -> None:
    item = changed(samples.node_pool(), "metadata", "uid", to=5)
    noun = decode("NodePool", item)
    assert isinstance(noun, Malformed)
    assert (noun.name, noun.uid) == ("web", "")


def test_keys_are_the_names_or_namespace_and_name() -> None:
    codec = Codec()
    keys = [codec.decode(kind, raw(sample)).key for kind, sample in SAMPLES.items()]
    assert keys == [
        "web/web-1",
        "node-1",
        "web/data",
        "pv-1",
        "fast",
        "node-1",
        "web",
        "kube-system/agent",
        "web/web",
        "high",
        "web/train",
        "gvisor",
        "web",
        "web-pool-0123456789ab",
        "node-1",
        *["web/web"] * 10,
    ]
    assert set(codec.kinds) == set(SAMPLES)
