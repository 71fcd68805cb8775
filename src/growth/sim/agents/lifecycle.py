"""What happens to nodes whose kubelet is silent, to the pods on them, and to objects whose owner went? The node
controllers and the garbage collector of the embedded cluster.

| it sees | it does |
| --- | --- |
| Ready True | the not-ready and unreachable taints go |
| Ready False | not-ready taint (NoSchedule, and NoExecute for running pods) |
| a kubelet silent for 50 s | Ready Unknown, unreachable taint |
| a server that is gone (with a cloud controller) | the Node is deleted |
| pods on a node that does not exist | deleted by force after a while |
| a NoExecute taint that a pod does not tolerate | the pod is deleted at once |
| one that it tolerates for some seconds | deleted when the shortest are over, counted from when the taint was added |
| an object whose last owner is gone | deleted in the background, a moment later |
| an owner deleted with Orphan, or in the Foreground | its dependents go free; it waits for them |
| a namespace that is gone | everything in it is deleted |

The first group is looked at every five seconds, but only while there is such a node or pod: a healthy cluster costs
nothing.
"""

from __future__ import annotations

from typing import Final

from growth.model.instant import format_instant, parse_instant
from growth.sim.agents.kubelet import Kubelets, ready_status
from growth.sim.apiserver.admission import NOT_READY_TAINT, UNREACHABLE_TAINT
from growth.sim.apiserver.kinds import BY_NAME, KINDS, NAMESPACE, NODE, POD, Json, Kind
from growth.sim.apiserver.refusal import attempt
from growth.sim.apiserver.store import Key, ObjectKey, Store, Write
from growth.sim.apiserver.subresources import set_condition
from growth.sim.apiserver.verbs import FOREGROUND, ORPHAN, Verbs
from growth.sim.clock import Nudge, on_the_beat

SILENT_SECONDS: Final = 50.0
LOOK_SECONDS: Final = 5.0
LOST_POD_SECONDS: Final = 40.0
COLLECT_SECONDS: Final = 0.5


