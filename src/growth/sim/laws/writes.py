"""Does growth write only what it may, and end pods only as it may? Rows of `sim/laws`; each function gets the witness
and one write. An eviction that took effect is a write by growth after which a pod ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from growth.model.instant import parse_instant
from growth.model.node import POOL_LABEL, SCALE_DOWN_TAINT, STARTUP_TAINT, Node
from growth.model.pod import Pod
from growth.model.resources import PODS, Resources, sum_resources
from growth.model.settings import Settings
from growth.model.volumes import SELECTED_NODE
from growth.plan.nodes_down.attempts import IRREVOCABLE
from growth.plan.world.machines import DELETED, DRAINING, NOT_READY
from growth.sim.agents.volumes import BIND_COMPLETED, CLAIM, VOLUME
from growth.sim.apiserver.kinds import NODE, POD, Json
from growth.sim.apiserver.store import Write
from growth.sim.clock import START_OF_TIME
from growth.sim.laws.memory import Call, Emptied, must_stay
from growth.sim.laws.warm_pools import WARM_POOLS
from growth.sim.laws.witness import GROWTH, REMOVAL, Complaint, Witness
from growth.solver.rules.taints import tolerates

MEDDLING_SECONDS: Final = 30.0
_REST_SECONDS: Final = 3600.0 - 5.0  # and a moment in which clocks and looks may differ
UNSEEN_SECONDS: Final = 35.0  # between a look and the bind that follows it a request may hang
LOOKED_SECONDS: Final = 2.0  # so long before a bind leaves growth has looked at its node
OWN: Final = ("NodeRequest", "NodeRemovalRequest", "Event", "Lease")
BUDGETED: Final = tuple(reason for reason in DRAINING if reason not in (NOT_READY, DELETED))  # those never served
# A node that is being emptied was chosen so long ago at most, by the nodes that were there then.
CHOSEN_SECONDS: Final = Settings().drain_seconds + 60.0


def only_allowed_writes(witness: Witness, write: Write) -> Complaint:
    """S10: users' specs are never written; only status, our finalizers, taints, labels, annotations, bindings and
    evictions, `/scale` where asked, and of the volumes of growth's own scheduler which node and which claim they are
    for.
    """
    if write.actor != GROWTH or write.kind.name in OWN:
        return None
    if write.kind.name == "PodTemplate":
        owners = write.item["metadata"].get("ownerReferences") or ()
        is_owned = any(owner["kind"] == "CapacityBuffer" for owner in owners)
        return None if is_owned else f"growth wrote PodTemplate {write.key}, which belongs to no buffer"
    why_not_allowed = _WHY_NOT_ALLOWED.get(write.kind.name)
    if why_not_allowed is None or write.before is None:
        return f"growth wrote {write.kind.name} {write.key}"
    return why_not_allowed(witness, write.before.decoded(), write)


def _why_not_pod(_witness: Witness, before: Json, write: Write) -> Complaint:
    kept_by_server = {"resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"}
    spec = _changed(before["spec"], write.item["spec"]) - {"nodeName"}
    metadata = _changed(before["metadata"], write.item["metadata"]) - kept_by_server
    return f"growth changed {sorted(spec | metadata)} of pod {write.key}" if spec or metadata else None


def _why_not_node(witness: Witness, before: Json, write: Write) -> Complaint:
    name, labels = write.key[1], write.item["metadata"].get("labels") or {}
    if write.type == "DELETED":
        if any(server.name == name and server.status == "running" for server in witness.our_servers()):
            return f"growth deleted Node {name} while its machine runs"
        return None if POOL_LABEL in labels or name in witness.requests else f"growth deleted Node {name}"
    spec = _changed(before["spec"], write.item["spec"])
    if spec - {"taints", "unschedulable"}:
        return f"growth changed {sorted(spec)} of node {name}"
    pool = witness.pools.get(labels.get(POOL_LABEL, ""), {}).get("spec") or {}
    if foreign := _foreign_marks(before, write.item, {*(pool.get("labels") or {})}):
        return f"growth changed {', '.join(foreign)} of node {name}"
    own = {taint["key"] for taint in [*(pool.get("taints") or []), *(pool.get("startupTaints") or [])]}
    own |= {STARTUP_TAINT.key, SCALE_DOWN_TAINT.key}
    old, new = _foreign_taints(before, own), _foreign_taints(write.item, own)
    return f"growth changed foreign taints of node {name}: {old} became {new}" if old != new else None


def strangers_are_left_alone(witness: Witness, write: Write) -> Complaint:
    """S7: a Node for which growth never bought a machine is not written, whatever its labels say."""
    if write.kind is not NODE or write.actor != GROWTH:
        return None
    name = write.key[1]
    is_ours = name in witness.bought_at or name in witness.requests
    return None if is_ours else f"growth wrote Node {name}, which it never bought a machine for"


def _foreign_marks(before: Json, after: Json, own: set[str]) -> list[str]:
    """Labels and annotations that changed and are neither growth's nor what its pool and offering put there."""
    found = []
    for part in ("labels", "annotations"):
        changed = _changed(before["metadata"].get(part) or {}, after["metadata"].get(part) or {})
        found += [key for key in changed - own if not key.startswith("growth.dev/") and "kubernetes.io/" not in key]
    return sorted(found)


