"""No byte of a secret is ever shown, in logs at debug level, events, status, metrics and errors, even if whoever was
told it quotes it: Hetzner's token, join tokens, user data, a proxy's password, the user part of any address, the bearer
token, and what an exec plugin is given and says.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp import web
from prometheus_client import generate_latest

from growth.cli.session import set_up_logs
from growth.controllers.act.join_tokens import JoinTokens
from growth.controllers.growth import Installation
from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.client import Client
from growth.kube.api.errors import KubeError
from growth.kube.api.http import HttpTransport
from growth.kube.api.request import ClientSettings
from growth.kube.api.resources import NODES, PODS
from growth.kube.api.transport import Request, Response
from growth.kube.auth.credentials import Connection, PluginCredentials
from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.apiserver.refusal import Refusal
from growth.sim.apiserver.routes import Route
from growth.sim.cloud.hetzner.api import FakeRequest
from growth.sim.cloud.hetzner.project import FakeRefusal
from tests.kube.api.test_http import serving
from tests.kube.auth.test_credentials import plugin, script
from tests.providers.hetzner.embedded import Town, in_town
from tests.providers.hetzner.worlds import TOKEN

CANARY = "c4n4ry-Vq7ZkP2mT9xLw5Rb"
BEARER = "b34r3r-Hs8KqW3nU7yJd4Ga"  # an exec plugin gives it
GIVEN = "g1v3n-Zt6MvE9pC2rFx5Nb"  # to the plugin, in its environment
PROXY = "pr0xy-Lk5QwR8tY1uSd3Jm"
USER_PART = "us3r-Bn7VcX4zA6sPf2Hg"
FACTS = '"labels": {{ growth.labels_json }}, "taints": {{ growth.taints_json }}, "token": "{{ growth.join_token }}"'
TEMPLATE = "{" + FACTS + f', "write": "{CANARY}-and-more-of-it"' + "}\n"


@pytest.fixture
def log_lines() -> Iterator[io.StringIO]:
    """Everything that growth logs, at debug level, as production writes it."""
    lines = io.StringIO()
    before = structlog.get_config()
    with redirect_stderr(lines):
        set_up_logs("debug")
        structlog.configure(cache_logger_on_first_use=False)
        yield lines
    structlog.configure(**before)


def parts(secret: str) -> set[str]:
    return {secret[start : start + 8] for start in range(len(secret) - 7)}


def quoting(town: Town, rejected: list[str]) -> None:
    """A Hetzner that quotes, in its errors, the token and the user data it was given."""
    answered = town.cloud.api._route

    def route(request: FakeRequest) -> tuple[dict[str, Any], int]:
        if request.method == "POST" and len(rejected) < 4:
            rejected.append(json.loads(request.body)["user_data"])
            code = ("invalid_input", "forbidden", "server_error", "resource_unavailable")[len(rejected) - 1]
            details = {"fields": [{"name": "user_data", "messages": [rejected[-1], f"Bearer {request.token}"]}]}
            raise FakeRefusal(422, code, f"token {request.token[4:30]} sent {rejected[-1]}", details)
        return answered(request)

    town.cloud.api._route = route  # type: ignore[method-assign]


def test_secrets_appear_nowhere_even_if_hetzner_quotes_them(log_lines: io.StringIO) -> None:
    rejected: list[str] = []
    shown: list[str] = []

    async def test(town: Town) -> None:
        quoting(town, rejected)
        town.cluster.create(node_pool("default", "CX33", "CX43"), deployment("web", 4, cpu="3", memory="2Gi"))
        await town.wait_for(lambda: len(rejected) >= 4, 1500)
        town.cloud.api.token = "rotated"
        await town.cluster.runtime.sleep(120)
        town.cloud.api.token = TOKEN
        await town.wait_for(lambda: town.running() == 4, 3000)
        shown.extend(
            json.dumps(town.cluster.objects(kind))
            for kind in ("Event", "NodeRequest", "NodeRemovalRequest", "NodePool", "Node", "Pod")
        )
        shown.append(generate_latest(town.growth.growth.metrics.registry).decode())
        shown.extend(repr(note) for note in town.growth.growth.journal.latest(1000))

    in_town(test, token=TOKEN, template=TEMPLATE, installation=Installation(join_tokens=JoinTokens(mint=True)))
    shown.append(log_lines.getvalue())
    assert len(rejected) == 4
    assert all(CANARY in text for text in rejected)
    everything = "\n".join(shown)
    minted = {json.loads(text)["token"].partition(".")[2] for text in rejected}
    assert all(len(secret) == 16 for secret in minted)
    assert "[redacted]" in everything
    assert "the provider did not answer" in everything
    assert [part for part in sorted(parts(TOKEN).union(parts(CANARY), *map(parts, minted))) if part in everything] == []


# ------------------------------------------------------------------------------- the line to the API server


def heard_on_the_line(folder: Path) -> list[str]:
    """The errors of real requests through a proxy that quotes all it was sent, and an address with a user part."""

    async def quote(request: web.Request) -> web.Response:
        sent = json.dumps(dict(request.headers))
        return web.json_response({"kind": "Status", "code": 403, "message": f"not with {sent}, {BEARER}"}, status=403)

    said = f"sys.stderr.write('at https://me:{USER_PART}@host with ' + os.environ['KEY'] + ', got {BEARER}')\n"
    path = script(folder, said + f"answer(token='{BEARER}')\n")

    async def talk() -> list[str]:
        runtime = SystemRuntime()
        credentials = PluginCredentials(plugin(path, environment={"KEY": GIVEN}), runtime)
        errors = []
        async with serving(quote) as address:
            proxied = address.replace("://", f"://user:{PROXY}@")
            for server, proxy in ((address, proxied), (f"http://me:{USER_PART}@localhost:1", ""), (address, "")):
                line = HttpTransport(Connection(server, lambda: b"", credentials, proxy_url=proxy))
                client = Client(line, runtime, ClientSettings(attempts=1, timeout_seconds=5))
                try:
                    await client.get(NODES, "a")
                except KubeError as error:
                    errors.append(f"{error} {error!r}")
                await line.close()
        return errors

    return asyncio.run(talk())


def quoting_server(town: Town, words: str, refused: Counter[tuple[str, str, str]]) -> None:
    """An API server whose webhooks and proxies quote it all: twice for each verb on each kind."""
    api = town.cluster.api
    wrote, read = api._write, api._read

    def refuse(method: str, route: Route) -> None:
        key = (method, route.kind.name, route.subresource)
        refused[key] += 1
        if refused[key] <= 2:
            code = (422, 500)[refused[key] - 1] if method != "GET" else (403, 503)[refused[key] - 1]
            raise Refusal(code, "Odd", f"denied: {words}")

    def write(request: Request, route: Route, query: Mapping[str, str], actor: str) -> Response:
        if actor == "growth":
            refuse(request.method, route)
        return wrote(request, route, query, actor)

    def look(route: Route, query: Mapping[str, str]) -> Response:
        refuse("GET", route)
        return read(route, query)

    api._write, api._read = write, look  # type: ignore[method-assign]


def test_secrets_of_the_line_to_the_api_server_appear_nowhere(
    log_lines: io.StringIO, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = heard_on_the_line(tmp_path)
    words = f"Bearer {BEARER} through http://user:{PROXY}@proxy:8080 to https://{USER_PART}:x@host/path"
    refused: Counter[tuple[str, str, str]] = Counter()

    async def test(town: Town) -> None:
        quoting_server(town, words, refused)
        town.cluster.create(node_pool("default", "CX33"), deployment("web", 2, cpu="3", memory="2Gi"))
        await town.wait_for(lambda: town.running() == 2, 6000)
        kinds = ("Event", "NodeRequest", "NodeRemovalRequest", "NodePool", "Node", "Pod")
        shown.extend(json.dumps(town.cluster.objects(kind)) for kind in kinds)
        shown.append(generate_latest(town.growth.growth.metrics.registry).decode())
        shown.extend(repr(note) for note in town.growth.growth.journal.latest(1000))
        shown.extend((*town.growth.growth.why_not_sure(), *town.growth.growth.why_not_alive()))

    in_town(test, token=TOKEN)
    captured = capsys.readouterr()
    shown += [log_lines.getvalue(), captured.out, captured.err]
    assert {("POST", "NodeRequest", ""), ("PATCH", "Node", ""), ("GET", PODS.kind, "")} <= set(refused)
    everything = "\n".join(shown)
    assert "denied: Bearer [redacted]" in everything
    secrets = parts(BEARER).union(parts(PROXY), parts(USER_PART), parts(GIVEN), parts(TOKEN))
    assert [part for part in sorted(secrets) if part in everything] == []
