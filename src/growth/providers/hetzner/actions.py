"""What became of an action at Hetzner? One question for all that are under way, as often as the quota allows.

Asked by launch, which waits beside the loop and only for a while: an order from a snapshot may take many minutes, and
is accepted all the same."""

from __future__ import annotations

import asyncio
from typing import Final

from growth.providers.hetzner.api import HetznerApi
from growth.providers.hetzner.errors import CallError
from growth.providers.hetzner.quota import Rank
from growth.providers.hetzner.wire import Action, Actions
from growth.runtime import Runtime, Spawned

_AT_ONCE: Final = 25  # ids in one question
_SOONEST_SECONDS: Final = 2.0


class PendingActions:
    """Actions under way."""

    def __init__(self, api: HetznerApi, runtime: Runtime) -> None:
        self._api = api
        self._runtime = runtime
        self._awaited: dict[int, asyncio.Future[Action]] = {}
        self._asking: Spawned | None = None

    async def wait_for(self, action: Action, longest_seconds: float) -> Action | None:
        """The action when it is over; None: it is still under way, or Hetzner did not say."""
        if action.status != "running":
            return action
        awaited = self._awaited.setdefault(action.id, asyncio.get_running_loop().create_future())
        if self._asking is None or self._asking.done():
            self._asking = self._runtime.spawn("Hetzner actions", self._ask())
        try:
            return await self._runtime.within(longest_seconds, asyncio.shield(awaited))
        except TimeoutError:
            return None
        finally:
            self._awaited.pop(action.id, None)

    async def _ask(self) -> None:
        """Ask until nothing is awaited; with more actions the pauses are longer: one question a second on average."""
        while self._awaited:
            await self._runtime.sleep(max(_SOONEST_SECONDS, len(self._awaited) / _AT_ONCE))
            ids = list(self._awaited)
            for start in range(0, len(ids), _AT_ONCE):
                await self._ask_about(ids[start : start + _AT_ONCE])

    async def _ask_about(self, ids: list[int]) -> None:
        try:
            answer = await self._api.get("/actions", Actions, Rank.LIST, {"id": ids})
        except CallError:
            return  # the next round asks again; those who wait do not wait for ever
        for action in answer.actions:
            awaited = self._awaited.get(action.id)
            if awaited is not None and not awaited.done() and action.status != "running":
                awaited.set_result(action)
