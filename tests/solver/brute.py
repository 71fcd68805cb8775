"""The very best placement of a handful of pods, by trying everything: what the solver is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from growth.model.pod import PodShape
from growth.model.resources import PODS, Resources, sum_resources
from growth.solver.purchase.problem import Choice, PlacementProblem


def cheapest_of_all(problem: PlacementProblem) -> float | None:
    """The least that nodes for all pods cost, without rooms and without rules between pods; None if there is no such
    placement.
    """
    pods = [demand.shape for demand in problem.demands for _ in range(demand.count)]
    best: float | None = None
    for groups in _partitions(pods):
        able = [[index for index, choice in enumerate(problem.choices) if _holds(choice, group)] for group in groups]
        for bought in product(*able):
            price = sum(
                problem.choices[index].offering.price_per_hour + problem.node_price_per_hour for index in bought
            )
            if (best is None or price < best) and _within_limits(problem, bought):
                best = price
    return best


def _partitions(pods: Sequence[PodShape]) -> Iterator[list[list[PodShape]]]:
    if not pods:
        yield []
        return
    for smaller in _partitions(pods[1:]):
        yield [[pods[0]], *smaller]
        for number, group in enumerate(smaller):
            yield [*smaller[:number], [pods[0], *group], *smaller[number + 1 :]]


def _holds(choice: Choice, group: Sequence[PodShape]) -> bool:
    asked = sum_resources(shape.requests for shape in group) + Resources({PODS: len(group)})
    selected = all(choice.labels.get(key) == value for shape in group for key, value in shape.node_selector.items())
    return selected and asked.fits_in(choice.offering.allocatable)


def _within_limits(problem: PlacementProblem, bought: Sequence[int]) -> bool:
    return all(
        limit.nodes is None or sum(index in limit.choices for index in bought) <= limit.nodes
        for limit in problem.limits
    )
