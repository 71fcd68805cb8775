"""Where do machines come from in this world? What the laws, the figures, the faults and the teller may ask of any cloud
of the embedded cluster, and what the faults of scenarios mean to all of them.

Kept by the simple cloud (`sim/cloud/cloud`) and by the fake Hetzner (`sim/cloud/hetzner/embedded`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from growth.model.labels import Labels
from growth.model.resources import Resources
from growth.providers.simulated import Server
from growth.sim.faults.active import ActiveFaults
from growth.sim.faults.kinds import LaunchError, ListEmpty, ListIncomplete, ListStale

Listed = TypeVar("Listed")


class Shop(Protocol):
    """A cloud as its watchers see it. Those in `on_change` hear of "create" and "delete", each before anything follows
    from it, and of "order" when one is taken whose effect comes late."""

    faults: ActiveFaults
    on_change: list[Callable[[str, Server], None]]

    @property
    def servers(self) -> Mapping[str, Server]: ...

    @property
    def creates(self) -> Sequence[Server]:
        """Everything that was bought, as it was then."""

    @property
    def deletes(self) -> Sequence[Server]:
        """Servers whose deletion was asked for, as they were."""

    @property
    def late(self) -> Collection[str]:
        """Ids of servers that came long after their order, which got no answer: the cloud's own doing."""

    @property
    def foreign(self) -> Collection[str]:
        """Ids of servers that are a stranger's."""

    @property
    def billing(self) -> str: ...

    def is_as_sold(self, server: Server) -> bool:
        """Has the server what the catalogue says?"""

    def price_of(self, server_id: str) -> float: ...

    def price_per_hour(self) -> float: ...

    def amount_due(self) -> float: ...

    def add_foreign(self, name: str, server_type: str, location: str, labels: Labels) -> None:
        """A server of a stranger in the same account; what it costs is not counted."""

    def vanish(self, server_id: str) -> None:
        """A server goes without being asked: the hardware broke."""

    def power_off(self, server_id: str) -> None:
        """A server stops by itself; it is still there, and paid."""

    def lose_labels(self, server_id: str) -> None:
        """Somebody took a server's labels off; it runs on, and is paid."""


def as_listed(faults: ActiveFaults, servers: Sequence[Listed], earlier: Sequence[Listed]) -> Sequence[Listed]:
    """What a list shows of the servers; `earlier` are those of the list before."""
    if faults.hit(ListEmpty):
        return ()
    shown: Iterable[Listed] = earlier if faults.hit(ListStale) else servers
    for fault in faults.of(ListIncomplete):
        shown = [each for each in shown if not faults.happens(fault)]
    return tuple(shown)


def code_of(fault: LaunchError) -> str:
    """The cloud's own word for a refusal; nothing: there is no answer."""
    if not isinstance(fault.status, int):
        return "locked" if fault.status == "locked" else ""
    codes = {403: "forbidden", 409: "conflict", 422: "invalid_input", 429: "rate_limit_exceeded"}
    return "server_error" if fault.status >= 500 else codes.get(fault.status, "invalid_input")


def smaller(allocatable: Resources, share: float) -> Resources:
    """Without this share of what pods fill."""
    if not share:
        return allocatable
    fewer = ("cpu", "memory", "ephemeral-storage")
    amounts = allocatable.items()
    return Resources({name: int(amount * (1 - share)) if name in fewer else amount for name, amount in amounts})
