"""Does a pod wait only as long as it must, and is it told the truth? Rows of `sim/laws`.

What growth says is compared with a look of its own at the stored objects, the catalogue and the servers: plain
arithmetic and plain comparisons, for pods without rules about other pods. What cannot be judged so is left alone.

| growth says of offerings | true if |
| --- | --- |
| untolerated taint T | a pool of the pod has T, and the pod does not tolerate it |
| didn't match node selector K=V | the pod asks for it, and so many offerings have no such label |
| didn't match node affinity, pod affinity, … | the pod, or for anti-affinity anybody, has such a rule |
| insufficient R | the pod asks for more of it than so many offerings have |
| limit reached: at most N of a type, nodes, cpu, … | so many offerings would break it, with those that went lately |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, to_builtins

from growth.model.gang import read_gang
from growth.model.node import POOL_LABEL, Taint
from growth.model.offering import Offering
from growth.model.pod import Pod, PodShape
from growth.model.quantity import parse_quantity
from growth.model.resources import CPU, MEMORY, PODS, Resources, parse_amount, sum_resources
from growth.sim.apiserver.kinds import BY_NAME, NODE, Json
from growth.sim.laws.machines import TRIAL_SECONDS
from growth.sim.laws.memory import Said
from growth.sim.laws.witness import POOL, REQUEST, Complaint, Witness
from growth.solver.rules.taints import tolerates

DAEMON_SET: Final = BY_NAME["DaemonSet"]
LONGEST_SECONDS: Final = 60.0
RECOVERY_SECONDS: Final = 60.0  # so long after the last fault watches and back-offs may still take
MOMENT_SECONDS: Final = 16.0  # between two looks of the simulation
LATELY_SECONDS: Final = 900.0  # what a sentence that arrives late may still speak of
OVERTAKING_SECONDS: Final = 180.0  # who is older by less may have come too late for the same look
NOTICE_SECONDS: Final = 45.0  # by then what was ordered along with a sentence is written
_ONE_POD: Final = Resources({PODS: 1})

_PART = re.compile(r"(\d+)(?: of \d+ (nodes|offerings))?: (.+)")
_MOST_OF_TYPE = re.compile(r"max (\d+) of (\S+) in NodePool ([^\s,]+)")
_MOST = re.compile(r"limits of (?:NodePool ([^\s:]+)|the settings): at most (\S+) (nodes|cpu|memory|per hour)")
_LIMIT_NAMES: Final = {"nodes": "nodes", "cpu": CPU, "memory": MEMORY, "per hour": "pricePerHour"}


class Taken(Struct, frozen=True):
    """A machine that counts, or counted lately: what it is."""

    server_type: str
    offering: Offering | None


# ------------------------------------------------------------------------------- the reason is true


def the_true_reason(witness: Witness, is_calm: bool) -> Complaint:
    """What a pod without a place is told is so: the constraint that is named stands against it, and one is named. What
    is being written when it is said counts too; while something is broken, that may take a while.
    """
    patience, wrong = witness.patience, None
    unproven, patience.unproven = patience.unproven, []
    for at, said in unproven:
        why = _why_untrue(witness, said)
        if why and witness.now - at < (NOTICE_SECONDS if is_calm else LATELY_SECONDS):
            patience.unproven.append((at, said))
        elif why:
            wrong = wrong or f"pod {said.namespace}/{said.name} was told at {at:.0f} s {why}"
    return wrong


def _why_untrue(witness: Witness, said: Said) -> str:
    pod = witness.pods.get((said.namespace, said.name))
    if pod is None or pod.uid != said.uid or not _can_judge(witness):
        return ""
    if said.note.endswith("no place was found"):
        return f"no constraint: {said.note}"
    wrong = next((words for count, words in _claims(said.note) if _is_false(witness, pod, count, words)), None)
    return f"what is not so: {wrong}" if wrong else ""


def _claims(note: str) -> Iterator[tuple[int, str]]:
    """Of each sentence about offerings: how many of them, and what."""
    noun = ""
    for part in note.removeprefix("no place for this pod: ").split("; "):
        found = _PART.fullmatch(part)
        noun = "" if found is None else found[2] or noun
        if found is not None and noun == "offerings":
            yield int(found[1]), found[3]


def _is_false(witness: Witness, pod: Pod, count: int, words: str) -> bool:
    shape, specs = pod.shape, _pools_of(witness, pod)
    sold = [(name, spec, each) for name, spec in specs.items() for each in _offerings(witness, spec)]
    if found := re.match(r"untolerated taint (\S+)", words):
        return not any(str(taint) == found[1] for spec in specs.values() for taint in _untolerated(shape, spec))
    if found := re.match(r"didn't match node selector (\S+)=(\S*)", words):
        key, value = found[1], found[2]
        lacking = sum(_labels(spec, name, each).get(key) != value for name, spec, each in sold)
        return shape.node_selector.get(key) != value or lacking < count
    if words.startswith("didn't match node affinity"):
        return shape.node_affinity is None
    if words.startswith("didn't match pod affinity"):
        return not shape.affinity
    if words.startswith("insufficient "):
        if witness.is_catalogue_wrong or witness.cluster.store.all(DAEMON_SET):
            return False
        asked = re.findall(r"insufficient ([\w./-]+)", words)
        short = (sum(each.allocatable[name] < shape.requests[name] for _, _, each in sold) for name in asked)
        return any(lacking < count for lacking in short)
    if words.startswith("limit reached: "):
        return any(not _is_reached(witness, pod, count, *each) for each in _named_limits(words))
    return False


def _named_limits(words: str) -> Iterator[tuple[str, str, str, str]]:
    """Pool, server type, what is limited, and how much of it there may be."""
    for most, server_type, pool in _MOST_OF_TYPE.findall(words):
        yield pool, server_type, "nodes", most
    for pool, most, what in _MOST.findall(words):
        yield pool, "", _LIMIT_NAMES[what], most


def _is_reached(witness: Witness, pod: Pod, count: int, pool: str, server_type: str, what: str, most: str) -> bool:
    """Would so many of the machines that the pod's pools sell break it? Smaller ones may be too small for the pod."""
    taken = [each for each in _taken(witness, pool) if server_type.lower() in ("", each.server_type)]
    sold = [each for spec in _pools_of(witness, pod).values() for each in _offerings(witness, spec)]
    return bool(sold) and sum(_is_over(taken, each, what, most) for each in sold) >= min(count, len(sold))


