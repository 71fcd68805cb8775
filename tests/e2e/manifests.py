"""Objects that e2e tests put into a real cluster, as plain data. Asked by the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Manifest = dict[str, Any]

SANDBOX_SET = ("agents.kruise.io/v1alpha1", "SandboxSet")


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
    """As its makers serve it, as far as scaling cares."""
    count = {"type": "integer"}
    status = {
        "type": "object",
        "properties": {"replicas": count, "availableReplicas": count, "selector": {"type": "string"}},
    }
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"replicas": count}}, "status": status},
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
    names = {"kind": "SandboxSet", "listKind": "SandboxSetList", "plural": "sandboxsets", "singular": "sandboxset"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "sandboxsets.agents.kruise.io"},
        "spec": {"group": "agents.kruise.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def sandbox_set(name: str, replicas: int) -> Manifest:
    return {
        "apiVersion": SANDBOX_SET[0],
        "kind": "SandboxSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas},
    }
