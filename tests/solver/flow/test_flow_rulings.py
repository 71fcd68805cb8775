"""The rulings on flow placement, by number: what the source says wrongly or leaves open, as growth settles it."""

from __future__ import annotations

from msgspec.structs import replace

from growth.model.labels import HOSTNAME, ZONE, Labels, NodeSelectorTerm, Requirement
from growth.model.node import Node, Taint
from growth.model.pod import HostPort, PreferredNodes, PreferredPods
from growth.solver.flow import place
from tests.solver.flow.worlds import SPREAD, counts, fleet_of, group, left, machine, placed_by, soft, tolerating
from tests.solver.worlds import spread, term

ZONES = [machine(f"{zone}{number}", cpu=8, zone=zone) for zone in ("a", "b", "c") for number in range(3)]


def by_zone(found: dict[str, int]) -> dict[str, int]:
    return {zone: sum(count for name, count in found.items() if name.startswith(zone)) for zone in ("a", "b", "c")}


def test_ruling_1_tolerations_are_a_list_and_empty_means_all() -> None:
    node = machine("m0", taints=[Taint("x", "1"), Taint("x", "2"), Taint("y", "3", "NoExecute")])
    listed = (tolerating("x", "1", "NoSchedule"), tolerating("x", "2", "NoSchedule"), tolerating("y", "3"))
    assert counts(placed_by([node], group(tolerations=listed))) == {"m0": 1}
    assert left(placed_by([node], group(tolerations=listed[:2]))) == 1
    assert counts(placed_by([node], group(tolerations=(tolerating(""),)))) == {"m0": 1}


def test_ruling_2_the_weight_of_soft_taints_is_a_setting_that_can_override_spreading() -> None:
    nodes = [machine("clean", cpu=4), machine("tainted", cpu=4, taints=[soft("old")])]
    assert counts(placed_by(nodes, group(4))) == {"clean": 2, "tainted": 2}
    heavy = replace(SPREAD, soft_taint_cost=1_000)
    assert counts(placed_by(nodes, group(4), settings=heavy)) == {"clean": 4}


def test_ruling_3_pods_of_equal_size_with_other_rules_are_other_classes() -> None:
    nodes = [machine("ssd", cpu=2, disk="ssd"), machine("hdd", cpu=2, disk="hdd")]
    answer = placed_by(nodes, group(2, node_selector=Labels({"disk": "ssd"})), group(2))
    assert counts(answer, 0) == {"ssd": 2}
    assert counts(answer, 1) == {"hdd": 2}


def test_ruling_4_anti_affinity_holds_and_all_go_in_one_step() -> None:
    answer = placed_by(ZONES, group(12, labels={"app": "w"}, anti_affinity=(term(HOSTNAME, app="w"),)))
    assert set(counts(answer).values()) == {1}
    assert [(one.count, one.reason) for one in answer.left] == [
        (3, "0/9 nodes are available: 9 didn't match pod anti-affinity app In [w] on kubernetes.io/hostname")
    ]


def test_ruling_4_spread_holds_also_where_a_zone_is_full() -> None:
    filler = [group(cpu=1).pod.shape] * 7
    bound = {f"c{number}": filler for number in range(3)}
    answer = placed_by(ZONES, group(20, labels={"app": "w"}, spread=(spread(ZONE, 2, app="w"),)), bound=bound)
    assert by_zone(counts(answer)) == {"a": 5, "b": 5, "c": 3}
    assert left(answer) == 7


def test_ruling_4_spread_over_zones_and_machines_at_once() -> None:
    rules = (spread(ZONE, 1, app="w"), spread(HOSTNAME, 1, app="w"))
    answer = placed_by(ZONES, group(20, labels={"app": "w"}, spread=rules))
    assert sorted(by_zone(counts(answer)).values()) == [6, 7, 7]


def test_ruling_4_affinity_follows_the_first_of_its_kind() -> None:
    answer = placed_by(ZONES, group(10, labels={"app": "w"}, affinity=(term(ZONE, app="w"),)))
    assert sorted(by_zone(counts(answer)).values()) == [0, 0, 10]


def test_ruling_4_pods_that_need_others_wait_for_them_in_the_same_round() -> None:
    follower = group(2, labels={"app": "f"}, affinity=(term(HOSTNAME, app="leader"),))
    answer = placed_by(ZONES, follower, group(1, labels={"app": "leader"}))
    assert set(counts(answer, 0)) == set(counts(answer, 1))


def test_ruling_4_repelled_by_those_that_run() -> None:
    guard = group(labels={"app": "g"}, anti_affinity=(term(ZONE, app="w"),)).pod.shape
    answer = placed_by(ZONES, group(6, labels={"app": "w"}), bound={"a1": [guard]})
    assert by_zone(counts(answer))["a"] == 0
    assert left(answer) == 0


