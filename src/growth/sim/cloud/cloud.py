"""The cloud of the embedded cluster: servers that cost money, take time to boot, run out, and may be lost in answers.

Asked by `SimulatedProvider` through `CloudApi`; kubelets hear of servers that booted or went. Faults are switches on
`Trouble`, set by `sim/faults/faults` and tests. Billing is by the second here, or by started hours where the catalogue
says so."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from growth.model.labels import Labels
from growth.model.offering import Offering
from growth.providers.catalogue import Catalogue
from growth.providers.simulated import CloudError, NodeTemplate, Server
from growth.runtime import Runtime
from growth.sim.clock import after
from growth.sim.cloud.shop import as_listed, code_of, smaller
from growth.sim.faults.active import ActiveFaults
from growth.sim.faults.kinds import (
    DeleteRefused,
    LateEffect,
    LaunchError,
    ListError,
    ListGarbage,
    NeverBoots,
    NeverReady,
    Quota,
    SlowProvider,
    SmallerThanSold,
    SoldOut,
)

_HOUR: Final = 3600.0


class Trouble(Struct):
    """What goes wrong at the cloud; shares are chances for each call. All zero: nothing does."""

    lost_before_effect: float = 0.0  # the call times out and nothing happened
    lost_after_effect: float = 0.0  # the call times out, but it happened
    rate_limited: float = 0.0
    server_error: float = 0.0
    never_boots: float = 0.0  # chance for each server
    boots_not_ready: float = 0.0
    smaller_share: float = 0.0  # servers have this much less allocatable than the catalogue says
    refuses_delete: float = 0.0
    empty_lists: float = 0.0  # a list that is empty, with 200
    stale_lists: float = 0.0  # a list as it was a while ago
    failed_lists: float = 0.0
    vanishes: float = 0.0  # chance for each server that booted to be gone later, unasked
    lingers_seconds: float = 0.0  # a deleted server stays visible as "deleting"


class Pace(Struct, frozen=True):
    """How long things take, in virtual seconds: from, to."""

    call_seconds: tuple[float, float] = (0.1, 0.6)
    boot_seconds: tuple[float, float] = (15.0, 45.0)


class Bill(Struct, frozen=True):
    """One server's life, for the meter."""

    server_id: str
    name: str
    price_per_hour: float
    began_at: float
    bills_started_hours: bool
    ended_at: float | None = None

    def amount(self, now: float) -> float:
        hours = ((self.ended_at if self.ended_at is not None else now) - self.began_at) / _HOUR
        return self.price_per_hour * (max(1, math.ceil(hours)) if self.bills_started_hours else hours)


