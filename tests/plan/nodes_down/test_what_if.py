"""Which pods may be moved, and what keeps a node from being emptied, told in words."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.disruption import PodDisruptionBudget
from growth.model.labels import HOSTNAME, LabelSelector, Requirement
from growth.model.pod import Pod, PodAffinityTerm
from growth.model.snapshot import Memo, Snapshot
from growth.plan.nodes_down import what_if
from growth.plan.nodes_down.what_if import Emptying
from growth.plan.world.marks import CONSOLIDATION_TAINT
from growth.solver.existing.what_if import WhatIf
from tests.plan.builders import NOW, node, pod
from tests.plan.nodes_down.test_consolidation import (
    KNOWN,
    SETTINGS,
    SMALL,
    cluster,
    marked_names,
    nodes,
    plan,
    why,
    works,
)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"annotations": {"growth.dev/do-not-disrupt": "true"}},
            "pod default/p must not be disrupted (its annotation says so)",
        ),
        (
            {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
            "pod default/p must not be disrupted (its annotation says so)",
        ),
        (
            {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
            "pod default/p must not be disrupted (its annotation says so)",
        ),
        ({"has_local_data": True}, "pod default/p keeps data on the node (emptyDir or hostPath), which would be lost"),
        ({"owner": None}, "pod default/p has no controller: nobody would make it again"),
        (
            {"namespace": "kube-system"},
            "pod kube-system/p belongs to the system and has no PodDisruptionBudget that says it may move",
        ),
        ({"grace_seconds": 3600}, "pod default/p may take 3600 s to end, and a drain 900 s"),
        (
            {"node_selector": {"disktype": "ssd"}},
            "pod default/p cannot be rescheduled: 1 node: didn't match node selector disktype=ssd",
        ),
        (
            {"cpu": 3.5},
            (
                "its pods cannot be rescheduled: insufficient cpu on the 1 remaining node (needs 4200m with 20% "
                "headroom, has 3)"
            ),
        ),
    ],
)
def test_what_keeps_a_node_is_told_in_words(fields: dict[str, Any], sentence: str) -> None:
    decision = plan(cluster(nodes("a", "b"), [works("p", "a", **fields), works("q", "b", owner=None)]))
    assert marked_names(decision) == []
    assert why(decision) == f"the node stays: {sentence}"


def test_safe_to_evict_true_lets_local_data_and_bare_pods_move() -> None:
    lenient: dict[str, Any] = {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}}
    decision = plan(
        cluster(
            nodes("a", "b"), [works("p", "a", owner=None, has_local_data=True, **lenient), works("q", "b", owner=None)]
        )
    )
    assert marked_names(decision) == ["a"]


def test_a_setting_lets_pods_with_local_data_move() -> None:
    snapshot = cluster(nodes("a", "b"), [works("p", "a", has_local_data=True), works("q", "b", owner=None)])
    assert marked_names(plan(snapshot, settings=replace(SETTINGS, moves_local_data=True))) == ["a"]


@pytest.mark.parametrize(
    "key",
    [
        "growth.dev/do-not-disrupt",
        "karpenter.sh/do-not-disrupt",
        "cluster-autoscaler.kubernetes.io/scale-down-disabled",
    ],
)
def test_a_node_that_must_not_be_disrupted_stays(key: str) -> None:
    decision = plan(
        cluster(
            [node("a", of=SMALL, annotations={key: "true"}), node("b", of=SMALL)],
            [works("p", "a"), works("q", "b", owner=None)],
        )
    )
    assert why(decision) == "the node stays: the node must not be disrupted (its annotation says so)"


def budget(name: str = "web", allowed: int = 1, **fields: Any) -> PodDisruptionBudget:
    return PodDisruptionBudget("default", name, LabelSelector((Requirement("app", "In", ("web",)),)), allowed, **fields)


@pytest.mark.parametrize(
    ("budgets", "sentence"),
    [
        ([budget()], ""),
        ([budget(allowed=0)], "is guarded by PodDisruptionBudget default/web, which allows no disruption now"),
        ([budget(is_current=False)], "is guarded by PodDisruptionBudget default/web, which allows no disruption now"),
        ([budget(), budget("other")], "has 2 PodDisruptionBudgets, and the API server evicts no such pod"),
    ],
)
def test_pod_disruption_budgets_are_foreseen(budgets: list[PodDisruptionBudget], sentence: str) -> None:
    pods = [works("p", "a", labels={"app": "web"}), works("q", "b", owner=None)]
    decision = plan(cluster(nodes("a", "b"), pods, disruption_budgets={each.key: each for each in budgets}))
    assert (marked_names(decision) == ["a"]) is (not sentence)
    assert not sentence or why(decision) == f"the node stays: pod default/p {sentence}"


def counted_indexes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by one entry whenever the whole cluster is read for a what-if."""
    made: list[int] = []

    class Counted(WhatIf):
        def __init__(self, *given: Any, **named: Any) -> None:
            made.append(1)
            super().__init__(*given, **named)

    monkeypatch.setattr(what_if, "WhatIf", Counted)
    return made


def test_while_nodes_and_pods_are_the_same_no_node_is_judged_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted_indexes(monkeypatch)
    world = cluster(nodes("a", "b"), [works("p", "a", cpu=3.0), works("q", "b", cpu=3.0)])
    first = [Emptying(world, SETTINGS, 0.2).why_stays(world.nodes[name]) for name in ("a", "b")]
    later = replace(world, now=world.now + 30.0)
    assert [Emptying(later, SETTINGS, 0.2).why_stays(later.nodes[name]) for name in ("a", "b")] == first
    assert None not in first
    assert len(made) == 1
    changed = replace(later, pods_by_node={**later.pods_by_node, "b": ()})
    assert Emptying(changed, SETTINGS, 0.2).why_stays(changed.nodes["a"]) is None
    assert len(made) == 2


