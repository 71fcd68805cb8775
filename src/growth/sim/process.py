"""growth itself, running in the embedded cluster as one process that can be killed and started again.

Made by scenarios and tests. Each process has its own Runtime and its own doors to the API server and the cloud; when it
is killed the doors shut at that instant, so that nothing its dying code still tries has an effect, and only what it
wrote before remains."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from growth.controllers.growth import Growth, Installation
from growth.kube.api.client import Client
from growth.kube.api.transport import NeverSent, Request, Response, Transport, Withheld
from growth.kube.election import Election, LeaseSettings
from growth.model.labels import Labels
from growth.model.offering import Offering
from growth.providers.contract import Provider
from growth.providers.simulated import CloudApi, NodeTemplate, Server, SimulatedProvider
from growth.runtime import Runtime, Spawned
from growth.sim.clock import SimRuntime
from growth.sim.cluster import Cluster

Result = TypeVar("Result")


async def send_off(call: Coroutine[Any, Any, Result], runtime: SimRuntime) -> Result:
    """Let the call run its course in the world even if the process that made it dies meanwhile."""
    if runtime.is_dead:
        call.close()
        raise NeverSent("the process is dead")
    under_way = asyncio.get_running_loop().create_task(call)
    under_way.add_done_callback(_retrieve_exception)
    return await asyncio.shield(under_way)


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    """The process that would hear of a failure may be dead: asyncio must not complain."""
    if not task.cancelled():
        task.exception()


class ApiDoor:
    """The process's connection to the API server; `transport` may be changed for a faulty one before it is used.
    `on_send` is told of every request that leaves. A write that growth waits for no longer may still arrive: what is on
    the network is not called back.
    """

    def __init__(self, transport: Transport, runtime: SimRuntime) -> None:
        self.transport = transport
        self.on_send: Callable[[Request], None] = lambda _request: None
        self._runtime = runtime
        self._given_up: list[Request] = []

    def has_given_up(self, request: Request) -> bool:
        """Was its connection closed before the answer came?"""
        return any(each is request for each in self._given_up)

    async def send(self, request: Request) -> Response:
        self.on_send(request)
        await self._runtime.wait_while_paused()
        if request.may_leave is not None and not request.may_leave():
            raise Withheld("leadership is not certain")
        if request.method == "GET":
            response = await self.transport.send(request)
        else:
            response = await self._write(request)
        await self._runtime.wait_while_paused()
        return response

    async def _write(self, request: Request) -> Response:
        try:
            return await send_off(self.transport.send(request), self._runtime)
        except asyncio.CancelledError:
            self._given_up.append(request)
            raise


class CloudDoor:
    """The process's connection to the cloud. `on_call` is called before and after each create and delete; it may
    raise to stop it.
    """

    def __init__(self, cloud: CloudApi, runtime: SimRuntime) -> None:
        self.on_call: Callable[[str, str], None] = lambda _moment, _call: None
        self.checksums: Callable[[], Mapping[str, str]] = dict[str, str]
        self._cloud = cloud
        self._runtime = runtime

    def credentials(self) -> Mapping[str, str]:
        return self.checksums()

    async def sold(self) -> tuple[Offering, ...]:
        return await self._cloud.sold()

    async def get_server(self, server_id: str) -> Server:
        return await self._cloud.get_server(server_id)

    async def list_servers(self, label: str, value: str) -> tuple[Server, ...]:
        return await self._cloud.list_servers(label, value)

    async def find_servers(self, name: str) -> tuple[Server, ...]:
        return await self._cloud.find_servers(name)

    async def create_server(
        self, name: str, offering: str, location: str, labels: Labels, template: NodeTemplate
    ) -> Server:
        self.on_call("before", f"create {name}")
        server = await send_off(self._cloud.create_server(name, offering, location, labels, template), self._runtime)
        self.on_call("after", f"create {name}")
        return server

    async def delete_server(self, server_id: str) -> None:
        self.on_call("before", f"delete {server_id}")
        await send_off(self._cloud.delete_server(server_id), self._runtime)
        self.on_call("after", f"delete {server_id}")


class GrowthProcess:
    """One life of growth. `transport` may be a faulty one; the default is the API server itself. One with a
    `lease` acts only while it holds that.
    """

    def __init__(
        self,
        cluster: Cluster,
        installation: Installation | None = None,
        life: int = 1,
        transport: Transport | None = None,
        cloud: CloudApi | None = None,
        provider_for: Callable[[Client, Runtime], Provider] | None = None,
        *,
        lease: LeaseSettings | None = None,
    ) -> None:
        self.cluster, self.life = cluster, life
        self.runtime = SimRuntime(f"{cluster.seed}/growth/{life}", solve_seconds=0.05)
        self.cloud_door = door = CloudDoor(cloud or cluster.cloud, self.runtime)
        name = cluster.world.catalogue.provider
        opens = provider_for or (lambda _client, runtime: SimulatedProvider(door, runtime, name, door.credentials))
        self.door = ApiDoor(transport or cluster.api, self.runtime)
        self.election = Election(self.door, self.runtime, f"growth-{life}", lease) if lease else None
        fence = self.election.fence if self.election else None
        self.growth = Growth(self.door, self.runtime, opens, installation, fence)
        self._running: Spawned | None = None

    @property
    def failures(self) -> list[tuple[str, BaseException]]:
        """Tasks of growth that ended with an exception, and decisions that failed: none ever should. That no answer
        comes in time is the solver's failure.
        """
        failed = {} if self.growth.loop is None else self.growth.loop.failures
        decisions = [each for each in failed.items() if not isinstance(each[1], TimeoutError)]
        return [*self.runtime.failures, *self.growth.supervisor.failures, *decisions]

    def start(self) -> GrowthProcess:
        if self.election is not None:
            self.runtime.spawn("election", self.election.run())
        self._running = self.runtime.spawn("growth", self.growth.run())
        return self

    def kill(self) -> None:
        self.runtime.kill()
