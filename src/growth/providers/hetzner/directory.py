"""Which image, network, firewall and key does a name mean? Asked by launch.

Answers are kept for a while, so that a hundred orders ask once. A name that does not exist is Unusable: the order is
refused, and the reason says what to change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from growth.providers.hetzner.api import PAGE, HetznerApi, Query
from growth.providers.hetzner.errors import Unusable
from growth.providers.hetzner.quota import Rank
from growth.providers.hetzner.settings import Launch
from growth.providers.hetzner.wire import Firewalls, Image, Images, Locations, Named, Network, Networks, SshKeys
from growth.runtime import Runtime

KEPT_SECONDS: Final = 600.0

Found = TypeVar("Found")
AnyNamed = TypeVar("AnyNamed", Named, Network)


class Directory:
    """Names and ids in one project."""

    def __init__(self, api: HetznerApi, runtime: Runtime) -> None:
        self._api = api
        self._runtime = runtime
        self._kept: dict[tuple[str, str], tuple[float, object]] = {}

    async def image(self, launch: Launch, architecture: str) -> Image:
        """By name, or the newest snapshot with the wanted labels; always of the machine's architecture."""
        wanted = launch.image_selector or launch.image
        return await self._remembered("image", f"{wanted} {architecture}", lambda: self._image(launch, architecture))

    async def networks(self, names: tuple[str, ...]) -> list[int]:
        return [(await self._remembered("network", name, partial(self._network, name))).id for name in names]

    async def subnet(self, name: str, ip_range: str, location: str) -> int:
        """The id of the network that has this subnet, in the location's zone."""
        network = await self._remembered("network", name, partial(self._network, name))
        zones = await self._remembered("zones", "all", self._zones)
        here = [subnet.ip_range for subnet in network.subnets if subnet.network_zone == zones.get(location)]
        if ip_range not in here:
            there = ", ".join(here) or "none"
            raise Unusable(f"network {name} has no subnet {ip_range} for {location} (there is: {there})")
        return network.id

    async def firewalls(self, names: tuple[str, ...]) -> list[int]:
        return [(await self._remembered("firewall", name, partial(self._firewall, name))).id for name in names]

    async def ssh_keys(self, names: tuple[str, ...]) -> list[str]:
        return [str((await self._remembered("SSH key", name, partial(self._ssh_key, name))).id) for name in names]

    async def _remembered(self, kind: str, name: str, ask: Callable[[], Awaitable[Found]]) -> Found:
        kept = self._kept.get((kind, name))
        if kept is not None and self._runtime.monotonic() - kept[0] < KEPT_SECONDS:
            return kept[1]  # type: ignore[return-value]  # kept under the kind that was asked for
        found = await ask()
        self._kept[kind, name] = (self._runtime.monotonic(), found)
        return found

    def forget(self) -> None:
        """Something was not found that should exist: ask again."""
        self._kept.clear()

    # --------------------------------------------------------------------------------------- asking

    async def _image(self, launch: Launch, architecture: str) -> Image:
        query: Query = {"architecture": "arm" if architecture == "arm64" else "x86", "status": "available"}
        query |= {"sort": "created:desc", "per_page": PAGE}
        if launch.image_selector:
            what = f"no snapshot with labels {launch.image_selector}"
            query |= {"type": "snapshot", "label_selector": launch.image_selector}
        else:
            what = f"no image {launch.image}"
            query |= {"name": launch.image, "include_deprecated": "true"}
        found = (await self._api.get("/images", Images, Rank.LOOK, query)).images
        if not found:
            raise Unusable(f"there is {what} for {architecture}")
        return max(found, key=lambda image: (image.created, image.id))

    async def _zones(self) -> dict[str, str]:
        """The network zone of each location."""
        found = await self._api.get("/locations", Locations, Rank.LOOK, {"per_page": PAGE})
        return {each.name: each.network_zone for each in found.locations}

    async def _network(self, name: str) -> Network:
        return _one("network", name, (await self._api.get("/networks", Networks, Rank.LOOK, _query(name))).networks)

    async def _firewall(self, name: str) -> Named:
        return _one("firewall", name, (await self._api.get("/firewalls", Firewalls, Rank.LOOK, _query(name))).firewalls)

    async def _ssh_key(self, name: str) -> Named:
        return _one("SSH key", name, (await self._api.get("/ssh_keys", SshKeys, Rank.LOOK, _query(name))).ssh_keys)


def _query(name: str) -> Query:
    """By name; an id cannot be asked for by name, so then all are listed."""
    return {"per_page": PAGE} if name.isdecimal() else {"name": name, "per_page": PAGE}


def _one(kind: str, name: str, found: tuple[AnyNamed, ...]) -> AnyNamed:
    for each in found:
        if name in (each.name, str(each.id)):
            return each
    raise Unusable(f"there is no {kind} {name} in this project")
