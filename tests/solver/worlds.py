"""Small problems in a few words: what the tests of the solver are written in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from growth.model.labels import HOSTNAME, INSTANCE_TYPE, ZONE, Labels, LabelSelector, Requirement
from growth.model.node import POOL_LABEL, Node
from growth.model.offering import Offering
from growth.model.pod import PodAffinityTerm, PodShape, TopologySpread
from growth.model.resources import Resources
from growth.solver.purchase.problem import Choice, DemandClass, Limit, Room

MIB = 1024 * 1024
GIB = 1024 * MIB

# cpu / GiB / price per hour
HETZNER = {
    "cx22": (2, 4, 0.0060), "cx32": (4, 8, 0.0106), "cx42": (8, 16, 0.0170), "cx52": (16, 32, 0.0314),
    "cax11": (2, 4, 0.0074), "cax21": (4, 8, 0.0122), "cax31": (8, 16, 0.0226), "cax41": (16, 32, 0.0443),
    "ccx13": (2, 8, 0.0386), "ccx63": (48, 192, 0.5347),
}  # fmt: skip


def amounts(cpu: float, mebibytes: float, pods: int = 110, **others: int) -> Resources:
    return Resources({"cpu": round(cpu * 1000), "memory": round(mebibytes * MIB), "pods": pods, **others})


def shape(cpu: float = 1, mebibytes: float = 512, labels: dict[str, str] | None = None, **fields: object) -> PodShape:
    requests = Resources({"cpu": round(cpu * 1000), "memory": round(mebibytes * MIB)})
    return PodShape(labels=Labels(labels or {}), requests=requests, **fields)  # type: ignore[arg-type]


def demand(
    count: int, cpu: float = 1, mebibytes: float = 512, pools: Sequence[str] = ("default",), **fields: object
) -> DemandClass:
    return DemandClass(shape(cpu, mebibytes, **fields), count, tuple(pools))  # type: ignore[arg-type]


def offering(name: str, cpu: float, mebibytes: float, price: float, zone: str = "z1", **others: int) -> Offering:
    labels = Labels({INSTANCE_TYPE: name, ZONE: zone})
    return Offering(name, name, zone, price, amounts(cpu, mebibytes, **others), labels)


def choice(
    name: str = "small",
    cpu: float = 4,
    mebibytes: float = 8192,
    price: float = 1.0,
    zone: str = "z1",
    pool: str = "default",
    **fields: object,
) -> Choice:
    bought = offering(name, cpu, mebibytes, price, zone)
    labels = bought.labels.with_items({POOL_LABEL: pool})
    return Choice(pool, bought, labels, **fields)  # type: ignore[arg-type]


def hetzner(names: Iterable[str] = tuple(HETZNER), zones: Sequence[str] = ("z1",)) -> tuple[Choice, ...]:
    return tuple(
        choice(name, HETZNER[name][0], HETZNER[name][1] * 1024, HETZNER[name][2], zone)
        for name in names
        for zone in zones
    )


def room(
    name: str, cpu: float = 4, mebibytes: float = 8192, zone: str = "z1", pool: str = "default", **fields: object
) -> Room:
    labels = Labels({HOSTNAME: name, ZONE: zone, POOL_LABEL: pool})
    return Room(Node(name, labels=labels, allocatable=amounts(cpu, mebibytes), pool=pool), **fields)  # type: ignore[arg-type]


def at_most(nodes: int, *choices: int, name: str = "limit") -> Limit:
    return Limit(name, choices, nodes=nodes)


def selecting(**labels: str) -> LabelSelector:
    return LabelSelector(tuple(Requirement(key, "In", (value,)) for key, value in sorted(labels.items())))


def term(key: str, **labels: str) -> PodAffinityTerm:
    return PodAffinityTerm(key, selecting(**labels))


def spread(key: str, max_skew: int = 1, when: str = "DoNotSchedule", **labels: str) -> TopologySpread:
    return TopologySpread(max_skew, key, when, selecting(**labels))
