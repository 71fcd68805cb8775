"""No byte of the token, of a join token or of the user data is ever shown: logs at debug level, events, status,
metrics, errors.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr
from typing import Any

import pytest
import structlog
from prometheus_client import generate_latest

from growth.cli.session import set_up_logs
from growth.controllers.act.join_tokens import JoinTokens
from growth.controllers.growth import Installation
from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.cloud.hetzner.api import FakeRequest
from growth.sim.cloud.hetzner.project import FakeRefusal
from tests.providers.hetzner.embedded import Town, in_town
from tests.providers.hetzner.worlds import TOKEN

CANARY = "c4n4ry-Vq7ZkP2mT9xLw5Rb"
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
