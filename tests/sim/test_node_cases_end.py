"""The table of node cases, row by row, in the embedded cluster: what is given back, and rulings about records and
switches.
"""

from __future__ import annotations

from typing import get_args

import pytest

from growth.controllers.growth import Installation
from growth.model.outcome import Outcome
from growth.model.settings import Settings
from growth.sim.apiserver.kinds import NODE, Json
from growth.sim.apiserver.objects import daemon_set, deployment, node, node_pool, pod
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess
from tests.sim.cases import Town, played


@pytest.mark.parametrize(("nodes", "least"), [(1, 1), (2, 1), (3, 2)])
def test_idle_nodes_go_down_to_min(nodes: int, least: int) -> None:
    async def story(town: Town) -> None:
        town.pool({"name": "small", "min": least})
        town.cluster.create(deployment("web", nodes, "2", "1Gi"))
        await town.until(lambda: town.running() == nodes)
        assert len(town.nodes) == nodes
        town.cluster.scale("Deployment", "web", 0)
        await town.passes(400)
        assert len(town.nodes) == least

    played(story)


def test_a_node_with_only_daemon_set_pods_is_idle() -> None:
    async def story(town: Town) -> None:
        town.pool("small")
        town.cluster.create(daemon_set("agent"), deployment("web", 1, "1", "1Gi"))
        await town.until(lambda: town.running() == 2)
        town.cluster.scale("Deployment", "web", 0)
        await town.passes(400)
        assert (town.nodes, town.cluster.cloud.servers) == ([], {})

    played(story)


def test_a_node_of_another_manager_is_never_touched() -> None:
    async def story(town: Town) -> None:
        town.pool("small")
        town.cluster.create(node("stranger"))
        await town.passes(10)
        before = town.cluster.store.read(NODE, "stranger")
        await town.passes(280)
        after = town.cluster.store.read(NODE, "stranger")
        assert before is not None
        assert after is not None
        assert (after["spec"], after["metadata"]["labels"], after["metadata"]["annotations"]) == (
            before["spec"], before["metadata"]["labels"], before["metadata"]["annotations"],
        )  # fmt: skip

    played(story)


def test_a_machine_that_is_not_ready_in_time_is_deprovisioned_and_handed_to_removal() -> None:
    async def story(town: Town) -> None:
        town.cluster.cloud.trouble.never_boots = 1.0
        town.pool("small", readinessWaitSeconds=60)
        town.cluster.create(deployment("web", 1, "1", "1Gi"))
        await town.until(lambda: bool(town.cluster.objects("NodeRemovalRequest")))
        [removal] = town.cluster.objects("NodeRemovalRequest")
        [request] = [each for each in town.requests if each["metadata"]["name"] == removal["metadata"]["name"]]
        assert (request["status"]["phase"], request["status"]["events"][-1]["name"]) == (
            "Deprovisioning",
            "nodeNotReady",
        )
        first = town.cluster.cloud.creates[0]
        await town.until(lambda: first.server_id not in town.cluster.cloud.servers)

    played(story)


def deletes_asked(town: Town) -> float:
    value = town.growth.growth.metrics.registry.get_sample_value
    return sum(
        value("growth_provider_calls_total", {"call": "delete", "outcome": outcome.__name__}) or 0
        for outcome in get_args(Outcome)
    )


def test_a_removal_that_the_provider_refuses_is_tried_again_until_its_attempts_are_spent() -> None:
    async def story(town: Town) -> None:
        town.pool("small")
        town.cluster.create(deployment("web", 1, "1", "1Gi"))
        await town.until(lambda: town.running() == 1)
        town.cluster.cloud.trouble.refuses_delete = 1.0
        town.cluster.scale("Deployment", "web", 0)
        phases: list[tuple[str, int]] = []

        def look(*_write: object) -> None:
            for removal in town.cluster.objects("NodeRemovalRequest"):
                status = removal.get("status") or {}
                seen = (status.get("phase", "Pending"), status.get("removalAttempt", 0))
                phases.extend([seen] if seen not in phases else [])

        town.cluster.store.on_write(look)
        await town.until(lambda: ("RemovalFailed", 5) in phases, 1200)
        tried = [("Deprovisioning", attempt) for attempt in range(1, 6)]
        refused = [("CouldNotRemove", attempt) for attempt in range(1, 5)]
        assert phases[1:] == [each for pair in zip(tried, refused, strict=False) for each in pair] + [
            tried[4],
            ("RemovalFailed", 5),
        ]
        [name] = [each["metadata"]["name"] for each in town.nodes]
        writes, deletes = town.cluster.api.writes_asked, deletes_asked(town)
        await town.passes(600)
        assert deletes_asked(town) == deletes == 5  # no more calls to the provider
        assert town.cluster.api.writes_asked - writes < 5  # the last events, and then nothing
        kinds = {
            event["regarding"]["kind"] for event in town.cluster.objects("Event") if event["reason"] == "RemovalFailed"
        }
        assert (kinds, set(town.said("RemovalFailed"))) == ({"Node", "NodeRemovalRequest"}, {name})
        assert any(taint["key"] == "growth.dev/scale-down" for taint in town.nodes[0]["spec"]["taints"])

    played(story)


