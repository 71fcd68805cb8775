"""Are warm pools scaled only as their PoolAutoscalers say, and never at the cost of a member that is in use? Rows of
`sim/laws`, and one of `sim/laws/settled`, which reckons the watermarks anew from the documents.

Behaviours name the pods of a pool by the label `app`, with the pool's name, and those in use by the label `claimed`. Of
kinds whose members leave when claimed, no member that is claimed is the pool's any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from growth.model.settings import WarmPoolSettings
from growth.plan.warm_pools.memory import APART_SECONDS
from growth.plan.warm_pools.size import PODS_IN_USE
from growth.sim.apiserver.kinds import BY_NAME, CLAIMED, POD, Json
from growth.sim.apiserver.store import Write
from growth.sim.laws.memory import Call
from growth.sim.laws.witness import GROWTH, Complaint, Witness

PODS: Final = ("Deployment", "ReplicaSet", "StatefulSet")
LEAVING: Final = ("SandboxSet", "SandboxWarmPool")
WARM_POOLS: Final = (*PODS, *LEAVING)
AUTOSCALER: Final = BY_NAME["PoolAutoscaler"]
KNOWN_SECONDS: Final = 60.0  # so long ago a claim was made that growth must know of it
FOLLOWS_SECONDS: Final = 120.0  # so long after a scaling its pods may still be ended
WORKLOADS: Final = "workload-controller"


def only_replicas_within_bounds(witness: Witness, write: Write) -> Complaint:
    """S12: of a warm pool only the replicas are written, between the bounds of an autoscaler in its own namespace; a
    pool of pods may stay above its bound while members that would go are in use, but is not raised there.
    """
    if write.kind.name not in WARM_POOLS or write.actor != GROWTH:
        return None
    (namespace, name), kind = write.key, write.kind.name
    before = {} if write.before is None else write.before.decoded()["spec"]
    if write.type != "MODIFIED" or {**write.item["spec"], "replicas": 0} != {**before, "replicas": 0}:
        return f"growth changed more than the replicas of {kind} {name}"
    scalers = witness.cluster.store.read_all(AUTOSCALER, namespace)
    targets = [(one["spec"]["scaleTargetRef"], _bounds(one)) for one in scalers]
    bounds = [each for target, each in targets if (target["kind"], target["name"]) == (kind, name)]
    replicas = write.item["spec"]["replicas"]
    was = 0 if kind in LEAVING else before.get("replicas", 0)
    if not any(least <= replicas <= max(most, was) for least, most in bounds):
        return f"growth set {kind} {name} to {replicas} replicas; bounds: {bounds}"
    return None


def scales_are_apart(witness: Witness, write: Write) -> Complaint:
    """S12: two writes of growth to the replicas of one target are ten seconds apart, give or take one."""
    if write.actor != GROWTH or write.type != "MODIFIED" or not write.kind.has_scale or write.before is None:
        return None
    before = write.before.decoded()["spec"]
    if before.get("replicas") == write.item["spec"].get("replicas"):
        return None
    target = f"{write.kind.name} {'/'.join(write.key)}"
    last_at, witness.scaled.at[target] = witness.scaled.at.get(target), witness.now
    if last_at is None or witness.now - last_at >= APART_SECONDS - 1.0:
        return None
    return f"growth scaled {target} {witness.now - last_at:.1f} s after it last did"


def tries_are_apart(witness: Witness, call: Call) -> Complaint:
    """S12: one growth asks for the scale of one target to be written at most once in ten seconds, whatever the answers
    are.
    """
    if not call.text.endswith("/scale"):
        return None
    asked, now = f"life {call.life} {call.text}", witness.now
    last_at, witness.scaled.at[asked] = witness.scaled.at.get(asked), now
    if last_at is None or now - last_at >= APART_SECONDS - 1.0:
        return None
    return f"{call.text} is sent {now - last_at:.1f} s after the last time"


def used_replicas_stay(witness: Witness, write: Write) -> Complaint:
    """S12: no replica that has been in use for a minute ends because growth scaled its pool down."""
    if write.kind is not POD or write.actor != WORKLOADS or write.before is None:
        return None
    before = write.before.decoded()["metadata"]
    if "deletionTimestamp" in before or CLAIMED not in (before.get("labels") or {}):
        return None
    scaling = witness.scaled.down_at.get((write.key[0], before["labels"].get("app", "")))
    claimed_at = witness.scaled.claimed_at.get(before["uid"], witness.now)
    if scaling is None or witness.now - scaling > FOLLOWS_SECONDS or scaling - claimed_at < KNOWN_SECONDS:
        return None
    in_use = f"pod {'/'.join(write.key)}, in use for {scaling - claimed_at:.0f} s,"
    return f"{in_use} ends {witness.now - scaling:.1f} s after growth scaled its pool down"


# ------------------------------------------------------------------------------------------- in the end


def warm_pools(witness: Witness) -> Iterator[str]:
    """As many members are available as the autoscaler wants, give or take its tolerance, unless a bound forbids it, or
    members in use are in the way and it says so.
    """
    scalers = sorted(witness.cluster.store.read_all(AUTOSCALER), key=_age)
    seen: set[tuple[str, str, str]] = set()
    for scaler in scalers:
        reference, namespace = scaler["spec"]["scaleTargetRef"], scaler["metadata"]["namespace"]
        target = (reference["kind"], namespace, reference["name"])
        if target in seen or reference["kind"] not in WARM_POOLS:
            continue  # the oldest autoscaler of a target has it
        seen.add(target)
        pool = witness.cluster.store.read(BY_NAME[reference["kind"]], reference["name"], namespace)
        if pool is not None and not scaler["spec"].get("suspend"):
            yield from _why_wrong(witness, scaler, reference["kind"], pool)


def _why_wrong(witness: Witness, scaler: Json, kind: str, pool: Json) -> Iterator[str]:
    name, namespace = pool["metadata"]["name"], pool["metadata"]["namespace"]
    replicas, (least, most), policy = (
        pool["spec"].get("replicas", 1),
        _bounds(scaler),
        scaler["spec"].get("capacityPolicy"),
    )
    members = [pod for key, pod in witness.pods.items() if key[0] == namespace and pod.shape.labels.get("app") == name]
    live = [pod for pod in members if pod.deleted_at is None and not pod.is_finished]
    in_use = [pod for pod in live if CLAIMED in pod.shape.labels]
    conditions = (scaler.get("status") or {}).get("conditions") or []
    is_held = any(each["reason"] == PODS_IN_USE for each in conditions)
    if is_held and not (in_use and kind in PODS):
        yield f"{kind} {name} is said to be held by pods in use, and there are none"
    if not least <= replicas <= most and not is_held:
        yield f"{kind} {name} has {replicas} replicas, its bounds are {least} and {most}"
    if policy is None or is_held:
        return
    if kind in PODS and "inUse" not in policy:
        reasons = {each["type"]: each["reason"] for each in conditions}
        if reasons.get("ScalingActive") != "InUseUnknown":
            yield f"nothing tells which pods of {kind} {name} are in use, and its autoscaler says {reasons}"
        return
    free = len([pod for pod in live if pod.is_ready and CLAIMED not in pod.shape.labels])
    target, lower, upper = _marks(policy, max(1, replicas))
    if (free < lower and replicas < most) or (free > upper and replicas > least):
        told = (scaler.get("status") or {}).get("lastDecision")
        yield f"{free} of {replicas} members of {kind} {name} are available, {target} are wanted; it says {told}"


def _marks(policy: Json, replicas: int) -> tuple[int, int, int]:
    """Target, lower and upper watermark, by the document: percentages are added before they are rounded."""
    default = f"{WarmPoolSettings().tolerance_percent}%"
    target: int | str = policy["targetAvailable"]
    common: int | str = policy.get("tolerance", default)
    up: int | str = policy.get("scaleUp", {}).get("tolerance", common)
    down: int | str = policy.get("scaleDown", {}).get("tolerance", common)
    wanted = _amount(target, replicas)
    if isinstance(target, str):
        lower = _amount(_sum(target, up, -1), replicas) if isinstance(up, str) else wanted - up
        upper = _amount(_sum(target, down, 1), replicas) if isinstance(down, str) else wanted + down
    else:
        lower, upper = wanted - _amount(up, wanted), wanted + _amount(down, wanted)
    return wanted, max(lower, 1 if wanted else 0), upper


def _sum(target: str, tolerance: str, sign: int) -> str:
    return f"{max(0, int(target.rstrip('%')) + sign * int(tolerance.rstrip('%')))}%"


def _amount(value: int | str, of: int) -> int:
    return value if isinstance(value, int) else (of * int(value.rstrip("%")) + 99) // 100


def _age(item: Json) -> tuple[str, str]:
    return item["metadata"]["creationTimestamp"], item["metadata"]["name"]


def _bounds(scaler: Json) -> tuple[int, int]:
    return scaler["spec"].get("minReplicas", 0), scaler["spec"]["maxReplicas"]
