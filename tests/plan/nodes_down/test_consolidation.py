"""Nodes with pods whose pods fit elsewhere: chosen, marked, looked at again, handed to removal; and why the others
stay.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import CreateNodeRemovalRequest, MarkScaleDown, UnmarkScaleDown
from growth.model.decision import Decision, Settled
from growth.model.instant import format_instant
from growth.model.node import SCALE_DOWN_AT, Node, Taint
from growth.model.nodepool import DisruptionBudget
from growth.model.noderequest import NodeRemovalRequest, NodeRemovalRequestSpec
from growth.model.outcome import Accepted, Conflict
from growth.model.pod import Owner, Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down import consolidation, scale_down
from growth.plan.nodes_down.budgets import Recent
from growth.plan.world.marks import CONSOLIDATION_TAINT
from growth.plan.world.turn import seen
from tests.plan.builders import NOW, bound, limited, machine, node, notes_by_reason, offering, pod, pool, request, world

SMALL = offering("small", 4, 8192, 0.01)
BIG = offering("big", 16, 32768, 0.05)
OWNER = Owner("ReplicaSet", "web", "uid-web")
FULL = pool("default", "small", "big", consolidation="Full", budgets=(DisruptionBudget("100%"),))
SETTINGS = Settings(disruption_window_seconds=0.0)
KNOWN = consolidation.Ledger(recent=Recent(NOW - 3600))


def plan(
    snapshot: Snapshot, ledger: consolidation.Ledger = KNOWN, settings: Settings = SETTINGS
) -> Decision[consolidation.Ledger]:
    return consolidation.plan(snapshot, ledger, settings)


def works(name: str, on: str, cpu: float = 1, **fields: Any) -> Pod:
    given = {key: fields.pop(key) for key in ("has_local_data", "grace_seconds") if key in fields}
    return replace(bound(pod(name, cpu, owner=fields.pop("owner", OWNER), **fields), on), **given)


def nodes(*names: str, of: Any = SMALL, **fields: Any) -> list[Node]:
    return [node(name, of=of, **fields) for name in names]


def cluster(of_nodes: list[Node], pods: list[Pod], **fields: Any) -> Snapshot:
    fields.setdefault("pools", [FULL])
    fields.setdefault("machines", [machine(each.name, SMALL) for each in of_nodes])
    return world(pods=pods, nodes=of_nodes, offerings=[SMALL, BIG], **fields)


def emptying(name: str, due: float = NOW - 1, **fields: Any) -> Node:
    taints = (*fields.pop("taints", ()), CONSOLIDATION_TAINT)
    return node(name, of=SMALL, taints=taints, annotations={SCALE_DOWN_AT: format_instant(due)}, **fields)


def marked_names(decision: Decision[Any]) -> list[str]:
    return [action.node.name for action in decision.actions if isinstance(action, MarkScaleDown)]


def why(decision: Decision[Any], name: str = "a") -> str:
    (note,) = [note for note in decision.notes if note.about.name == name and note.reason == "Staying"]
    return note.message


# ----------------------------------------------------------------------------------------- choosing


def test_a_node_whose_pods_fit_elsewhere_is_tainted_and_its_pods_move_later() -> None:
    one, other = node("a", of=SMALL, taints=(Taint("team", "x", "PreferNoSchedule"),)), node("b", of=SMALL)
    decision = plan(cluster([one, other], [works("p", "a"), works("q", "b", 2)]))
    assert decision.actions == (MarkScaleDown(seen(one), (*one.taints, CONSOLIDATION_TAINT), NOW + 60),)
    assert notes_by_reason(decision)["ScaleDown"] == ["Node a: 1 pod fits on other nodes, and will move in 60 s"]


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (
            "Off",
            {
                "a": "keeps its nodes, empty ones too (consolidation: Off)",
                "c": "keeps its nodes, empty ones too (consolidation: Off)",
            },
        ),
        ("WhenEmpty", {"a": "gives back empty nodes only, and pods run there (consolidation: WhenEmpty)"}),
    ],
)
def test_only_nodes_of_pools_that_ask_for_full_consolidation_go_and_the_others_say_why_not(
    wish: str, said: dict[str, str]
) -> None:
    snapshot = cluster(nodes("a", "c"), [works("p", "a")], pools=[pool("default", "small", consolidation=wish)])
    decision = plan(snapshot)
    assert decision.actions == ()
    assert {note.about.name: note.message for note in decision.notes} == {
        name: f"the node stays: NodePool default {text}" for name, text in said.items()
    }


def test_without_a_pool_there_is_nothing_to_say() -> None:
    decision = plan(cluster(nodes("a", "b"), [works("p", "a")], pools=[]))
    assert (decision.actions, decision.notes, decision.again_at) == ((), (), None)


def test_the_dearest_node_for_the_fewest_pods_goes_first_and_two_are_never_promised_the_same_room() -> None:
    dear = node("dear", of=BIG)
    snapshot = cluster([dear, *nodes("a", "b")], [works("p", "dear", 2), works("q", "a", 2), works("r", "b", 1)])
    assert marked_names(plan(snapshot)) == ["dear"]  # its pod takes the room that the others would need


def test_several_nodes_go_in_one_pass_as_far_as_the_room_lasts() -> None:
    names = [f"n{number}" for number in range(10)]
    snapshot = cluster(nodes(*names), [works(f"p{number}", name, 2.4, mib=100) for number, name in enumerate(names)])
    half = cluster(nodes(*names), [works(f"p{number}", name, 1.2, mib=100) for number, name in enumerate(names)])
    no_headroom = replace(SETTINGS, scale_down_headroom=0.0)
    assert len(marked_names(plan(snapshot, settings=no_headroom))) == 0  # one pod of 2.4 cores fills a node
    assert len(marked_names(plan(half, settings=no_headroom))) == 6


def test_an_empty_node_is_left_to_scale_down() -> None:
    snapshot = cluster(nodes("a", "b"), [works("p", "b")])
    assert "a" not in marked_names(plan(snapshot))


def test_the_note_carries_the_fields_of_the_log_line_and_the_metric() -> None:
    decision = plan(
        cluster(
            [*nodes("a"), node("b", of=SMALL, taints=(Taint("gpu", "true"),))],
            [works("p", "a"), works("q", "b", owner=None)],
        )
    )
    fields = dict(next(note for note in decision.notes if note.about.name == "a").fields)
    assert fields == {
        "pod": "default/p", "constraintType": "toleration", "constraint": "gpu=true:NoSchedule", "nodesChecked": 1,
        "availableNodes": 1,
        "checkType": "rescheduling_toleration", "node": "a", "nodepool": "default", "blocked": "scale-down blocked",
    }  # fmt: skip


def test_the_same_reason_with_other_numbers_is_not_told_again() -> None:
    def crowded(cpu: float) -> Snapshot:
        return replace(cluster(nodes("a", "b"), [works("p", "a", 3), works("q", "b", cpu, owner=None)]))

    first = plan(crowded(3))
    later = plan(replace(crowded(2.5), now=NOW + 60), first.ledger)
    assert why(first) == why(later)


# ---------------------------------------------------------------------- budgets, min, settling time


def two_to_one() -> list[Pod]:
    return [works("p", "a"), works("q", "b", owner=None)]


def test_the_settling_time_of_a_new_node_is_respected() -> None:
    young = [node("a", of=SMALL, created_at=NOW - 100), node("b", of=SMALL)]
    decision = plan(cluster(young, two_to_one()), settings=replace(SETTINGS, consolidation_interval_seconds=3600.0))
    assert marked_names(decision) == []
    assert [note for note in decision.notes if note.about.name == "a"] == []
    assert decision.again_at == NOW + 500
    assert marked_names(plan(replace(cluster(young, two_to_one()), now=NOW + 500))) == ["a"]


def test_min_is_kept() -> None:
    least = pool("default", limited("small", 9, 2), consolidation="Full", budgets=(DisruptionBudget("100%"),))
    assert (
        why(plan(cluster(nodes("a", "b"), two_to_one(), pools=[least])))
        == "the node stays for now: NodePool default keeps at least 2 of sim-small"
    )


def test_the_disruption_budget_of_the_pool_bounds_what_goes_at_once() -> None:
    names = [f"n{number}" for number in range(20)]
    tight = pool("default", "small", consolidation="Full")
    decision = plan(cluster(nodes(*names), [works(f"p{name}", name, 0.1) for name in names], pools=[tight]))
    assert len(marked_names(decision)) == 2
    assert "the node stays for now: the disruption budget of NodePool default is used up" in {
        note.message for note in decision.notes
    }


def test_law_s8_nodes_emptied_within_the_window_use_the_budget_up() -> None:
    tight = pool("default", "small", consolidation="Full")
    windowed = Settings(disruption_window_seconds=600.0)
    snapshot = cluster(nodes("a", "b"), two_to_one(), pools=[tight])
    recent = replace(KNOWN, recent=Recent(NOW - 3600, {"gone": ("default", NOW - 300)}))
    assert marked_names(plan(snapshot, recent, windowed)) == []
    assert marked_names(
        plan(snapshot, replace(KNOWN, recent=Recent(NOW - 3600, {"gone": ("default", NOW - 700)})), windowed)
    ) == ["a"]


def test_law_s8_after_a_restart_the_first_window_is_waited_for() -> None:
    windowed = Settings(disruption_window_seconds=600.0)
    snapshot = cluster(nodes("a", "b"), two_to_one())
    first = plan(snapshot, consolidation.Ledger(), windowed)
    assert marked_names(first) == []
    later = replace(snapshot, now=NOW + 601)
    assert marked_names(plan(later, first.ledger, windowed)) == ["a"]


def test_nodes_are_looked_at_once_in_an_interval() -> None:
    snapshot = cluster(nodes("a", "b"), two_to_one())
    decision = plan(snapshot, replace(KNOWN, looked_at=NOW - 10))
    assert (decision.actions, decision.again_at) == ((), NOW + 20)


def test_of_many_nodes_a_look_asks_about_some_each_gets_its_turn_and_what_was_said_holds() -> None:
    names = [f"n{number:04d}" for number in range(consolidation.MOST_JUDGED * 2)]
    snapshot = cluster(nodes(*names), [works(f"p-{name}", name, 3) for name in names])
    ledger, heard = consolidation.Ledger(recent=Recent(1.0)), set[str]()
    for turn in range(5):
        later = replace(snapshot, now=NOW + turn * SETTINGS.consolidation_interval_seconds)
        decision = plan(later, ledger)
        ledger, spoken = decision.ledger, {note.about.name for note in decision.notes}
        assert heard <= spoken
        assert len(spoken - heard) <= consolidation.MOST_JUDGED
        heard = spoken
    assert heard == set(names)


@pytest.mark.parametrize("switch", ["pool", "all"])
def test_paused_nothing_is_marked_and_nothing_goes(switch: str) -> None:
    paused = replace(FULL, annotations={"growth.dev/paused": "true"} if switch == "pool" else {})
    settings = replace(SETTINGS, is_paused=switch == "all")
    assert plan(cluster(nodes("a", "b"), two_to_one(), pools=[paused]), settings=settings).actions == ()
    assert plan(cluster([emptying("a"), *nodes("b")], two_to_one(), pools=[paused]), settings=settings).actions == ()


def test_ruling_9_a_pool_that_cannot_be_read_is_not_touched() -> None:
    assert plan(cluster(nodes("a", "b"), two_to_one(), pools=[])).actions == ()


def test_nodes_of_another_manager_arriving_ones_and_dead_ones_are_no_candidates() -> None:
    strangers = [node("a", of_pool="", of=SMALL), node("c", of=SMALL, is_ready=False), *nodes("b", "d")]
    pods = [works("p", "a"), works("r", "c"), works("q", "b", owner=None), works("s", "d")]
    arriving = request("d", SMALL, "Provisioning")
    assert marked_names(plan(cluster(strangers, pods, requests=[arriving]))) == []


# ----------------------------------------------------------------------------------- the race guard


def test_a_marked_node_waits_is_looked_at_again_and_handed_to_removal() -> None:
    waiting = plan(cluster([emptying("a", NOW + 20), *nodes("b")], two_to_one()))
    assert (waiting.actions, waiting.again_at) == ((), NOW + 20)
    due = plan(cluster([emptying("a"), *nodes("b")], two_to_one()))
    (action,) = due.actions
    assert isinstance(action, CreateNodeRemovalRequest)
    assert action.spec == NodeRemovalRequestSpec("a", "default", "sim-small", "id-a", "Consolidated")


def test_a_marked_node_whose_pods_no_longer_fit_is_unmarked_and_other_taints_stay() -> None:
    of_node = emptying("a", taints=(Taint("team", "x"),))
    decision = plan(cluster([of_node, *nodes("b")], [works("p", "a"), works("q", "b", 3.5, owner=None)]))
    assert decision.actions == (UnmarkScaleDown(seen(of_node), (Taint("team", "x"),)),)
    assert notes_by_reason(decision)["ScaleDownCancelled"] == [
        (
            "Node a: the node stays: its pods cannot be rescheduled: insufficient cpu on the 1 remaining node (needs "
            "1050m with 5% headroom, has 500m)"
        )
    ]


def test_headroom_has_hysteresis_more_is_needed_to_begin_than_to_go_on() -> None:
    tight = [works("p", "a"), works("q", "b", 2.9, owner=None)]
    assert marked_names(plan(cluster(nodes("a", "b"), tight))) == []
    assert [type(action) for action in plan(cluster([emptying("a"), *nodes("b")], tight)).actions] == [
        CreateNodeRemovalRequest
    ]


def test_a_pool_that_no_longer_wants_it_takes_the_mark_off() -> None:
    decision = plan(cluster([emptying("a"), *nodes("b")], two_to_one(), pools=[pool("default", "small")]))
    assert [type(action) for action in decision.actions] == [UnmarkScaleDown]


def test_a_strangers_node_with_the_taint_of_a_mark_is_not_touched() -> None:
    foreign = replace(emptying("a"), pool="")
    assert plan(cluster([foreign, *nodes("b")], [works("p", "a")])).actions == ()


def test_scale_down_leaves_the_mark_of_consolidation_alone() -> None:
    snapshot = cluster([emptying("a"), *nodes("b")], two_to_one())
    assert scale_down.plan(snapshot, scale_down.Ledger(), SETTINGS).actions == ()


def taken_back(ledger: consolidation.Ledger, at: float) -> Decision[consolidation.Ledger]:
    """Node a was on its way out, and stands there again."""
    going = NodeRemovalRequest(
        "a", NodeRemovalRequestSpec("a", "default", "sim-small", "id-a", "Consolidated"), uid="u"
    )
    during = plan(replace(cluster([emptying("a"), *nodes("b")], two_to_one(), removals=[going]), now=at - 1), ledger)
    return plan(replace(cluster(nodes("a", "b"), two_to_one()), now=at), replace(during.ledger, looked_at=0.0))


def test_a_removal_that_was_taken_back_is_not_tried_again_for_the_settling_time() -> None:
    back = taken_back(KNOWN, NOW + 60)
    assert marked_names(back) == []
    until = format_instant(NOW + 660)
    assert why(back) == (
        f"the node stays for now: no node of NodePool default is emptied before {until}, after an attempt that was "
        "taken back"
    )
    assert marked_names(plan(replace(cluster(nodes("a", "b"), two_to_one()), now=NOW + 700), back.ledger)) == ["a"]


def test_each_removal_taken_back_in_a_row_is_followed_by_a_pause_four_times_as_long() -> None:
    """Else pods whose room others take again and again would be moved for ever, and a machine bought each time."""
    ledger, at, pauses = KNOWN, NOW, []
    for _ in range(5):
        ledger = taken_back(ledger, at).ledger
        pauses.append(ledger.setbacks["default"].until - at)
        at = ledger.setbacks["default"].until
    assert pauses == [600, 2400, 9600, 38400, 86400]


def test_a_node_that_did_go_ends_the_row() -> None:
    once = taken_back(taken_back(KNOWN, NOW).ledger, NOW + 700).ledger
    going = NodeRemovalRequest(
        "a", NodeRemovalRequestSpec("a", "default", "sim-small", "id-a", "Consolidated"), uid="u"
    )
    during = plan(replace(cluster([emptying("a"), *nodes("b")], two_to_one(), removals=[going]), now=NOW + 9000), once)
    gone = plan(replace(cluster(nodes("b"), []), now=NOW + 9100), during.ledger)
    assert (once.setbacks["default"].count, dict(gone.ledger.setbacks)) == (2, {})


def test_a_write_that_failed_is_decided_anew() -> None:
    snapshot = cluster(nodes("a", "b"), two_to_one())
    decision = plan(snapshot)
    (action,) = decision.actions
    assert (
        consolidation.settle(Settled(action, Accepted()), snapshot, decision.ledger, SETTINGS).ledger == decision.ledger
    )
    failed = consolidation.settle(Settled(action, Conflict("changed")), snapshot, decision.ledger, SETTINGS)
    assert (failed.ledger.looked_at, failed.again_at) == (0.0, NOW + 5)
    assert plan(replace(snapshot, now=NOW + 5), failed.ledger).ledger.recent.seen.keys() == {
        "a"
    }  # chosen anew, and counted once


def test_a_cluster_at_its_optimum_makes_no_move_in_thirty_days() -> None:
    names = [f"n{number}" for number in range(6)]
    snapshot = cluster(nodes(*names), [works(f"p{number}", name, 3, mib=100) for number, name in enumerate(names)])
    ledger, messages = KNOWN, set()
    for hour in range(30 * 24):
        decision = plan(replace(snapshot, now=NOW + hour * 3600.0), ledger)
        assert decision.actions == ()
        ledger = decision.ledger
        messages.add(tuple(note.message for note in decision.notes))
    assert len(messages) == 1  # and nothing new is told
