"""Laws on what growth may write, where an example says more than a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from growth.model.node import POOL_LABEL
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.model.volumes import SELECTED_NODE
from growth.sim.apiserver.kinds import BY_NAME, Json
from growth.sim.apiserver.objects import node, pod
from growth.sim.apiserver.store import Write
from growth.sim.apiserver.subresources import bind
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.laws import Judge
from growth.sim.laws.memory import Call
from growth.sim.laws.witness import GROWTH, Witness
from growth.sim.laws.writes import no_node_is_overcommitted, nothing_of_an_earlier_leader

NOBODY: Any = None  # this law asks nothing of the witness


def _late(*, stood_still: bool = False, was_given_up: bool = False) -> Call:
    return Call(
        "DELETE /apis/growth.dev/v1alpha1/noderemovalrequests/old", False, True, stood_still, was_given_up=was_given_up
    )


def test_a_write_that_a_former_leader_still_waits_for_must_not_take_effect() -> None:
    assert "of a former leader" in (nothing_of_an_earlier_leader(NOBODY, _late()) or "")


def test_what_the_network_delivers_after_its_sender_gave_it_up_is_nobodys_doing() -> None:
    assert nothing_of_an_earlier_leader(NOBODY, _late(was_given_up=True)) is None
    assert nothing_of_an_earlier_leader(NOBODY, _late(stood_still=True)) is None


def is_overcommitted(seconds: float, tolerations: tuple[Json, ...] = (), scheduler: str = "another") -> bool:
    """growth binds 3 of 4 CPU; so long after that a scheduler, whose news are half a second old, binds 2 more."""
    found: list[str | None] = []

    async def run() -> None:
        cluster = Cluster("hive")
        witness = Witness(cluster)

        def look(write: Write) -> None:
            found.append(no_node_is_overcommitted(witness, write))

        cluster.store.on_write(look)
        cluster.scheduler.lag_seconds = 0.5
        cluster.create(node("a", cpu="4", labels={POOL_LABEL: "hive"}))
        await cluster.runtime.sleep(60)  # a user has just changed it
        cluster.create(pod("planned", "3", "1Gi", schedulerName=scheduler))
        cluster.create(pod("bee", "2", "1Gi", schedulerName="another", tolerations=tolerations))
        for name, actor in (("planned", "growth"), ("bee", "scheduler")):
            bind(cluster.verbs, name, "default", {"target": {"name": "a"}}, actor)
            await cluster.runtime.sleep(seconds)

    run_virtual(run())
    return any(found)


@pytest.mark.parametrize(
    ("given", "is_broken"),
    [
        ({}, True),
        ({"tolerations": ({"operator": "Exists"},)}, False),
        ({"scheduler": "growth"}, False),
        ({"tolerations": ({"operator": "Exists"},), "seconds": 0.6}, True),
    ],
    ids=["our taint was off", "it came past our taint", "the node is open to both", "it had heard of it"],
)
def test_two_schedulers_may_only_miss_each_others_latest_binds(given: Any, is_broken: bool) -> None:
    assert is_overcommitted(**{"seconds": 0.3} | given) == is_broken


@pytest.mark.parametrize(("sent_seconds_before", "is_broken"), [(1.0, False), (-5.0, True), (None, True)])
def test_a_bind_to_a_node_that_is_gone_was_on_its_way_when_it_went_or_is_wrong(
    sent_seconds_before: float | None, is_broken: bool
) -> None:
    found: list[str | None] = []

    async def run() -> None:
        cluster = Cluster("hive")
        witness = Witness(cluster)
        cluster.store.on_write(lambda write: found.append(no_node_is_overcommitted(witness, write)))
        cluster.create(node("a", cpu="4", labels={POOL_LABEL: "hive"}))
        cluster.create(pod("planned", "3", "1Gi", schedulerName="another"))
        await cluster.runtime.sleep(60)
        if sent_seconds_before is not None:
            witness.sent_at["POST /api/v1/namespaces/default/pods/planned/binding"] = witness.now - sent_seconds_before
        cluster.delete("Node", "a")
        await cluster.runtime.sleep(14)
        bind(cluster.verbs, "planned", "default", {"target": {"name": "a"}}, GROWTH)

    run_virtual(run())
    assert any(found) == is_broken


# ------------------------------------------------------------------------------------------ volumes


class Scene:
    """A pod of growth's scheduler with a claim, a node, and what a witness sees of growth's writes."""

    def __init__(self, scheduler: str = "growth") -> None:
        self.cluster = Cluster("test")
        settings = Settings(scheduler=SchedulerSettings(enabled=True))
        self.judge = Judge(Witness(self.cluster, settings=settings))
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {}}
        disk = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": {}}
        web = pod("web", schedulerName=scheduler, volumes=volumes)
        self.cluster.create(node("n1"), made, disk, web)

    def change(self, kind: str, name: str, change: Callable[[Any], None]) -> list[str]:
        """What growth broke by this."""
        before = len(self.judge.violations)
        namespace = "default" if kind.endswith("Claim") else ""
        self.cluster.verbs.modify(BY_NAME[kind], name, namespace, change, GROWTH)
        return [each.law for each in self.judge.violations[before:]]

    def bind(self) -> list[str]:
        before = len(self.judge.violations)
        bind(self.cluster.verbs, "web", "default", {"target": {"name": "n1"}}, GROWTH)
        return [each.law for each in self.judge.violations[before:]]


def mark(key: str, value: str) -> Callable[[Any], None]:
    def change(item: Any) -> None:
        item["metadata"].setdefault("annotations", {})[key] = value

    return change


def set_spec(**fields: Any) -> Callable[[Any], None]:
    def change(item: Any) -> None:
        item["spec"] |= fields

    return change


def played(story: Callable[[], None]) -> None:
    async def play() -> None:
        story()

    run_virtual(play())


def test_growth_may_promise_a_claim_of_its_own_pods_to_a_node_and_change_nothing_else_of_it() -> None:
    def story() -> None:
        scene = Scene()
        assert scene.change("PersistentVolumeClaim", "data", mark(SELECTED_NODE, "n1")) == []
        assert scene.change("PersistentVolumeClaim", "data", mark(SELECTED_NODE, "n2")) == ["only allowed writes"]
        assert scene.change("PersistentVolumeClaim", "data", mark("other", "x")) == ["only allowed writes"]
        assert scene.change("PersistentVolumeClaim", "data", set_spec(volumeName="x")) == ["only allowed writes"]
        theirs = Scene("default-scheduler")
        assert theirs.change("PersistentVolumeClaim", "data", mark(SELECTED_NODE, "n1")) == ["only allowed writes"]

    played(story)


def test_growth_may_reserve_a_free_volume_and_no_other() -> None:
    def story() -> None:
        scene, mine = Scene(), {"namespace": "default", "name": "data", "uid": "1"}
        assert scene.change("PersistentVolume", "disk", set_spec(capacity={})) == ["only allowed writes"]
        assert scene.change("PersistentVolume", "disk", set_spec(claimRef=mine)) == []
        taken = set_spec(claimRef={**mine, "uid": "2"})
        assert scene.change("PersistentVolume", "disk", taken) == ["only allowed writes"]

    played(story)


def test_a_pod_that_is_bound_before_its_claim_or_away_from_its_volume_is_noticed() -> None:
    def story() -> None:
        assert Scene().bind() == ["volumes are bound first"]
        far = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]}
        for terms, broken in (([], []), ([far], ["volumes are bound first"])):
            scene = Scene()
            affinity = set_spec(nodeAffinity={"required": {"nodeSelectorTerms": terms}})
            scene.cluster.verbs.modify(BY_NAME["PersistentVolume"], "disk", "", affinity, "user")
            for change in (set_spec(volumeName="disk"), mark("pv.kubernetes.io/bind-completed", "yes")):
                scene.cluster.verbs.modify(BY_NAME["PersistentVolumeClaim"], "data", "default", change, "volumes")
            assert scene.bind() == broken

    played(story)