def _is_over(taken: list[Taken], another: Offering, what: str, most: str) -> bool:
    counted = [*(each.offering for each in taken if each.offering is not None), another]
    if what == "nodes":
        return len(taken) + 1 > int(most)
    if what == "pricePerHour":
        return sum(each.price_per_hour for each in counted) > float(parse_quantity(most))
    return sum_resources([each.allocatable for each in counted])[what] > parse_amount(what, most)


def _taken(witness: Witness, pool: str) -> list[Taken]:
    """Machines of a pool, or of all, with those ordered, and those that went lately."""
    found: dict[str, str] = {}
    for server in witness.our_servers() if not pool else witness.servers_of(pool):
        found[server.name] = server.server_type.lower()
    for name, (at, server) in witness.lately.given_back.items():
        if witness.now - at <= LATELY_SECONDS and pool in ("", server.template.labels.get(POOL_LABEL)):
            found.setdefault(name, server.server_type.lower())
    for name, request in witness.requests.items():
        path = f"apis/growth.dev/v1alpha1/noderequests/{name}"
        is_late = witness.now - witness.lately.written_at[path][-1] > LATELY_SECONDS
        if pool in ("", request["spec"]["pool"]) and not (is_late and witness.cluster.store.get(REQUEST, name) is None):
            found.setdefault(name, request["spec"]["targetOffering"].partition("-")[2])
    sold = {each.server_type.lower(): each for each in witness.sold}
    return [Taken(each, sold.get(each)) for each in found.values()]


# --------------------------------------------------------------------------- nobody waits in vain


def nobody_waits_for_nothing(witness: Witness, is_calm: bool) -> Complaint:
    """While nothing is broken no pod waits longer than a minute for which a place can be bought and nothing is on its
    way, unless its pool is Failing, paused, braked, sold out or at a limit, and it is told.
    """
    patience = witness.patience
    patience.calm_since = None if not is_calm else patience.calm_since or witness.now
    if patience.calm_since is None or witness.now - patience.calm_since < RECOVERY_SECONDS or not _can_judge(witness):
        patience.idle_since.clear()
        return None
    idle = {key: pod for key, pod in witness.pods.items() if _is_waiting(pod) and _waits_for_nothing(witness, pod)}
    patience.idle_since = {key: patience.idle_since.get(key, witness.now) for key in idle}
    longest = [key for key, since in patience.idle_since.items() if witness.now - since > LONGEST_SECONDS]
    if not longest:
        return None
    said = patience.told.get(idle[longest[0]].uid)
    told = "nothing" if said is None else f"{said.reason}: {said.note[:200]}"
    return f"pod {'/'.join(longest[0])} waits, a place can be bought and nothing is on its way; told: {told}"


