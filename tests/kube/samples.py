"""An object of every kind that growth reads, as an API server writes it. Used by the codec's and the caches' tests."""

from __future__ import annotations

from typing import Any

from tests.kube.objects import CREATED, SELECTOR, Json, full_pod, meta, node


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


def pod_group() -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "PodGroup",
        "metadata": meta("train"),
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }


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
    "PodGroup": pod_group(),
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
