"""Which machines can be bought, where, and at what price? Read from a file of the user's own, or built in.

Asked by the simulated and the KWOK provider and by `growth plan`. A catalogue file (YAML or JSON) looks like this; only
names, sizes and a price are needed:

    provider: example                  # offering names begin with it: example-cx33
    bootSeconds: [5, 20]               # how long machines take that are only played (KWOK); absent: none
    locations:
      - {name: fsn1, region: eu-central}
    serverTypes:
      - name: CX33
        architecture: amd64            # or arm64
        cpu: "4"
        memory: 8Gi
        disk: 80Gi
        pods: 110
        resources: {nvidia.com/gpu: "1"}       # anything beside cpu, memory, disk and pods
        pricePerHour: 0.0106           # or by location: {fsn1: 0.0106, hel1: 0.0099}
        locations: [fsn1]              # absent: all
        allocatable: {cpu: 3900m}      # what pods may use, where it is known; the rest is estimated
        labels: {disktype: nvme}
        billsStartedHours: true
        stock: {fsn1: 3}               # how many can be had; absent: no end of them

Estimated allocatable: cpu less 100m, memory less 4 % and 100Mi (kernel, eviction threshold), disk less 10 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
import yaml
from msgspec import Meta, Struct

from growth.model.api import QuantityText
from growth.model.labels import ARCHITECTURE, INSTANCE_TYPE, OPERATING_SYSTEM, REGION, ZONE, Labels
from growth.model.offering import Offering
from growth.model.quantity import QuantityError
from growth.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, parse_amount

RESERVED_CPU_MILLI: Final = 100
RESERVED_MEMORY_BYTES: Final = 100 * 2**20
RESERVED_MEMORY_SHARE: Final = 0.04
RESERVED_DISK_SHARE: Final = 0.10

Price = Annotated[float, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0, le=3600)]
Text = Annotated[str, Meta(min_length=1, max_length=63)]


class CatalogueError(ValueError):
    """The file is no catalogue; the message says where and why."""


class Location(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    name: Text
    region: str = ""


class ServerType(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    name: Text
    cpu: QuantityText
    memory: QuantityText
    price_per_hour: Price | dict[str, Price]
    architecture: Literal["amd64", "arm64"] = "amd64"
    disk: QuantityText = "0"
    pods: Annotated[int, Meta(ge=1, le=2500)] = 110
    resources: dict[str, QuantityText] = {}
    locations: tuple[Text, ...] = ()
    allocatable: dict[str, QuantityText] = {}
    labels: dict[str, str] = {}
    bills_started_hours: bool = False
    stock: dict[str, Annotated[int, Meta(ge=0)]] = {}


class Catalogue(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a provider sells."""

    provider: Annotated[str, Meta(min_length=1, max_length=20, pattern=r"^[a-z0-9]+\Z")]
    locations: Annotated[tuple[Location, ...], Meta(min_length=1)]
    server_types: Annotated[tuple[ServerType, ...], Meta(min_length=1)]
    boot_seconds: tuple[Seconds, Seconds] = (0.0, 0.0)  # the shortest and the longest, where machines are only played

    def offerings(self) -> tuple[Offering, ...]:
        """Every server type in every location where it is sold."""
        return tuple(offering for server_type in self.server_types for offering in self._offerings_of(server_type))

    def stock(self, server_type: str, location: str) -> int | None:
        """How many can be had at once; None: any number."""
        for one in self.server_types:
            if one.name.lower() == server_type.lower():
                return one.stock.get(location)
        return 0

    def _offerings_of(self, one: ServerType) -> Iterator[Offering]:
        for location in self.locations:
            prices = one.price_per_hour
            price = prices.get(location.name) if isinstance(prices, dict) else prices
            if price is None or (one.locations and location.name not in one.locations):
                continue
            yield Offering(
                name=f"{self.provider}-{one.name.lower()}",
                server_type=one.name,
                location=location.name,
                price_per_hour=price,
                allocatable=allocatable_of(one),
                labels=_labels(one, location),
                bills_started_hours=one.bills_started_hours,
            )


def _labels(one: ServerType, location: Location) -> Labels:
    well_known = {INSTANCE_TYPE: one.name.lower(), ARCHITECTURE: one.architecture, OPERATING_SYSTEM: "linux"}
    place = {ZONE: location.name, **({REGION: location.region} if location.region else {})}
    return Labels({**one.labels, **well_known, **place})


