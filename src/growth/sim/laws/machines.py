"""Are machines bought and given back only as they may be? The laws on servers. Rows of `sim/laws`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from msgspec import to_builtins

from growth.model.instant import parse_instant
from growth.model.node import POOL_LABEL
from growth.model.nodepool import RELEASE_BRAKE
from growth.model.offering import REQUEST_UID_LABEL
from growth.model.pod import Pod
from growth.model.quantity import parse_quantity
from growth.model.resources import CPU, MEMORY, parse_amount, sum_resources
from growth.plan.world.limits import RENEWAL
from growth.providers.simulated import Server
from growth.sim.apiserver.kinds import Json
from growth.sim.clock import START_OF_TIME
from growth.sim.laws.witness import REMOVAL, REQUEST, Complaint, Witness, planned_pods

LIVE_SECONDS: Final = 150.0  # a live read, with everything that may hang between it and the call
CALL_SECONDS: Final = 60.0  # a call at the provider, with the requests before it, takes no longer
PAUSE_SECONDS: Final = 200.0  # so long at least nothing is bought after three machines in vain were noticed
TRIAL_SECONDS: Final = 330.0  # so long a node that is Ready may stand without its pods before it counts as in vain
ARRIVAL_SECONDS: Final = 10.0  # a pod bound so shortly before the call cannot be seen in time
UNREACHABLE_SECONDS: Final = 300.0
DAY_SECONDS: Final = 86_400.0
MOST_IN_VAIN: Final = 20
BRAKED_AGAIN_SECONDS: Final = 600.0
BRAKED_SECONDS: Final = 60.0  # so long the brake holds before growth must have seen it
JUDGED_BY: Final = ("pods", "nodes", "nodepools", "noderequests", "noderemovalrequests")
OLD_NEWS_SECONDS: Final = 240.0  # 150 s, and what a call may take once it was decided
GLANCE_SECONDS: Final = 1.0
RECORDS: Final = "apis/growth.dev/v1alpha1"


# ----------------------------------------------------------------------------- a server was created


def within_limits(witness: Witness, server: Server) -> Complaint:
    """S1: machines at the provider with our cluster label ≤ pool max and limits, by provider truth; of nodes one more
    while one is being renewed.
    """
    name = server.template.labels.get(POOL_LABEL, "")
    pool = witness.pools.get(name)
    if pool is None:
        return f"{server.name} was bought for pool {name!r}, which never existed"
    servers, spec, surge = witness.servers_of(name), pool["spec"], _surge(witness, name)
    for choice in spec["serverTypes"]:
        count = sum(one.server_type.lower() == choice["name"].lower() for one in servers)
        if choice.get("max") is not None and count > choice["max"] + surge:
            return f"pool {name} has {count} machines of {choice['name']}, max is {choice['max']}"
    over = _why_over(witness, servers, spec.get("limits") or {}, surge)
    return f"pool {name} has {over}" if over else None


def _why_over(witness: Witness, servers: list[Server], limits: Json, surge: int) -> str:
    amounts = sum_resources([one.allocatable for one in servers])
    price = sum(witness.cluster.shop.price_of(one.server_id) for one in servers)
    found = {"nodes": len(servers), "cpu": amounts[CPU], "memory": amounts[MEMORY], "pricePerHour": price}
    for key, text in limits.items():
        limit = float(parse_amount(key, text)) if key in ("cpu", "memory") else float(parse_quantity(str(text)))
        if found[key] > limit + (surge if key == "nodes" else 0) + 1e-9:
            return f"{key} {found[key]}, limit is {text}"
    return ""


def _surge(witness: Witness, pool: str) -> int:
    """One, while the machine that renews a node and that node are both there."""
    renewals = (
        request["spec"]
        for request in witness.requests.values()
        if request["spec"].get("pool") == pool and request["spec"].get("reason") == RENEWAL
    )
    return int(any(witness.node(name) is not None for spec in renewals for name in spec.get("replaces") or ()))


def within_limits_of_all(witness: Witness, server: Server) -> Complaint:
    """S1: machines of all pools together ≤ the limits of the settings, by provider truth; of nodes one more while one
    is being renewed.
    """
    surge = max((_surge(witness, pool) for pool in witness.pools), default=0)
    limits = {key: text for key, text in to_builtins(witness.settings.limits).items() if text is not None}
    over = _why_over(witness, witness.our_servers(), limits, surge)
    return f"with {server.name} all pools have {over}" if over else None


def few_in_vain(witness: Witness, server: Server) -> Complaint:
    """Never more than 20 machines in vain for one pool in 24 hours, however many pods, types and owners there are, and
    however often users change the pool; what was under way when the third failure became known is excepted, and what a
    user called off.
    """
    pool, since = server.template.labels.get(POOL_LABEL, ""), witness.now - DAY_SECONDS
    touched = witness.lately.touched_at.get(pool, [])
    in_vain = [
        (known_at, witness.bought_at[name])
        for name, known_at in witness.in_vain_at.items()
        if witness.requests.get(name, {"spec": {}})["spec"].get("pool") == pool and name not in witness.erased
        if not any(is_end and witness.bought_at[name] < at < known_at for at, is_end in touched)
    ]
    if len(in_vain) < 3:
        return None
    third_known_at = sorted(known_at for known_at, _ in in_vain)[2]
    counted = sum(bought_at > max(since, third_known_at) for _, bought_at in in_vain)
    wrong = f"{server.name} is bought for pool {pool}, after {counted} machines in vain within a day"
    return wrong if counted >= MOST_IN_VAIN else None


def few_while_braked(witness: Witness, server: Server) -> Complaint:
    """While the brake holds, machines are ordered for waiting pods only, and no more than a quarter of the pool, or
    three, within ten minutes; what was asked for before is excepted. A node counts also when its machine has vanished.
    """
    pool, request = server.template.labels.get(POOL_LABEL, ""), witness.requests.get(server.name)
    since = max(witness.braked_since.get(pool, -1.0), witness.braked_since.get("", -1.0))
    annotations = witness.pools.get(pool, {"metadata": {}})["metadata"].get("annotations") or {}
    if since < 0.0 or request is None or RELEASE_BRAKE in annotations:
        return None
    if parse_instant(request["metadata"]["creationTimestamp"]) - START_OF_TIME < since + BRAKED_SECONDS:
        return None
    reason, late = (
        request["spec"].get("reason", "Demand"),
        max(since + BRAKED_SECONDS, witness.now - BRAKED_AGAIN_SECONDS),
    )
    lately = [
        name
        for name, at in witness.bought_at.items()
        if at >= late and witness.requests.get(name, {"spec": {}})["spec"].get("pool") == pool and name != server.name
    ]
    most = max(3, max(len(witness.servers_of(pool)), witness.most_nodes(pool, 0.0)) // 4 + 1)
    wrong = f"{server.name} is ordered for {reason} while the brake of pool {pool} or of the cluster holds"
    return f"{wrong}, after {len(lately)} others" if reason != "Demand" or len(lately) >= most else None


def recorded_when_it_comes(witness: Witness, server: Server) -> Complaint:
    """A machine comes while its NodeRequest or its NodeRemovalRequest is there, however late it comes; one whose
    record a user erased is excepted.
    """
    store = witness.cluster.store
    is_recorded = any(store.get(kind, server.name) for kind in (REQUEST, REMOVAL))
    last = witness.requests.get(server.name, {"metadata": {}})["metadata"]
    was_let_go = "deletionTimestamp" in last  # and not erased at once, with its finalizers
    return None if is_recorded or not was_let_go else f"machine {server.name} comes, and its record is gone"


def on_fresh_caches(witness: Witness, server: Server) -> Complaint:
    """S8: nothing is bought or deleted while growth has heard nothing of nodes, pods or its own objects for long."""
    old = [
        f"{plural} {witness.now - heard_at:.0f} s ago"
        for plural, heard_at in witness.heard_at.items()
        if plural in JUDGED_BY and witness.now - heard_at > OLD_NEWS_SECONDS
    ]
    return f"{server.name}: growth last heard of {', '.join(old)}" if old else None


def one_machine_for_each_request(witness: Witness, server: Server) -> Complaint:
    """S2: one live machine for each NodeRequest UID."""
    uid = server.labels.get(REQUEST_UID_LABEL, "")
    twins = [one.name for one in witness.our_servers() if one.labels.get(REQUEST_UID_LABEL, "") == uid]
    return f"request {uid!r} has machines {', '.join(twins)}" if not uid or len(twins) > 1 else None


def no_runaway(witness: Witness, server: Server) -> Complaint:
    """S4: after 3 machines of an offering became Ready on which no pod of a class could be bound, nothing is bought for
    it for a while.
    """
    request = witness.requests.get(server.name)
    if request is None:
        return None
    offering, created = request["spec"]["targetOffering"], request["metadata"]["creationTimestamp"]
    for owner in {witness.owner_of[key] for key in planned_pods(request) if key in witness.owner_of}:
        wasted = [
            name
            for name in _wasted(witness, offering, owner)
            if witness.requests[name]["metadata"]["creationTimestamp"] <= created
        ]
        if len(wasted) < 3:
            continue
        known_at = sorted(witness.served_since[name] for name in wasted)[2] + TRIAL_SECONDS
        if known_at < parse_instant(created) - START_OF_TIME < known_at + PAUSE_SECONDS:
            return f"{server.name} is another {offering} for pods that could not be bound on {', '.join(wasted)}"
    return None


def _wasted(witness: Witness, offering: str, owner: str) -> Iterator[str]:
    """Machines of the offering, Ready for a minute, bought for pods of this owner that still wait, that never got one;
    their records were left alone.
    """
    for name, request in witness.requests.items():
        is_on_trial = witness.now - witness.served_since.get(name, witness.now) <= TRIAL_SECONDS
        if request["spec"]["targetOffering"] != offering or name in witness.erased or is_on_trial:
            continue
        waiting = [pod for key in planned_pods(request) if (pod := witness.pods.get(key)) and not pod.node_name]
        is_for_owner = any(witness.owner_of[pod.namespace, pod.name] == owner for pod in waiting)
        if is_for_owner and owner not in witness.served.get(name, {}):
            yield name


def live_before_launch(witness: Witness, server: Server) -> Complaint:
    """S6: no irreversible call on cached data only: the request was read live just before, after its last change."""
    asked_at = witness.sent_at.get(f"create {server.name}", witness.now)
    was_read = _was_read(witness, f"{RECORDS}/noderequests/{server.name}", asked_at)
    return None if was_read else f"machine {server.name} is bought without a live look at its request"


def _was_read(witness: Witness, path: str, asked_at: float) -> bool:
    """Shortly before the call, and after every change that is older than a call may take."""
    read_at = witness.live_reads.get(path, -LIVE_SECONDS - 1)
    is_outdated = any(read_at < at < asked_at - CALL_SECONDS for at in witness.lately.written_at.get(path, ()))
    return witness.now - read_at <= LIVE_SECONDS and not is_outdated


def not_while_paused(witness: Witness, server: Server) -> Complaint:
    """A paused pool neither buys nor gives back; calls that were on their way are excepted."""
    name = server.template.labels.get(POOL_LABEL, "")
    seconds = witness.now - witness.paused_since.get(name, witness.now)
    return None if seconds < CALL_SECONDS else f"{server.name}: pool {name} is paused since {seconds:.0f} s"


# ------------------------------------------------------------------ a server is about to be deleted


def nobody_is_killed(witness: Witness, server: Server) -> Complaint:
    """S3: no machine is deleted while a working pod that growth did not evict is bound to its node. What came back by
    tolerating the mark, and what came when the call had left, is excepted.
    """
    node_name = witness.cluster.kubelets.node_of(server)
    silent_since = witness.cluster.kubelets.died_at.get(node_name)
    is_unreachable = silent_since is not None and witness.cluster.runtime.now() - silent_since > UNREACHABLE_SECONDS
    for (namespace, name), pod in witness.bound.get(node_name, {}).items():
        has_just_come = witness.bound_at[pod.uid] > _seen_until(witness, server, pod)
        is_lost = pod.deleted_at is not None and is_unreachable
        is_excused = pod.uid in witness.granted or has_just_come or is_lost or witness.has_returned(pod)
        if pod.counts_as_work and not is_excused:
            return f"machine {server.name} is deleted under pod {namespace}/{name}"
    return None


def _seen_until(witness: Witness, server: Server, pod: Pod) -> float:
    """Whoever was bound before this moment could be seen."""
    sent_at = witness.sent_at.get(f"delete {server.server_id}")
    if sent_at is None:
        return witness.now - ARRIVAL_SECONDS
    return sent_at - (GLANCE_SECONDS if witness.tolerates_mark(pod) else 0.0)


def not_while_braked(witness: Witness, server: Server) -> Complaint:
    """S8: while many nodes of a pool or of the cluster are NotReady, no machine goes whose node is NotReady or has
    pods; one that is empty and Ready may, and one that the provider says is off, or that never served anybody.
    """
    pool, name = server.template.labels.get(POOL_LABEL, ""), server.name
    seconds = max(witness.now - witness.braked_since.get(each, witness.now) for each in (pool, ""))
    annotations = witness.pools.get(pool, {"metadata": {}})["metadata"].get("annotations") or {}
    if seconds < BRAKED_SECONDS or RELEASE_BRAKE in annotations or server.status != "running":
        return None
    has_pods = any(pod.counts_as_work and not witness.has_returned(pod) for pod in witness.bound.get(name, {}).values())
    if name not in witness.readiness or (name not in witness.served_since and not has_pods):
        return None
    wrong = f"{name} is deleted though the brake of pool {pool} or of the cluster holds since {seconds:.0f} s"
    return wrong if has_pods or not witness.readiness[name] else None


def protected_nodes_stay(witness: Witness, server: Server) -> Complaint:
    """A node that must not be disturbed keeps its machine while it is Ready; one that never served is no node yet."""
    seconds = witness.now - witness.protected_since.get(server.name, witness.now)
    is_ready = witness.readiness.get(server.name, False) and server.name in witness.served_since
    is_kept = seconds > CALL_SECONDS and is_ready
    return f"machine {server.name} is deleted, its node is protected since {seconds:.0f} s" if is_kept else None


def live_before_delete(witness: Witness, server: Server) -> Complaint:
    """S6: no irreversible call on cached data only: the node's pods and the removal were read live just before, and
    the removal since it last changed.
    """
    asked_at = witness.sent_at.get(f"delete {server.server_id}", witness.now)
    if not _was_read(witness, f"api/v1/pods?spec.nodeName={server.name}", asked_at):
        return f"machine {server.name} is deleted without a live look at its node's pods"
    if not _was_read(witness, f"{RECORDS}/noderemovalrequests/{server.name}", asked_at):
        return f"machine {server.name} is deleted without a live look at its removal"
    return None


def only_ours(witness: Witness, server: Server) -> Complaint:
    """S7: a delete names a machine of ours, recorded by its id. One whose Node a user deleted is left alone, unless its
    removal was under way: whoever deletes a Node that is going takes nothing back.
    """
    if server not in witness.our_servers():
        return f"machine {server.name} ({server.server_id}) is not ours: {server.labels}"
    removal, deleted_at = witness.removal_of(server), witness.abandoned.get(server.name)
    asked_at = math.inf if removal is None else parse_instant(removal["metadata"]["creationTimestamp"]) - START_OF_TIME
    if deleted_at is not None and asked_at > deleted_at:
        return f"machine {server.name} is deleted, though a user deleted its Node and nobody asked for this"
    return None


def removal_is_written_first(witness: Witness, server: Server) -> Complaint:
    """S14: a removal has an open NodeRemovalRequest for the machine, in Deprovisioning before the provider is asked;
    the provider may do what it was asked for when the record says already that it could not be done.
    """
    removal = witness.removal_of(server)
    if removal is None:
        return f"machine {server.name} is deleted without a NodeRemovalRequest"
    phase = (removal.get("status") or {}).get("phase")
    asked_at = witness.sent_at.get(f"delete {server.server_id}", witness.now)
    written = witness.lately.written_at.get(f"{RECORDS}/noderemovalrequests/{server.name}", ())
    is_late = phase in ("CouldNotRemove", "RemovalFailed") and any(asked_at < at for at in written)
    wrong = f"machine {server.name} is deleted while its NodeRemovalRequest is {phase}"
    return None if phase == "Deprovisioning" or is_late else wrong
