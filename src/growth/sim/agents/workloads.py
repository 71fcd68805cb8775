"""Which pods should there be, and how many of them may be disrupted? The workload controllers of the embedded cluster:
one table, one step for each kind.

| kind | the controller makes |
| --- | --- |
| Deployment | one ReplicaSet for its template; an older one is scaled to zero |
| ReplicaSet | as many pods as it says; pods that failed or are going do not count |
| StatefulSet | pods name-0 … name-n, all at once |
| SandboxSet | as many pods as it says that nobody has claimed; a claimed one is no concern of it any more |
| SandboxWarmPool | the same, made from the SandboxTemplate that it names |
| Job | pods until so many have succeeded, so many at a time |
| PodDisruptionBudget | its status, which evictions look at |

Controllers hear of writes and reconcile what they touch a moment later. DaemonSets have their own file.
"""

from __future__ import annotations

import copy
import math
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from growth.model.instant import parse_instant
from growth.sim.apiserver.kinds import BY_NAME, CLAIMED, POD, Json, Kind
from growth.sim.apiserver.refusal import attempt
from growth.sim.apiserver.selectors import matches_selector
from growth.sim.apiserver.store import Key, ObjectKey, Write
from growth.sim.apiserver.verbs import Verbs
from growth.sim.clock import Nudge

DEPLOYMENT, REPLICA_SET, STATEFUL_SET, JOB, BUDGET = (
    BY_NAME[name] for name in ("Deployment", "ReplicaSet", "StatefulSet", "Job", "PodDisruptionBudget")
)
SANDBOX_SET, SANDBOX_WARM_POOL, SANDBOX_TEMPLATE = (
    BY_NAME[name] for name in ("SandboxSet", "SandboxWarmPool", "SandboxTemplate")
)
STEP_SECONDS: Final = 0.05
BUDGET_SECONDS: Final = 0.1
PODS_PER_STEP: Final = 100
_FINISHED: Final = ("Succeeded", "Failed")
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


class Member(Struct, frozen=True):
    """What a controller needs to know of one of its pods."""

    key: Key
    phase: str
    created: str
    is_active: bool
    is_ready: bool
    is_leaving: bool
    is_claimed: bool
    uid: str
    node: str
    ready_since: str
    deletion_cost: int

    def deletion_rank(self, now: float, beside: Mapping[str, int]) -> tuple[bool, bool, bool, int, int, int, int, str]:
        """The order of Kubernetes: unbound first, then not running, then not ready, the smaller deletion cost, more of
        them on its node, ready and made more recently (by powers of two of the time), the smaller UID.
        """
        return (
            bool(self.node),
            self.phase == "Running",
            self.is_ready,
            self.deletion_cost,
            -beside.get(self.node, 0),
            _power_of_two(now, self.ready_since) if self.is_ready else 0,
            _power_of_two(now, self.created),
            self.uid,
        )