def _is_waiting(pod: Pod) -> bool:
    shape = pod.shape
    has_rules = shape.affinity or shape.anti_affinity or shape.spread or shape.volumes or shape.host_ports
    is_plain = not has_rules and shape.node_affinity is None and not shape.uses_resource_claims
    is_there = not pod.node_name and not pod.is_finished and pod.deleted_at is None and not pod.is_gated
    return is_there and is_plain and not pod.is_daemon and pod.unschedulable_at is not None


def _waits_for_nothing(witness: Witness, pod: Pod) -> bool:
    for name, spec in _pools_of(witness, pod).items():
        fitting = [each for each in _offerings(witness, spec) if _fits(pod.shape, name, spec, each)]
        if not fitting or _is_something_coming(witness, name) or _has_room(witness, pod):
            continue
        is_held_back = _why_held_back(witness, name, spec, fitting)
        if not (is_held_back and pod.uid in witness.patience.told):
            return True
    return False


def _is_something_coming(witness: Witness, pool: str) -> bool:
    """A request on its way, or one that came and went a moment ago, or a node that starts."""
    if any(_is_recent(witness, name) for name, each in witness.requests.items() if each["spec"]["pool"] == pool):
        return True
    phases = (
        (each.get("status") or {}).get("phase", "Pending")
        for each in witness.cluster.store.read_all(REQUEST)
        if each["spec"]["pool"] == pool
    )
    if any(phase in ("Pending", "Provisioning") for phase in phases):
        return True
    nodes = (witness.node(stored.name) for stored in witness.cluster.store.all(NODE))
    return any(node.is_starting for node in nodes if node is not None and node.labels.get(POOL_LABEL) == pool)


def _is_recent(witness: Witness, request: str) -> bool:
    written_at = witness.lately.written_at.get(f"apis/growth.dev/v1alpha1/noderequests/{request}", [-1e9])
    return witness.now - written_at[-1] <= MOMENT_SECONDS


def _has_room(witness: Witness, pod: Pod, without: Pod | None = None) -> bool:
    """Then the scheduler will put it there; `without`: on the node of that pod, as if it were not there."""
    for stored in witness.cluster.store.all(NODE):
        node = witness.node(stored.name)
        if node is None or not node.is_ready or node.is_unschedulable:
            continue
        if without is not None and node.name != without.node_name:
            continue
        bound = [each for each in witness.bound.get(node.name, {}).values() if not each.is_finished]
        bound = [each for each in bound if without is None or each.uid != without.uid]
        free = node.allocatable - sum_resources([each.shape.requests + _ONE_POD for each in bound])
        is_allowed = all(any(tolerates(each, taint) for each in pod.shape.tolerations) for taint in node.taints)
        matches = all(node.labels.get(key) == value for key, value in pod.shape.node_selector.items())
        if is_allowed and matches and (pod.shape.requests + _ONE_POD).fits_in(free):
            return True
    return False


def _why_held_back(witness: Witness, name: str, spec: Json, fitting: list[Offering]) -> str:
    """In one word; empty: nothing stands against buying."""
    stored = witness.cluster.store.read(POOL, name) or {"metadata": {}}
    if name in witness.paused_since or stored["metadata"].get("deletionTimestamp"):
        return "paused"
    if ((stored.get("status") or {}).get("trials") or {}).get("inVain"):
        return "failing"
    if name in witness.braked_since or "" in witness.braked_since:
        return "braked"
    if any(
        _is_on_trial(witness, each) for each, request in witness.requests.items() if request["spec"]["pool"] == name
    ):
        return "on trial"
    struck = {
        (each["spec"]["targetOffering"], each["spec"].get("location"))
        for each in witness.cluster.store.read_all(REQUEST)
        if (each.get("status") or {}).get("phase") == "Unmet"
    }
    bounds = [(name, "", key, str(most)) for key, most in (spec.get("limits") or {}).items()]
    bounds += [
        (name, each["name"], "nodes", str(each["max"])) for each in spec["serverTypes"] if each.get("max") is not None
    ]
    overall = to_builtins(witness.settings.limits).items()
    bounds += [("", "", key, str(most)) for key, most in overall if most is not None]
    is_closed = all((each.name, each.location) in struck or _is_limited(witness, each, bounds) for each in fitting)
    return "limited" if is_closed else ""


