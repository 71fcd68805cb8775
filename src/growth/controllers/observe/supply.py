"""What the provider sells and which machines it has for us: asked regularly, and at once after we changed something.
What has just changed may go on changing: a machine that is being deleted is there, and a moment later it is not. So the
next lists come after 5, 10 and 20 seconds.

Read by observe and the gate. An answer that fails leaves the last one standing with its age: unknown is not absent.
Lists can be empty, old or cut short although the provider says that all is well. So of machines that the last list had
and this one lacks a few are asked for by their ids; if one of them is there after all, the list is not believed. One
that is there without our label, since somebody took it off, is rightly missing. Which of the machines is the one of a
node is said here as well."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog
from msgspec.structs import replace

from growth.controllers.loop.runtime import Signal
from growth.model.node import Node
from growth.model.noderequest import NodeRequest
from growth.model.offering import Machine, Offering
from growth.plan.world.machines import named_after_nodes, owner_of
from growth.providers.contract import Provider, ProviderError
from growth.runtime import Runtime

_CATALOGUE_SECONDS: Final = 300.0
_MACHINES_SECONDS: Final = 30.0
_CHANGING_SECONDS: Final = 5.0  # after a change, or what should become one: from there the pause doubles
_SOONEST_SECONDS: Final = 1.0  # however often we change something, the list is asked for no more often than this
_RETRY_SECONDS: Final = 5.0
_SILENT_SECONDS: Final = 55.0  # a list comes twice a minute

log = structlog.get_logger(__name__)


class Supply:
    """The provider's latest word."""

    def __init__(self, provider: Provider, cluster: str, runtime: Runtime) -> None:
        self.offerings: tuple[Offering, ...] = ()
        self.machines: Mapping[str, Machine] = {}
        self.machines_at: float | None = None
        self.empty_since: float | None = None  # every list since then had no machine
        self.credentials: Mapping[str, str] = {}
        self.version = 0
        self.failure = ""  # why the last question was not answered; empty: it was
        self._provider = provider
        self._cluster = cluster
        self._runtime = runtime
        self._asked = Signal(runtime)
        self._catalogue_at: float | None = None
        self._proved_at = -math.inf  # when the list that stands was asked for, by the clock that never steps
        self._pause_seconds = _CHANGING_SECONDS
        self._changed: Callable[[], None] = lambda: None

    def on_change(self, callback: Callable[[], None]) -> None:
        self._changed = callback

    @property
    def age_seconds(self) -> float:
        """How old the list of machines is; infinite before the first."""
        return self._runtime.monotonic() - self._proved_at

    def ask_soon(self) -> None:
        """Something changed at the provider, or will in a moment: look again, and soon once more."""
        self._pause_seconds = _CHANGING_SECONDS
        self._asked.set()

    async def run(self) -> None:
        while True:
            succeeded = await self.refresh()
            await self._runtime.sleep(_SOONEST_SECONDS if succeeded else _RETRY_SECONDS)
            await self._asked.wait(self._pause_seconds - _SOONEST_SECONDS if succeeded else 0.0)
            self._asked.clear()

    async def refresh(self) -> bool:
        """Ask the provider now; False if it did not answer."""
        try:
            await self._refresh_catalogue()
            await self._refresh_machines()
            self._refresh_credentials()
        except ProviderError as error:
            self.failure = f"the provider did not answer: {error}"
            log.warning("the provider did not answer", error=str(error))
            return False
        except Exception as error:  # our own mistake: the list is asked for again all the same
            self.failure = f"what the provider answered could not be used: {type(error).__name__}: {error}"
            log.exception("what the provider answered could not be used")
            return False
        self.failure = ""
        return True

    def why_not_sure(self) -> str:
        """What growth does not know of the provider by now: its answer, or a list of its machines that is not too old.
        Empty: nothing.
        """
        if self.failure:
            return self.failure
        if self.machines_at is None:
            return "the provider has not said yet which machines there are"
        if self.age_seconds > _SILENT_SECONDS:
            return f"the provider's list of machines is {self.age_seconds:.0f} s old, and no new one came"
        return "" if self.offerings else "the provider offers no machine"

    async def _refresh_catalogue(self) -> None:
        now = self._runtime.monotonic()
        if self._catalogue_at is not None and now - self._catalogue_at < _CATALOGUE_SECONDS:
            return
        offerings = await self._provider.offerings()
        self._catalogue_at = now
        if offerings != self.offerings:
            self.offerings = offerings
            self._tell()

    async def _refresh_machines(self) -> None:
        asked_at, proved_at = self._runtime.now(), self._runtime.monotonic()
        listed = {machine.name: machine for machine in await self._provider.list(self._cluster)}
        await self._doubt([machine for name, machine in self.machines.items() if name not in listed])
        is_first = self.machines_at is None
        self.machines_at, self._proved_at = asked_at, proved_at
        self.empty_since = None if listed else self.empty_since or asked_at
        is_new = listed != self.machines or is_first
        self._pause_seconds = _CHANGING_SECONDS if is_new else min(_MACHINES_SECONDS, 2 * self._pause_seconds)
        if is_new:
            self.machines = listed
            self._tell()

    def _refresh_credentials(self) -> None:
        """What cannot be read now stays as it was."""
        found = {**self.credentials, **self._provider.credentials()}
        if found != self.credentials:
            self.credentials = found
            self._tell()

    async def _doubt(self, lost: list[Machine]) -> None:
        """Raises ProviderError if one of them is there: the first, the last, one in the middle."""
        for machine in dict.fromkeys(lost[index] for index in (0, len(lost) // 2, -1)) if lost else ():
            found = await self._provider.describe(machine.machine_id)
            if isinstance(found, Machine) and found.state != "deleting" and found.cluster == self._cluster:
                raise ProviderError(f"the list of machines lacks {machine.name}, which is there")

    def _tell(self) -> None:
        self.version += 1
        self._changed()


class OwnedNodes:
    """The nodes with their owners (`plan.world.machines`). What did not change stays the very same object."""

    def __init__(self) -> None:
        self._parts: tuple[Any, ...] = ()
        self._before: Mapping[str, tuple[Node, Node]] = {}
        self._answer: tuple[Mapping[str, Node], Mapping[str, Machine]] = ({}, {})

    def of(
        self, nodes: Mapping[str, Node], machines: Mapping[str, Machine], requests: Mapping[str, NodeRequest]
    ) -> tuple[Mapping[str, Node], Mapping[str, Machine]]:
        """The nodes, and the machines as their nodes are named."""
        parts = (nodes, machines, requests)
        if not self._parts or any(one is not other for one, other in zip(self._parts, parts, strict=True)):
            named = named_after_nodes(machines, nodes)
            pairs = {name: (node, self._owned(node, named, requests)) for name, node in nodes.items()}
            self._parts, self._before = parts, pairs
            self._answer = (self._same_or({name: owned for name, (_, owned) in pairs.items()}), named)
        return self._answer

    def _same_or(self, found: Mapping[str, Node]) -> Mapping[str, Node]:
        known = self._answer[0]
        is_same = len(known) == len(found) and all(known.get(name) is node for name, node in found.items())
        return known if is_same else found

    def _owned(self, node: Node, machines: Mapping[str, Machine], requests: Mapping[str, NodeRequest]) -> Node:
        owner = owner_of(node, machines, requests)
        before, owned = self._before.get(node.name, (None, None))
        pool, offering = ("", "") if owner is None else (owner.pool, owner.offering)
        if before is node and owned is not None and (owned.pool, owned.offering) == (pool, offering):
            return owned
        return replace(node, pool=pool, offering=offering) if pool else node
