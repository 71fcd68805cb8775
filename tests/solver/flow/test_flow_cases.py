"""The documented cases of flow placement, one by one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from growth.model.node import Taint
from growth.model.pod import Toleration
from growth.solver.flow.work import Work
from tests.solver.flow.worlds import SPREAD, counts, fleet_of, group, left, machine, placed_by, soft, tolerating

THREE = [machine("m0"), machine("m1"), machine("m2")]


def test_three_pods_go_one_to_each_of_three_machines_for_300() -> None:
    answer = placed_by(THREE, group(3))
    assert counts(answer) == {"m0": 1, "m1": 1, "m2": 1}
    assert answer.cost == 300


def test_six_pods_go_two_to_each_for_900() -> None:
    answer = placed_by(THREE, group(6))
    assert counts(answer) == {"m0": 2, "m1": 2, "m2": 2}
    assert answer.cost == 900


def test_of_five_soft_taints_the_two_that_are_not_tolerated_cost_two() -> None:
    node = machine("m0", taints=[soft(f"t{number}") for number in range(5)])
    tolerations = tuple(tolerating(f"t{number}") for number in range(3))
    assert placed_by([node], group(1, tolerations=tolerations)).cost == 102


def test_between_equal_machines_one_soft_taint_decides_1201_against_1200() -> None:
    running = {name: [group(cpu=1).pod.shape] * 11 for name in ("clean", "tainted")}
    nodes = [machine("clean", cpu=12), machine("tainted", cpu=12, taints=[soft("old")])]
    alone = {name: placed_by([node], group(), bound=running).cost for name, node in zip(running, nodes, strict=True)}
    assert alone == {"clean": 1200, "tainted": 1201}
    assert counts(placed_by(nodes, group(), bound=running)) == {"clean": 1}


def test_a_dedicated_node_takes_no_pod_without_the_toleration() -> None:
    nodes = [machine("mine", taints=[Taint("dedicated", "user1")])]
    assert left(placed_by(nodes, group())) == 1
    assert counts(placed_by(nodes, group(tolerations=(tolerating("dedicated", "user1"),)))) == {"mine": 1}


def test_tolerating_the_soft_effect_does_not_tolerate_the_hard_one() -> None:
    nodes = [machine("m0", taints=[Taint("foo", "bar")])]
    assert left(placed_by(nodes, group(tolerations=(tolerating("foo", "bar", "PreferNoSchedule"),)))) == 1


def test_the_machine_whose_soft_taint_is_tolerated_is_preferred() -> None:
    nodes = [machine("node1", taints=[soft("foo", "bar")]), machine("node2", taints=[soft("foo", "blah")])]
    assert counts(placed_by(nodes, group(tolerations=(tolerating("foo", "bar", "PreferNoSchedule"),)))) == {"node1": 1}


def test_two_tolerations_with_the_same_key_and_effect_both_count() -> None:
    nodes = [machine("a", cpu=1, taints=[Taint("team", "red")]), machine("b", cpu=1, taints=[Taint("team", "blue")])]
    both = (tolerating("team", "red", "NoSchedule"), tolerating("team", "blue", "NoSchedule"))
    assert counts(placed_by(nodes, group(2, tolerations=both))) == {"a": 1, "b": 1}


def test_where_there_is_not_enough_room_the_rest_stays_with_a_reason() -> None:
    answer = placed_by(THREE, group(8))
    assert sum(counts(answer).values()) == 6
    assert [(one.count, one.reason) for one in answer.left] == [(2, "0/3 nodes are available: 3 insufficient cpu")]


@pytest.mark.parametrize(("cpu", "expected"), [(0.5, 4), (0.6, 3), (1, 2), (1.1, 1), (2.1, 0)])
def test_the_kth_place_of_a_machine_exists_only_if_k_pods_fit(cpu: float, expected: int) -> None:
    answer = placed_by([machine("m0")], group(9, cpu=cpu))
    assert sum(counts(answer).values()) == expected


def test_the_scarcest_of_all_resources_counts() -> None:
    answer = placed_by([machine("m0", cpu=100, mebibytes=1000)], group(9, cpu=1, mebibytes=300))
    assert sum(counts(answer).values()) == 3


def test_a_gang_of_three_quarters_runs_with_three_of_four() -> None:
    nodes = [machine(f"n{number}", cpu=1.2) for number in range(3)]
    assert sum(counts(placed_by(nodes, group(4, cpu=1.2, gang="g"), g=3)).values()) == 3


def test_a_gang_of_four_fifths_does_not_run_with_three_of_five() -> None:
    nodes = [machine(f"n{number}", cpu=1.2) for number in range(3)]
    answer = placed_by(nodes, group(5, cpu=1.2, gang="g"), g=4)
    assert counts(answer) == {}
    assert "4 more must start together" in answer.left[0].reason


def test_a_toleration_without_effect_tolerates_every_effect_of_its_key() -> None:
    nodes = [machine("m0", taints=[Taint("a"), Taint("a", "", "NoExecute"), soft("a")])]
    answer = placed_by(nodes, group(tolerations=(tolerating("a"),)))
    assert counts(answer) == {"m0": 1}
    assert answer.cost == 100


def test_a_toleration_of_all_keys_with_no_execute_tolerates_that_effect_only() -> None:
    everything = (Toleration(operator="Exists", effect="NoExecute"),)
    nodes = [machine("hard", taints=[Taint("a")]), machine("running", taints=[Taint("a", "", "NoExecute")])]
    assert counts(placed_by(nodes, group(2, tolerations=everything))) == {"running": 2}


def test_a_node_that_vanished_is_not_used_and_its_pods_do_not_count() -> None:
    fleet = fleet_of(THREE, {"m0": [group().pod.shape] * 2})
    fleet.follow({node.name: node for node in THREE[1:]}, {})
    assert counts(placed_by(THREE[1:], group(4))) == {"m1": 2, "m2": 2}
    assert len(fleet.index.table.nodes) == 3
    assert not fleet.index.table.is_here[0]


def test_the_fleet_is_left_as_it_was() -> None:
    fleet = fleet_of(THREE)
    before = fleet.load().tolist()
    work = Work(fleet, SPREAD, fleet.index.table.is_here[:3].copy(), fleet.load() * 0)
    work.take_back()
    assert fleet.load().tolist() == before


def test_packing_fills_one_machine_before_the_next() -> None:
    answer = placed_by(
        THREE, group(3), bound={"m1": [group(cpu=1).pod.shape]}, settings=replace(SPREAD, cost_model="pack")
    )
    assert counts(answer)["m1"] == 1
    assert sorted(counts(answer).values()) == [1, 2]


def test_a_gang_that_cannot_start_is_told_for_how_many_there_is_room_and_what_is_missing() -> None:
    answer = placed_by([machine("a", cpu=4), machine("b", cpu=4)], group(5, 3, gang="train"), train=5)
    told = "gang train: 5 more must start together, and there is room for 2; for another one: "
    assert answer.left[0].reason == f"{told}0/2 nodes are available: 2 insufficient cpu"
    few = placed_by([machine("a", cpu=4)], group(1, 3, gang="train"), train=2)
    assert few.left[0].reason == "gang train: 2 more must start together, and there is room for 1"
