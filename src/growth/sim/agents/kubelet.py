"""What do kubelets do? Register nodes for servers that booted, make them Ready, run the pods bound to them, and let
pods go.

Hears of servers from the cloud and of pods from the store. One object plays all kubelets of the embedded cluster. Nodes
that carry the KWOK annotation and have no server are played too, as kwok does.

| it sees | after a while it writes |
| --- | --- |
| a server booted | a Node, not ready, with the labels and taints of its template |
| its node exists | Ready, and heartbeats every five minutes |
| a pod bound to it | Running, or Failed (OutOfcpu …) if it does not fit |
| a Running pod that is to finish | Succeeded |
| a pod with deletionTimestamp | the pod is gone, at the latest when its grace is over |
| its server went | nothing ever again |
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct

from growth.kube.codec import Codec
from growth.model.instant import format_instant
from growth.model.pod import Pod
from growth.model.resources import PODS, Resources, format_amount, sum_resources
from growth.providers.simulated import Server
from growth.sim.apiserver.kinds import NODE, POD, Json
from growth.sim.apiserver.refusal import attempt
from growth.sim.apiserver.store import Key, Write
from growth.sim.apiserver.subresources import set_condition
from growth.sim.apiserver.verbs import Verbs
from growth.sim.clock import after, every

KWOK_ANNOTATION: Final = "kwok.x-k8s.io/node"
RUN_SECONDS: Final = "sim.growth.dev/run-seconds"  # on a pod: it succeeds after so long
STOP_SECONDS: Final = "sim.growth.dev/stop-seconds"  # on a pod: it takes so long to end, within its grace
HEARTBEAT_SECONDS: Final = 300.0


class Habits(Struct, frozen=True):
    """How long kubelets take, in virtual seconds: from, to."""

    register_seconds: tuple[float, float] = (0.5, 3.0)
    ready_seconds: tuple[float, float] = (1.0, 8.0)
    start_seconds: tuple[float, float] = (0.5, 3.0)
    stop_seconds: tuple[float, float] = (0.5, 3.0)


class Kubelets:
    """All kubelets at once, by node name."""

    def __init__(self, verbs: Verbs, seed: str = "0", habits: Habits | None = None, scheme: str = "sim") -> None:
        self.habits = habits or Habits()
        self.scheme = scheme  # of the nodes' providerID
        self.alive: dict[str, Server | None] = {}  # nodes with a kubelet; None: played as kwok does
        self.died_at: dict[str, float] = {}
        self.clocks_off_seconds = 0.0  # by which machines say when their nodes became Ready
        self.name_for: Callable[[Server], str] | None = None  # what a machine that boots now calls its node
        self.provider_id_for: Callable[[Server], str] | None = None  # and what it says which machine it is
        self.renamed: dict[str, str] = {}  # servers, by name: their nodes that are called otherwise
        self.strange: dict[str, None] = {}  # nodes whose name or providerID is not that of their server
        self.on_silence: Callable[[], None] = lambda: None  # after `died_at` has grown
        self.switched_off: dict[str, None] = {}  # nodes whose machine is still there
        self._never_ready: dict[str, None] = {}
        self._verbs = verbs
        self._codec = Codec()
        self._bound: dict[str, dict[Key, Pod]] = {}
        self._where: dict[Key, str] = {}
        self._chance = random.Random(f"{seed}/kubelets")
        verbs.store.on_write(self._hear)
        every(HEARTBEAT_SECONDS, self._heartbeat)

    # ---------------------------------------------------------------------------------------- nodes

    def booted(self, server: Server, ready: bool) -> None:
        """The cloud calls this when a server runs. One without a template joins another cluster, or none."""
        if not server.template.labels:
            return
        if self.name_for is not None:
            self.renamed[server.name] = self.name_for(server)
        if not ready:
            self._never_ready[self.node_of(server)] = None
        after(self._draw(self.habits.register_seconds), lambda: self._register(server))
        self.alive[self.node_of(server)] = server

    def node_of(self, server: Server) -> str:
        """What its node is called."""
        return self.renamed.get(server.name, server.name)

    def gone(self, server: Server) -> None:
        """The cloud calls this when a server has gone: its kubelet is silent from now on."""
        name = self.node_of(server)
        self.switched_off.pop(name, None)
        if name in self.alive:
            del self.alive[name]
            self.died_at[name] = self._verbs.now()
            self.on_silence()

    def stopped(self, server: Server) -> None:
        """The cloud calls this when a server stands still, and is still there."""
        self.gone(server)
        self.switched_off[self.node_of(server)] = None

    def restarted(self, name: str) -> None:
        """Its node is registered again, if it is gone."""
        server = self.alive.get(name)
        if server is not None:
            self._register(server)

    def _register(self, server: Server) -> None:
        name, said = self.node_of(server), self.provider_id_for
        if name in self.alive and self._verbs.store.get(NODE, name) is None:
            provider_id = f"{self.scheme}://{server.server_id}" if said is None else said(server)
            self.strange |= {name: None} if said is not None or name != server.name else {}
            attempt(self._verbs.create, NODE, _node_for(server, name, provider_id), "kubelet")

    def _meet(self, name: str) -> None:
        """A node appeared: make it Ready in a while, if there is a kubelet behind it."""
        if name in self.alive and name not in self._never_ready:
            after(self._draw(self.habits.ready_seconds), lambda: self._make_ready(name))

    def _make_ready(self, name: str) -> None:
        if name in self.alive:
            self._post_ready(name)
            for key, pod in list(self._bound.get(name, {}).items()):
                self._start_later(key, pod)

    def _set_ready(self, node: Json) -> None:
        now = format_instant(self._verbs.now() + self.clocks_off_seconds)
        ready = _ready("True", "KubeletReady", "kubelet is posting ready status")
        set_condition(node, {**ready, "lastHeartbeatTime": now}, now)

    def _heartbeat(self) -> None:
        for name in [name for name in self.alive if self.is_ready(name)]:
            self._post_ready(name)

    def _post_ready(self, name: str) -> None:
        attempt(self._verbs.modify, NODE, name, "", self._set_ready, "kubelet", "status")

    def fall_ill(self, name: str, seconds: float) -> None:
        """The node is NotReady for a while."""

        def set_not_ready(node: Json) -> None:
            ill = _ready("False", "KubeletNotReady", "PLEG is not healthy")
            set_condition(node, ill, format_instant(self._verbs.now()))

        if self.is_ready(name):
            attempt(self._verbs.modify, NODE, name, "", set_not_ready, "kubelet", "status")
            after(seconds, lambda: self._make_ready(name))

    def is_ready(self, name: str) -> bool:
        node = self._verbs.store.read(NODE, name)
        return node is not None and ready_status(node) == "True"

    # ----------------------------------------------------------------------------------------- pods

    def _hear(self, write: Write) -> None:
        if write.kind is NODE and write.type != "DELETED":
            annotations = write.item["metadata"].get("annotations") or {}
            is_new_kwok = write.key[1] not in self.alive and KWOK_ANNOTATION in annotations
            if is_new_kwok:
                self.alive[write.key[1]] = None
            if is_new_kwok or write.type == "ADDED":
                self._meet(write.key[1])
        elif write.kind is NODE and write.type == "DELETED" and self.alive.get(write.key[1], write) is None:
            del self.alive[write.key[1]]
        elif write.kind is POD:
            self._hear_pod(write)

    def _hear_pod(self, write: Write) -> None:
        node = write.item["spec"].get("nodeName", "")
        if write.type == "DELETED" or not node:
            self._bound.get(self._where.pop(write.key, ""), {}).pop(write.key, None)
            return
        stored = self._verbs.store.get(POD, write.key[1], write.key[0])
        if stored is None:
            return
        pod = self._codec.decode_pod(stored.data)
        is_new = self._where.get(write.key) != node
        self._where[write.key] = node
        self._bound.setdefault(node, {})[write.key] = pod
        if is_new:
            self._start_later(write.key, pod)
        if pod.deleted_at is not None:
            self._stop_later(write.key, pod, write.item["metadata"])

    def _start_later(self, key: Key, pod: Pod) -> None:
        after(self._draw(self.habits.start_seconds), lambda: self._start(key, pod.uid))

    def _start(self, key: Key, uid: str) -> None:
        node_name, pod = self._here(key, uid)
        if pod is None or pod.phase != "Pending" or pod.deleted_at is not None or not self.is_ready(node_name):
            return
        at, shortage = format_instant(self._verbs.now()), self._why_not_admitted(node_name, pod)
        change = partial(_set_failed, at, shortage) if shortage else partial(_set_running, at)
        attempt(self._verbs.modify, POD, key[1], key[0], change, "kubelet", "status")
        stored = self._verbs.store.read(POD, key[1], key[0]) or {"metadata": {}}
        seconds = (stored["metadata"].get("annotations") or {}).get(RUN_SECONDS)
        if seconds and not shortage:
            after(float(seconds), lambda: self._finish(key, uid))

    def _here(self, key: Key, uid: str) -> tuple[str, Pod | None]:
        """The pod's node, and the pod if that node has a kubelet and it is still the same pod."""
        node_name = self._where.get(key, "")
        pod = self._bound.get(node_name, {}).get(key)
        return node_name, pod if pod is not None and pod.uid == uid and node_name in self.alive else None

    def _why_not_admitted(self, node_name: str, pod: Pod) -> str:
        """As the kubelet's own admission: what is short on this node, if anything."""
        stored = self._verbs.store.get(NODE, node_name)
        if stored is None:
            return ""
        bound = self._bound[node_name].values()
        others = [other for other in bound if other.uid != pod.uid and other.phase == "Running"]
        used = sum_resources([other.shape.requests for other in others]) + Resources({PODS: len(others)})
        free = self._codec.decode_node(stored.data).allocatable - used
        wanted = pod.shape.requests + Resources({PODS: 1})
        for name, amount in wanted.items():
            if amount > free[name]:
                return f"OutOf{name}: needs {format_amount(name, amount)}, has {format_amount(name, free[name])}"
        return ""

    def _finish(self, key: Key, uid: str) -> None:
        _, pod = self._here(key, uid)
        if pod is not None and pod.phase == "Running":
            attempt(self._verbs.modify, POD, key[1], key[0], _set_succeeded, "kubelet", "status")

    def _stop_later(self, key: Key, pod: Pod, metadata: Json) -> None:
        grace = float(metadata.get("deletionGracePeriodSeconds", 30))
        wanted = (metadata.get("annotations") or {}).get(STOP_SECONDS)
        seconds = self._draw(self.habits.stop_seconds) if wanted is None else float(wanted)
        after(min(grace, seconds), lambda: self._stop(key, pod.uid))

    def _stop(self, key: Key, uid: str) -> None:
        if self._here(key, uid)[1] is not None:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
            attempt(self._verbs.delete, POD, key[1], key[0], "kubelet", options)

    def _draw(self, span: tuple[float, float]) -> float:
        return self._chance.uniform(*span)


