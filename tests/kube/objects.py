"""Pods and nodes as an API server writes them, with every field that growth reads. For tests of codec and caches."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]

CREATED = "2026-03-29T01:30:00Z"
CREATED_AT = 1774747800.0
SELECTOR = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}],
}


def raw(item: Any) -> bytes:
    return json.dumps(item, separators=(",", ":")).encode()


def meta(name: str, namespace: str | None = "web", version: int | str = 7, **more: Any) -> Json:
    placed = {"namespace": namespace} if namespace else {}
    return {
        "name": name,
        **placed,
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": CREATED,
        **more,
    }


def pod(
    name: str = "web-1",
    node: str = "",
    *,
    namespace: str = "web",
    version: int | str = 7,
    phase: str = "",
    cpu: str = "100m",
    **spec: Any,
) -> Json:
    """A plain pod."""
    requests = {"resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    bound = {"nodeName": node} if node else {}
    return {
        "metadata": meta(name, namespace, version, labels={"app": "web"}),
        "spec": {"containers": [{"name": "main", **requests}], **bound, **spec},
        "status": {"phase": phase or ("Running" if node else "Pending")},
    }


def full_pod() -> Json:
    """A pod with everything."""
    owners = [
        {"apiVersion": "v1", "kind": "Other", "name": "other", "uid": "o"},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True},
    ]
    notes = {"growth.dev/do-not-disrupt": "true", "example.com/long": "x" * 200}
    labels = {"app": "web", "tier": "front"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(
            "web-1", labels=labels, annotations=notes, ownerReferences=owners, deletionTimestamp="2026-03-29T01:31:00Z"
        ),
        "spec": full_pod_spec(),
        "status": full_pod_status(),
    }


def full_pod_spec() -> Json:
    return {
        **full_containers(),
        "overhead": {"cpu": "5m"},
        "resources": {"requests": {"memory": "2Gi"}},
        "tolerations": [
            {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "a", "value": "b", "tolerationSeconds": 5},
        ],
        "nodeSelector": {"kubernetes.io/arch": "arm64"},
        "affinity": full_affinity(),
        "topologySpreadConstraints": [
            {
                "maxSkew": 2,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": SELECTOR,
                "minDomains": 3,
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
                "matchLabelKeys": ["tier"],
            }
        ],
        "volumes": full_volumes(),
        "priority": 1000,
        "schedulerName": "other-scheduler",
        "schedulingGates": [{"name": "wait"}],
        "resourceClaims": [{"name": "device"}],
        "terminationGracePeriodSeconds": 5,
    }


def full_containers() -> Json:
    resources = {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "1"}}
    ports = [{"containerPort": 80, "hostPort": 8080, "protocol": "UDP", "hostIP": "10.0.0.1"}, {"containerPort": 81}]
    return {
        "containers": [{"name": "main", "resources": resources, "ports": ports}, {"name": "other", "resources": {}}],
        "initContainers": [
            {
                "name": "setup",
                "resources": {"requests": {"cpu": "50m"}},
                "ports": [{"containerPort": 90, "hostPort": 9090}],
            },
            {
                "name": "proxy",
                "restartPolicy": "Always",
                "resources": {"requests": {"cpu": "20m"}},
                "ports": [{"containerPort": 91, "hostPort": 9191}],
            },
        ],
    }


def full_affinity() -> Json:
    node_term = {
        "matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}],
    }
    pod_term = {
        "topologyKey": "zone",
        "labelSelector": SELECTOR,
        "namespaces": ["other"],
        "namespaceSelector": {"matchLabels": {"team": "a"}},
    }
    required, preferred = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    return {
        "nodeAffinity": {
            required: {"nodeSelectorTerms": [node_term]},
            preferred: [{"weight": 5, "preference": node_term}],
        },
        "podAffinity": {required: [pod_term], preferred: [{"weight": 7, "podAffinityTerm": pod_term}]},
        "podAntiAffinity": {required: [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]},
    }


def full_volumes() -> list[Json]:
    return [
        {"name": "token", "projected": {"sources": []}},
        {"name": "config", "configMap": {"name": "web"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "web-data", "readOnly": True}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}},
        {"name": "inline", "csi": {"driver": "csi.example.com"}},
        {"name": "gce", "gcePersistentDisk": {"pdName": "disk", "readOnly": True}},
        {"name": "ebs", "awsElasticBlockStore": {"volumeID": "vol", "readOnly": True}},
        {"name": "iscsi", "iscsi": {"iqn": "iqn.example"}},
        {"name": "rbd", "rbd": {"monitors": ["m1", "m2"], "image": "i", "pool": "p"}},
        {"name": "cache", "emptyDir": {}},
    ]


def full_pod_status() -> Json:
    return {
        "phase": "Pending",
        "nominatedNodeName": "node-9",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "lastTransitionTime": "2026-03-29T01:30:05Z",
            }
        ],
        "containerStatuses": [
            {
                "name": "main",
                "resources": {"requests": {"cpu": "150m", "memory": "1Gi"}},
                "allocatedResources": {"cpu": "120m", "memory": "1Gi"},
            }
        ],
    }


def node(
    name: str = "node-1", *, version: int | str = 7, ready: str = "True", heartbeat: str = CREATED, **more: Any
) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta(
            name,
            None,
            version,
            labels={"growth.dev/pool": "web"},
            annotations={"growth.dev/scale-down-at": CREATED, "volumes.example.com/attached": "[]"},
        ),
        "spec": {
            "taints": [{"key": "gpu", "value": "true", "effect": "NoSchedule", "timeAdded": CREATED}],
            "providerID": f"kwok://{name}",
            "unschedulable": True,
        },
        "status": {
            "allocatable": {"cpu": "3920m", "memory": "7Gi", "pods": "110", "example.com/gpu": "1"},
            "conditions": [
                {"type": "Ready", "status": ready, "lastTransitionTime": CREATED, "lastHeartbeatTime": heartbeat}
            ],
            "images": [{"names": ["a"], "sizeBytes": 1}],
        },
        **more,
    }
