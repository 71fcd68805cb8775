"""The provider, with every call counted by how it ended. Put before the real one by `controllers/growth`; changes
nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from growth.controllers.loop.metrics import Metrics
from growth.model.offering import Machine, Offering
from growth.model.outcome import Accepted, Outcome
from growth.providers.contract import Gone, Order, Provider, ProviderError

Answer = TypeVar("Answer")


class CountedProvider:
    def __init__(self, provider: Provider, metrics: Metrics) -> None:
        self.name = provider.name
        self._provider = provider
        self._metrics = metrics

    async def offerings(self) -> tuple[Offering, ...]:
        return await self._asked("offerings", self._provider.offerings())

    async def list(self, cluster: str) -> tuple[Machine, ...]:
        return await self._asked("list", self._provider.list(cluster))

    async def describe(self, machine_id: str) -> Machine | Gone:
        return await self._asked("describe", self._provider.describe(machine_id))

    async def launch(self, order: Order) -> Outcome:
        return self._ended("launch", await self._provider.launch(order))

    async def delete(self, machine_id: str) -> Outcome:
        return self._ended("delete", await self._provider.delete(machine_id))

    async def _asked(self, call: str, question: Awaitable[Answer]) -> Answer:
        try:
            answer = await question
        except ProviderError as error:
            self._metrics.provider_call(call, error)
            raise
        self._metrics.provider_call(call, Accepted())
        return answer

    def _ended(self, call: str, outcome: Outcome) -> Outcome:
        self._metrics.provider_call(call, outcome)
        return outcome
