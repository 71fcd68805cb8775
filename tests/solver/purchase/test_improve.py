"""Soft preferences: heard where they cost next to nothing, and never a reason to buy a node."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec.structs import replace

from growth.model.labels import HOSTNAME, ZONE, NodeSelectorTerm, Requirement
from growth.model.pod import PreferredNodes, PreferredPods
from growth.solver.purchase.check import check
from growth.solver.purchase.problem import DemandClass, PlacementProblem
from growth.solver.purchase.solve import solve
from tests.solver.worlds import choice, demand, room, spread, term

ZONES = ("a", "b", "c")


def zone_preference(zone: str, weight: int = 100) -> PreferredNodes:
    return PreferredNodes(weight, NodeSelectorTerm((Requirement(ZONE, "In", (zone,)),)))


def preferring(count: int, **fields: Any) -> DemandClass:
    return demand(count, 3, 1024, labels={"app": "web"}, **fields)


def asked(*demands: DemandClass, prices: tuple[float, ...] = (1.0, 1.0, 1.0), **fields: Any) -> PlacementProblem:
    return PlacementProblem(
        demands=demands,
        choices=tuple(choice("node", price=price, zone=zone) for zone, price in zip(ZONES, prices, strict=True)),
        **fields,
    )


def zones_of(problem: PlacementProblem) -> Counter[str]:
    solution = solve(problem)
    assert check(problem, solution) == ()
    ignoring = solve(replace(problem, preferences="Ignore"))
    assert len(solution.nodes) == len(ignoring.nodes)
    assert solution.price_per_hour <= 1.01 * ignoring.price_per_hour + 1e-9
    return Counter(problem.choices[node.choice].offering.zone for node in solution.nodes)


def test_a_preferred_zone_of_the_same_price_is_taken() -> None:
    assert zones_of(asked(preferring(3, preferred_nodes=(zone_preference("b"),)))) == {"b": 3}


def test_a_little_dearer_is_near_enough_and_much_dearer_is_not() -> None:
    preference = {"preferred_nodes": (zone_preference("b"),)}
    assert zones_of(asked(preferring(2, **preference), prices=(1.0, 1.005, 1.0))) == {"b": 2}
    assert set(zones_of(asked(preferring(2, **preference), prices=(1.0, 1.02, 1.0)))) <= {"a", "c"}


def test_a_light_preference_is_worth_less_than_a_heavy_one() -> None:
    light = preferring(2, preferred_nodes=(zone_preference("b", weight=1),))
    assert "b" not in zones_of(asked(light, prices=(1.0, 1.005, 1.0)))


def test_those_who_would_rather_be_apart_are_spread_over_zones() -> None:
    apart = preferring(6, preferred_anti_affinity=(PreferredPods(50, term(ZONE, app="web")),))
    assert zones_of(asked(apart)) == {"a": 2, "b": 2, "c": 2}


def test_a_spread_that_may_be_broken_is_a_preference() -> None:
    assert zones_of(asked(preferring(6, spread=(spread(ZONE, when="ScheduleAnyway", app="web"),)))) == {
        "a": 2,
        "b": 2,
        "c": 2,
    }


def test_those_who_would_rather_be_near_others_follow_them() -> None:
    near = preferring(2, preferred_affinity=(PreferredPods(50, term(ZONE, app="db")),))
    full = room("there", 1, 1024, zone="c", contents=((demand(1, 1, 512, labels={"app": "db"}).shape, 1),))
    assert zones_of(asked(near, rooms=(full,))) == {"c": 2}


def test_rules_come_before_wishes() -> None:
    torn = preferring(3, preferred_nodes=(zone_preference("b"),), spread=(spread(ZONE, app="web"),))
    assert zones_of(asked(torn)) == {"a": 1, "b": 1, "c": 1}


def test_no_node_is_bought_for_a_wish_to_be_alone() -> None:
    alone = demand(
        4, 1, 512, labels={"app": "web"}, preferred_anti_affinity=(PreferredPods(100, term(HOSTNAME, app="web")),)
    )
    assert sum(zones_of(asked(alone)).values()) == 1


def test_ignored_wishes_change_nothing() -> None:
    wish = asked(preferring(3, preferred_nodes=(zone_preference("c"),)), preferences="Ignore")
    plain = asked(preferring(3), preferences="Ignore")
    assert solve(wish).nodes == solve(plain).nodes
