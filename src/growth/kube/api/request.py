"""How is one request sent? Paced, fenced, bounded in time, retried where that is safe, and failing with a typed error.

Used by `kube/api/client.py` alone, which decides what is asked; its callers decide what to do about a failure.

    what happened                      a read                     a write
    429 with Retry-After               again, later               again, later (it was refused); others wait as well
    5xx                                again, then ServerError    EffectUnknown
    no answer, or not in time          again, then Unreachable    EffectUnknown
    never sent                         again, then Unreachable    Unreachable
    the fence fell before it left                                 NotLeader
    any other 4xx, a budget's 429      Refused                    Refused
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from growth.kube.api.errors import (
    BlockedByBudget,
    EffectUnknown,
    KubeError,
    NotLeader,
    ServerError,
    TooManyRequests,
    Unreachable,
    error_from_answer,
)
from growth.kube.api.pace import Backoff, Lane, Places, Throttle
from growth.kube.api.server_time import ServerTime
from growth.kube.api.transport import NeverSent, Request, Response, Transport, TransportError, Withheld

_LONGEST_PAUSE_SECONDS: Final = 5.0  # of all requests, after a 429 to one of them


class ClientSettings(Struct, frozen=True):
    requests_per_second: float = 50.0
    burst: int = 100
    at_once: int = 64  # requests under way, urgent ones and watches not counted
    timeout_seconds: float = 30.0  # for a whole answer, or for the headers of a stream
    attempts: int = 4  # of a request that may be repeated
    retry_after_limit_seconds: float = 30.0  # a server that asks for more gets its refusal passed on
    page_size: int = 500


class Sender:
    """Sends the requests of one client over one transport."""

    def __init__(
        self,
        transport: Transport,
        runtime: ServerTime,
        settings: ClientSettings,
        may_write: Callable[[], bool],
        write_seconds: Callable[[], float],
    ) -> None:
        self._transport = transport
        self._runtime = runtime
        self._settings = settings
        self._may_write = may_write
        self._write_seconds = write_seconds
        self._throttle = Throttle(runtime, settings.requests_per_second, settings.burst)
        self._places = Places(settings.at_once)

    async def answer(
        self, request: Request, *, writes: bool, lane: Lane = Lane.NORMAL, is_sent_once: bool = False
    ) -> bytes:
        """The body of a successful answer. Sent once: whoever asks decides when it is tried again."""
        backoff, attempts = Backoff(self._runtime, 0.25, 10.0), 1 if is_sent_once else self._settings.attempts
        while True:
            try:
                return await self._attempt(request, writes, lane)
            except KubeError as error:
                if backoff.failures + 1 >= attempts or not self._may_repeat(error, writes):
                    raise
                await backoff.wait(getattr(error, "retry_after_seconds", None))

    async def stream(self, request: Request, lane: Lane = Lane.NORMAL) -> Response:
        """An answer whose body is read as it comes; one attempt, the caller closes it."""
        await self._throttle.take(lane)
        try:
            return await self._runtime.within(self._settings.timeout_seconds, self._opened(request))
        except (TimeoutError, TransportError) as error:
            _lost(error, writes=False)

    async def _attempt(self, request: Request, writes: bool, lane: Lane) -> bytes:
        await self._places.take(lane)
        try:
            return await self._attempt_now(request, writes, lane)
        finally:
            self._places.give_back(lane)

    async def _attempt_now(self, request: Request, writes: bool, lane: Lane) -> bytes:
        await self._throttle.take(lane)
        unsent = NotLeader(f"{request.method} {request.path} was not sent: leadership is not certain")
        if writes and not self._may_write():
            raise unsent
        try:
            seconds = request.timeout_seconds or self._settings.timeout_seconds
            if writes:
                request, seconds = replace(request, may_leave=self._may_write), min(seconds, self._write_seconds())
            return await self._runtime.within(seconds, self._whole(request))
        except Withheld:
            raise unsent from None
        except (TimeoutError, TransportError) as error:
            _lost(error, writes)
        except TooManyRequests as error:
            if not isinstance(error, BlockedByBudget):
                self._throttle.pause(min(error.retry_after_seconds or 0.0, _LONGEST_PAUSE_SECONDS))
            raise
        except ServerError as error:
            if writes:
                raise EffectUnknown(str(error)) from error
            raise

    async def _opened(self, request: Request) -> Response:
        asked_at = self._runtime.monotonic()
        response = await self._transport.send(request)
        if response.status >= 300:
            raise error_from_answer(response.status, response.headers, await self._body_of_failure(response))
        self._runtime.hear(response.headers, asked_at)  # a refusal may be a gateway's, with a clock of its own
        return response

    async def _whole(self, request: Request) -> bytes:
        response = await self._opened(request)
        try:
            return b"".join([chunk async for chunk in response.chunks()])
        finally:
            await response.close()

    async def _body_of_failure(self, response: Response) -> bytes:
        """As much of the body as comes: the status alone already says that the request failed."""
        body = b""
        try:
            async for chunk in response.chunks():
                body += chunk
                if len(body) > 1 << 20:
                    break
        except TransportError:
            pass
        finally:
            await response.close()
        return body

    def _may_repeat(self, error: KubeError, writes: bool) -> bool:
        if isinstance(error, TooManyRequests):
            asked = error.retry_after_seconds
            is_soon = asked is not None and asked <= self._settings.retry_after_limit_seconds
            return is_soon and not isinstance(error, BlockedByBudget)
        return not writes and isinstance(error, Unreachable | ServerError)


def _lost(error: TimeoutError | TransportError, writes: bool) -> NoReturn:
    said = str(error) or "no answer in time"
    if writes and not isinstance(error, NeverSent):
        raise EffectUnknown(said) from error
    raise Unreachable(said) from error
