"""What the API server checks beyond types and bounds: CEL rules, and which lists are sets or maps. Asked by
`crds_schema`.

Rules stand beside the Struct (or the field of one) they are about. Each has a sentence for the person whose object was
refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from growth.model.nodepool import DisruptionBudget, NodePoolSpec, NodePoolStatus, ServerTypeChoice
from growth.model.noderequest import (
    NodeRemovalRequestSpec,
    NodeRemovalRequestStatus,
    NodeRequestSpec,
    NodeRequestStatus,
)
from growth.model.poolautoscaler import (
    CapacityPolicy,
    PodExpression,
    PodSelector,
    PoolAutoscalerSpec,
    PoolAutoscalerStatus,
)

Place: TypeAlias = type | tuple[type, str]
Rule: TypeAlias = tuple[str, str]

_OUR_LABELS: Final = "['growth.dev/pool', 'growth.dev/offering', 'growth.dev/node-request', 'kubernetes.io/hostname']"

_PERCENT: Final = "int(string(self.{0}).replace('%', ''))"
_TARGET_PERCENT, _TOLERANCE_PERCENT = _PERCENT.format("targetAvailable"), _PERCENT.format("tolerance")
# a count against a count, a share against a share, a share of a count; a count against a share cannot be compared
_TOLERANCE: Final = (
    "!has(self.tolerance) || (type(self.targetAvailable) == int ? "
    "(type(self.tolerance) == int ? int(self.tolerance) < int(self.targetAvailable) : "
    f"(int(self.targetAvailable) * {_TOLERANCE_PERCENT} + 99) / 100 < int(self.targetAvailable)) : "
    f"(type(self.tolerance) == int || {_TOLERANCE_PERCENT} < {_TARGET_PERCENT}))"
)

_ABOUT_OUR_LABELS: Final = (
    "growth itself writes growth.dev/pool, growth.dev/offering, growth.dev/node-request and kubernetes.io/hostname"
)

RULES: Final[Mapping[Place, tuple[Rule, ...]]] = {
    ServerTypeChoice: (
        ("!has(self.max) || !has(self.min) || self.min <= self.max", "min must not be larger than max"),
    ),
    (NodePoolSpec, "server_types"): (
        (
            "self.all(one, self.exists_one(other, other.name.lowerAscii() == one.name.lowerAscii()))",
            "each server type may be named once only; case does not matter",
        ),
    ),
    (NodePoolSpec, "labels"): (
        (
            f"self.all(key, !(key in {_OUR_LABELS}))",
            _ABOUT_OUR_LABELS,
        ),
        ("self.all(key, size(key) <= 317)", "a label key has at most 317 characters"),
    ),
    (NodePoolSpec, "annotations"): (
        ("self.all(key, size(key) <= 317)", "an annotation key has at most 317 characters"),
    ),
    DisruptionBudget: (
        ("has(self.schedule) == has(self.durationSeconds)", "schedule and durationSeconds go together"),
        ("!has(self.timeZone) || has(self.schedule)", "timeZone needs a schedule"),
    ),
    NodeRequestSpec: (("self == oldSelf", "a NodeRequest's spec cannot be changed: it records what was ordered"),),
    (NodeRequestSpec, "pool"): (
        ("size(self) <= 40", "a pool's name has at most 40 characters: it is part of its nodes' names"),
    ),
    (NodeRequestSpec, "resources"): (
        ("self.all(key, size(key) <= 317)", "a resource name has at most 317 characters"),
    ),
    NodeRequestStatus: (
        (
            "self.phase == oldSelf.phase || self.phase != 'Pending'",
            "a NodeRequest that has left Pending does not go back",
        ),
    ),
    NodeRemovalRequestSpec: (
        (
            "self.nodeName == oldSelf.nodeName && self.pool == oldSelf.pool",
            "a NodeRemovalRequest is about one node: nodeName and pool cannot be changed",
        ),
    ),
    PoolAutoscalerSpec: (
        (
            "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
            "minReplicas must not be larger than maxReplicas",
        ),
        (
            "!(has(self.cronPolicies) && size(self.cronPolicies) > 0 && has(self.capacityPolicy))",
            "cronPolicies and capacityPolicy cannot be used together",
        ),
    ),
    CapacityPolicy: ((_TOLERANCE, "tolerance must be smaller than targetAvailable"),),
    PodExpression: (
        (
            "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0",
            "In and NotIn need values, Exists and DoesNotExist take none",
        ),
    ),
    (PodSelector, "match_labels"): (("self.all(key, size(key) <= 317)", "a label key has at most 317 characters"),),
    NodeRemovalRequestStatus: (
        (
            "self.phase == oldSelf.phase || self.phase != 'Pending'",
            "a removal that has begun does not go back to Pending",
        ),
        (
            "self.phase == oldSelf.phase || oldSelf.phase != 'RemovalFailed'",
            "RemovalFailed is final: delete the NodeRemovalRequest to try again",
        ),
    ),
}

LIST_KEYS: Final[Mapping[tuple[type[Struct], str], tuple[str, ...]]] = {
    (NodePoolSpec, "server_types"): ("name",),
    (NodePoolSpec, "taints"): ("key", "effect"),
    (NodePoolSpec, "startup_taints"): ("key", "effect"),
    (NodePoolStatus, "conditions"): ("type",),
    (NodePoolStatus, "offerings"): ("name", "location"),
    (NodeRequestStatus, "conditions"): ("type",),
    (NodeRemovalRequestStatus, "conditions"): ("type",),
    (PoolAutoscalerSpec, "cron_policies"): ("name",),
    (PoolAutoscalerStatus, "conditions"): ("type",),
    (PoolAutoscalerStatus, "applied_cron_policies"): ("name",),
}

SETS: Final[frozenset[tuple[type[Struct], str]]] = frozenset(
    {(NodePoolSpec, "locations"), (NodePoolSpec, "architectures"), (NodePoolSpec, "allowed_namespaces")}
)
