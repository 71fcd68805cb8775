"""Which servers of ours are there? Asked by the provider, again and again.

One listing serves all callers; it is read page by page, and not every listing is believed.

| since the last whole listing | then |
| --- | --- |
| we ordered or deleted something | all pages, not more often than one page a second |
| five minutes have passed | all pages |
| neither | one request: the number of our servers; if it changed, all pages |
| a server of ours was looked at that it does not have, or by another name | all pages |
| a known server is missing, and we did not delete it | it is asked for by its id: shown after all, or surely gone |
| many are missing at once | the list is not believed until each was asked for |

Only servers with our cluster's label are ever listed: those of others are not even seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from growth.model.offering import CLUSTER_LABEL
from growth.providers.hetzner.api import PAGE, HetznerApi, Query
from growth.providers.hetzner.errors import Answered, NoAnswer
from growth.providers.hetzner.quota import Rank
from growth.providers.hetzner.wire import HetznerServer, OneServer, Servers, selector
from growth.runtime import Runtime

WHOLE_SECONDS: Final = 300.0
ASKED_BY_ID: Final = 10  # in one listing
_ATTEMPTS: Final = 3


class Listing:
    """The servers of one cluster, as far as they are known."""

    def __init__(self, api: HetznerApi, runtime: Runtime) -> None:
        self.answered_at: float | None = None  # when Hetzner last answered about our servers
        self._api = api
        self._runtime = runtime
        self._known: dict[int, HetznerServer] = {}
        self._deleted: dict[int, None] = {}
        self._whole_at: float | None = None
        self._writes = 0
        self._writing = 0
        self._written_by_then = -1  # how many writes the last whole listing has surely seen
        self._one_at_a_time = asyncio.Lock()

    # ---------------------------------------------------------------------------------- what we did

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Around every order and deletion: a listing that is read meanwhile may be out of date."""
        self._writing += 1
        try:
            yield
        finally:
            self._writing -= 1
            self._writes += 1

    def created(self, server: HetznerServer) -> None:
        self._known[server.id] = server

    def deleted(self, server_id: int) -> None:
        if server_id in self._known:
            self._deleted[server_id] = None

    def witness(self) -> int | None:
        """A server that must exist, for the check of a new token."""
        return next((each for each in self._known if each not in self._deleted), None)

    # ------------------------------------------------------------------------------------ questions

    async def servers(self, cluster: str) -> tuple[HetznerServer, ...]:
        async with self._one_at_a_time:
            if not await self._is_as_before(cluster):
                await self._read_whole(cluster)
            return tuple(self._known.values())

    async def count(self, cluster: str) -> int:
        """How many servers Hetzner says we have: one request."""
        query: Query = {"label_selector": selector(CLUSTER_LABEL, cluster), "page": 1, "per_page": 1}
        answer = await self._api.get("/servers", Servers, Rank.LIST, query)
        self.answered_at = self._runtime.monotonic()
        total = answer.meta.pagination.total_entries
        return -1 if total is None else total

    async def _is_as_before(self, cluster: str) -> bool:
        if self._whole_at is None or self._written_by_then != self._writes or self._writing:
            return False
        if self._runtime.monotonic() - self._whole_at > WHOLE_SECONDS:
            return False
        return await self.count(cluster) == len(self._known)

    # -------------------------------------------------------------------------------- whole listing

    async def _read_whole(self, cluster: str) -> None:
        await self._keep_distance()
        began, writes, writing = self._runtime.monotonic(), self._writes, self._writing
        found = await self._pages(cluster)
        missing = [each for each in self._known if each not in found]
        for server_id in [each for each in missing if each in self._deleted]:
            self._forget(server_id)
        await self._ask_for([each for each in missing if each not in self._deleted], found)
        self._known = dict(sorted(found.items()))
        self._deleted = {each: None for each in self._deleted if each in found}
        self._whole_at = self.answered_at = began
        self._written_by_then = -1 if writing else writes

    async def _keep_distance(self) -> None:
        """While we buy much, everything would be listed each second: one page a second is enough."""
        if self._whole_at is not None:
            pages = len(self._known) // PAGE + 1
            await self._runtime.sleep(max(0.0, self._whole_at + pages - self._runtime.monotonic()))

    async def _pages(self, cluster: str) -> dict[int, HetznerServer]:
        query: Query = {"label_selector": selector(CLUSTER_LABEL, cluster), "sort": "id:asc"}
        for _ in range(_ATTEMPTS):
            found: dict[int, HetznerServer] = {}
            total: int | None = None
            async for answer in self._api.pages("/servers", Servers, Rank.LIST, query):
                found |= {server.id: server for server in answer.servers}
                total = answer.meta.pagination.total_entries
            if total is None or len(found) == total or self._known:
                return found
        # servers came and went; at the first listing nothing else would notice
        raise NoAnswer("GET /servers: the pages do not add up")

    async def _ask_for(self, missing: list[int], found: dict[int, HetznerServer]) -> None:
        """Pages shift while servers go, and lists can be stale or empty: absence is only believed of an id."""
        for server_id in missing[:ASKED_BY_ID]:
            server = await self.look(server_id)
            if server is None:
                self._forget(server_id)
            else:
                found[server_id] = server
        if len(missing) > ASKED_BY_ID:
            what = f"{len(missing)} servers are missing that we did not delete"
            raise NoAnswer(f"GET /servers: {what}; they are asked for one by one")

    async def look(self, server_id: int) -> HetznerServer | None:
        """One server by its id, live; None: Hetzner says that it does not exist."""
        try:
            server = (await self._api.get(f"/servers/{server_id}", OneServer, Rank.LOOK)).server
        except Answered as error:
            if error.status == 404:
                return None
            raise
        listed = self._known.get(server.id)
        if CLUSTER_LABEL in server.labels and (listed is None or listed.name != server.name):
            self._written_by_then = -1  # the last listing was not the truth, though its number may be right
        return server

    def _forget(self, server_id: int) -> None:
        self._known.pop(server_id, None)
        self._deleted.pop(server_id, None)
