"""What is asked of Hetzner for one order? Names become ids, the template becomes user data. Asked by the provider; buys
nothing itself.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from growth.model.node import POOL_LABEL
from growth.model.offering import CLUSTER_LABEL, REQUEST_UID_LABEL, Offering
from growth.providers.contract import Order
from growth.providers.hetzner.catalogue import HetznerCatalogue
from growth.providers.hetzner.directory import Directory
from growth.providers.hetzner.errors import Unusable
from growth.providers.hetzner.groups import Groups
from growth.providers.hetzner.labels import label_value
from growth.providers.hetzner.settings import HetznerSettings, Launch
from growth.providers.hetzner.subnets import Attachment, Subnets
from growth.providers.hetzner.userdata import user_data_for

Body = dict[str, Any]


class Prepared(Struct, frozen=True):
    """The body of the order, and what is to be done to the server before it starts."""

    body: Body
    attachments: tuple[Attachment, ...] = ()


class Preparing:
    """Makes the request for a server; raises Unusable where the settings do not allow one, CallError where Hetzner
    cannot be asked.
    """

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

    async def request_for(self, order: Order) -> Prepared:
        launch = self._settings.launch_of(order.settings)
        if launch is None:
            raise Unusable(
                f"the pool asks for the provider settings {order.settings}, which are not among hetzner.profiles"
            )
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
        return Prepared(body, attachments)

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
    """By which the machine is ours, and whose."""
    return {
        CLUSTER_LABEL: label_value(order.cluster),
        REQUEST_UID_LABEL: label_value(order.request_uid),
        POOL_LABEL: label_value(order.pool),
    }
