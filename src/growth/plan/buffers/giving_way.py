"""When does a buffer give way? Two questions about its rank, which is the lowest: which idle nodes does it leave to a
waiting pod, and when is nothing bought for it? Asked by `plan/buffers/placement`, by its status and by scale-up.

| a waiting pod | an idle node that only buffers need |
| --- | --- |
| has room, or machines for it may be bought | stays theirs |
| every machine that would hold it is kept out by a limit, and would not be without some such nodes | those go |
| would be kept out all the same, by limits or by rules between pods | stays theirs |

| nothing is bought for a buffer while, in one of its pools | because |
| --- | --- |
| a node has been NotReady for less than a minute | it may be back sooner than a machine comes |
| the brake holds (`plan/world/brake`) | what stopped reporting may be well |
| one more machine could keep a waiting pod out, by a limit | the pod comes first |
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.labels import HOSTNAME
from growth.model.node import Node
from growth.model.pod import PodShape
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.brake import Brake
from growth.plan.world.capacity import Assignments
from growth.plan.world.limits import Allowance, Member, allowances, members, why_not_one_more
from growth.plan.world.market import PoolReader, open_market, placement_problem
from growth.plan.world.nodes import is_ours, is_protected_node, was_ever_ready
from growth.solver.existing.place import place_on_existing
from growth.solver.purchase.problem import Choice, DemandClass, Room
from growth.solver.rules.fit import free_amounts, how_many_fit, is_enough, may_run_on

AWAY_SECONDS: Final = 60.0
_MOST_SHAPES: Final = 20  # of waiting pods that are looked at


# ------------------------------------------------------------------------------- left to waiting pods


class Rank(Struct, frozen=True):
    """What buffers leave to waiting pods: idle nodes that go, and pools in which nothing is bought for buffers."""

    nodes: frozenset[str] = frozenset()
    pools: frozenset[str] = frozenset()


BEFORE_NOBODY: Final = Rank()


def left_to_pods(snapshot: Snapshot, settings: Settings, assigned: Assignments, rooms: tuple[Room, ...]) -> Rank:
    """Without these nodes, and without more of these pools, a waiting pod can have its machine."""
    waiting = _shapes_without_room(snapshot, settings, assigned, rooms)
    if not waiting:
        return BEFORE_NOBODY
    idle = sorted(room.node.name for room in rooms if room.kind != "in-flight" and may_go(room.node, snapshot))
    limits, nodes, pools = _Limits(snapshot, settings, rooms), set[str](), set[str]()
    for shape in waiting:
        freed, tight = limits.freed_by(shape, idle), limits.tight_for(shape, idle)
        if (freed or tight) and limits.rules_allow(shape):
            nodes, pools = nodes | freed, pools | tight
    return Rank(frozenset(nodes), frozenset(pools))


def _shapes_without_room(
    snapshot: Snapshot, settings: Settings, assigned: Assignments, rooms: tuple[Room, ...]
) -> tuple[PodShape, ...]:
    """Of pods that the scheduler gave up, and that no node there is or on its way can hold."""
    given_up = (pod for pod in snapshot.waiting_pods if pod.unschedulable_at is not None and not pod.is_gated)
    placed = assigned.keys
    shapes = {pod.shape for pod in given_up if pod.key not in placed}
    asked = sorted((each for each in shapes if each.priority >= settings.priority_cutoff), key=repr)[:_MOST_SHAPES]
    free = [(room.node, room.free()) for room in rooms if room.is_open] if asked else []
    return tuple(each for each in asked if not any(how_many_fit(each, node, left) for node, left in free))


def may_go(node: Node, snapshot: Snapshot) -> bool:
    """Nobody works there, and growth may give it back."""
    pool = snapshot.pools.get(node.pool)
    if pool is None or pool.spec.consolidation == "Off" or is_protected_node(node) or not is_ours(node, snapshot):
        return False
    return not any(pod.counts_as_work for pod in snapshot.pods_by_node.get(node.name, ()))


class _Limits:
    """What the limits leave, with and without some nodes."""

    def __init__(self, snapshot: Snapshot, settings: Settings, rooms: tuple[Room, ...]) -> None:
        self._snapshot, self._settings, self._rooms = snapshot, settings, rooms
        self._present = members(snapshot)
        self._reader = PoolReader(snapshot.pools, snapshot.offerings)
        self._market = open_market(snapshot, tuple(snapshot.pools), snapshot.offerings, {}, settings)
        self._known_choices: dict[PodShape, list[Choice]] = {}
        self._known_left: dict[tuple[frozenset[str], Member | None], tuple[Allowance, ...]] = {}

    def freed_by(self, shape: PodShape, idle: list[str]) -> set[str]:
        """The fewest of these nodes, one after the other, without which this pod could have a machine; none if it can
        have one anyhow, or could not even then.
        """
        choices = self._choices(shape)
        if not choices or self._may_buy(choices):
            return set()
        for name in idle:
            if self._may_buy(choices, {name}):
                return {name}
        gone: set[str] = set()
        for name in idle:
            gone.add(name)
            if self._may_buy(choices, gone):
                return gone
        return set()

    def tight_for(self, shape: PodShape, idle: list[str]) -> set[str]:
        """Pools of which one more machine could keep this pod out, if there is a way for it at all."""
        choices = self._choices(shape)
        if not choices or not self._may_buy(choices, set(idle)):
            return set()
        return {each.pool for each in self._market.choices if not self._may_buy(choices, set(), each)}

    def rules_allow(self, shape: PodShape) -> bool:
        """Would any machine that could hold this pod take it? One that can run nowhere has nothing left to it."""
        match, wished = self._reader.read(shape)
        demand = DemandClass(wished, 1, match.names)
        return may_run_on_new(self._snapshot, demand, self._choices(shape), self._rooms)

    def _choices(self, shape: PodShape) -> list[Choice]:
        if shape not in self._known_choices:
            match, wished = self._reader.read(shape)
            listed = (each for each in self._market.choices if each.pool in match.names)
            self._known_choices[shape] = [each for each in listed if could_hold(each, wished)]
        return self._known_choices[shape]

    def _may_buy(self, choices: list[Choice], gone: AbstractSet[str] = frozenset(), more: Choice | None = None) -> bool:
        left = self._left(frozenset(gone), None if more is None else _member(more))
        return any(not why_not_one_more(left, _member(each)) for each in choices)

    def _left(self, gone: frozenset[str], more: Member | None) -> tuple[Allowance, ...]:
        """The same for every shape that is asked about."""
        if (gone, more) not in self._known_left:
            staying = [each for each in self._present if each.name not in gone]
            staying += [] if more is None else [more]
            self._known_left[gone, more] = allowances(self._snapshot.pools, self._settings, staying)
        return self._known_left[gone, more]


def may_run_on_new(
    snapshot: Snapshot, demand: DemandClass, choices: Iterable[Choice], standing: Iterable[Room]
) -> bool:
    """Would an empty node of any of these choices take one such pod, by every rule, beside all that stands?"""
    new = tuple(
        Room(
            Node(f"new-{number}", each.labels.with_items({HOSTNAME: f"new-{number}"}), each.taints,
                 each.offering.allocatable, pool=each.pool),
            tuple((shape, 1) for shape in each.daemons),
        )
        for number, each in enumerate(choices)
    )  # fmt: skip
    closed = tuple(replace(room, is_open=False) for room in standing)
    return not place_on_existing(placement_problem(snapshot, [demand], (*closed, *new))).left


def could_hold(choice: Choice, shape: PodShape) -> bool:
    free = free_amounts(choice.offering.allocatable, choice.daemons)
    return is_enough(free, shape) and may_run_on(shape, choice.labels, choice.taints)


def _member(choice: Choice) -> Member:
    sold = choice.offering
    return Member("", choice.pool, sold.name, sold.allocatable, sold.price_per_hour)


# ----------------------------------------------------------------------------------- nothing bought


class Standstill(Struct, frozen=True):
    """Why nothing is bought for a buffer now, and until when that is so; None: until something changes."""

    why: str
    until: float | None = None


class Standstills:
    """One look at all nodes, for all buffers."""

    def __init__(self, snapshot: Snapshot, rank: Rank) -> None:
        self._tight = rank.pools
        self._brake, self._away = Brake(snapshot), dict[str, float]()
        for node in snapshot.nodes.values():
            back_by = node.ready_changed_at + AWAY_SECONDS
            is_away = not node.is_ready and snapshot.now < back_by and node.name not in snapshot.removals
            if is_away and was_ever_ready(node, snapshot):
                self._away[node.pool] = max(back_by, self._away.get(node.pool, 0.0))

    def of(self, pools: Iterable[str]) -> Standstill | None:
        for name in pools:
            if why := self._brake.why(name):
                return Standstill(why)
            if name in self._tight:
                return Standstill(f"a pod waits for what the limits of NodePool {name} leave")
            if name in self._away:
                return Standstill(f"a node of NodePool {name} has just stopped reporting", self._away[name])
        return None
