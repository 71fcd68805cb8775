"""What is put to the solver in its benchmark, and what another planner made of the same input. Asked by `bench.solver`.

Inputs that are too large for the repository lie in the folder that GROWTH_BENCH_DATA names; without it those cases are
left out."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from bench.generated import POOL, deployments_over_nodes, generate, over_nodes
from growth.cli.plan import ask
from growth.cli.plan.files import read_files
from growth.model.labels import INSTANCE_TYPE, Labels
from growth.model.offering import Offering
from growth.model.pod import PodShape
from growth.model.resources import Resources
from growth.model.settings import Settings
from growth.solver.patterns.stock import Budget
from growth.solver.purchase.problem import Choice, DemandClass, PlacementProblem
from growth.solver.purchase.solve import solve

_MIB: Final = 1 << 20
_PRICE_PER_CORE, _PRICE_PER_GIB, _PRICE_PER_GPU = 0.03, 0.004, 0.60
_GPU: Final = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Peer:
    """Karpenter 1.15 on the same input: nodes, price per hour, CPU seconds of one solve on the same kind of machine."""

    nodes: int
    price: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Case:
    """One input, what the peer made of it, and what the answer must hold to."""

    name: str
    problem: Callable[[], PlacementProblem]
    peer: Peer | None = None
    most_gap_percent: float | None = None
    most_cpu_seconds: float | None = None
    least_saved_percent: float | None = None
    most_mib: float | None = None


PEER: Final = {
    "fake400": {
        "generic_1000": Peer(3, 255.9, 0.58), "generic_5000": Peer(12, 1402, 3.8), "generic_10000": Peer(24, 2952, 8.9),
        "diverse_1000": Peer(200, 342.1, 6.9), "diverse_5000": Peer(1000, 1741, 41),
        "zonespread_1000": Peer(3, 215.9, 1.4),
    },
    "kwok": {
        "generic_1000": Peer(3, 19.52, 0.13), "generic_5000": Peer(14, 97.72, 1.5),
        "generic_10000": Peer(28, 195.2, 4.8),
        "diverse_1000": Peer(200, 29.15, 1.2), "diverse_5000": Peer(1000, 150.7, 12.4),
    },
    "hetzner_cx": {
        "generic_1000": Peer(50, 2.219, 0.50), "generic_5000": Peer(259, 11.46, 14.4),
        "generic_10000": Peer(517, 22.95, 53.8),
        "diverse_1000": Peer(200, 3.865, 0.37), "diverse_5000": Peer(1000, 19.52, 5.7),
    },
    "hetzner_like": {
        "generic_1000": Peer(16, 5.841, 0.20), "generic_5000": Peer(84, 30.66, 4.8),
        "generic_10000": Peer(168, 61.64, 19.5),
    },
}  # fmt: skip
_SAVED = {"fake400": 27.0, "kwok": 30.0, "hetzner_cx": 44.0}  # percent of the peer's price, for diverse inputs
_PREFERENCES = {"respect": Peer(1000, 944.2, 10.3), "ignore": Peer(6, 631.4, 0.9)}


def data_folder() -> Path | None:
    """Where the large inputs lie."""
    named = os.environ.get("GROWTH_BENCH_DATA", "")
    return Path(named) if named and Path(named, "peer_bench").is_dir() else None


def cases() -> list[Case]:
    """All that can be run here."""
    data = data_folder()
    if data is None:
        return _generated_cases()
    of_peer = [*_peer_cases(data), *_preference_cases(data), *_node_spread_cases(data), *_partial_cases(data)]
    return [*of_peer, _trace_case(data), *_generated_cases()]


# -------------------------------------------------------------------------------- the peer's inputs


def _peer_cases(data: Path) -> list[Case]:
    found = []
    for catalogue, inputs in PEER.items():
        for name, peer in inputs.items():
            mix, _, pods = name.partition("_")
            is_generic = mix == "generic"
            found.append(
                Case(
                    f"{catalogue}_{name}",
                    lambda catalogue=catalogue, name=name: read_peer(data, catalogue, name),  # type: ignore[misc]
                    peer,
                    most_gap_percent=(2.0 if pods == "1000" else 1.0) if is_generic else None,
                    most_cpu_seconds=1.0 if is_generic and pods != "1000" else None,
                    least_saved_percent=_SAVED[catalogue] if mix == "diverse" else 0.0,
                )
            )
    return found


def _preference_cases(data: Path) -> list[Case]:
    def made(policy: str) -> PlacementProblem:
        return replace(
            read_peer(data, "fake400", "preference_1000"), preferences="Respect" if policy == "respect" else "Ignore"
        )

    return [
        Case(f"fake400_preference_1000_{policy}", lambda policy=policy: made(policy), peer)  # type: ignore[misc]
        for policy, peer in _PREFERENCES.items()
    ]


def read_peer(data: Path, catalogue: str, name: str) -> PlacementProblem:
    folder = data / "peer_bench"
    described = read_files(folder / "inputs" / f"{name}.json", folder / "catalogs" / f"{catalogue}.json")
    asked = ask(described.snapshot, Settings())
    if described.problems or asked is None:
        raise ValueError(f"{name} cannot be read: {described.problems}")
    return replace(asked.problem, limits=())  # the peer knows none, and a new pool's first machines are few


def _node_spread_cases(data: Path) -> list[Case]:
    """The peer's machines for Deployments that are spread over nodes, among other pods."""

    def made(catalogue: str) -> PlacementProblem:
        return replace(read_peer(data, catalogue, "generic_1000"), demands=deployments_over_nodes(1_000))

    return [
        Case(f"{catalogue}_nodespread_1000", lambda catalogue=catalogue: made(catalogue), most_gap_percent=3.0)  # type: ignore[misc]
        for catalogue in ("fake400", "kwok")
    ]


