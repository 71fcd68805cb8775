"""What `growth explain node` says: why a node stays, with the pod and the constraint, or that and when it goes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.controllers.ask.explain import NodeAnswer, why_node
from growth.model.instant import format_instant
from growth.model.node import DO_NOT_DISRUPT, SCALE_DOWN_AT, SCALE_DOWN_TAINT, Node
from growth.model.noderequest import NodeRemovalRequest, NodeRemovalRequestSpec, NodeRemovalRequestStatus
from growth.model.pod import Owner, Pod
from growth.model.settings import Settings
from tests.plan.builders import NOW, bound, limited, node, offering, pod, pool, world

SMALL = offering("small", 2, 4096, 0.01)
HERE = node("here", of=SMALL)
OTHER = node("other", of=SMALL)


def light(name: str) -> Pod:
    """Somebody would make it again, and it fits anywhere."""
    return bound(pod(name, 0.1, 16, owner=Owner("ReplicaSet", "web")), "here")


def answered(
    *pods: Pod, of: Node = HERE, mode: str = "Full", settings: Settings | None = None, **fields: Any
) -> NodeAnswer:
    snapshot = world(pods, [pool(consolidation=mode)], [SMALL], [of, *fields.pop("others", [OTHER])], **fields)
    return why_node(of, snapshot, settings or Settings())


def test_a_pod_that_fits_nowhere_else_is_named_with_its_constraint() -> None:
    owner = Owner("ReplicaSet", "web")
    answer = answered(bound(pod("a", 1, owner=owner), "here"), bound(pod("b", 2, owner=owner), "other"))
    assert (answer.pool, answer.offering, answer.price_per_hour, answer.pods) == ("default", "sim-small", 0.01, 1)
    assert answer.used == "50% of cpu, 12% of memory"
    assert answer.check_type == "capacity"
    assert "cpu" in answer.answer


def test_a_pod_without_a_controller_keeps_its_node_and_is_named() -> None:
    answer = answered(bound(pod("a", 0.1, 16, owner=None), "here"))
    assert (answer.check_type, answer.blocking_pod) == ("unmanaged_pod", "default/a")


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("Full", "it goes: its pods fit on other nodes, and growth looks every 30 s"),
        (
            "WhenEmpty",
            "it stays: NodePool default gives back empty nodes only, and pods run there (consolidation: WhenEmpty)",
        ),
        ("Off", "it stays: NodePool default keeps its nodes, empty ones too (consolidation: Off)"),
    ],
)
def test_pods_that_could_move_are_told_with_the_pools_mode_in_the_words_of_its_event(mode: str, words: str) -> None:
    assert answered(light("a"), mode=mode).answer == words


def test_the_mode_is_told_before_what_else_would_keep_the_node() -> None:
    answer = answered(bound(pod("a", 0.1, 16, owner=None), "here"), mode="WhenEmpty")
    assert answer.answer.startswith("it stays: NodePool default gives back empty nodes only")
    assert answer.check_type == ""


def test_a_new_node_is_told_until_when_it_is_left_alone() -> None:
    young = replace(HERE, created_at=NOW - 60)
    answer = answered(light("a"), of=young, settings=Settings(settling_seconds=600.0))
    assert answer.answer.startswith(f"it stays until {format_instant(NOW + 540)}, since it is new")


def test_what_holds_a_node_back_that_could_go_is_named() -> None:
    keeps = pool("default", limited("small", least=2), consolidation="Full")
    snapshot = world([light("a")], [keeps], [SMALL], [HERE, OTHER])
    assert why_node(HERE, snapshot, Settings()).answer == (
        "it stays for now: its pods fit on other nodes, but NodePool default keeps at least 2 of sim-small"
    )


def test_an_empty_node_goes_unless_its_pool_is_off() -> None:
    assert answered().answer.startswith("it is empty: it goes")
    kept = "it stays: NodePool default keeps its nodes, empty ones too (consolidation: Off)"
    assert answered(mode="Off").answer == kept
    assert "must not be disrupted" in answered(of=node("here", of=SMALL, annotations={DO_NOT_DISRUPT: "true"})).answer


def test_a_node_on_its_way_out_says_how_far_it_is() -> None:
    marked = node("here", of=SMALL, taints=(SCALE_DOWN_TAINT,), annotations={SCALE_DOWN_AT: "2026-01-01T00:01:00Z"})
    assert answered(of=marked).answer == "it is marked, and goes at 2026-01-01T00:01:00Z unless it is needed"
    spec = NodeRemovalRequestSpec("here", "default", reason="Idle")
    removal = NodeRemovalRequest("here", spec, NodeRemovalRequestStatus("Deprovisioning", waiting_for="pod default/a"))
    assert answered(removals=[removal]).answer == "it goes (Idle): Deprovisioning, waits for pod default/a"


def test_a_foreign_node_is_never_touched_and_a_paused_growth_touches_none() -> None:
    assert answered(of=node("here", of_pool="")).answer == "growth did not make it, and never touches it"
    assert "paused" in answered(settings=Settings(is_paused=True)).answer
