"""`growth explain` and `growth plan --live` on a real cluster: a pod that waits, a node that stays, a pool, and what
would be bought if; with no more rights than reading, and not one write.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import deployment
from tests.e2e.running import install, node_pool, running_growth, wait_for_running

Json = dict[str, Any]
READER = "reader"
READING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
MAY_READ: tuple[Json, ...] = (
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": READER},
        "rules": READING,
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": READER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READER},
        "subjects": [{"kind": "User", "name": READER, "apiGroup": "rbac.authorization.k8s.io"}],
    },
)


def asked(cluster: ControlPlane, *arguments: str) -> Json:
    reader = str(cluster.kubeconfig_for(READER))
    command = [sys.executable, "-m", "growth", *arguments, "--kubeconfig", reader, "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    answer: Json = json.loads(done.stdout)
    return answer


def test_a_reader_is_told_where_a_pod_would_go_why_a_node_stays_and_what_a_pool_can_buy(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    install(cluster)
    cluster.apply(*MAY_READ, node_pool("default", "CX33", "NOSUCH"), deployment("web", 2, cpu="500m", memory="512Mi"))
    cluster.wait_until(lambda: len(_unschedulable(cluster)) == 2, "the scheduler has refused both pods")
    name = _unschedulable(cluster)[0]
    waiting, planned = asked(cluster, "explain", "pod", name), asked(cluster, "plan", "--live")["plan"]
    with_more = asked(cluster, "plan", "--live", "--what-if", "add", "deployment/web=6")
    with running_growth(cluster, tmp_path):
        wait_for_running(cluster, 2)
        [node] = [item["metadata"]["name"] for item in cluster.objects("nodes")]
        without = asked(cluster, "plan", "--live", "--what-if", f"without node {node}")
        standing, staying, pool = (
            asked(cluster, "explain", "pod", name),
            asked(cluster, "explain", "node", node),
            asked(cluster, "explain", "nodepool", "default"),
        )
    assert waiting["plan"].startswith("Planned: planned onto a new kwok-cx33")
    assert waiting["pools"] == ["default"]
    [order] = planned["orders"]
    assert (order["offering"], order["nodes"], len(order["pods"])) == ("kwok-cx33", 1, 2)
    assert with_more["asItIs"]["orders"] == planned["orders"]
    assert sum(len(each["pods"]) for each in with_more["plan"]["orders"]) == 8
    assert (without["asItIs"]["orders"], without["asItIs"]["steps"]) == ([], [])
    assert [(each["nodes"], len(each["pods"])) for each in without["plan"]["orders"]] == [(1, 2)]
    assert standing["state"] == f"Running on node {node}"
    assert staying["answer"].startswith("it stays: NodePool default gives back empty nodes only, and pods run there")
    assert staying["pods"] == 2
    assert waiting["answer"].startswith(
        "no growth leads here: there is no Lease growth-system/growth; otherwise: planned"
    )
    assert pool["answer"].startswith("it can buy")
    assert pool["conditions"]["UnknownServerType"].startswith("True")
    assert [
        event.verb
        for event in cluster.audit_events()
        if event.user_name == READER and event.verb not in ("get", "list", "watch")
    ] == []


def _unschedulable(cluster: ControlPlane) -> list[str]:
    pods = cluster.objects("pods", "--namespace=default")
    return sorted(
        pod["metadata"]["name"]
        for pod in pods
        if any(each.get("reason") == "Unschedulable" for each in pod["status"].get("conditions", ()))
    )