def _foreign_taints(node: Json, own: set[str]) -> list[tuple[str, str]]:
    taints = node["spec"].get("taints") or []
    return sorted((taint["key"], taint["effect"]) for taint in taints if taint["key"] not in own)


def _why_not_pool(_witness: Witness, before: Json, write: Write) -> Complaint:
    if write.type == "DELETED" and write.item["metadata"].get("deletionTimestamp"):
        return None  # the user deleted it; growth only took its finalizer off
    metadata = _changed(before["metadata"], write.item["metadata"]) - {"resourceVersion", "finalizers"}
    if before["spec"] != write.item["spec"] or metadata:
        return f"growth changed {sorted(metadata) or 'the spec'} of pool {write.key[1]}"
    return None


def _why_not_status(_witness: Witness, before: Json, write: Write) -> Complaint:
    """Of these only the status may change, and the replicas of what has a scale."""
    if write.type != "MODIFIED":
        return f"growth deleted {write.kind.name} {write.key}"
    changed = _changed(before["metadata"], write.item["metadata"]) | _changed(before["spec"], write.item["spec"])
    changed -= {"resourceVersion", *(("generation", "replicas") if write.kind.has_scale else ())}
    return f"growth changed {sorted(changed)} of {write.kind.name} {write.key}" if changed else None


def _why_not_claim(witness: Witness, before: Json, write: Write) -> Complaint:
    """Only the node that a pod of growth's own scheduler has found, on a claim that is promised to none. A pod may be
    gone by then.
    """
    after, changed = write.item["metadata"], _changed(before["spec"], write.item["spec"])
    changed |= _changed(before["metadata"], after) - {"resourceVersion", "annotations"}
    marks = _changed(before["metadata"].get("annotations") or {}, after.get("annotations") or {})
    was_promised = SELECTED_NODE in (before["metadata"].get("annotations") or {})
    if write.type != "MODIFIED" or changed or marks != {SELECTED_NODE} or was_promised:
        return f"growth changed {sorted(changed | marks) or 'the status'} of claim {write.key}"
    users = [pod for pod in witness.pods.values() if "/".join(write.key) in claims_of(pod)]
    is_of_others = all(not witness.settings.scheduler.serves(pod.shape.scheduler_name) for pod in users)
    return f"growth promised claim {write.key} to a node, for pods of others" if users and is_of_others else None


def _why_not_volume(_witness: Witness, before: Json, write: Write) -> Complaint:
    """Only whom it is reserved for, and where it is reserved for nobody else."""
    metadata = _changed(before["metadata"], write.item["metadata"]) - {"resourceVersion", "annotations"}
    changed = metadata | _changed(before["spec"], write.item["spec"])
    held = before["spec"].get("claimRef") or {}
    is_free = write.type == "MODIFIED" and changed == {"claimRef"} and not held.get("uid")
    return None if is_free else f"growth changed {sorted(changed)} of volume {write.key[1]}"