class Cloud:
    """Servers by id. `on_boot`, `on_stop` and `on_gone` tell the kubelets."""

    def __init__(
        self,
        catalogue: Catalogue,
        runtime: Runtime,
        seed: str = "0",
        pace: Pace | None = None,
        quota: int | None = None,
    ) -> None:
        self.catalogue = catalogue
        self.trouble = Trouble()
        self.faults = ActiveFaults(f"{seed}/cloud")
        self.pace = pace or Pace()
        self.quota = quota
        self.sold_out: dict[tuple[str, str], None] = {}  # (offering, location): taken out of stock by a scenario
        self.servers: dict[str, Server] = {}
        self.bills: dict[str, Bill] = {}
        self.creates: list[Server] = []
        self.deletes: list[Server] = []  # servers whose deletion was asked for, as they were
        self.on_boot: Callable[[Server, bool], None] = lambda _server, _ready: None
        self.on_stop: Callable[[Server], None] = lambda _server: None
        self.on_gone: Callable[[Server], None] = lambda _server: None
        self.on_change: list[Callable[[str, Server], None]] = []  # laws look on: "order", "create" or "delete"
        self.late: set[str] = set()
        self.foreign: set[str] = set()
        self._offerings = {(offering.name, offering.location): offering for offering in catalogue.offerings()}
        self._runtime = runtime
        self._chance = random.Random(f"{seed}/cloud")
        self._ids = 1000
        self._earlier: tuple[Server, ...] = ()

    # -------------------------------------------------------------------------------- the interface

    async def sold(self) -> tuple[Offering, ...]:
        await self._travel()
        self._maybe_fail()
        return tuple(self._offerings.values())

    async def create_server(
        self, name: str, offering: str, location: str, labels: Labels, template: NodeTemplate
    ) -> Server:
        await self._travel()
        self._maybe_fail()
        if (late := self.faults.hit(LateEffect)) is not None:
            self._order_late(late.seconds, name, offering, location, labels, template)
            raise TimeoutError("no answer")
        error = self.faults.hit(LaunchError, offering=offering, location=location)
        if error is not None and not error.effect:
            raise _answer(error)
        server = self._create(name, offering, location, labels, template)
        if error is not None:
            raise _answer(error)
        await self._maybe_lose()
        return server

    def _order_late(self, seconds: float, *order: Any) -> None:
        name, offering, location, labels, template = order
        ordered = Server("", name, offering, location, labels, "ordered", self._runtime.now(), template=template)
        self._call_listeners("order", ordered)
        after(seconds, lambda: self._create_late(*order))

    def _create_late(self, *order: Any) -> None:
        try:
            self._create(*order, is_late=True)
        except CloudError:
            return  # sold out, or the name is taken meanwhile

    async def get_server(self, server_id: str) -> Server:
        await self._travel()
        self._maybe_fail()
        if server_id not in self.servers:
            raise CloudError("not_found", f"server {server_id} not found")
        return self.servers[server_id]

    async def list_servers(self, label: str, value: str) -> tuple[Server, ...]:
        return tuple(server for server in await self._listed() if server.labels.get(label) == value)

    async def find_servers(self, name: str) -> tuple[Server, ...]:
        return tuple(server for server in await self._listed() if server.name == name)

    async def _listed(self) -> tuple[Server, ...]:
        await self._travel()
        self._maybe_fail()
        if self._happens(self.trouble.failed_lists) or self.faults.hit(ListError):
            raise CloudError("server_error", "the list is not available")
        if self.faults.hit(ListGarbage):
            raise ValueError(
                "Expecting value: line 1 column 1 (char 0)"
            )  # as a library says of an answer it cannot read
        if self._happens(self.trouble.empty_lists):
            return ()
        servers, earlier = tuple(self.servers.values()), self._earlier
        self._earlier = servers
        return tuple(as_listed(self.faults, earlier if self._happens(self.trouble.stale_lists) else servers, earlier))

    async def delete_server(self, server_id: str) -> None:
        await self._travel()
        self._maybe_fail()
        if server_id not in self.servers:
            raise CloudError("not_found", f"server {server_id} not found")
        refused = self.faults.hit(DeleteRefused)
        if refused is not None or self._happens(self.trouble.refuses_delete):
            word = "protected" if refused is None else refused.status
            raise CloudError(word, f"server {server_id} is {word}")
        self._delete(self.servers[server_id])
        await self._maybe_lose()

    # -------------------------------------------------------------------------------------- effects

    def _create(
        self,
        name: str,
        offering_name: str,
        location: str,
        labels: Labels,
        template: NodeTemplate,
        *,
        is_late: bool = False,
    ) -> Server:
        offering = self._offerings.get((offering_name, location))
        if offering is None:
            raise CloudError("invalid_input", f"there is no {offering_name} in {location}")
        if any(server.name == name for server in self.servers.values()):
            raise CloudError("uniqueness_error", f"the name {name} is taken")
        self._check_stock(offering)
        self._ids += 1
        less = self.faults.hit(SmallerThanSold, offering=offering_name, location=location)
        allocatable = smaller(offering.allocatable, less.by if less else self.trouble.smaller_share)
        now = self._runtime.now()
        identity = (str(self._ids), name, offering.server_type, location)
        server = Server(*identity, labels, "initializing", now, allocatable, template)
        self.servers[server.server_id] = server
        bill = Bill(server.server_id, name, offering.price_per_hour, now, offering.bills_started_hours)
        self.bills[server.server_id] = bill
        self.creates.append(server)
        self.late |= {server.server_id} if is_late else set()
        self._call_listeners("create", server)
        self._schedule_boot(server)
        return server

    def _check_stock(self, offering: Offering) -> None:
        stock = self.catalogue.stock(offering.server_type, offering.location)
        sort = (offering.server_type, offering.location)
        running = sum((server.server_type, server.location) == sort for server in self.servers.values())
        is_taken = (offering.name, offering.location) in self.sold_out or (stock is not None and running >= stock)
        if is_taken or self.faults.hit(SoldOut, offering=offering.name, location=offering.location):
            raise CloudError("resource_unavailable", f"no {offering.server_type} available in {offering.location}")
        quotas = [fault.machines for fault in self.faults.of(Quota)] + ([] if self.quota is None else [self.quota])
        if quotas and len(self.servers) >= min(quotas):
            raise CloudError("resource_limit_exceeded", f"the account's limit of {min(quotas)} servers is reached")

    def _schedule_boot(self, server: Server) -> None:
        about = {"offering": f"{self.catalogue.provider}-{server.server_type.lower()}", "location": server.location}
        if self._happens(self.trouble.never_boots) or self.faults.hit(NeverBoots, **about):
            return
        ready = not (self._happens(self.trouble.boots_not_ready) or self.faults.hit(NeverReady, **about))
        seconds = self._chance.uniform(*self.pace.boot_seconds)
        after(seconds, lambda: self._booted(server.server_id, ready))
        if self._happens(self.trouble.vanishes):
            after(seconds + self._chance.uniform(30, 300), lambda: self.vanish(server.server_id))

    def _booted(self, server_id: str, ready: bool) -> None:
        server = self.servers.get(server_id)
        if server is not None and server.status == "initializing":
            self.servers[server_id] = running = msgspec.structs.replace(server, status="running")
            self.on_boot(running, ready)

    def _delete(self, server: Server) -> None:
        if server.status == "deleting":
            return
        self.deletes.append(server)
        self._call_listeners("delete", server)
        self.servers[server.server_id] = msgspec.structs.replace(server, status="deleting")
        self._stop_billing(server)
        self.on_gone(server)
        if self.trouble.lingers_seconds:
            after(self.trouble.lingers_seconds, lambda: self.servers.pop(server.server_id, None))
        else:
            self.servers.pop(server.server_id)

    def vanish(self, server_id: str) -> None:
        server = self.servers.pop(server_id, None)
        if server is not None:
            self._stop_billing(server)
            self.on_gone(server)

    def power_off(self, server_id: str) -> None:
        server = self.servers.get(server_id)
        if server is not None and server.status == "running":
            self.servers[server_id] = msgspec.structs.replace(server, status="off")
            self.on_stop(server)

    def lose_labels(self, server_id: str) -> None:
        server = self.servers.get(server_id)
        if server is not None:
            self.servers[server_id] = msgspec.structs.replace(server, labels=Labels())

    def add_foreign(self, name: str, server_type: str, location: str, labels: Labels) -> None:
        self._ids += 1
        server_id, now = str(self._ids), self._runtime.now()
        self.servers[server_id] = Server(server_id, name, server_type, location, labels, "running", now)
        self.bills[server_id] = Bill(server_id, name, 0.0, now, False)
        self.foreign.add(server_id)

    # ---------------------------------------------------------------------------------------- money

    @property
    def billing(self) -> str:
        return "started hours" if any(bill.bills_started_hours for bill in self.bills.values()) else "seconds"

    def is_as_sold(self, server: Server) -> bool:
        name = f"{self.catalogue.provider}-{server.server_type.lower()}"
        offering = self._offerings.get((name, server.location))
        return offering is None or offering.allocatable == server.allocatable

    def price_of(self, server_id: str) -> float:
        return self.bills[server_id].price_per_hour

    def price_per_hour(self) -> float:
        staying = [server for server in self.servers.values() if server.status != "deleting"]
        return sum(self.bills[server.server_id].price_per_hour for server in staying)

    def amount_due(self) -> float:
        return sum(bill.amount(self._runtime.now()) for bill in self.bills.values())

    def _stop_billing(self, server: Server) -> None:
        bill = self.bills[server.server_id]
        self.bills[server.server_id] = msgspec.structs.replace(bill, ended_at=self._runtime.now())

    def _call_listeners(self, what: str, server: Server) -> None:
        for listener in self.on_change:
            listener(what, server)

    async def _travel(self) -> None:
        slow = sum(fault.seconds for fault in self.faults.of(SlowProvider))
        await self._runtime.sleep(self._chance.uniform(*self.pace.call_seconds) + slow)

    def _happens(self, share: float) -> bool:
        return share > 0 and self._chance.random() < share

    def _maybe_fail(self) -> None:
        if self._happens(self.trouble.rate_limited):
            raise CloudError("rate_limit_exceeded", "limit of requests per hour reached", 5.0)
        if self._happens(self.trouble.server_error):
            raise CloudError("server_error", "internal error")
        if self._happens(self.trouble.lost_before_effect):
            raise TimeoutError("no answer")

    async def _maybe_lose(self) -> None:
        if self._happens(self.trouble.lost_after_effect):
            raise TimeoutError("no answer")


def _answer(fault: LaunchError) -> Exception:
    """What the caller hears, in the cloud's own words."""
    code = code_of(fault)
    if not code:
        return TimeoutError("no answer")
    return CloudError(code, "the project is locked" if code == "locked" else f"HTTP {fault.status}")
