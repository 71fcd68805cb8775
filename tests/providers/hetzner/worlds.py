"""A fake Hetzner and growth's provider on it, in virtual time, for tests. Whenever the API's description is at hand,
every exchange is compared with it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from growth.model.labels import Labels
from growth.model.node import STARTUP_TAINT
from growth.model.outcome import Accepted
from growth.providers.contract import Order
from growth.providers.hetzner.provider import HetznerProvider
from growth.providers.hetzner.settings import HetznerSettings, Launch
from growth.sim.clock import SimRuntime, after, run_virtual
from growth.sim.cloud.hetzner.api import FakeAnswer, FakeApi, FakeRequest
from growth.sim.cloud.hetzner.embedded import provider_on
from growth.sim.cloud.hetzner.inventory import FakeServer
from growth.sim.cloud.hetzner.project import FakePace, Project
from tests.fakes.hetzner.openapi import described

TOKEN = "Zq8vT3nLx0Rk5WyBc7Hd2JmPa9Se4GfUo6Ei1NtCvXbMzKqYwLrDhOjTgFsAuP0i"
CLUSTER = "0b9a4c1e-3f52-4d7a-9a0e-5d0b8a8f7c11-growth"
TEMPLATE = (
    '{"labels": {{ growth.labels_json }}, "taints": {{ growth.taints_json }}, "secret": "{{ growth.join_token }}"}\n'
)
JOIN_TOKEN = "K10canary-join-token-7f3a9c::server:5b1e0d"


class Bench:
    """One project, one provider, and what was said between them."""

    def __init__(self, folder: Path, launch: Launch | None = None, **settings: Any) -> None:
        self.runtime = SimRuntime("hetzner")
        self.project = Project(self.runtime.now, "test", FakePace())
        self.project.wake_at = lambda at: after(max(0.0, at - self.runtime.now()), self.project.advance)
        self.api = FakeApi(self.project, TOKEN)
        self.violations: list[str] = []
        self.api.look_on = self._compare
        self.token_file = folder / "token"
        self.token_file.write_text(f"{TOKEN}\n")
        self.settings = HetznerSettings(token_file=str(self.token_file), launch=launch or Launch(), **settings)
        self.provider = self.new_provider()

    def new_provider(self) -> HetznerProvider:
        """As after a restart: nothing is remembered."""
        return provider_on(self.api, self.settings, self.runtime, "test")

    def _compare(self, request: FakeRequest, answer: FakeAnswer) -> None:
        description = described()
        if description is not None:
            self.violations += description.violations(request, answer)

    def requests(self, method: str = "", path: str = "") -> int:
        return sum(one.method.startswith(method) and one.path.startswith(path) for one in self.api.log)

    def server(self, outcome: object) -> FakeServer:
        assert isinstance(outcome, Accepted), outcome
        return self.project.servers[int(outcome.machine_id)]


def at_hetzner(test: Callable[[Bench], Awaitable[None]], launch: Launch | None = None, **settings: Any) -> None:
    """Run a test in virtual time; at its end nothing said may be against the API's description."""

    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(Path(folder), launch, **settings)
            await test(bench)
            assert bench.violations == []

    run_virtual(run())


def order(
    name: str = "default-pool-0123456789ab", uid: str = "8d3a9c52-0f4e-4a68-b1c7-2f6f1f0d9e31", **changes: Any
) -> Order:
    labels = Labels({"growth.dev/pool": "default", "kubernetes.io/arch": "amd64"})
    facts = {
        "cluster": CLUSTER,
        "pool": "default",
        "offering": "hetzner-cx33",
        "location": "fsn1",
        "labels": labels,
        "taints": (STARTUP_TAINT,),
    }
    return Order(name, uid, **{**facts, **changes})


def launch_with(folder: Path, template: str = TEMPLATE) -> Launch:
    """With a template and a join token."""
    (folder / "user-data").write_text(template)
    (folder / "join-token").write_text(f"{JOIN_TOKEN}\n")
    return Launch(user_data_file=str(folder / "user-data"), join_token_file=str(folder / "join-token"))