def claims_of(pod: Pod) -> tuple[str, ...]:
    """By namespace and name, those that it has by name or by a template of its own."""
    uses = (each for each in pod.shape.volumes if each.claim)
    return tuple(f"{pod.key}-{one.claim}" if one.is_ephemeral else f"{pod.namespace}/{one.claim}" for one in uses)


def volumes_are_bound_first(witness: Witness, write: Write) -> Complaint:
    """growth binds no pod whose claims are not bound, and none to a node that a volume of it cannot be reached from."""
    if write.kind is not POD or write.type != "MODIFIED" or write.actor != GROWTH or write.before is None:
        return None
    name = write.item["spec"].get("nodeName", "")
    if not name or write.before.decoded()["spec"].get("nodeName"):
        return None
    node = witness.node(name)
    for key in claims_of(witness.pods[write.key]):
        namespace, _, claim_name = key.partition("/")
        claim = witness.cluster.store.read(CLAIM, claim_name, namespace) or {"metadata": {}, "spec": {}}
        volume = witness.cluster.store.read(VOLUME, claim["spec"].get("volumeName", ""))
        if volume is None or BIND_COMPLETED not in (claim["metadata"].get("annotations") or {}):
            return f"growth bound {write.key} to {name} before claim {key} was bound"
        if node is not None and not _is_reached(volume, node):
            return f"growth bound {write.key} to {name}, which does not reach volume {volume['metadata']['name']}"
    return None


