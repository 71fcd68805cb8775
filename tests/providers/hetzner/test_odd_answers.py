"""Answers that no description of Hetzner's API knows: whatever comes, no task of growth is lost by it, and the list of
machines is fresh again within two periods after the last of them.

`make test` tries 2,400 answers, drawn from status × body × header × how they arrive; `ODD_ANSWERS=20000` tries more.
"""

from __future__ import annotations

import json
import os
import random
from typing import Any, Final

import requests
from requests.adapters import BaseAdapter

from growth.controllers.loop.metrics import Metrics
from growth.controllers.loop.supervisor import Supervisor
from growth.controllers.observe.supply import Supply
from growth.model.outcome import Outcome
from growth.providers.careful import CarefulProvider
from growth.providers.hetzner.api import HetznerApi
from growth.providers.hetzner.line import connect
from growth.providers.hetzner.provider import HetznerProvider
from growth.sim.cloud.hetzner.embedded import InProcess, Travelling, _stay
from tests.providers.hetzner.worlds import CLUSTER, Bench, at_hetzner, order

ANSWERS: Final = int(os.environ.get("ODD_ANSWERS", "2400"))
AT_ONCE: Final = 24  # one after the other, before the list must be fresh again
TWO_PERIODS_SECONDS: Final = 62.0

STATUSES: Final = (200, 200, 200, 201, 204, 301, 400, 401, 403, 404, 409, 422, 423, 429, 500, 502, 503, 504, 599)
ERRORS: Final[tuple[Any, ...]] = (
    "Bad Gateway", {}, None, [], 7, {"code": None}, {"code": "x"}, {"message": "y"}, {"code": 5, "message": []},
    {"code": "not_found", "message": None, "details": []}, {"code": "", "message": ""}, {"code": ["a"], "message": {}},
    {"code": "invalid_input", "message": "m", "details": {"fields": [{"name": 1, "messages": 7}, None, "x"]}},
    {"code": "rate_limit_exceeded", "message": "slow down"}, {"code": "locked", "message": "l", "details": "d"},
)  # fmt: skip
RAW: Final = (
    b"", b"null", b"[]", b"7", b"true", b'"text"', b"{", b"<html>502</html>", b"\xff\xfe\x00", b"NaN", b"[" * 3000,
    b'{"error"', b"{}", b'{"servers": null}', b'["error"]', b'{"error": {}, "servers": []}', b"1" * 5000,
)  # fmt: skip
WRONG: Final[tuple[Any, ...]] = (
    None,
    "",
    "nan",
    "inf",
    "-1",
    "1e999",
    "abc",
    -1,
    0,
    1e308,
    [],
    {},
    True,
    2**70,
    "\u0000",
    "x" * 5000,
)
HEADERS: Final[tuple[dict[str, str], ...]] = (
    {}, {}, {}, {"RateLimit-Limit": "nan", "RateLimit-Remaining": "inf"},
    {"RateLimit-Limit": "1e308", "RateLimit-Remaining": "-1e308", "RateLimit-Reset": "1e308"},
    {"RateLimit-Remaining": "abc", "RateLimit-Reset": "-inf", "Date": "Fri, 31 Dec 0001 00:00:00 +2359"},
    {"Retry-After": "86400", "Date": "yesterday"}, {"RateLimit-Limit": "0", "RateLimit-Remaining": "3000"},
    {"Content-Type": "text/html; charset=utf-99"}, {"X-Correlation-Id": "\u00e9" * 10},
)  # fmt: skip
FAILURES: Final[tuple[type[Exception], ...]] = (
    requests.exceptions.ReadTimeout, requests.exceptions.ConnectTimeout, requests.exceptions.ConnectionError,
    requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError, requests.exceptions.SSLError,
    requests.exceptions.InvalidHeader, requests.exceptions.TooManyRedirects, OSError, RecursionError, ValueError,
    MemoryError, AttributeError, AssertionError,
)  # fmt: skip


