"""Which nodes get a DaemonSet's pod? Every node that its pod may go to, room apart, as the DaemonSet controller
decides.

Its pods name their node by affinity, carry the automatic tolerations, and are bound by the scheduler like any other.
"""

from __future__ import annotations

import copy
from typing import Final

import msgspec

from growth.kube.codec import Codec
from growth.model.node import Node
from growth.model.pod import Pod, PodShape
from growth.sim.agents.workloads import controller_of, is_active, is_ready, pod_from, report_status
from growth.sim.apiserver.kinds import BY_NAME, NODE, POD, Json
from growth.sim.apiserver.store import Write
from growth.sim.apiserver.verbs import Verbs
from growth.sim.clock import Nudge
from growth.solver.rules import Neighbours, Rule

DAEMON_SET: Final = BY_NAME["DaemonSet"]
STEP_SECONDS: Final = 0.1
_NOWHERE: Final = Node("")
_PLACE_RULES: Final = (Rule.TAINT_TOLERATION, Rule.NODE_AFFINITY, Rule.NODE_NAME)

AUTOMATIC_TOLERATIONS: Final = tuple(
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
    for effect, names in (
        ("NoExecute", ("not-ready", "unreachable")),
        ("NoSchedule", ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")),
    )
    for name in names
)


class DaemonSets:
    """All DaemonSets against all nodes, whenever either changes."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._codec = Codec()
        self._pods: dict[str, dict[str, tuple[str, str]]] = {}  # DaemonSet UID → node → pod
        self._answers: dict[tuple[PodShape, Node], bool] = {}
        self._step = Nudge(STEP_SECONDS, self._reconcile)
        verbs.store.on_write(self._hear)

    def _hear(self, write: Write) -> None:
        owner = controller_of(write.item) if write.kind is POD else None
        if write.kind in (NODE, DAEMON_SET):
            self._step()
        elif owner is not None and owner["kind"] == "DaemonSet":
            pods = self._pods.setdefault(owner["uid"], {})
            node = wanted_node(write.item)
            if write.type == "DELETED" and pods.get(node) == write.key:
                del pods[node]
            elif write.type != "DELETED":
                pods[node] = write.key
            self._step()

    def _reconcile(self) -> None:
        nodes = [self._codec.decode_node(stored.data) for stored in self._verbs.store.all(NODE)]
        for daemon_set in list(self._verbs.store.read_all(DAEMON_SET)):
            if not daemon_set["metadata"].get("deletionTimestamp"):
                template = self._shape(daemon_set)
                wanted = [node.name for node in nodes if self._belongs(template, node, ("NoSchedule", "NoExecute"))]
                kept = [node.name for node in nodes if self._belongs(template, node, ("NoExecute",))]
                self._settle(daemon_set, wanted, kept)

    def _belongs(self, template: Pod, node: Node, effects: tuple[str, ...]) -> bool:
        """By taints of these effects and by selectors; neither room nor a cordon matter. Remembered: most nodes look
        alike from here.
        """
        taints = tuple(taint for taint in node.taints if taint.effect in effects)
        seen = msgspec.structs.replace(_NOWHERE, name=node.name, labels=node.labels, taints=taints)
        known = self._answers.get((template.shape, seen))
        if known is None:
            index = Neighbours([seen])
            reasons = index.every_reason(index.class_of_pod(template), 0)
            known = self._answers[template.shape, seen] = not any(reason.rule in _PLACE_RULES for reason in reasons)
        return known

    def _shape(self, daemon_set: Json) -> Pod:
        pod = _pod_for(daemon_set, "")
        pod["metadata"]["name"] = "template"
        return self._codec.decode_pod(msgspec.json.encode(pod))

    def _settle(self, daemon_set: Json, wanted: list[str], kept: list[str]) -> None:
        pods, namespace = self._pods.get(daemon_set["metadata"]["uid"], {}), daemon_set["metadata"]["namespace"]
        for node in wanted:
            if node not in pods:
                self._verbs.create(POD, _pod_for(daemon_set, node), "daemonset-controller")
        found = [(node, self._verbs.store.read(POD, name, namespace)) for node, (namespace, name) in list(pods.items())]
        for node, pod in found:
            if pod is None or pod["metadata"].get("deletionTimestamp"):
                continue
            if node not in kept or pod["status"].get("phase") == "Failed":
                self._verbs.delete(POD, pod["metadata"]["name"], namespace, "daemonset-controller")
        active = [pod for _, pod in found if pod is not None and is_active(pod)]
        counts = {
            "desiredNumberScheduled": len(wanted),
            "currentNumberScheduled": len(active),
            "numberReady": sum(is_ready(pod) for pod in active),
        }
        report_status(self._verbs, DAEMON_SET, daemon_set, counts, "daemonset-controller")


def _pod_for(daemon_set: Json, node: str) -> Json:
    name = {"generateName": f"{daemon_set['metadata']['name']}-"}
    pod = pod_from(daemon_set, DAEMON_SET, daemon_set["spec"]["template"], name)
    spec = pod["spec"]
    spec["tolerations"] = [*(spec.get("tolerations") or []), *copy.deepcopy(list(AUTOMATIC_TOLERATIONS))]
    if node:  # its name goes into every term of the required affinity, as the controller does
        affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
        for term in required.setdefault("nodeSelectorTerms", [{}]):
            term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    return pod


def wanted_node(pod: Json) -> str:
    """The node a DaemonSet's pod is for."""
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in affinity.get("nodeSelectorTerms") or []:
        for field in term.get("matchFields") or []:
            return str(field["values"][0])
    return str(pod["spec"].get("nodeName", ""))
