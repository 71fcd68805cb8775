"""Machines from Hetzner Cloud: the provider contract over its API. `errors.py` says what Hetzner's answers mean.

The server's name is the NodeRequest's, which is also its idempotency key: Hetzner keeps names unique in a project, so a
lost answer cannot buy twice, and a name that is taken is adopted only if cluster id and request UID match. A server
that is powered off is present. One that carries delete protection is not deleted. One without our label is never
touched."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import structlog
from msgspec import Struct

from growth.kube.redaction import redact
from growth.model.instant import InstantError, parse_instant
from growth.model.labels import Labels
from growth.model.node import POOL_LABEL
from growth.model.offering import CLUSTER_LABEL, REQUEST_UID_LABEL, Machine, Offering
from growth.model.outcome import Accepted, NoCapacity, Outcome, Refused, TryLater, Unknown
from growth.providers.contract import Gone, Order, ProviderError
from growth.providers.hetzner.api import HetznerApi, PendingActions
from growth.providers.hetzner.catalogue import PROVIDER, HetznerCatalogue
from growth.providers.hetzner.directory import Directory, Groups
from growth.providers.hetzner.errors import (
    NAME_TAKEN,
    NO_CAPACITY,
    NOT_FOUND,
    OF_THE_PROJECT,
    Answered,
    CallError,
    NoAnswer,
    Unusable,
    outcome_before,
    outcome_of,
)
from growth.providers.hetzner.launch import Attachment, ServerRequest, ServerRequests, Subnets, labels_of
from growth.providers.hetzner.listing import Listing
from growth.providers.hetzner.quota import Rank
from growth.providers.hetzner.settings import HetznerSettings
from growth.providers.hetzner.userdata import fingerprint
from growth.providers.hetzner.wire import CreatedServer, HetznerServer, OneAction, Servers, label_value
from growth.runtime import Runtime

FOLLOWED_SECONDS: Final = 20.0  # how long a launch waits to hear that its server is made
STOPPED_SECONDS: Final = 120.0
PREPARED_SECONDS: Final = 5.0  # an order that took longer to prepare is made again: the gate may refuse it by now
_CONTROL_SECONDS: Final = 60.0
_LIVE_SECONDS: Final = 15.0
_SOON_SECONDS: Final = 10.0

_STATES: Final = {
    "initializing": "creating",
    "starting": "creating",
    "off": "stopped",
    "stopping": "stopped",
    "deleting": "deleting",
}

log = structlog.get_logger(__name__)


class Stop(Struct, frozen=True):
    """Nothing is ordered until then; the reason holds for every order."""

    until: float
    reason: str


class HetznerProvider:
    """The provider contract on one Hetzner project."""

    def __init__(self, settings: HetznerSettings, runtime: Runtime, api: HetznerApi | None = None) -> None:
        self.name = PROVIDER
        self._settings = settings
        self.api = api or HetznerApi(settings, runtime)
        self.catalogue = HetznerCatalogue(self.api, settings, runtime)
        self.directory = Directory(self.api, runtime)
        self.listing = Listing(self.api, runtime)
        self.api.witness = self.listing.witness
        self._runtime = runtime
        self._groups = Groups(self.api, runtime)
        self._actions = PendingActions(self.api, runtime)
        self._subnets = Subnets(self.api, self.directory, self._actions, runtime)
        self._requests = ServerRequests(settings, self.catalogue, self.directory, self._groups, self._subnets)
        self._seen: dict[int, tuple[float, HetznerServer]] = {}  # read by id a moment ago
        self._clusters: dict[str, str] = {}  # the ids behind label values that had to be shortened
        self._cluster = ""
        self._stop = Stop(0.0, "")

    async def offerings(self) -> tuple[Offering, ...]:
        return await self.catalogue.offerings()

    async def list(self, cluster: str) -> tuple[Machine, ...]:
        self._remember_cluster(cluster)
        return tuple(self._machine(server) for server in await self.listing.servers(cluster))

    async def describe(self, machine_id: str) -> Machine | Gone:
        """One machine, live. One that lost our label is shown without it, so that the gate refuses to touch it."""
        server_id = _server_id(machine_id)
        server = await self.listing.look(server_id)
        if server is None:
            await self._control_read()
            return Gone()
        self._seen[server_id] = (self._runtime.monotonic(), server)
        return self._machine(server)

    async def find(self, name: str) -> Machine | Gone:
        """Hetzner keeps names unique in a project, so there is one or none."""
        server = await self._named(name)
        if server is None:
            await self._control_read()
            return Gone()
        return self._machine(server)

    async def _named(self, name: str) -> HetznerServer | None:
        found = (await self.api.get("/servers", Servers, Rank.LOOK, {"name": name})).servers
        return next((each for each in found if each.name == name), None)

    async def _control_read(self) -> None:
        """Not found counts only while Hetzner otherwise answers about our servers."""
        answered_at = self.listing.answered_at
        if answered_at is None or self._runtime.monotonic() - answered_at > _CONTROL_SECONDS:
            await self.listing.count(self._cluster)

    def credentials(self) -> Mapping[str, str]:
        settings, found = self._settings, dict[str, str]()
        for name, launch in {"": settings.launch, **settings.profiles}.items():
            with suppress(Unusable):  # an order says which file cannot be read
                found[name] = fingerprint(settings.token_file, launch)
        return found

    # --------------------------------------------------------------------------------------- launch

    async def launch(self, order: Order) -> Outcome:
        self._remember_cluster(order.cluster)
        if self._runtime.monotonic() < self._stop.until:
            return Refused(self._stop.reason)
        began = self._runtime.monotonic()
        try:
            prepared = await self._requests.request_for(order)
        except Unusable as error:
            self.directory.forget()
            return Refused(redact(str(error)))
        except CallError as error:
            return self._note_error(error, outcome_before(error))
        outcome: Outcome = TryLater("Hetzner answers slowly; the next attempt knows what this one asked")
        if self._runtime.monotonic() - began <= PREPARED_SECONDS:
            outcome = await self._order(order, prepared)
        if isinstance(outcome, Accepted) and prepared.attachments:
            outcome = await self._bring_in(outcome, prepared.attachments)
        if isinstance(outcome, Accepted | Unknown):
            self._groups.note_answer(order.name)
        else:
            self._groups.give_back(order.name)
        return outcome

    async def _order(self, order: Order, prepared: ServerRequest) -> Outcome:
        with self.listing.writing():
            try:
                made = await self.api.post("/servers", prepared.body, CreatedServer, Rank.CREATE)
            except Answered as error:
                if error.code == NAME_TAKEN:
                    return await self._adopt(order)
                if error.code == NOT_FOUND:
                    self.directory.forget()
                return self._note_error(error, outcome_of(error))
            except CallError as error:
                return outcome_of(error)
        self.listing.created(made.server)
        log.debug("a server was ordered", server=made.server.id, name=order.name)
        return await self._follow(made)

    async def _follow(self, made: CreatedServer) -> Outcome:
        """Wait for the server: some orders are accepted and then fail for want of a host, and leave no server."""
        action = await self._actions.wait_for(made.action, FOLLOWED_SECONDS)
        accepted = Accepted(str(made.server.id))
        if action is None or action.status != "error" or action.error is None:
            return accepted
        try:
            if await self.listing.look(made.server.id) is not None:
                return accepted  # it is there: if it does not become a node, it is removed like any other
        except CallError as error:
            return Unknown(str(error))
        self.listing.deleted(made.server.id)
        reason = redact(f"{action.error.code}: {action.error.message}")
        return NoCapacity(reason) if action.error.code in NO_CAPACITY else TryLater(reason, _SOON_SECONDS)

    async def _bring_in(self, made: Accepted, attachments: tuple[Attachment, ...]) -> Outcome:
        """Bring the server into its subnets; one that cannot come in is deleted. An adopted one may be in already."""
        try:
            why_not = await self._subnets.bring_in(int(made.machine_id), attachments)
        except NoAnswer as error:
            return Unknown(f"server {made.machine_id} is ordered and not finished: {error}")
        if not why_not:
            return made
        given_back = await self._delete(int(made.machine_id))
        return Refused(why_not) if isinstance(given_back, Accepted) else made

    async def _adopt(self, order: Order) -> Outcome:
        """The name is taken: by an earlier launch of the same request, or by another owner."""
        try:
            server = await self._named(order.name)
        except CallError as error:
            return Unknown(f"the name {order.name} is taken, and by whom is unknown: {error}")
        if server is None or server.status == "deleting":
            return TryLater(f"the name {order.name} was taken and is about to be free", _SOON_SECONDS)
        ours = labels_of(order)
        if any(server.labels.get(key) != ours[key] for key in (CLUSTER_LABEL, REQUEST_UID_LABEL)):
            return Refused(f"the name {order.name} is taken by a server of another owner or request")
        self.listing.created(server)
        return Accepted(str(server.id))

    def _note_error(self, error: CallError, outcome: Outcome) -> Outcome:
        """An error that holds for the whole project stops further orders for a while."""
        if isinstance(error, Answered) and error.code in OF_THE_PROJECT:
            self._stop = Stop(self._runtime.monotonic() + STOPPED_SECONDS, str(error))
        return outcome

    # --------------------------------------------------------------------------------------- delete

    async def delete(self, machine_id: str) -> Outcome:
        """Delete a server, if it is ours as it was seen a moment ago."""
        server_id = _server_id(machine_id)
        try:
            server = await self._live(server_id)
        except CallError as error:
            return outcome_before(error)
        if server is None:
            return Accepted(machine_id)
        why_not = self._why_not_delete(server)
        return Refused(why_not) if why_not else await self._delete(server_id)

    async def _live(self, server_id: int) -> HetznerServer | None:
        seen_at, server = self._seen.pop(server_id, (0.0, None))
        if server is not None and self._runtime.monotonic() - seen_at <= _LIVE_SECONDS:
            return server
        return await self.listing.look(server_id)

    def _why_not_delete(self, server: HetznerServer) -> str:
        owner = server.labels.get(CLUSTER_LABEL, "")
        if not owner or (self._cluster and owner != label_value(self._cluster)):
            return f"server {server.id} is not ours"
        protected = f"server {server.id} has delete protection: take it off if the server may go"
        return protected if server.protection.delete else ""

    async def _delete(self, server_id: int) -> Outcome:
        with self.listing.writing():
            try:
                await self.api.delete(f"/servers/{server_id}", OneAction, Rank.DELETE)
            except Answered as error:
                if error.status != 404:
                    return outcome_of(error)
            except CallError as error:
                return outcome_of(error)
        self.listing.deleted(server_id)
        if self._stop.reason.startswith("resource_limit_exceeded"):
            self._stop = Stop(0.0, "")  # a place is free again
        return Accepted(str(server_id))

    # ------------------------------------------------------------------------------------- machines

    def _remember_cluster(self, cluster: str) -> None:
        self._cluster = cluster
        self._clusters[label_value(cluster)] = cluster
        if len(self._seen) > 1000:
            self._seen.clear()

    def _machine(self, server: HetznerServer) -> Machine:
        ours = (CLUSTER_LABEL, REQUEST_UID_LABEL, POOL_LABEL)
        kept = {key: server.labels[key] for key in ours if server.labels.get(key)}
        if CLUSTER_LABEL in kept:
            kept[CLUSTER_LABEL] = self._clusters.get(kept[CLUSTER_LABEL], kept[CLUSTER_LABEL])
        return Machine(
            machine_id=str(server.id),
            name=server.name,
            offering=f"{PROVIDER}-{server.server_type.name.lower()}",
            location=server.location.name,
            labels=Labels(kept),
            state=_STATES.get(server.status, "running"),
            created_at=_created_at(server),
            provider_id=f"hcloud://{server.id}",
        )


def _server_id(machine_id: str) -> int:
    if not machine_id.isdecimal():
        raise ProviderError(f"{machine_id!r} is no id of a Hetzner server")
    return int(machine_id)


def _created_at(server: HetznerServer) -> float:
    try:
        return parse_instant(server.created)
    except InstantError:
        return 0.0
