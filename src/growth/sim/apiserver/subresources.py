"""What do binding, eviction and scale do? Asked by `apiserver` for requests and by the embedded scheduler for its own
binds.
"""

from __future__ import annotations

from typing import Any, Final

from growth.model.instant import format_instant
from growth.sim.apiserver.kinds import BY_NAME, POD, Json, Kind
from growth.sim.apiserver.refusal import bad_request, conflict, internal, precondition_failed, too_many
from growth.sim.apiserver.selectors import matches_selector
from growth.sim.apiserver.store import Stored
from growth.sim.apiserver.verbs import Verbs

BUDGET: Final = BY_NAME["PodDisruptionBudget"]
_NOT_BLOCKED: Final = ("Succeeded", "Failed", "Pending")


def bind(verbs: Verbs, name: str, namespace: str, binding: Json, actor: str) -> None:
    """Put the pod on a node, once. Whether it fits, or the node exists, is not asked: the scheduler must know."""
    pod = verbs.live(POD, name, namespace)
    target = (binding.get("target") or {}).get("name")
    if not target:
        raise bad_request("target.name: Required value")
    wanted = (binding.get("metadata") or {}).get("uid")
    if wanted and wanted != pod["metadata"]["uid"]:
        raise precondition_failed(POD, name, "UID", wanted, pod["metadata"]["uid"])
    if pod["metadata"].get("deletionTimestamp"):
        raise conflict(POD, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise conflict(POD, name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
    if pod["spec"].get("schedulingGates"):
        raise conflict(POD, name, f"pod {name} has non-empty .spec.schedulingGates")
    pod["spec"]["nodeName"] = target
    pod["status"].pop("nominatedNodeName", None)
    set_condition(pod, {"type": "PodScheduled", "status": "True"}, format_instant(verbs.now()))
    verbs.store.put(POD, pod, actor)


def set_condition(item: Json, condition: Json, at: str) -> bool:
    """Put a condition into the status; False if it says what was said before."""
    conditions = item.setdefault("status", {}).setdefault("conditions", [])
    before = next((one for one in conditions if one["type"] == condition["type"]), None)
    if before is None:
        item["status"]["conditions"] = [*conditions, {**condition, "lastTransitionTime": at}]
        return True
    said = {name: value for name, value in before.items() if name not in ("lastTransitionTime", "lastProbeTime")}
    if said == condition:
        return False
    since = before.get("lastTransitionTime", at) if before["status"] == condition["status"] else at
    written = {**condition, "lastTransitionTime": since}
    item["status"]["conditions"] = [written if one is before else one for one in conditions]
    return True


# ----------------------------------------------------------------------------------------- eviction


def evict(verbs: Verbs, name: str, namespace: str, eviction: Json, actor: str) -> None:
    """Delete the pod unless its disruption budget says not now."""
    pod = verbs.live(POD, name, namespace)
    options = eviction.get("deleteOptions") or {}
    counts = pod.get("status", {}).get("phase") not in _NOT_BLOCKED and not pod["metadata"].get("deletionTimestamp")
    labels = pod["metadata"].get("labels") or {}
    budgets = [
        budget
        for budget in (verbs.store.read_all(BUDGET, namespace) if counts else ())
        if matches_selector(budget["spec"].get("selector"), labels)
    ]
    if len(budgets) > 1:
        why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise internal(why)
    wanted = (options.get("preconditions") or {}).get("uid")
    if budgets and wanted in (None, pod["metadata"]["uid"]):
        _spend(verbs, budgets[0], name)
    verbs.delete(POD, name, namespace, actor, options)


def _spend(verbs: Verbs, budget: Json, pod_name: str) -> None:
    status = budget.get("status") or {}
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        name = budget["metadata"]["name"]
        why = f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        causes = [{"reason": "DisruptionBudget", "message": why}]
        raise too_many("Cannot evict pod as it would violate the pod's disruption budget.", 10, causes)
    disrupted = {**(status.get("disruptedPods") or {}), pod_name: format_instant(verbs.now())}
    budget["status"] = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
    verbs.store.put(BUDGET, budget, "eviction")


# -------------------------------------------------------------------------------------------- scale


def read_scale(kind: Kind, item: Json) -> Json:
    """The Scale of an object."""
    metadata = item["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    kept = {name: metadata[name] for name in shown if name in metadata}
    status: dict[str, Any] = {"replicas": (item.get("status") or {}).get("replicas", 0)}
    selector = (item.get("spec") or {}).get("selector") or {}
    labels = selector.get("matchLabels") if kind.name != "ReplicationController" else selector
    if labels:
        status["selector"] = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    spec = {"replicas": (item.get("spec") or {}).get("replicas", 0)}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": kept, "spec": spec, "status": status}


def write_scale(verbs: Verbs, kind: Kind, name: str, namespace: str, scale: Json, actor: str) -> Stored:
    """Set the replica count; with a resourceVersion in the Scale only if the object is still at it."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        raise bad_request(f"spec.replicas: Invalid value: {replicas}: must be greater than or equal to 0")
    version = (scale.get("metadata") or {}).get("resourceVersion")

    def set_replicas(item: Json) -> None:
        item.setdefault("spec", {})["replicas"] = replicas
        if version:
            item["metadata"]["resourceVersion"] = version

    return verbs.modify(kind, name, namespace, set_replicas, actor)
