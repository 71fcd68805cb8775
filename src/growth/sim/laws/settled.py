"""What must be true once faults have stopped and time has passed? The liveness laws, asked of the whole embedded
cluster at one moment.

Each function answers with everything that is not as it should be; all empty means settled. `sim/stories/simulation`
asks again and again until they are, and complains if they are not within fifteen virtual minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from growth.controllers.growth import Growth
from growth.model.api import FINALIZER
from growth.model.node import POOL_LABEL, SCALE_DOWN_AT, SCALE_DOWN_TAINT, STARTUP_TAINT, Node
from growth.sim.apiserver.kinds import BY_NAME, NODE, Json
from growth.sim.laws.buffers import free_on, has_buffers, missing_chunks
from growth.sim.laws.warm_pools import warm_pools
from growth.sim.laws.witness import POOL, REMOVAL, REQUEST, Witness

EVENT: Final = BY_NAME["Event"]
OLDEST_CACHE_SECONDS: Final = 150.0


def pods_without_a_place(witness: Witness, expected: Mapping[str, int]) -> Iterator[str]:
    """Every pod that a pool can host is bound, or its reason is written. `expected`: how many pods of an app can be, if
    not all.

    Where a pool's limits say how many, each node that is none of theirs costs a place; a deleted pool waits for a
    machine that could not be removed."""
    stuck = _stuck_pools(witness)
    by_app: dict[str, list[tuple[str, str, bool]]] = {}
    for key, pod in witness.pods.items():
        if not pod.is_finished and pod.deleted_at is None and not pod.is_daemon:
            by_app.setdefault(pod.shape.labels.get("app", pod.name), []).append((*key, bool(pod.node_name)))
    told = {
        (event["regarding"].get("namespace", ""), event["regarding"].get("name"))
        for event in witness.cluster.store.read_all(EVENT)
    }
    for app, pods in by_app.items():
        bound = sum(is_bound for _, _, is_bound in pods)
        hosted = [key for *key, _ in pods if _pool_of(witness, *key) not in stuck]
        wanted = min(expected[app] - _lost_places(witness, app), len(pods)) if app in expected else len(hosted)
        if bound < wanted:
            waiting = [name for _, name, is_bound in pods if not is_bound]
            yield f"{bound} of {len(pods)} pods of {app} are bound, {wanted} could be; waiting: {', '.join(waiting[:3])}"
        for namespace, name, is_bound in pods:
            if not is_bound and (namespace, name) not in told:
                yield f"pod {namespace}/{name} waits and nobody says why"


def _lost_places(witness: Witness, app: str) -> int:
    """Nodes that use up the limits of an app's pool, each for one of its pods, and hold none of them.

    A machine could not be removed; or pods that may run anywhere stand in the way: the scheduler put them there when a
    user had deleted a pod of the app, and growth moves nobody in a pool that gives back empty nodes only."""
    shape = next(pod.shape for pod in witness.pods.values() if pod.shape.labels.get("app") == app)
    pool, needs = shape.node_selector[POOL_LABEL], shape.requests
    failed = [name for name, its_pool in _failed_removals(witness).items() if its_pool == pool]
    names = [node["metadata"]["name"] for node in witness.cluster.store.read_all(NODE)]
    nodes = [
        node for name in names if name not in failed and (node := witness.node(name)) is not None and node.pool == pool
    ]
    return len(failed) + sum(
        _is_taken(witness, node, app) and not needs.fits_in(free_on(witness, node)) for node in nodes
    )


def _is_taken(witness: Witness, node: Node, app: str) -> bool:
    """By pods of others, and none of the app."""
    apps = {pod.shape.labels.get("app") for pod in witness.bound.get(node.name, {}).values() if pod.counts_as_work}
    return bool(apps) and app not in apps


def _failed_removals(witness: Witness) -> dict[str, str]:
    """Names of those that a person must look at, and their pools."""
    removals = witness.cluster.store.read_all(REMOVAL)
    return {
        one["metadata"]["name"]: one["spec"]["pool"]
        for one in removals
        if (one.get("status") or {}).get("phase") == "RemovalFailed"
    }


def _stuck_pools(witness: Witness) -> set[str]:
    """Pools that are deleted, and held by a machine that could not be removed."""
    going = {
        pool["metadata"]["name"]
        for pool in witness.cluster.store.read_all(POOL)
        if pool["metadata"].get("deletionTimestamp")
    }
    return going & set(_failed_removals(witness).values())


def _pool_of(witness: Witness, namespace: str, name: str) -> str:
    return witness.pods[namespace, name].shape.node_selector.get(POOL_LABEL, "")


def machines_without_a_record(witness: Witness) -> Iterator[str]:
    """No machine without a NodeRequest, Node or NodeRemovalRequest."""
    store = witness.cluster.store
    for server in witness.our_servers():
        if server.name not in witness.abandoned and not any(
            store.get(kind, server.name) for kind in (REQUEST, REMOVAL, NODE)
        ):
            yield f"machine {server.name} ({server.server_id}) belongs to nothing"


def requests_without_a_machine(witness: Witness) -> Iterator[str]:
    """No request without a machine or a terminal reason; none in flight for ever."""
    names = {server.name for server in witness.our_servers()}
    for request in witness.cluster.store.read_all(REQUEST):
        status = request.get("status") or {}
        phase = status.get("phase", "Pending")
        if phase in ("Pending", "Provisioning") or (phase == "Deprovisioning" and not status.get("expiresAt")):
            where = "" if request["metadata"]["name"] in names else ", without a machine"
            yield f"NodeRequest {request['metadata']['name']} is still {phase}{where}"


def traces_left_behind(witness: Witness) -> Iterator[str]:
    """No taint, annotation or finalizer of ours is left behind, RemovalFailed apart."""
    failed, stuck = _failed_removals(witness), _stuck_pools(witness)
    for node in witness.cluster.store.read_all(NODE):
        name = node["metadata"]["name"]
        keys = [
            taint["key"]
            for taint in node["spec"].get("taints") or []
            if taint["key"] in (STARTUP_TAINT.key, SCALE_DOWN_TAINT.key)
        ]
        marks = [*keys, *(key for key in node["metadata"].get("annotations") or {} if key == SCALE_DOWN_AT)]
        if marks and name not in failed:
            yield f"node {name} still carries {', '.join(marks)}"
    for removal in witness.cluster.store.read_all(REMOVAL):
        if removal["metadata"]["name"] not in failed:
            yield f"NodeRemovalRequest {removal['metadata']['name']} is still {(removal.get('status') or {}).get('phase', 'Pending')}"
    for kind in (REQUEST, REMOVAL, POOL):
        for item in witness.cluster.store.read_all(kind):
            is_stuck = kind is POOL and item["metadata"]["name"] in stuck
            if (
                item["metadata"].get("deletionTimestamp")
                and FINALIZER in (item["metadata"].get("finalizers") or [])
                and not is_stuck
            ):
                yield f"{kind.name} {item['metadata']['name']} is deleted and still held by our finalizer"


def empty_nodes(witness: Witness) -> Iterator[str]:
    """Empty nodes go, but for the minimum of each pool and for what buffers need."""
    failed = {one["metadata"]["name"] for one in witness.cluster.store.read_all(REMOVAL)}
    by_pool: dict[str, list[Json]] = {}
    for node in witness.cluster.store.read_all(NODE):
        by_pool.setdefault((node["metadata"].get("labels") or {}).get(POOL_LABEL, ""), []).append(node)
    for name, nodes in by_pool.items():
        pool = witness.cluster.store.read(POOL, name)
        if pool is None:
            continue
        minimum = sum(choice.get("min", 0) for choice in pool["spec"]["serverTypes"])
        idle = [
            node["metadata"]["name"]
            for node in nodes
            if _is_idle(witness, node["metadata"]["name"]) and node["metadata"]["name"] not in failed
        ]
        idle = [
            each for each in idle if not has_buffers(witness, name) or missing_chunks(witness, name, without=each) <= 0
        ]
        if idle and len(nodes) > minimum:
            yield f"pool {name} has {len(nodes)} nodes, {len(idle)} of them empty ({', '.join(idle[:3])}), its minimum is {minimum}"


def _is_idle(witness: Witness, node_name: str) -> bool:
    return not any(pod.counts_as_work for pod in witness.bound.get(node_name, {}).values())


def declared_room(witness: Witness) -> Iterator[str]:
    """Room that a buffer declares is free on nodes that serve."""
    for pool in witness.cluster.store.read_all(POOL):
        missing = missing_chunks(witness, pool["metadata"]["name"])
        if missing > 0:
            yield f"pool {pool['metadata']['name']} has no free room for {missing} chunks of its buffers"


def missing_minimum(witness: Witness) -> Iterator[str]:
    """Pre-warmed nodes exist without load."""
    for pool in witness.cluster.store.read_all(POOL):
        name = pool["metadata"]["name"]
        for choice in pool["spec"]["serverTypes"]:
            count = sum(server.server_type.lower() == choice["name"].lower() for server in witness.servers_of(name))
            if count < choice.get("min", 0):
                yield f"pool {name} has {count} of {choice['name']}, its minimum is {choice['min']}"


def old_caches(growth: Growth) -> Iterator[str]:
    """No cache is older than 150 s, or not ready."""
    if growth.observer is None or not growth.is_ready:
        yield "growth is not ready"
    elif stale := growth.observer.why_stale(OLDEST_CACHE_SECONDS):
        yield stale


LOOKS: Final[tuple[Callable[[Witness], Iterator[str]], ...]] = (
    machines_without_a_record,
    requests_without_a_machine,
    traces_left_behind,
    empty_nodes,
    missing_minimum,
    declared_room,
    warm_pools,
)


def why_not_settled(witness: Witness, growth: Growth, expected: Mapping[str, int]) -> list[tuple[str, str]]:
    """What is not yet as it should be: (law, complaint)."""
    found = [(look.__name__.replace("_", " "), complaint) for look in LOOKS for complaint in look(witness)]
    found += [("pods without a place", complaint) for complaint in pods_without_a_place(witness, expected)]
    return [*found, *(("old caches", complaint) for complaint in old_caches(growth))]