def ready_status(node: Json) -> str:
    """The status of the Ready condition."""
    conditions = (node.get("status") or {}).get("conditions") or []
    return next((str(one["status"]) for one in conditions if one["type"] == "Ready"), "")


def _ready(status: str, reason: str, message: str) -> Json:
    return {"type": "Ready", "status": status, "reason": reason, "message": message}


def _node_for(server: Server, name: str, provider_id: str) -> Json:
    template = server.template
    taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in template.taints]
    labels = {**template.labels, "kubernetes.io/hostname": name}
    allocatable = server.allocatable.items()
    amounts = {name: format_amount(name, amount) if name == "cpu" else str(amount) for name, amount in allocatable}
    not_ready = _ready("False", "KubeletNotReady", "container runtime network not ready: NetworkReady=false")
    not_ready["lastTransitionTime"] = format_instant(server.created_at)
    return {
        "metadata": {"name": name, "labels": labels, "annotations": dict(template.annotations)},
        "spec": {"providerID": provider_id, "taints": taints},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [not_ready],
            "nodeInfo": {"kubeletVersion": "v1.36.3"},
        },
    }


def _set_running(at: str, pod: Json) -> None:
    pod["status"]["phase"] = "Running"
    pod["status"].setdefault("startTime", at)
    for condition in ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"):
        set_condition(pod, {"type": condition, "status": "True"}, at)


def _set_failed(at: str, why: str, pod: Json) -> None:
    reason, _, short = why.partition(": ")
    message = f"Pod was rejected: Node didn't have enough resource: {short}"
    pod["status"] |= {"phase": "Failed", "reason": reason, "message": message, "startTime": at}


def _set_succeeded(pod: Json) -> None:
    pod["status"]["phase"] = "Succeeded"
