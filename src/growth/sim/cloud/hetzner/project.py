"""One project at the fake Hetzner: servers that take time, cost money, run out and sometimes fail. Without HTTP.

Time comes from outside. What happens later (a server is made, starts, goes) waits in a queue until `advance` is called:
with every request, and when `wake_at` says so.

| after | a server is | unless |
| --- | --- | --- |
| create | initializing | |
| `create_seconds` | starting; off, if it does not start by itself | its creation fails: it is gone |
| attach, poweron | in one more network; starting | it is locked: not made yet, or about to go |
| `boot_seconds` | running; `on_boot` is called | it never boots: running, and `on_boot` is not called |
| poweroff | off, and still billed | |
| delete | deleting, no longer billed | it is protected or locked |
| `delete_seconds` | gone | |

The invoice counts every server from its creation to its deletion, running or not. Started hours are billed whole, up to
the price of a month; the IPv4 address comes on top for as long as the server lives.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from itertools import count, pairwise
from typing import Final

from msgspec import Struct

from growth.model.offering import REQUEST_UID_LABEL
from growth.sim.cloud.hetzner.assortment import (
    HOURS_OF_A_MONTH,
    IMAGES,
    IPV4_PER_HOUR,
    LOCATIONS,
    SERVER_TYPES,
    FakeImage,
    FakeServerType,
    Json,
)
from growth.sim.cloud.hetzner.inventory import FakeAction, FakeGroup, FakeNetwork, FakeServer, FakeSubnet
from growth.sim.faults.active import ActiveFaults
from growth.sim.faults.kinds import DeleteRefused, NeverBoots, NeverReady, Quota, SoldOut

GROUP_PLACES: Final = 10
_HOUR: Final = 3600.0
_MONTH: Final = 730 * _HOUR


def offering_name(server_type: str) -> str:
    """As faults of scenarios name it."""
    return f"hetzner-{server_type}"


class FakeTrouble(Struct):
    """What goes wrong; shares are chances for each request, or each server. All zero: nothing does."""

    lost_before_effect: float = 0.0
    lost_after_effect: float = 0.0
    server_error: float = 0.0
    rate_limited: float = 0.0
    locked: float = 0.0  # deletes and creates answered with locked or conflict
    creation_fails: float = 0.0  # accepted, and then there is no host after all
    never_boots: float = 0.0
    empty_lists: float = 0.0
    stale_lists: float = 0.0  # without the newest servers
    refused_until: float = 0.0  # a storm: 429 for everything until then


class FakePace(Struct, frozen=True):
    """How long things take, in seconds: from, to."""

    create_seconds: tuple[float, float] = (3.0, 12.0)
    boot_seconds: tuple[float, float] = (8.0, 30.0)
    delete_seconds: tuple[float, float] = (1.0, 5.0)
    attach_seconds: tuple[float, float] = (0.5, 3.0)


class FakeRefusal(Exception):  # noqa: N818  (says what it is)
    """The API says no."""

    def __init__(self, status: int, code: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.details = status, code, message, details


def invalid_input(message: str, field: str, *why: str) -> FakeRefusal:
    return FakeRefusal(422, "invalid_input", message, {"fields": [{"name": field, "messages": list(why)}]})


class FakeBill(Struct):
    """One server's life."""

    server_id: int
    name: str
    request: str  # the UID of the NodeRequest it was bought for
    price_per_hour: float
    began_at: float
    ended_at: float | None = None

    def amount(self, now: float) -> float:
        seconds = (now if self.ended_at is None else self.ended_at) - self.began_at
        months, rest = divmod(max(0.0, seconds), _MONTH)
        hours = max(1, math.ceil(rest / _HOUR)) if rest or not months else 0
        return self.price_per_hour * (months * HOURS_OF_A_MONTH + min(hours, HOURS_OF_A_MONTH))


class Meter:
    """Everything that was ever bought."""

    def __init__(self) -> None:
        self.bills: dict[int, FakeBill] = {}

    def begin(self, bill: FakeBill) -> None:
        self.bills[bill.server_id] = bill

    def end(self, server_id: int, now: float) -> None:
        bill = self.bills[server_id]
        if bill.ended_at is None:
            bill.ended_at = now

    def running(self) -> list[FakeBill]:
        return [bill for bill in self.bills.values() if bill.ended_at is None]

    def price_per_hour(self) -> float:
        return sum(bill.price_per_hour for bill in self.running())

    def amount_due(self, now: float) -> float:
        return sum(bill.amount(now) for bill in self.bills.values())

    def duplicates(self) -> list[str]:
        """Requests that ever paid for two servers at the same time."""
        by_request: dict[str, list[FakeBill]] = {}
        for bill in self.bills.values():
            by_request.setdefault(bill.request, []).append(bill)
        return [request for request, bills in by_request.items() if _overlap(bills)]


def _overlap(bills: list[FakeBill]) -> bool:
    ordered = sorted(bills, key=lambda bill: bill.began_at)
    return any(first.ended_at is None or first.ended_at > second.began_at for first, second in pairwise(ordered))


