"""Which running pods are moved because their place costs more than another one would? Off unless it is turned on
(`improves`). Asked by scheduling once a minute, while nobody is to be placed. A pod of growth's scheduler that has been
without a place for ten minutes is not waited for: one that is hopeless must not stop everything.

    comparison: what must be known → the keeper: `find_moves` (`solver/flow/savings`) → EvictPod for the best few; the
    successor of each is placed by the next round, on the place that was found or a better one

| a pod is moved only if | |
| --- | --- |
| growth's scheduler placed it, and it runs; it is none of a DaemonSet, a Job or a gang, and has no volumes | |
| it may be evicted (`plan/evictions`): its owner makes it again, budgets and annotations allow it | |
| the saving is more than `improvementSaving`, by the costs of the program | |
| its owner's pods are all Ready and at least an hour old | so an owner moves once an hour, after a restart too |
| the place is there now, while the pod is still on its node; no machine that would be given back is kept for it | |
| at most `movesPerMinute` | after a restart the first one not before a minute |

A world at rest comes to an end of moves: the rank of `solver/flow/savings` falls with each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from growth.model.action import EvictPod
from growth.model.decision import Note
from growth.model.disruption import PodDisruptionBudget
from growth.model.gang import name_of_gang
from growth.model.pod import Pod
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.model.snapshot import EMPTY, PodGroups, Snapshot
from growth.plan.evictions import Evictability
from growth.plan.flow.preemption import do_budgets_allow
from growth.plan.flow.queue import is_ours
from growth.plan.flow.still_true import Since
from growth.plan.world.nodes import Prices, state_of
from growth.plan.world.turn import Turn, about, seen
from growth.solver.flow.changes import FleetState, Told
from growth.solver.flow.savings import Move, find_moves

_LOOK_SECONDS: Final = 60.0
HOPE_SECONDS: Final = 600.0
REST_SECONDS: Final = 3600.0  # so long after one of its pods was made an owner is left alone


def does_anybody_hope(snapshot: Snapshot, scheduler: SchedulerSettings) -> bool:
    """Is there a pod of ours that may soon have a place, which a move could take?"""
    return any(
        is_ours(pod, scheduler) and (pod.unschedulable_at is None or snapshot.now < pod.unschedulable_at + HOPE_SECONDS)
        for pod in snapshot.waiting_pods
    )


def next_look(known_at: float, snapshot: Snapshot, settings: Settings, turn: Turn) -> float:
    """When running pods are looked at next; 0: not known yet, as after a restart, or they were looked at just now."""
    if not settings.scheduler.improves:
        return known_at
    at = known_at if known_at > 0.0 else snapshot.now + _LOOK_SECONDS
    turn.wake(at if at > snapshot.now else snapshot.now + _LOOK_SECONDS)  # others come first: then at the next look
    return at


class Comparison(Struct, frozen=True):
    """What must be known, beside the fleet, to compare places."""

    settings: Settings
    now: float
    budgets: Mapping[str, PodDisruptionBudget] = EMPTY
    pod_groups: PodGroups = PodGroups()
    shut: frozenset[str] = frozenset()  # nodes that nobody is moved to or from
    prices: Mapping[str, float] = EMPTY  # by node, where they matter
    keeps_empty: bool = True  # False: machines that no pod keeps are given back, and nobody is moved to them


def comparison(snapshot: Snapshot, settings: Settings) -> Comparison:
    prices = Prices(snapshot) if settings.scheduler.cost_model == "cheapest" else None
    return Comparison(
        settings,
        snapshot.now,
        dict(snapshot.disruption_budgets),
        PodGroups(dict(snapshot.pod_groups.minimums), snapshot.pod_groups.absent),
        frozenset(name for name in snapshot.nodes if _is_shut(name, snapshot)),
        {} if prices is None else {name: prices.price(node) for name, node in snapshot.nodes.items()},
        not snapshot.pools,
    )


def _is_shut(name: str, snapshot: Snapshot) -> bool:
    state = state_of(name, snapshot)
    return not state.takes_pods or state.is_going


class Movability:
    """Which pods may be moved at all?"""

    def __init__(self, asked: Comparison, pods: Iterable[Pod]) -> None:
        self._asked, self._scheduler = asked, asked.settings.scheduler
        self._evictability = Evictability(Snapshot(asked.now, disruption_budgets=asked.budgets), asked.settings)
        self._youngest: dict[str, float] = {}  # by the owner's UID: when its youngest pod was made
        for pod in pods:
            if pod.owner is not None:
                known = self._youngest.get(pod.owner.uid, 0.0)
                self._youngest[pod.owner.uid] = max(known, pod.created_at)

    def why_not(self, pod: Pod) -> str:
        """Empty: it may be, if that saves enough."""
        if not self._scheduler.serves(pod.shape.scheduler_name) or not pod.counts_as_work:
            return "growth's scheduler did not place it"
        if pod.deleted_at is not None or pod.node_name in self._asked.shut:
            return "it, or its node, is on its way out"
        if pod.owner is None or pod.owner.kind == "Job":
            return "nobody would make it again, or it would begin its work anew"
        if name_of_gang(pod, self._asked.pod_groups):
            return "it is one of a gang"
        if pod.shape.volumes:
            return "it has volumes"
        if self._youngest.get(pod.owner.uid, 0.0) > self._asked.now - REST_SECONDS:
            return "its owner has made a pod within the last hour"
        block = self._evictability.why_not(pod)
        return "" if block is None else block.message


def compare(told: Told, asked: Comparison) -> tuple[Move, ...]:
    """The moves that save most."""
    every = [pod for pods in told.pods.values() for pod in pods]
    movability = Movability(asked, every)
    scheduler = asked.settings.scheduler
    return _moves(told, asked, [pod for pod in every if not movability.why_not(pod)], scheduler.moves_per_minute)


def _moves(told: Told, asked: Comparison, pods: list[Pod], most: int) -> tuple[Move, ...]:
    table = told.fleet.index.table
    is_open = table.is_here[: len(table)] & np.array([node.name not in asked.shut for node in table.nodes], np.bool_)
    if not asked.keeps_empty:
        is_open &= told.fleet.in_use() > 0
    prices = np.array([asked.prices.get(node.name, 0.0) for node in table.nodes], np.float64)
    return tuple(find_moves(told.fleet, pods, asked.settings.scheduler, is_open, prices, most))


def carry_out(moves: Iterable[Move], asked: FleetState, snapshot: Snapshot, settings: Settings, turn: Turn) -> None:
    """What is still true of the answer: the pod and its owner are as they were, and the place is there."""
    chosen = tuple(moves)
    if not chosen or does_anybody_hope(snapshot, settings.scheduler):
        return
    owners = {move.pod.owner.uid for move in chosen if move.pod.owner is not None}
    every = [pod for pods in snapshot.pods_by_node.values() for pod in pods]
    family = [pod for pod in every if pod.owner is not None and pod.owner.uid in owners and not pod.is_finished]
    unready = {pod.owner.uid for pod in family if pod.owner is not None and not pod.is_ready}
    movability = Movability(comparison(snapshot, settings), family)
    now, budgets = Since(asked, snapshot, settings), tuple(snapshot.disruption_budgets.values())
    known, leaving = {pod.uid: pod for pod in family}, list[Pod]()
    for move in chosen:
        pod = known.get(move.pod.uid)
        if pod is None or pod.owner is None or pod.owner.uid in unready or movability.why_not(pod):
            continue
        if now.takes(pod, move.node) and do_budgets_allow([*leaving, pod], budgets):
            leaving.append(pod)
            turn.do(EvictPod(seen(pod)))
            turn.tell(Note(about(pod), "Moved", in_words(move)))


def in_words(move: Move) -> str:
    text = f"leaves node {move.pod.node_name} for a better place: there it costs {move.cost}, on node {move.node}"
    return f"{text} {move.then}"


def why_stays(pod: Pod, snapshot: Snapshot, settings: Settings) -> str:
    """Of a pod that runs, for people: is it moved, and if not, why? Empty: nobody is moved at all."""
    scheduler = settings.scheduler
    if not scheduler.enabled or not scheduler.improves:
        return ""
    state, _ = FleetState().follow(snapshot.nodes, snapshot.pods_by_node, snapshot.volumes, snapshot.namespaces)
    told, asked = Told(state), comparison(snapshot, settings)
    why = Movability(asked, [each for pods in told.pods.values() for each in pods]).why_not(pod)
    if why:
        return f"it is not moved: {why}"
    found = _moves(told, asked, [pod], 1)
    least = scheduler.improvement_saving
    return in_words(found[0]) if found else f"it is not moved: no other place saves more than {least}"