def test_ruling_4_a_host_port_is_taken_once_on_each_machine() -> None:
    answer = placed_by(ZONES, group(10, host_ports=(HostPort(80),)))
    assert set(counts(answer).values()) == {1}
    assert left(answer) == 1


def test_ruling_5_no_execute_keeps_new_pods_away_too() -> None:
    assert left(placed_by([machine("m0", taints=[Taint("a", "", "NoExecute")])], group())) == 1


# ------------------------------------------------------------- priorities, preferences, cost models


def test_the_higher_priority_gets_the_room_whatever_its_size() -> None:
    answer = placed_by([machine("m0", cpu=4)], group(3, cpu=2), group(4, cpu=1, priority=10))
    assert counts(answer, 1) == {"m0": 4}
    assert left(answer, 0) == 3


def test_who_waited_longest_stays_out_last() -> None:
    answer = placed_by([machine("m0", cpu=1)], group(1), group(1, waiting_seconds=600.0, labels={"app": "old"}))
    assert left(answer, 0) == 1
    assert counts(answer, 1) == {"m0": 1}


def test_a_preferred_node_is_taken_while_it_is_not_too_full() -> None:
    likes = (PreferredNodes(100, NodeSelectorTerm((Requirement("disk", "In", ("ssd",)),))),)
    nodes = [machine("ssd", cpu=4, disk="ssd"), machine("hdd", cpu=4)]
    assert counts(placed_by(nodes, group(1, preferred_nodes=likes))) == {"ssd": 1}
    assert counts(placed_by(nodes, group(4, preferred_nodes=likes), settings=replace(SPREAD, preference_cost=9))) == {
        "ssd": 4
    }


def test_pods_prefer_to_stand_beside_others_or_away_from_them() -> None:
    web = group(labels={"app": "web"}).pod.shape
    beside = group(2, preferred_affinity=(PreferredPods(100, term(ZONE, app="web")),))
    away = group(2, preferred_anti_affinity=(PreferredPods(100, term(ZONE, app="web")),))
    settings = replace(SPREAD, preference_cost=10)
    assert by_zone(counts(placed_by(ZONES, beside, bound={"b0": [web]}, settings=settings))) == {"a": 0, "b": 2, "c": 0}
    assert by_zone(counts(placed_by(ZONES, away, bound={"b0": [web]}, settings=settings)))["b"] == 0


def test_a_spread_that_is_only_wished_for_is_kept_while_it_can_be() -> None:
    wished = group(9, labels={"app": "w"}, spread=(spread(ZONE, 1, "ScheduleAnyway", app="w"),))
    assert by_zone(counts(placed_by(ZONES, wished))) == {"a": 3, "b": 3, "c": 3}
    assert by_zone(counts(placed_by(ZONES[:3], wished))) == {"a": 9, "b": 0, "c": 0}


def test_cheapest_uses_what_is_kept_anyway_then_the_lowest_price() -> None:
    nodes = [machine("dear"), machine("kept", cpu=1), machine("cheap")]
    fleet = fleet_of(nodes, {"kept": [group(cpu=0.1).pod.shape]})
    prices = {"dear": 3.0, "kept": 5.0, "cheap": 1.0}

    def price_of(node: Node) -> float:
        return prices[node.name]

    answer = place(fleet, [group(3, cpu=0.9)], replace(SPREAD, cost_model="cheapest"), price_of=price_of)
    assert counts(answer) == {"kept": 1, "cheap": 2}


def test_machines_that_are_no_target_take_nobody_and_are_told_so() -> None:
    answer = place(fleet_of(ZONES[:2]), [group(20)], SPREAD, is_target=lambda node: node.name == "a0")
    assert counts(answer) == {"a0": 8}
    assert answer.left[0].reason == "0/2 nodes are available: 1 insufficient cpu, 1 going away"


def test_a_gang_that_fails_leaves_its_room_to_others() -> None:
    nodes = [machine("m0", cpu=3)]
    answer = placed_by(nodes, group(4, gang="large"), group(3, gang="small", labels={"app": "s"}), large=4, small=3)
    assert counts(answer, 0) == {}
    assert counts(answer, 1) == {"m0": 3}


def test_one_of_two_gangs_runs_where_each_would_get_half() -> None:
    answer = placed_by([machine("m0", cpu=4)], group(4, gang="a"), group(4, gang="b", labels={"app": "b"}), a=4, b=4)
    assert sorted((sum(counts(answer, 0).values()), sum(counts(answer, 1).values()))) == [0, 4]
