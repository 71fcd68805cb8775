"""How long from the first pod's creation until the last is bound, and what does it cost? growth as a process of its own
on a real control plane, machines played by kwok, and the inputs on which its peer was measured.

    GROWTH_BENCH_DATA=… python -m bench.wholeway [--only generic_1000] [--json]

| figure | |
| --- | --- |
| seconds | from the first request that makes a pod to the last binding, by the audit log |
| floor_seconds | the same loader, then nothing but Binding requests, as many: what this API server can do |
| cpu_seconds, mib | of growth and its worker, from the first pod on; the most memory they held |
| price, gap | of the nodes in the end, per hour; and in percent over what is proven for one plan of all pods |
| created, planned, ordered, ready | when the last pod was made, NodeRequest written, Node made, Node taken up by kwok |
| requests, most | what growth asked the API server for, and the three kinds it asked for most |

With all four, a row more for each kind says how many times as much CPU twice as many pods take.
The pool has had one node before, as in a cluster that is in use: a pool that has never worked orders five at first."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from bench.report import Report, family_cpu_seconds, family_peak_mib, main, parser
from bench.solver_inputs import data_folder, read_peer
from growth.cli.plan.files import read_offerings
from growth.model.instant import parse_instant
from growth.model.labels import INSTANCE_TYPE, ZONE
from growth.model.offering import Offering
from growth.model.resources import CPU, MEMORY, PODS, format_amount
from growth.solver.purchase.solve import solve
from tests.e2e.controlplane import build
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.crowd import bind_blindly, create, empty, nodes, wait_until_bound
from tests.e2e.running import USER, node_pool, running_growth

Json = dict[str, Any]
CATALOGUE = "kwok"
KINDS = ("generic", "diverse")
CASES = tuple(f"{kind}_{pods}" for kind in KINDS for pods in (1000, 5000))
LIMITS: Mapping[str, Mapping[str, float]] = {
    "generic_1000": {"seconds": 7, "cpu_seconds": 1.2, "gap": 0.5},
    "generic_5000": {"seconds": 25, "cpu_seconds": 5.5, "mib": 200, "gap": 0.5},
    "diverse_1000": {"seconds": 15, "gap": 2},
    "diverse_5000": {"seconds": 90, "cpu_seconds": 25, "gap": 2},
}
LONGEST_SECONDS = 900.0


def run(chosen: argparse.Namespace) -> Report:
    data = data_folder()
    if data is None:
        raise SystemExit("GROWTH_BENCH_DATA names no folder with the peer's inputs (peer_bench)")
    report = Report("the whole way: from the first pod to the last binding, on a real control plane")
    with tempfile.TemporaryDirectory() as folder, ControlPlane(build.obtain(print), Path(folder)) as cluster:
        for name in [chosen.only] if chosen.only else CASES:
            report.add(name, **_measure(cluster, Path(folder), data, name))
            for figure, most in LIMITS[name].items():
                report.limit(name, figure, most)
            floor = report.cases[name]["floor_seconds"]
            if name == "generic_5000" and isinstance(floor, float):
                report.limit(name, "seconds", min(25.0, 1.35 * floor + 3))
    for kind in () if chosen.only else KINDS:
        report.twice(f"{kind}_1000", f"{kind}_5000", {"cpu_seconds": 2.1}, size=5)
    return report


def _measure(cluster: ControlPlane, folder: Path, data: Path, name: str) -> dict[str, float | int | str]:
    pods = read_pods(data, name)
    offerings = read_offerings(data / "peer_bench" / "catalogs" / f"{CATALOGUE}.json")
    floor = _floor(cluster, pods)
    empty(cluster)
    catalogue = folder / "catalogue.yaml"
    catalogue.write_text(yaml.safe_dump(as_catalogue(offerings)))
    types = list(dict.fromkeys(offering.server_type for offering in offerings))
    settings = {
        "catalogue": str(catalogue),
        "logLevel": "warning",
        "plans": {"scaleDownDelaySeconds": 5, "limits": {"nodes": 10_000, "pricePerHour": "100000"}},
    }
    with running_growth(cluster, folder, settings) as growth:
        cluster.apply(node_pool("default", *types))
        _let_it_work_once(cluster, pods[0])
        with _spending(growth.pid) as spent:
            began_at = time.time()
            create(cluster, pods)
            wait_until_bound(cluster, LONGEST_SECONDS)
        line = TimeLine(cluster)
        price = _price(cluster.objects("nodes"), offerings)
    proven = solve(read_peer(data, CATALOGUE, name)).lower_bound
    return {
        "seconds": line.bound_at - began_at,
        "floor_seconds": floor,
        "cpu_seconds": spent.cpu_seconds,
        "mib": spent.mib,
        "price": price,
        "gap": 100 * (price / proven - 1),
        **{moment: at - began_at for moment, at in line.moments().items()},
        "requests": line.requests.total(),
        "most": ", ".join(f"{what} {count}" for what, count in line.requests.most_common(3)),
    }


def read_pods(data: Path, name: str) -> list[Json]:
    """As the API server takes them: a UID is its own to give."""
    found = msgspec.json.decode((data / "peer_bench" / "inputs" / f"{name}.json").read_bytes())["pods"]
    return [
        {**pod, "apiVersion": "v1", "kind": "Pod", "metadata": {**pod["metadata"], "uid": None, "namespace": "default"}}
        for pod in found
    ]


def as_catalogue(offerings: Iterable[Offering]) -> Json:
    """The peer's machine types as a catalogue of the kwok provider."""
    types: dict[str, Json] = {}
    for offering in offerings:
        amounts = {name: format_amount(name, offering.allocatable[name]) for name in (CPU, MEMORY)}
        labels = {key: value for key, value in offering.labels.items() if key not in (INSTANCE_TYPE, ZONE)}
        one = types.setdefault(
            offering.server_type,
            {
                "name": offering.server_type,
                **amounts,
                "allocatable": amounts,
                "architecture": labels.get("kubernetes.io/arch", "amd64"),
                "pods": offering.allocatable[PODS],
                "labels": {key: value for key, value in labels.items() if "kubernetes.io" not in key},
                "pricePerHour": {},
            },
        )
        one["pricePerHour"][offering.location] = offering.price_per_hour
    zones = dict.fromkeys(offering.location for offering in offerings)
    return {
        "provider": "kwok",
        "locations": [{"name": zone} for zone in zones],
        "serverTypes": list(types.values()),
    }