class Odd(BaseAdapter):
    """Carries requests to the fake, and spoils the answers for as long as it is told to."""

    def __init__(self, inner: InProcess, chance: random.Random) -> None:
        super().__init__()
        self.left = 0
        self.spoilt = 0
        self._inner, self._chance = inner, chance

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        if self.left <= 0:
            return self._inner.send(request)
        self.left -= 1
        self.spoilt += 1
        chance = self._chance
        if chance.random() < 0.1:
            raise chance.choice(FAILURES)("odd")
        response = self._inner.send(request) if chance.random() < 0.6 else requests.Response()
        response.status_code = chance.choice(STATUSES)
        response._content = self._body(response)
        response.headers.update(chance.choice(HEADERS))
        response.url, response.request = request.url or "", request
        return response

    def _body(self, response: requests.Response) -> bytes:
        chance = self._chance
        kind = chance.random()
        if kind < 0.3:
            return chance.choice(RAW)
        if kind < 0.6 or not response._content:
            return json.dumps({"error": chance.choice(ERRORS)}).encode()
        return json.dumps(self._bent(json.loads(response._content))).encode()

    def _bent(self, value: Any, depth: int = 0) -> Any:
        """The answer with one value in it that does not belong there, or missing."""
        chance = self._chance
        if not isinstance(value, dict | list) or not value or (depth and chance.random() < 0.15):
            return chance.choice(WRONG)
        places: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        place = chance.choice(places)
        if chance.random() < 0.15:
            return [each for number, each in enumerate(value) if number != place] if isinstance(value, list) else {
                key: each for key, each in value.items() if key != place
            }  # fmt: skip
        copy = value.copy()
        copy[place] = self._bent(value[place], depth + 1)
        return copy

    def close(self) -> None:
        return None


def test_no_task_is_lost_by_odd_answers_and_the_list_is_fresh_within_two_periods_after_the_last() -> None:
    async def test(bench: Bench) -> None:
        runtime, chance = bench.runtime, random.Random("odd answers")
        for number in range(3):
            bench.server(await bench.provider.launch(order(f"default-pool-{number}", f"uid-{number}")))
        odd = Odd(InProcess(bench.api), chance)

        def open_odd(token: str, endpoint: str, seconds: float) -> Any:
            client = connect(token, endpoint, seconds)
            client._client._session.mount(endpoint, odd)
            return client

        travelling = Travelling(runtime, "odd", bench.settings.call_seconds, _stay, bench.project.faults)
        hetzner = HetznerProvider(bench.settings, runtime, HetznerApi(bench.settings, runtime, travelling, open_odd))
        metrics = Metrics(runtime)
        provider, supervisor = CarefulProvider(hetzner, runtime, metrics.provider_call), Supervisor(runtime, metrics)
        supply = Supply(provider, CLUSTER, runtime)
        supervisor.keep("supply", supply.run)
        await runtime.sleep(10)
        assert len(supply.machines) == 3
        while odd.spoilt < ANSWERS:
            odd.left = AT_ONCE
            for _ in range(1000):
                if odd.left <= 0:
                    break
                await ask_something(provider, supply, chance)
                await runtime.sleep(chance.choice([0.0, 1.0, 20.0]))
            last_bad_at = runtime.now()
            await runtime.sleep(TWO_PERIODS_SECONDS)
            assert supply.machines_at is not None
            assert supply.machines_at > last_bad_at, f"after {odd.spoilt} odd answers the list is not renewed"
            assert {"default-pool-0", "default-pool-1", "default-pool-2"} == set(supply.machines)
            assert all(0 < each.price_per_hour < 100 for each in supply.offerings)
        assert (list(supervisor.failures), supervisor.why_not_alive(), runtime.failures) == ([], "", [])

    at_hetzner(test)


async def ask_something(provider: CarefulProvider, supply: Supply, chance: random.Random) -> None:
    """Orders and deletions get odd answers too: each ends in an outcome. Only what does not exist is deleted."""
    kind = chance.random()
    if kind < 0.5:
        await supply.refresh()
    elif kind < 0.6:
        supply._catalogue_at = None
        await supply.refresh()
    elif kind < 0.8:
        assert isinstance(await provider.launch(order("default-pool-0", "uid-0")), Outcome)
    else:
        assert isinstance(await provider.delete("999999999"), Outcome)
