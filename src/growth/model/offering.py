"""What can be bought, and what was: an Offering (server type × location × price) and a Machine at the provider.

Asked by scale-up and the solver; filled by providers. Prices are per hour in the provider's currency.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from growth.model.labels import ARCHITECTURE, NO_LABELS, ZONE, Labels
from growth.model.resources import NOTHING, Resources

CLUSTER_LABEL: Final = "growth.dev/cluster"
REQUEST_UID_LABEL: Final = "growth.dev/request-uid"


class Offering(Struct, frozen=True, gc=False):
    """One kind of machine in one location."""

    name: str  # <provider>-<server type in lower case>
    server_type: str
    location: str
    price_per_hour: float
    allocatable: Resources = NOTHING  # what pods may use, `pods` included
    labels: Labels = NO_LABELS  # of the node it becomes: instance type, zone, region, arch, os
    is_available: bool = True  # in stock, as far as the provider says
    bills_started_hours: bool = False
    sold_until: float | None = None  # the provider has announced that it will not be sold after that

    @property
    def zone(self) -> str:
        return self.labels.get(ZONE, self.location)

    @property
    def architecture(self) -> str:
        return self.labels.get(ARCHITECTURE, "amd64")


class Machine(Struct, frozen=True, gc=False):
    """A machine at the provider. A stopped one is present, not gone."""

    machine_id: str
    name: str  # the NodeRequest's name
    offering: str = ""
    location: str = ""
    labels: Labels = NO_LABELS  # cluster id and request UID among them
    state: str = "running"  # creating | running | stopped | deleting
    created_at: float = 0.0
    provider_id: str = ""  # what the node's spec.providerID will say
    is_found_by_provider_id: bool = False  # its node chooses its own name; otherwise the node has the machine's name

    @property
    def cluster(self) -> str:
        return self.labels.get(CLUSTER_LABEL, "")

    @property
    def request_uid(self) -> str:
        return self.labels.get(REQUEST_UID_LABEL, "")
