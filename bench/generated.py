"""Clusters to order, always the same for the same seed: pods in classes, machine types with limits. Asked by
`bench.solver` and by tests.

Requests look like those of real clusters: sizes over two orders of magnitude, from 0.5 to 8 GiB for each core, few
classes with many pods and many with few. Types are those of a cloud with shared, dedicated and arm64 machines; prices
are examples. Limits are such that the cheapest types run out. Classes that stand apart put one pod on a node, classes
that are spread have at most one pod more in one zone than in another. Deployments over nodes have 10 to 40 replicas,
spread over nodes with a skew of 1 or 2, among pods that no rule concerns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from growth.model.labels import ARCHITECTURE, HOSTNAME, INSTANCE_TYPE, ZONE, Labels, LabelSelector, Requirement
from growth.model.node import Node
from growth.model.offering import Offering
from growth.model.pod import PodAffinityTerm, PodShape, TopologySpread
from growth.model.resources import Resources, sum_resources
from growth.solver.purchase.problem import Choice, DemandClass, Limit, PlacementProblem, Room

POOL: Final = "default"
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
TYPES: Final = {  # cores, GiB, price per hour
    "cx22": (2, 4, 0.0052), "cx32": (4, 8, 0.0093), "cx42": (8, 16, 0.0225), "cx52": (16, 32, 0.0444),
    "cpx11": (2, 2, 0.0060), "cpx21": (3, 4, 0.0103), "cpx31": (4, 8, 0.0186), "cpx41": (8, 16, 0.0345),
    "cpx51": (16, 32, 0.0752),
    "ccx13": (2, 8, 0.0171), "ccx23": (4, 16, 0.0336), "ccx33": (8, 32, 0.0664), "ccx43": (16, 64, 0.1322),
    "ccx53": (32, 128, 0.2637), "ccx63": (48, 192, 0.3952),
    "cax11": (2, 4, 0.0052), "cax21": (4, 8, 0.0088), "cax31": (8, 16, 0.0171), "cax41": (16, 32, 0.0335),
}  # fmt: skip


def generate(
    pods: int,
    classes: int,
    *,
    apart: float = 0.0,
    spread: float = 0.0,
    limited: bool = False,
    zones: int = 1,
    seed: int = 0,
) -> PlacementProblem:
    """A problem of so many pods and classes; `apart` is the share of classes with anti-affinity, `spread` of those that
    are spread over zones.
    """
    random = np.random.default_rng(seed)
    demands = _demands(random, pods, classes, apart, spread)
    choices = tuple(_choice(name, f"zone-{zone}") for name in TYPES for zone in range(zones))
    limits = _limits(demands, choices) if limited else ()
    return PlacementProblem(demands=demands, choices=choices, limits=limits)


def _demands(
    random: np.random.Generator, pods: int, classes: int, apart: float, spread: float
) -> tuple[DemandClass, ...]:
    weights = 1.0 / np.arange(1, classes + 1) ** 0.7
    counts = np.maximum(1, np.floor(weights / weights.sum() * (pods - classes)).astype(np.int64) + 1)
    counts[0] += pods - int(counts.sum())
    random.shuffle(counts)
    cores = np.clip(np.round(np.exp(random.normal(-0.7, 0.9, classes)) * 20) / 20, 0.05, 14)
    gibibytes = np.clip(np.round(cores * np.exp(random.normal(0.8, 0.7, classes)) * 16) / 16, 0.0625, 60)
    architectures = random.choice(np.array(["", "amd64", "arm64"]), classes, p=[0.6, 0.35, 0.05])
    stands_apart = random.permutation(classes) < round(apart * classes)
    is_spread = random.permutation(classes) < round(spread * classes)
    return tuple(
        DemandClass(
            _shape(
                number,
                float(cores[number]),
                float(gibibytes[number]),
                str(architectures[number]),
                bool(stands_apart[number]),
                bool(is_spread[number]),
            ),
            int(count),
            (POOL,),
        )
        for number, count in enumerate(counts)
    )


def _shape(
    number: int, cores: float, gibibytes: float, architecture: str, stands_apart: bool, is_spread: bool
) -> PodShape:
    if architecture == "arm64":
        gibibytes = min(gibibytes, 24.0)  # arm64 machines have 32 GiB at most
    own = LabelSelector((Requirement("app", "In", (f"app-{number}",)),))
    return PodShape(
        labels=Labels({"app": f"app-{number}"}),
        requests=Resources({"cpu": round(cores * 1000), "memory": round(gibibytes * _GIB)}),
        node_selector=Labels({ARCHITECTURE: architecture}) if architecture else Labels(),
        anti_affinity=(PodAffinityTerm(HOSTNAME, own),) if stands_apart else (),
        spread=(TopologySpread(1, ZONE, "DoNotSchedule", own),) if is_spread else (),
    )


def _choice(name: str, zone: str) -> Choice:
    cores, gibibytes, price = TYPES[name]
    labels = Labels({INSTANCE_TYPE: name, ZONE: zone, ARCHITECTURE: "arm64" if name.startswith("cax") else "amd64"})
    allocatable = Resources(
        {"cpu": cores * 1000 - 100, "memory": round(gibibytes * _GIB * 0.96) - 100 * _MIB, "pods": 110}
    )
    return Choice(POOL, Offering(f"cloud-{name}", name, zone, price, allocatable, labels), labels)


def _limits(demands: tuple[DemandClass, ...], choices: tuple[Choice, ...]) -> tuple[Limit, ...]:
    """Of each type, in all its zones together, at most what a sixth of all cores asked for would take."""
    asked = sum(demand.count * demand.shape.requests["cpu"] for demand in demands)
    limits = []
    for name, (cores, _, _) in TYPES.items():
        of_type = tuple(index for index, choice in enumerate(choices) if choice.offering.server_type == name)
        limits.append(Limit(f"at most so many {name}", of_type, nodes=max(3, round(asked / 6 / (cores * 1000)))))
    return tuple(limits)


# --------------------------------------------------------------------------------------- over nodes

_CORES: Final = (100, 250, 500, 1000, 1500)  # thousandths
_MEBIBYTES: Final = (100, 256, 512, 1024, 2048, 4096)
_FEWEST_REPLICAS, _MOST_REPLICAS = 10, 40


def deployments_over_nodes(pods: int, share: float = 0.6, seed: int = 0) -> tuple[DemandClass, ...]:
    """So many pods, this share of them in Deployments whose replicas are spread over nodes."""
    random, found, left = np.random.default_rng(seed), list[DemandClass](), round(share * pods)
    while left > 0:
        replicas = min(left, int(random.integers(_FEWEST_REPLICAS, _MOST_REPLICAS + 1)))
        left -= replicas
        labels = {"app": f"app-{len(found)}"}
        over_nodes = TopologySpread(int(random.integers(1, 3)), HOSTNAME, "DoNotSchedule", _with(labels))
        shape = PodShape(labels=Labels(labels), requests=_requests(random), spread=(over_nodes,))
        found.append(DemandClass(shape, replicas, (POOL,)))
    plain = Counter(_requests(random) for _ in range(pods - round(share * pods)))
    return *found, *(DemandClass(PodShape(requests=size), count, (POOL,)) for size, count in plain.items())


def _with(labels: Mapping[str, str]) -> LabelSelector:
    return LabelSelector(tuple(Requirement(key, "In", (value,)) for key, value in labels.items()))


def _requests(random: np.random.Generator) -> Resources:
    return Resources({"cpu": int(random.choice(_CORES)), "memory": int(random.choice(_MEBIBYTES)) * _MIB})


def over_nodes(pods: int, rooms: int = 0) -> PlacementProblem:
    """Such pods on the types above, beside so many nodes of which each has room for a pod or two and holds one pod of
    every third Deployment.
    """
    demands, choices = deployments_over_nodes(pods), tuple(_choice(name, "zone-0") for name in TYPES)
    spread = [demand.shape for demand in demands if demand.shape.spread]
    there = tuple(_room(number, spread[number % 3 :: 3]) for number in range(rooms))
    return PlacementProblem(demands=demands, choices=choices, rooms=there)


def _room(number: int, held: Sequence[PodShape]) -> Room:
    """With half a core and half a gibibyte left, whatever it holds."""
    name, spare = f"node-{number}", Resources({"cpu": 500, "memory": _GIB // 2, "pods": 2})
    used = sum_resources([*(shape.requests for shape in held), spare, Resources({"pods": len(held)})])
    labels = Labels({HOSTNAME: name, ZONE: "zone-0", ARCHITECTURE: "amd64"})
    return Room(Node(name, labels, (), used), tuple((shape, 1) for shape in held))
