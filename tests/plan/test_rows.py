"""What holds for every row on every world, however broken: it answers, always the same, and is quiet when nothing is to
be done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from growth.model import noderequest
from growth.model.action import DeleteMachine, LaunchMachine, WriteNodeRemovalStatus, WriteNodeRequestStatus
from growth.model.decision import Decision, Settled
from growth.model.noderequest import TRANSITIONS
from growth.model.outcome import Accepted, Conflict, NoCapacity, Outcome, Refused, TryLater, Unknown
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan import pool_status
from growth.plan.nodes_down import orphans, removal, scale_down
from growth.plan.nodes_up import joining, provisioning, scale_up
from tests.plan.builders import run_scale_up
from tests.plan.worlds import random_world, seeds

SETTINGS: Final = Settings(batch_quiet_seconds=0.0)
OUTCOMES: Final[tuple[Outcome, ...]] = (
    Accepted("m-1"), NoCapacity("sold out"), Refused("no"), Conflict("changed"), TryLater("busy", 3.0), Unknown("lost"),
)  # fmt: skip

Answer = Callable[[Snapshot, Any], Decision[Any]]


def answer_of(row: Any) -> Answer:
    return lambda snapshot, ledger: row.plan(snapshot, ledger, SETTINGS)


ROWS: Final[dict[str, tuple[Any, Answer]]] = {
    "scale-up": (scale_up, lambda snapshot, ledger: run_scale_up(snapshot, ledger, SETTINGS)),
    **{
        row.__name__.rpartition(".")[2]: (row, answer_of(row))
        for row in (provisioning, joining, scale_down, removal, pool_status, orphans)
    },
}
every_row = pytest.mark.parametrize("name", sorted(ROWS))


@every_row
@settings(max_examples=60, deadline=None)
@given(seeds)
def test_a_row_answers_every_world_and_every_outcome(name: str, seed: int) -> None:
    row, answer = ROWS[name]
    snapshot = random_world(seed, wildness=0.35)
    decision = answer(snapshot, row.Ledger())
    ledger = decision.ledger
    for action in decision.actions:
        for outcome in OUTCOMES:
            settled = row.settle(Settled(action, outcome), snapshot, ledger, SETTINGS)
            assert isinstance(settled, Decision)
            ledger = settled.ledger
    later = answer(replace(snapshot, now=snapshot.now + 1), ledger)
    assert isinstance(later, Decision)


@every_row
@settings(max_examples=60, deadline=None)
@given(seeds)
def test_a_row_gives_the_same_answer_to_the_same_world(name: str, seed: int) -> None:
    row, answer = ROWS[name]
    assert answer(random_world(seed), row.Ledger()) == answer(random_world(seed), row.Ledger())


@every_row
@settings(max_examples=60, deadline=None)
@given(seeds)
def test_a_row_that_has_nothing_to_do_wants_to_be_asked_later_not_now(name: str, seed: int) -> None:
    row, answer = ROWS[name]
    snapshot = random_world(seed)
    decision = answer(snapshot, row.Ledger())
    for _ in range(3):  # what was begun in memory is finished in memory
        if decision.actions:
            return
        decision = answer(snapshot, decision.ledger)
    assert decision.again_at is None or decision.again_at > snapshot.now


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_nothing_is_bought_or_given_back_while_growth_is_paused(seed: int) -> None:
    snapshot, paused = random_world(seed), Settings(batch_quiet_seconds=0.0, is_paused=True)
    actions: list[Any] = list(run_scale_up(snapshot, settings=paused).actions)
    for row in (provisioning, joining, scale_down, removal, pool_status, orphans):
        actions += row.plan(snapshot, row.Ledger(), paused).actions
    names = {type(action).__name__ for action in actions}
    assert names.isdisjoint({"CreateNodeRequest", "LaunchMachine", "DeleteMachine", "MarkScaleDown", "EvictPod"})


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_machines_are_named_by_records_and_lists_never_by_nodes(seed: int) -> None:
    """Law S7: whatever is deleted was recorded, or is in the provider's list under that name."""
    snapshot = random_world(seed)
    written = removal.plan(snapshot, removal.Ledger(), SETTINGS).actions
    settled = [removal.settle(Settled(each, Accepted()), snapshot, removal.Ledger(), SETTINGS) for each in written]
    for action in (action for decision in settled for action in decision.actions):
        if isinstance(action, DeleteMachine):
            recorded = snapshot.removals[action.removal.name].spec.machine_id
            listed = snapshot.machines.get(action.removal.name)
            assert action.machine_id in {recorded, "" if listed is None else listed.machine_id} - {""}


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_only_a_pending_request_with_our_finalizer_is_launched(seed: int) -> None:
    snapshot = random_world(seed)
    for action in provisioning.plan(snapshot, provisioning.Ledger(), SETTINGS).actions:
        if isinstance(action, LaunchMachine):
            request = snapshot.requests[action.request.name]
            assert (request.phase, request.deleted_at) == ("Pending", None)
            assert request.name not in snapshot.machines


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_a_row_writes_no_phase_that_no_arrow_leads_to(seed: int) -> None:
    """The rows that write phases; a write that keeps the phase is no step."""
    snapshot = random_world(seed, wildness=0.35)
    for row, objects in ((provisioning, snapshot.requests), (removal, snapshot.removals)):
        decision = row.plan(snapshot, row.Ledger(), SETTINGS)
        follow_up = [
            row.settle(Settled(action, outcome), snapshot, decision.ledger, SETTINGS).actions
            for action in decision.actions
            for outcome in OUTCOMES
        ]
        assert all(note.reason != "ForbiddenStep" for note in decision.notes)
        for action in (*decision.actions, *(action for actions in follow_up for action in actions)):
            if isinstance(action, WriteNodeRequestStatus | WriteNodeRemovalStatus):
                kind = "NodeRequest" if isinstance(action, WriteNodeRequestStatus) else "NodeRemovalRequest"
                seen = action.request if isinstance(action, WriteNodeRequestStatus) else action.removal
                before, after = objects[seen.name].status.phase, action.status.phase
                assert before == after or any(
                    (each.before, each.after) == (before, after) for each in TRANSITIONS[kind]
                )


def test_a_phase_that_cannot_be_written_stops_no_other_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a mistake of ours led to a phase that no arrow leads to."""
    told = set()
    monkeypatch.setattr(noderequest, "_ARROWS", frozenset())
    for seed in range(200):
        snapshot = random_world(seed, wildness=0.35)
        for row in (provisioning, removal):
            decision = row.plan(snapshot, row.Ledger(), SETTINGS)
            forbidden = [note.about for note in decision.notes if note.reason == "ForbiddenStep"]
            told |= {(each.kind, len(decision.actions) > 0) for each in forbidden}
    assert {("NodeRequest", True), ("NodeRemovalRequest", True)} <= told
