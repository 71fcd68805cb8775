"""Namespaces, DaemonSets, budgets and priority classes, from bytes to nouns. Asked by the codec; raises
UnreadableError.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from growth.kube.codec.pod import PodDecoder
from growth.kube.codec.rules import label_selector
from growth.kube.codec.text import UnreadableError, read, read_raw_labels
from growth.kube.codec.wire import WireMeta
from growth.kube.codec.wire_cluster import (
    WireBudget,
    WireBudgetSpec,
    WireBudgetStatus,
    WireDaemonSet,
    WireNamespace,
    WirePriorityClass,
)
from growth.model.disruption import PodDisruptionBudget, PriorityClass
from growth.model.labels import Labels
from growth.model.snapshot import DaemonSet

_namespace = msgspec.json.Decoder(WireNamespace)
_daemon_set = msgspec.json.Decoder(WireDaemonSet)
_budget = msgspec.json.Decoder(WireBudget)
_priority_class = msgspec.json.Decoder(WirePriorityClass)

_NO_META = WireMeta()


def read_namespace(raw: Raw | bytes) -> Labels:
    return read_raw_labels((read(_namespace, raw, "Namespace").metadata or _NO_META).labels)


def read_daemon_set(raw: Raw | bytes, pods: PodDecoder) -> DaemonSet:
    wire = read(_daemon_set, raw, "DaemonSet")
    meta = wire.metadata or _NO_META
    if wire.spec is None:
        raise UnreadableError("spec: there is none")
    shape = pods.decode_template(wire.spec.template, meta.namespace or "")
    if shape.malformed:
        raise UnreadableError(f"spec.template: {shape.malformed}")
    return DaemonSet(f"{meta.namespace or ''}/{meta.name or ''}", shape)


def read_budget(raw: Raw | bytes) -> PodDisruptionBudget:
    wire = read(_budget, raw, "PodDisruptionBudget")
    meta, spec, status = wire.metadata or _NO_META, wire.spec or WireBudgetSpec(), wire.status or WireBudgetStatus()
    return PodDisruptionBudget(
        namespace=meta.namespace or "",
        name=meta.name or "",
        selector=label_selector(spec.selector),
        disruptions_allowed=max(0, status.disruptions_allowed or 0),
        is_current=(status.observed_generation or 0) >= (meta.generation or 0),
        lets_unhealthy_go=spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        uid=meta.uid or "",
    )


def read_priority_class(raw: Raw | bytes) -> PriorityClass:
    wire = read(_priority_class, raw, "PriorityClass")
    return PriorityClass((wire.metadata or _NO_META).name or "", wire.value or 0, bool(wire.global_default))