def _partial_cases(data: Path) -> list[Case]:
    """Of bursts that come kind by kind, what may be there when they are planned: the answer must not take longer than
    for all of it.
    """

    def made(name: str, is_there: Callable[[PodShape], bool]) -> PlacementProblem:
        whole = read_peer(data, "kwok", name)
        return replace(whole, demands=tuple(each for each in whole.demands if is_there(each.shape)))

    return [
        Case(
            "kwok_diverse_4000_none_apart",
            lambda: made("diverse_5000", lambda shape: not shape.anti_affinity),
            most_cpu_seconds=5.0,
        ),
        Case(
            "kwok_diverse_400_plain_or_apart",
            lambda: made("diverse_1000", lambda shape: not (shape.affinity or shape.spread)),
            most_cpu_seconds=4.0,
        ),
    ]


# ------------------------------------------------------------------------------- a production trace


def _trace_case(data: Path) -> Case:
    return Case("trace_8152", lambda: read_trace(data), most_gap_percent=2.0)


def read_trace(data: Path) -> PlacementProblem:
    """A production cluster's pods, all at once, on its own machine types; a share of a GPU counts as one."""
    with (data / "openb_pods.csv").open(newline="") as file:
        sizes = Counter(
            (int(row["cpu_milli"]), int(row["memory_mib"]), int(row["num_gpu"])) for row in csv.DictReader(file)
        )
    with (data / "openb_nodes.csv").open(newline="") as file:
        types = sorted(
            {
                (int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
                for row in csv.DictReader(file)
            }
        )
    demands = tuple(DemandClass(PodShape(requests=_amounts(*size)), count, (POOL,)) for size, count in sizes.items())
    return PlacementProblem(demands=demands, choices=tuple(_machine(*one) for one in types))


def _amounts(milli: int, mebibytes: int, gpus: int) -> Resources:
    return Resources({"cpu": milli, "memory": mebibytes * _MIB, _GPU: gpus})


def _machine(milli: int, mebibytes: int, gpus: int, model: str) -> Choice:
    name = f"{milli // 1000}-{mebibytes // 1024}" + (f"-{gpus}-{model.lower()}" if gpus else "")
    price = _PRICE_PER_CORE * milli / 1000 + _PRICE_PER_GIB * mebibytes / 1024 + _PRICE_PER_GPU * gpus
    labels = Labels({INSTANCE_TYPE: name})
    allocatable = Resources({**_amounts(milli, mebibytes, gpus), "pods": 110})
    return Choice(POOL, Offering(f"trace-{name}", name, "trace", price, allocatable, labels), labels)


# ------------------------------------------------------------------------------------------ made up


def _generated_cases() -> list[Case]:
    found = [
        Case(
            f"pods_100000_classes_{classes}",
            lambda classes=classes: generate(100_000, classes),  # type: ignore[misc]
            None,
            1.5,
            seconds,
            most_mib=200.0,
        )
        for classes, seconds in ((50, 1.0), (100, 1.0), (300, 5.0))
    ]
    cold = Case("pods_10000_classes_300_cold", lambda: generate(10_000, 300, apart=0.1, limited=True), None, 4.0, 1.0)
    warm = Case("pods_10000_classes_300_warm", _warm, None, 2.5, 1.0)
    over = [
        Case(
            f"pods_1000_nodespread{f'_beside_{rooms}' if rooms else ''}",
            lambda rooms=rooms: over_nodes(1_000, rooms),  # type: ignore[misc]
            most_gap_percent=3.0,
        )
        for rooms in (0, 30)
    ]
    return [*found, cold, warm, *over, *_cases_of_many_classes()]


def _cases_of_many_classes() -> list[Case]:
    """As many classes as there are pods, in the end: also spread over zones, and one pod of a class on a node."""

    def made(classes: int, kind: str) -> PlacementProblem:
        apart, spread = float(kind == "apart"), float(kind == "spread")
        return generate(10_000, classes, apart=apart, spread=spread, zones=3)

    return [
        Case(
            f"pods_10000_classes_{classes}{f'_{kind}' if kind else ''}",
            lambda classes=classes, kind=kind: made(classes, kind),  # type: ignore[misc]
            most_gap_percent=4.0 if kind else most_gap,
            most_cpu_seconds=10.0 if kind else 5.0,
            most_mib=600.0 if kind else 400.0,
        )
        for kind in ("", "spread", "apart")
        for classes, most_gap in ((300, 1.0), (1_000, 1.5), (2_000, 2.0), (5_000, 2.0), (10_000, 2.0))
    ] + [
        Case(
            f"within_a_second_classes_{classes}{f'_{kind}' if kind else ''}",
            lambda classes=classes, kind=kind: replace(made(classes, kind), budget=Budget.for_seconds(1)),  # type: ignore[misc]
            most_cpu_seconds=1.5,
            most_mib=400.0,
        )
        for kind in ("", "spread", "apart")
        for classes in (1, 30, 300, 1_000, 5_000, 10_000)
    ]


def _warm() -> PlacementProblem:
    """The next question in a cluster: other counts of the same classes, and what was learnt from the last one."""
    problem = generate(10_000, 300, apart=0.1, limited=True)
    known = solve(problem).patterns
    demands = tuple(
        replace(demand, count=max(1, round(demand.count * (0.8 + 0.4 * (number * 37 % 100) / 100))))
        for number, demand in enumerate(problem.demands)
    )
    return replace(problem, demands=demands, patterns=known)
