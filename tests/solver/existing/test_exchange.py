"""Which nodes are exchanged for which: the best saving first, never like for like, never below a priority, never
without a place for every pod.
"""

from __future__ import annotations

import pickle

import pytest
from msgspec.structs import replace

from growth.model.labels import HOSTNAME, Labels, LabelSelector, Requirement
from growth.model.node import Node
from growth.model.offering import Offering
from growth.model.pod import PodAffinityTerm, PodShape
from growth.model.resources import Resources
from growth.solver.existing.exchange import Exchange, ExchangeProblem, Leaving, exchange
from growth.solver.purchase.problem import Choice, DemandClass, Limit, PlacementProblem, Room

GIB = 2**30


def amounts(cores: float) -> Resources:
    return Resources({"cpu": int(cores * 1000), "memory": int(cores * 4 * GIB), "pods": 110})


def choice(name: str, cores: float, price: float, priority: int = 0) -> Choice:
    return Choice(
        "default", Offering(f"sim-{name}", name, "here", price, amounts(cores)), Labels({}), type_priority=priority
    )


SMALL, MEDIUM, LARGE = choice("small", 2, 0.01), choice("medium", 8, 0.03), choice("large", 64, 0.4)
POD = PodShape(requests=Resources({"cpu": 1000, "memory": GIB}))


def problem(
    loads: list[tuple[Choice, int]],
    rooms: tuple[Room, ...] = (),
    choices: tuple[Choice, ...] = (SMALL, MEDIUM, LARGE),
    shape: PodShape = POD,
) -> ExchangeProblem:
    """Nodes with so many pods of one core each; every node alone, and all together."""
    own, leaving = [], []
    for number, (of, count) in enumerate(loads):
        name, sold = f"n{number}", of.offering
        own.append(Room(Node(name, Labels({HOSTNAME: name}), allocatable=sold.allocatable), ((shape, count),)))
        leaving.append(
            Leaving(number, "default", sold.name, sold.price_per_hour, ((0, count),), count, (0, of.type_priority))
        )
    world = PlacementProblem((DemandClass(shape, 1, ("default",)),), (*own, *rooms), choices)
    return ExchangeProblem(
        world, tuple(leaving), (*((number,) for number in range(len(loads))), tuple(range(len(loads))))
    )


def bought(asked: ExchangeProblem, answer: Exchange) -> list[str]:
    return sorted(asked.world.choices[node.choice].offering.server_type for node in answer.bought)


def best(asked: ExchangeProblem) -> Exchange:
    found = exchange(asked)
    assert found
    return found[0]


def test_one_large_node_with_little_on_it_becomes_the_cheapest_set() -> None:
    asked = problem([(LARGE, 10)])
    answer = best(asked)
    assert bought(asked, answer) == ["medium", "small"]
    assert answer.saved_per_hour == pytest.approx(0.4 - 0.04)


def test_several_small_nodes_become_one() -> None:
    asked = problem([(SMALL, 2)] * 4)
    answer = best(asked)
    assert (answer.leaving, bought(asked, answer)) == ((0, 1, 2, 3), ["medium"])


def test_free_room_on_what_stays_is_used_first() -> None:
    free = Room(Node("free", Labels({HOSTNAME: "free"}), allocatable=amounts(4)))
    asked = problem([(LARGE, 10)], (free,))
    assert bought(asked, best(asked)) == ["medium"]


def test_headroom_asks_for_a_pod_more() -> None:
    asked = problem([(LARGE, 10)])
    assert bought(asked, best(replace(asked, headroom=0.05))) == ["medium", "small", "small"]
    assert bought(asked, best(replace(problem([(LARGE, 9)]), headroom=0.05))) == [
        "medium",
        "small",
    ]  # less than half a pod is none


def test_what_needs_nothing_bought_is_left_to_consolidation() -> None:
    free = Room(Node("free", Labels({HOSTNAME: "free"}), allocatable=amounts(64)))
    assert exchange(problem([(LARGE, 10)], (free,))) == ()


def test_ac5_and_ruling_9_like_is_never_replaced_by_like() -> None:
    dear = replace(SMALL, offering=replace(SMALL.offering, location="there", price_per_hour=0.001))
    assert exchange(problem([(SMALL, 2)], choices=(SMALL, dear))) == ()
    other_pool = replace(dear, pool="other")
    asked = problem([(SMALL, 2)], choices=(SMALL, other_pool))
    world = replace(asked.world, demands=(DemandClass(POD, 1, ("default", "other")),))
    assert best(replace(asked, world=world)).price_after == pytest.approx(0.001)


def test_a_renewal_replaces_like_by_like_whatever_it_costs() -> None:
    asked = replace(problem([(SMALL, 2)], choices=(SMALL,)), saves_money=False)
    assert bought(asked, best(asked)) == ["small"]


def test_a_cheaper_node_of_a_lower_priority_is_not_taken() -> None:
    preferred = choice("large", 64, 0.4, priority=5)
    assert exchange(problem([(preferred, 10)], choices=(SMALL, MEDIUM, preferred))) == ()


def test_limits_hold_for_what_is_bought() -> None:
    asked = problem([(LARGE, 10)])
    tight = replace(asked, world=replace(asked.world, limits=(Limit("one more", (0, 1, 2), nodes=1),)))
    assert exchange(tight) == ()


def test_pods_that_refuse_each_other_get_a_node_each() -> None:
    apart = replace(
        POD,
        labels=Labels({"app": "web"}),
        anti_affinity=(PodAffinityTerm(HOSTNAME, LabelSelector((Requirement("app", "In", ("web",)),))),),
    )
    asked = problem([(LARGE, 3)], shape=apart)
    assert bought(asked, best(asked)) == ["small"] * 3


def test_question_and_answer_travel() -> None:
    asked = problem([(LARGE, 10)])
    assert exchange(pickle.loads(pickle.dumps(asked))) == pickle.loads(pickle.dumps(exchange(asked)))  # noqa: S301
