"""How does a plan read? Asked by `growth plan`: nodes in groups of equals, how full they are, what they cost, and how
near that is to the bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from growth.model.resources import CPU, MEMORY
from growth.plan.nodes_up.assign import Dealt, Hand
from growth.solver.purchase.problem import Choice, PlacementSolution

_MOST_REASONS = 20


def print_plan(dealt: Dealt, solution: PlacementSolution, seconds: float, unplaced: Sequence[Any]) -> None:
    console = Console()
    if dealt.orders:
        console.print(_bought(dealt), markup=False)
    if dealt.into_rooms:
        pods = sum(len(hand) for _, hand in dealt.into_rooms)
        console.print(
            f"{pods} pods on {len(dealt.into_rooms)} nodes that are there or on their way", markup=False, soft_wrap=True
        )
    _print_unplaced(console, unplaced)
    console.print(_summary(dealt, solution, seconds), markup=False, soft_wrap=True)


def _bought(dealt: Dealt) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("nodes", "pool", "server type", "zone", "price/h", "pods", "cpu", "memory"):
        table.add_column(column, justify="left" if column in ("pool", "server type", "zone") else "right")
    groups: dict[tuple[str, str, str], list[tuple[Choice, Hand]]] = {}
    for choice, hand in dealt.orders:
        groups.setdefault((choice.pool, choice.offering.server_type, choice.offering.zone), []).append((choice, hand))
    for (pool, server_type, zone), bought in groups.items():
        price = sum(choice.offering.price_per_hour for choice, _ in bought)
        full = [f"{_full(bought, name):.0%}" for name in (CPU, MEMORY)]
        table.add_row(
            str(len(bought)), pool, server_type, zone, f"{price:.4f}", str(sum(len(hand) for _, hand in bought)), *full
        )
    return table


def _full(bought: Sequence[tuple[Choice, Hand]], name: str) -> float:
    """How much of what the nodes have is asked for, by the pods and by the daemons that land there."""
    asked = sum(demand.shape.requests[name] for _, hand in bought for demand in hand)
    asked += sum(shape.requests[name] for choice, _ in bought for shape in choice.daemons)
    return asked / max(1, sum(choice.offering.allocatable[name] for choice, _ in bought))


def _print_unplaced(console: Console, unplaced: Sequence[Any]) -> None:
    """Many pods share their reasons."""
    counted = Counter(pod.reasons for pod in unplaced)
    example = {pod.reasons: pod.pod for pod in reversed(unplaced)}
    for reasons, count in counted.most_common(_MOST_REASONS):
        others = f" and {count - 1} more" if count > 1 else ""
        console.print(f"unplaced: {example[reasons]}{others}: {'; '.join(reasons)}", markup=False, soft_wrap=True)
    if len(counted) > _MOST_REASONS:
        console.print(
            f"… and {len(counted) - _MOST_REASONS} more reasons; --output json has them all",
            markup=False,
            soft_wrap=True,
        )


def _summary(dealt: Dealt, solution: PlacementSolution, seconds: float) -> str:
    if solution.kind == "NoDemands":
        return "no pod needs a place"
    bound = (
        f"no plan for them costs less than {solution.lower_bound:.4f} (gap {solution.gap:.2%})"
        if solution.lower_bound
        else "nothing to prove"
    )
    return f"{len(dealt.orders)} nodes for {solution.price_per_hour:.4f} per hour; {bound}; {seconds:.2f} s"
