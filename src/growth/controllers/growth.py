"""The whole of growth, put together: caches, supply, gate, loop. Started by `growth run` and, unchanged, by the
embedded cluster.

Everything that differs between the two comes in through the constructor: the transport, the runtime, the provider, the
fence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from growth.controllers.act.apply import EFFECTS, Applier
from growth.controllers.act.gate import OLDEST_CACHE_SECONDS, Gate
from growth.controllers.act.join_tokens import JoinTokens, Mint
from growth.controllers.act.nodes import Tools
from growth.controllers.configuration import NO_PRICE_LIMIT, cluster_id, with_money
from growth.controllers.loop.journal import Journal
from growth.controllers.loop.loop import Loop
from growth.controllers.loop.metrics import Metrics
from growth.controllers.loop.supervisor import Supervisor
from growth.controllers.loop.table import ROWS
from growth.controllers.observe.observer import Observer
from growth.controllers.observe.supply import Supply
from growth.kube.api.client import Client
from growth.kube.api.errors import KubeError, with_advice
from growth.kube.api.events import Recorder
from growth.kube.api.request import ClientSettings
from growth.kube.api.transport import Transport
from growth.kube.fence import Fence, OpenFence
from growth.model.decision import About
from growth.model.pod import Owner
from growth.model.settings import Settings
from growth.plan.buffers.placement import place_buffers
from growth.plan.nodes_up.demand import is_demand
from growth.plan.world.limits import needs_default_price
from growth.providers.careful import CarefulProvider
from growth.providers.contract import Provider
from growth.runtime import Runtime

_START_RETRY_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.1
_CATCH_UP_SECONDS: Final = 1.0
_ALONE_SECONDS: Final = 3600.0
_LOOP: Final = "loop"

log = structlog.get_logger(__name__)


class Installation(Struct, frozen=True):
    """The settings of one running growth: its name, its plans, its requests to the API server."""

    name: str = "growth"
    settings: Settings = Settings()
    client: ClientSettings = ClientSettings(requests_per_second=1000.0, burst=2000)
    only_observes: bool = False
    serves_buffers: bool = True
    serves_warm_pools: bool = True
    metrics_name_tenants: bool = False
    join_tokens: JoinTokens = JoinTokens()


class Growth:
    """One running growth. `provider_for` makes the provider once there is a client and the cluster is known."""

    def __init__(
        self,
        transport: Transport,
        runtime: Runtime,
        provider_for: Callable[[Client, Runtime], Provider],
        installation: Installation | None = None,
        fence: Fence | None = None,
    ) -> None:
        given = installation or Installation()
        self.fence = fence or OpenFence(runtime.monotonic)
        self.client = Client(transport, runtime, given.client, self.fence.holds, self.fence.seconds_left)
        self.runtime = runtime = self.client.runtime  # from here on the time is the API server's
        self.metrics = Metrics(runtime)
        self.metrics.expect((row.name for row in ROWS), (action.__name__ for action in EFFECTS))
        self.supervisor = Supervisor(runtime, self.metrics)
        self.provider = CarefulProvider(provider_for(self.client, runtime), runtime, self.metrics.provider_call)
        self.installation = replace(given, settings=with_money(given.settings, self.provider.name))
        self.events = Recorder(self.client, runtime, self.installation.name)
        observes = self.installation.only_observes
        self.journal = Journal(self.events, self.metrics, runtime.monotonic, self._owner_of, only_observes=observes)
        self.observer: Observer | None = None
        self.loop: Loop | None = None
        self._why_no_cluster = ""

    @property
    def is_filled(self) -> bool:
        """All caches have been filled once and the provider has answered."""
        return self.observer is not None and self.observer.is_synced

    def why_not_alive(self) -> tuple[str, ...]:
        """What in this process stands still or has ended: it must be started again. Nothing outside it counts."""
        turning = self.loop.why_not_turning() if self.loop is not None and self.supervisor.keeps(_LOOP) else ""
        return tuple(filter(None, (self.supervisor.why_not_alive(), turning)))

    def why_not_sure(self) -> tuple[str, ...]:
        """What growth would have to know before it acts, and does not."""
        if self.observer is None:
            return (f"it is not known yet which cluster this is: {self._why_no_cluster or 'not answered yet'}",)
        solver = self.loop.why_not_solving() if self.loop is not None and self.supervisor.keeps(_LOOP) else ""
        return (*self.observer.why_not_sure(OLDEST_CACHE_SECONDS), *filter(None, [solver]))

    def refresh_metrics(self) -> None:
        """Bring the gauges up to date; asked before each reading."""
        self.metrics.leads.set(self.fence.holds())
        if self.observer is not None:
            self.observer.refresh_metrics()
            cutoff = self.installation.settings.priority_cutoff
            self.metrics.demands.set(sum(is_demand(pod, cutoff) for pod in self.observer.pods.unschedulable()))
            placed = place_buffers(self.observer.snapshot(), self.installation.settings)
            self.metrics.count_buffers(placed, names_them=self.installation.metrics_name_tenants)

    async def run(self) -> None:
        """Until cancelled. Caches fill while another process leads; decisions begin with leadership."""
        try:
            await self._run()
        finally:
            self.supervisor.end_all()

    async def _run(self) -> None:
        cluster, chosen = await self._cluster_id(), self.installation
        log.info("growth starts", cluster=cluster, provider=self.provider.name, observes=chosen.only_observes)
        if needs_default_price(chosen.settings):
            log.warning(NO_PRICE_LIMIT)
        supply = Supply(self.provider, cluster, self.runtime)
        self.observer = Observer(
            self.client,
            self.runtime,
            supply,
            self.metrics,
            chosen.settings,
            serves_buffers=chosen.serves_buffers,
            serves_warm_pools=chosen.serves_warm_pools,
        )
        self.supervisor.keep("supply", supply.run)
        for name, work in self.observer.watches(self.journal):
            self.supervisor.keep(name, work)
        while True:
            while not (self.observer.is_synced and self.fence.holds()):
                await self.runtime.sleep(_POLL_SECONDS)
            await self._lead(self._assemble(self.observer, supply, cluster))

    async def _lead(self, loop: Loop) -> None:
        """Decide while leading. A new term begins with empty ledgers: what another leader did meanwhile is in the
        objects. What was begun in an old term is not finished.
        """
        self.loop, term = loop, self.fence.term

        async def decide() -> None:
            self.fence.enter_term()
            if not isinstance(self.fence, OpenFence):
                await self._catch_up(loop.observer)
            await loop.run()

        self.supervisor.keep(_LOOP, decide)
        while self.fence.holds() and self.fence.term == term:
            await self.runtime.sleep(_POLL_SECONDS if not isinstance(self.fence, OpenFence) else _ALONE_SECONDS)
        log.warning("growth no longer leads")
        self.supervisor.end(_LOOP)

    async def _catch_up(self, observer: Observer) -> None:
        while True:
            try:
                return await observer.catch_up()
            except KubeError as error:
                log.warning("what the last leader ordered cannot be read", why=str(error))
                await self.runtime.sleep(_CATCH_UP_SECONDS)

    def _assemble(self, observer: Observer, supply: Supply, cluster: str) -> Loop:
        settings, tokens, runtime = self.installation.settings, self.installation.join_tokens, self.runtime
        gate = Gate(self.client, self.provider, observer, settings, cluster, self.fence, runtime.monotonic)
        mint = Mint(self.client, runtime, tokens) if tokens.mint else None
        tools = Tools(self.client, self.provider, observer, gate, runtime, self.metrics, cluster, supply.ask_soon, mint)
        applier = Applier(tools, only_observes=self.installation.only_observes)
        return Loop(observer, applier, self.journal, self.metrics, self.runtime, settings)

    def _owner_of(self, pod: About) -> Owner | None:
        known = self.observer.pods.get(f"{pod.namespace}/{pod.name}") if self.observer is not None else None
        return known.owner if known is not None else None

    async def _cluster_id(self) -> str:
        while True:
            try:
                return await cluster_id(self.client, self.installation.name)
            except Exception as error:  # an answer without the field that names the cluster is none either
                self._why_no_cluster = with_advice(error) or type(error).__name__
                await self.runtime.sleep(_START_RETRY_SECONDS)
