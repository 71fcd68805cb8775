"""Whatever a provider does, its call ends in time and in a way that the contract knows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from growth.kube.redaction import SECRETS
from growth.model.outcome import Accepted, Unknown
from growth.providers.careful import LONGEST_SECONDS, CarefulProvider
from growth.providers.contract import Order, ProviderError
from growth.runtime import Runtime
from growth.sim.clock import FOREVER_SECONDS, SimRuntime, run_virtual

ORDER = Order("name", "uid", "cluster", "pool", "offering", "location")


class Moody:
    """Does the same whatever it is asked."""

    def __init__(self, does: Callable[[], Awaitable[Any]]) -> None:
        self.name = "moody"
        self._does = does

    async def offerings(self) -> Any:
        return await self._does()

    def credentials(self) -> Any:
        raise RuntimeError("no credentials")

    async def list(self, _cluster: str) -> Any:
        return await self._does()

    async def describe(self, _machine_id: str) -> Any:
        return await self._does()

    async def find(self, _name: str) -> Any:
        return await self._does()

    async def launch(self, _order: Order) -> Any:
        return await self._does()

    async def delete(self, _machine_id: str) -> Any:
        return await self._does()


def asked(
    does: Callable[[Runtime], Awaitable[Any]], test: Callable[[CarefulProvider, Runtime], Awaitable[None]]
) -> Any:
    """The counts of calls by how they ended, after the test."""
    counts: list[tuple[str, str]] = []

    async def run() -> None:
        runtime = SimRuntime("careful")
        moody = Moody(lambda: does(runtime))
        await test(
            CarefulProvider(moody, runtime, lambda call, end: counts.append((call, type(end).__name__))), runtime
        )

    run_virtual(run())
    return counts


@pytest.mark.parametrize("error", [KeyError("code"), TypeError("no"), OverflowError(), RecursionError(), OSError(5)])
def test_an_error_that_nobody_foresaw_is_no_answer_to_a_question_and_unknown_to_an_order(error: Exception) -> None:
    async def raises(_runtime: Runtime) -> Any:
        raise error

    async def test(provider: CarefulProvider, _runtime: Runtime) -> None:
        for question in (provider.offerings(), provider.list("c"), provider.describe("1")):
            with pytest.raises(ProviderError, match=type(error).__name__):
                await question
        assert isinstance(await provider.launch(ORDER), Unknown)
        assert isinstance(await provider.delete("1"), Unknown)

    questions = [(call, "ProviderError") for call in ("offerings", "list", "describe")]
    assert asked(raises, test) == [*questions, ("launch", "Unknown"), ("delete", "Unknown")]


def test_a_call_that_does_not_come_back_is_given_up() -> None:
    async def hangs(runtime: Runtime) -> Any:
        await runtime.sleep(FOREVER_SECONDS)

    async def test(provider: CarefulProvider, runtime: Runtime) -> None:
        with pytest.raises(ProviderError, match="within 90 s"):
            await provider.list("c")
        assert runtime.monotonic() == LONGEST_SECONDS["list"]
        assert isinstance(await provider.delete("1"), Unknown)

    asked(hangs, test)


def test_an_answer_is_passed_on_and_an_error_shows_no_secret() -> None:
    async def answers(_runtime: Runtime) -> Any:
        return Accepted("7")

    async def test(provider: CarefulProvider, _runtime: Runtime) -> None:
        assert await provider.launch(ORDER) == Accepted("7")

    assert asked(answers, test) == [("launch", "Accepted")]
    SECRETS.add_token("canary-of-careful-0123456789")

    async def leaks(_runtime: Runtime) -> Any:
        raise ValueError("token canary-of-careful-0123456789 is wrong")

    async def looks(provider: CarefulProvider, _runtime: Runtime) -> None:
        with pytest.raises(ProviderError) as caught:
            await provider.offerings()
        assert "canary" not in str(caught.value)

    asked(leaks, looks)
    SECRETS.forget_token("canary-of-careful-0123456789")


def test_a_provider_that_cannot_name_its_credentials_stops_nothing() -> None:
    async def test() -> None:
        assert CarefulProvider(Moody(lambda: asyncio.sleep(0)), SimRuntime("moody")).credentials() == {}

    run_virtual(test())
