"""Which placement group has room for one more server? Asked by launch.

Groups of kind spread hold ten servers, one on each host; they are made on demand and used again when empty. A place is
taken the moment it is given out, and given back when the launch surely failed; every new look brings Hetzner's own
count."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import inf
from typing import Final

from growth.model.node import POOL_LABEL
from growth.model.offering import CLUSTER_LABEL
from growth.providers.contract import Order
from growth.providers.hetzner.api import HetznerApi, Query
from growth.providers.hetzner.errors import NAME_TAKEN, Answered
from growth.providers.hetzner.quota import Rank
from growth.providers.hetzner.wire import OnePlacementGroup, PlacementGroup, PlacementGroups, label_value, selector
from growth.runtime import Runtime

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
