"""Objects to put into the embedded cluster, as a user would write them. Used by scenarios, the demo and tests."""

from __future__ import annotations

from typing import Any

from growth.sim.apiserver.kinds import Json


def pod_spec(cpu: str = "500m", memory: str = "512Mi", **more: Any) -> Json:
    """One container that asks for so much, and for a `hostPort`; `more` lies over the spec."""
    requests = {"cpu": cpu, "memory": memory, **more.pop("requests", {})}
    container: Json = {"name": "main", "image": "example/main:1", "resources": {"requests": requests}}
    if "hostPort" in more:
        port = more.pop("hostPort")
        container["ports"] = [{"containerPort": port, "hostPort": port}]
    return {"containers": [container], **more}


def pod(
    name: str,
    cpu: str = "500m",
    memory: str = "512Mi",
    namespace: str = "default",
    labels: Json | None = None,
    **more: Any,
) -> Json:
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(cpu, memory, **more)}


def deployment(
    name: str, replicas: int, cpu: str = "500m", memory: str = "512Mi", namespace: str = "default", **more: Any
) -> Json:
    return _workload("apps/v1", "Deployment", name, namespace, pod_spec(cpu, memory, **more), replicas=replicas)


def stateful_set(
    name: str, replicas: int, cpu: str = "500m", memory: str = "512Mi", namespace: str = "default", **more: Any
) -> Json:
    return _workload("apps/v1", "StatefulSet", name, namespace, pod_spec(cpu, memory, **more), replicas=replicas)


def replica_set(
    name: str, replicas: int, cpu: str = "500m", memory: str = "512Mi", namespace: str = "default", **more: Any
) -> Json:
    return _workload("apps/v1", "ReplicaSet", name, namespace, pod_spec(cpu, memory, **more), replicas=replicas)


def sandbox_set(
    name: str, replicas: int, cpu: str = "500m", memory: str = "512Mi", namespace: str = "default", **more: Any
) -> Json:
    spec = pod_spec(cpu, memory, **more)
    return _workload("agents.kruise.io/v1alpha1", "SandboxSet", name, namespace, spec, replicas=replicas)


def sandbox_template(
    name: str, app: str, cpu: str = "500m", memory: str = "512Mi", namespace: str = "default", **more: Any
) -> Json:
    template = {"metadata": {"labels": {"app": app}}, "spec": pod_spec(cpu, memory, **more)}
    group = "extensions.agents.x-k8s.io/v1alpha1"
    return _object(group, "SandboxTemplate", name, namespace, {"podTemplate": template})


def sandbox_warm_pool(name: str, replicas: int, template: str, namespace: str = "default") -> Json:
    spec = {"replicas": replicas, "sandboxTemplateRef": {"name": template}}
    return _object("extensions.agents.x-k8s.io/v1alpha1", "SandboxWarmPool", name, namespace, spec)


def pod_template(name: str, cpu: str = "500m", memory: str = "512Mi", namespace: str = "default", **more: Any) -> Json:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec(cpu, memory, **more)}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template}


def resource_quota(name: str, namespace: str, **hard: str) -> Json:
    return _object("v1", "ResourceQuota", name, namespace, {"hard": hard})


def daemon_set(name: str, cpu: str = "50m", memory: str = "64Mi", namespace: str = "kube-system", **more: Any) -> Json:
    """Tolerates everything, as those that make a node usable do."""
    more.setdefault("tolerations", [{"operator": "Exists"}])
    return _workload("apps/v1", "DaemonSet", name, namespace, pod_spec(cpu, memory, **more))


def job(
    name: str,
    completions: int,
    cpu: str = "500m",
    memory: str = "512Mi",
    namespace: str = "default",
    run_seconds: int = 60,
) -> Json:
    spec = pod_spec(cpu, memory, restartPolicy="Never")
    made = _workload("batch/v1", "Job", name, namespace, spec, parallelism=completions, completions=completions)
    made["spec"]["template"]["metadata"]["annotations"] = {"sim.growth.dev/run-seconds": str(run_seconds)}
    del made["spec"]["selector"]
    return made


def _object(api_version: str, kind: str, name: str, namespace: str, spec: Json) -> Json:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _workload(api_version: str, kind: str, name: str, namespace: str, pod: Json, **more: Any) -> Json:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec = {**more, "selector": {"matchLabels": {"app": name}}, "template": template}
    return _object(api_version, kind, name, namespace, spec)


def storage_class(name: str, **provisioning: str) -> Json:
    """Its volumes are made for a node: in so many `seconds`, and it `fails` so often for each claim."""
    marks = {f"sim.growth.dev/provision-{what}": value for what, value in provisioning.items()}
    metadata = {"name": name, "annotations": marks}
    made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata}
    return {**made, "provisioner": "example.com/disk", "volumeBindingMode": "WaitForFirstConsumer"}


def volume_claim(name: str, of: str, namespace: str = "default") -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": of, "resources": {"requests": {"storage": "1Gi"}}}
    return _object("v1", "PersistentVolumeClaim", name, namespace, spec)


def disruption_budget(name: str, app: str, namespace: str = "default", **spec: Any) -> Json:
    selector = {"matchLabels": {"app": app}}
    return _object("policy/v1", "PodDisruptionBudget", name, namespace, {"selector": selector, **spec})


def capacity_buffer(name: str, of: str, namespace: str = "default", **spec: Any) -> Json:
    """Spare room in pods of a Deployment."""
    target = {"apiGroup": "apps", "kind": "Deployment", "name": of}
    return _object("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", name, namespace, {"scalableRef": target, **spec})


def pool_autoscaler(name: str, of: str, least: int, most: int, namespace: str = "default", **policy: Any) -> Json:
    """As many pods of a Deployment as are in use, and so many available besides."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": of}
    spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most, "capacityPolicy": policy}
    return _object("growth.dev/v1alpha1", "PoolAutoscaler", name, namespace, spec)


def node_pool(name: str, *server_types: str | Json, **spec: Any) -> Json:
    """A NodePool of these server types, each a name or a whole choice."""
    choices = [{"name": one} if isinstance(one, str) else one for one in server_types]
    return _object("growth.dev/v1alpha1", "NodePool", name, "", {"serverTypes": choices, **spec})


def node(
    name: str, cpu: str = "4", memory: str = "8Gi", labels: Json | None = None, ready: bool = True, **spec: Any
) -> Json:
    """A node that growth did not buy. Nothing plays its kubelet unless it carries KWOK's annotation."""
    amounts = {"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "100Gi"}
    condition = {"type": "Ready", "status": "True" if ready else "False", "reason": "KubeletReady", "message": ""}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    made = _object("v1", "Node", name, "", spec)
    made["metadata"]["labels"] = {"kubernetes.io/hostname": name, **(labels or {})}
    made["metadata"]["annotations"] = {"kwok.x-k8s.io/node": "fake"} if ready else {}
    made["status"] = {"capacity": amounts, "allocatable": amounts, "conditions": [condition]}
    return made
