"""The phases of NodeRequests and NodeRemovalRequests: every phase has a meaning and can be reached, no other arrow is
written, and what the API server admits agrees."""

from __future__ import annotations

import ast
from typing import Final, get_args

import pytest

from growth.kube.crds.schema import RULES
from growth.model.decision import About
from growth.model.noderequest import (
    PENDING,
    PHASES,
    REMOVAL_FAILED,
    TRANSITIONS,
    NodeRemovalRequestStatus,
    NodeRequestStatus,
    RemovalPhase,
    RequestPhase,
    TransitionError,
)
from growth.plan.world.turn import Turn, life_event, with_removal_phase, with_request_phase
from tests.house.tree import python_files, text_of

KINDS: Final = {"NodeRequest": RequestPhase, "NodeRemovalRequest": RemovalPhase}
FINAL_PHASES: Final = {"NodeRequest": {"Ready", "Deprovisioning"}, "NodeRemovalRequest": {REMOVAL_FAILED}}
every_kind = pytest.mark.parametrize("kind", sorted(KINDS))


def arrows(kind: str) -> set[tuple[str, str]]:
    return {(each.before, each.after) for each in TRANSITIONS[kind]}


@every_kind
def test_every_phase_has_a_meaning_and_every_arrow_a_sentence(kind: str) -> None:
    assert tuple(PHASES[kind]) == get_args(KINDS[kind])
    assert {phase for arrow in arrows(kind) for phase in arrow} == set(PHASES[kind])
    assert len(arrows(kind)) == len(TRANSITIONS[kind])
    assert all(PHASES[kind].values())
    assert all(each.when for each in TRANSITIONS[kind])


@every_kind
def test_every_phase_is_reached_from_pending_and_the_final_ones_are_left_by_no_arrow(kind: str) -> None:
    reached = {PENDING}
    for _ in PHASES[kind]:
        reached |= {after for before, after in arrows(kind) if before in reached}
    assert reached == set(PHASES[kind])
    assert set(PHASES[kind]) - {before for before, _ in arrows(kind)} == FINAL_PHASES[kind]


@pytest.mark.parametrize("before", get_args(RequestPhase))
@pytest.mark.parametrize("after", get_args(RequestPhase))
def test_a_node_request_goes_along_its_arrows_only(before: RequestPhase, after: RequestPhase) -> None:
    status = NodeRequestStatus(before)
    if (before, after) in arrows("NodeRequest"):
        written = with_request_phase(status, after, 100.0, life_event(100.0, "step"))
        assert (written.phase, written.last_transition_time) == (after, "1970-01-01T00:01:40Z")
        assert [event.name for event in written.events] == ["step"]
    else:
        with pytest.raises(TransitionError, match=f"a NodeRequest does not go from {before} to {after}"):
            with_request_phase(status, after, 100.0)


@pytest.mark.parametrize("before", get_args(RemovalPhase))
@pytest.mark.parametrize("after", get_args(RemovalPhase))
def test_a_node_removal_request_goes_along_its_arrows_only(before: RemovalPhase, after: RemovalPhase) -> None:
    status = NodeRemovalRequestStatus(before)
    if (before, after) in arrows("NodeRemovalRequest"):
        assert with_removal_phase(status, after).phase == after
    else:
        with pytest.raises(TransitionError, match=f"a NodeRemovalRequest does not go from {before} to {after}"):
            with_removal_phase(status, after)


def test_a_phase_is_written_in_one_place() -> None:
    statuses = ("replace", "NodeRequestStatus", "NodeRemovalRequestStatus")
    writers = [
        path
        for path in python_files("src/growth")
        for node in ast.walk(ast.parse(text_of(path)))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in statuses
        if any(keyword.arg == "phase" for keyword in node.keywords) and not _is_of_a_pod(node)
    ]
    assert {str(path) for path in writers} == {"src/growth/plan/world/turn.py"}


def _is_of_a_pod(call: ast.Call) -> bool:
    """Pods have phases of their own."""
    return bool(call.args) and ast.unparse(call.args[0]) == "pod"


def test_the_api_server_admits_every_arrow() -> None:
    assert not any(after == PENDING for _, after in arrows("NodeRequest"))
    assert {before for before, after in arrows("NodeRemovalRequest") if after == PENDING} == {"Deprovisioning"}
    assert not any(before == REMOVAL_FAILED for before, _ in arrows("NodeRemovalRequest"))
    rules = [rule for status in (NodeRequestStatus, NodeRemovalRequestStatus) for rule, _ in RULES[status]]
    assert rules == [
        "self.phase == oldSelf.phase || self.phase != 'Pending'",
        "self.phase == oldSelf.phase || self.phase != 'Pending' || oldSelf.phase == 'Deprovisioning'",
        "self.phase == oldSelf.phase || oldSelf.phase != 'RemovalFailed'",
    ]


def test_a_step_that_is_not_allowed_is_told_on_its_object_and_the_others_go_on() -> None:
    turn, written = Turn(), []
    for phase in get_args(RequestPhase):
        with turn.told_on(About("NodeRequest", phase)):
            written.append(with_request_phase(NodeRequestStatus(phase), "Ready", 0.0))
    assert [status.phase for status in written] == ["Ready"]
    assert [note.about.name for note in turn.notes] == ["Pending", "Ready", "Unmet", "Deprovisioning"]
    assert turn.notes[0].reason == "ForbiddenStep"
    assert turn.notes[0].message == "growth's next step is not allowed: a NodeRequest does not go from Pending to Ready"


def test_other_mistakes_are_not_hidden() -> None:
    with pytest.raises(KeyError), Turn().told_on(About("NodeRequest", "a")):
        raise KeyError
