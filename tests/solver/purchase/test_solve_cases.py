"""The cases people will ask about first, each with its expected plan."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from growth.model.labels import HOSTNAME, ZONE, Labels
from growth.model.node import SCALE_DOWN_TAINT, Node
from growth.model.pod import PodShape, PreferredPods
from growth.model.resources import Resources
from growth.solver.purchase.check import check
from growth.solver.purchase.problem import DemandClass, PlacementProblem, PlacementSolution, Room
from growth.solver.purchase.solve import solve, solve_greedily
from tests.solver.worlds import amounts, at_most, choice, demand, hetzner, offering, room, shape, spread, term


def placed_anywhere(solution: PlacementSolution) -> int:
    return sum(placement.count for placement in solution.placements) + sum(
        count for node in solution.nodes for _, count in node.contents
    )


def unplaced(solution: PlacementSolution) -> int:
    return sum(one.count for one in solution.unplaced)


def test_no_demands_is_an_answer_of_its_own() -> None:
    assert solve(PlacementProblem(choices=hetzner())).kind == "NoDemands"


def test_without_offerings_the_demand_is_unplaced_with_a_reason() -> None:
    solution = solve(PlacementProblem(demands=(demand(1),)))
    assert solution.kind == "IncompletePlacement"
    assert not solution.nodes
    assert unplaced(solution) == 1
    assert solution.unplaced[0].reasons


def test_a_limit_of_two_nodes_leaves_the_third_pod_unplaced() -> None:
    solution = solve(
        PlacementProblem(demands=(demand(3, 2, 4096),), choices=(choice("two", 2, 4096),), limits=(at_most(2, 0),))
    )
    assert len(solution.nodes) == 2
    assert unplaced(solution) == 1
    assert "limit" in " ".join(solution.unplaced[0].reasons)


def test_the_small_pod_joins_the_large_one_on_the_machine_that_is_needed_anyway() -> None:
    choices = (choice("big", 48, 192 * 1024, 0.50), choice("tiny", 2, 4096, 0.01))
    solution = solve(PlacementProblem(demands=(demand(1, 4), demand(1, 2)), choices=choices))
    assert [node.choice for node in solution.nodes] == [0]
    assert placed_anywhere(solution) == 2


def test_pods_of_three_and_one_cpu_fill_ten_nodes_completely() -> None:
    solution = solve(
        PlacementProblem(demands=(demand(10, 3, 100), demand(10, 1, 100)), choices=(choice("four", 4, 8192),))
    )
    assert len(solution.nodes) == 10
    assert all(sorted(node.contents) == [(0, 1), (1, 1)] for node in solution.nodes)


def test_a_hundred_one_cpu_pods_cost_no_more_than_seven_cx52() -> None:
    choices = hetzner()
    solution = solve(
        PlacementProblem(demands=(demand(100),), choices=choices, limits=(at_most(100, *range(len(choices))),))
    )
    assert solution.kind == "AllPlaced"
    assert solution.price_per_hour <= 7 * 0.0314 + 1e-9


def test_memory_is_never_overcommitted() -> None:
    choices = hetzner(("cx22", "cx32", "cx42", "cx52"))
    solution = solve(PlacementProblem(demands=(demand(50, 1, 8192),), choices=choices))
    assert solution.kind == "AllPlaced"
    assert solution.price_per_hour <= 13 * 0.0314 + 1e-9
    for node in solution.nodes:
        asked = sum(count for _, count in node.contents) * 8192 * 1024 * 1024
        assert asked <= choices[node.choice].offering.allocatable["memory"]


def test_five_hundred_pods_cost_less_than_seventy_percent_of_a_node_each() -> None:
    solution = solve(PlacementProblem(demands=(demand(500, 2, 1024),), choices=hetzner()))
    assert solution.kind == "AllPlaced"
    assert solution.price_per_hour < 0.7 * 500 * 0.0060


@pytest.mark.parametrize(("zones", "nodes"), [(("a", "b", "c"), 3), (("a", "b"), 2)])
def test_required_zone_anti_affinity_takes_one_node_in_each_zone(zones: tuple[str, ...], nodes: int) -> None:
    choices = tuple(choice("node", zone=zone) for zone in zones)
    limits = tuple(at_most(1, index, name=zone) for index, zone in enumerate(zones))
    apart = demand(3, labels={"app": "db"}, anti_affinity=(term(ZONE, app="db"),))
    solution = solve(PlacementProblem(demands=(apart,), choices=choices, limits=limits))
    assert len({choices[node.choice].offering.zone for node in solution.nodes}) == len(solution.nodes) == nodes
    assert unplaced(solution) == 3 - nodes


def test_preferred_anti_affinity_never_keeps_a_pod_waiting() -> None:
    choices = tuple(choice("node", zone=zone) for zone in ("a", "b"))
    wish = (PreferredPods(100, term(ZONE, app="db")),)
    solution = solve(
        PlacementProblem(demands=(demand(3, labels={"app": "db"}, preferred_anti_affinity=wish),), choices=choices)
    )
    assert solution.kind == "AllPlaced"


def test_a_limit_shared_over_zones_counts_all_of_them() -> None:
    choices = tuple(choice("node", cpu=1, zone=zone) for zone in ("a", "b", "c"))
    solution = solve(PlacementProblem(demands=(demand(3),), choices=choices, limits=(at_most(2, 0, 1, 2),)))
    assert len(solution.nodes) == 2
    assert unplaced(solution) == 1


@pytest.mark.parametrize(("pods", "cpu", "new"), [(2, 1, 0), (3, 1, 1), (1, 4, 1)])
def test_what_is_on_its_way_takes_pods_first(pods: int, cpu: float, new: int) -> None:
    coming = room("request", 2, 4096, kind="in-flight")
    solution = solve(PlacementProblem(demands=(demand(pods, cpu),), rooms=(coming,), choices=(choice("four"),)))
    assert solution.kind == "AllPlaced"
    assert len(solution.nodes) == new


def test_a_request_in_flight_for_one_pool_does_not_absorb_the_demand_of_another() -> None:
    wants_cpu = demand(1, pools=("cpu",))
    gpu = room("request", 8, 16384, pool="gpu", kind="in-flight")
    solution = solve(PlacementProblem(demands=(wants_cpu,), rooms=(gpu,), choices=(choice("node", pool="cpu"),)))
    assert not solution.placements
    assert len(solution.nodes) == 1


def test_a_pool_with_one_node_left_gets_one_node() -> None:
    full = room("full", 2, 4096, contents=((demand(1, 2, 4096).shape, 1),))
    solution = solve(
        PlacementProblem(
            demands=(demand(3, 2, 4096),), rooms=(full,), choices=(choice("two", 2, 4096),), limits=(at_most(1, 0),)
        )
    )
    assert len(solution.nodes) == 1


def test_a_marked_node_is_free_capacity_in_spite_of_our_own_taint() -> None:
    node = Node("old", allocatable=amounts(4, 8192), taints=(SCALE_DOWN_TAINT,), pool="default")
    solution = solve(PlacementProblem(demands=(demand(2),), rooms=(Room(node, kind="marked"),), choices=(choice(),)))
    assert not solution.nodes
    assert sum(placement.count for placement in solution.placements) == 2
    strangers = (Room(replace(node, pool="")),)
    assert solve(PlacementProblem(demands=(demand(2),), rooms=strangers, choices=(choice(),))).nodes


def test_a_daemon_that_a_spread_counts_leaves_the_pods_unplaced_and_never_stops_the_solver() -> None:
    daemon = shape(0.1, 64, labels={"app": "web"})
    spread_pods = demand(3, 1, 512, labels={"app": "web"}, spread=(spread(HOSTNAME, app="web"),))
    problem = PlacementProblem(demands=(spread_pods, demand(2)), choices=(choice(daemons=(daemon,)),))
    solution = solve(problem)
    assert check(problem, solution) == ()
    assert {one.demand for one in solution.unplaced} <= {0}


# ---------------------------------------------------------------------- a pod that can run is run


FEW_AND_MANY = pytest.mark.parametrize("times", [1, 100])  # the exact model is for few, everything else for many


@FEW_AND_MANY
def test_a_group_that_must_share_a_zone_goes_where_the_limits_hold_all_of_it(times: int) -> None:
    group = demand(4 * times, 3, labels={"app": "x"}, affinity=(term(ZONE, app="x"),))
    cheap, dear = choice("t", 4, 8192, 2.1, "b"), choice("t", 4, 8192, 2.4, "a")
    solution = solve(PlacementProblem((group,), choices=(cheap, dear), limits=(at_most(times, 0),)))
    assert solution.kind == "AllPlaced"
    assert [node.choice for node in solution.nodes] == [1, 1, 1, 1] * times


@FEW_AND_MANY
def test_a_shared_limit_is_not_spent_on_a_preferred_type_that_holds_less(times: int) -> None:
    small, large = choice("small", 2, 4096, 1.0, type_priority=1), choice("large", 16, 32768, 7.0)
    problem = PlacementProblem((demand(16 * times),), choices=(small, large), limits=(at_most(times, 0, 1),))
    solution = solve(problem)
    assert solution.kind == "AllPlaced"
    assert [node.choice for node in solution.nodes] == [1] * times


@FEW_AND_MANY
def test_a_pod_that_avoids_others_leaves_them_the_only_zone_they_may_use(times: int) -> None:
    others = demand(4 * times, 2, labels={"app": "x"}, node_selector=Labels({ZONE: "a"}))
    lonely = demand(times, 3, labels={"app": "y"}, anti_affinity=(term(ZONE, app="x"),))
    choices = choice("t", 4, 8192, 2.0, "a"), choice("t", 4, 8192, 2.1, "b")
    assert solve(PlacementProblem((others, lonely), choices=choices)).kind == "AllPlaced"


@FEW_AND_MANY
def test_pods_that_others_must_be_near_go_where_those_can_go(times: int) -> None:
    first = demand(2 * times, labels={"app": "x"})
    near = demand(2 * times, labels={"app": "y"}, node_selector=Labels({ZONE: "a"}), affinity=(term(ZONE, app="x"),))
    choices = choice("t", 4, 8192, 2.1, "a"), choice("t", 4, 8192, 2.0, "b")
    assert solve(PlacementProblem((first, near), choices=choices)).kind == "AllPlaced"


@FEW_AND_MANY
def test_rooms_are_for_pods_that_cannot_buy(times: int) -> None:
    can_buy = demand(2 * times, 2, pools=("p", "q"))
    cannot = demand(2 * times, 2, pools=("p",), labels={"a": "1"})
    rooms = tuple(room(f"r{number}") for number in range(times))
    assert solve(PlacementProblem((can_buy, cannot), rooms, (choice("t", pool="q"),))).kind == "AllPlaced"


def test_a_room_goes_to_the_pod_whose_own_node_is_dear() -> None:
    first = demand(1, 2, 1536, pools=("p", "q"))
    second = demand(1, 1, 256, pools=("p",), labels={"a": "1"})
    choices = choice("cheap", 4, 4096, 1.7, pool="q"), choice("dear", 16, 32768, 8.165, pool="p")
    solution = solve(PlacementProblem((first, second), (room("r0", 2, 4096),), choices))
    assert solution.price_per_hour == pytest.approx(1.7)


def test_an_even_spread_over_nodes_needs_no_more_nodes_than_hold_it_evenly() -> None:
    small = demand(8, 0.5, 64, labels={"app": "x"}, spread=(spread(HOSTNAME, app="x"),))
    choices = (choice("four", 4, 8192, 1.0, daemons=(shape(1.5, 64),)),)
    assert len(solve(PlacementProblem((small,), choices=choices)).nodes) == 2
    full = room("full", 0.25)
    assert len(solve(PlacementProblem((small,), (full,), choices)).nodes) == 8


def test_many_pods_that_are_spread_over_nodes_need_few_nodes_beside_others() -> None:
    """Every node is a domain, also those that come for the other pods: all of them get their share."""
    spread_out = demand(100, 0.5, 64, labels={"app": "x"}, spread=(spread(HOSTNAME, app="x"),))
    problem = PlacementProblem((spread_out, demand(100, 0.5, 64)), choices=(choice("four", 4, 8192),))
    solution = solve(problem)
    assert check(problem, solution) == ()
    assert len(solution.nodes) == 25


def test_no_plan_is_dearer_than_best_fit_also_where_some_machines_lack_a_resource() -> None:
    gpu = Resources({"cpu": 1000, "nvidia.com/gpu": 1})
    with_gpu = replace(
        choice("gpu", 8, 16384, 3.0), offering=offering("gpu", 8, 16384, 3.0, "z1", **{"nvidia.com/gpu": 1})
    )
    demands = DemandClass(PodShape(requests=gpu), 3, ("default",)), demand(700, 0.3, 300), demand(50, 1.7, 900)
    problem = PlacementProblem(demands, choices=(with_gpu, choice("small", 4, 8192, 1.0)))
    solution, simple = solve(problem), solve_greedily(problem)
    assert check(problem, solution) == check(problem, simple) == ()
    assert solution.price_per_hour <= simple.price_per_hour


def test_few_large_nodes_hold_a_spread_evenly_if_that_is_cheaper_than_one_node_for_each_pod() -> None:
    rule = replace(spread(HOSTNAME, 1, app="web"), min_domains=5)
    pods = demand(40, 0.25, 512, labels={"app": "web"}, spread=(rule,))
    problem = PlacementProblem(demands=(pods,), choices=hetzner())
    solution = solve(problem)
    assert check(problem, solution) == ()
    assert solution.kind == "AllPlaced"
    assert len(solution.nodes) < 10
    assert solution.gap < 0.06
