"""What happens to nodes whose kubelet is silent, and to the pods on them? The node controllers of the embedded cluster.

| it sees | it does |
| --- | --- |
| Ready True | the not-ready and unreachable taints go |
| Ready False | not-ready taint (NoSchedule, and NoExecute for running pods) |
| a kubelet silent for 50 s | Ready Unknown, unreachable taint |
| a NoExecute taint a pod does not tolerate, or not any longer | the pod is deleted |
| a server that is gone (with a cloud controller) | the Node is deleted |
| pods on a node that does not exist | deleted by force after a while |

Which running pods does a NoExecute taint drive away, and when? The taint eviction controller of the embedded
cluster.

| the pod, for a NoExecute taint of its node | |
| --- | --- |
| does not tolerate it | goes at once |
| tolerates it, no toleration bounds the stay | stays |
| tolerates it for some seconds | goes when the shortest are over, counted from when the taint was added; if it does not say, from when it was first seen |

NoSchedule and PreferNoSchedule drive nobody away. On a real cluster Kubernetes does all this and growth does not.

Which objects go because their owner went? The garbage collector of the embedded cluster, and what a namespace's end
takes with it.

Deletes dependents in the background a moment after their last owner is gone. An owner deleted with Orphan lets its
dependents go free; one deleted in the Foreground waits for those that block it. Pods of a deleted namespace, and
everything else in it, go too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from growth.model.instant import format_instant, parse_instant
from growth.sim.agents.kubelet import Kubelets, ready_status
from growth.sim.apiserver.admission import NOT_READY_TAINT, UNREACHABLE_TAINT
from growth.sim.apiserver.kinds import BY_NAME, KINDS, NAMESPACE, NODE, POD, Json, Kind
from growth.sim.apiserver.refusal import Refusal
from growth.sim.apiserver.store import Key, Store, Write
from growth.sim.apiserver.subresources import set_condition
from growth.sim.apiserver.verbs import FOREGROUND, ORPHAN, Verbs
from growth.sim.clock import Nudge, every

SILENT_SECONDS: Final = 50.0
LOOK_SECONDS: Final = 5.0
LOST_POD_SECONDS: Final = 40.0


class NodeLifecycle:
    """Taints by condition, evictions by taint, and the collection of what lost its node."""

    def __init__(self, verbs: Verbs, kubelets: Kubelets, has_cloud_controller: bool = True) -> None:
        self.has_cloud_controller = has_cloud_controller
        self._verbs = verbs
        self._kubelets = kubelets
        self._dirty: dict[str, None] = {}
        self._settle = Nudge(0.2, self._settle_taints)
        self._evictions = TaintEvictions(verbs.store)
        self._lost_since: dict[tuple[str, str], float] = {}
        verbs.store.on_write(self._hear)
        every(LOOK_SECONDS, self._look)

    def _hear(self, write: Write) -> None:
        if write.kind is NODE and write.type != "DELETED":
            self._dirty[write.key[1]] = None
            self._settle()

    def _settle_taints(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for name in dirty:
            self._attempt(partial(self._verbs.modify, NODE, name, "", _with_taints_by_condition, "node-lifecycle"))

    # -------------------------------------------------------------------------------------- looking

    def _look(self) -> None:
        self._find_silent_nodes()
        self._evict_by_taint()
        self._collect_lost_pods()

    def _find_silent_nodes(self) -> None:
        now = self._verbs.now()
        for name, died_at in list(self._kubelets.died_at.items()):
            if self._verbs.store.get(NODE, name) is None:
                del self._kubelets.died_at[name]
            elif self.has_cloud_controller and now - died_at > LOOK_SECONDS:
                self._attempt(partial(self._verbs.delete, NODE, name, "", "cloud-controller"))
            elif now - died_at > SILENT_SECONDS:
                self._attempt(
                    partial(self._verbs.modify, NODE, name, "", self._set_unknown, "node-lifecycle", "status")
                )

    def _set_unknown(self, node: Json) -> None:
        unknown = {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
        }
        set_condition(node, unknown, format_instant(self._verbs.now()))

    def _evict_by_taint(self) -> None:
        for pod in self._evictions.due(self._verbs.now()):
            self._delete(pod, "taint-eviction", {})

    def _collect_lost_pods(self) -> None:
        now, lost = self._verbs.now(), {}
        for pod in self._verbs.store.read_all(POD):
            node = pod["spec"].get("nodeName", "")
            if node and self._verbs.store.get(NODE, node) is None:
                key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
                lost[key] = self._lost_since.get(key, now)
        self._lost_since = lost
        for (namespace, name), since in list(lost.items()):
            if now - since >= LOST_POD_SECONDS:
                orphan = self._verbs.store.read(POD, name, namespace)
                if orphan is not None:
                    self._delete(orphan, "pod-garbage-collector", {"gracePeriodSeconds": 0})

    def _delete(self, pod: Json, actor: str, options: Json) -> None:
        metadata = pod["metadata"]
        precondition = {"preconditions": {"uid": metadata["uid"]}}
        self._attempt(
            lambda: self._verbs.delete(POD, metadata["name"], metadata["namespace"], actor, {**options, **precondition})
        )

    def _attempt(self, write: Callable[[], Any]) -> None:
        try:
            write()
        except Refusal:
            return  # changed or gone meanwhile: seen again at the next look


def _with_taints_by_condition(node: Json) -> None:
    wanted = {"True": [], "False": [NOT_READY_TAINT]}.get(ready_status(node), [UNREACHABLE_TAINT])
    spec = node.setdefault("spec", {})
    others = [taint for taint in spec.get("taints") or [] if taint["key"] not in (NOT_READY_TAINT, UNREACHABLE_TAINT)]
    before = {(taint["key"], taint["effect"]): taint for taint in spec.get("taints") or []}
    since = _ready_since(node)
    by_condition = [
        before.get((key, effect))
        or {"key": key, "effect": effect, **({"timeAdded": since} if effect == "NoExecute" else {})}
        for key in wanted
        for effect in ("NoSchedule", "NoExecute")
    ]
    if others or by_condition:
        spec["taints"] = [*others, *by_condition]
    else:
        spec.pop("taints", None)


def _ready_since(node: Json) -> str:
    conditions = (node.get("status") or {}).get("conditions") or []
    return next((str(one.get("lastTransitionTime", "")) for one in conditions if one["type"] == "Ready"), "")


Seen = tuple[str, str, str]  # node, key, value


class TaintEvictions:
    """Remembers when taints that carry no time were first seen."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen_at: dict[Seen, float] = {}

    def due(self, now: float) -> list[Json]:
        """Pods that have to go now."""
        tainted = {
            node["metadata"]["name"]: taints
            for node in self._store.read_all(NODE)
            if (taints := _no_execute_taints(node))
        }
        self._remember(tainted, now)
        if not tainted:
            return []
        bound = ((pod, tainted.get(pod["spec"].get("nodeName", ""))) for pod in self._store.read_all(POD))
        return [
            pod
            for pod, taints in bound
            if taints and not pod["metadata"].get("deletionTimestamp") and self._must_go(pod, taints, now)
        ]

    def _remember(self, tainted: dict[str, list[Json]], now: float) -> None:
        here = [(name, taint["key"], taint.get("value", "")) for name, taints in tainted.items() for taint in taints]
        self._seen_at = {seen: self._seen_at.get(seen, now) for seen in here}

    def _must_go(self, pod: Json, taints: list[Json], now: float) -> bool:
        return any(
            _stay_seconds(pod, taint) <= now - self._added_at(pod["spec"]["nodeName"], taint) for taint in taints
        )

    def _added_at(self, node: str, taint: Json) -> float:
        return (
            parse_instant(taint["timeAdded"])
            if taint.get("timeAdded")
            else self._seen_at[node, taint["key"], taint.get("value", "")]
        )


