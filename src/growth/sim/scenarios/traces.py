"""Which pods came and went in a real cluster? Reads a trace of arrivals, and machines from a list of nodes, both CSV.

Asked by `reader`. Columns that are not named here are ignored.

| of pods | means |
| --- | --- |
| name, cpu_milli, memory_mib | the pod and what it asks for |
| num_gpu, gpu_milli | so many devices, of each this many thousandths: a resource of its own, growth.dev/gpu-milli |
| gpu_spec | models that will do, separated by bars: a node label, growth.dev/gpu-model |
| creation_time, deletion_time | when it comes and goes, in the trace's unit; without the second it stays |

| of nodes | means |
| --- | --- |
| cpu_milli, memory_mib, gpu, model | what a machine has; equal ones are a server type, in stock as often as listed |
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from growth.model.node import POOL_LABEL
from growth.sim.apiserver.kinds import Json
from growth.sim.scenarios.file import Trace

SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
GPU_MILLI: Final = "growth.dev/gpu-milli"
GPU_MODEL: Final = "growth.dev/gpu-model"
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NEEDED: Final = ("name", "cpu_milli", "memory_mib", "creation_time")


class TraceError(ValueError):
    """The file is no trace; says which line and why."""


class Arrival(Struct, frozen=True):
    """A pod, when it comes, and when it goes (None: it stays). Times are seconds from the first arrival."""

    at: float
    until: float | None
    pod: Json


def read_trace(path: Path, trace: Trace) -> tuple[Arrival, ...]:
    """All arrivals, in the order of their times."""
    rows, unit = list(_rows(path, _NEEDED)), _UNITS[trace.time_unit]
    times = [_number(path, line, row, "creation_time") * unit for line, row in rows]
    first = min(times, default=0.0)
    found = []
    for (line, row), at in zip(rows, times, strict=True):
        ends = _number(path, line, row, "deletion_time") * unit if row.get("deletion_time") else None
        if ends is not None and ends < at:
            raise TraceError(f"{path}:{line}: {row['name']} goes before it comes")
        pod = _pod(path, line, row, trace)
        found.append(Arrival(at - first, None if ends is None else ends - first, pod))
    return tuple(sorted(found, key=lambda each: each.at))


def _rows(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[int, Mapping[str, str]]]:
    with path.open(encoding="utf-8", newline="") as opened:
        reader = csv.DictReader(opened)
        missing = [name for name in needed if name not in (reader.fieldnames or ())]
        if missing:
            raise TraceError(f"{path}:1: no column {', '.join(missing)}")
        yield from enumerate(reader, 2)


def _number(path: Path, line: int, row: Mapping[str, str], name: str) -> float:
    try:
        return float(row.get(name) or 0)
    except ValueError:
        raise TraceError(f"{path}:{line}: {name} is {row[name]!r}, not a number") from None


def _pod(path: Path, line: int, row: Mapping[str, str], trace: Trace) -> Json:
    cpu, memory, gpus, milli = (
        int(_number(path, line, row, name)) for name in ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    )
    requests: dict[str, Any] = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    if gpus:
        requests[GPU_MILLI] = str(gpus * (milli or 1000))
    container: Json = {"name": "main", "image": "trace", "resources": {"requests": requests}}
    container["resources"]["limits"] = {GPU_MILLI: requests[GPU_MILLI]} if gpus else {}
    spec: Json = {"containers": [container], "nodeSelector": {POOL_LABEL: trace.pool} if trace.pool else {}}
    models = [model for model in (row.get("gpu_spec") or "").split("|") if model]
    if models:
        term = {"matchExpressions": [{"key": GPU_MODEL, "operator": "In", "values": models}]}
        wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec["affinity"] = {"nodeAffinity": wanted}
    if trace.priority_class:
        spec["priorityClassName"] = trace.priority_class
    metadata: Json = {"name": row["name"], "namespace": "default", "labels": {"growth.dev/trace": path.stem}}
    if trace.made_again:
        metadata["annotations"] = {SAFE_TO_EVICT: "true"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def catalogue_of_nodes(path: Path, prices: Mapping[str, float]) -> Json:
    """A catalogue of the machines in a list of nodes. Prices are for a core, a GiB and a device an hour: keys `cpu`,
    `memoryGib`, `gpu` for any model, or a model's own name."""
    if not {"cpu", "memoryGib"} <= prices.keys():
        raise TraceError(f"{path}: a list of nodes has no prices: give `prices` for cpu and memoryGib, and for GPUs")
    rows = [row for _, row in _rows(path, ("cpu_milli", "memory_mib"))]
    kinds = Counter(
        (row["cpu_milli"], row["memory_mib"], row.get("gpu") or "0", row.get("model") or "") for row in rows
    )
    types = [_server_type(*kind, count, prices) for kind, count in sorted(kinds.items())]
    return {"provider": "sim", "locations": [{"name": "here"}], "serverTypes": types}


def _server_type(cpu: str, memory: str, gpus: str, model: str, count: int, prices: Mapping[str, float]) -> Json:
    cores, gib, devices = int(cpu) / 1000, int(memory) / 1024, int(gpus)
    of_gpu = prices.get(model, prices.get("gpu", 0.0)) if devices else 0.0
    price = cores * prices["cpu"] + gib * prices["memoryGib"] + devices * of_gpu
    exact = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    devices_too = {GPU_MILLI: str(devices * 1000)} if devices else {}
    return {
        "name": f"c{cores:g}-m{gib:g}" + (f"-{devices}x{model}" if devices else ""),
        **exact,
        "allocatable": exact,
        "resources": devices_too,
        "labels": {GPU_MODEL: model} if model else {},
        "pricePerHour": round(price, 6),
        "stock": {"here": count},
    }
