"""What happens to nodes whose kubelet is silent, and to the pods on them? The node controllers of the embedded cluster.

| it sees | it does |
| --- | --- |
| Ready True | the not-ready and unreachable taints go |
| Ready False | not-ready taint (NoSchedule, and NoExecute for running pods) |
| a kubelet silent for 50 s | Ready Unknown, unreachable taint |
| a NoExecute taint a pod does not tolerate, or not any longer | the pod is deleted |
| a server that is gone (with a cloud controller) | the Node is deleted |
| pods on a node that does not exist | deleted by force after a while |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from growth.model.instant import format_instant
from growth.sim.agents.kubelet import Kubelets, ready_status
from growth.sim.agents.taint_evictions import TaintEvictions
from growth.sim.agents.timers import Nudge, every
from growth.sim.apiserver.admission import NOT_READY_TAINT, UNREACHABLE_TAINT
from growth.sim.apiserver.kinds import NODE, POD, Json
from growth.sim.apiserver.refusal import Refusal
from growth.sim.apiserver.store import Write
from growth.sim.apiserver.subresources import set_condition
from growth.sim.apiserver.verbs import Verbs

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
