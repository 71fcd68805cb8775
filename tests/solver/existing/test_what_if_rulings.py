"""Safe scale-down, ruling by ruling: what the what-if promises beyond the table of cases."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from growth.model.labels import HOSTNAME, ZONE, Labels, LabelSelector, Requirement
from growth.model.node import SCALE_DOWN_TAINT, Node, Taint
from growth.model.pod import HostPort, PodAffinityTerm, TopologySpread
from growth.model.resources import Resources
from growth.model.settings import Settings
from growth.solver.existing.what_if import PLAIN_HEADROOM, Holding, WhatIf, with_headroom
from tests.solver.existing.test_what_if_cases import GONE, answer, asked, moved, moves
from tests.solver.rules.scenes import GPU, apps, near, node, pod, shape, term, tolerates

GIB = 2**30


def test_ruling_1_a_pod_that_tolerates_a_taint_fits_a_node_without_it() -> None:
    assert asked([moved(tolerations=(tolerates("gpu", "true", "NoSchedule"),))], [node("a")]).may_go


def test_ruling_2_a_wildcard_for_no_execute_does_not_tolerate_no_schedule() -> None:
    assert not asked(
        [moved(tolerations=(tolerates(operator="Exists", effect="NoExecute"),))], [node("a", taints=(GPU,))]
    ).may_go


def test_ruling_3_nodes_chosen_in_the_same_pass_are_no_targets() -> None:
    what_if = WhatIf.once([node("a"), node("b")], [pod("x", "a", cpu=1), pod("y", "b", cpu=1)])
    first = what_if.judge(["a"])
    assert moves(first) == [("default/x", "b")]
    what_if.keep(first)
    second = what_if.judge(["b"])
    assert second.block is not None
    assert second.block.message == "no available nodes for rescheduling"
    leaving = WhatIf.once([node("a"), node("b")], [pod("x", "a")], leaving=["b"]).judge(["a"])
    assert answer(leaving) == "BLOCK, no_nodes"


def test_ruling_3_what_was_kept_moves_on_with_the_node_it_went_to() -> None:
    what_if = WhatIf.once([node("a"), node("b"), node("c")], [pod("x", "a", cpu=1), pod("y", "b", cpu=1)])
    what_if.keep(what_if.judge(["a"]))
    assert sorted(name for name, _ in moves(what_if.judge(["b"]))) == ["default/x", "default/y"]


def test_ruling_4_simulated_placements_count_for_those_that_follow() -> None:
    ports = [moved(f"p{n}", host_ports=(HostPort(80),)) for n in range(2)]
    assert answer(asked(ports, [node("a")])) == "BLOCK, hostport"
    assert answer(asked(ports, [node("a"), node("b")])) == "ALLOW"
    quiet, loner = moved("quiet"), moved("loner", app="db", anti_affinity=(near("web"),))
    assert answer(asked([quiet, loner], [node("a")])) == "BLOCK, antiaffinity"  # symmetry among those that move
    assert answer(asked([quiet, loner], [node("a"), node("b")])) == "ALLOW"
    spread = {"spread": (TopologySpread(1, HOSTNAME, selector=apps("web")),)}
    assert asked([moved(f"p{n}", **spread) for n in range(3)], [node("a", pods=1), node("b")]).may_go
    assert not asked([moved(f"p{n}", **spread) for n in range(4)], [node("a", pods=1), node("b")]).may_go
    assert answer(asked([moved("p"), moved("q")], [node("a", pods=1)])) == "BLOCK, resources"


def test_ruling_5_node_affinity_by_field_and_the_union_of_namespaces() -> None:
    named = term(fields=(Requirement("metadata.name", "In", ("b",)),))
    assert asked([moved(node_affinity=(named,))], [node("b")]).may_go
    assert answer(asked([moved(node_affinity=(named,))], [node("a")])) == "BLOCK, nodeaffinity"
    assert answer(asked([moved(node_affinity=())], [node("a")])) == "BLOCK, nodeaffinity"
    wide = PodAffinityTerm(HOSTNAME, apps("web"), ("one",), LabelSelector((Requirement("tier", "In", ("x",)),)))
    elsewhere = replace(pod("x", "a"), shape=replace(shape(), namespace="two"))
    namespaces = {"two": Labels({"tier": "x"})}
    assert (
        answer(asked([moved(anti_affinity=(wide,))], [node("a")], (elsewhere,), namespaces=namespaces))
        == "BLOCK, antiaffinity"
    )


def test_ruling_6_a_reorder_is_tried_before_a_block() -> None:
    sizes, rooms = [5, 4, 4, 3, 2, 2], [10, 10]
    found = asked(
        [moved(f"p{n}", cpu=size) for n, size in enumerate(sizes)],
        [node(f"n{n}", cpu=room) for n, room in enumerate(rooms)],
        headroom=0.0,
    )
    assert found.may_go


def test_ruling_6_the_search_is_bounded_and_a_spent_budget_keeps_the_node() -> None:
    movers, remaining = [moved("p", cpu=4), moved("q", cpu=3), moved("r", cpu=3)], [node("a", cpu=6), node("b", cpu=4)]
    what_if = WhatIf.once([GONE, *remaining], movers, headroom=0.0)
    what_if.steps.left = 0
    assert what_if.judge([GONE.name]).block is not None
    assert asked(movers, remaining, headroom=0.0).may_go


def test_ruling_7_the_message_names_pod_constraint_and_how_many_nodes() -> None:
    mover = replace(
        moved("web-abc123"), shape=replace(shape(), namespace="myapp", requests=Resources({"memory": 4 * GIB}))
    )
    small = replace(node("d"), allocatable=Resources({"cpu": 4000, "memory": GIB, "pods": 110}))
    found = asked([mover], [*(node(name, taints=(GPU,)) for name in "abc"), small])
    assert found.block is not None
    assert found.block.message == (
        "pod myapp/web-abc123 cannot be rescheduled: taint gpu=true:NoSchedule on 3 of 4 remaining nodes is not "
        "tolerated; "
        "1 node: insufficient memory (needs 4Gi, has 1Gi)"
    )
    assert dict(found.block.fields()) == {
        "pod": "myapp/web-abc123",
        "constraintType": "toleration",
        "constraint": "gpu=true:NoSchedule",
        "nodesChecked": 4,
        "availableNodes": 4,
        "checkType": "rescheduling_toleration",
    }


def test_ruling_7_the_other_sentences() -> None:
    def message(*given: object) -> str:
        found = asked(*given)  # type: ignore[arg-type]
        return "" if found.block is None else found.block.message

    assert message([moved(node_selector=Labels({"disktype": "ssd"}))], [node("a"), node("b")]) == (
        "pod default/p cannot be rescheduled: 2 nodes: didn't match node selector disktype=ssd"
    )
    assert message([moved(cpu=3)], [node("a", cpu=2), node("b", cpu=2), node("c", taints=(GPU,))]) == (
        "pod default/p cannot be rescheduled: 2 nodes: insufficient cpu (needs 3, has at most 2); "
        "taint gpu=true:NoSchedule on 1 of 3 remaining nodes is not tolerated"
    )
    assert message([moved(cpu=3), moved("q", cpu=3)], [node("a")]) == (
        "its pods cannot be rescheduled: insufficient cpu on the 1 remaining node "
        "(needs 7200m with 20% headroom, has 4)"
    )
    assert message([moved(anti_affinity=(near("web"),))], [node("a")], (pod("x", "a"),)) == (
        "pod default/p cannot be rescheduled: 1 node: didn't match pod anti-affinity app In [web] on "
        "kubernetes.io/hostname"
    )
    assert message([moved()], []) == "no available nodes for rescheduling"


@pytest.mark.parametrize(
    ("headroom", "may_go"), [(PLAIN_HEADROOM, False), (Settings().consolidation_headroom, True), (0.0, True)]
)
def test_ruling_7_headroom_is_20_percent_for_plain_scale_down_and_5_for_consolidation(
    headroom: float, may_go: bool
) -> None:
    movers = [moved(f"p{n}", cpu=1) for n in range(7)]
    assert asked(movers, [node("a"), node("b")], headroom=headroom).may_go is may_go


def test_ruling_7_headroom_rounds_up_amounts_and_down_devices() -> None:
    assert (with_headroom("cpu", 1001, 0.05), with_headroom("memory", 100, 0.2)) == (1052, 120)
    assert (with_headroom("nvidia.com/gpu", 4, 0.2), with_headroom("nvidia.com/gpu", 5, 0.2)) == (4, 6)


@pytest.mark.parametrize(
    ("mover", "remaining", "check_type"),
    [
        (moved(), [node("a", taints=(GPU,))], "rescheduling_toleration"),
        (moved(node_selector=Labels({"a": "b"})), [node("a")], "rescheduling_nodeselector"),
        (moved(node_affinity=(term(),)), [node("a")], "rescheduling_nodeaffinity"),
        (moved(required_node="far"), [node("a")], "rescheduling_nodeaffinity"),
        (moved(affinity=(near("db"),)), [node("a")], "rescheduling_affinity"),
        (moved(spread=(TopologySpread(1, "rack", selector=apps("web")),)), [node("a")], "rescheduling_spread"),
        (moved(cpu=3), [node("a", cpu=2), node("b", cpu=2)], "rescheduling_resources"),
        (moved(malformed="spec.containers: not a list"), [node("a")], "rescheduling_malformed"),
        (moved(), [], "no_nodes"),
        (moved(cpu=4), [node("a", cpu=2)], "capacity"),
    ],
)
def test_ruling_8_every_block_has_its_check_type(mover: object, remaining: list[object], check_type: str) -> None:
    found = asked([mover], remaining)  # type: ignore[list-item, arg-type]
    assert found.block is not None
    assert found.block.check_type == check_type


def test_ruling_10_all_daemon_set_pods_are_skipped_and_an_unknown_node_is_an_error() -> None:
    with pytest.raises(KeyError):
        WhatIf.once([node("a")], []).judge(["missing"])


# ----------------------------------------------------------------------------------- who holds room


def test_virtual_pods_hold_room_on_what_stays() -> None:
    spare = Holding("buffer web", shape(cpu=3))
    what_if = WhatIf.once([node("a"), node("b")], [pod("x", "a", cpu=2)], holdings=[spare])
    assert what_if.without_room == 0
    assert answer(what_if.judge(["a"])) == "BLOCK, capacity"
    assert WhatIf.once([node("a"), node("b"), node("c")], [pod("x", "a", cpu=2)], holdings=[spare]).judge(["a"]).may_go


def test_an_empty_node_stays_while_virtual_pods_fit_nowhere_else() -> None:
    what_if = WhatIf.once(
        [node("a"), node("b")], [pod("x", "a", cpu=3)], holdings=[Holding("buffer web", shape(cpu=2), 2)]
    )
    verdict = what_if.judge(["b"])
    assert verdict.block is not None
    assert answer(verdict) == "BLOCK, capacity"


def test_virtual_pods_of_one_buffer_each_need_a_place_of_their_own() -> None:
    def sized(name: str, cpu: int, memory: int) -> Node:
        return replace(node(name), allocatable=Resources({"cpu": cpu * 1000, "memory": memory * GIB, "pods": 110}))

    nodes = [sized("gone", 6, 1), sized("b", 4, 8), sized("c", 2, 8)]
    what_if = WhatIf.once(nodes, [], holdings=[Holding("buffer web", shape(cpu=3), 2)], headroom=0.0)
    assert answer(what_if.judge(["gone"])) == "BLOCK, resources"
    roomier = [sized("gone", 6, 1), sized("b", 4, 8), sized("c", 3, 8)]
    found = WhatIf.once(roomier, [], holdings=[Holding("buffer web", shape(cpu=3), 2)], headroom=0.0).judge(["gone"])
    assert sorted(found.targets) == ["b", "c"]


def test_virtual_pods_that_find_no_room_even_now_hold_none() -> None:
    what_if = WhatIf.once([node("a"), node("b")], [pod("x", "a", cpu=1)], holdings=[Holding("huge", shape(cpu=9), 3)])
    assert what_if.without_room == 3
    assert what_if.judge(["a"]).may_go


def test_several_nodes_are_judged_together() -> None:
    nodes, pods = [node(name) for name in "abc"], [pod("x", "a", cpu=2), pod("y", "b", cpu=2)]
    assert answer(WhatIf.once(nodes, pods, headroom=0.0).judge(["a", "b"])) == "ALLOW"
    assert (
        answer(WhatIf.once(nodes, [*pods, pod("z", "c", cpu=1)], headroom=0.0).judge(["a", "b"])) == "BLOCK, capacity"
    )


def test_a_question_changes_nothing() -> None:
    nodes = [
        node("a", "z1"),
        node("b", "z2"),
        node("c", "z1", taints=(Taint("x"),)),
        node("d", taints=(SCALE_DOWN_TAINT,)),
    ]
    spread = {"spread": (TopologySpread(1, ZONE, selector=apps("web")),)}
    pods = [
        pod("p", "a", cpu=1, **spread),
        pod("q", "b", cpu=1, **spread),
        pod("r", "c", anti_affinity=(near("web"),), app="db"),
    ]
    what_if = WhatIf.once(nodes, pods)
    names = [each.name for each in nodes]
    first = {name: what_if.judge([name]) for name in names}
    again = {name: what_if.judge([name]) for name in reversed(names)}
    assert first == again
