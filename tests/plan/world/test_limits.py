"""Everything counts once, and no limit is read generously (ruling 9, law S1)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from growth.model.api import LifeEvent
from growth.model.instant import format_instant
from growth.model.nodepool import Exempt, NodePool, PoolLimits
from growth.model.noderequest import (
    UNANSWERED,
    NodeRemovalRequest,
    NodeRemovalRequestSpec,
    NodeRequestSpec,
    RequestPhase,
)
from growth.model.settings import Settings
from growth.plan.world.limits import (
    Member,
    Tally,
    allowances,
    exempt_now,
    headroom,
    members,
    why_not_one_more,
    with_surge,
)
from growth.plan.world.machines import pool_of_machine
from tests.plan.builders import NOW, amounts, limited, machine, node, offering, pool, request, world

SMALL = offering("small", 2, 4096, 0.01)


def removal(name: str) -> NodeRemovalRequest:
    return NodeRemovalRequest(name, NodeRemovalRequestSpec(name, "default", "sim-small", f"id-{name}"))


def test_ruling_9_a_joined_node_its_request_its_removal_and_its_machine_are_one() -> None:
    name = "default-pool-1"
    snapshot = world(
        nodes=[node(name, of=SMALL)],
        requests=[request(name, SMALL, "Provisioning")],
        machines=[machine(name, SMALL)],
        removals=[removal(name)],
        offerings=[SMALL],
    )
    assert [member.name for member in members(snapshot)] == [name]


def test_a_machine_that_only_the_provider_knows_counts_too() -> None:
    snapshot = world(machines=[machine("default-pool-1", SMALL)], offerings=[SMALL])
    assert [(member.name, member.pool, member.price_per_hour) for member in members(snapshot)] == [
        ("default-pool-1", "default", 0.01)
    ]


@pytest.mark.parametrize(
    ("phase", "is_listed", "is_known", "counted"),
    [
        ("Pending", False, True, 1),
        ("Provisioning", False, True, 1),
        ("Deprovisioning", False, True, 1),
        ("Unmet", False, True, 0),
        ("Ready", False, True, 0),  # its machine is gone, by the provider's word
        ("Ready", False, False, 1),  # nobody knows
        ("Ready", True, True, 1),
    ],
)
def test_a_request_counts_while_a_machine_may_stand_behind_it(
    phase: str, is_listed: bool, is_known: bool, counted: int
) -> None:
    listed = [machine("r", SMALL)] if is_listed else []
    snapshot = world(requests=[request("r", SMALL, phase)], machines=listed if is_known else None, offerings=[SMALL])  # type: ignore[arg-type]
    assert len(members(snapshot)) == counted


@pytest.mark.parametrize(
    ("phase", "fields"),
    [
        ("Unmet", {}),
        ("Ready", {"machine_id": "1"}),  # that of another order: it came and is gone
        ("Deprovisioning", {"machine_id": "1", "expires_at": format_instant(NOW + 900)}),
    ],
)
def test_an_order_without_an_answer_counts_for_ten_minutes_though_nothing_else_changes(
    phase: RequestPhase, fields: Any
) -> None:
    asked = LifeEvent(format_instant(NOW), UNANSWERED, "503")
    early = world(requests=[request("r", SMALL, phase, events=(asked,), **fields)], machines=[], offerings=[SMALL])
    assert [member.may_come_until for member in members(early)] == [NOW + 600]
    assert members(replace(early, now=NOW + 599)) == members(early)
    assert members(replace(early, now=NOW + 601)) == ()


def test_the_larger_of_promise_and_truth_counts_against_a_limit() -> None:
    bigger = node("a", of=SMALL, allocatable=amounts(3, 1024, 110))
    (member,) = members(world(nodes=[bigger], offerings=[SMALL]))
    assert (member.allocatable["cpu"], member.allocatable["memory"]) == (3000, 4096 * 1024 * 1024)


def test_what_limits_leave_is_counted_over_types_pools_and_the_whole() -> None:
    pools = {
        "default": pool(
            "default", limited("small", 3), limits=PoolLimits(nodes=5, cpu="10", memory="1Ti", price_per_hour="0.025")
        )
    }
    present = [
        Member("a", "default", "sim-small", amounts(2, 4096), 0.01),
        Member("b", "gpu", "sim-big", amounts(8, 4096), 0.5),
    ]
    whole, of_pool, of_type = allowances(pools, Settings(limits=PoolLimits(nodes=2)), present)
    assert (whole.nodes, of_pool.nodes, of_type.nodes) == (0, 4, 2)
    assert of_pool.resources["cpu"] == 8000
    assert of_pool.price_per_hour == pytest.approx(0.015)
    assert headroom(of_pool, amounts(2, 4096), 0.01) == 1  # the price decides


def test_a_limit_that_cannot_be_read_lets_nothing_be_bought() -> None:
    (of_pool,) = allowances({"default": pool("default", limits=PoolLimits(memory="much"))}, Settings(), [])
    why_not = why_not_one_more((of_pool,), Member("x", "default", "sim-small", amounts(1, 1)))
    assert (
        why_not
        == "limits of NodePool default cannot be read: memory: 'much' is not a quantity (examples: 250m, 1.5Gi, 2)"
    )


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (PoolLimits(nodes=0), "limits of NodePool default: at most 0 nodes"),
        (PoolLimits(cpu="1500m"), "limits of NodePool default: at most 1500m cpu (1500m left)"),
        (PoolLimits(price_per_hour="0.009"), "limits of NodePool default: at most 0.009 per hour (0.0090 left)"),
    ],
)
def test_a_reached_limit_is_named(limits: PoolLimits, words: str) -> None:
    (of_pool,) = allowances({"default": pool("default", limits=limits)}, Settings(), [])
    assert why_not_one_more((of_pool,), Member("x", "default", "sim-small", amounts(2, 4096), 0.01)) == words


def test_law_s1_the_gate_counts_the_machines_the_provider_has() -> None:
    spec = NodeRequestSpec("default", "sim-small", "fsn1", {"cpu": "2"})
    pools = {"default": pool("default", limited("SMALL", 2))}
    machines = [machine(f"default-pool-{number}", SMALL) for number in range(2)]
    assert Tally(pools, machines[:1], [SMALL], Settings()).why_over(spec) == ""
    assert Tally(pools, machines, [SMALL], Settings()).why_over(spec) == "max 2 of SMALL in NodePool default is reached"
    others = [replace(each, name=each.name.replace("default", "gpu")) for each in machines]
    assert Tally(pools, others, [SMALL], Settings()).why_over(spec) == ""
    assert (
        Tally(pools, others, [SMALL], Settings(limits=PoolLimits(nodes=2))).why_over(spec)
        == "limits of the settings: at most 2 nodes"
    )


@given(st.integers(0, 4), st.integers(0, 4))
def test_orders_that_are_added_to_a_tally_count_as_if_they_were_machines(there: int, ordered: int) -> None:
    spec = NodeRequestSpec("default", "sim-small", "fsn1", {"cpu": "2"})
    pools = {"default": pool("default", limited("SMALL", 5), limits=PoolLimits(price_per_hour="0.035"))}
    machines = [machine(f"default-pool-{number}", SMALL) for number in range(there + ordered)]
    tally = Tally(pools, machines[:there], [SMALL], Settings())
    for _ in range(ordered):
        tally.add(spec)
    assert tally.why_over(spec) == Tally(pools, machines, [SMALL], Settings()).why_over(spec)


def test_the_pool_of_a_machine_is_in_its_label_or_else_in_its_name() -> None:
    assert pool_of_machine(machine("a-pool-b-pool-0123456789ab", SMALL, created_at=NOW)) == "a-pool-b"


# ------------------------------------------------------------------------------------- by default

MONEY = Settings(machines_cost_money=True)
SMALL_NODE = Member("x", "default", "sim-small", amounts(2, 4096), 0.01)


def standing(count: int, price: float = 0.01, of_pool: str = "default") -> list[Member]:
    return [Member(f"{of_pool}-{number}", of_pool, "sim-small", amounts(2, 4096), price) for number in range(count)]


def test_a_pool_for_which_nobody_says_how_many_nodes_may_have_a_hundred() -> None:
    pools = {"default": pool("default")}
    assert why_not_one_more(allowances(pools, Settings(), standing(99)), SMALL_NODE) == ""
    why_not = why_not_one_more(allowances(pools, Settings(), standing(100)), SMALL_NODE)
    assert why_not == "limits of NodePool default by default (it has none of its own): at most 100 nodes"


@pytest.mark.parametrize(
    ("of_pool", "settings"),
    [
        (pool("default", limited("small", 500), "big"), Settings()),
        (pool("default", limits=PoolLimits(nodes=500)), Settings()),
        (pool("default", limits=PoolLimits(cpu="5000")), Settings()),
        (pool("default", limits=PoolLimits(price_per_hour="50")), Settings()),
        (pool("default"), Settings(limits=PoolLimits(nodes=500))),
    ],
)
def test_whatever_somebody_says_takes_the_place_of_the_hundred(of_pool: NodePool, settings: Settings) -> None:
    assert why_not_one_more(allowances({"default": of_pool}, settings, standing(150)), SMALL_NODE) == ""


def test_a_price_for_all_pools_is_no_number_of_nodes() -> None:
    settings = Settings(limits=PoolLimits(price_per_hour="50"))
    assert why_not_one_more(allowances({"default": pool("default")}, settings, standing(100)), SMALL_NODE) != ""


def test_where_machines_cost_money_all_pools_together_cost_five_an_hour_at_most() -> None:
    pools = {"default": pool("default"), "other": pool("other")}
    present = standing(30, 0.1) + standing(19, 0.1, "other")
    dear = Member("x", "default", "sim-small", amounts(2, 4096), 0.1)
    assert why_not_one_more(allowances(pools, MONEY, present), dear) == ""
    why_not = why_not_one_more(allowances(pools, MONEY, [*present, dear]), dear)
    assert why_not == ("limits of the settings by default (pricePerHour is not set): at most 5 per hour (0.0000 left)")
    assert why_not_one_more(allowances(pools, Settings(), [*present, dear]), dear) == ""
    said = Settings(limits=PoolLimits(price_per_hour="6"), machines_cost_money=True)
    assert why_not_one_more(allowances(pools, said, [*present, dear]), dear) == ""


def with_exempt(of_pool: NodePool, exempt: Exempt) -> NodePool:
    return replace(of_pool, status=replace(of_pool.status, exempt=exempt))


def test_what_stood_when_a_default_first_held_may_stand_and_be_replaced() -> None:
    before = pool("default")
    known = with_exempt(before, exempt_now(before, MONEY, 150, 12.5))
    assert known.status.exempt == Exempt(150, "12.5")
    member = Member("x", "default", "sim-small", amounts(2, 4096), 12.5 / 150)
    one_lost, whole = standing(149, 12.5 / 150), standing(150, 12.5 / 150)
    assert why_not_one_more(allowances({"default": known}, MONEY, one_lost), member) == ""
    assert why_not_one_more(allowances({"default": known}, MONEY, whole), member) != ""
    assert why_not_one_more(with_surge(allowances({"default": before}, Settings(), whole)), member) == ""


def test_what_is_exempt_is_written_once_and_forgotten_where_somebody_says_a_limit() -> None:
    known = with_exempt(pool("default"), Exempt(3, "0.5"))
    assert exempt_now(known, MONEY, 90, 4.0) == Exempt(3, "0.5")
    assert exempt_now(known, Settings(), 90, 4.0) == Exempt(3)
    said = Settings(limits=PoolLimits(nodes=5, price_per_hour="1"), machines_cost_money=True)
    assert exempt_now(known, said, 90, 4.0) == Exempt()
    assert exempt_now(pool("default"), MONEY, 90, None) == Exempt(90)  # no price is known yet


@given(st.integers(0, 300), st.integers(0, 300))
def test_a_default_never_lets_more_be_bought_than_a_hundred_or_what_stood(first: int, later: int) -> None:
    before = pool("default")
    known = with_exempt(before, exempt_now(before, Settings(), first, None))
    left = allowances({"default": known}, Settings(), standing(later))
    assert (why_not_one_more(left, SMALL_NODE) == "") is (later < max(100, first))


@given(st.integers(1, 300), st.floats(0.0001, 9.0))
def test_what_existed_can_be_replaced_whatever_it_costs(count: int, price: float) -> None:
    before, present = pool("default", limits=PoolLimits(nodes=500)), standing(count, price)
    known = with_exempt(before, exempt_now(before, MONEY, count, sum(each.price_per_hour for each in present)))
    left = allowances({"default": known}, MONEY, present[1:])
    assert why_not_one_more(left, replace(SMALL_NODE, price_per_hour=price)) == ""
