"""Nothing is bought or given back on old knowledge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from growth.controllers.act.gate import Gate
from growth.kube.api.client import Client
from growth.kube.api.resources import NODE_POOLS, NODE_REMOVAL_REQUESTS, NODE_REQUESTS, NODES, PODS
from growth.kube.api.transport import Request, Response
from growth.kube.fence import OpenFence
from growth.model.action import DeleteMachine, FinishRemoval, LaunchMachine, Seen
from growth.model.api import FINALIZER
from growth.model.instant import format_instant
from growth.model.noderequest import UNANSWERED, NodeRequestSpec
from growth.model.outcome import Accepted, Conflict, NoCapacity, Outcome, Refused, TryLater, Unknown
from growth.model.settings import Settings
from growth.sim.apiserver.refusal import Refusal
from growth.sim.apiserver.streams import Answer
from growth.sim.clock import run_virtual
from tests.controllers.act.gatehouse import CLUSTER, Gatehouse

SPEC = NodeRequestSpec(pool="default", target_offering="sim-cx33", location="fsn1")
Story = Callable[[Gatehouse], Awaitable[Outcome | None]]


def asked(story: Story, settings: Settings | None = None) -> Outcome | None:
    """What the gate says at the end of the story."""

    async def play() -> Outcome | None:
        house = Gatehouse(settings)
        await house.open()
        return await story(house)

    return run_virtual(play())


async def ordered(house: Gatehouse, name: str = "default-pool-1", **parts: Any) -> LaunchMachine:
    """A pool with room for two and a NodeRequest that waits for a machine."""
    if house.observer.pool("default") is None:
        await house.put(
            NODE_POOLS, "default", spec={"serverTypes": [{"name": "CX33", "max": 2}]}, metadata=parts.pop("pool", {})
        )
    metadata = {"finalizers": [FINALIZER]}
    seen = await house.put(
        NODE_REQUESTS, name, spec={"pool": "default", "targetOffering": "sim-cx33"}, metadata=metadata, **parts
    )
    return LaunchMachine(seen, SPEC)


async def removing(
    house: Gatehouse, name: str = "default-pool-1", phase: str = "Deprovisioning", called: str = "", **spec: str
) -> DeleteMachine:
    """A node, its machine, and a NodeRemovalRequest for it."""
    house.shelf.put(name)
    await house.put(NODES, called or name, spec=spec)
    seen = await house.put(
        NODE_REMOVAL_REQUESTS, name, spec={"nodeName": name, "pool": "default"}, status={"phase": phase}
    )
    return DeleteMachine(seen, name, f"id-{name}")


# ----------------------------------------------------------------------------------------- launches


def test_a_waiting_request_within_its_limits_may_buy_unless_growth_is_paused() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        return await house.gate.why_not_launch(await ordered(house))

    assert asked(story) is None
    assert isinstance(asked(story, Settings(is_paused=True)), TryLater)


def test_nothing_is_bought_for_a_paused_pool() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        return await house.gate.why_not_launch(
            await ordered(house, pool={"annotations": {"growth.dev/paused": "true"}})
        )

    assert asked(story) == TryLater("growth is paused for pool default", 10.0)


def test_a_pool_is_asked_live_whether_it_is_paused() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        action = await ordered(house)
        await house.client.merge_patch(
            NODE_POOLS, "default", {"metadata": {"annotations": {"growth.dev/paused": "true"}}}
        )
        return await house.gate.why_not_launch(action)

    assert asked(story) == TryLater("growth is paused for pool default", 10.0)


@pytest.mark.parametrize("has_node", [False, True])  # True: its machine lost growth's label before a list showed it
def test_an_order_without_a_record_and_a_node_of_growth_no_longer_counts(has_node: bool) -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        for name in ("default-pool-1", "default-pool-2"):
            assert await house.gate.why_not_launch(await ordered(house, name)) is None
        third = await ordered(house, "default-pool-3")
        assert isinstance(await house.gate.why_not_launch(third), TryLater)
        if has_node:
            await house.put(NODES, "default-pool-1")
        house.observer.forgot(NODE_REQUESTS, "default-pool-1")
        return await house.gate.why_not_launch(third)

    assert asked(story) is None


def test_an_order_that_was_handed_to_removal_no_longer_counts_though_its_record_remembers_the_failure() -> None:
    """Seed 63: the next request waited for ever below a limit that nobody used."""

    async def story(house: Gatehouse) -> Outcome | None:
        for name in ("default-pool-1", "default-pool-2"):
            assert await house.gate.why_not_launch(await ordered(house, name)) is None
        memory = {"status": {"phase": "Deprovisioning", "expiresAt": "2026-01-01T01:00:00Z"}}
        await house.client.merge_patch(NODE_REQUESTS, "default-pool-1", memory, subresource="status")
        await house.runtime.sleep(0.1)
        return await house.gate.why_not_launch(await ordered(house, "default-pool-3"))

    assert asked(story) is None


def test_an_order_without_an_answer_of_an_earlier_process_counts_though_the_machine_of_another_one_is_gone() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        events = [{"at": format_instant(house.runtime.now()), "name": UNANSWERED}]
        for name in ("default-pool-1", "default-pool-2"):
            await ordered(house, name, status={"phase": "Ready", "machineID": "gone", "events": events})
        return await house.gate.why_not_launch(await ordered(house, "default-pool-3"))

    assert isinstance(asked(story), TryLater)


def test_a_request_that_is_gone_or_another_one_by_now_buys_nothing() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        action = await ordered(house)
        return await house.gate.why_not_launch(replace(action, request=replace(action.request, uid="another")))

    assert isinstance(asked(story), Conflict)


def test_a_request_that_already_has_a_machine_buys_no_second_one() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        return await house.gate.why_not_launch(await ordered(house, status={"phase": "Provisioning"}))

    assert isinstance(asked(story), Conflict)


def test_s1_limits_count_the_providers_machines_not_our_objects() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        action = await ordered(house, "default-pool-9")
        house.shelf.put("default-pool-1")
        house.shelf.put("default-pool-2")
        await house.supply.refresh()
        return await house.gate.why_not_launch(action)

    assert isinstance(asked(story), TryLater)


def test_s1_launches_under_way_count_although_the_provider_does_not_list_them_yet() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        actions = [await ordered(house, f"default-pool-{number}") for number in range(3)]
        said = [await house.gate.why_not_launch(action) for action in actions]
        assert said[:2] == [None, None]
        assert isinstance(said[2], TryLater)
        house.gate.launched("default-pool-0", Unknown("lost"))  # it may have been bought: its place stays taken
        assert isinstance(await house.gate.why_not_launch(actions[2]), TryLater)
        house.gate.launched("default-pool-1", NoCapacity("sold out"))
        return await house.gate.why_not_launch(actions[2])

    assert asked(story) is None


def test_s9_without_certain_leadership_nothing_is_bought_or_deleted() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        launch, delete = await ordered(house, "default-pool-2"), await removing(house)
        house.fence.close()
        assert isinstance(await house.gate.why_not_launch(launch), TryLater)
        return await house.gate.why_not_delete(delete)

    assert isinstance(asked(story), TryLater)


def test_nothing_is_bought_or_deleted_on_a_list_of_machines_that_is_too_old() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        launch, delete = await ordered(house, "default-pool-2"), await removing(house)
        await house.runtime.sleep(145)
        assert await house.gate.why_not_launch(launch) is None
        await house.runtime.sleep(10)
        assert isinstance(await house.gate.why_not_launch(launch), TryLater)
        said = await house.gate.why_not_delete(delete)
        await house.supply.refresh()
        assert await house.gate.why_not_delete(delete) is None
        return said

    said = asked(story)
    assert isinstance(said, TryLater)
    assert "list of machines is more than 150 s old" in said.reason


class Forbidding:
    """An API server that allows nothing."""

    async def send(self, request: Request) -> Response:
        return Answer(403, Refusal(403, "Forbidden", f"{request.method} is not allowed").body())


def test_what_the_api_server_does_not_let_us_read_says_nothing_about_an_offering() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        action = await ordered(house)
        gate = Gate(
            Client(Forbidding(), house.runtime),
            house.shelf,
            house.observer,
            Settings(),
            CLUSTER,
            OpenFence(house.runtime.monotonic),
            house.runtime.monotonic,
        )
        return await gate.why_not_launch(action)

    assert asked(story) == TryLater("Forbidden (403): GET is not allowed", 10.0)


# ------------------------------------------------------------------------------------------ deletes


def test_an_empty_node_with_an_open_removal_may_go() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        return await house.gate.why_not_delete(await removing(house))

    assert asked(story) is None


@pytest.mark.parametrize("phase", ["Pending", "CouldNotRemove", "RemovalFailed"])
def test_s14_only_a_removal_that_wrote_deprovisioning_first_may_delete(phase: str) -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        return await house.gate.why_not_delete(await removing(house, phase=phase))

    assert isinstance(asked(story), Conflict)


@pytest.mark.parametrize("node", ["default-pool-1", "ip-10-0-0-1"])
def test_s3_a_pod_that_the_caches_do_not_know_yet_still_blocks_the_delete_whatever_its_node_is_called(
    node: str,
) -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        action = await removing(house, called=node, providerID="shelf://id-default-pool-1")
        await house.supply.refresh()
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        item = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late", "namespace": "default"}, "spec": spec}
        await house.client.create(PODS, item)
        return await house.gate.why_not_delete(action)

    assert asked(story) == Conflict(f"pod default/late is on node {node}")


@pytest.mark.parametrize(
    ("reason", "is_irrevocable", "is_kept"),
    [("Empty", False, True), ("Consolidated", False, True), ("Empty", True, False), ("Unhealthy", False, False)],
)
def test_a_node_that_must_not_be_disrupted_is_seen_live(reason: str, is_irrevocable: bool, is_kept: bool) -> None:
    """The annotation came after the plan had looked. What may have been deleted already is not kept."""

    async def story(house: Gatehouse) -> Outcome | None:
        name, irrevocable = "default-pool-1", {**WELL, "type": "Irrevocable", "reason": "AnswerUnknown", "message": ""}
        house.shelf.put(name)
        await house.put(NODES, name)
        status = {"phase": "Deprovisioning", "conditions": [irrevocable] if is_irrevocable else []}
        spec = {"nodeName": name, "pool": "default", "reason": reason}
        seen = await house.put(NODE_REMOVAL_REQUESTS, name, spec=spec, status=status)
        annotations = {"metadata": {"annotations": {"growth.dev/do-not-disrupt": "true"}}}
        await house.client.merge_patch(NODES, name, annotations)
        return await house.gate.why_not_delete(DeleteMachine(seen, name, f"id-{name}"))

    assert asked(story) == (Conflict("node default-pool-1 must not be disrupted") if is_kept else None)


def test_s7_a_machine_of_another_cluster_is_never_deleted() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        action = await removing(house)
        house.shelf.put("default-pool-1", cluster="somebody-else")
        return await house.gate.why_not_delete(action)

    assert isinstance(asked(story), Refused)


def test_s7_a_machine_that_is_not_the_recorded_one_is_never_deleted() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        action = await removing(house)
        house.shelf.put("default-pool-2")
        return await house.gate.why_not_delete(replace(action, machine_id="id-default-pool-2"))

    assert isinstance(asked(story), Refused)


def test_a_provider_that_does_not_answer_is_not_a_machine_that_is_gone() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        action = await removing(house)
        house.shelf.is_silent = True
        return await house.gate.why_not_delete(action)

    assert isinstance(asked(story), TryLater)


def test_a_machine_that_is_positively_gone_needs_no_delete() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        action = await removing(house)
        house.shelf.machines.clear()
        return await house.gate.why_not_delete(action)

    assert asked(story) == Accepted()


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_pod_that_came_back_after_an_eviction_holds_nothing_up_unless_it_must_not_be_disrupted(is_kept: bool) -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        name = "default-pool-1"
        house.shelf.put(name)
        await house.put(NODES, name)
        tolerating = [{"owner": "Pod default/back", "pods": ["of-old"]}]
        status = {"phase": "Deprovisioning", "drainBeganAt": "2020-01-01T00:00:00Z", "tolerating": tolerating}
        spec = {"nodeName": name, "pool": "default"}
        seen = await house.put(NODE_REMOVAL_REQUESTS, name, spec=spec, status=status)
        metadata: dict[str, Any] = {"name": "back", "namespace": "default"}
        metadata |= {"annotations": {"growth.dev/do-not-disrupt": "true"}} if is_kept else {}
        containers = [{"name": "c", "image": "i"}]
        pod = {"nodeName": name, "containers": containers, "tolerations": [{"operator": "Exists"}]}
        await house.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})
        return await house.gate.why_not_delete(DeleteMachine(seen, name, f"id-{name}"))

    assert asked(story) == (Conflict("pod default/back is on node default-pool-1") if is_kept else None)


SICK = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-02-01T00:00:00Z"}
WELL = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-02-01T00:00:00Z"}


async def removing_while_others_are_sick(house: Gatehouse, condition: dict[str, str]) -> DeleteMachine:
    for number in range(4):
        await house.put(NODES, f"broken-{number}", status={"conditions": [SICK]})
    house.shelf.put("default-pool-1")
    await house.put(NODES, "default-pool-1", status={"conditions": [condition]})
    spec, status = {"nodeName": "default-pool-1", "pool": "default"}, {"phase": "Deprovisioning"}
    seen = await house.put(NODE_REMOVAL_REQUESTS, "default-pool-1", spec=spec, status=status)
    return DeleteMachine(seen, "default-pool-1", "id-default-pool-1")


def test_s8_the_brake_keeps_a_node_that_is_not_ready_while_many_are_not() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        return await house.gate.why_not_delete(await removing_while_others_are_sick(house, SICK))

    said = asked(story)
    assert isinstance(said, TryLater)
    assert "5 of 5 nodes are NotReady" in said.reason


def test_the_brake_lets_a_ready_empty_node_go_and_one_whose_machine_is_off() -> None:
    async def ready(house: Gatehouse) -> Outcome | None:
        return await house.gate.why_not_delete(await removing_while_others_are_sick(house, WELL))

    async def switched_off(house: Gatehouse) -> Outcome | None:
        action = await removing_while_others_are_sick(house, SICK)
        off = replace(house.shelf.machines[action.machine_id], state="stopped")
        house.shelf.machines[action.machine_id] = off
        return await house.gate.why_not_delete(action)

    assert asked(ready) is None
    assert asked(switched_off) is None


def test_whether_a_node_is_ready_is_looked_at_live_while_the_brake_holds() -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        action = await removing_while_others_are_sick(house, SICK)
        await house.client.merge_patch(
            NODES, action.node_name, {"status": {"conditions": [WELL]}}, subresource="status"
        )
        return await house.gate.why_not_delete(action)

    assert asked(story) is None


@pytest.mark.parametrize(
    ("cluster", "state", "said"), [(CLUSTER, "running", TryLater), ("", "running", Refused), ("", "deleting", TryLater)]
)
def test_a_node_stays_while_its_machine_is_there_and_one_without_our_label_is_no_longer_ours_to_delete(
    cluster: str, state: str, said: type[Outcome]
) -> None:
    async def story(house: Gatehouse) -> Outcome | None:
        house.shelf.put("default-pool-1", cluster)
        machine = house.shelf.machines["id-default-pool-1"]
        house.shelf.machines["id-default-pool-1"] = replace(machine, state=state)
        return await house.gate.why_not_finish(
            FinishRemoval(Seen("default-pool-1"), "default-pool-1", "id-default-pool-1")
        )

    assert isinstance(asked(story), said)