def test_a_machine_that_is_gone_already_lets_its_node_and_its_removal_be_finished() -> None:
    async def story(town: Town) -> None:
        town.pool("small")
        town.cluster.create(deployment("web", 1, "1", "1Gi"))
        await town.until(lambda: town.running() == 1)
        town.cluster.scale("Deployment", "web", 0)
        town.cluster.cloud.trouble.refuses_delete = 1.0
        await town.until(lambda: bool(town.cluster.objects("NodeRemovalRequest")))
        town.cluster.cloud.trouble.refuses_delete = 0.0
        town.cluster.cloud.servers.clear()  # somebody deleted it at the provider's own page
        await town.passes(300)
        assert (town.nodes, town.cluster.objects("NodeRemovalRequest")) == ([], [])

    played(story)


def test_a_pod_that_arrives_on_a_marked_node_takes_the_mark_off_and_no_other_taint() -> None:
    async def story(town: Town) -> None:
        town.pool("small")
        town.cluster.create(deployment("web", 1, "1", "1Gi"))
        await town.until(lambda: town.running() == 1)
        [name] = [each["metadata"]["name"] for each in town.nodes]
        theirs = {"key": "example.com/theirs", "effect": "PreferNoSchedule"}

        def taint(item: Json) -> None:
            item["spec"]["taints"] = [*(item["spec"].get("taints") or []), theirs]

        town.cluster.verbs.modify(NODE, name, "", taint, "user")
        town.cluster.scale("Deployment", "web", 0)
        await town.until(lambda: "growth.dev/scale-down-at" in (town.nodes[0]["metadata"].get("annotations") or {}))
        everything = [{"operator": "Exists"}]
        town.cluster.create(
            pod("guest", "100m", "64Mi", tolerations=everything, nodeSelector={"kubernetes.io/hostname": name})
        )
        await town.until(
            lambda: "growth.dev/scale-down-at" not in (town.nodes[0]["metadata"].get("annotations") or {}), 30
        )
        assert town.nodes[0]["spec"]["taints"] == [theirs]

    played(story)


def test_ruling_17_fields_of_requests_and_removals() -> None:
    async def story(town: Town) -> None:
        town.pool("small")
        town.cluster.create(deployment("web", 1, "1", "1Gi"))
        await town.until(lambda: town.running() == 1)
        [request] = town.requests
        assert {"targetOffering", "location", "resources"} <= set(request["spec"])
        assert {"phase", "nodeID", "machineID", "events", "lastTransitionTime"} <= set(request["status"])
        assert request["status"]["nodeID"] == town.nodes[0]["metadata"]["name"]
        town.cluster.scale("Deployment", "web", 0)
        await town.until(
            lambda: any(
                each.get("status", {}).get("removalAttempt") for each in town.cluster.objects("NodeRemovalRequest")
            )
        )
        [removal] = town.cluster.objects("NodeRemovalRequest")
        assert removal["spec"] == {
            "nodeName": request["metadata"]["name"], "pool": "default", "offering": "sim-small",
            "machineID": request["status"]["machineID"], "reason": "Empty",
        }  # fmt: skip
        assert removal["metadata"]["name"] == removal["spec"]["nodeName"]
        assert {"phase", "removalAttempt", "removeAttemptedAt", "events"} <= set(removal["status"])
        assert removal["status"]["events"][-1]["name"] == "deletionRequested"

    played(story)


def test_ruling_21_who_only_observes_buys_binds_and_deletes_nothing_and_says_what_it_would_do() -> None:
    async def story() -> None:
        cluster = Cluster("observing")
        cluster.create(node_pool("default", "CX33"), deployment("web", 2, "1", "1Gi"))
        process = GrowthProcess(cluster, Installation(only_observes=True)).start()
        await cluster.runtime.sleep(120)
        assert (cluster.objects("NodeRequest"), cluster.cloud.creates, cluster.objects("Node")) == ([], [], [])
        reasons = {event["reason"] for event in cluster.objects("Event")}
        assert {"ScaleUp", "Planned"} <= reasons
        process.growth.refresh_metrics()
        assert process.growth.metrics.registry.get_sample_value("growth_demands") == 2
        assert process.failures == []

    run_virtual(story())


def test_the_global_switch_stops_buying_and_deleting_and_the_pool_says_so() -> None:
    async def story() -> None:
        cluster = Cluster("paused")
        cluster.create(node_pool("default", "CX33"), deployment("web", 2, "1", "1Gi"))
        process = GrowthProcess(cluster, Installation(settings=Settings(is_paused=True))).start()
        await cluster.runtime.sleep(120)
        assert cluster.cloud.creates == []
        [pool] = cluster.objects("NodePool")
        found = {condition["type"]: condition["status"] for condition in pool["status"]["conditions"]}
        assert (found["Paused"], found["Ready"]) == ("True", "False")
        assert process.failures == []

    run_virtual(story())
