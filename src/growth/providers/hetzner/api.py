"""One request to Hetzner's API, through the official client, and what became of the actions it began. Used by every
file of this room; knows no servers.

The official client is synchronous and has habits that growth must not have: it repeats a POST whose answer was lost,
and waits for ever. So each call runs in a thread, with timeouts, exactly once. Its models are not used: they read again
behind our back when a field is missing, past the quota. The token comes from a file and is read again when that
changes; it is believed once it sees a server that the old one saw.

All actions under way are asked about in one request, as often as the quota allows. Launch waits for one beside the
loop and only for a while: an order from a snapshot may take many minutes, and is accepted all the same.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import hcloud
import msgspec
import requests
from msgspec import Struct

from growth.providers.hetzner.errors import LIMITED, Answered, CallError, NeverSent, NoAnswer
from growth.providers.hetzner.quota import Quota, Rank
from growth.providers.hetzner.settings import HetznerSettings
from growth.providers.hetzner.wire import Action, Actions, Meta
from growth.providers.redaction import SECRETS
from growth.runtime import Runtime, Spawned

Result = TypeVar("Result")
Query = dict[str, str | int | list[int] | list[str]]

PAGE: Final = 50
CONNECT_SECONDS: Final = 5.0
_CODES: Final = {401: "unauthorized", 403: "forbidden", 404: "not_found", 409: "conflict", 423: "locked", 429: LIMITED}


class Paged(Protocol):
    """An answer that is one page of several."""

    @property
    def meta(self) -> Meta: ...


OnePage = TypeVar("OnePage", bound=Paged)


class Calling(Protocol):
    """Runs a synchronous call beside the event loop."""

    def __call__(self, work: Callable[[], Result], /) -> Awaitable[Result]: ...


Connect = Callable[[str, str, float], hcloud.Client]


def connect(token: str, endpoint: str, read_seconds: float) -> hcloud.Client:
    """The official client without its own retries: a POST that is repeated by itself buys twice."""
    timeout = (CONNECT_SECONDS, read_seconds)
    client = hcloud.Client(token, api_endpoint=endpoint, application_name="growth", timeout=timeout)
    client._client._retry_max_retries = 0  # there is no public switch; a test counts the requests
    return client


class Heard(Struct):
    """Status and headers of an answer."""

    status: int = 0
    headers: Mapping[str, str] = {}


class HetznerApi:
    """Requests to Hetzner's API, for one project."""

    def __init__(
        self,
        settings: HetznerSettings,
        runtime: Runtime,
        calling: Calling | None = None,
        open_client: Connect = connect,
    ) -> None:
        self.quota = Quota(runtime, settings.requests_per_hour)
        self.witness: Callable[[], int | None] = lambda: None  # a server that surely exists, by id
        self._settings = settings
        self._calling: Calling = calling or runtime.in_thread
        self._connect = open_client
        self._of_thread = threading.local()
        self._token = ""
        self._read_at: tuple[int, int, int] | None = None  # which version of the file the token is from

    async def get(self, path: str, into: type[Result], rank: Rank, query: Query | None = None) -> Result:
        return await self._request("GET", path, into, rank, params=query or {})

    async def pages(
        self, path: str, into: type[OnePage], rank: Rank, query: Query | None = None
    ) -> AsyncIterator[OnePage]:
        page: int | None = 1
        while page is not None:
            answer = await self.get(path, into, rank, {**(query or {}), "page": page, "per_page": PAGE})
            yield answer
            page = answer.meta.pagination.next_page

    async def post(self, path: str, body: Mapping[str, Any] | None, into: type[Result], rank: Rank) -> Result:
        return await self._request("POST", path, into, rank, json=body)

    async def delete(self, path: str, into: type[Result], rank: Rank) -> Result:
        return await self._request("DELETE", path, into, rank)

    # ---------------------------------------------------------------------------------------- steps

    async def _request(self, method: str, path: str, into: type[Result], rank: Rank, **content: Any) -> Result:
        self.quota.check_open()
        token = await self._current_token()
        await self.quota.take(rank)
        payload = await self._exchange(token, method, path, content)
        try:
            return msgspec.convert(payload, into)
        except msgspec.ValidationError as error:
            raise NoAnswer(f"{method} {path}: the answer cannot be read: {error}") from None

    async def _exchange(self, token: str, method: str, path: str, content: Mapping[str, Any]) -> Any:
        heard = Heard()
        failure: CallError | None = None
        payload: Any = None
        try:
            payload = await self._calling(lambda: self._call(token, method, path, content, heard))
        except CallError as error:
            failure = error
        is_limited = isinstance(failure, Answered) and failure.code == LIMITED
        self.quota.heard(heard.headers, is_limited)
        if is_limited:
            self.quota.check_open()
        if failure is not None:
            raise failure
        return payload

    def _call(self, token: str, method: str, path: str, content: Mapping[str, Any], heard: Heard) -> Any:
        """Runs in a thread. An error is passed on without the request: its headers hold the token."""

        def listen(response: requests.Response, *_: Any, **__: Any) -> None:
            heard.status = response.status_code
            heard.headers = {name.lower(): value for name, value in response.headers.items()}

        what = f"{method} {path}"
        try:
            client, hooks = self._client(token), {"response": listen}
            return client.request(method, path, hooks=hooks, allow_redirects=False, **content)
        except hcloud.APIException as error:
            raise _answered(what, error, heard.status) from None
        except requests.exceptions.ConnectTimeout:
            raise NeverSent(f"{what}: no connection within {CONNECT_SECONDS:.0f} s") from None
        except requests.exceptions.Timeout:
            raise NoAnswer(f"{what}: no answer within {self._settings.call_seconds:.0f} s") from None
        except requests.exceptions.ConnectionError as error:
            if _was_never_sent(error):
                raise NeverSent(f"{what}: no connection") from None
            raise NoAnswer(f"{what}: the connection broke") from None
        except requests.exceptions.RequestException as error:
            raise NoAnswer(f"{what}: {type(error).__name__}") from None

    def _client(self, token: str) -> hcloud.Client:
        """One client for each thread: sessions are not made to be shared."""
        found: tuple[str, hcloud.Client] | None = getattr(self._of_thread, "client", None)
        if found is None or found[0] != token:
            found = (token, self._connect(token, self._settings.endpoint, self._settings.call_seconds))
            self._of_thread.client = found
        return found[1]

    # ---------------------------------------------------------------------------------------- token

    async def _current_token(self) -> str:
        version = self._file_version()
        if version != self._read_at:
            token = self._read_token()
            if self._token and token != self._token:
                await self._check_same_project(token)
            self._token, self._read_at = token, version
        return self._token

    def _file_version(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self._settings.token_file)
        except OSError as error:
            raise NeverSent(f"token file {self._settings.token_file}: {error.strerror}") from None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _read_token(self) -> str:
        try:
            token = Path(self._settings.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise NeverSent(f"token file {self._settings.token_file} cannot be read") from None
        SECRETS.add_token(token)
        if not token or not token.isascii() or any(character.isspace() for character in token):
            raise NeverSent(f"token file {self._settings.token_file} does not hold one token")
        return token

    async def _check_same_project(self, token: str) -> None:
        """A token of another project would show every machine of ours as gone."""
        witness = self.witness()
        if witness is None:
            return
        if not await self._sees(token, witness) and await self._sees(self._token, witness) is not False:
            what = f"the new token does not see server {witness}, which the old one saw"
            raise NeverSent(f"{what}: is it of another project?")

    async def _sees(self, token: str, server: int) -> bool | None:
        """Whether this token sees the server; None: the token is no longer valid."""
        await self.quota.take(Rank.LOOK)
        try:
            await self._exchange(token, "GET", f"/servers/{server}", {})
        except Answered as error:
            if error.status in (401, 404):
                return False if error.status == 404 else None
            raise
        return True


def _answered(what: str, error: hcloud.APIException, status: int) -> CallError:
    if not isinstance(error.code, str):  # no error of the API's own form: a proxy, or something half sent
        status = status or int(error.code)
        if status in _CODES:
            return Answered(_CODES[status], f"{what}: {error.message}", status)
        return NoAnswer(f"{what}: HTTP {status} without an answer")
    return Answered(error.code, f"{what}: {error.message}{_fields(error.details)}", status)


def _fields(details: Any) -> str:
    """The fields that were refused; their messages may quote what was sent, and are redacted like the rest."""
    fields = details.get("fields") if isinstance(details, dict) else None
    found = [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []
    return "".join(f"; {one.get('name')}: {', '.join(map(str, one.get('messages') or ()))}" for one in found)


def _was_never_sent(error: requests.exceptions.ConnectionError) -> bool:
    """An unknown name, a closed port or a bad certificate fails before the first byte of the request."""
    reason = getattr(error.args[0] if error.args else None, "reason", None)
    kinds = (kind.__name__ for kind in type(reason).__mro__)
    return isinstance(error, requests.exceptions.SSLError) or "NewConnectionError" in kinds


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
