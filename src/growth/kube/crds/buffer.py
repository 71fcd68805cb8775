"""CapacityBuffer (cb) as a CustomResourceDefinition, for clusters that do not have the standard kind yet.

Printed by `growth crds --capacity-buffers`, kept in `deploy/crds/optional`, installed by the chart only where there is
none. Unlike our own kinds it is written by hand: it follows the standard's fields, in both of its versions, and adds a
scale subresource, so that a buffer can be sized by a PoolAutoscaler or `kubectl scale`. A definition that is in the
cluster already is never overwritten."""

from __future__ import annotations

from typing import Final

from growth.kube.api.resources import CAPACITY_BUFFERS, CAPACITY_BUFFERS_V1ALPHA1
from growth.kube.crds.schema import Definition
from growth.model.capacitybuffer import ACTIVE_CAPACITY

_INT32: Final = {"type": "integer", "format": "int32", "minimum": 0, "maximum": 2_147_483_647}
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": 253}
_QUANTITY: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

_RULES: Final = (
    ("!(has(self.podTemplateRef) && has(self.scalableRef))", "podTemplateRef and scalableRef cannot both be set"),
    ("has(self.podTemplateRef) || has(self.scalableRef)", "one of podTemplateRef and scalableRef must be set"),
    (
        "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
        "with podTemplateRef, replicas or limits must be set",
    ),
)


def buffer_definition() -> Definition:
    resource = CAPACITY_BUFFERS
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}", "labels": {"app.kubernetes.io/name": "growth"}},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": ["cb"],
            },
            "versions": [
                _version(resource.version, is_stored=True),
                _version(CAPACITY_BUFFERS_V1ALPHA1.version, is_stored=False),
            ],
        },
    }


def _version(name: str, *, is_stored: bool) -> Definition:
    return {
        "name": name,
        "served": True,
        "storage": is_stored,
        "additionalPrinterColumns": _columns(),
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "schema": {"openAPIV3Schema": _schema()},
    }


def _columns() -> list[Definition]:
    return [
        {
            "name": "Strategy",
            "type": "string",
            "jsonPath": ".status.provisioningStrategy",
            "description": "How the buffer is kept.",
        },
        {
            "name": "Replicas",
            "type": "integer",
            "jsonPath": ".status.replicas",
            "description": "How many chunks it holds.",
        },
        {
            "name": "PodTemplate",
            "type": "string",
            "jsonPath": ".status.podTemplateRef.name",
            "description": "What a chunk looks like.",
        },
        {
            "name": "Provisioned",
            "type": "string",
            "jsonPath": ".status.conditions[?(@.type=='Provisioning')].reason",
            "description": "Whether all of it has room.",
        },
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def _schema() -> Definition:
    return {
        "type": "object",
        "description": "Spare capacity: room is kept as if so many more pods were running.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": _spec(),
            "status": _status(),
        },
    }


def _spec() -> Definition:
    return {
        "type": "object",
        "description": "How much, in chunks of which shape.",
        "properties": {
            "provisioningStrategy": {
                "type": "string",
                "maxLength": 253,
                "default": ACTIVE_CAPACITY,
                "description": "How the buffer is kept. growth serves the default; buffers with another strategy are left to whoever knows it.",
            },
            "podTemplateRef": {
                "type": "object",
                "description": "A PodTemplate of this namespace: the shape of a chunk.",
                "required": ["name"],
                "properties": {"name": _NAME | {"description": "Its name."}},
            },
            "scalableRef": {
                "type": "object",
                "description": "A workload of this namespace: a chunk is one more of its pods.",
                "required": ["kind", "name"],
                "properties": {
                    "apiGroup": {
                        "type": "string",
                        "maxLength": 253,
                        "description": "Its API group; empty for the core group.",
                    },
                    "kind": {"type": "string", "minLength": 1, "maxLength": 63, "description": "Its kind."},
                    "name": _NAME | {"description": "Its name."},
                },
            },
            "replicas": _INT32
            | {
                "description": "How many chunks. With percentage: the smaller of both, or the larger where growth sizes as upstream does."
            },
            "percentage": _INT32 | {"description": "How many chunks, as a share of the workload's replicas."},
            "limits": {
                "type": "object",
                "maxProperties": 50,
                "description": "What all chunks together may ask for; alone, as many chunks as fit.",
                "additionalProperties": {
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                    "pattern": _QUANTITY,
                    "x-kubernetes-int-or-string": True,
                },
            },
        },
        "x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in _RULES],
    }


def _status() -> Definition:
    return {
        "type": "object",
        "description": "How it stands. Written by growth.",
        "properties": {
            "provisioningStrategy": {"type": "string", "maxLength": 253, "description": "The strategy in use."},
            "podTemplateRef": {
                "type": "object",
                "description": "The PodTemplate that chunks are made from.",
                "required": ["name"],
                "properties": {"name": _NAME},
            },
            "podTemplateGeneration": {
                "type": "integer",
                "format": "int64",
                "description": "The generation of that PodTemplate.",
            },
            "replicas": {"type": "integer", "format": "int32", "description": "How many chunks the buffer holds."},
            "conditions": _conditions(),
        },
    }


def _conditions() -> Definition:
    return {
        "type": "array",
        "maxItems": 20,
        "description": "How single aspects stand.",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
                "message": {"type": "string", "maxLength": 32768},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
            },
        },
    }
