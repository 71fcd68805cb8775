"""How a NodeRequest ends: struck out, grown old, or deleted by hand (rulings 6, 16)."""

from __future__ import annotations

from msgspec.structs import replace

from growth.model.action import CreateNodeRemovalRequest, ReleaseNodeRequest, WriteNodeRequestStatus
from growth.model.instant import format_instant, parse_instant
from growth.model.outcome import Accepted, NoCapacity
from growth.plan import provisioning
from growth.plan.records import seen
from tests.plan.builders import NOW, machine, node, offering, pool, request, world
from tests.plan.oneorder import NAME, SMALL, one, plan, removal, settle_launch, with_one

GPU = offering("gpu", 8, 16384, 0.5, devices={"example.com/gpu": 1})


# ---------------------------------------------------------------------------------------------------------------- Unmet and the end


def test_the_time_of_unmet_doubles_while_it_repeats_and_begins_anew_after_a_success() -> None:
    snapshot, ledger, waits = with_one(one()), provisioning.Ledger(), []
    for _ in range(5):
        decision = settle_launch(snapshot, NoCapacity("sold out"), ledger)
        (action,) = decision.actions
        assert isinstance(action, WriteNodeRequestStatus)
        assert action.status.expires_at is not None
        until = parse_instant(action.status.expires_at)
        waits.append(until - snapshot.now)
        snapshot, ledger = replace(snapshot, now=until), replace(decision.ledger, asked={})  # another request of the same offering
    assert waits == [120, 240, 480, 600, 600]
    ledger = replace(settle_launch(snapshot, Accepted("m"), ledger).ledger, asked={})
    (action,) = settle_launch(snapshot, NoCapacity("sold out"), ledger).actions
    assert isinstance(action, WriteNodeRequestStatus)
    assert action.status.expires_at == format_instant(snapshot.now + 120)


def test_several_refusals_of_one_strike_are_one() -> None:
    first = settle_launch(with_one(one()), NoCapacity("sold out"))
    later = replace(with_one(one()), now=NOW + 30)
    (action,) = settle_launch(later, NoCapacity("sold out"), replace(first.ledger, asked={})).actions
    assert isinstance(action, WriteNodeRequestStatus)
    assert action.status.expires_at == format_instant(NOW + 120)


def test_an_unmet_record_goes_when_its_time_is_over() -> None:
    unmet = one("Unmet", expires_at=format_instant(NOW + 60))
    waiting = plan(with_one(unmet))
    assert (waiting.actions, waiting.again_at) == ((), NOW + 60)
    assert plan(replace(with_one(unmet), now=NOW + 60)).actions == (ReleaseNodeRequest(seen(unmet)),)


def test_ruling_16_after_its_time_a_ready_record_goes_and_the_machine_stays() -> None:
    ready = one("Ready", changed_at=NOW - 599, machine_id="m")
    waiting = plan(with_one(ready, nodes=[node(NAME, of=SMALL)]))
    assert (waiting.actions, waiting.again_at) == ((), NOW + 1)
    old = replace(ready, changed_at=NOW - 600)
    assert plan(with_one(old, nodes=[node(NAME, of=SMALL)])).actions == (ReleaseNodeRequest(seen(old)),)


# --------------------------------------------------------------------------------------------------------------- deletion by hand


def test_ruling_16_a_pending_request_deleted_by_hand_goes_once_it_surely_has_no_machine() -> None:
    going = one(deleted_at=NOW - 20)
    assert plan(with_one(going)).actions == (ReleaseNodeRequest(seen(going)),)
    assert plan(with_one(going, machines_at=NOW - 15)).actions == ()  # the list is too old to say
    assert plan(with_one(going, machines=None)).actions == ()
    asked = provisioning.Ledger(asked={NAME: NOW - 30})
    assert plan(with_one(going), asked).actions == ()  # an order is under way


def test_ruling_16_a_pending_request_deleted_by_hand_whose_machine_exists_is_handed_to_removal() -> None:
    going = one(deleted_at=NOW - 20)
    (create,) = plan(with_one(going, machines=[machine(NAME, SMALL)])).actions
    assert isinstance(create, CreateNodeRemovalRequest)
    assert (create.spec.machine_id, create.spec.reason) == (f"id-{NAME}", "Deleted")


def test_ruling_16_a_provisioning_request_deleted_by_hand_has_its_machine_removed() -> None:
    going = one("Provisioning", deleted_at=NOW, machine_id="m-17")
    (create,) = plan(with_one(going)).actions
    assert isinstance(create, CreateNodeRemovalRequest)
    assert create.spec.machine_id == "m-17"
    assert plan(with_one(going, removals=[removal()])).actions == (ReleaseNodeRequest(seen(going)),)


def test_ruling_16_a_ready_request_deleted_by_hand_loses_only_its_record() -> None:
    going = one("Ready", deleted_at=NOW, machine_id="m")
    assert plan(with_one(going, nodes=[node(NAME, of=SMALL)], machines=[machine(NAME, SMALL)])).actions == (ReleaseNodeRequest(seen(going)),)


def test_ruling_16_the_requests_of_a_pool_that_goes_are_removed_with_their_machines() -> None:
    requests = [
        request("default-pool-1", SMALL),
        request("default-pool-2", SMALL, "Provisioning", machine_id="m-2"),
        request("default-pool-3", SMALL, "Ready"),  # its node is still there
        request("default-pool-4", SMALL, "Ready"),
        request("default-pool-5", SMALL, "Unmet", expires_at=format_instant(NOW + 60)),
    ]
    requests = [replace(each, created_at=NOW - 100) for each in requests]
    nodes = [node("default-pool-3", of=SMALL)]
    going = world(pools=[pool("default", deleted_at=NOW - 60)], offerings=[SMALL], requests=requests, nodes=nodes, machines=[machine("default-pool-3", SMALL)])
    assert [(type(action).__name__, named(action)) for action in plan(going).actions] == [
        ("ReleaseNodeRequest", "default-pool-1"),
        ("CreateNodeRemovalRequest", "default-pool-2"),
        ("ReleaseNodeRequest", "default-pool-4"),
        ("ReleaseNodeRequest", "default-pool-5"),
    ]


def named(action: object) -> str:
    if isinstance(action, CreateNodeRemovalRequest):
        return action.node.name
    assert isinstance(action, ReleaseNodeRequest)
    return action.request.name


def test_a_pool_that_is_not_seen_is_not_a_pool_that_goes() -> None:
    requests = [request("default-pool-1", SMALL), request("default-pool-2", SMALL, "Provisioning", machine_id="m-2")]
    assert plan(world(pools=[], offerings=[SMALL], requests=requests, machines=[])).actions == ()
