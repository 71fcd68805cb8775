"""A running pod is moved for what the program's costs save, and a world at rest comes to an end of moves."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest
from msgspec.structs import replace

from growth.model.node import Node
from growth.model.pod import Owner, Pod, PreferredNodes
from growth.model.scheduler import SchedulerSettings
from growth.solver.flow import Fleet
from growth.solver.flow.savings import Move, find_moves
from tests.solver.flow.worlds import machine, soft
from tests.solver.worlds import shape


def running(name: str, on: str, cpu: float = 1, owner: str = "", **fields: object) -> Pod:
    made = shape(cpu, 1, **fields)  # type: ignore[arg-type]
    return Pod(name, made, uid=name, owner=Owner("ReplicaSet", owner or name, owner or name), node_name=on)


def moves(
    nodes: Sequence[Node], pods: Sequence[Pod], settings: SchedulerSettings, most: int = 1, price: float = 1.0
) -> list[Move]:
    fleet = Fleet()
    by_node = {node.name: tuple(pod for pod in pods if pod.node_name == node.name) for node in nodes}
    fleet.follow({node.name: node for node in nodes}, by_node)
    return find_moves(fleet, pods, settings, np.ones(len(nodes), np.bool_), np.full(len(nodes), price), most)


LEAST = SchedulerSettings(improvement_saving=200)
TWO = [machine("n1", cpu=10), machine("n2", cpu=10)]


def test_a_pod_goes_from_a_full_machine_to_an_empty_one_and_the_saving_is_that_of_the_program() -> None:
    pods = [running(f"p{number}", "n1") for number in range(5)]
    [move] = moves(TWO, pods, LEAST)
    assert (move.node, move.cost, move.then, move.saving) == ("n2", 500, 100, 400)


def test_nobody_moves_for_less_than_was_set() -> None:
    pods = [running(f"p{number}", "n1") for number in range(3)]
    assert moves(TWO, pods, LEAST) == []  # 300 here, 100 there
    assert len(moves(TWO, pods, replace(LEAST, improvement_saving=199))) == 1


def test_each_move_is_beside_those_before_it_and_an_owner_moves_once() -> None:
    pods = [running(f"p{number}", "n1") for number in range(8)]
    assert [move.saving for move in moves(TWO, pods, LEAST, most=8)] == [700, 500, 300]
    assert len(moves(TWO, [replace(pod, owner=pods[0].owner) for pod in pods], LEAST, most=8)) == 1


def test_what_is_packed_goes_to_the_fuller_machine() -> None:
    pods = [running("a", "n1"), *(running(f"p{number}", "n2") for number in range(5))]
    [move] = moves(TWO, pods, replace(LEAST, cost_model="pack"))
    assert (move.pod.name, move.node) == ("a", "n2")


def test_a_machine_that_one_pod_keeps_is_left_where_that_is_cheaper() -> None:
    pods = [running("a", "n1"), *(running(f"p{number}", "n2") for number in range(5))]
    [move] = moves(TWO, pods, replace(LEAST, cost_model="cheapest"))
    assert (move.pod.name, move.node, move.then) == ("a", "n2", 0)
    assert moves(TWO, [*pods, running("b", "n1")], replace(LEAST, cost_model="cheapest")) == []


def test_nobody_goes_where_it_likes_less_to_be_or_does_not_fit() -> None:
    pods = [running(f"p{number}", "n1") for number in range(5)]
    assert moves([TWO[0], machine("n2", cpu=10, taints=[soft("old")])], pods, LEAST) == []
    assert moves([TWO[0], machine("n2", cpu=0.5)], pods, LEAST) == []


def test_a_pod_that_has_a_wish_about_nodes_goes_where_it_is_met() -> None:
    from growth.model.labels import NodeSelectorTerm, Requirement

    wish = PreferredNodes(100, NodeSelectorTerm((Requirement("disk", "In", ("ssd",)),)))
    pods = [running("a", "n1", preferred_nodes=(wish,)), running("b", "n2", cpu=5)]
    costly = replace(LEAST, preference_cost=20)
    [move] = moves([TWO[0], machine("n2", cpu=10, disk="ssd")], pods, costly)
    assert (move.pod.name, move.node) == ("a", "n2")


MODELS: tuple[Literal["spread", "pack", "cheapest"], ...] = ("spread", "pack", "cheapest")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(10))
def test_a_world_at_rest_comes_to_an_end_of_moves(seed: int, model: Literal["spread", "pack", "cheapest"]) -> None:
    chance = random.Random(seed)
    settings = SchedulerSettings(cost_model=model, improvement_saving=0, soft_taint_cost=chance.choice((1, 300)))
    nodes = [
        machine(f"n{number}", cpu=chance.choice((4, 8, 16)), taints=[soft("old")] if chance.random() < 0.3 else ())
        for number in range(5)
    ]
    pods = {
        f"p{number}": running(f"p{number}", chance.choice(nodes[:3]).name, cpu=chance.choice((0.25, 0.5, 1)))
        for number in range(8)
    }
    for _ in range(60):
        found = moves(nodes, list(pods.values()), settings, most=2, price=0.1)
        if not found:
            return
        assert all(move.saving > 0 for move in found)
        pods |= {move.pod.name: replace(move.pod, node_name=move.node) for move in found}
    pytest.fail("it never ends")
