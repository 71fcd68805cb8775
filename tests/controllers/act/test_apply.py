"""Every action can be performed, and every failure becomes an outcome."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest

from growth.controllers.act.apply import EFFECTS, is_slow
from growth.controllers.act.failures import outcome_of
from growth.kube.api import errors
from growth.kube.api.errors import Status
from growth.model import action as act
from growth.model.action import Action
from growth.model.outcome import Accepted, Conflict, Outcome, Refused, TryLater, Unknown


def test_there_is_a_way_for_every_action_and_no_way_without_one() -> None:
    assert set(EFFECTS) == set(get_args(Action))


def test_every_way_names_the_field_that_holds_its_object() -> None:
    for kind, way in EFFECTS.items():
        assert not way.subject or way.subject in kind.__struct_fields__, kind


def test_actions_that_speak_to_the_provider_or_bind_many_pods_are_slow() -> None:
    slow = {kind for kind, way in EFFECTS.items() if way.is_slow}
    assert {act.LaunchMachine, act.DeleteMachine, act.FinishRemoval, act.FillNode} <= slow
    assert not is_slow(act.NominatePod(act.Seen("p"), "n"))


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (errors.Conflict(Status(code=409)), Conflict),
        (errors.NotFound(Status(code=404)), Conflict),
        (errors.AlreadyExists(Status(code=409)), Conflict),
        (errors.Unauthorized(Status(code=401)), TryLater),
        (errors.Forbidden(Status(code=403)), Refused),
        (errors.Invalid(Status(code=422)), Refused),
        (errors.TooManyRequests(Status(code=429), 7.0), TryLater),
        (errors.BlockedByBudget(Status(code=429)), TryLater),
        (errors.NotLeader("fence"), TryLater),
        (errors.Unreachable("down"), TryLater),
        (errors.EffectUnknown("lost"), Unknown),
    ],
)
def test_a_failure_is_told_apart_by_what_it_means_for_the_next_step(error: Exception, outcome: type[Outcome]) -> None:
    async def fails() -> Outcome:
        raise error

    assert isinstance(asyncio.run(outcome_of(fails())), outcome)


def test_the_servers_own_waiting_time_is_kept() -> None:
    async def fails() -> Outcome:
        raise errors.TooManyRequests(Status(code=429), 7.0)

    assert asyncio.run(outcome_of(fails())) == TryLater("HTTP error (429): ", retry_after_seconds=7.0)


def test_a_success_stays_what_it_is() -> None:
    async def succeeds() -> Outcome:
        return Accepted(machine_id="17")

    assert asyncio.run(outcome_of(succeeds())) == Accepted(machine_id="17")
