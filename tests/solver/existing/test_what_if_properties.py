"""The what-if on random worlds: never a false ALLOW, never a false BLOCK where few pods move, no crash on anything."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from growth.model.labels import HOSTNAME, ZONE, Labels, LabelSelector, NodeSelectorTerm, Requirement
from growth.model.node import Node, Taint
from growth.model.pod import HostPort, Pod, PodAffinityTerm, PodShape, Toleration, TopologySpread, VolumeUse
from growth.model.resources import Resources
from growth.solver.existing.what_if import Holding, WhatIf
from growth.solver.rules import Neighbours
from tests.solver.existing.test_what_if_cases import moves
from tests.solver.rules.scenes import apps, near, node, pod

RULES: tuple[dict[str, Any], ...] = (
    {},
    {"anti_affinity": (near("web"),)},
    {"affinity": (near("db", key=ZONE),)},
    {"spread": (TopologySpread(1, HOSTNAME, selector=apps("web")),)},
    {"spread": (TopologySpread(1, ZONE, selector=apps("web")),)},
    {"host_ports": (HostPort(80),)},
    {"node_selector": Labels({ZONE: "z1"})},
)
mover_fields = st.tuples(st.sampled_from(("web", "db")), st.integers(0, 4), st.sampled_from(RULES))
nodes_left = st.lists(st.tuples(st.sampled_from(("z1", "z2")), st.integers(1, 6)), min_size=1, max_size=3)


def is_possible(nodes: list[Node], staying: list[Pod], movers: list[Pod]) -> bool:
    """Every order and every target, by the rules themselves."""
    if not movers:
        return True
    for position, mover in enumerate(movers):
        index = Neighbours(nodes, staying)
        fits = index.fits(index.class_of_pod(mover))
        rest = movers[:position] + movers[position + 1 :]
        for number in range(len(nodes)):
            if fits[number] and is_possible(nodes, [*staying, _at(mover, nodes[number])], rest):
                return True
    return False


def sized(number: int, cpu: int, gibibytes: int, **fields: Any) -> Pod:
    moving = pod(f"m{number}", "gone", cpu=cpu, **fields)
    requests = Resources({"cpu": cpu * 1000, "memory": gibibytes << 30})
    return replace(moving, shape=replace(moving.shape, requests=requests))


def holding(name: str, pods: list[Pod]) -> Node:
    """A node on which these pods fit, and nothing beside them."""
    amounts = {of: max(1, sum(one.shape.requests[of] for one in pods)) for of in ("cpu", "memory")}
    return replace(node(name), allocatable=Resources({**amounts, "pods": max(1, len(pods))}))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 5), st.integers(0, 4)), min_size=13, max_size=20))
def test_up_to_twenty_pods_find_the_only_places_that_are_left(drawn: list[tuple[int, int, int]]) -> None:
    movers = [sized(number, cpu, gibibytes) for number, (cpu, gibibytes, _) in enumerate(drawn)]
    there = [[one for one, (_, _, target) in zip(movers, drawn, strict=True) if target == other] for other in range(5)]
    nodes = [holding(f"n{number}", pods) for number, pods in enumerate(there) if pods]
    verdict = WhatIf.once([holding("gone", movers), *nodes], movers, headroom=0.0).judge(["gone"])
    assert verdict.may_go
    for target in nodes:
        held = [one.pod.shape.requests for one, name in zip(verdict.movers, verdict.targets, strict=True)
                if name == target.name and isinstance(one.pod, Pod)]  # fmt: skip
        assert all(sum(one[of] for one in held) <= target.allocatable[of] for of in ("cpu", "memory"))


def _at(mover: Pod, target: Node) -> Pod:
    return Pod(mover.name, mover.shape, node_name=target.name)


@settings(max_examples=60, deadline=None)
@given(st.lists(mover_fields, min_size=1, max_size=4), nodes_left, st.lists(mover_fields, max_size=2))
def test_the_answer_is_that_of_trying_everything(movers: list[Any], left: list[Any], others: list[Any]) -> None:
    remaining = [node(f"n{number}", zone, cpu) for number, (zone, cpu) in enumerate(left)]
    staying = [pod(f"s{number}", "n0", app=app, cpu=cpu, **rules) for number, (app, cpu, rules) in enumerate(others)]
    moving = [pod(f"m{number}", "gone", app=app, cpu=cpu, **rules) for number, (app, cpu, rules) in enumerate(movers)]
    verdict = WhatIf.once([node("gone", cpu=64), *remaining], [*moving, *staying], headroom=0.0).judge(["gone"])
    assert verdict.may_go is is_possible(remaining, staying, moving)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=2),
    st.lists(st.integers(1, 7), min_size=1, max_size=3),
    st.integers(0, 3),
)
def test_equal_pods_that_hold_room_are_as_many_as_they_are(held: list[Any], left: list[int], moved: int) -> None:
    """On a node that goes and has room for all of them: the answer is that of trying everything."""
    remaining = [node(f"n{number}", "z1", cpu) for number, cpu in enumerate(left)]
    shapes = [(pod(f"h{number}", cpu=cpu).shape, count) for number, (cpu, count) in enumerate(held)]
    holdings = [Holding(f"held {number}", shape, count) for number, (shape, count) in enumerate(shapes)]
    moving = [pod("m", "gone", cpu=moved)] if moved else []
    what_if = WhatIf.once([node("gone", "z1", 64), *remaining], moving, holdings=holdings, headroom=0.0)
    verdict = what_if.judge(["gone"])
    sizes = [moved, *(cpu for cpu, count in held for _ in range(count))]
    assert not verdict.may_go or _fit_together(sorted(sizes, reverse=True), left)
    if verdict.may_go:
        loads = Counter[str]()
        for mover, target in zip(verdict.movers, verdict.targets, strict=True):
            loads[target] += mover.pod_class.shape.requests["cpu"]
        assert all(loads[each.name] <= each.allocatable["cpu"] for each in remaining)


def _fit_together(sizes: list[int], left: list[int]) -> bool:
    """Every way to put these amounts into what is left."""
    if not sizes:
        return True
    ways = [[*left[:at], room - sizes[0], *left[at + 1 :]] for at, room in enumerate(left) if room >= sizes[0]]
    return any(_fit_together(sizes[1:], way) for way in ways)


@settings(max_examples=60, deadline=None)
@given(st.lists(mover_fields, min_size=1, max_size=5), nodes_left)
def test_the_moves_hold_in_some_order(movers: list[Any], left: list[Any]) -> None:
    remaining = [node(f"n{number}", zone, cpu) for number, (zone, cpu) in enumerate(left)]
    moving = {
        f"default/m{number}": pod(f"m{number}", "gone", app=app, cpu=cpu, **rules)
        for number, (app, cpu, rules) in enumerate(movers)
    }
    verdict = WhatIf.once([node("gone", cpu=64), *remaining], moving.values(), headroom=0.0).judge(["gone"])
    if verdict.may_go:
        assert sorted(name for name, _ in moves(verdict)) == sorted(moving)
        places = {each.name: each for each in remaining}
        assert _holds(remaining, [], [(moving[name], places[target]) for name, target in moves(verdict)])


def _holds(nodes: list[Node], placed: list[Pod], moves: list[tuple[Pod, Node]]) -> bool:
    """Is there an order in which each move is allowed when its turn comes?"""
    index = Neighbours(nodes, placed)
    return not moves or any(
        index.fits_on(index.class_of_pod(mover), index.table.index[target.name])
        and _holds(nodes, [*placed, _at(mover, target)], moves[:position] + moves[position + 1 :])
        for position, (mover, target) in enumerate(moves)
    )


# ---------------------------------------------------------------------------------------- bad input

words = st.sampled_from(("", "a", "app", "web", "kubernetes.io/hostname", "x" * 70, "Ünï", "5", "-1", "\x00"))
operators = st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near", ""))
requirements = st.builds(Requirement, words, operators, st.lists(words, max_size=2).map(tuple))
selectors = st.none() | st.builds(LabelSelector, st.lists(requirements, max_size=2).map(tuple))
terms = st.builds(PodAffinityTerm, words, selectors, st.lists(words, max_size=2).map(tuple), selectors)
spreads = st.builds(
    TopologySpread,
    st.integers(-2, 3),
    words,
    st.sampled_from(("DoNotSchedule", "ScheduleAnyway", "?")),
    selectors,
    st.none() | st.integers(-1, 3),
)
shapes = st.builds(
    PodShape,
    namespace=words,
    labels=st.dictionaries(words, words, max_size=2).map(Labels),
    requests=st.dictionaries(
        st.sampled_from(("cpu", "memory", "pods", "a/b", "odd")), st.integers(-5, 2**70), max_size=3
    ).map(Resources),
    tolerations=st.lists(st.builds(Toleration, words, operators, words, words), max_size=2).map(tuple),
    node_selector=st.dictionaries(words, words, max_size=1).map(Labels),
    node_affinity=st.none()
    | st.lists(
        st.builds(
            NodeSelectorTerm,
            st.lists(requirements, max_size=2).map(tuple),
            st.lists(requirements, max_size=1).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
    affinity=st.lists(terms, max_size=1).map(tuple),
    anti_affinity=st.lists(terms, max_size=1).map(tuple),
    spread=st.lists(spreads, max_size=1).map(tuple),
    host_ports=st.lists(st.builds(HostPort, st.integers(-1, 70_000), words, words), max_size=1).map(tuple),
    volumes=st.lists(st.builds(VolumeUse, words, st.booleans(), words, words, words), max_size=1).map(tuple),
    required_node=words,
    malformed=st.sampled_from(("", "spec: no object")),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(shapes, min_size=1, max_size=4), st.lists(st.builds(Taint, words, words, words), max_size=2))
def test_malformed_specs_get_an_answer_and_never_a_crash(given_shapes: list[PodShape], taints: list[Taint]) -> None:
    names = ("a", "b", "c")
    nodes = [node("a"), node("b", taints=tuple(taints)), node("c", malformed="status: unreadable")]
    pods = [Pod(f"p{number}", one, node_name=names[number % 3]) for number, one in enumerate(given_shapes)]
    what_if = WhatIf.once(nodes, pods)
    for name in names:
        verdict = what_if.judge([name])
        movers = [each for each in pods if each.node_name == name]
        assert (verdict.block is None) or (verdict.block.message and verdict.block.check_type)
        assert verdict.block is not None or len(moves(verdict)) == len(movers)
