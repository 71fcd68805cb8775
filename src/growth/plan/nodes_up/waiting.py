"""When is a demand that found no place tried again, and why did it find none? Asked by scale-up, which remembers the
answer for each such demand.

| the pod, or buffer | is part of the demand again |
| --- | --- |
| missed fewer times than the setting | after the longest batch window |
| missed more often | after 30 s, doubling |
| has waited the longest back-off, in vain | at that pace: it is in BackOff, with an event that says so |
| any of these | at once, when more can be had than when it missed |
| has room on a node, but the scheduler has not used it | after a while, doubling; meanwhile it holds that room |

| what can be had: a prospect | grows when |
| --- | --- |
| a pool's generation | the pool was changed |
| orders of a choice that the pod fits | an Unmet expired, a limit gave way, stock came back |
| room on nodes | a node joined, pods left |
| room on its way | a machine was ordered that has room to spare |
| volumes | a claim that the pod names, its volume or its class was made |

Rules between pods are in none of them: for those time is the only sign. It is compared with the least seen since the
miss, so that the same offer is not tried twice. A look at the nodes is dear, so it is taken at most once in a while;
without it that prospect is simply not among the answers.

Room on its way that was bought for nobody, or that is left over, is for whoever has waited longest: pods that came
later, and would take it from one that missed before, are tried a moment after it. Priority comes before age.

| why nothing serves a pod | |
| --- | --- |
| Limited | something would, but limits (or a trial order) leave no room for it |
| Rules | something would, but rules between pods keep it off |
| NotForSale | something its pools list would, but it is Unmet, out of stock, or the pool is paused or going |
| NothingFits | nothing its pools list would |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.nodepool import NodePool
from growth.model.offering import Offering
from growth.model.pod import PodShape
from growth.model.resources import Resources
from growth.model.settings import Settings
from growth.model.snapshot import VolumeWorld
from growth.plan.nodes_up.demand import Demand
from growth.plan.world.limits import Allowance
from growth.plan.world.market import Market, orders_possible
from growth.plan.world.pools import offerings_of
from growth.solver.purchase.problem import Room
from growth.solver.rules.fit import fits_alone, free_after, free_amounts, how_many_fit, is_enough, may_run_on

ROOM: Final = "room on nodes"
COMING: Final = "room on its way"
VOLUMES: Final = "volumes"

LIMITED, RULES, NOT_FOR_SALE, NOTHING_FITS = REASONS = ("Limited", "Rules", "NotForSale", "NothingFits")

Prospects = Mapping[str, int]  # what could serve a pod, and how much of it there is


class Wait(Struct, frozen=True):
    """How long a demand waits, and what it waits for."""

    until: float
    misses: int = 0
    seconds: float = 0.0
    is_backed_off: bool = False
    reason: str = ""  # why a pod missed, in one word; of a buffer, its status says so
    lodged_on: str = ""  # the node where it has room
    prospects: Prospects = {}


def is_over(wait: Wait, now: float, prospects: Prospects) -> bool:
    """Has its time come, or is there more to be had?"""
    return now >= wait.until or any(amount > wait.prospects.get(name, 0) for name, amount in prospects.items())


def with_prospects(wait: Wait, prospects: Prospects, not_looked_at: tuple[str, ...] = ()) -> Wait:
    """The least that was to be had since the miss; what was not looked at stays as it was."""
    lowered = {
        name: amount if name in not_looked_at else min(amount, prospects.get(name, 0))
        for name, amount in wait.prospects.items()
    }
    return wait if lowered == wait.prospects else replace(wait, prospects=lowered)


def after_miss(wait: Wait | None, now: float, settings: Settings, prospects: Prospects, reason: str = "") -> Wait:
    """One more miss in a row."""
    misses = (wait.misses if wait is not None else 0) + 1
    if misses < settings.misses_before_backoff:
        return Wait(now + settings.batch_longest_seconds, misses, reason=reason, prospects=prospects)
    before = wait.seconds if wait is not None else 0.0
    was_longest = wait is not None and (wait.is_backed_off or before >= settings.backoff_longest_seconds > 0)
    seconds = min(max(settings.backoff_first_seconds, before * 2), settings.backoff_longest_seconds)
    return Wait(now + seconds, misses, seconds, is_backed_off=was_longest, reason=reason, prospects=prospects)


def after_lodging(wait: Wait | None, node: str, now: float, settings: Settings) -> Wait:
    """There is room on this node; the scheduler will use it, or we look again later."""
    before = wait.seconds if wait is not None and wait.lodged_on else 0.0
    seconds = min(
        max(settings.batch_longest_seconds, before * 2),
        max(settings.batch_longest_seconds, settings.backoff_longest_seconds),
    )
    return Wait(now + seconds, seconds=seconds, lodged_on=node)


_PEER_SECONDS: Final = 60.0  # who came so close together has waited as long
_Class = tuple[PodShape, tuple[str, ...]]


def overtaking(eligible: Iterable[Demand], waits: Mapping[str, Wait], coming: Iterable[Room]) -> frozenset[str]:
    """By name, of pods that are tried now and start alone: those for which no room on its way is left by others who
    have missed before, are as important, and have waited longer.
    """
    tried = list(eligible)
    if not any(demand.name in waits for demand in tried):
        return frozenset()
    rooms, in_order = [room for room in coming if room.is_open], sorted(tried, key=_turn)
    free = [room.free() for room in rooms]
    fits, left = dict[_Class, bool](), dict[_Class, list[int]]()
    longest: dict[int, float] = {}  # by priority: since when the oldest waits that missed before and gets such room
    late = set[str]()
    for demand in in_order:
        shape, since, key = demand.shape, demand.pod.created_at, (demand.shape, demand.pools)
        if key not in left:
            left[key] = [number for number, room in enumerate(rooms) if _has_room(room, demand)]
            fits[key] = bool(left[key])
        fitting = left[key]
        while fitting and not fits_alone(shape, rooms[fitting[-1]].node, free[fitting[-1]]):
            fitting.pop()
        if fitting:
            free[fitting[-1]] = free_after(free[fitting[-1]], shape)
            if demand.name in waits:
                longest.setdefault(shape.priority, since)
        elif longest.get(shape.priority, since) < since - _PEER_SECONDS and fits[key]:
            late.add(demand.name)
    return frozenset(late)


def _turn(demand: Demand) -> tuple[int, float, str]:
    return (-demand.shape.priority, demand.pod.created_at, demand.pod.key)


def _has_room(room: Room, demand: Demand) -> bool:
    return not room.why_closed(demand.pools) and fits_alone(demand.shape, room.node, room.free())


class Outlook:
    """Answers by class: pods of one shape and the same pools have the same prospects."""

    def __init__(
        self,
        pools: Mapping[str, NodePool],
        market: Market,
        allowances: tuple[Allowance, ...],
        open_rooms: Iterable[Room] | None,
        volumes: VolumeWorld,
        coming: Callable[[], Iterable[Room]] = tuple,
    ) -> None:
        self._pools, self._volumes = pools, volumes
        self._choices = [(each, free_amounts(each.offering.allocatable, each.daemons)) for each in market.choices]
        self._possible = orders_possible(market, allowances)
        self._free = None if open_rooms is None else [(room.node, room.free()) for room in open_rooms if room.is_open]
        self._find_coming = coming  # asked only where somebody has missed: in a burst of new pods nobody has
        self._known: dict[tuple[PodShape, tuple[str, ...]], Prospects] = {}
        self._reasons: dict[tuple[PodShape, tuple[str, ...]], str] = {}

    @property
    def not_looked_at(self) -> tuple[str, ...]:
        return (ROOM,) if self._free is None else ()

    def of(self, demand: Demand) -> Prospects:
        key = (demand.shape, demand.pools)
        if key not in self._known:
            self._known[key] = self._prospects(demand)
        return self._known[key]

    def why_nothing(self, demand: Demand, offerings: tuple[Offering, ...]) -> str:
        """In one word, for a pod that found no place; `offerings`: everything the provider knows, for sale or not."""
        key = (demand.shape, demand.pools)
        if key not in self._reasons:
            self._reasons[key] = self._why_nothing(demand, offerings)
        return self._reasons[key]

    def _why_nothing(self, demand: Demand, offerings: tuple[Offering, ...]) -> str:
        possible = self._orders(demand).values()
        if possible:
            return RULES if any(amount > 0 for amount in possible) else LIMITED
        pools = [self._pools[name] for name in demand.pools if name in self._pools]
        listed = (each for pool in pools for each in offerings_of(pool, offerings))
        return NOT_FOR_SALE if any(is_enough(each.allocatable, demand.shape) for each in listed) else NOTHING_FITS

    @cached_property
    def _coming(self) -> list[tuple[Room, Resources]]:
        return [(room, room.free()) for room in self._find_coming() if room.is_open]

    def _orders(self, demand: Demand) -> dict[str, int]:
        """How often each choice that may serve the pod can be ordered."""
        fitting = [
            choice
            for choice, free in self._choices
            if choice.pool in demand.pools
            and is_enough(free, demand.shape)
            and may_run_on(demand.shape, choice.labels, choice.taints)
        ]
        names = [f"{choice.pool} {choice.offering.name} {choice.offering.location}" for choice in fitting]
        return {name: self._possible[name] for name in names}

    def _prospects(self, demand: Demand) -> Prospects:
        found = {f"generation of {name}": self._pools[name].generation for name in demand.pools if name in self._pools}
        found |= self._orders(demand)
        if demand.shape.volumes:
            found[VOLUMES] = _known_parts(demand.shape, self._volumes)
        reachable = ((room.node, free) for room, free in self._coming if not room.why_closed(demand.pools))
        found[COMING] = sum(how_many_fit(demand.shape, node, free) for node, free in reachable)
        if self._free is not None:
            found[ROOM] = sum(how_many_fit(demand.shape, node, free) for node, free in self._free)
        return found


def _known_parts(shape: PodShape, world: VolumeWorld) -> int:
    """How much of what its volumes are made of is there: claims, what they are bound to, their classes."""
    names = (f"{shape.namespace}/{use.claim}" for use in shape.volumes if use.claim)
    claims = [world.claims[name] for name in names if name in world.claims]
    classes = [each.storage_class for each in claims] + [use.storage_class for use in shape.volumes if use.is_ephemeral]
    bound = sum(each.is_bound + (each.volume in world.volumes) for each in claims)
    return len(claims) + bound + sum(name in world.classes for name in classes if name)
