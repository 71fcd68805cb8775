"""Offerings from a benchmark's catalogue: instance types with allocatable amounts, labels, and a price for each zone
and capacity type.

Asked by `growth plan` and the benchmarks, which compare plans on the same catalogue with those of other planners. The
file is a JSON list of

    {"name", "allocatable": {"cpuMillis", "memoryBytes", "pods", "ephemeralStorageBytes"}, "labels": {key: [values]},
     "offerings": [{"zone", "capacityType", "price", "available"}]}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct

from growth.model.labels import INSTANCE_TYPE, OPERATING_SYSTEM, ZONE, Labels
from growth.model.offering import Offering
from growth.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources
from growth.providers.catalogue import CatalogueError

CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
ON_DEMAND: Final = "on-demand"


class _Amounts(Struct, rename="camel"):
    cpu_millis: int
    memory_bytes: int
    pods: int = 110
    ephemeral_storage_bytes: int = 0


class _Sale(Struct, rename="camel"):
    zone: str
    capacity_type: str
    price: float
    available: bool = True


class _Type(Struct):
    name: str
    allocatable: _Amounts
    labels: dict[str, list[str]]
    offerings: list[_Sale]


def parse_bench_catalogue(
    data: bytes, provider: str = "bench", capacity_types: tuple[str, ...] = (ON_DEMAND,)
) -> tuple[Offering, ...]:
    """All offerings of the wanted capacity types; a spot offering's name ends in -spot. Raises CatalogueError."""
    try:
        types = msgspec.json.decode(data, type=list[_Type])
    except msgspec.DecodeError as error:
        raise CatalogueError(f"not a benchmark catalogue: {error}") from None
    return tuple(offering for one in types for offering in _offerings(one, provider, capacity_types))


def _offerings(one: _Type, provider: str, capacity_types: tuple[str, ...]) -> Iterator[Offering]:
    amounts = one.allocatable
    found = {
        CPU: amounts.cpu_millis,
        MEMORY: amounts.memory_bytes,
        PODS: amounts.pods,
        EPHEMERAL_STORAGE: amounts.ephemeral_storage_bytes,
    }
    for sale in one.offerings:
        if sale.capacity_type in capacity_types:
            ending = "" if sale.capacity_type == ON_DEMAND else f"-{sale.capacity_type}"
            yield Offering(
                name=f"{provider}-{one.name.lower()}{ending}",
                server_type=one.name,
                location=sale.zone,
                price_per_hour=sale.price,
                allocatable=Resources(found),
                labels=_labels(one, sale),
                is_available=sale.available,
            )


def _labels(one: _Type, sale: _Sale) -> Labels:
    chosen = {key: values[0] for key, values in one.labels.items() if values}
    if "linux" in one.labels.get(OPERATING_SYSTEM, ()):
        chosen[OPERATING_SYSTEM] = "linux"
    return Labels({**chosen, INSTANCE_TYPE: one.name, ZONE: sale.zone, CAPACITY_TYPE: sale.capacity_type})
