"""Is a machine asked for only where somebody needs one, and do records move only as they may? The laws on what is
written to NodeRequests and NodeRemovalRequests. Rows of `sim/laws`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from growth.model.instant import parse_instant
from growth.model.noderequest import PENDING, REMOVAL_FAILED, TRANSITIONS
from growth.model.offering import CLUSTER_LABEL
from growth.plan.nodes_down.attempts import IRREVOCABLE
from growth.plan.world.limits import RENEWAL
from growth.providers.simulated import Server
from growth.sim.apiserver.kinds import NODE, Json
from growth.sim.apiserver.store import Write
from growth.sim.laws.witness import GROWTH, REMOVAL, REQUEST, Complaint, Witness, planned_pods

STALENESS_SECONDS: Final = 60.0
RESTORED: Final = "etcd"  # writes again what a backup holds
NOTICE_SECONDS: Final = 45.0  # what growth wrote itself it knows at once; orders that were being written are excepted


def phases_move_forward(witness: Witness, write: Write) -> Complaint:
    """S14: phases only move along the arrows of `model/noderequest`; a removal fails only after an attempt, or
    if its machine lost our label.
    """
    if write.kind not in (REQUEST, REMOVAL) or write.before is None or write.type == "DELETED":
        return None
    old = (write.before.decoded().get("status") or {}).get("phase", "Pending")
    new = (write.item.get("status") or {}).get("phase", "Pending")
    servers = witness.cluster.shop.servers.values()
    is_lost = any(each.name == write.key[1] and CLUSTER_LABEL not in each.labels for each in servers)
    arrows = {(each.before, each.after) for each in TRANSITIONS[write.kind.name]}
    arrows -= set() if is_lost else {(PENDING, REMOVAL_FAILED)}
    return None if new == old or (old, new) in arrows else f"{write.kind.name} {write.key[1]} went from {old} to {new}"


def real_demand(witness: Witness, write: Write) -> Complaint:
    """S5: a NodeRequest is created only for a need that was real within the staleness bound: pods that wait, buffers
    that are declared, a minimum that is not kept, nodes that are there to be replaced.
    """
    if write.kind is not REQUEST or write.type != "ADDED" or write.actor == RESTORED:
        return None
    why_not = _WHY_NOT_NEEDED.get(write.item["spec"].get("reason", "Demand"))
    return None if why_not is None else why_not(witness, write.item)


def _why_no_demand(witness: Witness, request: Json) -> Complaint:
    name, planned = request["metadata"]["name"], planned_pods(request)
    is_real = any(witness.waited_within(key, STALENESS_SECONDS) for key in planned)
    return None if is_real else f"{name} is for pods that do not wait: {planned[:3]}"


def _why_no_buffer(witness: Witness, request: Json) -> Complaint:
    name, entries = request["metadata"]["name"], request["spec"].get("plannedPods") or ()
    buffers = [entry.rpartition("*")[0] or entry for entry in entries]
    seen_at = [witness.lately.buffers_at.get(tuple(each.split("/", 1)), -1e9) for each in buffers]
    is_real = any(witness.now - at <= STALENESS_SECONDS for at in seen_at)
    return None if is_real else f"{name} is for buffers that are not there: {buffers[:3]}"


def _may_be_replaced(name: str, pool: str, witness: Witness) -> bool:
    """It is too old, or its pool was changed since it was bought."""
    age = witness.pools[pool]["spec"].get("expireAfterSeconds", math.inf)
    touched = witness.lately.touched_at.get(pool, ())
    return witness.now >= witness.bought_at[name] + age or any(at > witness.bought_at[name] for at, _ in touched)


def _why_no_minimum(witness: Witness, request: Json) -> Complaint:
    """Counted are nodes that have been Ready for a while and stay, and need not be replaced."""
    name, spec = request["metadata"]["name"], request["spec"]
    choices = witness.pools[spec["pool"]]["spec"]["serverTypes"] if spec["pool"] in witness.pools else []
    wanted = {choice["name"].lower(): choice.get("min", 0) for choice in choices}
    server_type = spec["targetOffering"].partition("-")[2]
    mine = [each for each in witness.servers_of(spec["pool"]) if each.server_type.lower() == server_type]
    going = {stored.name for stored in witness.cluster.store.all(REMOVAL)}
    there = [each.name for each in mine if witness.readiness.get(each.name) and each.name not in going]
    settled = [each for each in there if witness.now - witness.bought_at[each] > STALENESS_SECONDS]
    settled = [each for each in settled if not _may_be_replaced(each, spec["pool"], witness)]
    most = wanted.get(server_type, 0)
    return f"{name} is for the minimum {most}, which {', '.join(settled)} keep" if len(settled) >= most else None


def _why_nothing_replaced(witness: Witness, request: Json) -> Complaint:
    """A node that was there a while ago may just have gone."""
    name, replaced = request["metadata"]["name"], request["spec"].get("replaces") or ()
    gone = [each for each in replaced if witness.cluster.store.get(NODE, each) is None]
    lately = [each for each in gone if witness.now - witness.lately.nodes_gone_at.get(each, -1e9) <= STALENESS_SECONDS]
    is_real = bool(replaced) and len(gone) == len(lately)
    return None if is_real else f"{name} replaces nodes that are not there: {', '.join(gone) or 'none named'}"


_WHY_NOT_NEEDED: Final[dict[str, Callable[[Witness, Json], Complaint]]] = {
    "Demand": _why_no_demand,
    "Buffer": _why_no_buffer,
    "Minimum": _why_no_minimum,
    "Replacement": _why_nothing_replaced,
    RENEWAL: _why_nothing_replaced,
}


def bought_once(witness: Witness, server: Server) -> Complaint:
    """S5: no machine is ordered for pods that others were ordered for. What an earlier leader wrote may arrive late:
    a NodeRequest too many is no machine too many.
    """
    request = witness.cluster.store.read(REQUEST, server.name)
    if request is None or request["spec"].get("reason", "Demand") != "Demand" or witness.is_catalogue_wrong:
        return None
    planned = planned_pods(request)
    if not planned or not all(_is_promised_elsewhere(witness, "/".join(key), request) for key in planned):
        return None
    return f"{server.name} is for {len(planned)} pods that other machines on their way are for: {planned[:3]}"


def _is_promised_elsewhere(witness: Witness, pod: str, request: Json) -> bool:
    """An earlier request whose machine is ordered, and whose node has not come yet, was made for this very pod."""
    mine = _age_order(request)
    for other in witness.cluster.store.read_all(REQUEST):
        phase, metadata = (other.get("status") or {}).get("phase", "Pending"), other["metadata"]
        is_coming = phase == "Provisioning" and witness.node(metadata["name"]) is None
        is_earlier = is_coming and _age_order(other) < mine and not metadata.get("deletionTimestamp")
        if is_earlier and pod in (other["spec"].get("plannedPods") or []):
            return True
    return False


def _age_order(request: Json) -> tuple[str, str]:
    return request["metadata"]["creationTimestamp"], request["metadata"]["name"]


def irrevocable_is_kept(witness: Witness, write: Write) -> Complaint:
    """A removal whose delete may have been accepted is not taken back while its machine is there."""
    if write.kind is not REMOVAL or write.type != "DELETED" or write.actor != GROWTH:
        return None
    status, machine_id = write.item.get("status") or {}, write.item["spec"].get("machineID", "")
    is_irrevocable = any(each["type"] == IRREVOCABLE for each in status.get("conditions") or ())
    server = witness.cluster.shop.servers.get(machine_id)
    is_over = server is None or server.status == "deleting" or status.get("phase") == REMOVAL_FAILED
    return None if is_over or not is_irrevocable else f"the removal of {write.key[1]} is taken back: {status}"[:200]


def struck_out(witness: Witness, write: Write) -> Complaint:
    """Unmet strikes an offering out for all pools until its time is over."""
    if write.kind is not REQUEST or write.type != "ADDED":
        return None
    spec, now = write.item["spec"], witness.cluster.runtime.now()
    offering, location = spec["targetOffering"], spec.get("location")
    for other in witness.cluster.store.read_all(REQUEST):
        status = other.get("status") or {}
        is_same = (other["spec"]["targetOffering"], other["spec"].get("location")) == (offering, location)
        if is_same and status.get("phase") == "Unmet" and not other["metadata"].get("deletionTimestamp"):
            age, left = now - parse_instant(status["lastTransitionTime"]), parse_instant(status["expiresAt"]) - now
            if age > NOTICE_SECONDS and left > NOTICE_SECONDS:
                return f"{write.key[1]} asks for {offering} in {location}, Unmet for another {left:.0f} s"
    return None
