"""What are Cluster Autoscaler's flags in growth's words?

| flag | growth |
| --- | --- |
| `--nodes=1:10:CPX51:FSN1:pool1` (at Hetzner) | a NodePool: `serverTypes` with `min` and `max`, `locations` |
| `--nodes=1:10:group` (elsewhere) | a NodePool with `min`, `max` and the types you name |
| `--max-nodes-total`, `--cores-total`, `--memory-total` | `plans.limits` |
| `--scale-down-unneeded-time` | `scaleDownDelaySeconds` of each pool |
| `--scale-down-enabled=false` | `consolidation: Off` |
| `--max-node-provision-time` | `readinessWaitSeconds` of each pool |
| `--expendable-pods-priority-cutoff` | `plans.priorityCutoff` |
| `--skip-nodes-with-local-storage=false` | `plans.movesLocalData` |
| anything else about nodes | named in a comment |

The flags are read from the manifest of its Deployment, or from text that holds them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from growth.cli.imports.translation import Translation, chosen_types, seconds_of

_AT_HETZNER: Final = 5  # parts of --nodes
_WITHOUT_MEANING: Final = frozenset((
    "address", "alsologtostderr", "cloud-provider", "cloud-config", "cluster-name", "kubeconfig", "leader-elect",
    "logtostderr", "namespace", "skip-nodes-with-system-pods", "stderrthreshold", "v", "write-status-configmap",
))  # fmt: skip
_TAKEN: Final = frozenset((
    "nodes", "max-nodes-total", "cores-total", "memory-total", "scale-down-unneeded-time", "scale-down-enabled",
    "max-node-provision-time", "expendable-pods-priority-cutoff", "skip-nodes-with-local-storage",
))  # fmt: skip
_RANGE: Final = 2


def pools_of_flags(text: str, server_types: Sequence[str] = ()) -> Translation:
    """`server_types`: what groups buy that name no server type."""
    flags = list(_flags_in(text))
    last = dict(flags)
    pools: dict[str, Mapping[str, Any]] = {}
    of_pool: dict[str, tuple[str, ...]] = {}
    for value in (value for name, value in flags if name == "nodes"):
        notes = list[str]()
        name, spec = _pool(value, server_types, notes)
        pools[name] = {**spec, **_of_every_pool(last)}
        of_pool[name] = tuple(notes)
    left = sorted({name for name, _ in flags} - _TAKEN - _WITHOUT_MEANING)
    notes_of_all = [f"not taken over: --{name}={last[name]}" for name in left]
    return Translation(pools, _plans(last), tuple(notes_of_all), of_pool)


def _flags_in(text: str) -> Iterator[tuple[str, str]]:
    words = _words_of_manifest(text) or shlex.split(text, comments=True)
    for word in words:
        if word.startswith("-"):
            name, _, value = word.lstrip("-").partition("=")
            yield name, value or "true"


def _words_of_manifest(text: str) -> list[str]:
    """The command and arguments of all containers of all workloads in it; none: it is no manifest."""
    try:
        documents = [each for each in yaml.safe_load_all(text) if isinstance(each, dict) and "kind" in each]
    except yaml.YAMLError:
        return []
    items = [item for each in documents for item in each.get("items", [each])]
    specs = [((item.get("spec") or {}).get("template") or {}).get("spec") or item.get("spec") or {} for item in items]
    containers = [each for spec in specs for each in spec.get("containers") or ()]
    return [str(word) for each in containers for word in (*(each.get("command") or ()), *(each.get("args") or ()))]


def _pool(value: str, server_types: Sequence[str], notes: list[str]) -> tuple[str, dict[str, Any]]:
    parts = value.split(":")
    if len(parts) < _RANGE + 1 or not all(part.isdecimal() for part in parts[:_RANGE]):
        raise ValueError(f"--nodes={value}: it must begin with the least and the most nodes, as in 1:10:name")
    least, most, name = int(parts[0]), int(parts[1]), parts[-1]
    is_hetzner = len(parts) == _AT_HETZNER
    types = chosen_types([parts[2]] if is_hetzner else [], server_types, notes)
    if len(types) == 1:
        types[0] |= {"min": least, "max": most}
        limits = {}
    else:
        limits = {"nodes": most}
        if least:
            notes.append(f"it kept at least {least} nodes: write `min` to the server type that shall be kept")
    spec: dict[str, Any] = {"serverTypes": types, "limits": limits}
    if is_hetzner:
        spec["locations"] = [parts[3].lower()]
    return name.lower().replace("_", "-").replace(".", "-"), {key: each for key, each in spec.items() if each}


def _of_every_pool(flags: Mapping[str, str]) -> dict[str, Any]:
    found = {
        "consolidation": "Off" if flags.get("scale-down-enabled") == "false" else "Full",
        "scaleDownDelaySeconds": seconds_of(flags.get("scale-down-unneeded-time", "")),
        "readinessWaitSeconds": seconds_of(flags.get("max-node-provision-time", "")),
    }
    return {name: value for name, value in found.items() if value is not None}


def _plans(flags: Mapping[str, str]) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if flags.get("max-nodes-total", "0") != "0":
        limits["nodes"] = int(flags["max-nodes-total"])
    for flag, name, unit in (("cores-total", "cpu", ""), ("memory-total", "memory", "Gi")):
        if flag in flags:
            limits[name] = f"{flags[flag].partition(':')[2]}{unit}"
    plans: dict[str, Any] = {"limits": limits} if limits else {}
    if "expendable-pods-priority-cutoff" in flags:
        plans["priorityCutoff"] = int(flags["expendable-pods-priority-cutoff"])
    if flags.get("skip-nodes-with-local-storage") == "false":
        plans["movesLocalData"] = True
    return plans
