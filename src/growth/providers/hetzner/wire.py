"""Hetzner's answers, as far as growth reads them, and how growth's names become labels there.

Used by every file of this room; what is not listed here is never decoded (a root password, say). Values of labels have
at most 63 characters of A-Z, a-z, 0-9, dot, dash and underscore, and begin and end with a letter or digit. A cluster id
(a UID and an installation's name of at most 26 characters) and a request's UID fit by design; anything that would not
is shortened to a digest, and read back by comparing with the original."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from msgspec import Struct


class Pagination(Struct, frozen=True):
    next_page: int | None = None
    total_entries: int | None = None


class Meta(Struct, frozen=True):
    pagination: Pagination


# ---------------------------------------------------------------------------------------- catalogue


class NetPrice(Struct, frozen=True):
    net: str


class PriceHere(Struct, frozen=True):
    location: str
    price_hourly: NetPrice


class Deprecation(Struct, frozen=True):
    unavailable_after: str


class SoldHere(Struct, frozen=True):
    """A server type in one location."""

    name: str
    available: bool = True
    deprecation: Deprecation | None = None


class HetznerServerType(Struct, frozen=True):
    name: str
    cores: int
    memory: float  # in GB as sold, which is GiB
    disk: float  # in GB
    architecture: str  # x86 | arm
    prices: tuple[PriceHere, ...]
    locations: tuple[SoldHere, ...] = ()
    deprecation: Deprecation | None = None


class ServerTypes(Struct, frozen=True):
    server_types: tuple[HetznerServerType, ...]
    meta: Meta


class AddressPrice(Struct, frozen=True):
    type: str  # ipv4 | ipv6
    prices: tuple[PriceHere, ...]


class Pricing(Struct, frozen=True):
    currency: str
    primary_ips: tuple[AddressPrice, ...] = ()


class Prices(Struct, frozen=True):
    pricing: Pricing


# ------------------------------------------------------------------------------------------ servers


class Named(Struct, frozen=True):
    """Anything with an id and a name: server type, location, network, firewall, SSH key."""

    id: int
    name: str


class Protection(Struct, frozen=True):
    delete: bool = False


class HetznerServer(Struct, frozen=True):
    id: int
    name: str
    status: str  # running | initializing | starting | stopping | off | deleting | migrating | rebuilding | unknown
    created: str
    server_type: Named
    location: Named
    labels: dict[str, str] = {}
    protection: Protection = Protection()


class OneServer(Struct, frozen=True):
    server: HetznerServer


class Servers(Struct, frozen=True):
    servers: tuple[HetznerServer, ...]
    meta: Meta


class ActionError(Struct, frozen=True):
    code: str
    message: str = ""


class Action(Struct, frozen=True):
    id: int
    status: str  # running | success | error
    error: ActionError | None = None


class CreatedServer(Struct, frozen=True):
    server: HetznerServer
    action: Action


class OneAction(Struct, frozen=True):
    action: Action


class Actions(Struct, frozen=True):
    actions: tuple[Action, ...]


# ------------------------------------------------------------------------- what servers are made of


class Image(Struct, frozen=True):
    id: int
    created: str
    name: str | None = None
    description: str = ""
    deprecated: str | None = None


class Images(Struct, frozen=True):
    images: tuple[Image, ...]


class Subnet(Struct, frozen=True):
    network_zone: str
    ip_range: str = ""


class Network(Struct, frozen=True):
    id: int
    name: str
    subnets: tuple[Subnet, ...] = ()


class Networks(Struct, frozen=True):
    networks: tuple[Network, ...]


class Firewalls(Struct, frozen=True):
    firewalls: tuple[Named, ...]


class SshKeys(Struct, frozen=True):
    ssh_keys: tuple[Named, ...]


class PlacementGroup(Struct, frozen=True):
    id: int
    name: str
    servers: tuple[int, ...] = ()
    labels: dict[str, str] = {}


class PlacementGroups(Struct, frozen=True):
    placement_groups: tuple[PlacementGroup, ...]
    meta: Meta


class OnePlacementGroup(Struct, frozen=True):
    placement_group: PlacementGroup


class HetznerLocation(Struct, frozen=True):
    name: str
    network_zone: str


class Locations(Struct, frozen=True):
    locations: tuple[HetznerLocation, ...]


_VALUE: Final = re.compile(r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$")


def label_value(text: str) -> str:
    """The text itself where Hetzner takes it, else a digest of it."""
    return text if _VALUE.fullmatch(text) else f"sha256-{sha256(text.encode()).hexdigest()[:48]}"


def selector(key: str, text: str) -> str:
    return f"{key}={label_value(text)}"
