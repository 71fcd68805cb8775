"""What are Karpenter's NodePools in growth's words?

| Karpenter's NodePool | growth's NodePool |
| --- | --- |
| `weight` | `priority` |
| `limits`: cpu, memory, nodes | `limits` |
| `template.metadata.labels`, `annotations` | `labels`, `annotations` |
| `template.spec.taints`, `startupTaints` | `taints`, `startupTaints` |
| requirement instance-type In | `serverTypes` |
| requirement zone or region In | `locations` |
| requirement arch In | `architectures` |
| a requirement In with one value | a label: pods that ask for it find it |
| `template.spec.expireAfter` | `expireAfterSeconds` |
| `disruption.consolidationPolicy` | WhenEmpty: `WhenEmpty`; WhenEmptyOrUnderutilized: `Full` |
| `disruption.consolidateAfter` | `scaleDownDelaySeconds`; Never: `consolidation: Off` |
| `disruption.budgets` without reasons | `budgets` |
| anything else | named in a comment |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from growth.cli.imports.translation import Translation, chosen_types, seconds_of
from growth.model.labels import ARCHITECTURE, INSTANCE_TYPE, REGION, ZONE

_GROUP: Final = "karpenter.sh/"
_MODES: Final = {"WhenEmpty": "WhenEmpty", "WhenEmptyOrUnderutilized": "Full", "WhenUnderutilized": "Full"}
_LIMITS: Final = ("cpu", "memory", "nodes")
_CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
_TEMPLATE: Final = ("requirements", "taints", "startupTaints", "expireAfter", "nodeClassRef")

Json = Mapping[str, Any]


def pools_of_karpenter(text: str, server_types: Sequence[str] = ()) -> Translation:
    """`server_types`: what pools buy instead of their own instance types."""
    pools: dict[str, Json] = {}
    of_pool: dict[str, tuple[str, ...]] = {}
    for item in _pools_in(text):
        name, notes = str(item.get("metadata", {}).get("name", "")), list[str]()
        pools[name] = _spec(item.get("spec") or {}, server_types, notes)
        of_pool[name] = tuple(notes)
    return Translation(pools, of_pool=of_pool)


def _pools_in(text: str) -> Iterator[Json]:
    for document in yaml.safe_load_all(text):
        items = document.get("items", [document]) if isinstance(document, dict) else ()
        for item in items:
            is_pool = isinstance(item, dict) and item.get("kind") == "NodePool"
            if is_pool and str(item.get("apiVersion", "")).startswith(_GROUP):
                yield item


def _spec(given: Json, server_types: Sequence[str], notes: list[str]) -> Json:
    template = given.get("template") or {}
    meta, inner = template.get("metadata") or {}, template.get("spec") or {}
    wanted = _Requirements(inner.get("requirements") or (), notes)
    spec: dict[str, Any] = {
        "serverTypes": chosen_types(wanted.server_types, server_types, notes),
        "priority": given.get("weight"),
        "locations": wanted.locations,
        "architectures": wanted.architectures,
        "labels": {**wanted.labels, **(meta.get("labels") or {})},
        "annotations": meta.get("annotations"),
        "taints": [_taint(each) for each in inner.get("taints") or ()],
        "startupTaints": [_taint(each) for each in inner.get("startupTaints") or ()],
        "limits": _limits(given.get("limits") or {}, notes),
        "expireAfterSeconds": seconds_of(str(inner.get("expireAfter", ""))),
        **_disruption(given.get("disruption") or {}, notes),
    }
    if inner.get("nodeClassRef"):
        notes.append("its node class (image, network, disks) is growth's provider settings: see providerSettings")
    unknown = sorted(set(inner) - set(_TEMPLATE))
    notes += [f"not taken over: template.spec.{field}" for field in unknown]
    return {name: value for name, value in spec.items() if value not in (None, [], {}, ())}


def _taint(given: Json) -> Json:
    return {key: given[key] for key in ("key", "value", "effect") if given.get(key)}


def _limits(given: Json, notes: list[str]) -> Json:
    notes += [f"not taken over: limit {name}" for name in given if name not in _LIMITS]
    found: dict[str, Any] = {name: str(given[name]) for name in ("cpu", "memory") if name in given}
    return found | ({"nodes": int(given["nodes"])} if "nodes" in given else {})


class _Requirements:
    """What a pool's requirements say of machines; the others are named."""

    def __init__(self, given: Sequence[Json], notes: list[str]) -> None:
        self.server_types: list[str] = []
        self.locations: list[str] = []
        self.architectures: list[str] = []
        self.labels: dict[str, str] = {}
        places = {
            INSTANCE_TYPE: self.server_types,
            ZONE: self.locations,
            REGION: self.locations,
            ARCHITECTURE: self.architectures,
        }
        for each in given:
            key, operator, values = each.get("key", ""), each.get("operator", ""), list(each.get("values") or ())
            if operator == "In" and key in places:
                places[key] += values
            elif operator == "In" and len(values) == 1 and not key.startswith(_GROUP):
                self.labels[key] = values[0]
            elif key == _CAPACITY_TYPE and "on-demand" in values:
                continue  # the only kind that growth buys
            else:
                notes.append(f"not taken over: requirement {key} {operator} {', '.join(map(str, values))}".rstrip())


def _disruption(given: Json, notes: list[str]) -> Json:
    after, mode = str(given.get("consolidateAfter", "")), _MODES.get(str(given.get("consolidationPolicy", "")), "Full")
    budgets = [_budget(each) for each in given.get("budgets") or () if not each.get("reasons")]
    notes += [
        f"not taken over: a budget for {', '.join(each['reasons'])} alone"
        for each in given.get("budgets") or ()
        if each.get("reasons")
    ]
    return {
        "consolidation": "Off" if after == "Never" else mode,
        "scaleDownDelaySeconds": seconds_of(after),
        "budgets": budgets,
    }


def _budget(given: Json) -> Json:
    found = {"nodes": str(given.get("nodes", "10%")), "schedule": given.get("schedule")}
    found["durationSeconds"] = seconds_of(str(given.get("duration", "")))
    return {name: value for name, value in found.items() if value is not None}
