"""Objects as an API server writes them, with every field that growth reads. Asked by the codec's and the caches' tests."""

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


def claim() -> Json:
    annotations = {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "node-1"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta("data", annotations=annotations),
        "spec": {
            "volumeName": "pv-1",
            "storageClassName": "fast",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}},
        },
        "status": {"phase": "Bound"},
    }


def volume() -> Json:
    terms = [{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["fsn1"]}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": meta("pv-1", None, labels={"topology.kubernetes.io/zone": "fsn1"}),
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "web", "name": "data"},
            "storageClassName": "fast",
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            "csi": {"driver": "csi.example.com", "volumeHandle": "17"},
        },
        "status": {"phase": "Bound"},
    }


def storage_class() -> Json:
    topologies = [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": meta("fast", None),
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": topologies,
    }


def volume_node() -> Json:
    drivers = [{"name": "csi.example.com", "allocatable": {"count": 16}}, {"name": "other.example.com"}]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": meta("node-1", None),
        "spec": {"drivers": drivers},
    }


def namespace() -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta("web", None, labels={"team": "a"})}


def daemon_set() -> Json:
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": full_pod()["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": meta("agent", "kube-system"),
        "spec": {"selector": {}, "template": template},
    }


def budget() -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta("web", generation=2),
        "spec": {"minAvailable": 1, "selector": SELECTOR, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        "status": {"disruptionsAllowed": 1, "observedGeneration": 2},
    }


def priority_class() -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": meta("high", None),
        "value": 1000,
        "globalDefault": True,
    }


def node_pool(name: str = "web", version: int | str = 7, **spec: Any) -> Json:
    return {
        "apiVersion": "growth.dev/v1alpha1",
        "kind": "NodePool",
        "metadata": meta(
            name,
            None,
            version,
            generation=3,
            annotations={"growth.dev/paused": "true"},
            finalizers=["growth.dev/machine"],
        ),
        "spec": {
            "serverTypes": [{"name": "CAX11", "min": 1, "max": 3}, {"name": "CAX21"}],
            "labels": {"team": "a"},
            "taints": [{"key": "a", "effect": "NoSchedule"}],
            "limits": {"cpu": "100"},
            "budgets": [{"nodes": "20%"}],
            **spec,
        },
        "status": {"nodes": 2, "inFlight": 1, "pricePerHour": "0.02", "conditions": [condition("Ready")]},
    }


def node_request(name: str = "web-pool-0123456789ab", version: int | str = 7, phase: str = "Provisioning") -> Json:
    return {
        "apiVersion": "growth.dev/v1alpha1",
        "kind": "NodeRequest",
        "metadata": meta(name, None, version, finalizers=["growth.dev/machine"]),
        "spec": {
            "pool": "web",
            "targetOffering": "kwok-cax11",
            "location": "fsn1",
            "resources": {"cpu": "2"},
            "plannedPods": ["web/a"],
            "reason": "Demand",
        },
        "status": {
            "phase": phase,
            "nodeID": name,
            "machineID": "17",
            "events": [{"at": CREATED, "name": "nodeRequested", "reason": "Demand"}],
            "conditions": [condition("Launched")],
            "lastTransitionTime": "2026-03-29T01:30:05Z",
        },
    }


def pool_autoscaler(name: str = "web", version: int | str = 7) -> Json:
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 9,
        "capacityPolicy": {
            "targetAvailable": "50%",
            "tolerance": 1,
            "scaleDown": {"stabilizationWindowSeconds": 60},
            "inUse": {"matchLabels": {"a": "b"}},
        },
    }
    metadata = {
        "name": name,
        "namespace": "web",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "generation": 2,
        "creationTimestamp": CREATED,
    }
    status = {"currentReplicas": 3, "currentCapacity": {"available": 2}, "lastScaleTime": CREATED}
    return {
        "apiVersion": "growth.dev/v1alpha1",
        "kind": "PoolAutoscaler",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def node_removal_request(name: str = "node-1", version: int | str = 7) -> Json:
    return {
        "apiVersion": "growth.dev/v1alpha1",
        "kind": "NodeRemovalRequest",
        "metadata": meta(name, None, version, finalizers=["growth.dev/machine"]),
        "spec": {"nodeName": name, "pool": "web", "offering": "kwok-cax11", "machineID": "17", "reason": "idle"},
        "status": {
            "phase": "CouldNotRemove",
            "removalAttempt": 2,
            "removeAttemptedAt": "2026-03-29T01:30:05Z",
            "waitingFor": "a pod",
        },
    }


def workload(kind: str, api_version: str, **spec: Any) -> Json:
    """Anything that makes pods from a template."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": full_pod()["spec"]}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": meta("web", generation=3),
        "spec": {"template": template, **spec},
    }


def capacity_buffer() -> Json:
    spec = {
        "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"},
        "percentage": 20,
        "replicas": 5,
        "limits": {"cpu": "8"},
    }
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": meta("web", generation=1),
        "spec": spec,
    }


def runtime_class() -> Json:
    scheduling = {"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]}
    overhead = {"podFixed": {"cpu": "250m", "memory": "120Mi"}}
    item = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": meta("gvisor", None),
        "handler": "runsc",
    }
    return {**item, "overhead": overhead, "scheduling": scheduling}


def limit_range() -> Json:
    limit = {"type": "Container", "defaultRequest": {"cpu": "100m"}, "default": {"memory": "1Gi"}}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta("web"), "spec": {"limits": [limit]}}


def resource_quota() -> Json:
    amounts = {"requests.cpu": "10", "pods": "20"}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": meta("web"),
        "spec": {"hard": amounts},
        "status": {"hard": amounts, "used": amounts},
    }


def pod_template() -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": meta("web"),
        "template": {"metadata": {}, "spec": full_pod()["spec"]},
    }


def condition(kind: str) -> Json:
    return {"type": kind, "status": "True", "reason": "Fine", "message": "All is well.", "lastTransitionTime": CREATED}


SAMPLES: dict[str, Json] = {
    "Pod": full_pod(),
    "Node": node(),
    "PersistentVolumeClaim": claim(),
    "PersistentVolume": volume(),
    "StorageClass": storage_class(),
    "CSINode": volume_node(),
    "Namespace": namespace(),
    "DaemonSet": daemon_set(),
    "PodDisruptionBudget": budget(),
    "PriorityClass": priority_class(),
    "RuntimeClass": runtime_class(),
    "NodePool": node_pool(),
    "NodeRequest": node_request(),
    "NodeRemovalRequest": node_removal_request(),
    "PoolAutoscaler": pool_autoscaler(),
    "CapacityBuffer": capacity_buffer(),
    "PodTemplate": pod_template(),
    "LimitRange": limit_range(),
    "ResourceQuota": resource_quota(),
    "Deployment": workload("Deployment", "apps/v1", replicas=3),
    "ReplicaSet": workload("ReplicaSet", "apps/v1", replicas=3),
    "StatefulSet": workload("StatefulSet", "apps/v1", replicas=3),
    "ReplicationController": workload("ReplicationController", "v1", replicas=3),
    "Job": workload("Job", "batch/v1", parallelism=2),
}
