"""Which node does a pending pod get? The kube-scheduler of the embedded cluster.

Hears of writes with a lag, as the real one does through its caches, and remembers its own binds at once. Pods are tried in the order of
priority and age; a pod that fits nowhere gets PodScheduled=False with the familiar message, loses its nomination, and is tried again
after something in the cluster changed, no sooner than its back-off of 1 to 10 s allows.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Final

from msgspec import Struct

from growth.kube.codec import Codec
from growth.model.instant import format_instant
from growth.model.node import Node
from growth.model.pod import Pod
from growth.model.resources import NOTHING, PODS, Resources
from growth.sim.fits import why_not
from growth.sim.kinds import NODE, POD, Json
from growth.sim.refusal import Refusal
from growth.sim.scoring import best_node
from growth.sim.store import Key, Write
from growth.sim.subresources import bind, set_condition
from growth.sim.timers import Nudge, after, every
from growth.sim.verbs import Verbs

NAME: Final = "default-scheduler"
STEP_SECONDS: Final = 0.05
PODS_PER_STEP: Final = 20
FLUSH_SECONDS: Final = 300.0  # unschedulable pods are tried again after so long even if nothing changed
_ONE_POD: Final = Resources({PODS: 1})


class Waiting(Struct):
    """A pod without a node, and when it may be tried again."""

    pod: Pod
    failures: int = 0
    not_before: float = 0.0
    parked_at_version: int = -1  # nothing changed since then: trying again would fail again
    parked_at: float = 0.0


class HostedNode:
    """A node as the scheduler sees it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.pods: dict[Key, Pod] = {}
        self.used = NOTHING

    def put(self, key: Key, pod: Pod) -> None:
        self.take(key)
        self.pods[key] = pod
        self.used = self.used + pod.shape.requests + _ONE_POD

    def take(self, key: Key) -> None:
        pod = self.pods.pop(key, None)
        if pod is not None:
            self.used = self.used - pod.shape.requests - _ONE_POD

    def free(self, besides: Resources = NOTHING) -> Resources:
        return self.node.allocatable - self.used - besides


