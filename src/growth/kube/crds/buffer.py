"""CapacityBuffer (cb) as a CustomResourceDefinition, for clusters that do not have the standard kind yet.

Printed by `growth crds --capacity-buffers`, kept in `deploy/crds/optional`, installed by the chart only where there is
none. Unlike our own kinds it is written by hand: it follows the standard's fields, in both of its versions, and adds a
scale subresource, so that a buffer can be sized by a PoolAutoscaler or `kubectl scale`. A definition that is in the
cluster already is never overwritten."""

from __future__ import annotations

from typing import Final

from growth.kube.api.resources import CAPACITY_BUFFERS, CAPACITY_BUFFERS_V1ALPHA1
from growth.kube.crds.schema import Definition, definition_of, object_schema, printer_column, validations
from growth.model.capacitybuffer import ACTIVE_CAPACITY

_INT32: Final = {"type": "integer", "format": "int32", "minimum": 0, "maximum": 2_147_483_647}
_INT64: Final = {"type": "integer", "format": "int64"}
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"}
_QUANTITY: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

_ABOUT: Final = "Spare capacity: room is kept as if so many more pods were running."
_COLUMNS: Final = (
    ("Strategy", "string", ".status.provisioningStrategy", "How the buffer is kept."),
    ("Replicas", "integer", ".status.replicas", "How many chunks it holds."),
    ("PodTemplate", "string", ".status.podTemplateRef.name", "What a chunk looks like."),
    ("Provisioned", "string", ".status.conditions[?(@.type=='Provisioning')].reason", "Whether all of it has room."),
    ("Age", "date", ".metadata.creationTimestamp", ""),
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
    versions = (CAPACITY_BUFFERS.version, CAPACITY_BUFFERS_V1ALPHA1.version)
    stored = [_version(name, is_stored=name == CAPACITY_BUFFERS.version) for name in versions]
    return definition_of(CAPACITY_BUFFERS, {"shortNames": ["cb"]}, stored)


def _version(name: str, *, is_stored: bool) -> Definition:
    return {
        "name": name,
        "served": True,
        "storage": is_stored,
        "additionalPrinterColumns": [printer_column(*column) for column in _COLUMNS],
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "schema": {"openAPIV3Schema": object_schema(_ABOUT, _spec(), _status())},
    }


def _spec() -> Definition:
    names = {
        "apiGroup": _text(253, "Its API group; empty for the core group.")
        | {"pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"},
        "kind": {
            "type": "string",
            "minLength": 1,
            "maxLength": 63,
            "pattern": "^[A-Za-z][A-Za-z0-9]*$",
            "description": "Its kind.",
        },
        "name": _NAME | {"description": "Its name."},
    }
    properties = {
        "provisioningStrategy": {
            "type": "string",
            "maxLength": 253,
            "default": ACTIVE_CAPACITY,
            "description": "How the buffer is kept. growth serves the default; "
            "buffers with another strategy are left to whoever knows it.",
        },
        "podTemplateRef": _object(
            "A PodTemplate of this namespace: the shape of a chunk.",
            {"name": _NAME | {"description": "Its name."}},
            required=["name"],
        ),
        "scalableRef": _object(
            "A workload of this namespace: a chunk is one more of its pods.", names, required=["kind", "name"]
        ),
        "replicas": _INT32
        | {
            "description": "How many chunks. With percentage: the smaller of both, "
            "or the larger where growth sizes as upstream does."
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
    }
    return _object("How much, in chunks of which shape.", properties) | validations(_RULES)


def _status() -> Definition:
    condition = {
        "type": {"type": "string", "maxLength": 316},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
        "message": {"type": "string", "maxLength": 32768},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
    }
    properties = {
        "provisioningStrategy": _text(253, "The strategy in use."),
        "podTemplateRef": _object("The PodTemplate that chunks are made from.", {"name": _NAME}, required=["name"]),
        "podTemplateGeneration": _INT64 | {"description": "The generation of that PodTemplate."},
        "replicas": {"type": "integer", "format": "int32", "description": "How many chunks the buffer holds."},
        "conditions": {
            "type": "array",
            "maxItems": 20,
            "description": "How single aspects stand.",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {"type": "object", "required": list(condition)[:5], "properties": condition},
        },
    }
    return _object("How it stands. Written by growth.", properties)


def _object(about: str, properties: Definition, *, required: list[str] | None = None) -> Definition:
    needed = {"required": required} if required else {}
    return {"type": "object", "description": about, **needed, "properties": properties}


def _text(longest: int, about: str) -> Definition:
    return {"type": "string", "maxLength": longest, "description": about}
