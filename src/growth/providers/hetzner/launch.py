"""What is asked of Hetzner for one order, and how does the server come into its subnet? Asked by the provider.

Names become ids, the template becomes user data. An order can only name networks, and Hetzner then takes an address
from any subnet of the location's zone. So where the settings name a subnet, the server is ordered without that network
and without being started, is attached with the subnet's range, and then started:

    POST /servers (start_after_create: false) → attach_to_network (ip_range) → poweron

Every step can be asked for again. Where Hetzner refuses one (the subnet is full), the server is to be given back at
once, and for a while none is ordered for that subnet: each would cost its first hour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from growth.model.node import POOL_LABEL
from growth.model.offering import CLUSTER_LABEL, REQUEST_UID_LABEL, Offering
from growth.model.outcome import Refused
from growth.providers.contract import Order
from growth.providers.hetzner.api import HetznerApi, PendingActions
from growth.providers.hetzner.catalogue import HetznerCatalogue
from growth.providers.hetzner.directory import Directory, Groups
from growth.providers.hetzner.errors import NOT_FOUND, Answered, CallError, Limited, NoAnswer, Unusable, outcome_of
from growth.providers.hetzner.quota import Rank
from growth.providers.hetzner.settings import HetznerSettings, Launch
from growth.providers.hetzner.userdata import user_data_for
from growth.providers.hetzner.wire import OneAction, label_value
from growth.runtime import Runtime

REFUSED_SECONDS: Final = 900.0
_PAUSES: Final = (2.0, 5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0)  # a server from a large snapshot is locked for minutes
_FOLLOWED_SECONDS: Final = 30.0
_ALREADY_ATTACHED: Final = "server_already_attached"

Body = dict[str, Any]


class Attachment(Struct, frozen=True):
    """A network to attach a server to, and where in it."""

    network: int
    ip_range: str


class ServerRequest(Struct, frozen=True):
    """The body of the order, and what is to be done to the server before it starts."""

    body: Body
    attachments: tuple[Attachment, ...] = ()


class ServerRequests:
    """Makes requests for servers; raises Unusable if the settings do not allow one, CallError if Hetzner fails."""

    def __init__(
        self,
        settings: HetznerSettings,
        catalogue: HetznerCatalogue,
        directory: Directory,
        groups: Groups,
        subnets: Subnets,
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._directory = directory
        self._groups = groups
        self._subnets = subnets

    async def request_for(self, order: Order) -> ServerRequest:
        launch = self._settings.launch_of(order.settings)
        if launch is None:
            what = f"the pool asks for the provider settings {order.settings}"
            raise Unusable(f"{what}, which are not among hetzner.profiles")
        offering = await self._catalogue.find(order.offering, order.location)
        if offering is None:
            raise Unusable(f"Hetzner does not sell {order.offering} in {order.location}")
        body = await self._fixed(order, launch, offering)
        attachments = await self._subnets.attachments(launch, order.location)
        user_data = user_data_for(order, launch, offering.architecture)
        if user_data:
            body["user_data"] = user_data
        if launch.spread:
            body["placement_group"] = await self._groups.place_for(order)
        return ServerRequest(body, attachments)

    async def _fixed(self, order: Order, launch: Launch, offering: Offering) -> Body:
        image = await self._directory.image(launch, offering.architecture)
        firewalls = await self._directory.firewalls(launch.firewalls)
        networks = await self._directory.networks(tuple(name for name in launch.networks if name not in launch.subnets))
        keys = await self._directory.ssh_keys(launch.ssh_keys)
        if not (launch.public_ipv4 or launch.public_ipv6 or launch.networks):
            raise Unusable("a server needs a public address or a network: set publicIpv4, publicIpv6 or networks")
        return {
            "name": order.name,
            "server_type": offering.server_type.lower(),
            "location": order.location,
            "image": str(image.id),
            "start_after_create": not launch.subnets,
            "labels": {**launch.labels, **labels_of(order)},
            "public_net": {"enable_ipv4": launch.public_ipv4, "enable_ipv6": launch.public_ipv6},
            **({"networks": networks} if networks else {}),
            **({"firewalls": [{"firewall": each} for each in firewalls]} if firewalls else {}),
            **({"ssh_keys": keys} if keys else {}),
        }


def labels_of(order: Order) -> dict[str, str]:
    """The labels that show to which cluster, request and pool a server belongs."""
    return {
        CLUSTER_LABEL: label_value(order.cluster),
        REQUEST_UID_LABEL: label_value(order.request_uid),
        POOL_LABEL: label_value(order.pool),
    }


class Subnets:
    """Brings servers into their subnets."""

    def __init__(self, api: HetznerApi, directory: Directory, actions: PendingActions, runtime: Runtime) -> None:
        self._api = api
        self._directory = directory
        self._actions = actions
        self._runtime = runtime
        self._refused: dict[Attachment, tuple[float, str]] = {}

    async def attachments(self, launch: Launch, location: str) -> tuple[Attachment, ...]:
        """Raises Unusable where a subnet does not exist there, or has just refused a server."""
        found = []
        for name, ip_range in launch.subnets.items():
            found.append(Attachment(await self._directory.subnet(name, ip_range, location), ip_range))
        for each in found:
            until, why = self._refused.get(each, (0.0, ""))
            if self._runtime.monotonic() < until:
                raise Unusable(why)
        return tuple(found)

    async def bring_in(self, server_id: int, attachments: Iterable[Attachment]) -> str:
        """Attach and start the server; returns why Hetzner refuses, or "". Raises NoAnswer: ask for the same again."""
        try:
            for each in attachments:
                await self._attach(server_id, each)
            await self._insist(server_id, "poweron", None)
        except Answered as refused:
            return str(refused)
        return ""

    async def _attach(self, server_id: int, attachment: Attachment) -> None:
        where = {"network": attachment.network, "ip_range": attachment.ip_range}
        try:
            await self._insist(server_id, "attach_to_network", where)
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
                made = await self._api.post(f"/servers/{server_id}/actions/{what}", body, OneAction, Rank.CREATE)
                action = await self._actions.wait_for(made.action, _FOLLOWED_SECONDS)
                if action is None or action.error is None:
                    return
                raise Answered(action.error.code, action.error.message)
            except CallError as error:
                if isinstance(outcome_of(error), Refused):
                    raise
                await self._runtime.sleep(max(pause, error.seconds if isinstance(error, Limited) else 0.0))
        raise NoAnswer(f"{what} was asked for {len(_PAUSES)} times")