def _floor(cluster: ControlPlane, pods: list[Json]) -> float:
    """Pods of nobody's scheduler, made by the same loader, then bound blindly."""
    empty(cluster)
    targets = nodes(100)
    create(cluster, targets)
    alone = [{**pod, "spec": {**pod["spec"], "schedulerName": "nobody"}} for pod in pods]
    began_at = time.monotonic()
    create(cluster, alone)
    bind_blindly(cluster, [pod["metadata"]["name"] for pod in alone], [node["metadata"]["name"] for node in targets])
    return time.monotonic() - began_at


def _let_it_work_once(cluster: ControlPlane, pod: Json) -> None:
    """The first node of the pool comes, serves and goes again."""
    first = {**pod, "metadata": {"name": "first", "namespace": "default"}}
    create(cluster, [first])
    wait_until_bound(cluster, 120)
    cluster.wait_until(lambda: _has_worked(cluster), "the pool to know that its machine was of use", 120)
    cluster.kubectl("delete", "pod", "first", "--wait=true")
    cluster.wait_until(lambda: not cluster.objects("nodes"), "the first node to go", 180)
    cluster.forget_audit_events()


def _has_worked(cluster: ControlPlane) -> bool:
    (pool,) = cluster.objects("nodepools")
    return bool(pool.get("status", {}).get("trials", {}).get("workedAt"))


def _price(found: Iterable[Json], offerings: Iterable[Offering]) -> float:
    prices = {(each.server_type.lower(), each.location): each.price_per_hour for each in offerings}
    labels = [node["metadata"]["labels"] for node in found]
    return sum(prices[each[INSTANCE_TYPE].lower(), each[ZONE]] for each in labels)


# ------------------------------------------------------------------------------- what growth needed


@dataclass
class Spent:
    cpu_seconds: float = 0.0
    mib: float = 0.0


@contextmanager
def _spending(process: int) -> Iterator[Spent]:
    """CPU time of a process and its children, the ended ones too, and the most memory those that live held at once."""
    spent, before = Spent(), family_cpu_seconds(process)
    yield spent
    spent.cpu_seconds = family_cpu_seconds(process) - before
    spent.mib = family_peak_mib(process)


# --------------------------------------------------------------------------------- when what happened


@dataclass
class TimeLine:
    """By the audit log: the last time that each thing was done for the first time."""

    cluster: ControlPlane
    created: float = 0.0
    planned: float = 0.0
    ordered: float = 0.0
    ready: float = 0.0
    bound_at: float = 0.0
    requests: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        served: set[str] = set()
        for event in self.cluster.audit_events():
            what, at = f"{event.verb} {event.resource}", parse_instant(event.stage_timestamp)
            if event.user_name == USER and event.stage == "ResponseComplete":
                self.requests[what] += 1
            if event.code not in (200, 201):
                continue
            if what == "create pods":
                self.created = at
            elif what == "create noderequests":
                self.planned = at
            elif what == "create nodes":
                self.ordered = at
            elif what == "patch nodes/status" and event.object_ref.name not in served:
                served.add(event.object_ref.name)
                self.ready = at
            elif what == "create pods/binding":
                self.bound_at = at

    def moments(self) -> dict[str, float]:
        return {"created": self.created, "planned": self.planned, "ordered": self.ordered, "ready": self.ready}


def arguments() -> argparse.ArgumentParser:
    known = parser(__doc__)
    known.add_argument("--only", choices=CASES, help="one case alone")
    return known


if __name__ == "__main__":
    sys.exit(main(arguments(), run))
