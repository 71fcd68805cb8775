"""What must never happen: the safety laws, checked after every write and every call at the cloud.

Each law is one small function: its docstring is the law, its answer is what broke it, or nothing. A new law is a new
row of LAWS.

| looks at | functions get |
| --- | --- |
| a machine created or about to be deleted | the witness and the server |
| an object written by growth | the witness and the write |
| any object written | the witness and the write |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from growth.model.instant import parse_instant
from growth.model.node import POOL_LABEL
from growth.model.noderequest import PENDING, REMOVAL_FAILED, TRANSITIONS
from growth.model.quantity import parse_quantity
from growth.model.resources import CPU, MEMORY, parse_amount, sum_resources
from growth.plan.world.limits import RENEWAL
from growth.providers.simulated import Server
from growth.sim.apiserver.kinds import Json
from growth.sim.apiserver.store import Key, Write
from growth.sim.clock import START_OF_TIME
from growth.sim.laws.evictions import (
    only_evictions,
    protected_pods_stay,
    removal_before_eviction,
    within_disruption_budgets,
)
from growth.sim.laws.warm_pools import only_replicas_within_bounds
from growth.sim.laws.witness import REMOVAL, REQUEST, Witness
from growth.sim.laws.writes import good_manners, no_node_is_overcommitted

STALENESS_SECONDS: Final = 60.0
LIVE_SECONDS: Final = 150.0  # a live read, with everything that may hang between it and the call
CALL_SECONDS: Final = 60.0  # a call at the provider, with the requests before it, takes no longer
TRIAL_SECONDS: Final = 60.0  # so long the scheduler has for putting a pod onto a node that is Ready
NOTICE_SECONDS: Final = 45.0  # what growth wrote itself it knows at once; orders that were being written are excepted
ARRIVAL_SECONDS: Final = 10.0  # a pod bound so shortly before the call cannot be seen by anybody in time
UNREACHABLE_SECONDS: Final = 300.0

Complaint = str | None


# ------------------------------------------------------------------------------------ at the cloud:
# created


def within_limits(witness: Witness, server: Server) -> Complaint:
    """S1: machines at the provider with our cluster label ≤ pool max and limits, by provider truth; of nodes one more
    while one is being renewed.
    """
    name = server.template.labels.get(POOL_LABEL, "")
    pool = witness.pools.get(name)
    if pool is None:
        return f"{server.name} was bought for pool {name!r}, which never existed"
    servers, spec = witness.servers_of(name), pool["spec"]
    for choice in spec["serverTypes"]:
        same = [one for one in servers if one.server_type.lower() == choice["name"].lower()]
        if choice.get("max") is not None and len(same) > choice["max"] + _surge(witness, name):
            return f"pool {name} has {len(same)} machines of {choice['name']}, max is {choice['max']}"
    return next(_broken_limits(witness, name, servers, spec.get("limits") or {}), None)


def _broken_limits(witness: Witness, name: str, servers: list[Server], limits: Json) -> Iterator[str]:
    prices = [witness.cluster.cloud.bills[server.server_id].price_per_hour for server in servers]
    amounts = sum_resources([server.allocatable for server in servers])
    found: dict[str, float] = {
        "nodes": len(servers),
        "cpu": amounts[CPU],
        "memory": amounts[MEMORY],
        "pricePerHour": sum(prices),
    }
    for key, text in limits.items():
        bound = float(parse_amount(key, text)) if key in ("cpu", "memory") else float(parse_quantity(str(text)))
        bound += _surge(witness, name) if key == "nodes" else 0
        if found[key] > bound + 1e-9:
            yield f"pool {name} has {key} {found[key]}, limit is {text}"


def _surge(witness: Witness, pool: str) -> int:
    """One, while the machine that renews a node and that node stand beside each other."""
    ours = (request["spec"] for request in witness.requests.values() if request["spec"].get("pool") == pool)
    return int(
        any(
            spec.get("reason") == RENEWAL and any(witness.node(name) is not None for name in spec.get("replaces") or ())
            for spec in ours
        )
    )


def one_machine_for_each_request(witness: Witness, server: Server) -> Complaint:
    """S2: one live machine for each NodeRequest UID."""
    uid = witness.request_uid(server)
    twins = [one.name for one in witness.our_servers() if witness.request_uid(one) == uid]
    if not uid or len(twins) > 1:
        return f"request {uid!r} has machines {', '.join(twins)}"
    return None


def no_runaway(witness: Witness, server: Server) -> Complaint:
    """S4: no further launch of an offering for a class after 3 machines became Ready on which none of its pods could be
    bound.
    """
    request = witness.requests.get(server.name)
    if request is None:
        return None
    offering, owners = request["spec"]["targetOffering"], _planned_owners(witness, request)
    for owner in owners:
        wasted = [
            name
            for name in _wasted(witness, offering, owner)
            if witness.requests[name]["metadata"]["creationTimestamp"] <= request["metadata"]["creationTimestamp"]
        ]
        if len(wasted) > 3 and not _was_ordered_early(witness, request, wasted):
            return f"{server.name} is another {offering} for pods that could not be bound on {', '.join(wasted)}"
    return None


def _planned_owners(witness: Witness, request: Json) -> set[str]:
    return {witness.owner_of[key] for key in _planned_pods(request) if key in witness.owner_of}


def _planned_pods(request: Json) -> list[Key]:
    parted = [key.partition("/") for key in request["spec"].get("plannedPods") or []]
    return [(namespace, name) for namespace, _, name in parted]


def _wasted(witness: Witness, offering: str, owner: str) -> list[str]:
    """Machines of the offering, Ready for a minute, bought for pods of this owner that still wait, that never got one;
    their records were left alone.
    """
    return [
        name
        for name, request in witness.requests.items()
        if request["spec"]["targetOffering"] == offering
        and name not in witness.erased
        and any(
            witness.owner_of.get(key) == owner and key in witness.pods and not witness.pods[key].node_name
            for key in _planned_pods(request)
        )
        and witness.now - witness.served_since.get(name, witness.now) > TRIAL_SECONDS
        and owner not in witness.served.get(name, {})
    ]


def _was_ordered_early(witness: Witness, request: Json, wasted: list[str]) -> bool:
    """Written before growth knew of the third machine that it was useless."""
    known = sorted(witness.served_since[name] for name in wasted)
    return parse_instant(request["metadata"]["creationTimestamp"]) - START_OF_TIME <= known[2] + TRIAL_SECONDS


def not_while_paused(witness: Witness, server: Server) -> Complaint:
    """A paused pool neither buys nor gives back; calls that were on their way are excepted."""
    name = server.template.labels.get(POOL_LABEL, "")
    since = witness.paused_since.get(name)
    return (
        None
        if since is None or witness.now - since < CALL_SECONDS
        else f"{server.name}: pool {name} is paused since {witness.now - since:.0f} s"
    )


# ------------------------------------------------------------------------------ at the cloud: being
# deleted


def nobody_is_killed(witness: Witness, server: Server) -> Complaint:
    """S3: no machine is deleted while a working pod that growth did not evict is bound to its node."""
    for key, pod in witness.bound.get(server.name, {}).items():
        if (
            not pod.counts_as_work
            or pod.uid in witness.evicted
            or witness.now - witness.bound_at[pod.uid] < ARRIVAL_SECONDS
        ):
            continue
        silent_since = witness.cluster.kubelets.died_at.get(server.name)
        is_lost = (
            pod.deleted_at is not None
            and silent_since is not None
            and witness.cluster.runtime.now() - silent_since > UNREACHABLE_SECONDS
        )
        if not is_lost:
            return f"machine {server.name} is deleted under pod {key[0]}/{key[1]}"
    return None


def live_before_delete(witness: Witness, server: Server) -> Complaint:
    """S6: no irreversible call on cached data only: the node's pods and the removal were read live just before."""
    pods = witness.live_reads.get(f"api/v1/pods?spec.nodeName={server.name}")
    if pods is None or witness.now - pods > LIVE_SECONDS:
        return f"machine {server.name} is deleted without a live look at its node's pods"
    removal = witness.live_reads.get(f"apis/growth.dev/v1alpha1/noderemovalrequests/{server.name}")
    if removal is None or witness.now - removal > LIVE_SECONDS:
        return f"machine {server.name} is deleted without a live look at its removal"
    return None


def live_before_launch(witness: Witness, server: Server) -> Complaint:
    """S6: no irreversible call on cached data only: the request was read live just before."""
    read = witness.live_reads.get(f"apis/growth.dev/v1alpha1/noderequests/{server.name}")
    if read is None or witness.now - read > LIVE_SECONDS:
        return f"machine {server.name} is bought without a live look at its request"
    return None


def only_ours(witness: Witness, server: Server) -> Complaint:
    """S7: a delete names a machine of ours, recorded by its id."""
    if server not in witness.our_servers():
        return f"machine {server.name} ({server.server_id}) is not ours: {server.labels}"
    if server.name in witness.abandoned:
        return f"machine {server.name} is deleted, though a user deleted its Node and nobody asked for this"
    return None


def removal_is_written_first(witness: Witness, server: Server) -> Complaint:
    """S14: a removal has an open NodeRemovalRequest for that machine, in Deprovisioning before the provider is asked."""
    removal = witness.removal_of(server)
    if removal is None:
        return f"machine {server.name} is deleted without a NodeRemovalRequest"
    phase = (removal.get("status") or {}).get("phase")
    return (
        None
        if phase == "Deprovisioning"
        else f"machine {server.name} is deleted while its NodeRemovalRequest is {phase}"
    )


# --------------------------------------------------------------------------------------- objects of
# growth


def phases_move_forward(witness: Witness, write: Write) -> Complaint:
    """S14: phases only move along the arrows of `model/noderequest`; a removal fails only after an attempt."""
    del witness
    if write.kind not in (REQUEST, REMOVAL) or write.before is None or write.type == "DELETED":
        return None
    old = (write.before.decoded().get("status") or {}).get("phase", "Pending")
    new = (write.item.get("status") or {}).get("phase", "Pending")
    arrows = {(each.before, each.after) for each in TRANSITIONS[write.kind.name]} - {(PENDING, REMOVAL_FAILED)}
    if new != old and (old, new) not in arrows:
        return f"{write.kind.name} {write.key[1]} went from {old} to {new}"
    return None


def real_demand(witness: Witness, write: Write) -> Complaint:
    """S5: a NodeRequest is created only for demand that was real within the staleness bound, and not for pods that
    others were bought for.
    """
    if write.kind is not REQUEST or write.type != "ADDED":
        return None
    spec, name = write.item["spec"], write.key[1]
    planned = _planned_pods(write.item)
    if spec.get("reason", "Demand") != "Demand":
        return None
    if not any(witness.waited_within(key, STALENESS_SECONDS) for key in planned):
        return f"{name} is for pods that do not wait: {planned[:3]}"
    twice = [
        key
        for key in planned
        if not witness.is_catalogue_wrong and _is_promised_elsewhere(witness, "/".join(key), name)
    ]
    return (
        f"{name} is for {len(twice)} pods that other machines on their way are for: {twice[:3]}"
        if twice and len(twice) == len(planned)
        else None
    )


def struck_out(witness: Witness, write: Write) -> Complaint:
    """Unmet strikes an offering out for all pools until its time is over, by growth's own clock."""
    if write.kind is not REQUEST or write.type != "ADDED" or witness.is_clock_off:
        return None
    spec = write.item["spec"]
    for other in witness.cluster.store.read_all(REQUEST):
        status = other.get("status") or {}
        same = (other["spec"]["targetOffering"], other["spec"].get("location")) == (
            spec["targetOffering"],
            spec.get("location"),
        )
        if same and status.get("phase") == "Unmet" and not other["metadata"].get("deletionTimestamp"):
            now = witness.cluster.runtime.now()
            age, left = now - parse_instant(status["lastTransitionTime"]), parse_instant(status["expiresAt"]) - now
            if age > NOTICE_SECONDS and left > NOTICE_SECONDS:
                return f"{write.key[1]} asks for {spec['targetOffering']} in {spec.get('location')}, Unmet for another {left:.0f} s"
    return None


def _is_promised_elsewhere(witness: Witness, pod: str, name: str) -> bool:
    """Another request that is in flight, and whose node has not come yet, was made for this very pod."""
    for other in witness.cluster.store.read_all(REQUEST):
        phase = (other.get("status") or {}).get("phase", "Pending")
        is_coming = phase in ("Pending", "Provisioning") and witness.node(other["metadata"]["name"]) is None
        is_another = is_coming and other["metadata"]["name"] != name and not other["metadata"].get("deletionTimestamp")
        if is_another and pod in (other["spec"].get("plannedPods") or []):
            return True
    return False


class Law(Struct, frozen=True):
    """A row: when it is looked at, and the function that is the law."""

    moment: str  # created | deleting | written
    check: Callable[[Witness, Any], Complaint]

    @property
    def name(self) -> str:
        return self.check.__name__.replace("_", " ")

    @property
    def sentence(self) -> str:
        return (self.check.__doc__ or "").strip()


LAWS: Final[tuple[Law, ...]] = (
    Law("created", within_limits),
    Law("created", one_machine_for_each_request),
    Law("created", no_runaway),
    Law("created", live_before_launch),
    Law("created", not_while_paused),
    Law("deleting", nobody_is_killed),
    Law("deleting", live_before_delete),
    Law("deleting", only_ours),
    Law("deleting", removal_is_written_first),
    Law("deleting", not_while_paused),
    Law("written", real_demand),
    Law("written", struck_out),
    Law("written", phases_move_forward),
    Law("written", good_manners),
    Law("written", no_node_is_overcommitted),
    Law("written", only_evictions),
    Law("written", removal_before_eviction),
    Law("written", protected_pods_stay),
    Law("written", within_disruption_budgets),
    Law("written", only_replicas_within_bounds),
)


class Violation(Struct, frozen=True):
    """A law that was broken, when and how."""

    at: float
    law: str
    what: str

    def __str__(self) -> str:
        return f"{self.at:9.2f}  {self.law}: {self.what}"


class Judge:
    """Looks at the laws whenever something happened; keeps what broke them. Never stops the world."""

    def __init__(self, witness: Witness) -> None:
        self.violations: list[Violation] = []
        self._witness = witness
        self._laws = {
            moment: [law for law in LAWS if law.moment == moment] for moment in ("created", "deleting", "written")
        }
        witness.cluster.store.on_write(lambda write: self._look("written", write))
        witness.cluster.cloud.on_change.append(
            lambda what, server: self._look("created" if what == "create" else "deleting", server)
        )

    def _look(self, moment: str, subject: Any) -> None:
        if moment == "created" and self._witness.is_foreign(subject):
            return  # somebody else bought it
        for law in self._laws[moment]:
            complaint = law.check(self._witness, subject)
            if complaint:
                self.accuse(law.name, complaint)

    def accuse(self, law: str, what: str) -> None:
        self.violations.append(Violation(self._witness.now, law, what))
