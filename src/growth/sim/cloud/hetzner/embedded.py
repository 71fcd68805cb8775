"""The fake Hetzner as the cloud of the embedded cluster: the real provider and the real hcloud client, without sockets
and in virtual time. Used by tests, benchmarks and `growth demo`.

What a real machine reads from its user data, the embedded kubelets do too: the template is JSON with the node's labels
and taints. The client is synchronous and time must not stand still inside it, so a call's time passes around it: half
before it arrives, half on the way back. A lost answer takes as long as the client waits for one. A process that dies in
between leaves a request that takes effect all the same."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from urllib.parse import parse_qs, urlsplit

import hcloud
import msgspec
import requests
from requests.adapters import BaseAdapter

from growth.kube.api.client import Client
from growth.model.labels import Labels
from growth.model.node import Taint
from growth.providers.contract import Provider
from growth.providers.hetzner.api import HetznerApi, connect
from growth.providers.hetzner.catalogue import estimate_allocatable
from growth.providers.hetzner.errors import NoAnswer
from growth.providers.hetzner.provider import HetznerProvider
from growth.providers.hetzner.settings import HetznerSettings, Launch, Reserved
from growth.providers.hetzner.wire import HetznerServerType
from growth.providers.simulated import NodeTemplate, Server
from growth.runtime import Runtime
from growth.sim.clock import SimRuntime, after
from growth.sim.cloud.hetzner.api import FakeApi, FakeRequest, Lost
from growth.sim.cloud.hetzner.project import FakePace, FakeServer, Project
from growth.sim.cluster import Cluster
from growth.sim.process import send_off

TOKEN: Final = "f4k3tok3nf4k3tok3nf4k3tok3nf4k3tok3nf4k3tok3nf4k3tok3nf4k3tok3n0"  # noqa: S105  (opens nothing)
TEMPLATE: Final = '{"labels": {{ growth.labels_json }}, "taints": {{ growth.taints_json }}}\n'


CALL_SECONDS = (0.05, 0.4)
PREFIX = "/v1"

Result = TypeVar("Result")
SendOff = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]


class HetznerCloud:
    """A fake project whose servers join the embedded cluster. `folder` takes the files that a pod would mount."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        pace: FakePace | None = None,
        token: str = TOKEN,
        template: str = TEMPLATE,
        **launch: Any,
    ) -> None:
        self.cluster = cluster
        self.project = Project(cluster.runtime.now, cluster.seed, pace)
        self.project.wake_at = self._wake_at
        self.project.on_boot, self.project.on_gone = self._booted, self._gone
        self.api = FakeApi(self.project, token)
        (folder / "token").write_text(f"{token}\n")
        (folder / "user-data").write_text(template)
        started = Launch(user_data_file=str(folder / "user-data"), **launch)
        self.settings = HetznerSettings(token_file=str(folder / "token"), launch=started)
        cluster.kubelets.scheme = "hcloud"

    def provider_for(self) -> Callable[[Client, Runtime], Provider]:
        """For `GrowthProcess`: a request that is on its way arrives even if its sender has died."""

        def open_provider(_client: Client, runtime: Runtime) -> Provider:
            send = partial(send_off, runtime=cast(SimRuntime, runtime))
            return provider_on(self.api, self.settings, runtime, self.cluster.seed, send, self.cluster.runtime)

        return open_provider

    def _wake_at(self, at: float) -> None:
        after(max(0.0, at - self.cluster.runtime.now()), self.project.advance)

    def _booted(self, server: FakeServer) -> None:
        self.cluster.kubelets.booted(as_seen_by_kubelet(server), True)

    def _gone(self, server: FakeServer) -> None:
        self.cluster.kubelets.gone(as_seen_by_kubelet(server))


def as_seen_by_kubelet(server: FakeServer) -> Server:
    """The node that a server's user data makes of it."""
    read, kind, labels = json.loads(server.user_data), server.kind, Labels(server.labels)
    sold = HetznerServerType(kind.name, kind.cores, kind.memory, float(kind.disk), kind.architecture, ())
    template = NodeTemplate(Labels(read["labels"]), taints=msgspec.convert(tuple(read["taints"]), tuple[Taint, ...]))
    identity = (str(server.id), server.name, kind.name, server.location)
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

    def __init__(self, runtime: Runtime, seed: str, lost_seconds: float, send_off: SendOff = _stay) -> None:
        self._runtime = runtime
        self._chance = random.Random(f"{seed}/line")
        self._lost_seconds = lost_seconds
        self._send_off = send_off

    async def __call__(self, work: Callable[[], Result], /) -> Result:
        result: Result = await self._send_off(self._travel(work))
        return result

    async def _travel(self, work: Callable[[], Result]) -> Result:
        seconds = self._chance.uniform(*CALL_SECONDS)
        await self._runtime.sleep(seconds / 2)
        try:
            result = work()
        except NoAnswer:
            await self._runtime.sleep(self._lost_seconds)
            raise
        await self._runtime.sleep(seconds / 2)
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
    travelling = Travelling(world or runtime, seed, settings.call_seconds, send_off)
    return HetznerProvider(settings, runtime, HetznerApi(settings, runtime, travelling, connect_in_process(api)))
