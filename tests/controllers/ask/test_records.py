"""What `growth explain` says of pools, NodeRequests and removals: the sentence first, then how it came to be."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.controllers.ask.records import why_pool, why_removal, why_request
from growth.model.instant import format_instant
from growth.model.nodepool import PAUSED, NodePool
from growth.model.noderequest import (
    NodeRemovalRequest,
    NodeRemovalRequestSpec,
    NodeRemovalRequestStatus,
    RequestPhase,
)
from growth.model.settings import Settings
from growth.plan.nodes_up.failures import withdrawn
from growth.plan.world.turn import life_event
from tests.plan.builders import NOW, limited, node, offering, pool, request, world
from tests.plan.world.test_brake import nodes as well_and_ill
from tests.plan.world.test_trials import in_vain, pool_with

SMALL = offering("small", 2, 4096, 0.01)


def test_a_pool_hears_first_what_keeps_it_from_buying() -> None:
    def told(of: NodePool, **fields: Any) -> str:
        return why_pool("default", world((), [of], fields.pop("sold", [SMALL]), **fields), Settings()).answer

    assert told(pool()) == "it can buy 1 offerings, from sim-small at 0.0100 per hour on"
    assert "is paused" in told(pool(annotations={PAUSED: "true"}))
    assert "max 1" in told(pool("default", limited("small", 1)), nodes=[node("n", of=SMALL)])
    assert "no server type it lists is sold here" in told(pool("default", "cx99"))
    assert "is failing" in told(pool_with(in_vain=in_vain(10, 20, 30)))
    assert "NotReady" in told(pool(), nodes=well_and_ill(1, 3))


def test_a_pool_tells_how_good_its_last_purchase_was_as_long_as_there_is_a_record_of_it() -> None:
    first, last, minimum = (request(f"default-pool-{number}", SMALL, "Ready") for number in (1, 2, 3))
    first = replace(first, created_at=NOW - 90, spec=replace(first.spec, gap="the cheapest possible"))
    last = replace(last, created_at=NOW - 60, spec=replace(last.spec, gap="at most 1.3 % above the cheapest possible"))
    minimum = replace(minimum, created_at=NOW - 30)
    known = world((), [pool()], [SMALL], requests=[first, last, minimum])
    told = why_pool("default", known, Settings()).last_purchase
    assert told == f"sim-small at {format_instant(NOW - 60)}, at most 1.3 % above the cheapest possible"
    assert why_pool("default", world((), [pool()], [SMALL]), Settings()).last_purchase == ""


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        ("Pending", "it is about to be ordered for 2 pods"),
        ("Provisioning", "its machine is ordered for 2 pods and has not joined yet, since"),
        ("Ready", "its node serves since"),
        ("Unmet", "it could not be had: sold out"),
        ("Deprovisioning", "its machine is given back: sold out"),
    ],
)
def test_a_request_and_its_history(phase: RequestPhase, words: str) -> None:
    asked = request("default-pool-1", SMALL, phase, planned=["default/a", "default/b"])
    asked = replace(asked, status=replace(asked.status, events=(life_event(NOW, "nodeUnmet", "sold out"),)))
    answer = why_request(asked, world(offerings=[SMALL]))
    assert answer.answer.startswith(words)
    assert answer.price_per_hour == 0.01
    assert answer.history == (f"{format_instant(NOW)} nodeUnmet: sold out",)


def test_a_request_that_was_withdrawn_says_what_it_waits_for() -> None:
    asked = request("default-pool-1", SMALL)
    asked = replace(asked, status=withdrawn(asked, NOW))
    answer = why_request(asked, world(offerings=[SMALL])).answer
    assert answer == "it was withdrawn: not needed any more; a machine that an earlier order brings goes as well"


def test_a_removal_says_why_how_far_and_what_it_waits_for() -> None:
    spec = NodeRemovalRequestSpec("n", "default", reason="Idle")
    removal = NodeRemovalRequest("n", spec, NodeRemovalRequestStatus("Deprovisioning", waiting_for="pod default/a"))
    assert why_removal(removal).answer == "node n goes (Idle): Deprovisioning; it waits for pod default/a"
