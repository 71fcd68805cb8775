"""May this machine be bought, or given back, right now? The last question before every create and delete at a provider,
and before every bind.

Asked by `controllers/act/nodes`, on live data, however sure the plan was. Answers None (open) or the Outcome that says
why not.

| checked | before a launch | before a delete |
| --- | --- | --- |
| pause switch, of all and of the pool | ✓ | ✓ |
| every cache proved fresh | ✓ | ✓ |
| the record, read live: same UID, right phase, not deleted | NodeRequest Pending | NodeRemovalRequest Deprovisioning |
| the machine, read live: ours by cluster id, and the recorded one | | ✓ |
| no working pod on the node, read live | | ✓ |
| limits, counted on the provider's machines and our own orders | ✓ | |
| brake: not while many nodes are NotReady | | ✓ |
| leadership, last of all | ✓ | ✓ |

Before a bind: `controllers/act/bind_gate`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from growth.controllers.act.bind_gate import BindGate
from growth.controllers.observe.observer import Observer
from growth.kube.api.client import Client
from growth.kube.api.errors import NotFound
from growth.kube.api.errors import Refused as ApiRefused
from growth.kube.api.resources import NODE_POOLS, NODE_REMOVAL_REQUESTS, NODE_REQUESTS, PODS
from growth.model.action import BindPod, DeleteMachine, LaunchMachine
from growth.model.api import FINALIZER
from growth.model.labels import Labels
from growth.model.node import POOL_LABEL
from growth.model.nodepool import PAUSED
from growth.model.noderequest import DEPROVISIONING, PENDING
from growth.model.offering import Machine
from growth.model.outcome import Accepted, Conflict, Outcome, Refused, TryLater, Unknown
from growth.model.settings import Settings
from growth.plan.nodes_down.budgets import why_braked
from growth.plan.world.limits import counts, why_over_limit
from growth.plan.world.nodes import is_lost
from growth.providers.contract import Gone, Provider, ProviderError

OLDEST_CACHE_SECONDS: Final = 150.0  # bookmarks come once a minute
_CLOSED_SECONDS: Final = 10.0


class Gate:
    """Stands before the provider."""

    def __init__(
        self,
        client: Client,
        provider: Provider,
        observer: Observer,
        settings: Settings,
        cluster: str,
        leads: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._provider = provider
        self._observer = observer
        self._settings = settings
        self._cluster = cluster
        self._leads = leads
        self._ordered: dict[str, Machine] = {}  # launches the provider's list may not show yet
        self._binds = BindGate(client, observer.codec, clock)

    async def why_not_launch(self, action: LaunchMachine) -> Outcome | None:
        return await _answered(self._why_not_launch(action))

    async def why_not_delete(self, action: DeleteMachine) -> Outcome | None:
        return await _answered(self._why_not_delete(action))

    async def why_not_bind(self, action: BindPod) -> Outcome | None:
        return await self._binds.why_not_bind(action.node_name, action.beside)

    async def _why_not_launch(self, action: LaunchMachine) -> Outcome | None:
        closed = self._why_closed(action.spec.pool)
        if closed:
            return TryLater(closed, _CLOSED_SECONDS)
        live = await self._record(NODE_REQUESTS, action.request.name)
        if live is None or live["metadata"]["uid"] != action.request.uid or live["metadata"].get("deletionTimestamp"):
            return Conflict(f"NodeRequest {action.request.name} is gone")
        if live.get("status", {}).get("phase", PENDING) != PENDING or FINALIZER not in live["metadata"].get(
            "finalizers", ()
        ):
            return Conflict(f"NodeRequest {action.request.name} no longer waits for a machine")
        return await self._why_paused(action.spec.pool) or self._why_over_limit(action) or self._why_not_leader()

    def launched(self, name: str, outcome: Outcome) -> None:
        """A launch that surely did not happen frees its place again."""
        if not isinstance(outcome, Accepted | Unknown):
            self._ordered.pop(name, None)

    async def _why_not_delete(self, action: DeleteMachine) -> Outcome | None:
        live = await self._record(NODE_REMOVAL_REQUESTS, action.removal.name)
        if live is None or live["metadata"]["uid"] != action.removal.uid:
            return Conflict(f"NodeRemovalRequest {action.removal.name} is gone")
        if live.get("status", {}).get("phase") != DEPROVISIONING:
            return Conflict(f"NodeRemovalRequest {action.removal.name} is not Deprovisioning")
        closed = self._why_closed(live["spec"]["pool"]) or self._why_braked()
        if closed:
            return TryLater(closed, _CLOSED_SECONDS)
        paused = await self._why_paused(live["spec"]["pool"])
        return (
            paused
            or await self._why_occupied(action.node_name)
            or await self._why_not_ours(action)
            or self._why_not_leader()
        )

    # --------------------------------------------------------------------------------------- checks

    def _why_closed(self, pool: str) -> str:
        found = self._observer.pool(pool)
        if self._settings.is_paused or (found is not None and found.is_paused):
            return f"growth is paused{'' if self._settings.is_paused else f' for pool {pool}'}"
        return self._observer.why_stale(OLDEST_CACHE_SECONDS)

    async def _why_paused(self, pool: str) -> Outcome | None:
        """Read live: who pauses a pool wants it to hold now, not when the watch comes to tell."""
        live = await self._record(NODE_POOLS, pool)
        is_paused = live is not None and (live["metadata"].get("annotations") or {}).get(PAUSED) == "true"
        return TryLater(f"growth is paused for pool {pool}", _CLOSED_SECONDS) if is_paused else None

    async def _record(self, resource: Any, name: str) -> Any:
        try:
            return msgspec.json.decode(await self._client.get(resource, name))
        except NotFound:
            return None

    def _why_over_limit(self, action: LaunchMachine) -> Outcome | None:
        """Counted on every machine the provider shows and every order it may not show yet; the place is taken at once."""
        pool = self._observer.pool(action.spec.pool)
        if pool is None:
            return Conflict(f"NodePool {action.spec.pool} is gone")
        supply = self._observer.supply
        if supply.machines_at is None:
            return TryLater("the provider has not yet said which machines exist", _CLOSED_SECONDS)
        known = (
            self._observer.snapshot()
        )  # an order of which neither record nor node speaks any more has no machine that only we remember
        told = {name for name, request in known.requests.items() if counts(request, known)} | set(known.nodes)
        self._ordered = {
            name: order for name, order in self._ordered.items() if name not in supply.machines and name in told
        }
        counted = {**self._ordered, **supply.machines}
        counted.pop(action.request.name, None)  # asked for again: it counts once
        over = why_over_limit(pool, action.spec, tuple(counted.values()), supply.offerings, self._settings.limits)
        if over:
            return TryLater(over, _CLOSED_SECONDS)
        self._ordered[action.request.name] = _ordered_machine(action)
        return None

    def _why_braked(self) -> str:
        return why_braked(*self._observer.readiness())

    async def _why_occupied(self, node: str) -> Outcome | None:
        items, _ = await self._client.list(PODS, fields=f"spec.nodeName={node}")
        known = self._observer.snapshot()
        for item in items:
            pod = self._observer.codec.decode_pod(item)
            if pod.counts_as_work and not is_lost(pod, known.nodes.get(node), known.now):
                return Conflict(f"pod {pod.key} is on node {node}")
        return None

    async def _why_not_ours(self, action: DeleteMachine) -> Outcome | None:
        try:
            machine = await self._provider.describe(action.machine_id)
        except ProviderError as error:
            return TryLater(str(error), _CLOSED_SECONDS)
        if isinstance(machine, Gone):
            return Accepted()
        is_recorded = machine.name == action.node_name or (
            action.request_uid and machine.request_uid == action.request_uid
        )
        if machine.cluster != self._cluster or not is_recorded:
            return Refused(f"machine {action.machine_id} is not the one recorded for node {action.node_name}")
        return None

    def _why_not_leader(self) -> Outcome | None:
        return None if self._leads() else TryLater("leadership is not certain", 1.0)


async def _answered(question: Awaitable[Outcome | None]) -> Outcome | None:
    """What the API server does not let us read says nothing about the machine: the gate stays closed, and is asked
    again.
    """
    try:
        return await question
    except ApiRefused as error:
        return TryLater(str(error), _CLOSED_SECONDS)


def _ordered_machine(action: LaunchMachine) -> Machine:
    spec = action.spec
    return Machine("", action.request.name, spec.target_offering, spec.location, labels=Labels({POOL_LABEL: spec.pool}))
