"""The whole life of nodes on a real control plane: a thousand pods come and go, offerings run out, limits hold, nothing
spins.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import yaml

from growth.model.resources import Resources
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import deployment
from tests.e2e.running import (
    USER,
    node_pool,
    phase,
    refused_calls,
    running_growth,
    running_pods,
    wait_for_ready_requests,
    wait_for_running,
)

Json = dict[str, Any]
pytestmark = pytest.mark.timeout(600)  # a thousand pods take their time on a busy machine
QUICK = {"scaleDownDelaySeconds": 5, "unmetSeconds": 15, "backoffFirstSeconds": 2, "backoffLongestSeconds": 8}


def catalogue(folder: Path, *types: Json, boot_seconds: tuple[float, float] = (0, 0)) -> str:
    path = folder / "catalogue.yaml"
    content = {
        "provider": "kwok",
        "locations": [{"name": "here"}],
        "bootSeconds": list(boot_seconds),
        "serverTypes": list(types),
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


def server_type(name: str, cpu: int, gib: int, price: float, **more: Any) -> Json:
    exact = {"cpu": str(cpu), "memory": f"{gib}Gi"}
    return {"name": name, **exact, "pricePerHour": price, "allocatable": exact, **more}


def pods(cluster: ControlPlane) -> list[Json]:
    return cluster.objects("pods", "--namespace=default")


def planned_nodes(cluster: ControlPlane) -> dict[str, str]:
    """Pod to the node it was bought for."""
    return {
        pod: request["metadata"]["name"]
        for request in cluster.objects("noderequests")
        for pod in request["spec"].get("plannedPods", ())
    }


def names_of_nodes(cluster: ControlPlane) -> frozenset[str]:
    return frozenset(node["metadata"]["name"] for node in cluster.objects("nodes"))


def share_on_planned_node(cluster: ControlPlane, planned: dict[str, str], there: Collection[str] = ()) -> float:
    """Of the pods that machines were bought for. Which of equal pods get the room on nodes that were `there` before is
    the scheduler's to say: the pod that was meant to have it takes the place of the other.
    """
    bound: dict[str, str] = {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod["spec"].get("nodeName", "")
        for pod in pods(cluster)
    }
    elsewhere = {key: (node, bound.get(key)) for key, node in planned.items() if bound.get(key) not in (node, *there)}
    print("bound elsewhere than planned:", elsewhere)
    return 1 - len(elsewhere) / len(planned)


def overcommitted(cluster: ControlPlane) -> list[str]:
    asked: dict[str, list[Resources]] = defaultdict(list)
    for pod in pods(cluster):
        requests = [Resources.parse(container["resources"]["requests"]) for container in pod["spec"]["containers"]]
        asked[pod["spec"].get("nodeName", "")] += [*requests, Resources({"pods": 1})]
    room = {
        node["metadata"]["name"]: Resources.parse(node["status"]["allocatable"]) for node in cluster.objects("nodes")
    }
    return [name for name, parts in asked.items() if name and not sum(parts, Resources()).fits_in(room[name])]


def writes_of_growth(cluster: ControlPlane) -> int:
    quiet = ("leases", "events", "selfsubjectrulesreviews")  # a review is asked for by a POST, and changes nothing
    asked = [
        event
        for event in cluster.audit_events()
        if event.user_name == USER and event.verb not in ("get", "list", "watch")
    ]
    return sum(not event.resource.startswith(quiet) for event in asked)


def test_a_thousand_pods_on_three_pools_stand_where_they_were_planned_and_all_nodes_go_again(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pools = ("default", "batch", "cache")
    with running_growth(cluster, tmp_path, {"plans": QUICK, "requestsPerSecond": 1000}):
        kept = {"name": "CX33", "min": 1}
        cluster.apply(node_pool("default", kept, "CX32"), node_pool("batch", "CX33"), node_pool("cache", "CAX31"))
        for number, pool in enumerate(pools):
            cluster.apply(
                deployment(
                    f"{pool}-pods",
                    1,
                    cpu=("500m", "250m", "1")[number],
                    memory=("512Mi", "1Gi", "1Gi")[number],
                    pool=pool,
                )
            )
        wait_for_running(cluster, 3)  # a pool that has not shown yet that its machines work buys five at a time
        there = names_of_nodes(cluster)
        for pool, count in zip(pools, (500, 300, 200), strict=True):
            cluster.kubectl("scale", f"deployment/{pool}-pods", f"--replicas={count}", "--namespace=default")
        seconds = wait_for_running(cluster, 1000, 240)
        planned = planned_nodes(cluster)
        share, crowded, nodes = (
            share_on_planned_node(cluster, planned, there),
            overcommitted(cluster),
            cluster.objects("nodes"),
        )
        for pool in pools:
            cluster.kubectl("delete", "deployment", f"{pool}-pods", "--namespace=default")
        cluster.wait_until(
            lambda: len(cluster.objects("nodes")) == 1, "all nodes but the one that min keeps are gone", 180
        )
        [left] = cluster.objects("nodes")
        cluster.wait_until(lambda: not cluster.objects("noderemovalrequests"), "every removal is finished", 60)
    with capsys.disabled():
        print(
            f"\n1000 pods: first to last Running {seconds:.1f} s on {len(nodes)} nodes, {100 * share:.1f} % where "
            "planned"
        )
    assert share >= 0.999
    assert crowded == []
    assert Counter(node["metadata"]["labels"]["growth.dev/pool"] for node in nodes).keys() == set(pools)
    assert not left["spec"].get("taints")
    assert "growth.dev/scale-down-at" not in left["metadata"]["annotations"]
    assert refused_calls(cluster) == []


def test_a_hundred_machines_packed_exactly_full_arriving_over_20_seconds_strand_nobody(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sold = catalogue(tmp_path, server_type("FULL", 4, 8, 0.01), boot_seconds=(0, 20))
    with running_growth(cluster, tmp_path, {"catalogue": sold, "plans": QUICK, "requestsPerSecond": 1000}):
        cluster.apply(
            node_pool("default", "FULL"),
            deployment("three", 100, cpu="3", memory="1Gi"),
            deployment("one", 100, cpu="1", memory="7Gi"),
        )
        seconds = wait_for_running(cluster, 200, 180)
        planned = planned_nodes(cluster)
        share, crowded, nodes = (
            share_on_planned_node(cluster, planned),
            overcommitted(cluster),
            cluster.objects("nodes"),
        )
    with capsys.disabled():
        print(f"\n200 pods on {len(nodes)} exactly full nodes after {seconds:.1f} s, {100 * share:.1f} % where planned")
    assert len(nodes) == 100
    assert share >= 0.999
    assert crowded == []


def test_an_offering_that_runs_out_is_replaced_by_the_next_best_and_used_again_after_its_time(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    sold = catalogue(tmp_path, server_type("CHEAP", 2, 4, 0.01, stock={"here": 3}), server_type("DEAR", 2, 4, 0.02))
    with running_growth(cluster, tmp_path, {"catalogue": sold, "plans": QUICK}):
        cluster.apply(node_pool("default", "CHEAP", "DEAR"), deployment("web", 8, cpu="2", memory="1Gi"))
        wait_for_running(cluster, 8)
        first = Counter(node["metadata"]["labels"]["growth.dev/offering"] for node in cluster.objects("nodes"))
        cluster.kubectl("scale", "deployment", "web", "--replicas=0", "--namespace=default")
        cluster.wait_until(lambda: not cluster.objects("nodes"), "the nodes are gone", 90)
        cluster.wait_until(
            lambda: not any(phase(one) == "Unmet" for one in cluster.objects("noderequests")),
            "the offering is for sale again",
            90,
        )
        for replicas in (1, 2):  # the first one is the probe; once it was had, the offering is for sale as before
            cluster.kubectl("scale", "deployment", "web", f"--replicas={replicas}", "--namespace=default")
            wait_for_running(cluster, replicas)
        again = Counter(node["metadata"]["labels"]["growth.dev/offering"] for node in cluster.objects("nodes"))
    assert first == {"kwok-cheap": 3, "kwok-dear": 5}
    assert again == {"kwok-cheap": 2}


def test_a_pool_at_its_max_says_so_rests_without_a_write_and_goes_on_when_max_is_raised(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    sold = catalogue(tmp_path, server_type("ONLY", 2, 4, 0.01))
    with running_growth(cluster, tmp_path, {"catalogue": sold, "plans": QUICK}):
        cluster.apply(node_pool("default", {"name": "ONLY", "max": 2}), deployment("web", 5, cpu="2", memory="1Gi"))
        cluster.wait_until(lambda: running_pods(cluster) == 2, "two pods run")
        cluster.wait_until(lambda: backed_off(cluster) == 3, "three pods are in BackOff", 120)
        wait_for_ready_requests(cluster)
        time.sleep(10)  # records of Ready requests go, and then nothing is left to do
        cluster.forget_audit_events()
        time.sleep(20)
        at_rest = writes_of_growth(cluster)
        cluster.apply(node_pool("default", {"name": "ONLY", "max": 5}))
        wait_for_running(cluster, 5)
    assert at_rest == 0
    assert refused_calls(cluster) == []


def backed_off(cluster: ControlPlane) -> int:
    """How many pods have been told so."""
    events = cluster.objects("events.events.k8s.io", "--namespace=default")
    told = [event["regarding"] for event in events if event["reason"] == "BackOff"]
    return len({regarding["name"] for regarding in told if regarding["kind"] == "Pod"})
