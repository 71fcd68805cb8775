"""Does the harness itself keep its promises? Every other e2e test relies on what is shown here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.controlplane import build
from tests.e2e.controlplane.audit import events_in
from tests.e2e.controlplane.cluster import ControlPlane, KubectlError, StartError
from tests.e2e.manifests import Manifest, deployment, job, kwok_node, namespace


def condition(thing: Manifest, kind: str) -> str:
    return next(
        (str(each["status"]) for each in thing["status"].get("conditions", ()) if each["type"] == kind), "Unknown"
    )


def phases(cluster: ControlPlane, *arguments: str) -> list[str]:
    return [pod["status"]["phase"] for pod in cluster.objects("pods", *arguments)]


def test_it_is_ready_within_seconds(control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f" [control plane ready after {control_plane.start_seconds:.1f} s]", end=" ")
    assert 0 < control_plane.start_seconds < 60
    assert "Server Version: v1.36" in control_plane.kubectl("version")


def test_a_node_marked_for_kwok_turns_ready_and_keeps_its_resources(cluster: ControlPlane) -> None:
    cluster.apply(kwok_node("one", cpu="8", memory="32Gi"))
    cluster.wait_until(lambda: condition(cluster.objects("nodes")[0], "Ready") == "True", "the node to be Ready", 30)
    node = cluster.objects("nodes")[0]
    assert node["status"]["allocatable"]["cpu"] == "8"
    assert node["status"]["allocatable"]["memory"] == "32Gi"
    cluster.wait_until(lambda: not cluster.objects("nodes")[0]["spec"].get("taints"), "the not-ready taint to go", 30)


def test_the_lease_of_a_kwok_node_is_renewed(cluster: ControlPlane) -> None:
    cluster.apply(kwok_node("one"))

    def renewed_at() -> str:
        leases = cluster.objects("leases", "--namespace=kube-node-lease")
        return str(leases[0]["spec"]["renewTime"]) if leases else ""

    cluster.wait_until(renewed_at, "the first lease", 30)
    first = renewed_at()
    cluster.wait_until(lambda: renewed_at() > first, "the lease to be renewed", 60)


def test_an_unmarked_node_stays_unready(cluster: ControlPlane) -> None:
    unmarked = kwok_node("unmarked")
    del unmarked["metadata"]["annotations"]
    cluster.apply(unmarked, kwok_node("marked"))
    cluster.wait_until(
        lambda: condition(cluster.objects("nodes", "--field-selector=metadata.name=marked")[0], "Ready") == "True",
        "the marked node",
        30,
    )
    assert condition(cluster.objects("nodes", "--field-selector=metadata.name=unmarked")[0], "Ready") != "True"


def test_the_pods_of_a_deployment_are_scheduled_run_and_go_with_it(cluster: ControlPlane) -> None:
    cluster.apply(kwok_node("one"), kwok_node("two"))
    cluster.kubectl("wait", "--for=condition=Ready", "node/one", "node/two", "--timeout=30s")
    cluster.wait_until(
        lambda: not any(node["spec"].get("taints") for node in cluster.objects("nodes")), "both to take pods", 30
    )
    cluster.apply(deployment("web", 20))
    cluster.wait_until(lambda: phases(cluster) == ["Running"] * 20, "20 running pods", 30)
    assert {pod["spec"]["nodeName"] for pod in cluster.objects("pods")} == {"one", "two"}
    cluster.kubectl("delete", "deployment", "web")
    cluster.wait_until(lambda: phases(cluster) == [], "the pods to go", 30)


def test_pods_without_room_stay_pending_as_unschedulable(cluster: ControlPlane) -> None:
    cluster.apply(kwok_node("small", cpu="1"), deployment("big", 3, cpu="600m"))
    cluster.wait_until(lambda: sorted(phases(cluster)) == ["Pending", "Pending", "Running"], "one pod to run", 30)
    cluster.wait_until(
        lambda: [condition(pod, "PodScheduled") for pod in cluster.objects("pods")].count("False") == 2,
        "two to be unschedulable",
        30,
    )


def test_a_job_runs_to_its_end(cluster: ControlPlane) -> None:
    cluster.apply(kwok_node("one"), job("sum"))
    cluster.wait_until(
        lambda: cluster.objects("jobs")[0].get("status", {}).get("succeeded") == 1, "the job to succeed", 30
    )


def test_a_pod_with_grace_goes_when_it_is_evicted(cluster: ControlPlane) -> None:
    cluster.apply(kwok_node("one"), deployment("web", 1))
    cluster.wait_until(lambda: phases(cluster) == ["Running"], "the pod to run", 30)
    first = cluster.objects("pods")[0]["metadata"]["name"]
    cluster.kubectl("drain", "one", "--timeout=30s")
    cluster.wait_until(lambda: phases(cluster) == ["Pending"], "the replacement to wait for a node", 30)
    assert cluster.objects("pods")[0]["metadata"]["name"] != first


def test_a_user_without_rights_is_refused_and_the_audit_log_says_so(cluster: ControlPlane) -> None:
    nobody = cluster.kubeconfig_for("nobody", ["strangers"])
    with pytest.raises(KubectlError, match='User "nobody" cannot list resource "pods"'):
        cluster.kubectl("get", "pods", kubeconfig=nobody)

    def recorded() -> list[tuple[str, str, int]]:
        return [
            (event.verb, event.resource, event.code)
            for event in cluster.audit_events()
            if event.user_name == "nobody" and event.resource
        ]

    cluster.wait_until(lambda: ("list", "pods", 403) in recorded(), "the refusal in the audit log", 10)


def test_a_service_account_has_exactly_the_rights_bound_to_it(cluster: ControlPlane) -> None:
    cluster.apply(namespace("team"))
    cluster.kubectl("create", "serviceaccount", "reader", "--namespace=team")
    cluster.kubectl("create", "clusterrole", "reads-nodes", "--verb=get,list", "--resource=nodes")
    cluster.kubectl(
        "create", "clusterrolebinding", "reader", "--clusterrole=reads-nodes", "--serviceaccount=team:reader"
    )
    reader = cluster.kubeconfig_for("system:serviceaccount:team:reader")
    cluster.apply(kwok_node("one"))
    assert "one" in cluster.kubectl("get", "nodes", kubeconfig=reader)
    with pytest.raises(KubectlError, match="Forbidden"):
        cluster.kubectl("delete", "node", "one", kubeconfig=reader)
    names = {event.user_name for event in cluster.audit_events()}
    assert "system:serviceaccount:team:reader" in names


def test_the_audit_log_begins_anew_with_each_test(cluster: ControlPlane) -> None:
    assert not [event for event in cluster.audit_events() if event.user_name == "admin"]
    cluster.kubectl("get", "nodes")
    cluster.wait_until(
        lambda: [event for event in cluster.audit_events() if event.user_name == "admin" and event.resource == "nodes"],
        "the call",
        10,
    )


def test_a_line_of_the_audit_log_that_was_being_written_when_it_was_forgotten_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(
        "".join(
            f'{{"verb":"{verb}","stage":"ResponseComplete","requestURI":"/"}}\n' for verb in ("get", "list", "watch")
        )
        + '{"verb":"del'
    )
    seen = [
        [event.verb for event in events_in(log, offset)]
        for offset in (0, 1, log.read_text().index("list"), log.read_text().index('{"verb":"watch'))
    ]
    assert seen == [["get", "list", "watch"], ["list", "watch"], ["watch"], ["watch"]]


@pytest.mark.parametrize("kill", [False, True], ids=["in order", "as a crash"])
def test_the_cluster_survives_a_restart_of_its_api_server(cluster: ControlPlane, kill: bool) -> None:
    cluster.apply(kwok_node("one"), deployment("before", 2))
    cluster.wait_until(lambda: phases(cluster) == ["Running"] * 2, "the pods before", 30)
    cluster.stop_apiserver(kill=kill)
    with pytest.raises(KubectlError, match="refused"):
        cluster.kubectl("get", "nodes")
    cluster.start_apiserver()
    cluster.apply(deployment("after", 2))
    cluster.wait_until(lambda: phases(cluster) == ["Running"] * 4, "the pods after", 60)


def test_old_resource_versions_and_pages_are_gone_once_history_is_forgotten(cluster: ControlPlane) -> None:
    cluster.apply(*(namespace(f"space-{number}") for number in range(5)))
    page = json.loads(cluster.kubectl("get", "--raw", "/api/v1/namespaces?limit=2"))["metadata"]
    cluster.forget_history()
    with pytest.raises(KubectlError, match="too old"):
        cluster.kubectl("get", "--raw", f"/api/v1/namespaces?limit=2&continue={page['continue']}")
    stream = cluster.kubectl(
        "get", "--raw", f"/api/v1/namespaces?watch=true&timeoutSeconds=5&resourceVersion={page['resourceVersion']}"
    )
    event = json.loads(stream)  # the stream opens with 200, and its one event says 410
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_a_clean_cluster_has_nothing_of_the_test_before(cluster: ControlPlane) -> None:
    held = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": "team", "finalizers": ["test.invalid/held"]},
    }
    cluster.apply(
        kwok_node("one"), namespace("team"), deployment("web", 10, where="team"), job("sum"), held, definition()
    )
    cluster.kubectl("wait", "--for=condition=Established", "crd/things.test.invalid")
    cluster.apply(
        {
            "apiVersion": "test.invalid/v1",
            "kind": "Thing",
            "metadata": {"name": "thing", "finalizers": ["test.invalid/held"]},
        }
    )
    cluster.kubectl("create", "clusterrole", "left", "--verb=get", "--resource=nodes")
    began_at, kwok = time.monotonic(), cluster.processes["kwok"].pid
    cluster.clean()
    assert time.monotonic() - began_at < 30
    assert cluster.processes["kwok"].pid != kwok
    for kind in ("nodes", "pods", "deployments", "jobs", "crds", "leases --namespace=kube-node-lease"):
        assert cluster.objects(*kind.split()) == []
    assert {each["metadata"]["name"] for each in cluster.objects("namespaces")} == {
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    }
    assert "left" not in cluster.kubectl("get", "clusterroles", "-o", "name")


def definition() -> Manifest:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.test.invalid"},
        "spec": {
            "group": "test.invalid",
            "names": {"kind": "Thing", "plural": "things"},
            "scope": "Cluster",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def test_a_program_that_cannot_start_shows_its_log(control_plane: ControlPlane, tmp_path: Path) -> None:
    broken = ControlPlane(build.obtain(), tmp_path, extra_flags={"etcd": ["--no-such-flag"]})
    with pytest.raises(StartError, match="no-such-flag"):
        broken.start()


CHILD = """
import sys, time
from pathlib import Path
from tests.e2e.controlplane import build
from tests.e2e.controlplane.cluster import ControlPlane
plane = ControlPlane(build.obtain(), Path(sys.argv[1]))
plane.start()
print(*(process.pid for process in plane.processes.values()), flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
def test_everything_dies_with_the_process_that_started_it(control_plane: ControlPlane, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 5
        parent.send_signal(signal.SIGKILL)
    control_plane.wait_until(lambda: not any(alive(pid) for pid in pids), "the orphans to end", 10)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
