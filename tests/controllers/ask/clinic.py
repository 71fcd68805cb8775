"""An embedded cluster as a doctor sees it: well, with everything installed, and with whatever a test breaks."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import msgspec

from growth.controllers.ask.doctor import Doctor, Finding
from growth.controllers.ask.premises import Installed
from growth.kube.api.client import Client
from growth.kube.api.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, NODE_POOLS
from growth.kube.api.transport import NeverSent, Request, Response
from growth.kube.crds import definitions
from growth.model.settings import Settings
from growth.providers.contract import Provider
from growth.providers.registry import open_provider
from growth.runtime import Runtime
from growth.sim.apiserver.server import ApiServer
from growth.sim.apiserver.streams import Answer
from growth.sim.clock import SimRuntime, run_virtual

Json = dict[str, Any]
ProviderFor = Callable[[Client, Runtime], Provider]


def kwok(client: Client, runtime: Runtime) -> Provider:
    return open_provider("kwok", client, runtime)


class Clinic:
    """A transport in front of the embedded API server: it has a clock, knows who may do what, and breaks where a test
    says so.
    """

    def __init__(self, runtime: Runtime | None = None) -> None:
        self.runtime = runtime or SimRuntime("clinic")
        self.server = ApiServer(self.runtime)
        self.client = Client(self.server, self.runtime)
        self.denied: set[tuple[str, str]] = set()  # verb, plural with subresource
        self.answers: dict[str, tuple[int, Json]] = {}  # by the end of the path
        self.ahead_seconds = 0.0
        self.silent = ""  # requests with this in their path are never answered
        self.is_down = False
        self.tells_time = True
        self.paths: list[str] = []

    async def send(self, request: Request) -> Response:
        self.paths.append(f"{request.method} {request.path}")
        if self.is_down:
            raise NeverSent("no connection to https://127.0.0.1:1")
        if self.silent and self.silent in request.path:
            await self.runtime.sleep(3600)
        answer = self._scripted(request) or await self.server.send(request)
        date = formatdate(self.runtime.now() + self.ahead_seconds, usegmt=True) if self.tells_time else ""
        answer.headers = {**answer.headers, "date": date}
        return answer

    def _scripted(self, request: Request) -> Response | None:
        if request.path.endswith("selfsubjectaccessreviews"):
            asked = msgspec.json.decode(request.body)["spec"]["resourceAttributes"]
            what = f"{asked['resource']}/{asked['subresource']}" if asked["subresource"] else asked["resource"]
            return Answer(201, msgspec.json.encode({"status": {"allowed": (asked["verb"], what) not in self.denied}}))
        if request.path.endswith("selfsubjectrulesreviews"):
            everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            listed = {"resourceRules": [] if self.denied else [everything], "incomplete": bool(self.denied)}
            return Answer(201, msgspec.json.encode({"status": listed}))
        found = next(
            (answer for end, answer in self.answers.items() if request.path.partition("?")[0].endswith(end)), None
        )
        return Answer(found[0], msgspec.json.encode(found[1])) if found else None

    async def install(self, *pools: Json) -> None:
        """Our kinds as the API server keeps them, with what it adds by itself, and these pools."""
        for definition in definitions():
            stored = {**definition, "spec": {**definition["spec"], "conversion": {"strategy": "None"}}}
            await self.client.create(CUSTOM_RESOURCE_DEFINITIONS, stored)
        await self.client.create(NAMESPACES, {"metadata": {"name": "growth-system"}})
        for pool in pools:
            await self.client.create(NODE_POOLS, pool)


def pool(name: str = "default", *types: str, **spec: Any) -> Json:
    choices = [{"name": each} for each in types or ("CAX11",)]
    return {
        "apiVersion": NODE_POOLS.api_version,
        "kind": NODE_POOLS.kind,
        "metadata": {"name": name},
        "spec": {"serverTypes": choices, **spec},
    }


def examined(
    break_it: Callable[[Clinic], None] = lambda _clinic: None,
    pools: tuple[Json, ...] = (pool(),),
    provider: ProviderFor = kwok,
    name: str = "kwok",
    *,
    mints: bool = False,
    settings: Settings | None = None,
) -> list[Finding]:
    """What the doctor finds on a cluster with our kinds and these pools, after something was broken."""

    async def examine() -> list[Finding]:
        clinic = Clinic()
        await clinic.install(*pools)
        break_it(clinic)
        installed = Installed(name, "growth", "growth-system", mints, settings or Settings())
        found = await Doctor(clinic, clinic.runtime, provider, installed).examine()
        writes = [path for path in clinic.paths if not path.startswith("GET") and not path.endswith("reviews")]
        assert writes == [], "a doctor changes nothing"
        return found

    return run_virtual(examine())
