"""What a buffer says of itself: size, template, conditions and their reasons; written only when it is news."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.action import Seen, WriteBufferStatus, WritePodTemplate
from growth.model.capacitybuffer import CapacityBuffer, CapacityBufferStatus, ResourceQuota
from growth.model.decision import Settled
from growth.model.outcome import Accepted, Conflict, Refused, TryLater
from growth.model.snapshot import Snapshot
from growth.plan.buffers import status as buffer_status
from tests.plan.buffers.worlds import buffer, buffer_world, from_template, stored, template
from tests.plan.builders import (
    AT_ONCE,
    NOW,
    bound,
    hetzner,
    limited,
    node,
    notes_by_reason,
    offering,
    pods,
    pool,
    request,
    shape,
    world,
)

CX32 = hetzner("cx32")[0]
POOL = pool("default", "cx32")


def snapshot_of(
    *listed: CapacityBuffer,
    nodes: Any = (),
    requests: Any = (),
    pools: Any = (POOL,),
    offerings: Any = (CX32,),
    waiting: Any = (),
    **fields: Any,
) -> Snapshot:
    return replace(world(waiting, pools, offerings, nodes, requests), buffers=buffer_world(listed, **fields))


def plan(snapshot: Snapshot) -> Any:
    return buffer_status.plan(snapshot, buffer_status.Ledger(), AT_ONCE)


def status_of(snapshot: Snapshot, name: str = "spare") -> CapacityBufferStatus:
    (status,) = [
        each.status
        for each in plan(snapshot).actions
        if isinstance(each, WriteBufferStatus) and each.buffer.name == name
    ]
    return status


def conditions(status: CapacityBufferStatus) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in status.conditions}


def test_a_buffer_that_fits_on_nodes_is_provisioned() -> None:
    status = status_of(snapshot_of(buffer(replicas=4), nodes=[node("n1", of=CX32)]))
    assert (status.replicas, status.provisioning_strategy) == (4, "buffer.x-k8s.io/active-capacity")
    assert conditions(status) == {
        "ReadyForProvisioning": ("True", "AttributesSetSuccessfully"),
        "Provisioning": ("True", "CapacityProvisioned"),
        "LimitedByQuotas": ("False", "ResourceQuotasAllocated"),
    }


def test_one_that_waits_for_nodes_says_for_how_many() -> None:
    status = status_of(snapshot_of(buffer(replicas=6), nodes=[node("n1", of=CX32)]))
    assert conditions(status)["Provisioning"] == ("False", "RequiresNewCapacity")
    assert status.conditions[1].message == "2 of 6 chunks wait for nodes"
    coming = snapshot_of(
        buffer(replicas=6),
        nodes=[node("n1", of=CX32)],
        requests=[request("n2", CX32, planned=("default/spare*2",), reason="Buffer")],
    )
    assert conditions(status_of(coming))["Provisioning"] == ("False", "RequiresNewCapacity")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"pools": [pool("default", limited("cx32", 1))], "nodes": [node("n1", of=CX32)]},
            "the limits of NodePool default leave no room",
        ),
        (
            {"offerings": [offering("cx32", 0.5, 512, 0.01)]},
            "no server type of NodePool default can hold a chunk that asks for cpu 1",
        ),
        ({"pools": [pool("other", "cx32")]}, "names no NodePool and there is none called default"),
        ({"offerings": [offering("cx32", 4, 8192, 0.01, is_available=False)]}, "is Unmet or out of stock"),
        ({"pools": [pool("default", "cx32", annotations={"growth.dev/paused": "true"})]}, "NodePool default is paused"),
    ],
)
def test_one_for_which_nothing_can_be_bought_says_why(fields: dict[str, Any], said: str) -> None:
    status = status_of(snapshot_of(buffer(replicas=6), **fields))
    assert conditions(status)["Provisioning"] == ("False", "LimitedByPool")
    assert said in status.conditions[1].message


def test_one_without_a_size_is_not_ready_and_holds_nothing() -> None:
    status = status_of(snapshot_of(buffer(replicas=-1)))
    assert status.replicas == 0
    assert conditions(status)["ReadyForProvisioning"] == ("False", "ResolutionFailed")
    assert conditions(status)["Provisioning"] == ("False", "NotReadyForProvisioning")


def test_a_quota_is_named_and_limits_the_size() -> None:
    quota = ResourceQuota("default", "team", {"pods": 2})
    decision = plan(snapshot_of(buffer(replicas=4), quotas=[quota], nodes=[node("n1", of=CX32)]))
    status = next(each.status for each in decision.actions if isinstance(each, WriteBufferStatus))
    assert status.replicas == 2
    assert conditions(status)["LimitedByQuotas"] == ("True", "ResourceQuotasAllocated")
    assert notes_by_reason(decision)["LimitedByQuotas"] == [
        "CapacityBuffer default/spare: ResourceQuota team (pods) admits 2 of 4 chunks"
    ]


def test_a_template_of_a_workload_is_written_once_and_again_when_it_changes() -> None:
    first = plan(snapshot_of(buffer(replicas=4)))
    assert (
        WritePodTemplate(Seen("spare", "uid-spare", "1", "default"), "capacitybuffer-spare-pod-template", "{}", "first")
        in first.actions
    )
    ours = stored("capacitybuffer-spare-pod-template", owner_uid="uid-spare", digest="first", generation=3)
    status = status_of(snapshot_of(buffer(replicas=4), templates=[ours]))
    assert (status.pod_template_ref and status.pod_template_ref.name, status.pod_template_generation) == (
        "capacitybuffer-spare-pod-template",
        3,
    )
    assert not [
        each
        for each in plan(snapshot_of(buffer(replicas=4), templates=[ours])).actions
        if isinstance(each, WritePodTemplate)
    ]
    changed = snapshot_of(buffer(replicas=4), of=replace(template(), digest="second"), templates=[ours])
    assert [each.digest for each in plan(changed).actions if isinstance(each, WritePodTemplate)] == ["second"]


def test_a_template_of_somebody_else_under_our_name_is_left_alone() -> None:
    decision = plan(snapshot_of(buffer(replicas=4), templates=[stored("capacitybuffer-spare-pod-template")]))
    assert not [each for each in decision.actions if isinstance(each, WritePodTemplate)]
    assert "PodTemplateTaken" in notes_by_reason(decision)


def test_a_buffer_of_a_template_names_it_and_its_generation() -> None:
    status = status_of(snapshot_of(from_template(replicas=2), templates=[stored(generation=7)]))
    assert (status.pod_template_ref and status.pod_template_ref.name, status.pod_template_generation) == ("chunk", 7)


def test_nothing_is_written_twice_and_times_stay_while_the_status_does() -> None:
    snapshot = snapshot_of(from_template(replicas=4), templates=[stored()], nodes=[node("n1", of=CX32)])
    told = from_template(replicas=4, status=status_of(snapshot))
    again = replace(snapshot, now=NOW + 3600, buffers=buffer_world([told], templates=[stored()]))
    assert plan(again).actions == ()
    full = replace(again, pods_by_node=world([bound(each, "n1") for each in pods(3)]).pods_by_node)
    after = {each.type: each for each in status_of(full).conditions}
    before = {each.type: each for each in told.status.conditions}
    assert after["ReadyForProvisioning"].last_transition_time == before["ReadyForProvisioning"].last_transition_time
    assert after["Provisioning"].last_transition_time != before["Provisioning"].last_transition_time


def test_a_buffer_with_another_strategy_is_left_alone() -> None:
    assert plan(snapshot_of(buffer(replicas=4, provisioning_strategy="example.com/cold"))).actions == ()


def test_conditions_of_others_are_kept() -> None:
    theirs = CapacityBufferStatus(
        conditions=(replace(status_of(snapshot_of(buffer(replicas=1))).conditions[0], type="Audited"),)
    )
    assert "Audited" in conditions(status_of(snapshot_of(buffer(replicas=4, status=theirs))))


def test_the_size_follows_the_workload_the_spec_and_the_template() -> None:
    """The four reasons to count anew: a new buffer, its spec, the workload's size, the template."""
    nodes = [node("n1", of=CX32)]
    assert status_of(snapshot_of(buffer(percentage=20), replicas=10, nodes=nodes)).replicas == 2
    assert status_of(snapshot_of(buffer(percentage=50), replicas=10, nodes=nodes)).replicas == 5
    assert status_of(snapshot_of(buffer(percentage=20), replicas=20, nodes=nodes)).replicas == 4
    large = snapshot_of(buffer(percentage=20), replicas=20, nodes=nodes, of=template(of=shape(4, 512)))
    assert conditions(status_of(large))["Provisioning"] == ("False", "RequiresNewCapacity")


