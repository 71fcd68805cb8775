"""Laws on what growth may write, where an example says more than a seed."""

from __future__ import annotations

from typing import Any

from growth.sim.laws.witness import Call
from growth.sim.laws.writes import nothing_of_an_earlier_leader

NOBODY: Any = None  # this law asks nothing of the witness


def _late(**known: bool) -> Call:
    return Call(
        "DELETE /apis/growth.dev/v1alpha1/noderemovalrequests/old", False, True, **{"stood_still": False} | known
    )


def test_a_write_that_a_former_leader_still_waits_for_must_not_take_effect() -> None:
    assert "of a former leader" in (nothing_of_an_earlier_leader(NOBODY, _late()) or "")


def test_what_the_network_delivers_after_its_sender_gave_it_up_is_nobodys_doing() -> None:
    assert nothing_of_an_earlier_leader(NOBODY, _late(was_given_up=True)) is None
    assert nothing_of_an_earlier_leader(NOBODY, _late(stood_still=True)) is None
