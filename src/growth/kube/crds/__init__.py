"""Our kinds as CustomResourceDefinitions: NodePool, NodeRequest, NodeRemovalRequest and PoolAutoscaler.

Printed by `growth crds`, kept in `deploy/crds`, installed into the embedded cluster. Generated from the model, never
written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml
from msgspec import Struct

from growth.kube.api.resources import NODE_POOLS, NODE_REMOVAL_REQUESTS, NODE_REQUESTS, POOL_AUTOSCALERS, Resource
from growth.kube.crds.policies import policies
from growth.kube.crds.schema import Definition, definition_of, object_schema, printer_column, schema_of, validations
from growth.model.nodepool import NodePoolSpec, NodePoolStatus
from growth.model.noderequest import (
    NodeRemovalRequestSpec,
    NodeRemovalRequestStatus,
    NodeRequestSpec,
    NodeRequestStatus,
)
from growth.model.poolautoscaler import PoolAutoscalerSpec, PoolAutoscalerStatus

_AGE: Final = ("Age", "date", ".metadata.creationTimestamp", "")


class CustomKind(Struct, frozen=True):
    """What a definition says beyond its schema. Columns are (name, type, JSON path, description)."""

    resource: Resource
    short_name: str
    about: str
    spec: type[Struct]
    status: type[Struct]
    columns: tuple[tuple[str, str, str, str], ...]
    rules: tuple[tuple[str, str], ...] = ()


KINDS: Final = (
    CustomKind(
        NODE_POOLS,
        "np",
        "Which machines growth may buy, for whom, and within which limits.",
        NodePoolSpec,
        NodePoolStatus,
        (
            ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether the pool can buy."),
            ("Nodes", "integer", ".status.nodes", "Nodes that have joined."),
            ("In flight", "integer", ".status.inFlight", "Nodes that are on their way."),
            ("Price/h", "string", ".status.pricePerHour", "What the pool costs an hour, in the provider's currency."),
            _AGE,
        ),
        (
            (
                "size(self.metadata.name) <= 40",
                "a pool's name has at most 40 characters: it is part of its nodes' names",
            ),
        ),
    ),
    CustomKind(
        NODE_REQUESTS,
        "nr",
        "One machine that growth has ordered, written down before the provider is asked. Made by growth.",
        NodeRequestSpec,
        NodeRequestStatus,
        (
            ("Phase", "string", ".status.phase", "Pending, Provisioning, Ready, Unmet or Deprovisioning."),
            ("Pool", "string", ".spec.pool", "The NodePool it is bought for."),
            ("Offering", "string", ".spec.targetOffering", "What is bought."),
            ("Location", "string", ".spec.location", "Where."),
            ("Node", "string", ".status.nodeID", "The node it becomes."),
            _AGE,
        ),
        (
            (
                "size(self.metadata.name) <= 63",
                "a NodeRequest's name has at most 63 characters: it becomes a label, a node and a machine",
            ),
        ),
    ),
    CustomKind(
        NODE_REMOVAL_REQUESTS,
        "nrr",
        "One node that growth gives back, named after it. Made by growth.",
        NodeRemovalRequestSpec,
        NodeRemovalRequestStatus,
        (
            ("Phase", "string", ".status.phase", "Pending, Deprovisioning, CouldNotRemove or RemovalFailed."),
            ("Node", "string", ".spec.nodeName", "The node that goes."),
            ("Pool", "string", ".spec.pool", "Its NodePool."),
            ("Attempt", "integer", ".status.removalAttempt", "How often the provider was asked."),
            ("Reason", "string", ".spec.reason", "Why it goes."),
            _AGE,
        ),
        (("self.metadata.name == self.spec.nodeName", "a NodeRemovalRequest is named after its node"),),
    ),
    CustomKind(
        POOL_AUTOSCALERS,
        "pa",
        "How many replicas a warm pool shall have: within bounds, by schedule, or by what is available.",
        PoolAutoscalerSpec,
        PoolAutoscalerStatus,
        (
            ("Kind", "string", ".spec.scaleTargetRef.kind", "The kind of what is scaled."),
            ("Target", "string", ".spec.scaleTargetRef.name", "What is scaled."),
            ("Min", "integer", ".spec.minReplicas", "Never fewer."),
            ("Max", "integer", ".spec.maxReplicas", "Never more."),
            ("Current", "integer", ".status.currentReplicas", "Replicas there are."),
            ("Desired", "integer", ".status.desiredReplicas", "Replicas there shall be."),
            ("Available", "integer", ".status.currentCapacity.available", "Replicas that are ready and not in use."),
            (
                "Active",
                "string",
                '.status.conditions[?(@.type=="ScalingActive")].status',
                "Whether its policy is followed; False: its conditions say why not.",
            ),
            ("Last scale", "date", ".status.lastScaleTime", "When growth last scaled it."),
            ("Policy", "string", ".status.activePolicy", "What decided last: bounds, capacity, or a cron policy."),
            _AGE,
        ),
    ),
)


def definitions() -> list[Definition]:
    """All of them, in the order they should be read."""
    return [_definition(kind) for kind in KINDS]


def definitions_yaml() -> str:
    """Ready for `kubectl apply -f -`."""
    return "".join(f"---\n{as_yaml(definition)}" for definition in installed())


def as_yaml(definition: Definition) -> str:
    return yaml.safe_dump(definition, sort_keys=False, width=140, allow_unicode=True)


def write_definitions(directory: Path) -> list[Path]:
    """One file for each kind and policy, as they stand in `deploy/crds`."""
    directory.mkdir(parents=True, exist_ok=True)
    return [_write(directory / file_name(definition), definition) for definition in installed()]


def installed() -> list[Definition]:
    """All that `growth crds` prints: the kinds, and who may make which of their objects."""
    return [*definitions(), *policies()]


def file_name(definition: Definition) -> str:
    if definition["kind"] == "CustomResourceDefinition":
        return f"{definition['spec']['names']['plural']}.yaml"
    part = "binding" if definition["kind"].endswith("Binding") else "policy"
    return f"{definition['metadata']['name'].partition('.')[0]}-{part}.yaml"


def file_text(definition: Definition) -> str:
    return f"# Generated by `growth crds`; do not edit.\n{as_yaml(definition)}"


def _write(path: Path, definition: Definition) -> Path:
    path.write_text(file_text(definition), encoding="utf-8")
    return path


def _definition(kind: CustomKind) -> Definition:
    names = {"shortNames": [kind.short_name], "categories": ["growth"]}
    schema = object_schema(kind.about, schema_of(kind.spec), _with_first_status(schema_of(kind.status)))
    version = {
        "name": kind.resource.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [printer_column(*column) for column in kind.columns],
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema | validations(kind.rules)},
    }
    return definition_of(kind.resource, names, [version])


def _with_first_status(schema: Definition) -> Definition:
    """An object has a status from the start, so that its columns are never empty."""
    properties = schema["properties"].items()
    return schema | {"default": {name: part["default"] for name, part in properties if "default" in part}}