class Workloads:
    """Deployments, ReplicaSets, StatefulSets and Jobs."""

    def __init__(self, verbs: Verbs) -> None:
        self.verbs = verbs
        self._dirty: dict[ObjectKey, None] = {}
        self._pods: dict[str, dict[Key, Member]] = {}  # by the owner's UID
        self._replica_sets: dict[str, dict[Key, None]] = {}
        self._done: dict[str, dict[Key, None]] = {}  # pods of Jobs that succeeded
        self._step = Nudge(STEP_SECONDS, self._reconcile)
        self._steps: dict[str, Callable[[Json], bool]] = {
            "Deployment": self._deployment,
            "ReplicaSet": self._replica_set,
            "StatefulSet": self._stateful_set,
            "SandboxSet": self._sandbox_set,
            "SandboxWarmPool": self._sandbox_warm_pool,
            "Job": self._job,
        }
        verbs.store.on_write(self._hear)

    def _hear(self, write: Write) -> None:
        owner = controller_of(write.item)
        if owner is not None and owner["kind"] in self._steps:
            self._learn(write, owner["uid"])
            self._touch((owner["kind"], (write.key[0], owner["name"])))
        if write.kind.name in self._steps and write.type != "DELETED":
            self._touch((write.kind.name, write.key))

    def _touch(self, what: ObjectKey) -> None:
        self._dirty[what] = None
        self._step()

    def _reconcile(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for kind, key in dirty:
            item = self.verbs.store.read(BY_NAME[kind], key[1], key[0])
            if item is not None and not item["metadata"].get("deletionTimestamp") and self._steps[kind](item):
                self._touch((kind, key))

    def _learn(self, write: Write, owner_uid: str) -> None:
        pods, sets = self._pods.setdefault(owner_uid, {}), self._replica_sets.setdefault(owner_uid, {})
        if write.type == "DELETED":
            pods.pop(write.key, None)
            sets.pop(write.key, None)
        elif write.kind is POD:
            pods[write.key] = _member(write.item, write.key)
        else:
            sets[write.key] = None

    def _members(self, owner: Json) -> list[Member]:
        return list(self._pods.get(owner["metadata"]["uid"], {}).values())

    # ------------------------------------------------------------------------------------ the steps
    # Each returns True when there is more to do than one step may.

    def _deployment(self, deployment: Json) -> bool:
        spec, metadata, actor = deployment["spec"], deployment["metadata"], "deployment-controller"
        digest = f"{zlib.crc32(msgspec.json.encode(spec['template'], order='deterministic')):08x}"
        name = f"{metadata['name']}-{digest}"
        keys = list(self._replica_sets.get(metadata["uid"], {}))
        sets = {key[1]: self.verbs.live(REPLICA_SET, key[1], key[0]) for key in keys}
        if name not in sets:
            attempt(self.verbs.create, REPLICA_SET, _replica_set_for(deployment, name, digest), actor)
        for other, one in sets.items():
            wanted = spec.get("replicas", 1) if other == name else 0
            if one["spec"].get("replicas") != wanted:
                change = partial(_set_replicas, wanted)
                attempt(self.verbs.modify, REPLICA_SET, other, metadata["namespace"], change, actor)
        current = sets.get(name, {}).get("status") or {}
        counts = {key: current.get(key, 0) for key in ("replicas", "readyReplicas", "availableReplicas")}
        self._report(DEPLOYMENT, deployment, counts)
        return False

    def _replica_set(self, replica_set: Json) -> bool:
        return self._equal_pods(replica_set, REPLICA_SET, [pod for pod in self._members(replica_set) if pod.is_active])

    def _sandbox_set(self, sandbox_set: Json) -> bool:
        return self._equal_pods(sandbox_set, SANDBOX_SET, self._free(sandbox_set))

    def _sandbox_warm_pool(self, pool: Json) -> bool:
        name, namespace = pool["spec"]["sandboxTemplateRef"]["name"], pool["metadata"]["namespace"]
        template = self.verbs.store.read(SANDBOX_TEMPLATE, name, namespace)
        if template is None:
            return False
        made_from = {**pool, "spec": {**pool["spec"], "template": template["spec"]["podTemplate"]}}
        return self._equal_pods(made_from, SANDBOX_WARM_POOL, self._free(pool))

    def _free(self, owner: Json) -> list[Member]:
        return [pod for pod in self._members(owner) if pod.is_active and not pod.is_claimed]

    def _equal_pods(self, owner: Json, kind: Kind, pods: list[Member]) -> bool:
        wanted, metadata = owner["spec"].get("replicas", 1), owner["metadata"]
        for _ in range(min(PODS_PER_STEP, wanted - len(pods))):
            self._create_pod(owner, kind, {"generateName": f"{metadata['name']}-"})
        beside, now = Counter(pod.node for pod in pods), self.verbs.now()
        for pod in sorted(pods, key=lambda pod: pod.deletion_rank(now, beside))[: max(0, len(pods) - wanted)]:
            self._delete_pod(pod)
        self._report(kind, owner, _counts(pods))
        return bool(wanted - len(pods) > PODS_PER_STEP)

    def _stateful_set(self, stateful_set: Json) -> bool:
        spec, name = stateful_set["spec"], stateful_set["metadata"]["name"]
        first = (spec.get("ordinals") or {}).get("start", 0)
        ordinals = range(first, first + spec.get("replicas", 1))
        pods = {pod.key[1]: pod for pod in self._members(stateful_set)}
        missing = [pod_name for pod_name in (f"{name}-{ordinal}" for ordinal in ordinals) if pod_name not in pods]
        for pod_name in missing[:PODS_PER_STEP]:
            self._create_pod(stateful_set, STATEFUL_SET, {"name": pod_name})
        for pod_name, pod in pods.items():
            if int(pod_name.rpartition("-")[2]) not in ordinals or pod.phase in _FINISHED:
                self._delete_pod(pod)
        self._report(STATEFUL_SET, stateful_set, _counts(list(pods.values())))
        return len(missing) > PODS_PER_STEP

    def _job(self, job: Json) -> bool:
        spec, pods = job["spec"], self._members(job)
        done = self._done.setdefault(job["metadata"]["uid"], {})  # a finished pod may go with its node
        done |= {pod.key: None for pod in pods if pod.phase == "Succeeded"}
        active = sum(pod.is_active for pod in pods)
        wanted = 0 if spec.get("suspend") else min(spec["parallelism"], spec["completions"] - len(done))
        for _ in range(min(PODS_PER_STEP, wanted - active)):
            self._create_pod(job, JOB, {"generateName": f"{job['metadata']['name']}-"})
        self._report(JOB, job, {"active": active, "succeeded": len(done)})
        return bool(wanted - active > PODS_PER_STEP)

    # --------------------------------------------------------------------------------------- writes

    def _create_pod(self, owner: Json, kind: Kind, name: Json) -> None:
        pod = pod_from(owner, kind, owner["spec"]["template"], name)
        attempt(self.verbs.create, POD, pod, f"{kind.name.lower()}-controller")

    def _delete_pod(self, pod: Member) -> None:
        if not pod.is_leaving:
            attempt(self.verbs.delete, POD, pod.key[1], pod.key[0], "workload-controller")

    def _report(self, kind: Kind, item: Json, counts: Json) -> None:
        counts["observedGeneration"] = item["metadata"].get("generation", 0)
        report_status(self.verbs, kind, item, counts, "workload-controller")


def report_status(verbs: Verbs, kind: Kind, item: Json, changes: Json, actor: str) -> None:
    """Write the object's status, where these values change it."""
    status, metadata = {**(item.get("status") or {}), **changes}, item["metadata"]
    if status != item.get("status"):
        change = partial(_set_status, status)
        attempt(verbs.modify, kind, metadata["name"], metadata["namespace"], change, actor, "status")


def _counts(pods: list[Member]) -> Json:
    ready = sum(pod.is_ready for pod in pods)
    return {"replicas": len(pods), "readyReplicas": ready, "availableReplicas": ready}


def controller_of(item: Json) -> Json | None:
    """The owner that controls an object."""
    return next((owner for owner in item["metadata"].get("ownerReferences") or [] if owner.get("controller")), None)


def is_active(pod: Json) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and pod["status"].get("phase") not in _FINISHED


def is_ready(pod: Json) -> bool:
    return is_active(pod) and any(
        one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions") or []
    )


def reference_to(owner: Json, kind: Kind) -> Json:
    metadata = owner["metadata"]
    named = {"apiVersion": kind.api_version, "kind": kind.name, "name": metadata["name"], "uid": metadata["uid"]}
    return {**named, "controller": True, "blockOwnerDeletion": True}


def pod_from(owner: Json, kind: Kind, template: Json, name: Json) -> Json:
    """A pod of a workload's template."""
    owned = {"namespace": owner["metadata"]["namespace"], "ownerReferences": [reference_to(owner, kind)]}
    metadata = {**copy.deepcopy(template.get("metadata") or {}), **name, **owned}
    return {"metadata": metadata, "spec": copy.deepcopy(template["spec"])}


def _replica_set_for(deployment: Json, name: str, digest: str) -> Json:
    spec, template = deployment["spec"], copy.deepcopy(deployment["spec"]["template"])
    template.setdefault("metadata", {}).setdefault("labels", {})["pod-template-hash"] = digest
    labels, namespace = dict(template["metadata"]["labels"]), deployment["metadata"]["namespace"]
    owners = [reference_to(deployment, DEPLOYMENT)]
    return {
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": owners, "labels": labels},
        "spec": {"replicas": spec.get("replicas", 1), "selector": {"matchLabels": labels}, "template": template},
    }


def _set_replicas(count: int, item: Json) -> None:
    item["spec"]["replicas"] = count


def _set_status(status: Json, item: Json) -> None:
    item["status"] = status


def _member(pod: Json, key: Key) -> Member:
    metadata = pod["metadata"]
    is_leaving = bool(metadata.get("deletionTimestamp"))
    return Member(
        key,
        pod["status"].get("phase", ""),
        metadata["creationTimestamp"],
        is_active(pod),
        is_ready(pod),
        is_leaving,
        CLAIMED in (metadata.get("labels") or {}),
        metadata["uid"],
        pod["spec"].get("nodeName") or "",
        _ready_since(pod),
        int((metadata.get("annotations") or {}).get(_DELETION_COST, 0)),
    )


def _ready_since(pod: Json) -> str:
    conditions = pod["status"].get("conditions") or []
    return next((one.get("lastTransitionTime", "") for one in conditions if one["type"] == "Ready"), "")


def _power_of_two(now: float, since: str) -> int:
    return int(max(0.0, now - parse_instant(since)) * 1e9).bit_length() if since else 0


class DisruptionBudgets:
    """All budgets, whenever a pod or a budget changes."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._step = Nudge(BUDGET_SECONDS, self._count)
        verbs.store.on_write(self._hear)

    def _hear(self, write: Write) -> None:
        if write.kind is BUDGET or (write.kind is POD and self._verbs.store.shelf(BUDGET).items):
            self._step()

    def _count(self) -> None:
        for budget in list(self._verbs.store.read_all(BUDGET)):
            report_status(self._verbs, BUDGET, budget, self._status(budget), "disruption-controller")

    def _status(self, budget: Json) -> Json:
        spec, namespace = budget["spec"], budget["metadata"]["namespace"]
        pods = [
            pod
            for pod in self._verbs.store.read_all(POD, namespace)
            if matches_selector(spec.get("selector"), pod["metadata"].get("labels") or {})
        ]
        expected = sum(pod["status"].get("phase") not in _FINISHED for pod in pods)
        active = {pod["metadata"]["name"] for pod in pods if is_active(pod)}
        evicted = (budget.get("status") or {}).get("disruptedPods") or {}
        going = {name: at for name, at in evicted.items() if name in active}
        healthy = sum(is_ready(pod) and pod["metadata"]["name"] not in going for pod in pods)
        least = max(0, expected - _amount(spec.get("maxUnavailable", 1), expected))
        desired = _amount(spec["minAvailable"], expected) if "minAvailable" in spec else least
        return {
            "expectedPods": expected,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": max(0, healthy - desired),
            "disruptedPods": going,
            "observedGeneration": budget["metadata"].get("generation", 0),
        }


def _amount(value: int | str, total: int) -> int:
    return math.ceil(total * int(value.rstrip("%")) / 100) if isinstance(value, str) else value