def _is_reached(volume: Json, node: Node) -> bool:
    """By labels, as the volumes of the embedded cluster say it."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required") or {}
    terms = [each.get("matchExpressions") or [] for each in required.get("nodeSelectorTerms") or ()]
    return not terms or any(all(node.labels.get(one["key"]) in one["values"] for one in term) for term in terms)


def _changed(before: Json, after: Json) -> set[str]:
    return {key for key in {*before, *after} if before.get(key) != after.get(key)}


_WHY_NOT_ALLOWED: Final[dict[str, Callable[[Witness, Json, Write], Complaint]]] = {
    "Pod": _why_not_pod,
    "Node": _why_not_node,
    "NodePool": _why_not_pool,
    "CapacityBuffer": _why_not_status,
    "PoolAutoscaler": _why_not_status,
    "PersistentVolumeClaim": _why_not_claim,
    "PersistentVolume": _why_not_volume,
    **{name: lambda *_: None for name in WARM_POOLS},  # `only_replicas_within_bounds` looks at these
}


def no_node_is_overcommitted(witness: Witness, write: Write) -> Complaint:
    """No bind, of growth or beside growth, gives a node of ours more than it has. While a user takes our taints off,
    others cannot be helped. growth looks before it binds, and may miss only who came past its taint after that look, or
    that the node went while the bind was on its way; another scheduler that brings a pod past the taint may miss only
    what growth bound since its last news: nobody can bind on a condition, so the kubelet settles it.
    """
    node_name = write.item["spec"].get("nodeName", "") if write.kind is POD and write.type == "MODIFIED" else ""
    is_meddled_with = witness.now - witness.meddled_at.get(node_name, -1e9) < MEDDLING_SECONDS
    if not node_name or (is_meddled_with and write.actor != GROWTH):
        return None
    if write.before is not None and write.before.decoded()["spec"].get("nodeName"):
        return None
    node = witness.node(node_name)
    if node is None:
        is_wrong = write.actor == GROWTH and not _went_meanwhile(witness, node_name, write)
        return f"growth bound {write.key} to {node_name}, which does not exist" if is_wrong else None
    pods = [pod for pod in witness.bound.get(node_name, {}).values() if not pod.is_finished]
    unseen = [pod for pod in pods if _was_unseen(witness, pod, write, is_meddled_with=is_meddled_with)]
    counted = [pod for pod in pods if pod not in unseen or pod.key == "/".join(write.key)]
    used = sum_resources([pod.shape.requests for pod in counted]) + Resources({PODS: len(counted)})
    wrong = f"node {node_name} has {node.allocatable}; {used} after {write.actor} bound {write.key}"
    return None if POOL_LABEL not in node.labels or used.fits_in(node.allocatable) else wrong


def _went_meanwhile(witness: Witness, node_name: str, write: Write) -> bool:
    """Did the node go after growth had looked at it, while the request that binds was under way?"""
    namespace, name = write.key
    sent_at = witness.sent_at.get(f"POST /api/v1/namespaces/{namespace}/pods/{name}/binding", witness.now)
    return witness.lately.nodes_gone_at.get(node_name, -math.inf) > sent_at - LOOKED_SECONDS


def _was_unseen(witness: Witness, pod: Pod, write: Write, *, is_meddled_with: bool) -> bool:
    """Did somebody else bring this pod after growth had looked at the node, or while a user changed that?"""
    bound_at = witness.bound_at[pod.uid]
    if is_meddled_with and witness.now - bound_at < UNSEEN_SECONDS:
        return True
    if write.actor != GROWTH:
        guest, is_news = witness.pods[write.key], witness.now - bound_at <= witness.cluster.scheduler.lag_seconds
        is_open = pod.shape.scheduler_name == witness.settings.scheduler.name
        is_past = is_open or any(tolerates(each, STARTUP_TAINT) for each in guest.shape.tolerations)
        return is_news and is_past and pod.uid in witness.bound_by_growth
    looked_at = witness.live_reads.get(f"api/v1/pods?spec.nodeName={pod.node_name}", -math.inf)
    is_between = witness.now - looked_at < UNSEEN_SECONDS and bound_at > looked_at
    return is_between and pod.uid not in witness.bound_by_growth


# ---------------------------------------------------------------------------------------- evictions


def only_evictions(witness: Witness, write: Write) -> Complaint:
    """S13: pods are ended through the Eviction API, which keeps their budgets, and never by a delete."""
    pod = _ended_by_growth(write)
    if pod is None or pod["metadata"]["uid"] in witness.evicted:
        return None
    return f"growth deleted pod {write.key} without asking for its eviction"


def removal_before_eviction(witness: Witness, write: Write) -> Complaint:
    """S14: pods leave a node only while an open NodeRemovalRequest says why, or because its machine may have been
    deleted already, for a pod of higher priority that is nominated to the node, or, where it is so set, because another
    place costs a pod less whose owner has made none for an hour.
    """
    pod = _ended_by_growth(write)
    if pod is None or _may_be_moved(witness, write, pod):
        return None
    node = str(pod["spec"].get("nodeName", ""))
    removal = witness.cluster.store.read(REMOVAL, node) or {"spec": {}}
    reason, status = str(removal["spec"].get("reason", "")), removal.get("status") or {}
    is_irrevocable = any(each["type"] == IRREVOCABLE for each in status.get("conditions") or ())
    if reason in DRAINING or status.get("phase") == "Deprovisioning" or is_irrevocable:
        return None
    priority = int(pod["spec"].get("priority") or 0)
    if any(each.nominated_node == node and each.shape.priority > priority for each in witness.pods.values()):
        return None
    return f"growth evicted {write.key} from {node}, whose removal says {reason!r}"


def _may_be_moved(witness: Witness, write: Write, pod: Json) -> bool:
    """Nobody is moved to and fro: an owner has its rest after each pod it made."""
    scheduler, owner = witness.settings.scheduler, witness.owner_of.get(write.key, "")
    if not scheduler.improves or not owner or not scheduler.serves(str(pod["spec"].get("schedulerName"))):
        return False
    family = (each for key, each in witness.pods.items() if witness.owner_of.get(key) == owner)
    return all(each.created_at <= witness.cluster.runtime.now() - _REST_SECONDS for each in family)


def protected_pods_stay(witness: Witness, write: Write) -> Complaint:
    """A pod that must not be disrupted is never moved."""
    del witness
    pod = _ended_by_growth(write)
    is_protected = pod is not None and must_stay(pod["metadata"].get("annotations"))
    return f"growth evicted {write.key}, which must not be disrupted" if is_protected else None


def few_evictions_of_one_owner(witness: Witness, write: Write) -> Complaint:
    """In one removal an owner loses no more pods than it had on the node when the drain began, and each that came back,
    or came from elsewhere by tolerating the mark, once more, directly before the machine goes.
    """
    pod = _ended_by_growth(write)
    if pod is None:
        return None
    node, owner = str(pod["spec"].get("nodeName", "")), witness.owner_of[write.key]
    drain, here = witness.drains.get(node), sum(witness.owner_of[key] == owner for key in witness.bound.get(node, {}))
    had = 0 if drain is None else drain.pods.get(owner, 0)
    if drain is None or drain.evicted.get(owner, 0) <= max(1, had + max(had, here)):
        return None
    return (
        f"{write.key} is eviction {drain.evicted[owner]} of its owner, which had {drain.pods.get(owner, 0)} pods there"
    )


def within_disruption_budgets(witness: Witness, write: Write) -> Complaint:
    """S8: nodes of a pool that are emptied, now and within the window of each of its budgets, are no more than it
    allows.
    """
    pod = _ended_by_growth(write)
    emptied = None if pod is None else witness.emptied[str(pod["spec"].get("nodeName", ""))]
    if emptied is None or emptied.reason not in BUDGETED or emptied.pool not in witness.pools:
        return None
    budgets = witness.pools[emptied.pool]["spec"].get("budgets") or ()
    complaints = (_why_too_many(witness, emptied.pool, budget) for budget in budgets if "schedule" not in budget)
    return next(filter(None, complaints), None)


def _why_too_many(witness: Witness, pool: str, budget: Json) -> Complaint:
    store, text = witness.cluster.store, str(budget["nodes"])
    since = witness.now - budget.get("windowSeconds", Settings().disruption_window_seconds)
    emptied = [
        name
        for name, each in witness.emptied.items()
        if each.pool == pool
        and each.reason in BUDGETED
        and (each.at > since or (_is_emptied_still(store.read(REMOVAL, name), each) and store.get(NODE, name)))
    ]
    nodes = witness.most_nodes(pool, CHOSEN_SECONDS)
    most = max(1, nodes * int(text.removesuffix("%")) // 100) if text.endswith("%") else int(text)
    wrong = f"{len(emptied)} nodes of pool {pool} are emptied, {text} may be: {', '.join(emptied)}"
    return wrong if len(emptied) > most else None


def _is_emptied_still(removal: Json | None, emptied: Emptied) -> bool:
    """For this removal, that is: a node whose removal failed has been empty since, and disturbs nobody."""
    return removal is not None and parse_instant(removal["metadata"]["creationTimestamp"]) - START_OF_TIME <= emptied.at


def _ended_by_growth(write: Write) -> Json | None:
    """A pod that was to live on before this write."""
    if write.kind is not POD or write.actor != GROWTH or write.before is None:
        return None
    before = write.before.decoded()
    ends = write.type == "DELETED" or "deletionTimestamp" in write.item["metadata"]
    return before if ends and "deletionTimestamp" not in before["metadata"] else None


# --------------------------------------------------------------------------------------- leadership


def only_the_leader_writes(_witness: Witness, call: Call) -> Complaint:
    """S9: after the last renewal and the deadline no write begins, neither at the API server nor at the provider."""
    return None if call.leads else f"{call.text} is sent by a growth whose fence has fallen"


def one_leads(_witness: Witness, call: Call) -> Complaint:
    """S9: never do two growths take themselves for the leader when one of them writes."""
    return f"{call.text} is sent while another growth leads too" if call.leads and call.another_leads else None


def nothing_of_an_earlier_leader(_witness: Witness, call: Call) -> Complaint:
    """S9: when another growth leads, no write of the one before takes effect that it still waits for; one that stood
    still may finish what it was sending. What the network delivers after its sender gave it up in time is nobody's
    doing: what it says of the version it was decided on, and the names of orders, keep it harmless.
    """
    is_late = call.another_leads and not call.leads and not call.stood_still and not call.was_given_up
    return f"{call.text} of a former leader took effect while another leads" if is_late else None
