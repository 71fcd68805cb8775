"""Which node does a pending pod get? The kube-scheduler of the embedded cluster.

Hears of writes with a lag, as the real one does through its caches, and remembers its own binds at once. Pods are tried
in the order of priority and age; a pod that fits nowhere gets PodScheduled=False with the familiar message, loses its
nomination, and is tried again after something in the cluster changed, no sooner than its back-off of 1 to 10 s allows.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any, Final

from msgspec import Struct

from growth.kube.codec import Codec
from growth.model.instant import format_instant
from growth.model.labels import Labels
from growth.model.malformed import Malformed
from growth.model.node import Node
from growth.model.pod import Pod
from growth.model.snapshot import VolumeWorld
from growth.sim.agents.node_choice import SchedulerCache, best_node
from growth.sim.apiserver.kinds import BY_NAME, NODE, POD, Json
from growth.sim.apiserver.refusal import Refusal, attempt
from growth.sim.apiserver.store import Key, Write
from growth.sim.apiserver.subresources import bind, set_condition
from growth.sim.apiserver.verbs import Verbs
from growth.sim.clock import Nudge, after, every

NAME: Final = "default-scheduler"
STEP_SECONDS: Final = 0.05
PODS_PER_STEP: Final = 20
FLUSH_SECONDS: Final = 300.0  # unschedulable pods are tried again after so long even if nothing changed
_BACKGROUND: Final = tuple(
    BY_NAME[name] for name in ("Namespace", "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode")
)


class Waiting(Struct):
    """A pod without a node, and when it may be tried again."""

    pod: Pod
    failures: int = 0
    not_before: float = 0.0
    parked_at_version: int = -1  # nothing changed since then: trying again would fail again


class Scheduler:
    """All pods that name the default scheduler."""

    def __init__(self, verbs: Verbs, seed: str = "0", lag_seconds: float = 0.02) -> None:
        self.lag_seconds = lag_seconds
        self.cache = SchedulerCache(self._world)
        self.waiting: dict[Key, Waiting] = {}
        self._verbs = verbs
        self._codec = Codec()
        self._chance = random.Random(f"{seed}/scheduler")
        self._heard: deque[tuple[float, str, Key, Pod | Node | None]] = deque()
        self._step = Nudge(STEP_SECONDS, self._run)
        verbs.store.on_write(self._hear)
        every(FLUSH_SECONDS, self._flush)

    # -------------------------------------------------------------------------------------- hearing

    def _hear(self, write: Write) -> None:
        if write.kind not in (POD, NODE, *_BACKGROUND):
            return
        stored = None if write.type == "DELETED" else self._verbs.store.get(write.kind, write.key[1], write.key[0])
        noun: Pod | Node | None = None
        if stored is not None and write.kind in (POD, NODE):
            noun = self._codec.decode_pod(stored.data) if write.kind is POD else self._codec.decode_node(stored.data)
        self._heard.append((self._verbs.now() + self.lag_seconds, write.kind.name, write.key, noun))
        after(self.lag_seconds, self._step)

    def _catch_up(self) -> None:
        while self._heard and self._heard[0][0] <= self._verbs.now() + 1e-6:
            _, kind, key, noun = self._heard.popleft()
            if kind == "Pod":
                self._learn_pod(key, noun if isinstance(noun, Pod) else None)
            elif kind == "Node":
                self.cache.learn_node(key[1], noun if isinstance(noun, Node) else None)
            else:
                self.cache.forget_index()

    def _learn_pod(self, key: Key, pod: Pod | None) -> None:
        if pod is None or pod.is_finished:
            self.waiting.pop(key, None)
            self.cache.version += self.cache.displace(key)
        elif pod.node_name:
            self.waiting.pop(key, None)
            self.cache.place(key, pod, pod.node_name)
        elif pod.shape.scheduler_name == NAME and not pod.is_gated and pod.deleted_at is None:
            self.cache.displace(key)
            waiting = self.waiting.setdefault(key, Waiting(pod))
            before = waiting.pod
            if (before.shape, before.nominated_node, before.uid) != (pod.shape, pod.nominated_node, pod.uid):
                waiting.parked_at_version = -1
            waiting.pod = pod
        else:
            self.waiting.pop(key, None)

    def _world(self) -> tuple[VolumeWorld, dict[str, Labels]]:
        """Volumes and namespaces as they are in the store."""
        read: list[Any] = []
        for kind in _BACKGROUND:
            decoded = [self._codec.decode(kind.name, stored.data) for stored in self._verbs.store.all(kind)]
            read.append({one.key: one.noun for one in decoded if not isinstance(one.noun, Malformed)})
        namespaces, *volumes = read
        return VolumeWorld(*volumes), namespaces

    # ----------------------------------------------------------------------------------- scheduling

    def _flush(self) -> None:
        for waiting in self.waiting.values():
            waiting.parked_at_version = -1
        self._step()

    def _run(self) -> None:
        self._catch_up()
        now = self._verbs.now()
        due = [(key, waiting) for key, waiting in self._unparked() if waiting.not_before <= now]
        due.sort(key=lambda entry: (-entry[1].pod.shape.priority, entry[1].pod.created_at, entry[0]))
        for key, waiting in due[:PODS_PER_STEP]:
            self._try(key, waiting)
        if len(due) > PODS_PER_STEP:
            self._step()
        elif later := [waiting.not_before - now for _, waiting in self._unparked()]:
            after(max(STEP_SECONDS, min(later)), self._step)

    def _unparked(self) -> list[tuple[Key, Waiting]]:
        return [entry for entry in self.waiting.items() if entry[1].parked_at_version != self.cache.version]

    def _try(self, key: Key, waiting: Waiting) -> None:
        pod = waiting.pod
        fitting = self.cache.fitting(pod, self._held_by_others(key, pod))
        nominated = [info for info in fitting if info.node.name == pod.nominated_node]
        if nominated:
            self._bind(key, waiting, pod.nominated_node)
        elif fitting:
            best = best_node(pod, fitting, list(self.cache.nodes.values()), self._chance)
            self._bind(key, waiting, best.node.name)
        else:
            self._fail(key, waiting, self.cache.why_nowhere(pod))

    def _held_by_others(self, key: Key, pod: Pod) -> list[tuple[Pod, str]]:
        """Pods of the same or a higher priority that are nominated for a node keep their room there."""
        return [
            (other.pod, other.pod.nominated_node)
            for other_key, other in self.waiting.items()
            if other.pod.nominated_node and other_key != key and other.pod.shape.priority >= pod.shape.priority
        ]

    def _bind(self, key: Key, waiting: Waiting, node_name: str) -> None:
        binding: Json = {"metadata": {"uid": waiting.pod.uid}, "target": {"name": node_name}}
        try:
            bind(self._verbs, key[1], key[0], binding, "scheduler")
        except Refusal:
            waiting.not_before = self._verbs.now() + 1.0  # bound or gone meanwhile: its next version is heard of
            return
        self.waiting.pop(key, None)
        self.cache.place(key, waiting.pod, node_name)

    def _fail(self, key: Key, waiting: Waiting, message: str) -> None:
        now = self._verbs.now()
        waiting.failures += 1
        waiting.not_before = now + min(10.0, 2.0 ** min(waiting.failures - 1, 4))
        waiting.parked_at_version = self.cache.version

        def say(pod: Json) -> None:
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            set_condition(pod, condition, format_instant(now))
            pod["status"].pop("nominatedNodeName", None)

        attempt(self._verbs.modify, POD, key[1], key[0], say, "scheduler", "status")
