"""growth as the only scheduler of a real control plane: Kubernetes' conformance cases of the scheduler, written anew
from their descriptions, and what happens when kube-scheduler comes and goes.

All cases share one control plane without kube-scheduler and one running growth; each has nodes of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.case import GOODS, NODE, POD, SET, Case, name_of
from tests.e2e.conftest import rights_used
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.controlplane.identities import SCHEDULER
from tests.e2e.manifests import deployment
from tests.e2e.running import USER, GrowthProcess, running_growth
from tests.e2e.test_health import is_told

Json = dict[str, Any]
pytestmark = pytest.mark.timeout(120)
SETTINGS: Final = {"leaderElection": False, "plans": {"scheduler": {"enabled": True, "servesDefault": True}}}
LEASING: Final = [
    "--leader-elect=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=1s",
]
CLASSES: Final = {"low": 10, "medium": 100, "high": 1000, **{f"p{number}": number for number in range(1, 5)}}
NUMBERS: Final = count()  # no two cases have nodes of the same name


@pytest.fixture(scope="module")
def alone(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[ControlPlane, GrowthProcess]]:
    """A cluster whose only scheduler is growth. The next test's clean cluster has kube-scheduler again."""
    cluster = control_plane
    cluster.clean()
    cluster.stop_component("kube-scheduler", kill=True)
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in CLASSES.items()
    ]
    classes.append({**classes[2], "metadata": {"name": "peaceful"}, "preemptionPolicy": "Never"})
    overhead = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "heavy"}, "handler": "kvm"}
    cluster.apply(*classes, {**overhead, "overhead": {"podFixed": {GOODS: "3"}}})
    with running_growth(cluster, tmp_path_factory.mktemp("alone"), SETTINGS) as growth:
        yield cluster, growth
    assert not rights_used(request.config).take(cluster.audit_events())


@pytest.fixture
def case(alone: tuple[ControlPlane, GrowthProcess]) -> Iterator[Case]:
    made = Case(*alone, f"case-{next(NUMBERS)}")
    yield made
    made.clear()