def _is_on_trial(witness: Witness, request: str) -> bool:
    """Its machine is Ready, none of its pods is there, and it is not known yet whether they come."""
    is_young = witness.now - witness.served_since.get(request, -1e9) <= TRIAL_SECONDS
    return is_young and not witness.served.get(request)


def _is_limited(witness: Witness, offering: Offering, bounds: list[tuple[str, str, str, str]]) -> bool:
    for pool, server_type, what, most in bounds:
        if server_type.lower() in ("", offering.server_type.lower()):
            taken = [each for each in _taken(witness, pool) if server_type.lower() in ("", each.server_type)]
            if _is_over(taken, offering, what, most):
                return True
    return False


# ------------------------------------------------------------------------- nobody is overtaken for long


def nobody_is_overtaken(witness: Witness, is_calm: bool) -> Complaint:
    """While nothing is broken growth's own scheduler gives no room to a pod with rules about other pods that an older
    one without such rules could have had, and that still waits a moment later.
    """
    since = witness.patience.calm_since
    if not is_calm or since is None:
        return None
    waiting = [pod for pod in witness.pods.values() if _is_waiting(pod) and read_gang(pod) is None]
    waiting = [pod for pod in waiting if witness.settings.scheduler.serves(pod.shape.scheduler_name)]
    for node_name, bound in witness.bound.items() if waiting else ():
        for young in bound.values():
            at = witness.bound_at.get(young.uid, witness.now)
            is_of_late = MOMENT_SECONDS < witness.now - at < LONGEST_SECONDS and at - since > RECOVERY_SECONDS
            if is_of_late and young.uid in witness.bound_by_growth and young.shape.anti_affinity:
                old = next((each for each in waiting if _is_overtaken(witness, each, young)), None)
                if old is not None:
                    return f"pod {young.key} got room on {node_name} that {old.key} could have had, which is older"
    return None


def _is_overtaken(witness: Witness, old: Pod, young: Pod) -> bool:
    """Was it told before the other one came that it has no place, and is there one without that?"""
    told_at, since = old.unschedulable_at, young.created_at - OVERTAKING_SECONDS
    is_older = told_at is not None and told_at < since and old.shape.priority >= young.shape.priority
    is_planned = any(young.key in (each["spec"].get("plannedPods") or ()) for each in witness.requests.values())
    return is_older and not is_planned and _has_room(witness, old, without=young)


# ------------------------------------------------------------------------------ what the world says


def _can_judge(witness: Witness) -> bool:
    """The catalogue of the embedded cloud is the one that is sold."""
    return witness.cluster.shop is witness.cluster.cloud and not witness.is_catalogue_wrong


def _pools_of(witness: Witness, pod: Pod) -> dict[str, Json]:
    """Those that the pod may use, as they are specified: the one it names, or the default one."""
    name = pod.shape.node_selector.get(POOL_LABEL, "default")
    stored = witness.cluster.store.read(POOL, name)
    return {} if stored is None else {name: stored["spec"]}


def _offerings(witness: Witness, spec: Json) -> list[Offering]:
    listed = {choice["name"].lower() for choice in spec["serverTypes"]}
    return [each for each in witness.sold if each.server_type.lower() in listed]


def _labels(spec: Json, pool: str, offering: Offering) -> dict[str, str]:
    return {**offering.labels, **(spec.get("labels") or {}), POOL_LABEL: pool}


def _untolerated(shape: PodShape, spec: Json) -> list[Taint]:
    taints = [Taint(each["key"], each.get("value", ""), each["effect"]) for each in spec.get("taints") or ()]
    return [taint for taint in taints if not any(tolerates(each, taint) for each in shape.tolerations)]


def _fits(shape: PodShape, pool: str, spec: Json, offering: Offering) -> bool:
    labels = _labels(spec, pool, offering)
    matches = all(labels.get(key) == value for key, value in shape.node_selector.items())
    return matches and not _untolerated(shape, spec) and (shape.requests + _ONE_POD).fits_in(offering.allocatable)