class Scheduler:
    """All pods that name the default scheduler."""

    def __init__(self, verbs: Verbs, seed: str = "0", lag_seconds: float = 0.02) -> None:
        self.lag_seconds = lag_seconds
        self.nodes: dict[str, HostedNode] = {}
        self.waiting: dict[Key, Waiting] = {}
        self._verbs = verbs
        self._codec = Codec()
        self._chance = random.Random(f"{seed}/scheduler")
        self._heard: deque[tuple[float, str, Key, Pod | Node | None]] = deque()
        self._placed: dict[Key, str] = {}
        self._homeless: dict[str, dict[Key, Pod]] = {}  # pods on nodes that are not known (yet)
        self._version = 0
        self._step = Nudge(STEP_SECONDS, self._run)
        verbs.store.on_write(self._hear)
        every(FLUSH_SECONDS, self._flush)

    # ------------------------------------------------------------------------------------------------------------ hearing

    def _hear(self, write: Write) -> None:
        if write.kind not in (POD, NODE):
            return
        stored = None if write.type == "DELETED" else self._verbs.store.get(write.kind, write.key[1], write.key[0])
        noun: Pod | Node | None = None
        if stored is not None:
            noun = self._codec.decode_pod(stored.data) if write.kind is POD else self._codec.decode_node(stored.data)
        self._heard.append((self._verbs.now() + self.lag_seconds, write.kind.name, write.key, noun))
        after(self.lag_seconds, self._step)

    def _catch_up(self) -> None:
        while self._heard and self._heard[0][0] <= self._verbs.now() + 1e-6:
            _, kind, key, noun = self._heard.popleft()
            if kind == "Node":
                self._learn_node(key[1], noun)
            else:
                self._learn_pod(key, noun)

    def _learn_node(self, name: str, node: Pod | Node | None) -> None:
        if not isinstance(node, Node):
            gone = self.nodes.pop(name, None)
            self._homeless[name] = gone.pods if gone else {}
        elif name in self.nodes:
            before = self.nodes[name].node
            self.nodes[name].node = node
            if (before.labels, before.taints, before.allocatable, before.is_unschedulable) == (
                node.labels,
                node.taints,
                node.allocatable,
                node.is_unschedulable,
            ):
                return
        else:
            self.nodes[name] = HostedNode(node)
            for key, pod in self._homeless.pop(name, {}).items():
                self.nodes[name].put(key, pod)
        self._version += 1

    def _learn_pod(self, key: Key, pod: Pod | Node | None) -> None:
        if not isinstance(pod, Pod) or pod.is_finished:
            self.waiting.pop(key, None)
            if self._forget_place(key):
                self._version += 1
        elif pod.node_name:
            self.waiting.pop(key, None)
            self._place(key, pod, pod.node_name)
        elif pod.shape.scheduler_name == NAME and not pod.is_gated and pod.deleted_at is None:
            self._forget_place(key)
            waiting = self.waiting.setdefault(key, Waiting(pod))
            if (waiting.pod.shape, waiting.pod.nominated_node, waiting.pod.uid) != (pod.shape, pod.nominated_node, pod.uid):
                waiting.parked_at_version = -1
            waiting.pod = pod
        else:
            self.waiting.pop(key, None)

    def _place(self, key: Key, pod: Pod, node_name: str) -> None:
        self._forget_place(key)
        self._placed[key] = node_name
        if node_name in self.nodes:
            self.nodes[node_name].put(key, pod)
        else:
            self._homeless.setdefault(node_name, {})[key] = pod

    def _forget_place(self, key: Key) -> bool:
        name = self._placed.pop(key, None)
        if name is None:
            return False
        if name in self.nodes:
            self.nodes[name].take(key)
        self._homeless.get(name, {}).pop(key, None)
        return True

    # --------------------------------------------------------------------------------------------------------- scheduling

    def _flush(self) -> None:
        for waiting in self.waiting.values():
            waiting.parked_at_version = -1
        self._step()

    def _run(self) -> None:
        self._catch_up()
        now = self._verbs.now()
        due = [(key, waiting) for key, waiting in self.waiting.items() if waiting.parked_at_version != self._version and waiting.not_before <= now]
        due.sort(key=lambda entry: (-entry[1].pod.shape.priority, entry[1].pod.created_at, entry[0]))
        for key, waiting in due[:PODS_PER_STEP]:
            self._try(key, waiting)
        self._wake_again(len(due) > PODS_PER_STEP)

    def _wake_again(self, has_more: bool) -> None:
        now = self._verbs.now()
        later = [waiting.not_before - now for waiting in self.waiting.values() if waiting.parked_at_version != self._version]
        if has_more:
            self._step()
        elif later:
            after(max(STEP_SECONDS, min(later)), self._step)

    def _try(self, key: Key, waiting: Waiting) -> None:
        pod = waiting.pod
        reasons: dict[str, int] = {}
        fitting = [hosted for hosted in self.nodes.values() if self._fits(key, pod, hosted, reasons)]
        nominated = [hosted for hosted in fitting if hosted.node.name == pod.nominated_node]
        chosen = nominated[0] if nominated else best_node(pod, fitting, list(self.nodes.values()), self._chance) if fitting else None
        if chosen is None:
            self._fail(key, waiting, _message(len(self.nodes), reasons))
        else:
            self._bind(key, waiting, chosen.node.name)

    def _fits(self, key: Key, pod: Pod, hosted: HostedNode, reasons: dict[str, int]) -> bool:
        reason = why_not(pod, hosted.node, hosted.free(self._held_for_others(key, pod, hosted.node.name)))
        if reason is not None:
            reasons[reason] = reasons.get(reason, 0) + 1
        return reason is None

    def _held_for_others(self, key: Key, pod: Pod, node_name: str) -> Resources:
        """Room that pods of the same or a higher priority are nominated for."""
        held = NOTHING
        for other_key, other in self._nominated(node_name):
            if other_key != key and other.shape.priority >= pod.shape.priority:
                held = held + other.shape.requests + _ONE_POD
        return held

    def _nominated(self, node_name: str) -> list[tuple[Key, Pod]]:
        return [(key, waiting.pod) for key, waiting in self.waiting.items() if waiting.pod.nominated_node == node_name]

    def _bind(self, key: Key, waiting: Waiting, node_name: str) -> None:
        binding: Json = {"metadata": {"uid": waiting.pod.uid}, "target": {"name": node_name}}
        try:
            bind(self._verbs, key[1], key[0], binding, "scheduler")
        except Refusal:
            waiting.not_before = self._verbs.now() + 1.0  # bound or gone meanwhile: its next version is heard of
            return
        self.waiting.pop(key, None)
        self._place(key, waiting.pod, node_name)

    def _fail(self, key: Key, waiting: Waiting, message: str) -> None:
        now = self._verbs.now()
        waiting.failures += 1
        waiting.not_before = now + min(10.0, 2.0 ** (waiting.failures - 1))
        waiting.parked_at_version, waiting.parked_at = self._version, now

        def say(pod: Json) -> None:
            set_condition(pod, {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}, format_instant(now))
            pod["status"].pop("nominatedNodeName", None)

        try:
            self._verbs.modify(POD, key[1], key[0], say, "scheduler", "status")
        except Refusal:
            return  # gone meanwhile


def _message(node_count: int, reasons: dict[str, int]) -> str:
    if not node_count:
        return "no nodes available to schedule pods"
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return (
        f"0/{node_count} nodes are available: {listed}. preemption: 0/{node_count} nodes are available: {node_count} Preemption is not helpful for scheduling."
    )