def affinity(key: str, *values: str, operator: str = "In") -> Json:
    """That a pod requires of its node."""
    expression = {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def spread(label: str, when: str = "DoNotSchedule") -> list[Json]:
    selector = {"matchExpressions": [{"key": label, "operator": "Exists"}]}
    return [{"maxSkew": 1, "topologyKey": "site", "whenUnsatisfiable": when, "labelSelector": selector}]


# ------------------------------------------------------------------------------------- predicates


def test_resources_of_every_kind_are_respected(case: Case) -> None:
    case.nodes(2)
    for number in range(2):
        case.pod(f"filler-{number}", requests={"cpu": "3"})
    case.wait_until(lambda: len(set(case.places().values())) == 2, "one filler on each node")
    case.pod("cpu", requests={"cpu": "2"})
    case.pod("disk", requests={"ephemeral-storage": "101Gi"})
    case.pod("goods", 11)
    case.pod("fits", requests={"cpu": "1"})
    case.expect_placed("fits")
    case.expect_waiting("cpu", "insufficient cpu")
    case.expect_waiting("disk", "insufficient ephemeral-storage")
    case.expect_waiting("goods", f"insufficient {GOODS}")


def test_overhead_of_a_runtime_class_is_counted(case: Case) -> None:
    case.nodes()
    case.pod("first", 4, runtimeClassName="heavy")  # 4 + 3 of 10
    case.expect_placed("first")
    case.pod("second", 1, runtimeClassName="heavy")
    case.expect_waiting("second", f"insufficient {GOODS}")
    case.pod("light", 3)
    case.expect_placed("light")


def test_node_selectors_and_required_affinity_are_respected(case: Case) -> None:
    first, second = case.nodes(2)
    case.pod("matches", nodeSelector={"site": second})
    case.pod("nowhere", nodeSelector={"label": "nonempty"})
    case.pod("attracted", affinity=affinity("site", first, "other"))
    case.pod("repelled", affinity=affinity("site", first, operator="NotIn"))
    case.pod("strange", affinity=affinity("site", "bar"))
    case.expect_placed("matches", second)
    case.expect_placed("attracted", first)
    case.expect_placed("repelled", second)
    case.expect_waiting("nowhere", "Unschedulable")
    case.expect_waiting("strange", "Unschedulable")
    case.change(f"{NODE}/{first}", {"metadata": {"labels": {"label": "nonempty"}}})
    case.expect_placed("nowhere", first)


def test_host_ports_conflict_by_address_port_and_protocol(case: Case) -> None:
    [node] = case.nodes()

    def taking(name: str, port: int, address: str, protocol: str = "TCP") -> None:
        ports = [{"containerPort": 80, "hostPort": port, "protocol": protocol, "hostIP": address}]
        case.pod(name, ports=ports)

    taking("loopback", 54321, "127.0.0.1")
    taking("another-address", 54321, "10.0.0.7")
    taking("another-protocol", 54321, "10.0.0.7", "UDP")
    taking("everywhere", 54322, "0.0.0.0")  # noqa: S104 - that it means every address is what is tried
    for name in ("loopback", "another-address", "another-protocol", "everywhere"):
        case.expect_placed(name, node)
    taking("too-late", 54322, "127.0.0.1")
    case.expect_waiting("too-late", "port")


def test_taints_keep_pods_away_that_do_not_tolerate_them(case: Case) -> None:
    taint = {"key": "kind", "value": "special", "effect": "NoSchedule"}
    [node] = case.nodes(taints=[taint])
    case.pod("tolerates", tolerations=[{**taint, "operator": "Equal"}])
    case.pod("does-not")
    case.expect_placed("tolerates", node)
    case.expect_waiting("does-not", "kind=special:NoSchedule")
    case.change(f"{NODE}/{node}", {"spec": {"taints": None}})
    case.expect_placed("does-not", node)


def test_pods_go_where_they_are_preferred(case: Case) -> None:
    soft = [{"key": f"soft-{number}", "value": "x", "effect": "PreferNoSchedule"} for number in range(10)]
    case.nodes(2, taints=soft)
    [clean] = case.nodes()
    case.pod("avoids")
    case.expect_placed("avoids", clean)


def test_a_daemon_set_gets_one_pod_on_every_node_also_on_one_that_takes_no_others(case: Case) -> None:
    names = case.nodes(3)
    case.change(f"{NODE}/{names[0]}", {"spec": {"unschedulable": True}})
    made = deployment("agent", 1)
    body = {**made, "kind": "DaemonSet", "spec": {key: made["spec"][key] for key in ("selector", "template")}}
    case.api.post(SET.replace("replicasets", "daemonsets"), body)
    case.wait_until(lambda: sorted(case.places().values()) == names, "one pod on each node")


def test_pods_with_gates_wait_until_the_last_gate_is_open(case: Case) -> None:
    case.nodes()
    for name in ("opened", "closed"):
        case.pod(name, schedulingGates=[{"name": "example.com/a"}, {"name": "example.com/b"}])
    case.expect_waiting("opened", "SchedulingGated")
    case.change(f"{POD}/opened", {"spec": {"schedulingGates": [{"name": "example.com/b"}]}})
    case.expect_waiting("opened", "SchedulingGated")
    case.change(f"{POD}/opened", {"spec": {"schedulingGates": []}})
    case.expect_placed("opened")
    case.expect_waiting("closed", "SchedulingGated")


def test_what_growth_cannot_place_is_told_why(case: Case) -> None:
    case.nodes()
    container = {"name": "gpu", "resourceClaimName": "gpu"}
    case.pod("claims", resourceClaims=[container])
    case.expect_waiting("claims", "SchedulerError: growth allocates no resource claims")


# ----------------------------------------------------------------------------------------- spread


def test_four_replicas_are_spread_evenly_over_two_nodes(case: Case) -> None:
    names = case.nodes(2)
    case.pod("crowd", 8, nodeSelector={"site": names[0]})
    case.expect_placed("crowd")
    case.replicas("even", 4, labels={"even": "yes"}, topologySpreadConstraints=spread("even"))
    case.wait_until(lambda: len(case.places()) == 5, "all have a node")
    found = [node for name, node in case.places().items() if name.startswith("even")]
    assert sorted(found) == [names[0]] * 2 + [names[1]] * 2


def test_a_preferred_spread_sends_a_pod_to_the_emptier_side(case: Case) -> None:
    first, second = case.nodes(2)
    case.replicas("many", 4, labels={"even": "yes"}, nodeSelector={"site": first})
    case.wait_until(lambda: len(case.places()) == 4, "all on one side")
    case.pod("next", 1, labels={"even": "yes"}, topologySpreadConstraints=spread("even", "ScheduleAnyway"))
    case.expect_placed("next", second)


# ------------------------------------------------------------------------------------- preemption


def test_a_pod_of_high_priority_gets_the_place_of_the_lowest(case: Case) -> None:
    first, second = case.nodes(2)
    case.pod("low", 7, priorityClassName="low", nodeSelector={"site": first})
    case.pod("medium", 7, priorityClassName="medium", nodeSelector={"site": second})
    case.expect_placed("low")
    case.expect_placed("medium")
    case.change(f"{POD}/low", {"metadata": {"finalizers": ["example.com/held"]}})  # to be looked at when it goes
    case.pod("high", 7, priorityClassName="high")
    case.wait_until(lambda: "low" not in case.pods(), "the lowest makes way")
    [gone] = [each for each in case.api.get(POD)["items"] if name_of(each) == "low"]
    assert any(each["type"] == "DisruptionTarget" for each in gone["status"]["conditions"])
    assert case.pods()["high"]["status"].get("nominatedNodeName") == first
    case.change(f"{POD}/low", {"metadata": {"finalizers": None}})
    case.expect_placed("high", first)
    assert "medium" in case.places()


def test_a_critical_pod_gets_the_place_of_a_lower_one(case: Case) -> None:
    case.nodes()
    case.pod("low", 7, priorityClassName="low")
    case.expect_placed("low")
    case.pod("critical", 7, where="kube-system", priorityClassName="system-cluster-critical")
    case.wait_until(lambda: case.pods("kube-system")["critical"]["spec"].get("nodeName"), "the critical pod runs")
    assert "low" not in case.pods()


def test_who_must_not_preempt_waits(case: Case) -> None:
    case.nodes()
    case.pod("low", 7, priorityClassName="low")
    case.expect_placed("low")
    case.pod("peaceful", 7, priorityClassName="peaceful")
    case.expect_waiting("peaceful", GOODS)
    assert "low" in case.places()


def test_the_least_important_replica_sets_lose_their_pods_and_the_others_none(case: Case) -> None:
    case.nodes(goods=1000)
    for number, goods in ((1, 200), (2, 300), (3, 450)):
        case.replicas(f"set-{number}", 1, goods=goods, priorityClassName=f"p{number}")
    case.wait_until(lambda: len(case.places()) == 3, "three sets run")
    before = set(case.places())
    case.replicas("set-4", 1, goods=500, priorityClassName="p4")
    case.wait_until(lambda: any(name.startswith("set-4") for name in case.places()), "the fourth runs")
    case.wait_until(lambda: len(case.pods()) == 4, "pods that made way are there again, and wait")
    after = set(case.places())
    assert sorted(name[:5] for name in before & after) == ["set-3"]
    assert sorted(name[:5] for name in after) == ["set-3", "set-4"]


def test_as_many_make_way_as_a_spread_needs(case: Case) -> None:
    """One counts on the first node and three on the second: the pod in between may join when two of the three go."""
    first, second = case.nodes(2)
    counted = {"counted": "yes"}
    case.pod("high", 9, labels=counted, priorityClassName="high", nodeSelector={"site": first})
    for number in range(3):
        case.pod(f"low-{number}", 3, labels=counted, priorityClassName="low", nodeSelector={"site": second})
    case.wait_until(lambda: len(case.places()) == 4, "four run")
    rule = spread("counted")
    case.pod("medium", 3, labels=counted, priorityClassName="medium", topologySpreadConstraints=rule)
    case.expect_placed("medium", second)
    assert sorted(name[:3] for name in case.places()) == ["hig", "low", "med"]


# --------------------------------------------------------------------------------- kube-scheduler


def binders(cluster: ControlPlane) -> dict[str, str]:
    """Who bound each pod."""
    return {
        event.object_ref.name: event.user_name
        for event in cluster.audit_events()
        if event.resource == "pods/binding" and event.code == 201
    }


def test_while_kube_scheduler_renews_its_lease_its_pods_are_left_to_it(case: Case) -> None:
    cluster, growth = case.cluster, case.growth
    process = cluster.processes["kube-scheduler"]
    case.nodes()
    case.pod("before")
    case.expect_placed("before")
    process.command.extend(LEASING)
    try:
        cluster.start_component("kube-scheduler")
        case.wait_until(lambda: "LeftToKubeScheduler" in growth.log_path.read_text(), "growth sees the Lease")
        case.wait_until(lambda: is_told(growth, "are left to kube-scheduler"), "the probe says so")
        growth.kill()
        growth.start()  # and sees it at its start as well
        case.wait_until(
            lambda: growth.log_path.read_text().count("LeftToKubeScheduler") == 2, "it says so at its start"
        )
        assert "are left to kube-scheduler" in doctor(case)
        case.pod("between")
        case.expect_placed("between")
        cluster.stop_component("kube-scheduler", kill=True)
        case.pod("after")
        case.expect_placed("after")
    finally:
        del process.command[-len(LEASING) :]
    found = binders(cluster)
    assert [found[name] for name in ("before", "between", "after")] == [USER, SCHEDULER, USER]
    events = cluster.objects("events.events.k8s.io", "--namespace=kube-system")
    told = {each["reason"] for each in events if each["regarding"].get("name") == "kube-scheduler"}
    assert {"LeftToKubeScheduler", "ServesDefaultScheduler"} <= told


def doctor(case: Case) -> str:
    """What `growth doctor` says to an administrator."""
    settings: Path = case.growth.log_path.with_name("growth.yaml")
    command = [sys.executable, "-m", "growth", "doctor", "--settings", str(settings)]
    command += ["--kubeconfig", str(case.cluster.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout
