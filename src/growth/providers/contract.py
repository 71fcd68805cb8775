"""What growth asks of a provider of machines. Asked by `controllers/act/apply` and `observe`; every provider keeps it.

Outcomes, not exceptions: a provider tells "no capacity" from "refused", "try later" and "unknown". Unknown is not
absent: only `Gone` says that a machine does not exist. Machines that do not carry our cluster id are never returned and
never touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from growth.model.labels import NO_LABELS, Labels
from growth.model.node import Taint
from growth.model.offering import Machine, Offering
from growth.model.outcome import Outcome
from growth.model.resources import NOTHING, Resources


class Order(Struct, frozen=True):
    """A machine to launch. `name` is the NodeRequest's: the idempotency key."""

    name: str
    request_uid: str
    cluster: str
    pool: str
    offering: str
    location: str
    labels: Labels = NO_LABELS  # of the node it becomes
    annotations: Labels = NO_LABELS
    taints: tuple[Taint, ...] = ()
    allocatable: Resources = NOTHING
    settings: str = ""  # name of the pool's provider settings
    join_token: str = ""  # minted for this machine alone; empty: the provider's own settings say how machines join


class Gone(Struct, frozen=True):
    """The machine does not exist, by its id, while the provider was otherwise answering."""


class ProviderError(Exception):
    """The provider did not answer, or its answer cannot be believed: nothing may be concluded."""


class Provider(Protocol):
    name: str

    async def offerings(self) -> tuple[Offering, ...]:
        """The catalogue; raises ProviderError."""

    async def launch(self, order: Order) -> Outcome:
        """Accepted (with machine_id; also if we have launched it before), NoCapacity, Refused, TryLater, Unknown."""

    async def describe(self, machine_id: str) -> Machine | Gone:
        """One machine by id; raises ProviderError."""

    async def find(self, name: str) -> Machine | Gone:
        """The machine of this name, whoever it belongs to; raises ProviderError."""

    async def list(self, cluster: str) -> tuple[Machine, ...]:
        """All machines of this cluster; raises ProviderError rather than answer in part."""

    async def delete(self, machine_id: str) -> Outcome:
        """Accepted (also when already gone), Refused, TryLater, Unknown."""

    def credentials(self) -> Mapping[str, str]:
        """By name of the provider settings ("" where a pool names none): a checksum of the secrets that machines are
        bought and join with, which tells nothing about them. What cannot be read is left out.
        """
