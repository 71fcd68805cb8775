"""The fake Hetzner as the cloud of the embedded cluster: the real provider and the real hcloud client, without sockets
and in virtual time. Used by tests, benchmarks and `growth demo`.

What a real machine reads from its user data, the embedded kubelets do too: the template is JSON with the node's labels
and taints. The client is synchronous and time must not stand still inside it, so a call's time passes around it: half
before it arrives, half on the way back. A lost answer takes as long as the client waits for one. A process that dies in
between leaves a request that takes effect all the same."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from urllib.parse import parse_qs, urlsplit

import hcloud
import msgspec
import requests
from msgspec.structs import replace
from requests.adapters import BaseAdapter

from growth.kube.api.client import Client
from growth.model.labels import Labels
from growth.model.node import Taint
from growth.providers.contract import Provider
from growth.providers.hetzner.api import HetznerApi
from growth.providers.hetzner.catalogue import estimate_allocatable
from growth.providers.hetzner.errors import NoAnswer
from growth.providers.hetzner.line import connect
from growth.providers.hetzner.provider import HetznerProvider
from growth.providers.hetzner.settings import HetznerSettings, Launch, Reserved
from growth.providers.hetzner.wire import HetznerServerType
from growth.providers.simulated import NodeTemplate, Server
from growth.runtime import Runtime
from growth.sim.clock import SimRuntime, after
from growth.sim.cloud.hetzner.api import FakeApi, FakeRequest, Lost
from growth.sim.cloud.hetzner.inventory import FakeServer
from growth.sim.cloud.hetzner.project import FakePace, Project, offering_name
from growth.sim.cloud.shop import smaller
from growth.sim.cluster import Cluster
from growth.sim.faults.active import ActiveFaults
from growth.sim.faults.kinds import SlowProvider, SmallerThanSold
from growth.sim.process import send_off

TOKEN: Final = "f4k3tok3nf4k3tok3nf4k3tok3nf4k3tok3nf4k3tok3nf4k3tok3nf4k3tok3n0"  # noqa: S105  (opens nothing)
TEMPLATE: Final = '{"labels": {{ growth.labels_json }}, "taints": {{ growth.taints_json }}}\n'


CALL_SECONDS = (0.05, 0.4)
PREFIX = "/v1"

Result = TypeVar("Result")
SendOff = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]


class HetznerCloud:
    """A fake project whose servers join the embedded cluster: the cluster's shop. `folder` takes the files that a pod
    would mount; `settings` are a user's own, as far as they are not about these files.
    """

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        pace: FakePace | None = None,
        token: str = TOKEN,
        template: str = TEMPLATE,
        settings: HetznerSettings | None = None,
        **launch: Any,
    ) -> None:
        self.cluster = cluster
        self.on_change: list[Callable[[str, Server], None]] = []
        self.creates: list[Server] = []
        self.deletes: list[Server] = []
        self.late: set[str] = set()
        self.foreign: set[str] = set()
        self._as_made: dict[int, Server] = {}
        self._smaller: set[str] = set()
        self.project = Project(cluster.runtime.now, cluster.seed, pace)
        self.project.wake_at = self._wake_at
        self.faults = self.project.faults
        self._listen()
        self.api = FakeApi(self.project, token)
        (folder / "token").write_text(f"{token}\n")
        (folder / "user-data").write_text(template)
        settings, user_data = settings or HetznerSettings(launch=Launch(**launch)), str(folder / "user-data")
        self.settings = replace(
            settings,
            token_file=str(folder / "token"),
            launch=replace(settings.launch, user_data_file=user_data),
            profiles={name: replace(each, user_data_file=user_data) for name, each in settings.profiles.items()},
        )
        cluster.kubelets.scheme = "hcloud"
        cluster.shop = self

    def _listen(self) -> None:
        project, kubelets = self.project, self.cluster.kubelets
        project.on_order = lambda server: self._tell("order", as_seen_by_kubelet(server))
        project.on_create, project.on_delete = self._created, self._deleted
        project.on_boot = lambda server: kubelets.booted(self._seen(server), server.becomes_ready)
        project.on_stop = lambda server: kubelets.stopped(self._seen(server))
        project.on_gone = lambda server: kubelets.gone(self._seen(server))

    def provider_for(self) -> Callable[[Client, Runtime], Provider]:
        """For `GrowthProcess`: a request that is on its way arrives even if its sender has died."""

        def open_provider(client: Client, runtime: Runtime) -> Provider:
            send = partial(send_off, runtime=cast(SimRuntime, client.runtime.own))
            return provider_on(self.api, self.settings, runtime, self.cluster.seed, send, self.cluster.runtime)

        return open_provider

    def _wake_at(self, at: float) -> None:
        after(max(0.0, at - self.cluster.runtime.now()), self.project.advance)

    def _created(self, server: FakeServer) -> None:
        seen, about = as_seen_by_kubelet(server), {"offering": offering_name(server.kind.name)}
        if (less := self.faults.hit(SmallerThanSold, **about, location=server.location)) is not None:
            seen = replace(seen, allocatable=smaller(seen.allocatable, less.by))
            self._smaller.add(seen.server_id)
        self._as_made[server.id] = seen
        self.late |= {seen.server_id} if server.is_late else set()
        self.creates.append(self._seen(server))
        self._tell("create", self._seen(server))

    def _deleted(self, server: FakeServer) -> None:
        self.deletes.append(self._seen(server))
        self._tell("delete", self._seen(server))

    def _seen(self, server: FakeServer) -> Server:
        """As it is now."""
        made = self._as_made.get(server.id) or as_seen_by_kubelet(server)
        return replace(made, labels=Labels(server.labels), status=server.status)

    def _tell(self, what: str, server: Server) -> None:
        for listener in self.on_change:
            listener(what, server)

    # ------------------------------------------------------------------------- what watchers may ask

    @property
    def servers(self) -> Mapping[str, Server]:
        return {str(each.id): self._seen(each) for each in self.project.servers.values()}

    @property
    def billing(self) -> str:
        return "started hours"

    def is_as_sold(self, server: Server) -> bool:
        return server.server_id not in self._smaller

    def price_of(self, server_id: str) -> float:
        return self.project.meter.bills[int(server_id)].price_per_hour

    def price_per_hour(self) -> float:
        return self.project.meter.price_per_hour()

    def amount_due(self) -> float:
        return self.project.meter.amount_due(self.project.now())

    def add_foreign(self, name: str, server_type: str, location: str, labels: Labels) -> None:
        kind = self.project.kind(server_type.lower())
        if kind is None:
            raise LookupError(f"the fake Hetzner has no server type {server_type}")
        image = next(each for each in self.project.images if each.architecture == kind.architecture)
        server = FakeServer(0, name, kind, location, dict(labels), self.project.now(), image)
        self.project.add(server)
        self.foreign.add(str(server.id))

    def vanish(self, server_id: str) -> None:
        if int(server_id) in self.project.servers:
            self.project.vanish(int(server_id))

    def power_off(self, server_id: str) -> None:
        self.project.power_off(int(server_id))

    def lose_labels(self, server_id: str) -> None:
        self.project.servers[int(server_id)].labels = {}


def as_seen_by_kubelet(server: FakeServer) -> Server:
    """The node that a server's user data makes of it; a stranger's has none, and becomes no node."""
    kind, labels = server.kind, Labels(server.labels)
    read = json.loads(server.user_data or '{"labels": {}, "taints": []}')
    sold = HetznerServerType(kind.name, kind.cores, kind.memory, float(kind.disk), kind.architecture, ())
    template = NodeTemplate(Labels(read["labels"]), taints=msgspec.convert(tuple(read["taints"]), tuple[Taint, ...]))
    identity = (str(server.id), server.name, kind.name.upper(), server.location)
    return Server(*identity, labels, "running", server.created_at, estimate_allocatable(sold, Reserved()), template)


class InProcess(BaseAdapter):
    """Carries requests to the fake, and nowhere else."""

    def __init__(self, api: FakeApi) -> None:
        super().__init__()
        self._api = api

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        address = urlsplit(request.url or "")
        token = str(request.headers.get("Authorization", "")).removeprefix("Bearer ")
        sent = request.body.encode() if isinstance(request.body, str) else request.body
        body, path = sent if isinstance(sent, bytes) else b"", address.path.removeprefix(PREFIX)
        try:
            answer = self._api.handle(FakeRequest(request.method or "GET", path, parse_qs(address.query), token, body))
        except Lost:
            raise requests.exceptions.ReadTimeout("no answer", request=request) from None
        response = requests.Response()
        response.status_code = answer.status
        response.headers.update(answer.headers)
        response._content = json.dumps(answer.body).encode()
        response.url, response.request = request.url or "", request
        return response

    def close(self) -> None:
        return None


def connect_in_process(api: FakeApi) -> Callable[[str, str, float], hcloud.Client]:
    def open_client(token: str, endpoint: str, read_seconds: float) -> hcloud.Client:
        client = connect(token, endpoint, read_seconds)
        client._client._session.mount(endpoint, InProcess(api))
        return client

    return open_client


async def _stay(call: Coroutine[Any, Any, Result]) -> Result:
    return await call


class Travelling:
    """A call's time, around the call. `send_off` lets it arrive even if the caller is no more."""

    def __init__(
        self, runtime: Runtime, seed: str, lost_seconds: float, send_off: SendOff, faults: ActiveFaults
    ) -> None:
        self._runtime = runtime
        self._faults = faults
        self._chance = random.Random(f"{seed}/line")
        self._lost_seconds = lost_seconds
        self._send_off = send_off

    async def __call__(self, work: Callable[[], Result], /) -> Result:
        result: Result = await self._send_off(self._travel(work))
        return result

    async def _travel(self, work: Callable[[], Result]) -> Result:
        needed = self._chance.uniform(*CALL_SECONDS) + sum(each.seconds for each in self._faults.of(SlowProvider))
        seconds = min(needed, self._lost_seconds)
        await self._runtime.sleep(seconds / 2)
        try:
            result = work()
        except NoAnswer:
            await self._runtime.sleep(self._lost_seconds)
            raise
        await self._runtime.sleep(seconds / 2)
        if needed > self._lost_seconds:
            raise NoAnswer(f"no answer within {self._lost_seconds:.0f} s")
        return result


def provider_on(
    api: FakeApi,
    settings: HetznerSettings,
    runtime: Runtime,
    seed: str = "0",
    send_off: SendOff = _stay,
    world: Runtime | None = None,
) -> HetznerProvider:
    """The Hetzner provider, whole, on a fake in the same process; `world` is the clock that goes on when the caller's
    stops.
    """
    travelling = Travelling(world or runtime, seed, settings.call_seconds, send_off, api.project.faults)
    return HetznerProvider(settings, runtime, HetznerApi(settings, runtime, travelling, connect_in_process(api)))
