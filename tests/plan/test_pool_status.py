"""How a pool says how it stands, and when its finalizer comes and goes (rulings 14, 16)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import HoldNodePool, WriteNodePoolStatus
from growth.model.api import Condition
from growth.model.decision import Decision
from growth.model.instant import format_instant
from growth.model.labels import Labels
from growth.model.node import POOL_LABEL, REQUEST_LABEL
from growth.model.nodepool import (
    DisruptedNode,
    DisruptionBudget,
    NodePool,
    NodePoolStatus,
    OfferingStatus,
    PoolLimits,
    PoolTrials,
    Trial,
)
from growth.model.noderequest import NodeRemovalRequest, NodeRemovalRequestSpec
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan import pool_status
from growth.plan.world.limits import price_text
from growth.plan.world.turn import seen
from tests.plan.builders import NOW, bound, limited, machine, node, offering, pod, pool, request, world

SMALL = offering("small", 2, 4096, 0.01)
BIG = offering("big", 8, 16384, 0.05)


def plan(snapshot: Snapshot, settings: Settings | None = None) -> Decision[pool_status.Ledger]:
    return pool_status.plan(snapshot, pool_status.Ledger(), settings or Settings())


def statuses(snapshot: Snapshot, settings: Settings | None = None) -> list[NodePoolStatus]:
    return [each.status for each in plan(snapshot, settings).actions if isinstance(each, WriteNodePoolStatus)]


def status_of(snapshot: Snapshot, settings: Settings | None = None) -> NodePoolStatus:
    (status,) = statuses(snapshot, settings)
    return status


def conditions(status: NodePoolStatus) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in status.conditions}


def told(status: NodePoolStatus, kind: str) -> Condition:
    return next(each for each in status.conditions if each.type == kind)


def test_counts_cost_and_offerings() -> None:
    unmet = request("default-pool-3", BIG, "Unmet", expires_at=format_instant(NOW + 60))
    snapshot = world(
        pools=[pool("default", limited("small", 2), "big", generation=4)],
        offerings=[BIG, SMALL],
        nodes=[node("default-pool-1", of=SMALL)],
        requests=[request("default-pool-1", SMALL, "Provisioning"), request("default-pool-2", SMALL), unmet],
        machines=[machine("default-pool-1", SMALL)],
    )
    status = status_of(snapshot)
    assert (status.nodes, status.in_flight, status.price_per_hour, status.observed_generation) == (1, 1, "0.02", 4)
    assert status.offerings == (
        OfferingStatus("sim-big", "fsn1", "Unmet", "0.05", 0),
        OfferingStatus("sim-small", "fsn1", "LimitReached", "0.01", 1),
    )
    assert plan(snapshot).again_at == NOW + 60


def test_a_pool_that_can_buy_is_ready() -> None:
    assert conditions(status_of(world(pools=[pool()], offerings=[SMALL]))) == {
        "Ready": ("True", "Ready"),
        "UnknownServerType": ("False", "AllKnown"),
        "LimitReached": ("False", "WithinLimits"),
        "AllUnmet": ("False", "ForSale"),
        "Braked": ("False", "Working"),
        "Paused": ("False", "Active"),
        "Failing": ("False", "Trusted"),
    }


def test_a_pool_whose_nodes_fail_says_that_it_is_braked_and_when_that_is_over() -> None:
    nodes = [node(f"n{number}", of=SMALL, is_ready=number > 1) for number in range(4)]
    sick = world(pools=[pool()], offerings=[SMALL], nodes=nodes)
    said = told(status_of(sick), "Braked")
    assert (said.status, said.reason) == ("True", "ManyNotReady")
    assert said.message.startswith("2 of 4 nodes of NodePool default are NotReady")
    assert [(note.reason, note.severity) for note in plan(sick).notes] == [("Braked", "Warning")]
    braked = pool(status=status_of(sick))
    assert plan(world(pools=[braked], offerings=[SMALL], nodes=nodes)).notes == ()
    well = [replace(each, is_ready=True) for each in nodes]
    after = plan(world(pools=[braked], offerings=[SMALL], nodes=well))
    assert [note.reason for note in after.notes] == ["BrakeReleased"]


def test_a_location_that_the_provider_does_not_have_is_named() -> None:
    status = status_of(world(pools=[pool("default", "small", locations=("fsn9",))], offerings=[SMALL]))
    assert told(status, "UnknownServerType").message == "no location of the provider: fsn9"
    assert conditions(status)["AllUnmet"] == ("False", "NothingForSale")


@pytest.mark.parametrize(
    ("schedule", "zone", "words"),
    [("0 9 * * 1-8", "UTC", "0 9 * * 1-8"), ("0 9 * * 1-5", "Europe/Berln", "no time zone 'Europe/Berln'")],
)
def test_a_budget_whose_schedule_or_zone_cannot_be_read_is_told(schedule: str, zone: str, words: str) -> None:
    wrong = DisruptionBudget("1", schedule, 3600, zone)
    status = status_of(world(pools=[pool("default", "small", budgets=(wrong,))], offerings=[SMALL]))
    assert words in told(status, "MalformedBudget").message
    right = DisruptionBudget("1", "0 9 * * 1-5", 3600, "Europe/Berlin")
    status = status_of(world(pools=[pool("default", "small", budgets=(right,))], offerings=[SMALL]))
    assert "MalformedBudget" not in conditions(status)


def test_ruling_14_an_unknown_server_type_is_named_and_the_rest_works() -> None:
    status = status_of(world(pools=[pool("default", "GEX44", "small")], offerings=[SMALL]))
    assert conditions(status)["Ready"] == ("True", "Ready")
    assert (told(status, "UnknownServerType").status, told(status, "UnknownServerType").message) == (
        "True",
        "not sold here: GEX44",
    )


def test_before_the_catalogue_is_read_no_type_is_called_unknown() -> None:
    assert conditions(status_of(world(pools=[pool()], offerings=[])))["UnknownServerType"] == ("False", "AllKnown")


@pytest.mark.parametrize(
    ("fields", "settings", "kind", "expected"),
    [
        ({"types": ("GEX44",)}, Settings(), "Ready", ("False", "NothingForSale")),
        ({"limits": PoolLimits(cpu="much")}, Settings(), "Ready", ("False", "MalformedLimits")),
        ({"limits": PoolLimits(cpu="1")}, Settings(), "LimitReached", ("True", "LimitReached")),
        ({"annotations": {"growth.dev/paused": "true"}}, Settings(), "Paused", ("True", "Paused")),
        ({}, Settings(is_paused=True), "Paused", ("True", "Paused")),
        ({"deleted_at": NOW}, Settings(), "Ready", ("False", "Deleting")),
    ],
)
def test_what_keeps_a_pool_from_buying(
    fields: dict[str, Any], settings: Settings, kind: str, expected: tuple[str, str]
) -> None:
    types = fields.pop("types", ("small",))
    assert (
        conditions(status_of(world(pools=[pool("default", *types, **fields)], offerings=[SMALL]), settings))[kind]
        == expected
    )


def test_all_unmet_counts_what_is_out_of_stock_too() -> None:
    unmet = request("default-pool-1", SMALL, "Unmet", expires_at=format_instant(NOW + 60))
    sold = [SMALL, replace(BIG, is_available=False)]
    status = status_of(world(pools=[pool("default", "small", "big")], offerings=sold, requests=[unmet]))
    assert conditions(status)["AllUnmet"] == ("True", "AllUnmet")
    assert [each.state for each in status.offerings] == ["Unavailable", "Unmet"]


def written(of_pool: NodePool, snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, pools={of_pool.name: replace(of_pool, status=status_of(snapshot))})


def test_a_status_that_says_nothing_new_is_not_written() -> None:
    snapshot = world(pools=[pool()], offerings=[SMALL])
    after = replace(written(pool(), snapshot), now=NOW + 999)
    assert plan(after).actions == ()


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    snapshot = world(pools=[pool()], offerings=[SMALL])
    after = replace(written(pool(), snapshot), now=NOW + 100)
    paused = status_of(after, Settings(is_paused=True))
    assert told(paused, "Paused").last_transition_time == format_instant(NOW + 100)
    assert told(paused, "LimitReached").last_transition_time == format_instant(NOW)


@pytest.mark.parametrize(
    ("price", "text"), [(0, "0"), (0.0074, "0.0074"), (1e-7, "0"), (12.5, "12.5"), (1e9, "1000000000")]
)
def test_prices_are_written_as_decimals(price: float, text: str) -> None:
    assert price_text(price) == text


# ---------------------------------------------------------------------------------------- finalizer


def holds(snapshot: Snapshot) -> list[bool]:
    return [action.holds for action in plan(snapshot).actions if isinstance(action, HoldNodePool)]


def test_a_pool_is_held_before_anything_is_bought_for_it() -> None:
    fresh = pool("default", finalizers=())
    assert HoldNodePool(seen(fresh), holds=True) in plan(world(pools=[fresh], offerings=[SMALL])).actions
    assert holds(world(pools=[pool()], offerings=[SMALL])) == []


NAME = "default-pool-1"
REMOVAL = NodeRemovalRequest(NAME, NodeRemovalRequestSpec(NAME, "default"))


@pytest.mark.parametrize(
    ("fields", "is_released"),
    [
        ({"machines": []}, True),
        ({"machines": None}, False),  # nobody knows
        ({"machines": [], "requests": [request(NAME, SMALL, "Unmet")]}, False),
        ({"machines": [], "removals": [REMOVAL]}, False),
        ({"machines": [], "nodes": [node(NAME, of=SMALL)]}, False),
        ({"machines": [machine(NAME, SMALL)]}, False),
        ({"machines": [], "nodes": [node("gpu-pool-1", "gpu", SMALL)]}, True),
    ],
)
def test_ruling_16_a_pool_goes_when_nothing_of_it_is_left(fields: dict[str, Any], is_released: bool) -> None:
    going = pool("default", deleted_at=NOW - 60)
    assert holds(world(pools=[going], offerings=[SMALL], **fields)) == ([False] if is_released else [])


def test_ruling_16_a_pool_that_orphans_its_nodes_goes_without_them_but_not_without_its_requests() -> None:
    going = pool("default", deleted_at=NOW - 60, annotations={"growth.dev/orphan-nodes": "true"})
    assert holds(world(pools=[going], nodes=[node(NAME, of=SMALL)], machines=[machine(NAME, SMALL)])) == [False]
    assert (
        holds(world(pools=[going], nodes=[node(NAME, of=SMALL)], requests=[request(NAME, SMALL, "Provisioning")])) == []
    )


def test_a_node_that_only_says_it_is_of_the_pool_holds_it_up_for_a_while_and_is_told_of() -> None:
    said = Labels({POOL_LABEL: "default", REQUEST_LABEL: NAME})
    claiming = replace(node(NAME, of=SMALL), pool="", offering="", labels=said)
    for seconds, is_released in ((60, False), (601, True)):
        going = pool("default", deleted_at=NOW - seconds)
        decision = plan(world(pools=[going], nodes=[claiming], machines=[], offerings=[SMALL]))
        assert [each.holds for each in decision.actions if isinstance(each, HoldNodePool)] == [False] * is_released
        assert [note.about.kind for note in decision.notes if note.reason == "PoolGone"] == ["Node"] * is_released


def test_a_type_that_is_not_sold_for_long_is_a_condition_that_says_until_when() -> None:
    ending = replace(SMALL, sold_until=1_800_000_000.0)
    status = status_of(
        world(pools=[pool()], offerings=[ending, replace(ending, location="elsewhere", sold_until=1_700_000_000.0)])
    )
    assert (told(status, "Deprecated").status, told(status, "Deprecated").message) == (
        "True",
        f"sold no longer than: {SMALL.server_type} until 2027-01-15T08:00:00Z",
    )
    assert "Deprecated" not in conditions(status_of(world(pools=[pool()], offerings=[SMALL])))


# ----------------------------------------------------------------------------- nodes that were disrupted


def with_status(status: NodePoolStatus) -> NodePool:
    return replace(pool(), status=status)


def drained(name: str) -> NodeRemovalRequest:
    return NodeRemovalRequest(name, NodeRemovalRequestSpec(name, "default", "sim-small", "id", "Expired"))


def test_a_drained_node_stands_in_the_status_until_the_window_after_it_went_has_passed() -> None:
    at, nodes, pods = NOW, [node("n0", of=SMALL)], [bound(pod("p"), "n0")]
    with_pods: dict[str, Any] = {"nodes": nodes, "pods": pods, "removals": [drained("n0")]}
    begun = status_of(world(pools=[pool()], now=at, **with_pods))
    assert (begun.recorded_since, begun.disrupted) == (format_instant(at), (DisruptedNode("n0"),))
    assert statuses(world(pools=[with_status(begun)], now=at + 300, **with_pods)) == []
    gone = status_of(world(pools=[with_status(begun)], now=at + 400))
    assert (gone.recorded_since, gone.disrupted) == (
        format_instant(at),
        (DisruptedNode("n0", format_instant(at + 400)),),
    )
    assert statuses(world(pools=[with_status(gone)], now=at + 999)) == []
    over = status_of(world(pools=[with_status(gone)], now=at + 1001))
    assert (over.recorded_since, over.disrupted) == (format_instant(at + 400), ())


def test_a_node_that_stays_after_all_leaves_the_status_and_one_without_pods_never_enters_it() -> None:
    nodes = [node("n0", of=SMALL), node("n1", of=SMALL)]
    begun = NodePoolStatus(recorded_since=format_instant(NOW), disrupted=(DisruptedNode("n0"),))
    assert status_of(world(pools=[with_status(begun)], nodes=nodes, removals=[drained("n1")])).disrupted == ()
    emptied = NodePoolStatus(recorded_since=format_instant(NOW), disrupted=(DisruptedNode("n0", emptied=True),))
    kept = status_of(world(pools=[with_status(emptied)], nodes=nodes)).disrupted
    assert kept == (DisruptedNode("n0", format_instant(NOW), emptied=True),)  # pods were evicted all the same


def test_of_too_many_nodes_the_newest_stand_in_the_status_and_it_says_since_when_it_is_whole() -> None:
    went = tuple(DisruptedNode(f"n{number}", format_instant(NOW - number % 500)) for number in range(1200))
    before = NodePoolStatus(recorded_since=format_instant(NOW - 9000), disrupted=went)
    status = status_of(world(pools=[with_status(before)]))
    assert len(status.disrupted) == 1000
    assert status.recorded_since == format_instant(NOW - 400)


def test_a_stamp_from_before_a_clock_went_back_counts_from_now() -> None:
    later = format_instant(NOW + 86_400)
    status = status_of(
        world(pools=[with_status(NodePoolStatus(recorded_since=later, disrupted=(DisruptedNode("n0", later),)))])
    )
    assert (status.recorded_since, status.disrupted) == (
        format_instant(NOW),
        (DisruptedNode("n0", format_instant(NOW)),),
    )


# -------------------------------------------------------------------- pools that are made again


def in_vain(count: int, at: float = NOW, generation: int = 3) -> NodePool:
    """A pool for which machines were bought in vain."""
    trials = tuple(Trial(f"default-pool-{number}", format_instant(at), cause="never Ready") for number in range(count))
    status = NodePoolStatus(trials=PoolTrials(generation=generation, in_vain=trials))
    return replace(pool("default", "small", generation=generation), status=status)


def test_a_pool_that_is_made_again_goes_on_with_what_was_bought_in_vain_and_counts_as_mended() -> None:
    _, past = pool_status.with_past({"default": in_vain(4)}, {}, NOW)
    gone, past = pool_status.with_past({}, past, NOW)
    assert not gone
    anew, _ = pool_status.with_past({"default": pool("default", "small", generation=3)}, past, NOW)
    status = status_of(world(pools=[anew["default"]], offerings=[SMALL]))
    assert (len(status.trials.in_vain), status.trials.generation, status.trials.mended_at) == (
        4,
        3,
        format_instant(NOW),
    )


def test_what_a_pool_says_itself_counts_and_others_are_not_told() -> None:
    _, past = pool_status.with_past({"default": in_vain(4)}, {}, NOW)
    pools = {"default": in_vain(1), "other": pool("other", "small")}
    assert pool_status.with_past(pools, past, NOW)[0] is pools


def test_what_was_bought_in_vain_is_forgotten_after_a_day() -> None:
    _, past = pool_status.with_past({"default": in_vain(4)}, {}, NOW)
    assert past
    assert pool_status.with_past({}, past, NOW + 86_401)[1] == {}
