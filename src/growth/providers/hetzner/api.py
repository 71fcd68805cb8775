"""One request to Hetzner's API, through the official client, and what became of the actions it began. Used by every
file of this room; knows no servers.

Each call runs in a thread (`line.py`), within `callSeconds` from its beginning to its last byte, the wait for a free
thread included; what takes longer is given up. The models of the official client are not used: they read again behind
our back when a field is missing, past the quota. The token comes from a file and is read again when that
changes; it is believed once it sees a server that the old one saw.

All actions under way are asked about in one request, as often as the quota allows. Launch waits for one beside the
loop and only for a while: an order from a snapshot may take many minutes, and is accepted all the same.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import msgspec

from growth.kube.redaction import SECRETS
from growth.providers.hetzner.errors import LIMITED, Answered, CallError, NeverSent, NoAnswer
from growth.providers.hetzner.line import Connect, Line, OneCall, connect
from growth.providers.hetzner.quota import Quota, Rank
from growth.providers.hetzner.settings import HetznerSettings
from growth.providers.hetzner.wire import Action, Actions, Meta
from growth.runtime import Runtime, Spawned

Result = TypeVar("Result")
Query = dict[str, str | int | list[int] | list[str]]

PAGE: Final = 50


class Paged(Protocol):
    """An answer that is one page of several."""

    @property
    def meta(self) -> Meta: ...


OnePage = TypeVar("OnePage", bound=Paged)


class Calling(Protocol):
    """Runs a synchronous call beside the event loop."""

    def __call__(self, work: Callable[[], Result], /) -> Awaitable[Result]: ...


class HetznerApi:
    """Requests to Hetzner's API, for one project."""

    def __init__(
        self,
        settings: HetznerSettings,
        runtime: Runtime,
        calling: Calling | None = None,
        open_client: Connect = connect,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self.quota = Quota(runtime, settings.requests_per_hour)
        self.witness: Callable[[], int | None] = lambda: None  # a server that surely exists, by id
        self._settings = settings
        self._calling: Calling = calling or runtime.in_thread
        self._runtime = runtime
        self._line = Line(settings.endpoint, settings.call_seconds, open_client, may_write, self.quota.check_open)
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
        call, seconds = OneCall(token, method, path, content), self._settings.call_seconds
        failure: CallError | None = None
        payload: Any = None
        try:
            payload = await self._runtime.within(seconds, self._calling(lambda: self._line.perform(call)))
        except CallError as error:
            failure = error
        except TimeoutError:
            lost = f"{call.what}: no answer within {seconds:.0f} s"
            failure = NoAnswer(lost) if call.give_up() else NeverSent(f"{lost}: all threads were busy")
        is_limited = isinstance(failure, Answered) and failure.code == LIMITED
        self.quota.heard(call.headers, is_limited)
        if is_limited:
            self.quota.check_open()
        if failure is not None:
            raise failure
        return payload

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
