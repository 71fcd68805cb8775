"""What must be true once faults have stopped and time has passed? The liveness laws, asked of the whole embedded
cluster at one moment.

Each function answers with everything that is not as it should be; all empty means settled. `sim/stories/simulation`
asks again and again until they are, and complains if they are not within fifteen virtual minutes.

Those on CapacityBuffers are in `sim/laws/room`, those on warm pools in `sim/laws/warm_pools`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from growth.controllers.growth import Growth
from growth.model.api import FINALIZER
from growth.model.node import POOL_LABEL, SCALE_DOWN_AT, SCALE_DOWN_TAINT, STARTUP_TAINT, Node
from growth.model.nodepool import DEFAULT_POOL
from growth.model.pod import Pod, PodShape
from growth.model.resources import PODS, Resources, sum_resources
from growth.plan.nodes_down.attempts import IRREVOCABLE
from growth.sim.apiserver.kinds import BY_NAME, NODE, Json
from growth.sim.apiserver.store import Key
from growth.sim.laws.machines import DAY_SECONDS, MOST_IN_VAIN
from growth.sim.laws.memory import must_stay
from growth.sim.laws.room import declared, declared_room, missing_chunks, pods_behind_buffers
from growth.sim.laws.warm_pools import warm_pools
from growth.sim.laws.witness import POOL, REMOVAL, REQUEST, Witness

EVENT: Final = BY_NAME["Event"]
OLDEST_CACHE_SECONDS: Final = 150.0
_ONE_POD: Final = Resources({PODS: 1})


def why_not_settled(witness: Witness, growth: Growth, expected: Mapping[str, int]) -> list[tuple[str, str]]:
    """What is not yet as it should be: (law, complaint)."""
    found = [(law.__name__.replace("_", " "), complaint) for law in _LAWS for complaint in law(witness)]
    found += [("pods without a place", complaint) for complaint in pods_without_a_place(witness, expected)]
    return [*found, *(("old caches", complaint) for complaint in old_caches(growth))]


def pods_without_a_place(witness: Witness, expected: Mapping[str, int]) -> Iterator[str]:
    """Every pod that a pool can host is bound, or its reason is written. `expected`: how many pods of an app can be, if
    not all; of several apps that share a limit ("one+other") together.

    Where a pool's limits say how many, each node that is none of theirs costs a place; a deleted pool waits for a
    machine that could not be removed, one that had many machines in vain for its time of the day, and one that has all
    the machines it may have until those who run there end."""
    stuck, by_app = _stuck_pools(witness) | _spent_pools(witness), dict[str, dict[Key, Pod]]()
    shared = {app: group for group in expected for app in group.split("+")}
    for key, pod in witness.pods.items():
        if not pod.is_finished and pod.deleted_at is None and not pod.is_daemon:
            app = pod.shape.labels.get("app", pod.name)
            by_app.setdefault(shared.get(app, app), {})[key] = pod
    subjects = [event["regarding"] for event in witness.cluster.store.read_all(EVENT)]
    explained = {(subject.get("namespace", ""), subject.get("name")) for subject in subjects}
    for app, pods in by_app.items():
        waiting = [key for key, pod in pods.items() if not pod.node_name]
        hosted = sum(_can_be_hosted(witness, pod, stuck) for pod in pods.values())
        first = next(iter(pods.values())).shape
        wanted = min(expected[app] - _lost_places(witness, first), len(pods)) if app in expected else hosted
        if (bound := len(pods) - len(waiting)) < wanted:
            names = ", ".join(name for _, name in waiting[:3])
            yield f"{bound} of {len(pods)} pods of {app} are bound, {wanted} could be; waiting: {names}"
        for namespace, name in waiting:
            if (namespace, name) not in explained:
                yield f"pod {namespace}/{name} waits and no event says why"


def _can_be_hosted(witness: Witness, pod: Pod, stuck: set[str]) -> bool:
    pool = pod.shape.node_selector.get(POOL_LABEL, DEFAULT_POOL)
    return pool not in stuck and (bool(pod.node_name) or not _is_full_for(witness, pool, pod.shape.requests))


def _limits(choices: Iterable[Json]) -> dict[str, float]:
    return {each["name"].lower(): each.get("max", math.inf) for each in choices}


def _is_full_for(witness: Witness, pool: str, requests: Resources) -> bool:
    """It has as many machines as it may have of what is large enough, and none of its nodes has room: whoever came
    first stays there.
    """
    stored = witness.cluster.store.read(POOL, pool)
    types = Counter(server.server_type.lower() for server in witness.servers_of(pool))
    choices = [] if stored is None else stored["spec"]["serverTypes"]
    large = {each.server_type.lower() for each in witness.sold if requests.fits_in(each.allocatable)}
    if not choices or any(types[name] < most for name, most in _limits(choices).items() if name in large):
        return False
    return not any((requests + _ONE_POD).fits_in(_free_on(witness, node)) for node in _nodes_of(witness, pool))


def _spent_pools(witness: Witness) -> set[str]:
    """Pools with twenty machines in vain within a day: nothing more may be bought for them. With ten or more, what is
    left lasts until the first is a day old: the next is tried in its time, and one is kept for who mends the pool.
    """
    since, requests, found = witness.now - DAY_SECONDS, witness.requests, dict[str, list[float]]()
    for name, at in witness.in_vain_at.items():
        if at > since and name in requests:
            found.setdefault(requests[name]["spec"]["pool"], []).append(at)
    spent = set[str]()
    for pool, times in found.items():
        left, last = MOST_IN_VAIN - 1 - len(times), max(times)
        again_at = last + (min(times) + DAY_SECONDS - last) / left if left > 0 else math.inf
        if len(times) >= MOST_IN_VAIN // 2 and witness.now < again_at:
            spent.add(pool)
    return spent


def _lost_places(witness: Witness, shape: PodShape) -> int:
    """Nodes that use up the limits of an app's pool, each for one of its pods, and hold none of them.

    Either a machine could not be removed, or pods that may run anywhere are in the way: the scheduler put them there
    when a user had deleted a pod of the app, and growth moves no pod in a pool that gives back empty nodes only."""
    app = shape.labels.get("app")
    pool, failed = shape.node_selector.get(POOL_LABEL, ""), _failed_removals(witness)
    lost = sum(its_pool == pool for its_pool in failed.values())
    for node in _nodes_of(witness, pool):
        pods = [pod for pod in witness.bound.get(node.name, {}).values() if pod.counts_as_work]
        is_taken = bool(pods) and all(pod.shape.labels.get("app") != app for pod in pods)
        lost += node.name not in failed and is_taken and not shape.requests.fits_in(_free_on(witness, node))
    return lost


def _failed_removals(witness: Witness) -> dict[str, str]:
    """Nodes that could not be removed, so that a person must look at them, and their pools. Also those whose machine
    may be going already, or that a person asked for, and which wait for a pod that must not be disrupted, and machines
    on which pods work under another name: they say so.
    """
    removals = witness.cluster.store.read_all(REMOVAL)
    failed = [one for one in removals if _is_a_persons(witness, one)]
    return {one["metadata"]["name"]: one["spec"]["pool"] for one in failed}


def _is_a_persons(witness: Witness, removal: Json) -> bool:
    name, status = removal["metadata"]["name"], removal.get("status") or {}
    if status.get("phase") == "RemovalFailed":
        return True
    is_irrevocable = any(each["type"] == IRREVOCABLE for each in status.get("conditions") or ())
    is_asked_for = not removal["spec"].get("machineID")  # which growth always says
    pods = (pod for pod in witness.bound.get(name, {}).values() if must_stay(pod.annotations))
    is_strange = any(
        server.name == name
        and (node := witness.cluster.kubelets.node_of(server)) in witness.cluster.kubelets.strange
        and any(pod.key in status.get("waitingFor", "") for pod in witness.bound.get(node, {}).values())
        for server in witness.our_servers()
    )
    is_told = any(pod.key in status.get("waitingFor", "") for pod in pods)
    return is_strange or ((is_irrevocable or is_asked_for) and is_told)


def _stuck_pools(witness: Witness) -> set[str]:
    """Pools that are deleted, and held by a machine that could not be removed, or lost its label at the provider."""
    metadata = [pool["metadata"] for pool in witness.cluster.store.read_all(POOL)]
    ours = {server.name for server in witness.our_servers()}
    nodes = [node["metadata"] for node in witness.cluster.store.read_all(NODE)]
    unknown = {(each.get("labels") or {}).get(POOL_LABEL, "") for each in nodes if each["name"] not in ours}
    stuck = unknown | {*_failed_removals(witness).values()}
    return {each["name"] for each in metadata if each.get("deletionTimestamp")} & stuck


def machines_without_a_record(witness: Witness) -> Iterator[str]:
    """No machine without a NodeRequest, Node or NodeRemovalRequest. One whose record a user erased is left to a person,
    and told of, by a growth that did not order it in its present term: nobody but who did can know that it never had a
    node.
    """
    store = witness.cluster.store
    told = [event["note"] for event in store.read_all(EVENT) if event.get("reason") == "OrphanedMachine"]
    for server in witness.our_servers():
        is_recorded = any(store.get(kind, server.name) for kind in (REQUEST, REMOVAL, NODE))
        is_told = any(f"({server.server_id})" in note for note in told)
        is_left = server.name in witness.erased and is_told and _is_forgotten(witness, f"create {server.name}")
        if server.name not in witness.abandoned and not is_left and not is_recorded:
            yield f"machine {server.name} ({server.server_id}) belongs to nothing"


def _is_forgotten(witness: Witness, order: str) -> bool:
    """A growth that leads again begins anew, and remembers nothing of its earlier terms; so does one whose clock went
    back.
    """
    return witness.sent_at.get(order, -math.inf) < witness.remembers[0]


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
    """No taint, annotation or finalizer of ours is left behind, but by RemovalFailed and on nodes that are ours no
    more.
    """
    store, failed, stuck = witness.cluster.store, _failed_removals(witness), _stuck_pools(witness)
    lost = {server.name for server in witness.cluster.shop.servers.values()} - {
        server.name for server in witness.our_servers()
    }
    for node in store.read_all(NODE):
        keys = [
            *(taint["key"] for taint in node["spec"].get("taints") or []),
            *(node["metadata"].get("annotations") or {}),
        ]
        marks = [key for key in keys if key in (STARTUP_TAINT.key, SCALE_DOWN_TAINT.key, SCALE_DOWN_AT)]
        if marks and node["metadata"]["name"] not in {*failed, *lost, *witness.cluster.kubelets.strange}:
            yield f"node {node['metadata']['name']} still carries {', '.join(marks)}"
    for removal in store.read_all(REMOVAL):
        if removal["metadata"]["name"] not in failed:
            status = removal.get("status") or {}
            phase, waits_for = status.get("phase", "Pending"), status.get("waitingFor", "nothing")
            yield f"NodeRemovalRequest {removal['metadata']['name']} is still {phase}, and waits for {waits_for}"
    for kind in (REQUEST, REMOVAL, POOL):
        for metadata in (item["metadata"] for item in store.read_all(kind)):
            is_held = metadata.get("deletionTimestamp") and FINALIZER in (metadata.get("finalizers") or [])
            if is_held and not (kind is POOL and metadata["name"] in stuck):
                yield f"{kind.name} {metadata['name']} is deleted and still held by our finalizer"


def empty_nodes(witness: Witness) -> Iterator[str]:
    """Empty nodes go, but for the minimum of each pool, for what buffers need, and where somebody forbids it."""
    going = {one["metadata"]["name"] for one in witness.cluster.store.read_all(REMOVAL)}
    ours, by_pool = {server.name for server in witness.our_servers()}, dict[str, list[str]]()
    found = declared(witness)
    for metadata in (node["metadata"] for node in witness.cluster.store.read_all(NODE)):
        pool = (metadata.get("labels") or {}).get(POOL_LABEL, "")
        if metadata["name"] in ours and not must_stay(metadata.get("annotations")):
            by_pool.setdefault(pool, []).append(metadata["name"])
    for pool, nodes in by_pool.items():
        stored = witness.cluster.store.read(POOL, pool)
        if stored is None:
            continue
        minimum = sum(choice.get("min", 0) for choice in stored["spec"]["serverTypes"])
        buffers = [each for each in found if each.pool == pool]
        idle = [
            node
            for node in nodes
            if node not in going
            and not any(pod.counts_as_work for pod in witness.bound.get(node, {}).values())
            and missing_chunks(witness, buffers, without=node) <= 0
        ]
        if idle and len(nodes) > minimum:
            empty = f"{len(idle)} of them empty ({', '.join(idle[:3])})"
            yield f"pool {pool} has {len(nodes)} nodes, {empty}, its minimum is {minimum}"


def missing_minimum(witness: Witness) -> Iterator[str]:
    """Pre-warmed nodes exist without load, but for a pool whose brake holds: what stopped reporting may be back."""
    for pool in witness.cluster.store.read_all(POOL):
        name = pool["metadata"]["name"]
        if {"", name} & witness.braked_since.keys():
            continue
        for choice in pool["spec"]["serverTypes"]:
            count = sum(server.server_type.lower() == choice["name"].lower() for server in witness.servers_of(name))
            if count < choice.get("min", 0):
                yield f"pool {name} has {count} of {choice['name']}, its minimum is {choice['min']}"


def _nodes_of(witness: Witness, pool: str) -> list[Node]:
    nodes = [witness.node(stored.name) for stored in witness.cluster.store.all(NODE)]
    return [node for node in nodes if node is not None and node.labels.get(POOL_LABEL) == pool]


def _free_on(witness: Witness, node: Node) -> Resources:
    """What the pods bound to a node leave of it."""
    pods = [pod for pod in witness.bound.get(node.name, {}).values() if not pod.is_finished]
    return node.allocatable - sum_resources([pod.shape.requests + _ONE_POD for pod in pods])


def old_caches(growth: Growth) -> Iterator[str]:
    """No cache is older than 150 s, or not ready."""
    if growth.observer is None or not growth.is_filled:
        yield "growth is not ready"
    elif stale := growth.observer.why_stale(OLDEST_CACHE_SECONDS):
        yield stale


_LAWS: Final[tuple[Callable[[Witness], Iterator[str]], ...]] = (
    machines_without_a_record,
    requests_without_a_machine,
    traces_left_behind,
    empty_nodes,
    missing_minimum,
    declared_room,
    pods_behind_buffers,
    warm_pools,
)
_ALL: Final[tuple[Callable[..., Iterator[str]], ...]] = (*_LAWS, pods_without_a_place, old_caches)
SETTLED_LAWS: Final = {law.__name__.replace("_", " "): law for law in _ALL}
