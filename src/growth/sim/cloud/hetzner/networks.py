"""Private networks of the fake project: their subnets, and the address that a server gets in one. Asked by `project.py`
and `api.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network
from itertools import islice

from msgspec import Struct

from growth.sim.cloud.hetzner.assortment import Json


class Subnet(Struct, frozen=True):
    ip_range: str
    network_zone: str = "eu-central"

    def free_address(self, taken: Iterable[str]) -> str | None:
        """The first that nobody has; neither the network's own nor the gateway's, which is the first."""
        used = set(taken)
        addresses = map(str, islice(IPv4Network(self.ip_range).hosts(), 1, None))
        return next((address for address in addresses if address not in used), None)


class Network(Struct):
    id: int
    name: str
    subnets: tuple[Subnet, ...]

    def free_address(self, network_zone: str, ip_range: str, taken: Iterable[str]) -> str | None:
        """In the subnet of that range, or in the first of the zone."""
        used = list(taken)
        chosen = (
            each for each in self.subnets if each.network_zone == network_zone and ip_range in ("", each.ip_range)
        )
        return next(filter(None, (each.free_address(used) for each in chosen)), None)


def network_json(network: Network, servers: Iterable[int]) -> Json:
    return {
        "id": network.id,
        "name": network.name,
        "ip_range": "10.0.0.0/8",
        "subnets": [_subnet_json(subnet) for subnet in network.subnets],
        "routes": [],
        "servers": list(servers),
        "load_balancers": [],
        "protection": {"delete": False},
        "labels": {},
        "created": "2026-01-01T00:00:00+00:00",
        "expose_routes_to_vswitch": False,
    }


def _subnet_json(subnet: Subnet) -> Json:
    gateway = str(IPv4Network(subnet.ip_range)[1])
    return {
        "type": "cloud",
        "ip_range": subnet.ip_range,
        "network_zone": subnet.network_zone,
        "gateway": gateway,
        "vswitch_id": None,
    }
