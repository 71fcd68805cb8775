"""One request to Hetzner, in a thread: sent at most once, never for longer than was said, and ended in a known way.
Used by `api.py`.

The official client is synchronous, repeats a POST whose answer was lost, and counts its time between two bytes: a
server that sends a byte now and then would hold a thread for ever. So its repeating is off, and whoever waits for a
call can hang up: the call's socket is shut, and its thread is free.

| what happened | ends in |
| --- | --- |
| an error in the API's own form | Answered, with its code |
| 401, 403, 409, 423 or 429 in any other form | Answered: the status alone says it |
| any other status in another form (a proxy's 404 or 502), an answer that the client chokes on | NoAnswer |
| no connection, given up or no longer leading before the first byte | NeverSent |
| the connection broke, or the time was over | NoAnswer |
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import hcloud
import requests
import urllib3
from requests.adapters import HTTPAdapter

from growth.providers.hetzner.errors import LIMITED, Answered, CallError, NeverSent, NoAnswer

CONNECT_SECONDS: Final = 5.0
_CODES: Final = {401: "unauthorized", 403: "forbidden", 409: "conflict", 423: "locked", 429: LIMITED}

Connect = Callable[[str, str, float], hcloud.Client]


class Held:
    """The socket of one client, and the call it is used for now."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.call: OneCall | None = None
        self.socket: socket.socket | None = None


class OneCall:
    """One request, and what became of it."""

    def __init__(self, token: str, method: str, path: str, content: Mapping[str, Any]) -> None:
        self.token, self.method, self.path, self.content = token, method, path, content
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.has_begun = False
        self._is_given_up = False
        self._lock = threading.Lock()
        self._held: Held | None = None

    @property
    def what(self) -> str:
        return f"{self.method} {self.path}"

    def begin(self, held: Held | None) -> bool:
        """False: nobody waits for it any more, and it must not be sent."""
        with self._lock:
            self.has_begun, self._held = not self._is_given_up, held
            return self.has_begun

    def give_up(self) -> bool:
        """Nobody waits for it any more. True: it was under way, and may have its effect."""
        with self._lock:
            self._is_given_up = True
            held = self._held
        if held is not None:
            with held.lock, suppress(OSError):
                if held.call is self and held.socket is not None:
                    socket.socket.shutdown(held.socket, socket.SHUT_RDWR)  # below TLS, which would wait for an answer
        return self.has_begun

    def listen(self, response: requests.Response, *_: Any, **__: Any) -> None:
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}


class HangingUp(HTTPAdapter):
    """Connections whose socket is known to `held` from the first byte."""

    def __init__(self, held: Held) -> None:
        self.held = held
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **keywords: Any) -> None:
        super().init_poolmanager(*arguments, **keywords)
        pools = {"http": urllib3.HTTPConnectionPool, "https": urllib3.HTTPSConnectionPool}
        self.poolmanager.pool_classes_by_scheme = {scheme: _holding(pool, self.held) for scheme, pool in pools.items()}


def _holding(pool: type[Any], held: Held) -> type[Any]:
    base = pool.ConnectionCls

    def send(connection: Any, data: Any) -> None:
        base.send(connection, data)
        held.socket = connection.sock

    kind = type("Holding", (base,), {"send": send})
    return type("HoldingPool", (pool,), {"ConnectionCls": kind})


def connect(token: str, endpoint: str, read_seconds: float) -> hcloud.Client:
    """The official client without its own retries: a POST that is repeated by itself buys twice."""
    timeout = (CONNECT_SECONDS, read_seconds)
    client = hcloud.Client(token, api_endpoint=endpoint, application_name="growth", timeout=timeout)
    client._client._retry_max_retries = 0  # there is no public switch; a test counts the requests
    client._client._session.mount(endpoint, HangingUp(Held()))
    return client


