"""Everything one decision may see, `now` included. Immutable; built by `controllers/observe/observer` from the caches.

Asked by every plan. Maps are keyed by name (pods and claims by namespace/name) and never changed after they are handed
out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf
from operator import is_
from typing import Any, Final, TypeVar

from msgspec import Struct, field

from growth.model.capacitybuffer import NO_BUFFERS, BufferWorld
from growth.model.disruption import PodDisruptionBudget
from growth.model.labels import Labels
from growth.model.node import Node
from growth.model.nodepool import NodePool
from growth.model.noderequest import NodeRemovalRequest, NodeRequest
from growth.model.offering import Machine, Offering
from growth.model.pod import Pod, PodShape
from growth.model.poolautoscaler import PoolAutoscaler
from growth.model.scheduler import KubeScheduler
from growth.model.volumes import Claim, StorageClass, Volume, VolumeNode
from growth.model.warmpool import WarmPoolView


class _Empty(Mapping[str, Any]):
    """Nothing, for ever; unlike an empty MappingProxyType it can travel to the worker process."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and not other

    def __hash__(self) -> int:
        return 0


Answer = TypeVar("Answer")
Part = TypeVar("Part")

_REMEMBERED: Final = 2  # of each question
EMPTY: Final[Mapping[str, Any]] = _Empty()


class DaemonSet(Struct, frozen=True, gc=False):
    """What lands on every matching new node."""

    key: str
    shape: PodShape


class VolumeWorld(Struct, frozen=True):
    """All that the volume rules look at."""

    claims: Mapping[str, Claim] = EMPTY
    volumes: Mapping[str, Volume] = EMPTY
    classes: Mapping[str, StorageClass] = EMPTY
    nodes: Mapping[str, VolumeNode] = EMPTY


class PodGroups(Struct, frozen=True):
    """What the cluster says of the groups that pods name (`model/gang`)."""

    minimums: Mapping[str, int] = EMPTY  # by namespace, kind and name: how many start together; 0: each by itself
    absent: frozenset[str] = frozenset()  # kinds that are not served here: what pods say of them means nothing


class Memo:
    """The latest answers to costly questions about snapshots, as long as the parts they were made from are the very
    same objects. One memo goes with all snapshots that one observer takes.
    """

    def __init__(self) -> None:
        self._answers: dict[str, list[tuple[tuple[object, ...], Any]]] = {}
        self._each: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self._now = 0.0  # the latest instant that was asked about

    def recall(
        self, question: str, parts: tuple[object, ...], make: Callable[[], Answer], most: int = _REMEMBERED
    ) -> Answer:
        """`most`: how many answers to this question are kept; the others go before a new one is made."""
        known = self._answers.get(question, [])
        for made_from, answer in known:
            if len(made_from) == len(parts) and all(map(is_, made_from, parts)):
                found: Answer = answer
                return found
        del known[most - 1 :]
        made = make()
        self._answers[question] = [(parts, made), *known]
        return made

    def recall_now(
        self, question: str, now: float, parts: tuple[object, ...], make: Callable[[], Answer], most: int = _REMEMBERED
    ) -> Answer:
        """As `recall`, for an answer that holds at one instant only."""
        self._now = self._now if self._now == now else now
        return self.recall(question, (self._now, *parts), make, most)

    def recall_each(
        self, question: str, parts: Mapping[str, Part], make: Callable[[Part], Answer]
    ) -> Mapping[str, Answer]:
        """An answer for each name, made from its part alone. Where a few parts are other objects than the last time,
        only their answers are made again.
        """
        known, answers = self._each.get(question, (EMPTY, EMPTY))
        if known is not parts:
            before = known.get
            answers = {name: answers[name] if before(name) is part else make(part) for name, part in parts.items()}
            self._each[question] = (parts, answers)
        return answers

    def __eq__(self, other: object) -> bool:
        """It says nothing that the snapshot does not."""
        return isinstance(other, Memo)

    def __hash__(self) -> int:
        return 0


class Snapshot(Struct, frozen=True):
    """One moment of the cluster and the provider, as far as growth knows."""

    now: float
    nodes: Mapping[str, Node] = EMPTY
    pods_by_node: Mapping[str, tuple[Pod, ...]] = EMPTY  # bound ones, finished ones included
    waiting_pods: tuple[Pod, ...] = ()  # not bound and not finished, oldest first
    lowest_priority: float = inf  # of a bound pod: who has more may preempt it
    namespaces: Mapping[str, Labels] = EMPTY
    daemon_sets: tuple[DaemonSet, ...] = ()
    volumes: VolumeWorld = VolumeWorld()
    pools: Mapping[str, NodePool] = EMPTY
    requests: Mapping[str, NodeRequest] = EMPTY
    requests_age_seconds: float = 0.0  # since the API server last proved that they are all
    removals: Mapping[str, NodeRemovalRequest] = EMPTY
    disruption_budgets: Mapping[str, PodDisruptionBudget] = EMPTY  # by namespace/name
    offerings: tuple[Offering, ...] = ()
    machines: Mapping[str, Machine] = EMPTY  # by name; as of machines_at
    machines_at: float | None = None  # None: the provider has not answered yet, so nothing is known
    no_machines_since: float | None = None  # every list since then was empty, as far as this process knows
    credentials: Mapping[str, str] = EMPTY  # by provider settings: checksums of what machines are bought and join with
    autoscalers: Mapping[str, PoolAutoscaler] = EMPTY  # by namespace/name
    warm_pools: Mapping[str, WarmPoolView] = EMPTY  # by the name of their kind; those kinds that an autoscaler names
    pods_by_owner: Mapping[str, tuple[Pod, ...]] = (
        EMPTY  # by the UID of their controller; empty while there is no autoscaler
    )
    buffers: BufferWorld = NO_BUFFERS  # spare capacity that was declared, and what it refers to
    pod_groups: PodGroups = PodGroups()  # of the kinds that pods name
    kube_scheduler: KubeScheduler = KubeScheduler()  # looked for only where growth is to stand in for it
    memo: Memo = field(default_factory=Memo)
