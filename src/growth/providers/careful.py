"""What if a provider does something that its contract does not know? Every call of growth to a provider goes through
here, and comes back as an answer of a known kind, within a known time.

| the provider | a question (offerings, list, describe, find) | an order (launch, delete) |
| --- | --- | --- |
| answers | the answer | the outcome |
| raises ProviderError | ProviderError | Unknown |
| raises anything else: a library's error, a mistake of ours | ProviderError, with its kind in words | Unknown |
| does not answer in time | ProviderError | Unknown: it may have had its effect |
| says when it may be asked again | | TryLater, in a minute at most |

Used by `controllers/growth` and by every command that opens a provider. Counts each call by how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

import structlog
from msgspec.structs import replace

from growth.kube.redaction import redact
from growth.model.offering import Machine, Offering
from growth.model.outcome import Accepted, Outcome, TryLater, Unknown
from growth.providers.contract import Gone, Order, Provider, ProviderError
from growth.runtime import Runtime

# a call may be several requests, each with a limit of its own; these are for the whole of it
LONGEST_SECONDS: Final[Mapping[str, float]] = {
    "offerings": 90.0,
    "list": 90.0,
    "describe": 60.0,
    "find": 60.0,
    "launch": 600.0,  # some providers answer when the machine has booted
    "delete": 60.0,
}
LONGEST_RETRY_SECONDS: Final = 60.0
_LONGEST_TEXT: Final = 300

Answer = TypeVar("Answer")

log = structlog.get_logger(__name__)


class CarefulProvider:
    """A provider whose every call ends, and ends in a known way."""

    def __init__(
        self,
        provider: Provider,
        runtime: Runtime,
        counted: Callable[[str, object], None] = lambda _call, _ending: None,
    ) -> None:
        self.name = provider.name
        self._provider = provider
        self._runtime = runtime
        self._counted = counted

    async def offerings(self) -> tuple[Offering, ...]:
        return await self._asked("offerings", self._provider.offerings())

    def credentials(self) -> Mapping[str, str]:
        """None that a provider cannot name: then a change of them goes unseen, and nothing else."""
        try:
            return self._provider.credentials()
        except Exception:
            log.exception("the provider cannot say whether its credentials have changed")
            return {}

    async def list(self, cluster: str) -> tuple[Machine, ...]:
        return await self._asked("list", self._provider.list(cluster))

    async def find(self, name: str) -> Machine | Gone:
        return await self._asked("find", self._provider.find(name))

    async def describe(self, machine_id: str) -> Machine | Gone:
        return await self._asked("describe", self._provider.describe(machine_id))

    async def launch(self, order: Order) -> Outcome:
        return await self._told("launch", self._provider.launch(order))

    async def delete(self, machine_id: str) -> Outcome:
        return await self._told("delete", self._provider.delete(machine_id))

    async def _asked(self, call: str, question: Awaitable[Answer]) -> Answer:
        try:
            answer = await self._answered(call, question)
        except ProviderError as error:
            self._counted(call, ProviderError())  # by the contract's own name, whatever kind of it this is
            raise error
        self._counted(call, Accepted())
        return answer

    async def _told(self, call: str, order: Awaitable[Outcome]) -> Outcome:
        try:
            outcome = await self._answered(call, order)
        except ProviderError as error:
            outcome = Unknown(str(error))
        self._counted(call, outcome)
        if isinstance(outcome, TryLater):  # an answer that says "wait a day" may be a mistake
            seconds = min(outcome.retry_after_seconds, LONGEST_RETRY_SECONDS)
            return replace(outcome, retry_after_seconds=seconds)
        return outcome

    async def _answered(self, call: str, work: Awaitable[Answer]) -> Answer:
        longest = LONGEST_SECONDS[call]
        try:
            return await self._runtime.within(longest, work)
        except ProviderError:
            raise
        except TimeoutError:
            raise ProviderError(f"{call}: no answer within {longest:.0f} s") from None
        except Exception as error:  # whatever it was: nothing may be concluded, and nothing may end by it
            what = redact(f"{type(error).__name__}: {error}")[:_LONGEST_TEXT]
            log.error("the provider's answer was not understood", call=call, error=what, exc_info=error)
            raise ProviderError(f"{call}: the answer was not understood ({what})") from None