class Line:
    """Performs calls, each in the thread that asks."""

    def __init__(
        self,
        endpoint: str,
        call_seconds: float,
        open_client: Connect,
        may_write: Callable[[], bool],
        check_open: Callable[[], None] = lambda: None,
    ) -> None:
        self._endpoint, self._call_seconds = endpoint, call_seconds
        self._connect, self._may_write, self._check_open = open_client, may_write, check_open
        self._of_thread = threading.local()

    def perform(self, call: OneCall) -> Any:
        """Runs in a thread. An error is passed on without the request: its headers hold the token. The fence is asked
        here, and whether calls are made at all: there was perhaps no thread free for a while.
        """
        self._check_open()
        client = self._client(call.token)
        adapter = client._client._session.get_adapter(self._endpoint)
        held: Held | None = getattr(adapter, "held", None)
        if not call.begin(held):
            raise NeverSent(f"{call.what}: given up before it was sent")
        if call.method != "GET" and not self._may_write():
            raise NeverSent(f"{call.what} was not sent: leadership is not certain")
        if held is None:
            return self._ask(client, call)
        with held.lock:
            held.call, held.socket = call, None
        try:
            return self._ask(client, call)
        finally:
            with held.lock:
                held.call = None

    def _ask(self, client: hcloud.Client, call: OneCall) -> Any:
        try:
            hooks = {"response": call.listen}
            return client.request(call.method, call.path, hooks=hooks, allow_redirects=False, **call.content)
        except hcloud.APIException as error:
            raise _answered(call, error) from None
        except requests.exceptions.ConnectTimeout:
            raise NeverSent(f"{call.what}: no connection within {CONNECT_SECONDS:.0f} s") from None
        except requests.exceptions.Timeout:
            raise NoAnswer(f"{call.what}: no answer within {self._call_seconds:.0f} s") from None
        except requests.exceptions.ConnectionError as error:
            if _was_never_sent(error):
                raise NeverSent(f"{call.what}: no connection") from None
            raise NoAnswer(f"{call.what}: the connection broke") from None
        except Exception as error:  # the client chokes on bodies that are not as it expects
            raise _by_status(call, f"an answer that cannot be read ({type(error).__name__})") from None

    def _client(self, token: str) -> hcloud.Client:
        """One client for each thread: sessions are not made to be shared."""
        found: tuple[str, hcloud.Client] | None = getattr(self._of_thread, "client", None)
        if found is None or found[0] != token:
            found = (token, self._connect(token, self._endpoint, self._call_seconds))
            self._of_thread.client = found
        return found[1]


def _answered(call: OneCall, error: hcloud.APIException) -> CallError:
    if not isinstance(error.code, str) or not error.code:  # not the API's own form: a proxy, or something half sent
        return _by_status(call, str(error.message))
    return Answered(error.code, f"{call.what}: {error.message}{_fields(error.details)}", call.status)


def _by_status(call: OneCall, words: str) -> CallError:
    """What a status means without a word of the API's own. A 404 means nothing: it may be a proxy's, and a machine is
    not gone because a proxy does not know it.
    """
    if call.status in _CODES:
        return Answered(_CODES[call.status], f"{call.what}: {words}", call.status)
    return NoAnswer(f"{call.what}: HTTP {call.status} without an answer: {words}")


def _fields(details: Any) -> str:
    """The fields that were refused; their messages may quote what was sent, and are redacted like the rest."""
    fields = details.get("fields") if isinstance(details, dict) else None
    found = [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []
    messages = [(one.get("name"), one.get("messages")) for one in found]
    return "".join(
        f"; {name}: {', '.join(map(str, said)) if isinstance(said, list) else ''}" for name, said in messages
    )


def _was_never_sent(error: requests.exceptions.ConnectionError) -> bool:
    """An unknown name, a closed port or a bad certificate fails before the first byte of the request."""
    reason = getattr(error.args[0] if error.args else None, "reason", None)
    kinds = (kind.__name__ for kind in type(reason).__mro__)
    return isinstance(error, requests.exceptions.SSLError) or "NewConnectionError" in kinds
