"""Objects that e2e tests put into a real cluster, as plain data. Asked by the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Manifest = dict[str, Any]

SANDBOX_SET = ("agents.kruise.io/v1alpha1", "SandboxSet")
SANDBOX_WARM_POOL = ("extensions.agents.x-k8s.io/v1alpha1", "SandboxWarmPool")


def kwok_node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
) -> Manifest:
    """A node that kwok keeps Ready, with this much to give."""
    resources = {"cpu": cpu, "memory": memory, "ephemeral-storage": "100Gi", "pods": str(pods)}
    well_known = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {**well_known, **(labels or {})},
        },
        "spec": {"taints": list(taints)},
        "status": {"capacity": resources, "allocatable": resources},
    }


def namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def deployment(
    name: str, replicas: int, *, cpu: str = "100m", memory: str = "64Mi", where: str = "default", pool: str = ""
) -> Manifest:
    """So many equal pods, with these requests; `pool` asks for the nodes of a NodePool."""
    template = _template(name, cpu, memory)
    if pool:
        template["spec"]["nodeSelector"] = {"growth.dev/pool": pool}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": where},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def job(name: str, *, cpu: str = "100m", memory: str = "64Mi", where: str = "default") -> Manifest:
    """One pod that runs to its end, which under kwok comes at once."""
    template = _template(name, cpu, memory)
    template["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": where},
        "spec": {"template": template},
    }


def _template(name: str, cpu: str, memory: str) -> Manifest:
    requests = {"cpu": cpu, "memory": memory}
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "containers": [{"name": "main", "image": "registry.invalid/main:1", "resources": {"requests": requests}}]
        },
    }


def autoscaler(name: str, target: str, of: tuple[str, str] = ("apps/v1", "Deployment"), **spec: Any) -> Manifest:
    reference = {"apiVersion": of[0], "kind": of[1], "name": target}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "growth.dev/v1alpha1",
        "kind": "PoolAutoscaler",
        "metadata": metadata,
        "spec": {"scaleTargetRef": reference, "maxReplicas": 20, **spec},
    }


def sandbox_set_definition() -> Manifest:
    """As OpenKruise publishes it, as far as scaling cares; what a sandbox is made of is left open."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {"replicas": {**_COUNT, "minimum": 0}, "template": anything, "templateRef": anything}
    spec |= {"scaleStrategy": anything, "updateStrategy": anything}
    revisions = {"updateRevision": _TEXT, "currentRevision": _TEXT, "updatedReplicas": _COUNT}
    status = {"replicas": _COUNT, "availableReplicas": _COUNT, **revisions}
    return _pool_definition("agents.kruise.io", "SandboxSet", "sbs", spec, status, ("replicas",))


def sandbox_warm_pool_definition() -> Manifest:
    """As SIG Apps' agent-sandbox publishes it: its members are made from a SandboxTemplate."""
    named = {"type": "object", "properties": {"name": _TEXT}, "required": ["name"]}
    kinds = {"type": "string", "enum": ["Recreate", "OnReplenish"], "default": "OnReplenish"}
    strategy = {"type": "object", "properties": {"type": kinds}}
    spec = {"replicas": {**_COUNT, "minimum": 0}, "sandboxTemplateRef": named, "updateStrategy": strategy}
    status = {"replicas": _COUNT, "readyReplicas": _COUNT, "availableReplicas": _COUNT}
    required = ("replicas", "sandboxTemplateRef")
    return _pool_definition("extensions.agents.x-k8s.io", "SandboxWarmPool", "swp", spec, status, required)


def pod_group_definition() -> Manifest:
    """As scheduler-plugins publishes it, as far as the number of pods cares."""
    spec = {"minMember": {**_COUNT, "minimum": 1}, "scheduleTimeoutSeconds": _COUNT}
    return _pool_definition("scheduling.x-k8s.io", "PodGroup", "pg", spec, {"phase": _TEXT}, ())


def _pool_definition(
    group: str, kind: str, short: str, spec: Manifest, status: Manifest, required: tuple[str, ...]
) -> Manifest:
    """A kind whose scale reads and writes `.spec.replicas`, and shows `.status.replicas` and `.status.selector`."""
    told = {**status, "observedGeneration": _COUNT, "selector": _TEXT}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": spec, "required": list(required)},
            "status": {"type": "object", "properties": told},
        },
        "required": ["spec"],
    }
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
    }
    plural = f"{kind.lower()}s"
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower(), "shortNames": [short]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


_COUNT: Manifest = {"type": "integer", "format": "int32"}
_TEXT: Manifest = {"type": "string"}


def sandbox_warm_pool(name: str, replicas: int) -> Manifest:
    return {
        "apiVersion": SANDBOX_WARM_POOL[0],
        "kind": "SandboxWarmPool",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "sandboxTemplateRef": {"name": name}},
    }


def sandbox_set(name: str, replicas: int) -> Manifest:
    return {
        "apiVersion": SANDBOX_SET[0],
        "kind": "SandboxSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas},
    }