def capacity_of(one: ServerType) -> Resources:
    """What the machine has."""
    amounts: Mapping[str, str | int] = {CPU: one.cpu, MEMORY: one.memory, EPHEMERAL_STORAGE: one.disk, PODS: one.pods}
    return Resources.parse({**amounts, **one.resources})


def allocatable_of(one: ServerType) -> Resources:
    """What pods may use of it: as the catalogue says, else estimated."""
    capacity = capacity_of(one)
    estimated = {
        **capacity,
        CPU: max(0, capacity[CPU] - RESERVED_CPU_MILLI),
        MEMORY: max(0, int(capacity[MEMORY] * (1 - RESERVED_MEMORY_SHARE)) - RESERVED_MEMORY_BYTES),
        EPHEMERAL_STORAGE: int(capacity[EPHEMERAL_STORAGE] * (1 - RESERVED_DISK_SHARE)),
    }
    return Resources({**estimated, **Resources.parse(one.allocatable)})


# ------------------------------------------------------------------------------------------ reading


def read_catalogue(path: Path) -> Catalogue:
    """From a file; raises CatalogueError that names it."""
    try:
        return parse_catalogue(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CatalogueError(f"catalogue {path}: {error.strerror or error}") from None
    except CatalogueError as error:
        raise CatalogueError(f"catalogue {path}: {error}") from None


def parse_catalogue(text: str) -> Catalogue:
    """From YAML (JSON is YAML too)."""
    try:
        catalogue = msgspec.convert(yaml.safe_load(text), Catalogue)
    except yaml.YAMLError as error:
        raise CatalogueError(f"not YAML: {' '.join(str(error).split())}") from None
    except msgspec.ValidationError as error:
        raise CatalogueError(str(error)) from None
    _check(catalogue)
    return catalogue


def _check(catalogue: Catalogue) -> None:
    places = [location.name for location in catalogue.locations]
    names = [one.name.lower() for one in catalogue.server_types]
    for repeated in (list_ for list_ in (places, names) if len(set(list_)) != len(list_)):
        raise CatalogueError(f"listed twice: {next(name for name in repeated if repeated.count(name) > 1)}")
    for one in catalogue.server_types:
        prices = one.price_per_hour if isinstance(one.price_per_hour, dict) else {}
        for place in (*one.locations, *one.stock, *prices):
            if place not in places:
                there = ", ".join(places)
                raise CatalogueError(f"server type {one.name}: unknown location {place!r}; there are {there}")
        _check_quantities(one)


def _check_quantities(one: ServerType) -> None:
    amounts: Mapping[str, str] = {CPU: one.cpu, MEMORY: one.memory, EPHEMERAL_STORAGE: one.disk}
    for name, text in {**amounts, **one.resources, **one.allocatable}.items():
        try:
            parse_amount(name, text)
        except QuantityError as error:
            raise CatalogueError(f"server type {one.name}: {error}") from None


# ----------------------------------------------------------------------------------------- built in

_EXAMPLE_PLACES: Final = (Location("fsn1", "eu-central"), Location("nbg1", "eu-central"), Location("hel1", "eu-north"))


def built_in_catalogue(provider: str = "hetzner") -> Catalogue:
    """Machines for trials. Sizes as sold; prices are examples in EUR per hour without tax, not kept up to date."""
    return Catalogue(provider, _EXAMPLE_PLACES, _EXAMPLE_TYPES)


_EXAMPLE_TYPES: Final = (
    ServerType("CX31", "2", "8Gi", 0.0119, disk="80Gi"),
    ServerType("CX32", "4", "8Gi", 0.0106, disk="80Gi"),
    ServerType("CX33", "4", "8Gi", 0.0080, disk="80Gi"),
    ServerType("CAX11", "2", "4Gi", 0.0074, "arm64", disk="40Gi"),
    ServerType("CAX21", "4", "8Gi", 0.0122, "arm64", disk="80Gi"),
    ServerType("CAX31", "8", "16Gi", 0.0226, "arm64", disk="160Gi"),
    ServerType("CAX41", "16", "32Gi", 0.0443, "arm64", disk="320Gi"),
    ServerType(
        "GEX44", "14", "64Gi", 0.2950, disk="1900Gi", resources={"nvidia.com/gpu": "1"}, locations=("fsn1", "nbg1")
    ),
)
