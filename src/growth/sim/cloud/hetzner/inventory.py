"""What can be in a project at the fake Hetzner? Servers, actions, placement groups, networks. For the whole room."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network
from itertools import islice

from msgspec import Struct

from growth.sim.cloud.hetzner.assortment import FakeImage, FakeServerType


class FakeServer(Struct):
    id: int
    name: str
    kind: FakeServerType
    location: str
    labels: dict[str, str]
    created_at: float
    image: FakeImage
    status: str = "initializing"
    user_data: str = ""
    addresses: dict[int, str] = {}  # by network
    firewalls: tuple[int, ...] = ()
    group: int | None = None
    ipv4: bool = True
    ipv6: bool = True
    is_protected: bool = False
    starts_by_itself: bool = True
    becomes_ready: bool = True  # its kubelet does, once it runs
    is_late: bool = False  # made long after its order, which got no answer

    @property
    def networks(self) -> tuple[int, ...]:
        return tuple(self.addresses)


class FakeAction(Struct):
    id: int
    command: str
    server: int
    started_at: float
    finished_at: float | None = None
    error: tuple[str, str] | None = None


class FakeGroup(Struct):
    id: int
    name: str
    labels: dict[str, str]
    created_at: float


class FakeSubnet(Struct, frozen=True):
    ip_range: str
    network_zone: str = "eu-central"

    def free_address(self, taken: Iterable[str]) -> str | None:
        """The first that is free; neither the network's own nor the gateway's, which is the first."""
        used, addresses = set(taken), map(str, islice(IPv4Network(self.ip_range).hosts(), 1, None))
        return next((address for address in addresses if address not in used), None)


class FakeNetwork(Struct):
    id: int
    name: str
    subnets: tuple[FakeSubnet, ...]

    def free_address(self, network_zone: str, ip_range: str, taken: Iterable[str]) -> str | None:
        """In the subnet of that range, or in the first of the zone."""
        used = list(taken)
        chosen = (
            each for each in self.subnets if each.network_zone == network_zone and ip_range in ("", each.ip_range)
        )
        return next(filter(None, (each.free_address(used) for each in chosen)), None)
