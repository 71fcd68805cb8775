"""Orders without an answer: for how long they strike their offering out, and when they are made again."""

from __future__ import annotations

from typing import Any

import pytest

from growth.model.action import WriteNodeRequestStatus
from growth.model.instant import format_instant, parse_instant
from growth.model.nodepool import PoolLimits
from growth.model.noderequest import UNANSWERED, NodeRequest
from growth.model.outcome import NoCapacity
from growth.model.settings import Settings
from growth.plan.nodes_up.failures import awaits_list_until, unmet
from growth.plan.world.turn import life_event
from tests.plan.builders import NOW, offering, pod, pool, request, run_scale_up, world

SMALL, LARGE = offering("small", 2, 4096, 0.02), offering("large", 2, 4096, 0.03)


def silent(number: int = 1, *ages: float, **fields: Any) -> NodeRequest:
    events = tuple(life_event(NOW - age, UNANSWERED, "HTTP 503") for age in ages or (40, 30, 20))
    return request(f"default-pool-{number}", SMALL, events=events, created_at=NOW - 60, **fields)


def struck_seconds(count: int, limits: PoolLimits, **fields: Any) -> float:
    requests = [silent(number) for number in range(count)]
    snapshot = world(
        pools=[pool("default", "small", "large", limits=limits)], offerings=[SMALL, LARGE], requests=requests
    )
    write, _ = unmet(requests[0], "no answer", snapshot, Settings(**fields))
    assert isinstance(write, WriteNodeRequestStatus)
    return parse_instant(write.status.expires_at or "") - NOW


@pytest.mark.parametrize(
    ("count", "limits", "seconds"),
    [
        (1, PoolLimits(), 240),
        (1, PoolLimits(nodes=2), 240),  # another one may be had beside it
        (1, PoolLimits(nodes=1), 600 - 20 + 60),
        (2, PoolLimits(nodes=3), 600 - 20 + 60),
        (2, PoolLimits(nodes=4), 240),
        (2, PoolLimits(price_per_hour="0.05"), 600 - 20 + 60),
        (1, PoolLimits(cpu="3"), 600 - 20 + 60),
    ],
)
def test_where_orders_without_an_answer_use_up_a_limit_others_have_their_turn_when_it_is_free_again(
    count: int, limits: PoolLimits, seconds: float
) -> None:
    assert struck_seconds(count, limits) == seconds


def test_what_is_sold_out_uses_up_no_limit() -> None:
    sold_out = request("default-pool-1", SMALL)
    snapshot = world(
        pools=[pool("default", "small", limits=PoolLimits(nodes=1))], offerings=[SMALL], requests=[sold_out]
    )
    write, _ = unmet(sold_out, NoCapacity("sold out").reason, snapshot, Settings())
    assert write.status.expires_at == format_instant(NOW + 120)


def test_a_process_that_does_not_know_of_three_orders_awaits_the_list_for_a_minute() -> None:
    assert awaits_list_until(silent(), NOW) == NOW - 20 + 60
    assert awaits_list_until(silent(1, 20, 10), NOW) == 0.0  # two were made
    assert awaits_list_until(silent(1, 20, 10, 5), NOW) == 0.0  # and nobody has heard of them


def test_the_limit_is_looked_at_again_when_an_order_without_an_answer_counts_no_more_and_the_pod_hears_of_it() -> None:
    counted = silent(1, 300, phase="Unmet", changed_at=NOW - 250, expires_at=format_instant(NOW - 10))
    one = pool("default", "small", limits=PoolLimits(nodes=1))
    decision = run_scale_up(world(pods=[pod("a", 1.5)], pools=[one], offerings=[SMALL], requests=[counted]))
    told = f"orders without an answer count, since machines may still come: 1, until {format_instant(NOW + 300)}"
    assert [told in note.message for note in decision.notes if note.reason == "Unplaced"] == [True]
    assert decision.again_at is not None
    assert decision.again_at <= NOW + 300
