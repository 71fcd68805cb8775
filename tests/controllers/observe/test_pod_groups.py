"""Groups that pods name: which kinds are asked for, when, and what is known of them."""

from __future__ import annotations

from typing import Any

from growth.kube.api.resources import POD_GROUPS, PODS
from growth.model.gang import waiting_gangs
from growth.model.snapshot import PodGroups
from growth.sim.clock import run_virtual
from tests.controllers.act.gatehouse import Gatehouse

GROUP = "default/PodGroup.scheduling.k8s.io/train"
NAMING = {"schedulingGroup": {"podGroupName": "train"}}
LABELLED = {"labels": {"scheduling.x-k8s.io/pod-group": "train"}}


async def put_pod(house: Gatehouse, name: str, *, metadata: dict[str, Any] | None = None, **spec: Any) -> None:
    containers = [{"name": "main", "image": "web"}]
    await house.put(
        PODS, name, metadata={"namespace": "default", **(metadata or {})}, spec={"containers": containers, **spec}
    )


def test_nothing_is_asked_until_a_pod_names_a_group_and_then_its_minimum_is_known() -> None:
    async def story() -> None:
        house = Gatehouse()
        await house.supply.refresh()
        await house.open()
        await put_pod(house, "alone")
        await house.put(
            POD_GROUPS, "train", metadata={"namespace": "default"}, spec={"schedulingPolicy": {"gang": {"minCount": 3}}}
        )
        await house.runtime.sleep(60.0)
        assert house.observer.snapshot().pod_groups == PodGroups()
        assert house.observer.pod_groups.is_answered
        await put_pod(house, "a", **NAMING)
        await house.runtime.sleep(0.001)
        await house.runtime.sleep(5.0)
        snapshot = house.observer.snapshot()
        assert snapshot.pod_groups == PodGroups({GROUP: 3})
        assert snapshot.pod_groups is house.observer.snapshot().pod_groups
        gang = waiting_gangs(snapshot)[GROUP]
        assert (gang.minimum, gang.missing, len(gang.waiting)) == (3, 2, 1)

    run_virtual(story())


def test_a_group_that_does_not_exist_keeps_its_pods_until_it_does() -> None:
    async def story() -> None:
        house = Gatehouse()
        await house.supply.refresh()
        await house.open()
        await put_pod(house, "a", **NAMING)
        await house.runtime.sleep(5.0)
        assert "there is no such object yet" in waiting_gangs(house.observer.snapshot())[GROUP].why_missing
        await house.put(
            POD_GROUPS, "train", metadata={"namespace": "default"}, spec={"schedulingPolicy": {"basic": {}}}
        )
        await house.runtime.sleep(5.0)
        assert waiting_gangs(house.observer.snapshot()) == {}

    run_virtual(story())


def test_a_label_of_a_kind_that_is_not_served_means_nothing() -> None:
    async def story() -> None:
        house = Gatehouse()
        await house.supply.refresh()
        await house.open()
        await put_pod(house, "a", metadata=LABELLED)
        await house.runtime.sleep(5.0)
        snapshot = house.observer.snapshot()
        assert snapshot.pod_groups.absent == {"PodGroup.scheduling.x-k8s.io"}
        assert waiting_gangs(snapshot) == {}
        assert house.observer.pod_groups.is_answered

    run_virtual(story())