def test_a_node_that_was_chosen_is_forgotten_with_the_look_that_chose_it() -> None:
    world = cluster(nodes("a", "b"), [works("p", "a", cpu=1.0), works("q", "b", cpu=1.0)])
    first = Emptying(world, SETTINGS, 0.2)
    assert first.why_stays(world.nodes["b"]) is None
    first.choose(world.nodes["a"])
    assert first.why_stays(world.nodes["b"]) is not None  # no other node is left
    assert Emptying(world, SETTINGS, 0.2).why_stays(world.nodes["b"]) is None


def test_the_cluster_is_not_read_for_nodes_that_their_own_pods_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted_indexes(monkeypatch)
    world = cluster(nodes("a", "b"), [works("p", "a", owner=None), works("q", "b", owner=None)])
    assert why(plan(world)) == "the node stays: pod default/p has no controller: nobody would make it again"
    assert not made


def test_a_gang_is_moved_whole_or_stays() -> None:
    gang: dict[str, Any] = {"annotations": {"growth.dev/gang": "train"}}
    torn = plan(cluster(nodes("a", "b"), [works("p", "a", **gang), works("q", "b", **gang)]))
    assert marked_names(torn) == []
    assert why(torn).startswith(
        "the node stays: pod default/p is one of gang default/train, of which 2 must run together"
    )
    together = [works("p", "a", **gang), works("q", "a", **gang), works("r", "b", owner=None)]
    assert marked_names(plan(cluster(nodes("a", "b"), together))) == ["a"]


def test_of_a_gang_with_a_share_those_may_move_that_are_not_needed() -> None:
    gang: dict[str, Any] = {"annotations": {"growth.dev/gang": "train:1"}}
    pods = [works("p", "a", **gang), works("q", "b", owner=None, **gang)]
    assert marked_names(plan(cluster(nodes("a", "b"), pods))) == ["a"]


def test_what_one_row_chooses_concerns_nobody_else() -> None:
    snapshot = cluster(nodes("a", "b", "c"), [works("p", "a", 3), works("q", "b", 3)])
    a, b = snapshot.nodes["a"], snapshot.nodes["b"]
    first, second = Emptying(snapshot, SETTINGS, 0.0), Emptying(snapshot, SETTINGS, 0.0)
    assert first.why_stays(a) is None
    first.choose(a)
    assert second.why_stays(b) is None  # it knows of no choice, and c is free for it
    assert first.why_stays(b) is not None  # what was chosen here holds on
    second.choose(b)
    assert (first.why_stays(b) is None, second.why_stays(a) is None) == (False, False)


class _Story:
    """A cluster in which pods come and go, nodes are marked and change."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._nodes = {each.name: each for each in nodes(*(f"n{number}" for number in range(9)))}
        self._pods: dict[str, tuple[Pod, ...]] = {}
        self._made = 0
        for _ in range(16):
            self._pod_comes()

    def _pod_comes(self) -> None:
        self._made += 1
        name, app = self._chance.choice(list(self._nodes)), self._chance.choice(("web", "db"))
        apart = PodAffinityTerm(HOSTNAME, LabelSelector((Requirement("app", "In", (app,)),)))
        rules = {"anti_affinity": (apart,)} if self._chance.random() < 0.2 else {}
        came = works(f"p{self._made}", name, self._chance.choice((0.5, 1, 2)), labels={"app": app}, **rules)
        self._pods[name] = (*self._pods.get(name, ()), came)

    def snapshots(self) -> Iterator[Snapshot]:
        first = cluster(list(self._nodes.values()), [])
        for turn in range(8):
            for _ in range(self._chance.randint(0, 3)):
                self._pod_comes()
                name = self._chance.choice(list(self._pods))
                self._pods[name] = self._pods[name][1:]
            name = self._chance.choice(list(self._nodes))
            taints = (CONSOLIDATION_TAINT,) if self._chance.random() < 0.3 else ()
            self._nodes[name] = replace(self._nodes[name], taints=taints, is_ready=self._chance.random() < 0.9)
            now = NOW + turn * SETTINGS.consolidation_interval_seconds
            yield replace(first, now=now, machines_at=now, nodes=dict(self._nodes), pods_by_node=dict(self._pods))


@pytest.mark.parametrize("seed", range(40))
def test_a_look_by_somebody_who_remembers_the_last_one_decides_as_one_who_does_not(seed: int) -> None:
    remembering, forgetful = KNOWN, KNOWN
    for snapshot in _Story(seed).snapshots():
        look, anew = plan(snapshot, remembering), plan(replace(snapshot, memo=Memo()), forgetful)
        assert (look.actions, look.notes, look.again_at) == (anew.actions, anew.notes, anew.again_at)
        remembering, forgetful = look.ledger, anew.ledger


def test_room_that_a_pod_of_an_absent_scheduler_holds_is_free_after_two_minutes_though_nothing_else_changed() -> None:
    waits = pod("waits", 2.5, scheduler_name="nobody", unschedulable_at=None, created_at=NOW - 60)
    snapshot = cluster(nodes("a", "b"), [works("p", "a"), works("q", "b"), waits])
    assert Emptying(snapshot, SETTINGS, 0.0).why_stays(snapshot.nodes["a"]) is not None
    later = replace(snapshot, now=NOW + 61)
    assert Emptying(later, SETTINGS, 0.0).why_stays(snapshot.nodes["a"]) is None
