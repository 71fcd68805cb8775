"""A fleet that is told what changed equals one that is made anew; one that has missed something says so."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from growth.model.labels import Labels
from growth.model.node import Node
from growth.model.pod import Pod
from growth.solver.flow import Fleet, Round, place
from growth.solver.flow.changes import FleetChange, FleetState, Told
from tests.solver.flow.worlds import SPREAD, group, machine

Cluster = tuple[dict[str, Node], dict[str, tuple[Pod, ...]]]
SHAPES = [group(cpu=cpu).pod.shape for cpu in (0.5, 1, 1.5)]


def clusters(seed: int) -> Iterator[Cluster]:
    """One after the other: nodes and pods come, change and go."""
    chance = random.Random(seed)
    nodes: dict[str, Node] = {}
    pods: dict[str, tuple[Pod, ...]] = {}
    for turn in range(12):
        for number in range(6):
            name = f"n{number}"
            if chance.random() < 0.2:
                nodes.pop(name, None)
            elif chance.random() < 0.4:
                nodes[name] = machine(name, cpu=chance.choice((2, 4)), zone=chance.choice("ab"))
            if chance.random() < 0.5:
                kept = [pod for pod in pods.get(name, ()) if chance.random() < 0.7]
                new = Pod(f"p{turn}", chance.choice(SHAPES), uid=f"{name}-{turn}", node_name=name)
                pods[name] = (*kept, new)
        yield dict(nodes), dict(pods)


def travelled(change: FleetChange, most: int = 2) -> list[FleetChange]:
    return [pickle.loads(pickle.dumps(part)) for part in change.parts(most)]  # noqa: S301


def places(fleet: Fleet) -> Round:
    return place(fleet, [group(20, cpu=0.5), group(3, cpu=1.5)], SPREAD)


@pytest.mark.parametrize("seed", range(20))
def test_a_fleet_that_is_told_what_changed_equals_one_made_anew(seed: int) -> None:
    state, told = FleetState(), Told(FleetState())
    for nodes, pods in clusters(seed):
        state, change = state.follow(nodes, pods)
        assert all(told.hear(part) for part in travelled(change))
        anew = Told(state)
        assert list(told.nodes) == list(anew.nodes)
        here = {name: {each.uid: each for each in pods} for name, pods in told.pods.items() if pods}
        assert here == {name: {each.uid: each for each in pods} for name, pods in anew.pods.items() if pods}
        found, expected = places(told.fleet), places(anew.fleet)
        assert sum(one.count for one in found.placed) == sum(one.count for one in expected.placed)


def test_only_what_is_new_is_told() -> None:
    nodes = {name: machine(name) for name in ("n1", "n2")}
    pods = {"n1": (Pod("a", SHAPES[0], uid="a", node_name="n1"), Pod("b", SHAPES[0], uid="b", node_name="n1"))}
    state, first = FleetState().follow(nodes, pods)
    assert (len(first.nodes), len(first.came)) == (2, 2)
    started = (replace(pods["n1"][0], phase="Running", resource_version="2"), pods["n1"][1])
    state, second = state.follow(nodes, {"n1": started})
    assert (second.nodes, second.came, second.left, state.changes) == ((), (), (), 1)
    more = Pod("c", SHAPES[0], uid="c", node_name="n2")
    state, third = state.follow({**nodes, "n2": replace(nodes["n2"], labels=Labels())}, {"n2": (more,)})
    assert [node.name for node in third.nodes] == ["n2"]
    assert (third.came, third.left) == ((more,), (("n1", "a"), ("n1", "b")))
    assert state.changes == 1 + 4


def test_who_has_missed_something_says_so_and_hears_everything_when_it_is_told_anew() -> None:
    nodes = {"n1": machine("n1")}
    first, told_first = FleetState().follow(nodes, {})
    second, told_second = first.follow({**nodes, "n2": machine("n2")}, {})
    keeper = Told(FleetState())
    assert not keeper.hear(told_second)
    assert keeper.hear(told_first)
    assert keeper.hear(told_second)
    assert not keeper.hear(told_second)
    anew, everything = second.forgotten().follow(nodes, {})
    assert keeper.hear(everything)
    assert list(keeper.nodes) == ["n1"]
    assert anew.changes == second.changes + 1


def test_parts_that_are_left_out_are_missed() -> None:
    _, change = FleetState().follow({name: machine(name) for name in ("n1", "n2", "n3", "n4", "n5")}, {})
    first, _, last = travelled(change)
    keeper = Told(FleetState())
    assert keeper.hear(first)
    assert not keeper.hear(last)
