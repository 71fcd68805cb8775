"""Are warm pools scaled as their PoolAutoscalers say? A law for every write, and one for the end.

A row of `sim/laws` and one of `sim/laws/settled`. Scenarios scale Deployments whose pods carry the label `claimed`
while they are in use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from growth.sim.apiserver.kinds import BY_NAME, Json
from growth.sim.apiserver.store import Write
from growth.sim.laws.witness import GROWTH, Complaint, Witness

AUTOSCALER: Final = BY_NAME["PoolAutoscaler"]
DEPLOYMENT: Final = BY_NAME["Deployment"]
CLAIMED: Final = "claimed"


def only_replicas_within_bounds(witness: Witness, write: Write) -> Complaint:
    """S12: of a warm pool only the replicas are written, between the bounds of an autoscaler in its own namespace."""
    if write.kind is not DEPLOYMENT or write.actor != GROWTH:
        return None
    namespace, name = write.key
    before = {} if write.before is None else write.before.decoded()["spec"]
    if write.type != "MODIFIED" or {**write.item["spec"], "replicas": 0} != {**before, "replicas": 0}:
        return f"growth changed more than the replicas of Deployment {name}"
    scalers = witness.cluster.store.read_all(AUTOSCALER, namespace)
    bounds = [_bounds(one) for one in scalers if one["spec"]["scaleTargetRef"]["name"] == name]
    if not any(least <= write.item["spec"]["replicas"] <= most for least, most in bounds):
        return f"growth set Deployment {name} to {write.item['spec']['replicas']} replicas; bounds: {bounds}"
    return None


def warm_pools(witness: Witness) -> Iterator[str]:
    """As many pods are available as the autoscaler wants, give or take its tolerance, unless a bound forbids it."""
    for scaler in witness.cluster.store.read_all(AUTOSCALER):
        name, namespace = scaler["spec"]["scaleTargetRef"]["name"], scaler["metadata"]["namespace"]
        pool, (least, most) = witness.cluster.store.read(DEPLOYMENT, name, namespace), _bounds(scaler)
        if pool is None:
            continue
        replicas, policy = pool["spec"]["replicas"], scaler["spec"]["capacityPolicy"]
        pods = [pod for key, pod in witness.pods.items() if key[0] == namespace and pod.shape.labels.get("app") == name]
        free = sum(pod.is_ready and pod.deleted_at is None and CLAIMED not in pod.shape.labels for pod in pods)
        is_short = free < policy["targetAvailable"] - policy["tolerance"] and replicas < most
        if is_short or (free > policy["targetAvailable"] + policy["tolerance"] and replicas > least):
            yield f"{free} of {replicas} pods of {name} are available, {policy['targetAvailable']} are wanted"


def _bounds(scaler: Json) -> tuple[int, int]:
    return scaler["spec"].get("minReplicas", 0), scaler["spec"]["maxReplicas"]
