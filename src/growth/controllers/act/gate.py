"""May this machine be bought, or given back, right now? The last question before every create and delete at a provider,
and before every bind.

Asked by `controllers/act/nodes` and `pods`, on live data, however sure the plan was and however old the caches are.
Answers None (open) or the Outcome that says why not.

| checked | before a launch | before a delete |
| --- | --- | --- |
| pause switch, of all and of the pool | ✓ | ✓ |
| the pool, read live: its spec is the one that the caches know | ✓ | |
| every cache and the list of machines proved fresh, within 150 s | ✓ | ✓ |
| the record, read live: same UID, right phase, not deleted | NodeRequest Pending | NodeRemovalRequest Deprovisioning |
| the machine, read live: ours by cluster id, and the recorded one | | ✓ |
| the Node, read live: no annotation keeps it, unless an earlier delete may have been accepted | | ✓ |
| no working pod on the node, read live, directly before the delete | | ✓ |
| limits, counted on the provider's machines and our own orders | ✓ | |
| brake: while many nodes are NotReady, none of them, unless its machine is off | | ✓ |
| leadership, last of all | ✓ | ✓ |

What is read live before a bind: `controllers/act/looks`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Set
from operator import is_
from typing import Any, Final

import msgspec

from growth.controllers.act.looks import BindGate, SharedReads, read_live
from growth.controllers.observe.observer import Observer
from growth.kube.api.client import Client
from growth.kube.api.errors import NotFound
from growth.kube.api.errors import Refused as ApiRefused
from growth.kube.api.resources import NODE_POOLS, NODE_REMOVAL_REQUESTS, NODE_REQUESTS, NODES, PODS
from growth.kube.codec import Codec
from growth.kube.codec.own import read_node_removal_request
from growth.kube.fence import Fence
from growth.model.action import DeleteMachine, FinishRemoval, LaunchMachine
from growth.model.api import FINALIZER
from growth.model.labels import Labels
from growth.model.node import POOL_LABEL, Node
from growth.model.nodepool import PAUSED
from growth.model.noderequest import DEPROVISIONING, PENDING, NodeRemovalRequest, NodeRequestSpec
from growth.model.offering import Machine
from growth.model.outcome import Accepted, Conflict, Outcome, Refused, TryLater, Unknown
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.plan.evictions import Evictability
from growth.plan.nodes_down.attempts import is_irrevocable
from growth.plan.nodes_down.drain import has_returned
from growth.plan.world.brake import is_switched_off, why_braked
from growth.plan.world.limits import Tally, counts, may_come_until
from growth.plan.world.machines import is_node_of, last_part, names_another, pool_of_removal, strangers_on
from growth.plan.world.nodes import is_kept_by_wish, is_lost, was_ever_ready
from growth.providers.contract import Gone, Provider, ProviderError

OLDEST_CACHE_SECONDS: Final = 150.0  # bookmarks come once a minute
_CLOSED_SECONDS: Final = 10.0
_FILLED_AT_ONCE: Final = 12
_BOUND_AT_ONCE: Final = 48  # pods: fewer than requests may be under way, so that others are not held up


async def _pods_on(client: Client, codec: Codec, node: str) -> tuple[Pod, ...]:
    items, _ = await client.list(PODS, fields=f"spec.nodeName={node}")
    return tuple(codec.decode_pod(item) for item in items)


class Gate:
    """Asked before every launch, delete and bind."""

    def __init__(
        self,
        client: Client,
        provider: Provider,
        observer: Observer,
        settings: Settings,
        cluster: str,
        fence: Fence,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._provider = provider
        self._observer = observer
        self._settings = settings
        self._cluster = cluster
        self.fence = fence
        self._ordered: dict[str, Machine] = {}  # launches the provider's list may not show yet
        self._tally: Tally | None = None  # None: everything must be counted anew
        self._tallied: tuple[object, ...] = ()  # what it was counted from
        self._pools = SharedReads(client, NODE_POOLS)
        self._binds = BindGate(client, clock, observer.pods)
        self.filling = asyncio.Semaphore(_FILLED_AT_ONCE)  # nodes: what was seen of one serves for a second only
        self.binding = asyncio.Semaphore(_BOUND_AT_ONCE)

    async def why_not_launch(self, action: LaunchMachine) -> Outcome | None:
        return await _answered(self._why_not_launch(action))

    async def why_not_delete(self, action: DeleteMachine) -> Outcome | None:
        return await _answered(self._why_not_delete(action))

    async def why_not_finish(self, action: FinishRemoval) -> Outcome | None:
        """Before a Node is deleted: is its machine gone, by the provider's own word about it?"""
        return await _answered(self._why_not_finish(action))

    async def why_not_bind(self, node: str, counted: Set[str]) -> Conflict | TryLater | None:
        return await self._binds.why_not_bind(node, counted)

    async def why_not_bind_among(self, node: str, counted: Set[str]) -> Conflict | TryLater | None:
        """To a node that others bind to as well."""
        return await self._binds.why_not_bind_among(node, counted)

    async def why_gone(self, node: str) -> Conflict | None:
        """Before a pod is promised to a node."""
        return await self._binds.why_gone(node)

    async def _why_not_launch(self, action: LaunchMachine) -> Outcome | None:
        closed = self._why_closed(action.spec.pool)
        if closed:
            return TryLater(closed, _CLOSED_SECONDS)
        live = await read_live(self._client, NODE_REQUESTS, action.request.name)
        if live is None or live["metadata"]["uid"] != action.request.uid or live["metadata"].get("deletionTimestamp"):
            return Conflict(f"NodeRequest {action.request.name} is gone")
        is_pending = live.get("status", {}).get("phase", PENDING) == PENDING
        if not is_pending or FINALIZER not in live["metadata"].get("finalizers", ()):
            return Conflict(f"NodeRequest {action.request.name} no longer waits for a machine")
        pool = await self._pools.read(action.spec.pool)
        return (
            _why_paused(action.spec.pool, pool)
            or self._why_changed(action.spec.pool, pool)
            or self._why_over_limit(action)
            or self._why_not_leader()
        )

    def launched(self, name: str, outcome: Outcome) -> None:
        """A launch that surely did not happen frees its place again."""
        if not isinstance(outcome, Accepted | Unknown):
            self._ordered.pop(name, None)
            self._tally = None

    async def _why_not_delete(self, action: DeleteMachine) -> Outcome | None:
        live = await read_live(self._client, NODE_REMOVAL_REQUESTS, action.removal.name)
        if live is None or live["metadata"]["uid"] != action.removal.uid:
            return Conflict(f"NodeRemovalRequest {action.removal.name} is gone")
        if live.get("status", {}).get("phase") != DEPROVISIONING:
            return Conflict(f"NodeRemovalRequest {action.removal.name} is not Deprovisioning")
        removal = read_node_removal_request(msgspec.json.encode(live))
        pool = pool_of_removal(removal, self._observer.snapshot())
        closed = self._why_closed(pool)
        if closed:
            return TryLater(closed, _CLOSED_SECONDS)
        return (
            _why_paused(pool, await self._pools.read(pool))
            or await self._why_braked(action, pool)
            or await self._why_not_this_one(action, removal)
            # last: the delete follows within a second, or not at all
            or await self._why_occupied(removal)
            or self._why_not_leader()
        )

    async def _why_not_finish(self, action: FinishRemoval) -> Outcome | None:
        """By the recorded id. Without one by its name, whoever owns a machine of that name by now, and by the id that
        the Node names: a machine that only lost our label still runs, and is paid for. Accepted: it is gone, and the
        Node is another's.
        """
        node = await self._live_node(action.node_name)
        asked = [self._describe(action.machine_id) if action.machine_id else self._find(action.node_name)]
        if node is not None and not action.machine_id and last_part(node.provider_id) not in ("", node.name):
            asked.append(self._describe(last_part(node.provider_id)))
        for machine in [await each for each in asked]:
            if isinstance(machine, TryLater):
                return machine
            if isinstance(machine, Machine) and machine.cluster != self._cluster and machine.state != "deleting":
                why = "is there without this cluster's label at the provider: it is not growth's to delete"
                return Refused(f"machine {machine.machine_id} of node {action.node_name} {why}")
            if isinstance(machine, Machine):
                return TryLater(f"machine {machine.machine_id} of node {action.node_name} is still {machine.state}")
        if node is not None and not action.machine_id and node.is_ready and node.uid == action.node_uid:
            return TryLater(f"node {node.name} is Ready, though no machine of its name is known", _CLOSED_SECONDS)
        if node is not None and action.machine_id and names_another(node, action.machine_id):
            return Accepted()  # the recorded machine is gone; a stranger has the name of its node, and stays
        return None

    # --------------------------------------------------------------------------------------- checks

    def _why_closed(self, pool: str) -> str:
        found = self._observer.pool(pool)
        if self._settings.is_paused or (found is not None and found.is_paused):
            return f"growth is paused{'' if self._settings.is_paused else f' for pool {pool}'}"
        return self._observer.why_stale(OLDEST_CACHE_SECONDS)

    def _why_changed(self, pool: str, live: Any) -> Outcome | None:
        """Limits are counted by what the caches know of the pool: they must know the one that stands."""
        known = self._observer.pool(pool)
        is_known = live is None or known is None or live["metadata"].get("generation", 0) == known.generation
        return None if is_known else TryLater(f"NodePool {pool} was changed, and growth has not heard of it", 1.0)

    async def _why_braked(self, action: DeleteMachine, pool: str) -> Outcome | None:
        """A node that is Ready now may go if it is empty, which is looked at as well; one whose machine is off, too."""
        known = self._observer.snapshot()
        why, node = why_braked(pool, known), known.nodes.get(action.node_name)
        if not why or node is None or not was_ever_ready(node, known):
            return None
        if await self._is_gone_or_ready(action.node_name):
            return None
        machine = await self._describe(action.machine_id)
        is_over = isinstance(machine, Gone) or (isinstance(machine, Machine) and is_switched_off(machine.state))
        return None if is_over else TryLater(why, _CLOSED_SECONDS)

    def _why_over_limit(self, action: LaunchMachine) -> Outcome | None:
        """Every machine counts that the provider shows, and every order it may not show yet; the place is taken at
        once. What was counted a moment ago serves again, with the orders since: at worst it counts too many, so before
        an order is held everything is counted anew.
        """
        pools, supply, spec = self._observer.pools.view(), self._observer.supply, action.spec
        if spec.pool not in pools:
            return Conflict(f"NodePool {spec.pool} is gone")
        if supply.machines_at is None:
            return TryLater("the provider has not yet said which machines exist", _CLOSED_SECONDS)
        parts = (pools, supply.machines, supply.offerings)
        is_counted = action.request.name in self._ordered or action.request.name in supply.machines
        is_known = not is_counted and len(self._tallied) == len(parts) and all(map(is_, self._tallied, parts))
        tally = self._tally if is_known else None
        if tally is None or tally.why_over(spec):
            tally = Tally(pools, self._counted(action.request.name), supply.offerings, self._settings)
            self._tally, self._tallied = tally, parts
        over = tally.why_over(spec)
        if over:
            self._tally = None
            return TryLater(over, _CLOSED_SECONDS)
        tally.add(spec)
        self._ordered[action.request.name] = _ordered_machine(action.request.name, spec)
        return None

    def _counted(self, asked: str) -> tuple[Machine, ...]:
        """All machines but the one that is asked for: it may be asked for again, and counts once. Orders without an
        answer count as long as one may still bring a machine, also those of an earlier process.
        """
        known, machines = self._observer.snapshot(), self._observer.supply.machines
        # an order without a record or a node of ours any more has no machine that only we remember
        counted_for = {name for name, request in known.requests.items() if counts(request, known)}
        counted_for |= {name for name, node in known.nodes.items() if node.pool}
        forgotten = set(self._ordered) - counted_for | set(machines)
        self._ordered = {name: order for name, order in self._ordered.items() if name not in forgotten}
        unanswered = (each for each in known.requests.values() if known.now < may_come_until(each))
        may_come = {each.name: _ordered_machine(each.name, each.spec) for each in unanswered}
        return tuple(each for name, each in {**may_come, **self._ordered, **machines}.items() if name != asked)

    async def _why_occupied(self, removal: NodeRemovalRequest) -> Outcome | None:
        """A pod that came back after an eviction holds nothing up, unless it must not be disrupted."""
        known, own = self._observer.snapshot(), removal.spec.node_name
        evictability = Evictability(known, self._settings)
        others = {each.name for each in strangers_on(own, known)} - {own}  # which may run on this machine
        for node in (*sorted(others), own):
            for pod in await _pods_on(self._client, self._observer.codec, node):
                is_free = has_returned(pod, removal.status) and evictability.why_kept(pod) is None
                if pod.counts_as_work and not is_lost(pod, known.nodes.get(node), known.now) and not is_free:
                    return Conflict(f"pod {pod.key} is on node {node}")
        return None

    async def _why_not_this_one(self, action: DeleteMachine, removal: NodeRemovalRequest) -> Outcome | None:
        """Is it ours, the recorded one, and does nobody want to keep its node?"""
        machine = await self._describe(action.machine_id)
        if isinstance(machine, TryLater):
            return machine
        if isinstance(machine, Gone):
            return Accepted()
        node = await self._live_node(action.node_name)
        is_of_request = action.request_uid and machine.request_uid == action.request_uid
        is_of_node = node is not None and machine.is_found_by_provider_id and is_node_of(node, machine)
        is_recorded = machine.name == action.node_name or is_of_request or is_of_node
        if machine.cluster != self._cluster or not is_recorded:
            return Refused(f"machine {action.machine_id} is not the one recorded for node {action.node_name}")
        if node is not None and is_kept_by_wish(node, removal.spec.reason) and not is_irrevocable(removal):
            return Conflict(f"node {node.name} must not be disrupted")
        return None

    async def _is_gone_or_ready(self, name: str) -> bool:
        node = await self._live_node(name)
        return node is None or node.is_ready

    async def _live_node(self, name: str) -> Node | None:
        try:
            return self._observer.codec.decode_node(await self._client.get(NODES, name))
        except NotFound:
            return None

    async def _find(self, name: str) -> Machine | Gone | TryLater:
        try:
            return await self._provider.find(name)
        except ProviderError as error:
            return TryLater(str(error), _CLOSED_SECONDS)

    async def _describe(self, machine_id: str) -> Machine | Gone | TryLater:
        try:
            return await self._provider.describe(machine_id)
        except ProviderError as error:
            return TryLater(str(error), _CLOSED_SECONDS)

    def _why_not_leader(self) -> Outcome | None:
        return None if self.fence.holds() else TryLater("leadership is not certain", 1.0)


async def _answered(question: Awaitable[Outcome | None]) -> Outcome | None:
    """What the API server does not let us read says nothing about the machine: the gate stays closed, and is asked
    again.
    """
    try:
        return await question
    except ApiRefused as error:
        return TryLater(str(error), _CLOSED_SECONDS)


def _why_paused(pool: str, live: Any) -> Outcome | None:
    """A pause holds from the moment it is written, not from when the watch brings it."""
    is_paused = live is not None and (live["metadata"].get("annotations") or {}).get(PAUSED) == "true"
    return TryLater(f"growth is paused for pool {pool}", _CLOSED_SECONDS) if is_paused else None


def _ordered_machine(name: str, spec: NodeRequestSpec) -> Machine:
    return Machine("", name, spec.target_offering, spec.location, labels=Labels({POOL_LABEL: spec.pool}))
