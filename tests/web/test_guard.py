"""Nobody but a reader from an allowed host gets an answer; where the page is exposed, nobody without a good token."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.client import Client
from growth.kube.api.transport import Request, Response, TransportError
from growth.sim.apiserver.streams import Answer
from growth.web.guard import CONTROLS, PAGE_PATH, Asked, Guard, Reviews

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "")
HOSTS = {  # and whether a page on loopback is reached under it
    "localhost:8081": True, "127.0.0.1:8081": True, "[::1]:8081": True, "localhost": True, "LOCALHOST:1": True,
    "localhost.": True, "evil.example": False, "evil.example:8081": False, "localhost.evil.example": False,
    "127.0.0.1.evil.example:8081": False, "127.0.0.2:8081": False, "user@localhost:8081": False, "": False,
    "localhost:8081@evil.example": False, "[::2]:8081": False, "[": False, "0.0.0.0:8081": False, "10.0.0.1": False,
}  # fmt: skip
ORIGINS = (
    None, "http://localhost:8081", "https://localhost:8081", "null", "", "http://localhost", "http://localhost:8082",
    "http://evil.example", "http://localhost:8081.evil.example", "http://localhost:8081@evil.example",
    "file://localhost:8081", "http://127.0.0.1:8081", "http://localhost:8081/path", "[",
)  # fmt: skip
SITES = {None: True, "none": True, "same-origin": True, "same-site": False, "cross-site": False, "nonsense": False}
TOKENS = {"good": 200, "stranger": 403, "unknown": 401, "": 401, None: 401}
PATHS = ("/", "/app.js", "/api/state", "/api/events", "/api/explain", CONTROLS)


def status_of(guard: Guard, asked: Asked) -> int:
    refusal = asyncio.run(guard.why_not(asked))
    return 200 if refusal is None else refusal.status


def asked(method: str = "GET", path: str = "/api/state", host: str = "localhost:8081", **headers: str | None) -> Asked:
    given_ones = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
    return Asked(method, path, host, given_ones)


def is_of(origin: str, host: str) -> bool:
    return origin in (f"http://{host.lower()}", f"https://{host.lower()}")


def test_on_loopback_exactly_reads_of_allowed_hosts_and_origins_are_answered() -> None:
    guard = Guard()
    for method, host, origin, site, path in product(METHODS, HOSTS, ORIGINS, SITES, PATHS[::5]):
        refusal = guard.why_not_at_once(asked(method, path, host, origin=origin, sec_fetch_site=site))
        is_same = origin is None or is_of(origin, host)
        may = method in ("GET", "HEAD") and HOSTS[host] and is_same and SITES[site]
        assert (refusal is None) == may, (method, host, origin, site, path)


def test_methods_that_are_not_for_reading_are_refused_before_anything_is_looked_at() -> None:
    for method, host, path in product(METHODS[2:], HOSTS, PATHS):
        assert status_of(Guard(), asked(method, path, host)) == 405


def test_a_link_from_elsewhere_opens_the_page_but_reads_no_data() -> None:
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    assert status_of(Guard(), asked(path="/", **link)) == 200
    assert status_of(Guard(), asked(path="/api/state", **link)) == 403


def test_names_of_the_settings_are_allowed_and_only_those() -> None:
    guard = Guard(("growth.example",))
    assert status_of(guard, asked(host="growth.example")) == 200
    assert status_of(guard, asked(host="Growth.Example:443")) == 200
    assert status_of(guard, asked(host="other.example")) == 421
    assert status_of(guard, asked(host="growth.example", origin="https://growth.example")) == 200
    assert status_of(guard, asked(host="growth.example", origin="https://other.example")) == 403


@given(st.text(max_size=60), st.sampled_from(METHODS), st.sampled_from(PATHS))
def test_no_other_host_is_ever_answered(host: str, method: str, path: str) -> None:
    refusal = Guard().why_not_at_once(asked(method, path, host))
    name = host.lower().partition(":")[0].rstrip(".")
    assert refusal is not None or name in ("localhost", "127.0.0.1") or host.startswith("[::1]")


class TestControls:
    """Of a story: the only thing that is not a read, and only in the demo."""

    JSON = "application/json"

    def test_they_are_steered_from_the_very_page_only(self) -> None:
        guard = Guard(controls=True)
        for host, origin, site, media in product(HOSTS, ORIGINS, SITES, (self.JSON, "text/plain", None)):
            request = asked("POST", CONTROLS, host, origin=origin, sec_fetch_site=site, content_type=media)
            may = origin is not None and is_of(origin, host) and HOSTS[host] and SITES[site] and media == self.JSON
            assert (guard.why_not_at_once(request) is None) == may, (host, origin, site, media)

    @pytest.mark.parametrize("path", [path for path in PATHS if path != CONTROLS])
    def test_nothing_else_takes_a_post(self, path: str) -> None:
        request = asked("POST", path, origin="http://localhost:8081", content_type=self.JSON)
        assert status_of(Guard(controls=True), request) == 405

    def test_a_running_growth_has_none(self) -> None:
        request = asked("POST", CONTROLS, origin="http://localhost:8081", content_type=self.JSON)
        assert status_of(Guard(), request) == 405
        assert status_of(Guard(controls=True, is_exposed=True), request) == 405


class ApiServer:
    """Knows two users, of whom one may see the page."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_away = False

    async def send(self, request: Request) -> Response:
        if self.is_away:
            raise TransportError("away")
        item = msgspec.json.decode(request.body)
        self.asked.append(item["kind"])
        status = self._tokens(item["spec"]) if item["kind"] == "TokenReview" else self._access(item["spec"])
        return Answer(201, msgspec.json.encode({**item, "status": status}))

    @staticmethod
    def _tokens(spec: dict[str, Any]) -> dict[str, Any]:
        known = spec["token"] in ("good", "stranger")
        return {"authenticated": known, **({"user": {"username": spec["token"], "groups": ["some"]}} if known else {})}

    @staticmethod
    def _access(spec: dict[str, Any]) -> dict[str, Any]:
        assert spec["nonResourceAttributes"] == {"path": PAGE_PATH, "verb": "get"}
        return {"allowed": spec["user"] == "good"}


