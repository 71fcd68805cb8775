"""What does Hetzner sell, where, and for how much? Asked by the provider.

Read from the API: types come and go, and prices change. Prices are net, by location, with the IPv4 address where
servers get one. CX is amd64, CAX is arm64. What pods can use is estimated until real nodes show it: memory less 6 %
(firmware and kernel), 100Mi (eviction) and what kubelets reserve; cpu less what they reserve; disk less 15 % (file
system and eviction)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import structlog
from msgspec import Struct

from growth.model.instant import InstantError, parse_instant
from growth.model.labels import ARCHITECTURE, INSTANCE_TYPE, OPERATING_SYSTEM, REGION, ZONE, Labels
from growth.model.offering import Offering
from growth.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, parse_amount
from growth.providers.hetzner.api import HetznerApi
from growth.providers.hetzner.errors import CallError, NoAnswer
from growth.providers.hetzner.quota import Rank
from growth.providers.hetzner.settings import HetznerSettings, Reserved
from growth.providers.hetzner.wire import Deprecation, HetznerServerType, Prices, Pricing, ServerTypes, SoldHere
from growth.runtime import Runtime

PROVIDER: Final = "hetzner"
_PRICES_SECONDS: Final = 3600.0
_LATEST_SECONDS: Final = 3600.0  # how long the last catalogue serves while no new one can be had

_MOST_CORES: Final = 10_000
_MOST_GIGABYTES: Final = 1_000_000
_DEAREST: Final = 10_000.0  # per hour

_FAR_AWAY: Final = 4102444800.0  # 2100: a date that cannot be read ends nothing

_ARCHITECTURES: Final = {"x86": "amd64", "arm": "arm64"}
# What Hetzner's cloud controller writes as zone; it no longer comes from the API. Other locations are their own zone.
_ZONES: Final = {
    "fsn1": "fsn1-dc14",
    "nbg1": "nbg1-dc3",
    "hel1": "hel1-dc2",
    "ash": "ash-dc1",
    "hil": "hil-dc1",
    "sin": "sin-dc1",
}

log = structlog.get_logger(__name__)


class Sold(Struct, frozen=True):
    """The catalogue, and when it was read."""

    offerings: tuple[Offering, ...]
    ends: Mapping[str, str]  # server types that will go, or are gone: in words
    currency: str
    at: float


class HetznerCatalogue:
    """Server types with their prices."""

    def __init__(self, api: HetznerApi, settings: HetznerSettings, runtime: Runtime) -> None:
        self.sold: Sold | None = None
        self._api = api
        self._settings = settings
        self._runtime = runtime
        self._pricing: tuple[float, Pricing] | None = None

    async def offerings(self) -> tuple[Offering, ...]:
        """The catalogue of now; while Hetzner does not answer, the last one."""
        try:
            self.sold = await self._read()
        except CallError as error:
            if self.sold is None or self._runtime.monotonic() - self.sold.at > _LATEST_SECONDS:
                raise
            log.warning("the catalogue could not be read anew", error=str(error))
        return self.sold.offerings

    async def find(self, name: str, location: str) -> Offering | None:
        offerings = self.sold.offerings if self.sold is not None else await self.offerings()
        return next((each for each in offerings if (each.name, each.location) == (name, location)), None)

    async def _read(self) -> Sold:
        types = await self._server_types()
        pricing = await self._prices()
        charged = [each for each in pricing.primary_ips if each.type == "ipv4" and self._settings.launch.public_ipv4]
        addresses = {here.location: _price(here.price_hourly.net) for each in charged for here in each.prices}
        now = self._runtime.now()
        offerings = tuple(offering for each in types for offering in self._offerings_of(each, addresses, now))
        if not offerings:
            raise NoAnswer("GET /server_types: nothing in the catalogue has a price and a size that can be read")
        ends = {each.name.upper(): words for each in types if (words := _end_in_words(each, now))}
        if self.sold is None or ends != self.sold.ends:
            log.info("server types that are no longer sold, or not for long", types=ends)
        return Sold(offerings, ends, pricing.currency, self._runtime.monotonic())

    async def _server_types(self) -> list[HetznerServerType]:
        found: list[HetznerServerType] = []
        async for answer in self._api.pages("/server_types", ServerTypes, Rank.CATALOGUE):
            found += answer.server_types
        if not found:
            raise NoAnswer("GET /server_types: an empty catalogue is not believed")
        return found

    async def _prices(self) -> Pricing:
        now = self._runtime.monotonic()
        if self._pricing is None or now - self._pricing[0] > _PRICES_SECONDS:
            self._pricing = (now, (await self._api.get("/pricing", Prices, Rank.CATALOGUE)).pricing)
        return self._pricing[1]

    def _offerings_of(
        self, each: HetznerServerType, addresses: Mapping[str, float | None], now: float
    ) -> Iterator[Offering]:
        """What cannot be read is not bought; the rest of the catalogue is."""
        places = {place.name: place for place in each.locations}
        allocatable = estimate_allocatable(each, self._settings.reserved) if _is_sound(each) else None
        wanted = {name.lower() for name in self._settings.locations}
        for price in each.prices:
            is_sold = (not places or price.location in places) and each.architecture in _ARCHITECTURES
            if not is_sold or (wanted and price.location not in wanted):
                continue
            per_hour, address = _price(price.price_hourly.net), addresses.get(price.location, 0.0)
            if allocatable is None or per_hour is None or address is None:
                log.warning("a size or a price cannot be read", server_type=each.name, location=price.location)
                continue
            yield Offering(
                name=f"{PROVIDER}-{each.name.lower()}",
                server_type=each.name.upper(),
                location=price.location,
                price_per_hour=round(per_hour + address, 6),
                allocatable=allocatable,
                labels=self._labels(each, price.location),
                is_available=_is_available(each, places.get(price.location), now),
                bills_started_hours=True,
                sold_until=_sold_until(each, places.get(price.location)),
            )

    def _labels(self, each: HetznerServerType, location: str) -> Labels:
        zone = _ZONES.get(location, location) if self._settings.zone_label == "datacenter" else location
        labels = {INSTANCE_TYPE: each.name.lower(), ARCHITECTURE: _ARCHITECTURES[each.architecture]}
        return Labels({**labels, OPERATING_SYSTEM: "linux", ZONE: zone, REGION: location})


def _is_sound(each: HetznerServerType) -> bool:
    """Sizes that a machine can have."""
    return 0 < each.cores <= _MOST_CORES and 0 < each.memory <= _MOST_GIGABYTES and 0 <= each.disk <= _MOST_GIGABYTES


def _price(text: str) -> float | None:
    """None: that is no price."""
    try:
        price = float(text)
    except ValueError:
        return None
    return price if 0 <= price <= _DEAREST else None


def estimate_allocatable(each: HetznerServerType, reserved: Reserved) -> Resources:
    """What pods may use of a machine of this type."""
    memory = int(each.memory * 2**30)
    kept_cpu = parse_amount(CPU, reserved.cpu) if reserved.cpu else 60 + 10 * each.cores
    kept_memory = parse_amount(MEMORY, reserved.memory) if reserved.memory else memory // 50
    amounts = {
        CPU: max(0, each.cores * 1000 - kept_cpu),
        MEMORY: max(0, memory - memory * 6 // 100 - 100 * 2**20 - kept_memory),
        EPHEMERAL_STORAGE: int(each.disk * 10**9) * 85 // 100,
        PODS: 110,
    }
    return Resources(amounts)


def _is_available(each: HetznerServerType, place: SoldHere | None, now: float) -> bool:
    until = _sold_until(each, place)
    return (place is None or place.available) and (until is None or until > now)


def _sold_until(each: HetznerServerType, place: SoldHere | None) -> float | None:
    ends = place.deprecation if place is not None and place.deprecation is not None else each.deprecation
    return None if ends is None else _ends_at(ends)


def _ends_at(deprecation: Deprecation) -> float:
    try:
        return parse_instant(deprecation.unavailable_after)
    except InstantError:
        return _FAR_AWAY


def _end_in_words(each: HetznerServerType, now: float) -> str:
    """Whether, and until when, this type is sold at all."""
    places = [place.deprecation or each.deprecation for place in each.locations] or [each.deprecation]
    ends = [deprecation for deprecation in places if deprecation is not None]
    if len(ends) < len(places):
        return ""
    last = max(ends, key=_ends_at)
    return f"{'no longer sold since' if _ends_at(last) <= now else 'deprecated, sold until'} {last.unavailable_after}"