class Project:
    """Everything in one project, and what it costs."""

    def __init__(self, now: Callable[[], float], seed: str = "0", pace: FakePace | None = None) -> None:
        self.now = now
        self.pace = pace or FakePace()
        self.trouble = FakeTrouble()
        self.faults = ActiveFaults(f"{seed}/hetzner")
        self.meter = Meter()
        self.stock: dict[tuple[str, str], int] = {}  # (type, location) → how many can be had; absent: any number
        self.server_limit: int | None = None
        self.servers: dict[int, FakeServer] = {}
        self.actions: dict[int, FakeAction] = {}
        self.groups: dict[int, FakeGroup] = {}
        self.images: list[FakeImage] = list(IMAGES)
        subnets = (FakeSubnet("10.0.0.0/22"), FakeSubnet("10.1.0.0/22"), FakeSubnet("10.2.0.0/24", "us-east"))
        self.networks = {7001: FakeNetwork(7001, "kube", subnets)}
        self.firewalls: dict[int, str] = {38: "workers"}
        self.ssh_keys: dict[int, str] = {2323: "ops"}
        self.on_order: Callable[[FakeServer], None] = lambda _server: None  # taken, and its effect comes late
        self.on_create: Callable[[FakeServer], None] = lambda _server: None
        self.on_delete: Callable[[FakeServer], None] = lambda _server: None  # it is about to be
        self.on_boot: Callable[[FakeServer], None] = lambda _server: None
        self.on_stop: Callable[[FakeServer], None] = lambda _server: None
        self.on_gone: Callable[[FakeServer], None] = lambda _server: None
        self.wake_at: Callable[[float], None] = lambda _at: None
        self.chance = random.Random(f"{seed}/hetzner")
        self._ids = count(1001)
        self._later: list[tuple[float, int, Callable[[], None]]] = []

    # ----------------------------------------------------------------------------------------- time

    def advance(self) -> None:
        """Let everything happen that is due."""
        while self._later and self._later[0][0] <= self.now() + 1e-9:
            heapq.heappop(self._later)[2]()

    def _after(self, span: tuple[float, float], work: Callable[[], None]) -> None:
        at = self.now() + self.chance.uniform(*span)
        heapq.heappush(self._later, (at, next(self._ids), work))
        self.wake_at(at)

    def happens(self, share: float) -> bool:
        return share > 0 and self.chance.random() < share

    # -------------------------------------------------------------------------------------- servers

    def create(self, server: FakeServer) -> list[FakeAction]:
        """Accept the order of a checked server; returns the actions of making it, and of starting it where it starts by
        itself.
        """
        self._check_room(server)
        server.id = next(self._ids)
        self.servers[server.id] = server
        price = server.kind.price_in(server.location) + (IPV4_PER_HOUR if server.ipv4 else 0.0)
        self.meter.begin(FakeBill(server.id, server.name, server.labels.get(REQUEST_UID_LABEL, ""), price, self.now()))
        self.on_create(server)
        commands = ("create_server", "start_server") if server.starts_by_itself else ("create_server",)
        actions = [self._action(command, server) for command in commands]
        self._after(self.pace.create_seconds, lambda: self._made(server, *actions))
        return actions

    def create_later(self, server: FakeServer, seconds: float) -> None:
        """The order gets no answer, and its effect comes after a while."""
        self.on_order(server)
        self._after((seconds, seconds), lambda: self._create_late(server))

    def _create_late(self, server: FakeServer) -> None:
        server.is_late, server.created_at = True, self.now()
        try:
            self.create(server)
        except FakeRefusal:
            return  # sold out, or the name is taken meanwhile

    def add(self, server: FakeServer) -> None:
        """A server that is there, runs, and is not paid by us."""
        server.id, server.status = next(self._ids), "running"
        self.servers[server.id] = server
        self.meter.begin(FakeBill(server.id, server.name, f"of others: {server.id}", 0.0, self.now()))

    def _check_room(self, server: FakeServer) -> None:
        if any(other.name == server.name for other in self.servers.values()):
            raise FakeRefusal(409, "uniqueness_error", "server name is already used", {"fields": [{"name": "name"}]})
        limits = [fault.machines for fault in self.faults.of(Quota)]
        limits += [] if self.server_limit is None else [self.server_limit]
        if limits and len(self.servers) >= min(limits):
            details = {"limits": [{"name": "server_limit"}]}
            raise FakeRefusal(403, "resource_limit_exceeded", "server limit exceeded", details)
        if server.kind.unavailable_after and server.kind.unavailable_after < "2026-01-02":
            raise invalid_input(f"unsupported server type {server.kind.name}", "server_type", "ended")
        name, location = server.kind.name, server.location
        same = sum((other.kind.name, other.location) == (name, location) for other in self.servers.values())
        is_taken = same >= self.stock.get((name, location), same + 1)
        if is_taken or self.faults.hit(SoldOut, offering=offering_name(name), location=location):
            wrong = f"requested server type {name} is not available in {location}"
            raise FakeRefusal(412, "resource_unavailable", wrong)
        if server.group is not None and len(self.members(server.group)) >= GROUP_PLACES:
            raise FakeRefusal(503, "placement_error", "the placement group is full")

    def _made(self, server: FakeServer, making: FakeAction, *starting: FakeAction) -> None:
        making.finished_at = self.now()
        if server.id not in self.servers or server.status != "initializing":
            self._fail(("action_failed", "the server is gone"), *starting)
        elif self.happens(self.trouble.creation_fails):
            self._fail(("resource_unavailable", "no host available"), making, *starting)
            self._remove(server)
        else:
            server.status = "off"
            for action in starting:
                self._start(server, action)

    def _fail(self, error: tuple[str, str], *actions: FakeAction) -> None:
        for action in actions:
            action.finished_at, action.error = self.now(), error

    def _start(self, server: FakeServer, starting: FakeAction) -> None:
        server.status = "starting"
        self._after(self.pace.boot_seconds, lambda: self._started(server, starting))

    def power_on(self, server: FakeServer) -> FakeAction:
        self._check_unlocked(server)
        action = self._action("start_server", server)
        if server.status == "off":
            self._start(server, action)
        else:
            action.finished_at = self.now()
        return action

    def attach(self, server: FakeServer, network: int, ip_range: str) -> FakeAction:
        """An address in the network, in the subnet of that range where one is named."""
        self._check_unlocked(server)
        if network not in self.networks:
            raise FakeRefusal(404, "not_found", f"network with ID '{network}' not found")
        if network in server.addresses:
            raise FakeRefusal(422, "server_already_attached", "server is already attached to network")
        server.addresses = {**server.addresses, network: self.free_address(network, server.location, ip_range)}
        action = self._action("attach_to_network", server)
        self._after(self.pace.attach_seconds, lambda: setattr(action, "finished_at", self.now()))
        return action

    @staticmethod
    def _check_unlocked(server: FakeServer) -> None:
        if server.status in ("initializing", "deleting"):
            raise FakeRefusal(423, "locked", "server is locked")

    def free_address(self, network: int, location: str, ip_range: str = "") -> str:
        zone = next(place.network_zone for place in LOCATIONS if place.name == location)
        taken = (server.addresses[network] for server in self.servers.values() if network in server.addresses)
        address = self.networks[network].free_address(zone, ip_range, taken)
        if address is None:
            raise FakeRefusal(422, "no_subnet_available", "no subnet or IP available")
        return address

    def _started(self, server: FakeServer, starting: FakeAction) -> None:
        starting.finished_at = self.now()
        if server.id in self.servers and server.status == "starting":
            server.status = "running"
            about = {"offering": offering_name(server.kind.name), "location": server.location}
            if self.happens(self.trouble.never_boots) or self.faults.hit(NeverBoots, **about):
                return
            server.becomes_ready = not self.faults.hit(NeverReady, **about)
            self.on_boot(server)

    def power_off(self, server_id: int) -> None:
        """A person did it; the server stays, and costs."""
        self.servers[server_id].status = "off"
        self.on_stop(self.servers[server_id])

    def delete(self, server: FakeServer) -> FakeAction:
        refused = self.faults.hit(DeleteRefused)
        if refused is not None and refused.status == "locked":
            raise FakeRefusal(423, "locked", "server is locked")
        if server.is_protected or refused is not None:
            raise FakeRefusal(403, "protected", "server deletion is protected")
        action = self._action("delete_server", server)
        if server.status != "deleting":
            self.on_delete(server)
            server.status = "deleting"
            self.meter.end(server.id, self.now())
            self.on_gone(server)
            self._after(self.pace.delete_seconds, lambda: self._deleted(server, action))
        else:
            action.finished_at = self.now()
        return action

    def _deleted(self, server: FakeServer, action: FakeAction) -> None:
        action.finished_at = self.now()
        self.servers.pop(server.id, None)

    def _remove(self, server: FakeServer) -> None:
        self.meter.end(server.id, self.now())
        self.servers.pop(server.id, None)
        self.on_gone(server)

    def vanish(self, server_id: int) -> None:
        """A server goes without being asked by us."""
        self._remove(self.servers[server_id])

    def _action(self, command: str, server: FakeServer) -> FakeAction:
        action = FakeAction(next(self._ids), command, server.id, self.now())
        self.actions[action.id] = action
        return action

    # --------------------------------------------------------------------------------------- others

    def create_group(self, name: str, labels: dict[str, str]) -> FakeGroup:
        if any(group.name == name for group in self.groups.values()):
            raise FakeRefusal(409, "uniqueness_error", "placement group name is already used")
        group = FakeGroup(next(self._ids), name, labels, self.now())
        self.groups[group.id] = group
        return group

    def members(self, group: int) -> list[int]:
        return [server.id for server in self.servers.values() if server.group == group]

    def in_stock(self, kind: FakeServerType) -> dict[str, bool]:
        """What the catalogue says of each location."""
        return {location: left > 0 for (name, location), left in self.stock.items() if name == kind.name}

    def kind(self, name: str) -> FakeServerType | None:
        return next((kind for kind in SERVER_TYPES if name in (kind.name, str(kind.id))), None)
