"""How bytes reach an API server: one method, so that the embedded cluster can stand in for the network.

Asked by the client; answered by `kube/api/http.py` in production and by `sim` in the embedded cluster. Never
looks inside a body."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from msgspec import Struct


class Request(Struct, frozen=True):
    """One HTTP request; `path` carries its query, already encoded."""

    method: str
    path: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
    timeout_seconds: float | None = 30.0  # until the headers arrive; a stream afterwards is watched by its reader
    may_leave: Callable[[], bool] | None = None  # asked again when it really leaves: it may have waited until then


class Response(Protocol):
    """Status and headers at once, the body as it comes."""

    status: int
    headers: Mapping[str, str]  # names in lower case

    def chunks(self) -> AsyncIterator[bytes]:
        """The body in pieces of any size; raises TransportError when it is cut off."""

    async def close(self) -> None: ...


class Transport(Protocol):
    async def send(self, request: Request) -> Response:
        """Raises TransportError if no answer came: the effect is then unknown, unless it is NeverSent."""


class TransportError(Exception):
    """No (whole) answer. Whether the server acted on the request is unknown."""


class NeverSent(TransportError):  # noqa: N818 - says what happened
    """No byte of the request left (no connection, no credentials): the server cannot have acted on it."""


class Withheld(NeverSent):
    """It may not leave any more: leadership is not certain."""
