"""How many nodes of a pool may be disrupted: counts, shares, schedules in their time zones, windows, and what is not
known.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.instant import format_instant, parse_instant
from growth.model.nodepool import DisruptedNode, DisruptionBudget, NodePool, NodePoolStatus
from growth.model.noderequest import NodeRemovalRequest, NodeRemovalRequestSpec, NodeRemovalRequestStatus
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_down.budgets import Recent, budgets_change_at, disruptions_left, with_moment
from tests.plan.builders import NOW, bound, node, pod, pool, world

SETTINGS = Settings(disruption_window_seconds=600.0)
OFFICE_HOURS = DisruptionBudget("0", "0 9 * * 1-5", 8 * 3600, "Europe/Berlin")


def of(*budgets: DisruptionBudget) -> NodePool:
    return pool("default", "small", budgets=budgets)


def ten(budgets: NodePool, **fields: Any) -> Snapshot:
    nodes = [node(f"n{number}", **fields.pop(f"n{number}", {})) for number in range(10)]
    return world(nodes=nodes, pools=[budgets], **fields)


@pytest.mark.parametrize(
    ("text", "left"),
    [("10%", 1), ("1%", 1), ("0%", 0), ("25%", 2), ("100%", 10), ("3", 3), ("0", 0), ("nonsense", 0), ("50", 50)],
)
def test_a_budget_is_a_count_or_a_share(text: str, left: int) -> None:
    budgets = of(DisruptionBudget(text))
    assert disruptions_left(budgets, ten(budgets), SETTINGS, Recent()) == left


def test_of_several_budgets_the_strictest_counts_and_none_at_all_lets_every_node_go() -> None:
    assert disruptions_left(of(DisruptionBudget("50%"), DisruptionBudget("2")), ten(of()), SETTINGS, Recent()) == 2
    assert disruptions_left(of(), ten(of()), SETTINGS, Recent()) == 10


@pytest.mark.parametrize(
    ("at", "left"),
    [
        ("2026-01-05T07:59:00Z", 5),  # Monday, 08:59 in Berlin
        ("2026-01-05T08:00:00Z", 0),
        ("2026-01-05T15:59:00Z", 0),
        ("2026-01-05T16:00:00Z", 5),
        ("2026-01-10T10:00:00Z", 5),  # Saturday
        ("2026-07-06T06:59:00Z", 5),  # in summer the office opens an hour earlier by the clock of the world
        ("2026-07-06T07:00:00Z", 0),
    ],
)
def test_a_budget_with_a_schedule_holds_in_its_time_zone_for_its_duration(at: str, left: int) -> None:
    budgets = of(DisruptionBudget("5"), OFFICE_HOURS)
    assert disruptions_left(budgets, ten(budgets, now=parse_instant(at)), SETTINGS, Recent()) == left


@pytest.mark.parametrize(
    "broken", [DisruptionBudget("0", "nonsense", 60), DisruptionBudget("0", "0 9 * * *", 60, "Mars/Olympus")]
)
def test_a_schedule_that_cannot_be_read_holds_always(broken: DisruptionBudget) -> None:
    assert disruptions_left(of(broken), ten(of(broken)), SETTINGS, Recent()) == 0
    assert budgets_change_at(of(broken), NOW) is None


def test_a_schedule_says_when_it_begins_or_ends_to_hold() -> None:
    at = parse_instant("2026-01-05T07:00:00Z")
    assert budgets_change_at(of(OFFICE_HOURS), at) == at + 3600
    assert budgets_change_at(of(OFFICE_HOURS), at + 3600) == at + 3600 * 9
    assert budgets_change_at(of(DisruptionBudget("1")), at) is None


def test_what_drains_is_marked_with_pods_or_is_not_ready_uses_the_budget_up() -> None:
    budgets = of(DisruptionBudget("5"))
    draining = NodeRemovalRequest("n0", NodeRemovalRequestSpec("n0", "default", "sim-small", "id", "Expired"))
    empty = NodeRemovalRequest("n1", NodeRemovalRequestSpec("n1", "default", "sim-small", "id", "Empty"))
    snapshot = ten(budgets, removals=[draining, empty], n2={"is_ready": False})
    assert disruptions_left(budgets, snapshot, SETTINGS, Recent()) == 3


def seen_going(budgets: NodePool, reason: str = "Expired") -> Recent:
    going = NodeRemovalRequest("n0", NodeRemovalRequestSpec("n0", "default", "sim-small", "id", reason))
    return with_moment(Recent(1.0), ten(budgets, removals=[going], pods=[bound(pod("p"), "n0")]), SETTINGS)


def without_the_first(budgets: NodePool, seconds: float) -> Snapshot:
    return world(nodes=[node(f"n{number}") for number in range(1, 10)], pools=[budgets], now=NOW + seconds)


def left_after(budgets: NodePool, recent: Recent, seconds: float) -> int:
    snapshot = without_the_first(budgets, seconds)
    return disruptions_left(budgets, snapshot, SETTINGS, with_moment(recent, snapshot, SETTINGS))


@pytest.mark.parametrize("reason", ["Expired", "PoolDeleted", "Consolidated"])
def test_law_s8_a_node_with_pods_that_went_counts_until_the_window_has_passed(reason: str) -> None:
    budgets = of(DisruptionBudget("2"))
    recent = seen_going(budgets, reason)
    assert [left_after(budgets, recent, seconds) for seconds in (1, 599, 601)] == [1, 1, 2]


def test_law_s8_an_empty_node_that_went_does_not_count() -> None:
    budgets = of(DisruptionBudget("2"))
    assert left_after(budgets, seen_going(budgets, "Empty"), 1) == 2


def test_a_budget_may_have_a_window_of_its_own() -> None:
    daily = of(DisruptionBudget("2", window_seconds=86_400))
    recent = seen_going(daily)
    assert [left_after(daily, recent, seconds) for seconds in (601, 86_300, 86_500)] == [1, 1, 2]


def test_a_removal_that_was_taken_back_is_forgotten() -> None:
    budgets = of(DisruptionBudget("2"))
    assert with_moment(seen_going(budgets), ten(budgets, now=NOW + 5), SETTINGS).seen == {}


def test_what_went_before_the_start_is_not_known() -> None:
    recent = with_moment(Recent(), ten(of()), SETTINGS)
    assert recent.known_at(of(), SETTINGS) == NOW + 600
    assert recent.known_at(of(DisruptionBudget(window_seconds=3600)), SETTINGS) == NOW + 3600


def recorded(*nodes: DisruptedNode, since: float = NOW - 86_400) -> NodePool:
    status = NodePoolStatus(recorded_since=format_instant(since), disrupted=nodes)
    return replace(of(DisruptionBudget("2")), status=status)


def test_after_a_restart_the_window_is_known_since_the_status_was_first_written() -> None:
    recent = with_moment(Recent(), ten(of()), SETTINGS)
    assert recent.known_at(recorded(since=NOW - 500), SETTINGS) == NOW + 100
    assert recent.known_at(recorded(since=NOW + 500), SETTINGS) == NOW + 600


@pytest.mark.parametrize(
    ("gone_at", "left"), [(None, 1), (format_instant(NOW - 599), 1), (format_instant(NOW - 601), 2), ("nonsense", 1)]
)
def test_after_a_restart_what_went_is_read_off_the_status(gone_at: str | None, left: int) -> None:
    """What was still there when growth ended went at an unknown time since: that counts from now."""
    budgets = recorded(DisruptedNode("n0", gone_at))
    assert left_after(budgets, Recent(), 0) == left


def test_after_a_restart_a_node_of_the_status_that_was_kept_is_forgotten() -> None:
    assert with_moment(Recent(), ten(recorded(DisruptedNode("n0"))), SETTINGS).seen == {}


@pytest.mark.parametrize(("gone_at", "left"), [(NOW - 599, 1), (NOW - 601, 2)])
def test_a_node_that_stays_after_pods_were_evicted_counts_until_the_window_has_passed(
    gone_at: float, left: int
) -> None:
    budgets = recorded(DisruptedNode("n0", format_instant(gone_at), emptied=True))
    snapshot = ten(budgets)
    assert disruptions_left(budgets, snapshot, SETTINGS, with_moment(Recent(), snapshot, SETTINGS)) == left


def test_a_drain_that_is_taken_back_is_remembered_from_the_moment_when_it_was() -> None:
    budgets = of(DisruptionBudget("2"))
    removal = NodeRemovalRequest("n0", NodeRemovalRequestSpec("n0", "default", "sim-small", "id", "Unhealthy"))
    begun = replace(removal, status=NodeRemovalRequestStatus(drain_began_at=format_instant(NOW)))
    nodes, pods = [node(f"n{number}") for number in range(10)], [bound(pod("p"), "n0")]
    going = world(nodes=nodes, pools=[budgets], removals=[begun], pods=pods)
    recent = with_moment(Recent(), going, SETTINGS)
    later = world(nodes=nodes, pools=[budgets], pods=pods, now=NOW + 60)
    for _ in range(2):
        recent = with_moment(recent, later, SETTINGS)
    assert recent.seen == {"n0": ("default", NOW)}
    assert disruptions_left(budgets, later, SETTINGS, recent) == 1


def test_a_drained_node_counts_though_its_machine_is_gone_before_its_node() -> None:
    """Its Node is then of no pool by the provider's list; the removal names it."""
    budgets = of(DisruptionBudget("50%"))
    removal = NodeRemovalRequest("n0", NodeRemovalRequestSpec("n0", "default", "sim-small", "id", "PoolDeleted"))
    nodes = [replace(node("n0"), pool=""), node("n1")]
    snapshot = world(nodes=nodes, pools=[budgets], removals=[removal])
    assert disruptions_left(budgets, snapshot, SETTINGS, Recent()) == 0
    with_pods = world(nodes=nodes, pools=[budgets], removals=[removal], pods=[bound(pod("p"), "n0")])
    assert with_moment(Recent(), with_pods, SETTINGS).seen == {"n0": ("default", NOW)}
