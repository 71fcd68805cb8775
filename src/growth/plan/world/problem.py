"""What does a snapshot become for the solver? Asked by scale-up, replacement, renewal and the buffers, so that all of
them see the same pods, rooms, offers and limits.

A pod's shape becomes the shape the solver sees: with what its pools add (`PoolReader`). The rooms are those of
`plan/world/capacity`, the choices and limits those of `plan/world/market`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from growth.model.nodepool import NodePool
from growth.model.offering import Offering
from growth.model.pod import PodShape
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot, VolumeWorld
from growth.plan.world.limits import Allowance
from growth.plan.world.market import NOTHING_FOR_SALE, Market, limits_for
from growth.plan.world.pools import PoolMatch, architectures_of, by_key, pools_for, with_pool_rules
from growth.solver.patterns import Budget
from growth.solver.purchase.problem import DemandClass, Pattern, PlacementProblem, Room

Barred = Mapping[PodShape, tuple[str, ...]]  # offerings that have failed pods of this shape


class PoolReader:
    """The pools of a pod, and its shape with what they add. Each distinct shape is read once: thousands of pods share
    one.
    """

    def __init__(
        self, pools: Mapping[str, NodePool], offerings: tuple[Offering, ...], barred: Barred | None = None
    ) -> None:
        self._pools, self._offerings, self._barred = pools, offerings, barred or {}
        self._architectures: dict[str, tuple[str, ...]] = {}
        self._known: dict[PodShape, tuple[PoolMatch, PodShape]] = {}

    def read(self, shape: PodShape) -> tuple[PoolMatch, PodShape]:
        known = self._known.get(shape)
        if known is None:
            match = pools_for(shape, self._pools)
            for name in match.names:
                if name not in self._architectures:
                    self._architectures[name] = architectures_of(self._pools[name], self._offerings)
            wished = with_pool_rules(shape, match, self._architectures, self._barred.get(shape, ()))
            known = self._known[shape] = (match, wished)
        return known


def placement_problem(
    snapshot: Snapshot,
    demands: Iterable[DemandClass],
    rooms: tuple[Room, ...],
    market: Market = NOTHING_FOR_SALE,
    allowances: tuple[Allowance, ...] = (),
    *,
    node_price_per_hour: float = 0.0,
) -> PlacementProblem:
    """The question where these demands go. It may travel to another process, so it holds plain dictionaries, and
    volumes only where a demand has some.
    """
    asked, volumes = tuple(demands), snapshot.volumes
    has_volumes = any(demand.shape.volumes for demand in asked)
    return PlacementProblem(
        demands=asked,
        rooms=rooms,
        choices=market.choices,
        limits=limits_for(market, allowances, by_key(snapshot.offerings)) if market.choices else (),
        namespaces=dict(snapshot.namespaces),
        volumes=VolumeWorld(dict(volumes.claims), dict(volumes.volumes), dict(volumes.classes), dict(volumes.nodes))
        if has_volumes
        else VolumeWorld(),
        node_price_per_hour=node_price_per_hour,
    )


def with_settings(
    problem: PlacementProblem, settings: Settings, patterns: tuple[Pattern, ...] = ()
) -> PlacementProblem:
    """The question with the care and the work that the settings ask for; `patterns` of an earlier answer help."""
    return replace(
        problem,
        preferences=settings.preferences,
        node_price_per_hour=settings.node_price_per_hour,
        budget=Budget.for_seconds(settings.solve_budget_seconds),
        patterns=patterns,
        is_checked=settings.checks_plans,
    )