def test_what_came_of_a_write_decides_when_to_look_again() -> None:
    action = WriteBufferStatus(Seen("spare", "uid-spare", "1", "default"), CapacityBufferStatus())
    snapshot, ledger = snapshot_of(buffer(replicas=1)), buffer_status.Ledger(NOW)
    assert buffer_status.settle(Settled(action, Accepted()), snapshot, ledger, AT_ONCE).again_at is None
    assert buffer_status.settle(Settled(action, Conflict("changed")), snapshot, ledger, AT_ONCE).again_at == NOW + 1
    assert buffer_status.settle(Settled(action, TryLater("busy", 9.0)), snapshot, ledger, AT_ONCE).again_at == NOW + 9
    refused = buffer_status.settle(Settled(action, Refused("bad")), snapshot, ledger, AT_ONCE)
    assert notes_by_reason(refused) == {
        "WriteRefused": ["CapacityBuffer default/spare: WriteBufferStatus was refused: bad"]
    }


def test_a_status_that_cannot_be_written_is_left_alone_for_longer_and_longer_and_the_template_is_not() -> None:
    snapshot, ledger = snapshot_of(buffer(replicas=1)), buffer_status.Ledger()
    pauses = []
    for _ in range(8):
        decision = buffer_status.plan(snapshot, ledger, AT_ONCE)
        (write,) = [each for each in decision.actions if isinstance(each, WriteBufferStatus)]
        assert any(isinstance(each, WritePodTemplate) for each in decision.actions)
        after = buffer_status.settle(Settled(write, Conflict("no")), snapshot, decision.ledger, AT_ONCE)
        assert after.again_at is not None
        pauses.append(after.again_at - snapshot.now)
        snapshot = replace(snapshot, now=after.again_at - 0.1)
        waiting = buffer_status.plan(snapshot, after.ledger, AT_ONCE)
        assert [type(each) for each in waiting.actions] == [WritePodTemplate]
        assert waiting.again_at == after.again_at
        snapshot, ledger = replace(snapshot, now=after.again_at), after.ledger
        written = buffer_status.settle(Settled(write, Accepted()), snapshot, ledger, AT_ONCE)
        assert written.ledger.failed == {}
    assert pauses == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60])
