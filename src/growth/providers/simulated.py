"""The provider whose cloud is simulated: keeps the provider contract over a cloud's own interface, as a real one does.

Asked by the controllers in the embedded cluster. The cloud (`CloudApi`) speaks like a real one, in error codes and lost
answers; what those mean for growth is decided here:

| the cloud says | launch | delete |
| --- | --- | --- |
| a server / yes | Accepted | Accepted |
| uniqueness_error, of our cluster and request | Accepted | |
| uniqueness_error, of others | Refused | |
| uniqueness_error, and the cloud does not show of whom | Unknown | |
| resource_unavailable, resource_limit_exceeded | NoCapacity | |
| rate_limit_exceeded, conflict, locked | TryLater | TryLater |
| not_found | | Accepted: it is gone already |
| invalid_input, forbidden, protected | Refused | Refused |
| nothing in time, or a server error | Unknown | Unknown |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeVar

from msgspec import Struct

from growth.model.labels import NO_LABELS, Labels
from growth.model.node import Taint
from growth.model.offering import CLUSTER_LABEL, REQUEST_UID_LABEL, Machine, Offering
from growth.model.outcome import Accepted, NoCapacity, Outcome, Refused, TryLater, Unknown
from growth.model.resources import NOTHING, Resources
from growth.providers.contract import Gone, Order, ProviderError
from growth.runtime import Runtime

CALL_SECONDS: Final = 30.0

_NO_CAPACITY: Final = ("resource_unavailable", "resource_limit_exceeded")
_HELD: Final = ("conflict", "locked")
_LATER: Final = ("rate_limit_exceeded", *_HELD)
_STATES: Final = {"initializing": "creating", "running": "running", "off": "stopped", "deleting": "deleting"}

Given = TypeVar("Given")


class CloudError(Exception):
    """The cloud answered no, in its own word."""

    def __init__(self, code: str, message: str = "", retry_after_seconds: float = 1.0) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.retry_after_seconds = retry_after_seconds


class NodeTemplate(Struct, frozen=True):
    """What the server's kubelet registers its node with (a real cloud carries this in user data)."""

    labels: Labels = NO_LABELS
    annotations: Labels = NO_LABELS
    taints: tuple[Taint, ...] = ()


class Server(Struct, frozen=True):
    """A server as the cloud shows it."""

    server_id: str
    name: str
    server_type: str
    location: str
    labels: Labels
    status: str  # initializing | running | off | deleting
    created_at: float
    allocatable: Resources = NOTHING
    template: NodeTemplate = NodeTemplate()


class CloudApi(Protocol):
    """The cloud's interface. Raises CloudError for a refusal, TimeoutError or ConnectionError without an answer."""

    async def sold(self) -> tuple[Offering, ...]: ...

    async def create_server(
        self, name: str, offering: str, location: str, labels: Labels, template: NodeTemplate
    ) -> Server: ...

    async def get_server(self, server_id: str) -> Server: ...

    async def list_servers(self, label: str, value: str) -> tuple[Server, ...]: ...

    async def find_servers(self, name: str) -> tuple[Server, ...]:
        """By name, of any owner: one or none."""

    async def delete_server(self, server_id: str) -> None: ...


class SimulatedProvider:
    """The provider contract over a simulated cloud."""

    def __init__(
        self,
        cloud: CloudApi,
        runtime: Runtime,
        name: str = "sim",
        credentials: Callable[[], Mapping[str, str]] = dict[str, str],
    ) -> None:
        self.name = name
        self.credentials = credentials  # machines are only played: they join without any, unless a story has some
        self._cloud = cloud
        self._runtime = runtime

    async def offerings(self) -> tuple[Offering, ...]:
        return await self._read(self._cloud.sold())

    async def list(self, cluster: str) -> tuple[Machine, ...]:
        found = await self._read(self._cloud.list_servers(CLUSTER_LABEL, cluster))
        return tuple(self._machine(server) for server in found)

    async def describe(self, machine_id: str) -> Machine | Gone:
        try:
            server = await self._bounded(self._cloud.get_server(machine_id))
        except CloudError as error:
            if error.code == "not_found":
                return Gone()
            raise ProviderError(str(error)) from None
        return self._machine(server)

    async def find(self, name: str) -> Machine | Gone:
        found = await self._read(self._cloud.find_servers(name))
        return self._machine(found[0]) if found else Gone()

    async def launch(self, order: Order) -> Outcome:
        labels = Labels({CLUSTER_LABEL: order.cluster, REQUEST_UID_LABEL: order.request_uid})
        template = NodeTemplate(order.labels, order.annotations, order.taints)
        wanted = (order.name, order.offering, order.location)
        try:
            server = await self._bounded(self._cloud.create_server(*wanted, labels, template))
        except CloudError as error:
            return await self._adopt(order) if error.code == "uniqueness_error" else _outcome_of(error)
        except ProviderError as error:
            return Unknown(str(error))
        return Accepted(server.server_id)

    async def delete(self, machine_id: str) -> Outcome:
        try:
            await self._bounded(self._cloud.delete_server(machine_id))
        except CloudError as error:
            return Accepted(machine_id) if error.code == "not_found" else _outcome_of(error)
        except ProviderError as error:
            return Unknown(str(error))
        return Accepted(machine_id)

    async def _adopt(self, order: Order) -> Outcome:
        """The name is taken: by an earlier launch of the same request, by another, or by an unknown one."""
        try:
            found = await self._read(self._cloud.find_servers(order.name))
        except ProviderError as error:
            return Unknown(f"the name {order.name} is taken, and by whom is unknown: {error}")
        for machine in map(self._machine, found):
            if (machine.cluster, machine.request_uid) == (order.cluster, order.request_uid):
                return Accepted(machine.machine_id)
            return Refused(f"the name {order.name} is taken by a machine of another request")
        return Unknown(f"the name {order.name} is taken, and the cloud does not show by whom")

    async def _read(self, call: Awaitable[Given]) -> Given:
        try:
            return await self._bounded(call)
        except CloudError as error:
            raise ProviderError(str(error)) from None

    async def _bounded(self, call: Awaitable[Given]) -> Given:
        """The answer within bounds; ProviderError where none came, so that nothing is concluded."""
        try:
            return await self._runtime.within(CALL_SECONDS, call)
        except (TimeoutError, ConnectionError) as error:
            raise ProviderError(f"no answer: {str(error) or 'timed out'}") from None

    def _machine(self, server: Server) -> Machine:
        return Machine(
            machine_id=server.server_id,
            name=server.name,
            offering=f"{self.name}-{server.server_type.lower()}",
            location=server.location,
            labels=server.labels,
            state=_STATES[server.status],
            created_at=server.created_at,
            provider_id=f"{self.name}://{server.server_id}",
        )


def _outcome_of(error: CloudError) -> Outcome:
    if error.code in _NO_CAPACITY:
        return NoCapacity(str(error))
    if error.code in _LATER:
        return TryLater(str(error), error.retry_after_seconds, is_held=error.code in _HELD)
    return Unknown(str(error)) if error.code == "server_error" else Refused(str(error))