class NodeLifecycle:
    """Taints by condition, evictions by taint, and the collection of pods that lost their node."""

    def __init__(self, verbs: Verbs, kubelets: Kubelets, has_cloud_controller: bool = True) -> None:
        self.has_cloud_controller = has_cloud_controller
        self._verbs = verbs
        self._kubelets = kubelets
        self._dirty: dict[str, None] = {}
        self._taint_soon = Nudge(0.2, self._taint_by_condition)
        self._places = PodPlaces(verbs.store)
        self._evictions = TaintEvictions(verbs.store, self._places)
        self._lost_since: dict[Key, float] = {}
        self._will_look = False
        verbs.store.on_write(self._hear)
        kubelets.on_silence = self._look_soon

    def _hear(self, write: Write) -> None:
        if write.kind is NODE and write.type != "DELETED":
            self._dirty[write.key[1]] = None
            self._taint_soon()
        if write.kind in (NODE, POD):
            self._places.hear(write)
            self._evictions.hear(write)
            if self._places.lost or self._evictions.tainted:
                self._look_soon()

    def _look_soon(self) -> None:
        if not self._will_look:
            self._will_look = True
            on_the_beat(LOOK_SECONDS, self._look)

    def _taint_by_condition(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for name in dirty:
            attempt(self._verbs.modify, NODE, name, "", _set_taints_by_condition, "node-lifecycle")

    def _look(self) -> None:
        self._will_look = False
        self._find_silent_nodes()
        for pod in self._evictions.due(self._verbs.now()):
            self._delete(pod, "taint-eviction")
        self._collect_lost_pods()
        if self._kubelets.died_at or self._places.lost or self._evictions.tainted:
            self._look_soon()

    def _find_silent_nodes(self) -> None:
        now = self._verbs.now()
        for name, died_at in list(self._kubelets.died_at.items()):
            if self._verbs.store.get(NODE, name) is None:
                del self._kubelets.died_at[name]
            elif self._is_gone(name) and now - died_at > LOOK_SECONDS:
                attempt(self._verbs.delete, NODE, name, "", "cloud-controller")
            elif now - died_at > SILENT_SECONDS:
                attempt(self._verbs.modify, NODE, name, "", self._set_unknown, "node-lifecycle", "status")

    def _is_gone(self, name: str) -> bool:
        """Does a cloud controller say so? A machine that is switched off is there."""
        return self.has_cloud_controller and name not in self._kubelets.switched_off

    def _set_unknown(self, node: Json) -> None:
        message = "Kubelet stopped posting node status."
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": message}
        set_condition(node, unknown, format_instant(self._verbs.now()))

    def _collect_lost_pods(self) -> None:
        now = self._verbs.now()
        self._lost_since = {key: self._lost_since.get(key, now) for key in sorted(self._places.lost)}
        for (namespace, name), since in self._lost_since.items():
            orphan = self._verbs.store.read(POD, name, namespace) if now - since >= LOST_POD_SECONDS else None
            if orphan is not None:
                self._delete(orphan, "pod-garbage-collector", gracePeriodSeconds=0)

    def _delete(self, pod: Json, actor: str, **options: int) -> None:
        metadata = pod["metadata"]
        wanted = {**options, "preconditions": {"uid": metadata["uid"]}}
        attempt(self._verbs.delete, POD, metadata["name"], metadata["namespace"], actor, wanted)


def _set_taints_by_condition(node: Json) -> None:
    wanted = {"True": [], "False": [NOT_READY_TAINT]}.get(ready_status(node), [UNREACHABLE_TAINT])
    spec = node.setdefault("spec", {})
    taints = spec.get("taints") or []
    others = [taint for taint in taints if taint["key"] not in (NOT_READY_TAINT, UNREACHABLE_TAINT)]
    before = {(taint["key"], taint["effect"]): taint for taint in taints}
    conditions = (node.get("status") or {}).get("conditions") or []
    since = next((str(one.get("lastTransitionTime", "")) for one in conditions if one["type"] == "Ready"), "")
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


class PodPlaces:
    """Which pods are bound to which node, and which of them to a node that does not exist."""

    def __init__(self, store: Store) -> None:
        self.lost: dict[Key, None] = {}
        self.on_node: dict[str, dict[Key, None]] = {}
        self._store = store
        self._node_of: dict[Key, str] = {}

    def hear(self, write: Write) -> None:
        if write.kind is NODE:
            self._meet(write.key[1])
            return
        key, before = write.key, self._node_of.get(write.key, "")
        node = "" if write.type == "DELETED" else write.item["spec"].get("nodeName", "")
        if node == before:
            return
        self.lost.pop(key, None)
        self._node_of.pop(key, None)
        if before:
            self.on_node[before].pop(key)
            if not self.on_node[before]:
                del self.on_node[before]
        if node:
            self._node_of[key] = node
            self.on_node.setdefault(node, {})[key] = None
            self._meet(node)

    def _meet(self, node: str) -> None:
        exists = self._store.get(NODE, node) is not None
        for key in self.on_node.get(node, ()):
            if exists:
                self.lost.pop(key, None)
            else:
                self.lost[key] = None


class TaintEvictions:
    """Which running pods a NoExecute taint drives away, and when; remembers when taints without a time were first seen.

    On a real cluster Kubernetes does this and growth does not."""

    def __init__(self, store: Store, places: PodPlaces) -> None:
        self.tainted: dict[str, list[Json]] = {}  # nodes, and their taints that drive pods away
        self._store = store
        self._places = places
        self._seen_at: dict[tuple[str, str, str], float] = {}  # node, key, value

    def hear(self, write: Write) -> None:
        if write.kind is NODE:
            taints = (write.item.get("spec") or {}).get("taints") or [] if write.type != "DELETED" else []
            driving = [taint for taint in taints if taint.get("effect") == "NoExecute"]
            if driving:
                self.tainted[write.key[1]] = driving
            else:
                self.tainted.pop(write.key[1], None)

    def due(self, now: float) -> list[Json]:
        """Pods that have to go now."""
        tainted = self.tainted
        here = [(name, taint["key"], taint.get("value", "")) for name, taints in tainted.items() for taint in taints]
        self._seen_at = {seen: self._seen_at.get(seen, now) for seen in here}
        keys = sorted(key for name in tainted for key in self._places.on_node.get(name, ()))
        pods = [pod for key in keys if (pod := self._store.read(POD, key[1], key[0])) is not None]
        return [pod for pod in pods if not pod["metadata"].get("deletionTimestamp") and self._is_due(pod, tainted, now)]

    def _is_due(self, pod: Json, tainted: dict[str, list[Json]], now: float) -> bool:
        node = pod["spec"].get("nodeName", "")
        for taint in tainted.get(node, ()):
            added = taint.get("timeAdded")
            added_at = parse_instant(added) if added else self._seen_at[node, taint["key"], taint.get("value", "")]
            if _stay_seconds(pod, taint) <= now - added_at:
                return True
        return False


def _stay_seconds(pod: Json, taint: Json) -> float:
    """How long the pod may stay after the taint was added."""
    allowed = [toleration for toleration in pod["spec"].get("tolerations") or [] if _tolerates(toleration, taint)]
    if not allowed:
        return float("-inf")
    seconds = (each.get("tolerationSeconds") for each in allowed)
    return min((float(each) for each in seconds if each is not None), default=float("inf"))


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    return toleration.get("operator") == "Exists" or (
        bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
    )


class GarbageCollector:
    """Follows ownerReferences, by UID."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._uids: dict[str, ObjectKey] = {}
        self._dependents: dict[str, dict[ObjectKey, None]] = {}
        self._suspects: dict[ObjectKey, None] = {}
        self._leaving: dict[ObjectKey, None] = {}
        self._step = Nudge(COLLECT_SECONDS, self._collect)
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
            kinds = [(BY_NAME[name], key) for name, key in dependents]
            present = [(each, item) for each, key in kinds if (item := self._verbs.store.read(each, key[1], key[0]))]
            for each, item in present:
                self._delete(each, item)
            if not present:
                finalizers.remove(FOREGROUND)
        owner["metadata"]["finalizers"] = finalizers
        self._verbs.update(kind, owner, "garbage-collector")
        if finalizers:
            self._leaving[kind.name, (metadata.get("namespace", ""), metadata["name"])] = None
            self._step()

    def _set_free(self, kind: Kind, key: Key, uid: str) -> None:
        def without_owner(item: Json) -> None:
            owners = item["metadata"].get("ownerReferences") or []
            item["metadata"]["ownerReferences"] = [owner for owner in owners if owner["uid"] != uid]

        if self._verbs.store.get(kind, key[1], key[0]):
            self._verbs.modify(kind, key[1], key[0], without_owner, "garbage-collector")

    def _delete(self, kind: Kind, item: Json) -> None:
        name, namespace = item["metadata"]["name"], item["metadata"].get("namespace", "")
        options = {"preconditions": {"uid": item["metadata"]["uid"]}}  # not another of the same name
        if not item["metadata"].get("deletionTimestamp"):
            attempt(self._verbs.delete, kind, name, namespace, "garbage-collector", options)

    def _empty(self, namespace: str) -> None:
        for kind in KINDS:
            for item in list(self._verbs.store.read_all(kind, namespace)) if kind.resource.namespaced else ():
                self._delete(kind, item)