def reviews(server: ApiServer) -> tuple[Reviews, list[float]]:
    runtime, clock = SystemRuntime(), [0.0]
    return Reviews(Client(server, runtime), lambda: clock[0]), clock


def test_an_exposed_page_gives_data_only_to_users_that_may_see_it() -> None:
    guard = Guard(("growth.example",), is_exposed=True, reviews=reviews(ApiServer())[0])
    for method, host, token, path in product(("GET", "HEAD"), ("growth.example", "localhost:8081"), TOKENS, PATHS):
        bearer = None if token is None else f"Bearer {token}"
        expected = TOKENS[token] if path.startswith("/api/") else 200
        assert status_of(guard, asked(method, path, host, authorization=bearer)) == expected, (method, host, token)


@pytest.mark.parametrize("header", ["Basic good", "good", "Bearer", "Bearer  ", f"Bearer {'x' * 20_000}"])
def test_what_is_no_token_is_not_even_reviewed(header: str) -> None:
    server = ApiServer()
    guard = Guard(is_exposed=True, reviews=reviews(server)[0])
    assert status_of(guard, asked(authorization=header)) == 401
    assert not server.asked


def test_without_anybody_to_review_tokens_nobody_gets_data() -> None:
    assert status_of(Guard(is_exposed=True), asked(authorization="Bearer good")) == 401


def test_answers_are_kept_for_a_minute_and_no_token_with_them() -> None:
    server = ApiServer()
    reviewed, clock = reviews(server)

    async def ask() -> None:
        for _ in range(3):
            assert await reviewed.why_not("good") is None
            assert (await reviewed.why_not("unknown")) is not None
        assert server.asked == ["TokenReview", "SubjectAccessReview", "TokenReview"]
        clock[0] = 61.0
        assert await reviewed.why_not("good") is None
        assert len(server.asked) == 5

    asyncio.run(ask())
    assert "good" not in repr(vars(reviewed)["_known"])


def test_an_api_server_that_is_away_lets_nobody_in_and_is_asked_again() -> None:
    server = ApiServer()
    server.is_away = True
    reviewed, _ = reviews(server)

    async def ask() -> None:
        refusal = await reviewed.why_not("good")
        assert refusal is not None
        assert refusal.status == 503
        server.is_away = False
        assert await reviewed.why_not("good") is None

    asyncio.run(ask())
