"""What `growth explain pod` says: where a pod is or would go, why not elsewhere, and that asking changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.controllers.ask.explain import find_pod, why_pod
from growth.model.node import Taint
from growth.model.pod import Pod, VolumeUse
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot, VolumeWorld
from growth.model.volumes import Claim, StorageClass
from tests.plan.builders import bound, daemon_pod, node, offering, pod, pool, request, world

SMALL = offering("small", 2, 4096, 0.01)
ASKED = pod("web")


def asked(*others: Pod, of: Pod = ASKED, settings: Settings | None = None, **fields: Any) -> tuple[str, str, str]:
    snapshot: Snapshot = world((of, *others), fields.pop("pools", [pool()]), [SMALL], **fields)
    answer = why_pod(of, snapshot, settings or Settings())
    return answer.state, answer.plan, answer.nodes


def test_a_pod_without_room_is_told_what_would_be_bought_for_it() -> None:
    state, plan, nodes = asked(bound(pod("big", 2), "n"), nodes=[node("n", of=SMALL)])
    assert state == "the scheduler finds no node for it"
    assert plan == "Planned: planned onto a new sim-small in fsn1 of NodePool default"
    assert nodes == "0/1 nodes are available: 1 insufficient cpu"


def test_a_pod_that_fits_no_offering_is_told_why() -> None:
    _, plan, nodes = asked(of=pod("huge", 64))
    assert plan.startswith("Unplaced: no place for this pod: ")
    assert "cpu" in plan
    assert nodes == "0/0 nodes are available"


def test_a_pod_that_names_a_missing_pool_is_told_so() -> None:
    _, plan, _ = asked(of=pod("lost", node_selector={"growth.dev/pool": "nowhere"}))
    assert "nowhere" in plan


def test_room_that_exists_is_the_schedulers() -> None:
    _, plan, nodes = asked(nodes=[node("n", of=SMALL)])
    assert (plan, nodes) == (
        "nothing: node n has room for it, and the scheduler decides",
        "1 of 1 nodes would take it now",
    )


def test_a_pod_planned_onto_a_node_on_its_way_is_told_which() -> None:
    _, plan, _ = asked(requests=[request("default-pool-1", SMALL, "Provisioning", planned=["default/web"])])
    assert plan == "planned onto default-pool-1, which is on its way (Provisioning)"


def test_a_nominated_pod_is_told_where() -> None:
    _, plan, _ = asked(of=replace(ASKED, nominated_node="n"), nodes=[node("n", of=SMALL)])
    assert plan == "nothing: it is nominated to node n, which has room"


@pytest.mark.parametrize("looked_at", [ASKED.unschedulable_at, None])
def test_filler_below_the_cutoff_is_told_so_whether_or_not_the_scheduler_has_looked_at_it(
    looked_at: float | None,
) -> None:
    of = replace(ASKED, shape=replace(ASKED.shape, priority=-20), unschedulable_at=looked_at)
    assert asked(of=of, settings=Settings(priority_cutoff=-10))[1] == (
        "Unplaced: no place for this pod: its priority -20 is below the cutoff -10, so no machine is bought for it"
    )


def test_filler_that_cannot_be_read_is_told_what_is_wrong_with_it() -> None:
    of = replace(ASKED, shape=replace(ASKED.shape, priority=-20, malformed="cpu: not a number"))
    assert "cpu: not a number" in asked(of=of, settings=Settings(priority_cutoff=-10))[1]


@pytest.mark.parametrize(
    ("of", "state"),
    [
        (replace(ASKED, unschedulable_at=None), "the scheduler has not looked at it yet"),
        (replace(ASKED, is_gated=True), "waits for its scheduling gates"),
        (replace(ASKED, volumes_asked_at=1.0, nominated_node="n"), "waits on node n for volumes"),
        (replace(ASKED, deleted_at=1.0), "being deleted"),
        (
            replace(daemon_pod("d", "n"), node_name=""),
            "belongs to one node (DaemonSet or static pod): it makes no demand",
        ),
        (bound(ASKED, "n"), "Running on node n"),
    ],
)
def test_each_state_has_its_words(of: Pod, state: str) -> None:
    assert asked(of=of, nodes=[node("n", of=SMALL)])[0] == state


def test_pods_are_found_by_namespace_and_name_whether_they_wait_or_run() -> None:
    snapshot = world([ASKED, bound(pod("runs"), "n")], nodes=[node("n", of=SMALL)])
    assert find_pod("default/web", snapshot) == ASKED
    assert find_pod("default/runs", snapshot) is not None
    assert find_pod("default/none", snapshot) is None


def test_a_pod_whose_volume_is_made_for_its_node_is_told_that_it_is_asked_for_first() -> None:
    mine = pod("web", scheduler_name="growth", volumes=(VolumeUse(claim="data"),))
    made = StorageClass("made", "example.com/disk", waits_for_consumer=True)
    volumes = VolumeWorld({"default/data": Claim("default", "data", storage_class="made")}, classes={"made": made})
    snapshot = world([mine], [pool()], [SMALL], [node("a", of=SMALL)], volumes=volumes)
    answer = why_pod(mine, snapshot, Settings(scheduler=SchedulerSettings(enabled=True)))
    assert answer.plan == "growth asks for volumes on node a, and binds it there"


def test_a_pod_that_names_growth_is_told_its_node_and_its_ways_through_the_network() -> None:
    taint = Taint("old", "", "PreferNoSchedule")
    nodes = [
        node("a", of=SMALL),
        node("b", of=SMALL),
        node("c", of=SMALL, taints=(taint,)),
        node("d", of=SMALL, taints=(Taint("gpu"),)),
    ]
    mine = pod("web", scheduler_name="growth")
    snapshot = world([mine, bound(pod("big", 1), "a"), bound(pod("big2", 1), "b")], [pool()], [SMALL], nodes)
    answer = why_pod(mine, snapshot, Settings(scheduler=SchedulerSettings(enabled=True)))
    assert answer.plan == "growth binds it to node c"
    assert answer.arcs == {
        "way 1": "c: 2 places at 100 to 200, and 1 for soft taints and preferences",
        "way 2": "a and 1 like it: 2 places at 200",
        "unscheduled": "302",
    }
    assert why_pod(mine, snapshot, Settings()).plan == "nothing: node a has room for it, and the scheduler decides"
