"""What do the pods of this moment cost at least? Asked by the page and by scenarios.

The answer is the solver's proven lower bound for all pods that exist, in an empty cluster whose pools may buy without
limits: no set of machines, however clever, costs less. Posing the question is cheap, answering it takes a solve."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from growth.model.pod import PodShape
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.market import PoolReader, open_market, placement_problem
from growth.solver.patterns.stock import Budget
from growth.solver.purchase.problem import DemandClass, PlacementProblem
from growth.solver.purchase.solve import solve

_SECONDS: Final = 5.0


def bound_problem(snapshot: Snapshot, settings: Settings) -> PlacementProblem | None:
    """None: no pod of any pool is there, so nothing need be bought."""
    reader = PoolReader(snapshot.pools, snapshot.offerings)
    counts: dict[tuple[PodShape, tuple[str, ...]], int] = {}
    pods = [pod for on_node in snapshot.pods_by_node.values() for pod in on_node if pod.counts_as_work]
    for pod in (*pods, *snapshot.waiting_pods):
        if not pod.is_finished and pod.deleted_at is None:
            match, shape = reader.read(pod.shape)
            if match.names:
                counts[shape, match.names] = counts.get((shape, match.names), 0) + 1
    if not counts:
        return None
    empty = replace(snapshot, requests={})
    pools = sorted({name for _, names in counts for name in names})
    market = open_market(empty, pools, snapshot.offerings, {}, settings)
    demands = (DemandClass(shape, count, names) for (shape, names), count in counts.items())
    return replace(placement_problem(empty, demands, (), market), budget=Budget.for_seconds(_SECONDS))


def bound_of(problem: PlacementProblem) -> float:
    """Per hour."""
    return solve(problem).lower_bound or 0.0
