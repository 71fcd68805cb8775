"""Pods as a real API server writes them, about 4 KB of JSON each, made on the fly. Asked by the benchmarks.

Pods of one template differ where real ones do: name, UID, node, address, times, and the random name of the token
volume."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

TEMPLATES = 1_200
PAGE = 500
_UID = "{:08x}-5c1e-4c11-9f4a-{:012x}"


def pod_pages(
    count: int, templates: int = TEMPLATES, nodes: int = 5_000, pending_share: float = 0.02
) -> Iterator[bytes]:
    """PodList pages of 500; the last `pending_share` of the pods are not bound yet."""
    bound = count - round(count * pending_share)
    for start in range(0, count, PAGE):
        pods = (
            pod_text(number, number % templates, number % nodes if number < bound else None)
            for number in range(start, min(count, start + PAGE))
        )
        yield (
            '{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1000000"},"items":['
            + ",".join(pods)
            + "]}"
        ).encode()


def pod_text(number: int, template: int, node: int | None) -> str:
    """One pod's JSON; `node` None means the scheduler found no place for it."""
    text = _bound_text(template) if node is not None else _pending_text(template)
    filled = {
        "@NAME@": f"app-{template}-{template * 7919 % 65536:05x}c{template % 10}-{number:05x}",
        "@UID@": _UID.format(number, number * 2654435761 % 2**48),
        "@VERSION@": str(1_000_000 + number * 3),
        "@NODE@": "" if node is None else f"pool-{node % 12}-pool-{node:012x}",
        "@TOKEN@": f"kube-api-access-{number * 48271 % 2**25:05x}",
        "@ADDRESS@": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
        "@TIME@": f"2026-03-{number % 28 + 1:02}T{number % 24:02}:{number % 60:02}:{number // 60 % 60:02}Z",
    }
    for mark, value in filled.items():
        text = text.replace(mark, value)
    return text


@cache
def _bound_text(template: int) -> str:
    return json.dumps(pod_object(template, is_bound=True), separators=(",", ":"))


@cache
def _pending_text(template: int) -> str:
    return json.dumps(pod_object(template, is_bound=False), separators=(",", ":"))


def pod_object(template: int, *, is_bound: bool) -> dict[str, Any]:
    """One pod of that template as a plain object, with marks where pods differ."""
    return {
        "metadata": _metadata(template),
        "spec": _spec(template) | ({"nodeName": "@NODE@"} if is_bound else {}),
        "status": _running(template) if is_bound else _waiting(),
    }


def _metadata(template: int) -> dict[str, Any]:
    replica_set = f"app-{template}-{template * 7919 % 65536:05x}c{template % 10}"
    return {
        "name": "@NAME@",
        "generateName": f"{replica_set}-",
        "namespace": f"team-{template % 97}",
        "uid": "@UID@",
        "resourceVersion": "@VERSION@",
        "generation": 1,
        "creationTimestamp": "@TIME@",
        "labels": {
            "app.kubernetes.io/name": f"app-{template}",
            "app.kubernetes.io/instance": f"app-{template}-prod",
            "app.kubernetes.io/version": f"1.{template % 50}.{template % 9}",
            "pod-template-hash": f"{template * 7919 % 65536:05x}c{template % 10}",
        },
        "annotations": {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": "9090",
            "checksum/config": f"{template:064x}",
        },
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": replica_set,
                "uid": _UID.format(template, template),
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [_managed("kube-controller-manager", ""), _managed("kubelet", "status")],
    }


def _managed(manager: str, subresource: str) -> dict[str, Any]:
    leaves: dict[str, Any] = {
        f'k:{{"type":"{name}"}}': {".": {}, "f:status": {}, "f:type": {}}
        for name in ("Initialized", "ContainersReady", "Ready")
    }
    fields = {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {"f:containers": {}},
        "f:status": {"f:conditions": leaves},
    }
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "@TIME@",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "subresource": subresource,
    }


def _spec(template: int) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "volumes": [
            {"name": "config", "configMap": {"name": f"app-{template}", "defaultMode": 420}},
            {
                "name": "@TOKEN@",
                "projected": {
                    "sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}],
                    "defaultMode": 420,
                },
            },
        ],
        "containers": [_container("app", template)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": f"app-{template}",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for name in ("not-ready", "unreachable")
        ],
        "priority": template % 3 * 1000,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    if template % 4 == 0:
        selector = {"matchLabels": {"app.kubernetes.io/name": f"app-{template}"}}
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": selector,
            }
        ]
    return spec


def _container(name: str, template: int) -> dict[str, Any]:
    return {
        "name": name,
        "image": f"registry.example.com/team-{template % 97}/app-{template}:1.{template % 50}.{template % 9}",
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
        "resources": _resources(template) | {"limits": {"memory": f"{256 + template % 16 * 64}Mi"}},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/app"},
            {"name": "@TOKEN@", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        ],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"},
            "timeoutSeconds": 1,
            "periodSeconds": 10,
        },
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }


def _resources(template: int) -> dict[str, Any]:
    return {"requests": {"cpu": f"{50 + template % 20 * 25}m", "memory": f"{128 + template % 16 * 64}Mi"}}


def _running(template: int) -> dict[str, Any]:
    return {
        "phase": "Running",
        "conditions": [
            {"type": name, "status": "True", "lastProbeTime": None, "lastTransitionTime": "@TIME@"}
            for name in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "hostIP": "10.0.0.1",
        "podIP": "@ADDRESS@",
        "podIPs": [{"ip": "@ADDRESS@"}],
        "startTime": "@TIME@",
        "containerStatuses": [_container_status("app", template)],
        "qosClass": "Burstable",
    }


def _container_status(name: str, template: int) -> dict[str, Any]:
    return {
        "name": name,
        "state": {"running": {"startedAt": "@TIME@"}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": f"registry.example.com/team-{template % 97}/app-{template}:1.{template % 50}.{template % 9}",
        "containerID": "containerd://@UID@",
        "started": True,
        "allocatedResources": _resources(template)["requests"],
        "resources": _resources(template) | {"limits": {"memory": f"{256 + template % 16 * 64}Mi"}},
    }


def _waiting() -> dict[str, Any]:
    message = "0/5000 nodes are available: 5000 Insufficient cpu."
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": "@TIME@",
    }
    return {"phase": "Pending", "conditions": [condition], "qosClass": "Burstable"}
