"""What does the fake Hetzner sell? Types, locations, images and example prices, in the shapes of the real catalogue.

Sizes are as sold; prices are examples without tax. CX31 is not there any more, CX32 has ended, GEX44 was never sold by
this API."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

Json = dict[str, Any]

HOURS_OF_A_MONTH: Final = 624  # after so many hours a month costs no more
VAT: Final = 1.19


class FakeLocation(Struct, frozen=True):
    id: int
    name: str
    network_zone: str
    city: str
    country: str
    datacenter: str


class FakeServerType(Struct, frozen=True):
    """A server type. Prices are net, in EUR an hour."""

    id: int
    name: str
    cores: int
    memory: float
    disk: int
    price_per_hour: float
    architecture: str = "x86"
    cpu_type: str = "shared"
    unavailable_after: str = ""
    dearer_in: dict[str, float] = {}  # location → price there

    def price_in(self, location: str) -> float:
        return self.dearer_in.get(location, self.price_per_hour)


LOCATIONS: Final = (
    FakeLocation(1, "fsn1", "eu-central", "Falkenstein", "DE", "fsn1-dc14"),
    FakeLocation(2, "nbg1", "eu-central", "Nuremberg", "DE", "nbg1-dc3"),
    FakeLocation(3, "hel1", "eu-central", "Helsinki", "FI", "hel1-dc2"),
)
SERVER_TYPES: Final = (
    FakeServerType(104, "cx22", 2, 4, 40, 0.0060, unavailable_after="2026-01-01T00:00:00+00:00"),
    FakeServerType(105, "cx32", 4, 8, 80, 0.0106, unavailable_after="2025-12-31T00:00:00+00:00"),
    FakeServerType(114, "cx23", 2, 4, 40, 0.0048),
    FakeServerType(115, "cx33", 4, 8, 80, 0.0080, dearer_in={"hel1": 0.0083}),
    FakeServerType(116, "cx43", 8, 16, 160, 0.0152),
    FakeServerType(117, "cx53", 16, 32, 320, 0.0280),
    FakeServerType(45, "cax11", 2, 4, 40, 0.0060, "arm"),
    FakeServerType(93, "cax21", 4, 8, 80, 0.0104, "arm"),
    FakeServerType(94, "cax31", 8, 16, 160, 0.0200, "arm"),
    FakeServerType(95, "cax41", 16, 32, 320, 0.0392, "arm"),
    FakeServerType(96, "ccx13", 2, 8, 80, 0.0200, cpu_type="dedicated"),
    FakeServerType(97, "ccx23", 4, 16, 160, 0.0392, cpu_type="dedicated"),
)
IPV4_PER_HOUR: Final = 0.0008


class FakeImage(Struct, frozen=True):
    id: int
    architecture: str
    name: str | None = None
    type: str = "system"
    description: str = ""
    labels: dict[str, str] = {}
    created: str = "2026-01-02T00:00:00+00:00"


IMAGES: Final = (
    FakeImage(161, "x86", "ubuntu-24.04", description="Ubuntu 24.04"),
    FakeImage(162, "arm", "ubuntu-24.04", description="Ubuntu 24.04"),
    FakeImage(901, "x86", None, "snapshot", "worker 1", {"role": "worker"}, "2025-11-01T00:00:00+00:00"),
    FakeImage(902, "x86", None, "snapshot", "worker 2", {"role": "worker"}, "2026-02-01T00:00:00+00:00"),
)


def price(net: float) -> Json:
    return {"net": f"{net:.10f}", "gross": f"{net * VAT:.10f}"}


def _prices(per_hour: float) -> Json:
    return {"price_hourly": price(per_hour), "price_monthly": price(per_hour * HOURS_OF_A_MONTH)}


def prices_of(kind: FakeServerType) -> list[Json]:
    return [
        {
            "location": place.name,
            **_prices(kind.price_in(place.name)),
            "included_traffic": 21_990_232_555_520,
            "price_per_tb_traffic": price(1.0),
        }
        for place in LOCATIONS
    ]


def location_json(place: FakeLocation) -> Json:
    return {
        "id": place.id,
        "name": place.name,
        "description": f"{place.city} DC Park",
        "country": place.country,
        "city": place.city,
        "latitude": 50.47612,
        "longitude": 12.370071,
        "network_zone": place.network_zone,
    }


def server_type_json(kind: FakeServerType, in_stock: dict[str, bool]) -> Json:
    ending = {"announced": "2025-10-01T00:00:00+00:00", "unavailable_after": kind.unavailable_after}
    ends = ending if kind.unavailable_after else None
    return {
        "id": kind.id,
        "name": kind.name,
        "description": kind.name.upper(),
        "category": "Shared vCPU" if kind.cpu_type == "shared" else "Dedicated vCPU",
        "cores": kind.cores,
        "memory": kind.memory,
        "disk": kind.disk,
        "architecture": kind.architecture,
        "cpu_type": kind.cpu_type,
        "storage_type": "local",
        "deprecated": ends is not None,
        "deprecation": ends,
        "prices": prices_of(kind),
        "locations": [
            {
                "id": place.id,
                "name": place.name,
                "deprecation": ends,
                "available": in_stock.get(place.name, True),
                "recommended": ends is None,
            }
            for place in LOCATIONS
        ],
    }


def image_json(image: FakeImage) -> Json:
    return {
        "id": image.id,
        "type": image.type,
        "status": "available",
        "name": image.name,
        "description": image.description,
        "image_size": None,
        "disk_size": 10,
        "created": image.created,
        "created_from": None,
        "bound_to": None,
        "os_flavor": "ubuntu",
        "os_version": "24.04",
        "rapid_deploy": image.type == "system",
        "protection": {"delete": False},
        "deprecated": None,
        "deleted": None,
        "labels": dict(image.labels),
        "architecture": image.architecture,
    }


def pricing_json() -> Json:
    addresses = [
        {"type": kind, "prices": [{"location": place.name, **_prices(cost)} for place in LOCATIONS]}
        for kind, cost in (("ipv4", IPV4_PER_HOUR), ("ipv6", 0.0))
    ]
    return {
        "currency": "EUR",
        "vat_rate": "19.00",
        "image": {"price_per_gb_month": price(0.0110)},
        "floating_ip": {"price_monthly": price(3.0)},
        "floating_ips": [],
        "primary_ips": addresses,
        "server_backup": {"percentage": "20.0000000000"},
        "server_types": [{"id": kind.id, "name": kind.name, "prices": prices_of(kind)} for kind in SERVER_TYPES],
        "load_balancer_types": [],
        "volume": {"price_per_gb_month": price(0.0440)},
    }
