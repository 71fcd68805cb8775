"""What does a name of the settings mean at Hetzner (image, network, firewall, key), and which placement group has room
for one more server? Asked by launch.

Answers are kept for a while, so that a hundred orders ask once. A name that does not exist is Unusable: the order is
refused, and the reason says what to change.

Placement groups of kind spread hold ten servers, one on each host; they are made on demand and used again when empty. A
place is taken the moment it is given out, and given back when the launch surely failed; every new look brings
Hetzner's own count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from math import inf
from typing import Final, TypeVar

from growth.model.node import POOL_LABEL
from growth.model.offering import CLUSTER_LABEL
from growth.providers.contract import Order
from growth.providers.hetzner.api import PAGE, HetznerApi, Query
from growth.providers.hetzner.errors import NAME_TAKEN, Answered, Unusable
from growth.providers.hetzner.quota import Rank
from growth.providers.hetzner.settings import Launch
from growth.providers.hetzner.wire import (
    Firewalls,
    Image,
    Images,
    Locations,
    Named,
    Network,
    Networks,
    OnePlacementGroup,
    PlacementGroup,
    PlacementGroups,
    SshKeys,
    label_value,
    selector,
)
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


PLACES: Final = 10
LOCATION_LABEL: Final = "growth.dev/location"
_LOOK_SECONDS: Final = 60.0


class Groups:
    """Our placement groups and the places in them."""

    def __init__(self, api: HetznerApi, runtime: Runtime) -> None:
        self._api = api
        self._runtime = runtime
        self._looked_at: float | None = None
        self._groups: dict[int, PlacementGroup] = {}
        # places given out that a look may not show yet: by group and server name, when the order was answered
        self._given: dict[int, dict[str, float]] = {}
        self._one_at_a_time = asyncio.Lock()

    async def place_for(self, order: Order) -> int:
        """The id of a group with room."""
        async with self._one_at_a_time:
            if self._looked_at is None or self._runtime.monotonic() - self._looked_at > _LOOK_SECONDS:
                await self._look(order.cluster)
            wanted = _labels_of(order)
            for group in self._groups.values():
                given = self._given.setdefault(group.id, {})
                if wanted.items() <= group.labels.items() and len(group.servers) + len(given) < PLACES:
                    given[order.name] = inf
                    return group.id
            group = await self._make(order, wanted)
            self._given[group.id] = {order.name: inf}
            return group.id

    def give_back(self, name: str) -> None:
        """Free the place: the server was not made."""
        for given in self._given.values():
            given.pop(name, None)

    def note_answer(self, name: str) -> None:
        """The order was answered, or never will be: a later look shows the result."""
        for given in self._given.values():
            if name in given:
                given[name] = self._runtime.monotonic()

    async def _look(self, cluster: str) -> None:
        began = self._runtime.monotonic()
        found: dict[int, PlacementGroup] = {}
        query: Query = {"label_selector": selector(CLUSTER_LABEL, cluster), "type": "spread", "sort": "id:asc"}
        async for answer in self._api.pages("/placement_groups", PlacementGroups, Rank.CREATE, query):
            found |= {group.id: group for group in answer.placement_groups}
        self._groups, self._looked_at = found, began
        self._given = {
            group: {name: at for name, at in given.items() if at > began}
            for group, given in self._given.items()
            if group in found
        }

    async def _make(self, order: Order, labels: Mapping[str, str]) -> PlacementGroup:
        number = len(self._groups) + 1
        while True:
            name = f"growth-{label_value(order.cluster)[-12:]}-{order.pool}-{order.location}-{number}"
            body = {"name": name, "type": "spread", "labels": dict(labels)}
            try:
                answer = await self._api.post("/placement_groups", body, OnePlacementGroup, Rank.CREATE)
            except Answered as error:
                if error.code != NAME_TAKEN:
                    raise
                number += 1  # a lost answer, or a group whose labels were changed
                continue
            made = self._groups[answer.placement_group.id] = answer.placement_group
            return made


def _labels_of(order: Order) -> dict[str, str]:
    return {
        CLUSTER_LABEL: label_value(order.cluster),
        POOL_LABEL: label_value(order.pool),
        LOCATION_LABEL: order.location,
    }
