"""Random fleets and pods: every placement passes the independent checker, whoever is left fits nowhere, and following a
cluster equals beginning anew.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from growth.model.labels import HOSTNAME, ZONE, Labels
from growth.model.node import Node, Taint
from growth.model.pod import HostPort, Pod, PodShape, PreferredPods
from growth.solver.flow import Fleet, Group, Round, place
from growth.solver.rules import Neighbours
from tests.solver.flow.worlds import SPREAD, Bound, fleet_of, machine, pods_on, refused_in_order, soft, tolerating
from tests.solver.worlds import shape, spread, term

APPS = ("a", "b")


@st.composite
def shapes(draw: st.DrawFn) -> PodShape:
    app, other = draw(st.sampled_from(APPS)), draw(st.sampled_from(APPS))
    key = draw(st.sampled_from([HOSTNAME, ZONE]))
    rules: list[dict[str, Any]] = [
        {},
        {},
        {"tolerations": (tolerating("t"),)},
        {"node_selector": Labels({"disk": "ssd"})},
        {"anti_affinity": (term(key, app=other),)},
        {"affinity": (term(key, app=other),)},
        {"spread": (spread(key, draw(st.integers(1, 2)), app=app),)},
        {"spread": (spread(ZONE, 1, app=app), spread(HOSTNAME, 1, app=app))},
        {"spread": (spread(ZONE, 1, app=app),), "anti_affinity": (term(HOSTNAME, app=app),)},
        {"host_ports": (HostPort(80),)},
        {
            "preferred_anti_affinity": (PreferredPods(10, term(key, app=app)),),
            "spread": (spread(key, 1, "ScheduleAnyway", app=app),),
        },
    ]
    rule = draw(st.sampled_from(rules))
    return shape(draw(st.sampled_from([0, 0.5, 1, 2])), draw(st.sampled_from([1, 512, 1024])), {"app": app}, **rule)


@st.composite
def machines(draw: st.DrawFn) -> list[Node]:
    kinds = draw(
        st.lists(
            st.tuples(
                st.sampled_from("xyz"), st.sampled_from(["", "soft", "hard"]), st.booleans(), st.sampled_from([1, 3])
            ),
            max_size=6,
        )
    )
    taints = {"": (), "soft": (soft("t"),), "hard": (Taint("t"),)}
    return [
        machine(f"m{number}", cpu, 2048, zone, taints[kind], disk="ssd" if ssd else "hdd")
        for number, (zone, kind, ssd, cpu) in enumerate(kinds)
    ]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Node], dict[str, list[PodShape]], list[Group]]:
    nodes = draw(machines())
    bound = {node.name: draw(st.lists(shapes().map(harmless), max_size=2)) for node in nodes}
    groups = [
        Group(Pod("new", one), draw(st.integers(1, 6)), waiting_seconds=60.0 * draw(st.integers(0, 3)))
        for one in draw(st.lists(shapes(), max_size=4))
    ]
    return nodes, bound, groups


def harmless(one: PodShape) -> PodShape:
    """Running pods may stand wherever they stand: only their labels, sizes and repulsion matter."""
    return PodShape(
        labels=one.labels, requests=one.requests, anti_affinity=one.anti_affinity, host_ports=one.host_ports
    )


@given(worlds(), st.sampled_from(["spread", "pack", "cheapest"]))
@settings(max_examples=80, deadline=None)
def test_every_placement_is_valid_and_whoever_is_left_fits_nowhere(
    world: tuple[list[Node], dict[str, list[PodShape]], list[Group]], model: Any
) -> None:
    nodes, bound, groups = world
    answer = place(
        fleet_of(nodes, bound), groups, replace(SPREAD, cost_model=model), price_of=lambda node: float(len(node.labels))
    )
    assert refused_in_order(nodes, bound, groups, answer) == []
    assert [each.count for each in groups] == [counted(answer, number) for number in range(len(groups))]
    after = settled(nodes, bound, groups, answer)
    assert [one.group for one in answer.left if after.fits(after.class_of(groups[one.group].pod.shape)).any()] == []


@given(worlds())
@settings(max_examples=40, deadline=None)
def test_a_gang_is_whole_or_not_there(world: tuple[list[Node], dict[str, list[PodShape]], list[Group]]) -> None:
    nodes, bound, groups = world
    ganged = [replace(each, gang=f"g{number % 2}") for number, each in enumerate(groups)]
    needs = {f"g{half}": sum(each.count for each in ganged if each.gang == f"g{half}") for half in range(2)}
    answer = place(fleet_of(nodes, bound), ganged, SPREAD, needs)
    assert refused_in_order(nodes, bound, groups, answer) == []
    started = {half: sum(one.count for one in answer.placed if ganged[one.group].gang == half) for half in needs}
    assert all(started[half] in (0, needs[half]) for half in needs)


@given(
    machines(),
    st.lists(machines(), max_size=2),
    st.lists(shapes().map(harmless), max_size=6),
    st.lists(shapes(), max_size=3),
)
@settings(max_examples=40, deadline=None)
def test_a_fleet_that_followed_equals_one_made_anew(
    first: list[Node], later: list[list[Node]], running: list[PodShape], asked: list[PodShape]
) -> None:
    fleet = Fleet()
    groups = [Group(Pod("new", one), 3) for one in asked]
    for turn, nodes in enumerate([first, *later]):
        bound: Bound = {node.name: running[number + turn :: 3] for number, node in enumerate(nodes)}
        fleet.follow({node.name: node for node in nodes}, pods_on(bound))
        answer, anew = place(fleet, groups, SPREAD), place(fleet_of(nodes, bound), groups, SPREAD)
        assert refused_in_order(nodes, bound, groups, answer) == []
        assert told(fleet, asked) == told(fleet_of(nodes, bound), asked)
        assert sum(one.count for one in answer.placed) == sum(one.count for one in anew.placed) or entangled(asked)


def counted(answer: Round, number: int) -> int:
    placed = sum(one.count for one in answer.placed if one.group == number)
    return placed + sum(one.count for one in answer.left if one.group == number)


def entangled(asked: list[PodShape]) -> bool:
    """Then the order of nodes in the index may decide which of several equal places is taken, so how many follow."""
    return any(one.affinity or one.anti_affinity or one.spread for one in asked)


def told(fleet: Fleet, asked: list[PodShape]) -> list[dict[str, int]]:
    """Room by node for each shape."""
    found = []
    for one in asked:
        room = fleet.index.room_for(fleet.index.class_of(one))
        here = fleet.index.table.is_here
        found.append(
            {node.name: int(room[number]) for number, node in enumerate(fleet.index.table.nodes) if here[number]}
        )
    return found


def settled(nodes: list[Node], bound: Bound, groups: list[Group], answer: Round) -> Neighbours:
    """The cluster once everything is where it was sent."""
    index = Neighbours(
        nodes, [pod for pods in pods_on(bound).values() for pod in pods], shapes=[each.pod.shape for each in groups]
    )
    for one in answer.placed:
        index.add(index.class_of(groups[one.group].pod.shape), index.table.index[one.node], one.count)
    return index


@given(worlds())
@settings(max_examples=40, deadline=None)
def test_reasons_asked_for_many_nodes_at_once_are_those_of_each_node(
    world: tuple[list[Node], dict[str, list[PodShape]], list[Group]],
) -> None:
    nodes, bound, groups = world
    index = fleet_of(nodes, bound).index
    for each in groups:
        pod_class = index.class_of(each.pod.shape)
        assert index.why_refused(pod_class, index.table.is_here[: len(nodes)]) == index.why_nowhere(pod_class)
