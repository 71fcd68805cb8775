"""The API's answers, as far as growth reads them. Asked by every file beside this one; what is not listed here is never
decoded (a root password, say).
"""

from __future__ import annotations

from msgspec import Struct


class Pagination(Struct, frozen=True):
    page: int
    next_page: int | None = None
    total_entries: int | None = None


class Meta(Struct, frozen=True):
    pagination: Pagination


# ---------------------------------------------------------------------------------------- catalogue


class Price(Struct, frozen=True):
    net: str


class PriceHere(Struct, frozen=True):
    location: str
    price_hourly: Price
    price_monthly: Price


class Deprecation(Struct, frozen=True):
    announced: str
    unavailable_after: str


class SoldHere(Struct, frozen=True):
    """A server type in one location."""

    name: str
    available: bool = True
    recommended: bool = True
    deprecation: Deprecation | None = None


class ServerType(Struct, frozen=True):
    name: str
    cores: int
    memory: float  # in GB as sold, which is GiB
    disk: float  # in GB
    architecture: str  # x86 | arm
    prices: tuple[PriceHere, ...]
    locations: tuple[SoldHere, ...] = ()
    deprecation: Deprecation | None = None


class ServerTypes(Struct, frozen=True):
    server_types: tuple[ServerType, ...]
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


class Server(Struct, frozen=True):
    id: int
    name: str
    status: str  # running | initializing | starting | stopping | off | deleting | migrating | rebuilding | unknown
    created: str
    server_type: Named
    location: Named
    labels: dict[str, str] = {}
    protection: Protection = Protection()


class OneServer(Struct, frozen=True):
    server: Server


class Servers(Struct, frozen=True):
    servers: tuple[Server, ...]
    meta: Meta


class ActionError(Struct, frozen=True):
    code: str
    message: str = ""


class Action(Struct, frozen=True):
    id: int
    command: str
    status: str  # running | success | error
    error: ActionError | None = None


class CreatedServer(Struct, frozen=True):
    server: Server
    action: Action


class OneAction(Struct, frozen=True):
    action: Action


class Actions(Struct, frozen=True):
    actions: tuple[Action, ...]


# ------------------------------------------------------------------------------------- what servers
# are made of


class Image(Struct, frozen=True):
    id: int
    type: str
    architecture: str
    created: str
    name: str | None = None
    description: str = ""
    deprecated: str | None = None


class Images(Struct, frozen=True):
    images: tuple[Image, ...]
    meta: Meta


class Subnet(Struct, frozen=True):
    network_zone: str
    ip_range: str = ""


class Network(Struct, frozen=True):
    id: int
    name: str
    subnets: tuple[Subnet, ...] = ()


class Networks(Struct, frozen=True):
    networks: tuple[Network, ...]
    meta: Meta


class Firewalls(Struct, frozen=True):
    firewalls: tuple[Named, ...]
    meta: Meta


class SshKeys(Struct, frozen=True):
    ssh_keys: tuple[Named, ...]
    meta: Meta


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


class Location(Struct, frozen=True):
    id: int
    name: str
    network_zone: str


class Locations(Struct, frozen=True):
    locations: tuple[Location, ...]
    meta: Meta