def _stay_seconds(pod: Json, taint: Json) -> float:
    """How long the pod may stay after the taint was added."""
    allowed = [toleration for toleration in pod["spec"].get("tolerations") or [] if _tolerates(toleration, taint)]
    if not allowed:
        return float("-inf")
    return min(
        (float(each["tolerationSeconds"]) for each in allowed if each.get("tolerationSeconds") is not None),
        default=float("inf"),
    )


def _no_execute_taints(node: Json) -> list[Json]:
    return [taint for taint in (node.get("spec") or {}).get("taints") or [] if taint.get("effect") == "NoExecute"]


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    return toleration.get("operator") == "Exists" or (
        bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
    )


STEP_SECONDS: Final = 0.5
Place = tuple[str, Key]


class GarbageCollector:
    """Follows ownerReferences, by UID."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._uids: dict[str, Place] = {}
        self._dependents: dict[str, dict[Place, None]] = {}
        self._suspects: dict[Place, None] = {}
        self._leaving: dict[Place, None] = {}
        self._step = Nudge(STEP_SECONDS, self._collect)
        verbs.store.on_write(self._hear)

    def _hear(self, write: Write) -> None:
        place, metadata = (write.kind.name, write.key), write.item["metadata"]
        if write.type == "DELETED":
            self._uids.pop(metadata["uid"], None)
            self._suspects |= self._dependents.pop(metadata["uid"], {})
            self._suspects.pop(place, None)
        else:
            self._uids[metadata["uid"]] = place
            for owner in metadata.get("ownerReferences") or []:
                self._dependents.setdefault(owner["uid"], {})[place] = None
                if owner["uid"] not in self._uids:
                    self._suspects[place] = None
            if metadata.get("deletionTimestamp") and {FOREGROUND, ORPHAN} & set(metadata.get("finalizers") or []):
                self._leaving[place] = None
        if self._suspects or self._leaving or (write.kind is NAMESPACE and write.type == "DELETED"):
            self._step()
        if write.kind is NAMESPACE and write.type == "DELETED":
            self._empty(write.key[1])

    def _collect(self) -> None:
        suspects, self._suspects = self._suspects, {}
        for name, key in suspects:
            kind = BY_NAME[name]
            item = self._verbs.store.read(kind, key[1], key[0])
            owners = (item or {}).get("metadata", {}).get("ownerReferences") or []
            if item is not None and owners and not any(owner["uid"] in self._uids for owner in owners):
                self._delete(kind, item)
        leaving, self._leaving = self._leaving, {}
        for name, key in leaving:
            owner = self._verbs.store.read(BY_NAME[name], key[1], key[0])
            if owner is not None:
                self._let_go(BY_NAME[name], owner)

    def _let_go(self, kind: Kind, owner: Json) -> None:
        metadata, finalizers = owner["metadata"], list(owner["metadata"].get("finalizers") or [])
        dependents = list(self._dependents.get(metadata["uid"], {}))
        if ORPHAN in finalizers:
            for name, key in dependents:
                self._set_free(BY_NAME[name], key, metadata["uid"])
            finalizers.remove(ORPHAN)
        elif FOREGROUND in finalizers:
            present = [
                item
                for name, key in dependents
                if (item := self._verbs.store.read(BY_NAME[name], key[1], key[0])) is not None
            ]
            for (name, _key), item in zip(dependents, present, strict=False):
                self._delete(BY_NAME[name], item)
            if not present:
                finalizers.remove(FOREGROUND)
        owner["metadata"]["finalizers"] = finalizers
        self._verbs.update(kind, owner, "garbage-collector")
        if finalizers:
            self._leaving[kind.name, (metadata.get("namespace", ""), metadata["name"])] = None
            self._step()

    def _set_free(self, kind: Kind, key: Key, uid: str) -> None:
        def without_owner(item: Json) -> None:
            item["metadata"]["ownerReferences"] = [
                owner for owner in item["metadata"].get("ownerReferences") or [] if owner["uid"] != uid
            ]

        if self._verbs.store.get(kind, key[1], key[0]):
            self._verbs.modify(kind, key[1], key[0], without_owner, "garbage-collector")

    def _delete(self, kind: Kind, item: Json) -> None:
        metadata = item["metadata"]
        if not metadata.get("deletionTimestamp"):
            try:
                self._verbs.delete(
                    kind,
                    metadata["name"],
                    metadata.get("namespace", ""),
                    "garbage-collector",
                    {"preconditions": {"uid": metadata["uid"]}},
                )
            except Refusal:
                return  # replaced by another of the same name

    def _empty(self, namespace: str) -> None:
        for kind in KINDS:
            for item in list(self._verbs.store.read_all(kind, namespace)) if kind.resource.namespaced else ():
                self._delete(kind, item)
