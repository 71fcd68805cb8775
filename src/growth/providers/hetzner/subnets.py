"""How does a server come into the subnet that the settings name? Asked by the provider, where they name one.

An order can only name networks, and Hetzner then takes an address from any subnet of the location's zone. So the server
is ordered without that network and without being started, is attached with the subnet's range, and then started:

    POST /servers (start_after_create: false) → attach_to_network (ip_range) → poweron

Every step can be asked for again. Where Hetzner refuses one (the subnet is full), the server is to be given back at
once, and for a while none is ordered for that subnet: each would cost its first hour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from growth.model.outcome import Refused
from growth.providers.hetzner.directory import Directory
from growth.providers.hetzner.errors import NOT_FOUND, Answered, CallError, Limited, NoAnswer, Unusable, outcome_of
from growth.providers.hetzner.following import Following
from growth.providers.hetzner.line import Line
from growth.providers.hetzner.quota import Rank
from growth.providers.hetzner.settings import Launch
from growth.providers.hetzner.wire import OneAction
from growth.runtime import Runtime

REFUSED_SECONDS: Final = 900.0
_PAUSES: Final = (2.0, 5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0)  # a server from a large snapshot is locked for minutes
_FOLLOWED_SECONDS: Final = 30.0
_ALREADY_ATTACHED: Final = "server_already_attached"


class Attachment(Struct, frozen=True):
    """A network to attach a server to, and where in it."""

    network: int
    ip_range: str


class Subnets:
    """Brings servers into their subnets."""

    def __init__(self, line: Line, directory: Directory, following: Following, runtime: Runtime) -> None:
        self._line = line
        self._directory = directory
        self._following = following
        self._runtime = runtime
        self._refused: dict[Attachment, tuple[float, str]] = {}

    async def attachments(self, launch: Launch, location: str) -> tuple[Attachment, ...]:
        """Raises Unusable where a subnet does not exist there, or has just refused a server."""
        found = tuple(
            [
                Attachment(await self._directory.subnet(name, ip_range, location), ip_range)
                for name, ip_range in launch.subnets.items()
            ]
        )
        for each in found:
            until, why = self._refused.get(each, (0.0, ""))
            if self._runtime.monotonic() < until:
                raise Unusable(why)
        return found

    async def bring_in(self, server_id: int, attachments: Iterable[Attachment]) -> str:
        """Attach and start the server; why Hetzner refuses, or empty. Raises NoAnswer where the same must be asked for
        again.
        """
        try:
            for each in attachments:
                await self._attach(server_id, each)
            await self._insist(server_id, "poweron", None)
        except Answered as refused:
            return str(refused)
        return ""

    async def _attach(self, server_id: int, attachment: Attachment) -> None:
        try:
            await self._insist(
                server_id, "attach_to_network", {"network": attachment.network, "ip_range": attachment.ip_range}
            )
        except Answered as refused:
            if refused.code == _ALREADY_ATTACHED:
                return
            if refused.code != NOT_FOUND:
                self._refused[attachment] = (self._runtime.monotonic() + REFUSED_SECONDS, str(refused))
            raise

    async def _insist(self, server_id: int, what: str, body: Mapping[str, Any] | None) -> None:
        """Ask until it is done; raises Answered where it is refused, NoAnswer where it takes too long."""
        for pause in _PAUSES:
            try:
                made = await self._line.post(f"/servers/{server_id}/actions/{what}", body, OneAction, Rank.CREATE)
                action = await self._following.wait_for(made.action, _FOLLOWED_SECONDS)
                if action is None or action.error is None:
                    return
                raise Answered(action.error.code, action.error.message)
            except CallError as error:
                if isinstance(outcome_of(error), Refused):
                    raise
                await self._runtime.sleep(max(pause, error.seconds if isinstance(error, Limited) else 0.0))
        raise NoAnswer(f"{what} was asked for {len(_PAUSES)} times")
