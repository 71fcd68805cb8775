"""The rights of growth: each one that its role grants is used by some e2e test, and what is refused fails the test that
saw it (`conftest.py`). Here are the ways that only some API servers and some objects need.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from growth.controllers.act.join_tokens import RIGHTS as TOKEN_RIGHTS
from growth.controllers.act.role import Features, lease_rights, rights, rules
from growth.kube.api.events import EventSettings, Recorder, Regarding
from growth.kube.api.resources import POD_GROUPS
from growth.model.instant import format_precise_instant
from growth.model.scheduler import LEASE_NAME, LEASE_NAMESPACE
from tests.e2e.conftest import rights_used
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import (
    SANDBOX_SET,
    SANDBOX_WARM_POOL,
    Manifest,
    autoscaler,
    deployment,
    sandbox_set,
    sandbox_set_definition,
    sandbox_warm_pool,
    sandbox_warm_pool_definition,
)
from tests.e2e.running import NAMESPACE, USER, install, node_pool, running_growth
from tests.e2e.talking import speaking, wait_until
from tests.e2e.test_buffers import buffer, is_provisioned, status, with_buffers
from tests.e2e.test_gangs import HAS_POD_GROUPS

WITHOUT_STREAMED_LISTS = "--feature-gates=WatchList=false"
LISTED = {
    "capacitybuffers", "csinodes", "daemonsets", "deployments", "leases", "limitranges", "namespaces", "nodepools",
    "noderemovalrequests", "noderequests", "nodes", "persistentvolumeclaims", "persistentvolumes",
    "poddisruptionbudgets", "pods", "podtemplates", "poolautoscalers", "priorityclasses", "replicasets",
    "resourcequotas", "runtimeclasses", "sandboxsets", "sandboxwarmpools", "statefulsets", "storageclasses",
}  # fmt: skip


@pytest.fixture
def without_streamed_lists(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """Its API server sends no list as a stream, as those of Kubernetes 1.33 and older do not.

    kube-scheduler ends itself when a pod of a StatefulSet was made again while it could not watch: it takes the new pod
    for the old one, on another node. So at the end, where pods are left, it does not see the API server go."""
    command = cluster.processes["kube-apiserver"].command
    command.append(WITHOUT_STREAMED_LISTS)
    cluster.restart_apiserver()
    yield cluster
    command.remove(WITHOUT_STREAMED_LISTS)
    cluster.stop_component("kube-scheduler")
    cluster.restart_apiserver()
    cluster.start_component("kube-scheduler")


def of_kind(kind: str, name: str, **spec: Any) -> Manifest:
    """A StatefulSet or ReplicaSet with the pods of a Deployment."""
    made = deployment(name, 1)
    return {**made, "kind": kind, "spec": {**made["spec"], **spec}}


def held_lease() -> Manifest:
    """kube-scheduler's, which has none here: growth is to look for it, and to leave the pods to their scheduler."""
    spec = {"holderIdentity": "test", "leaseDurationSeconds": 3600, "renewTime": format_precise_instant(time.time())}
    metadata = {"name": LEASE_NAME, "namespace": LEASE_NAMESPACE}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def replicas(cluster: ControlPlane, kind: str, name: str) -> str:
    return cluster.kubectl("get", kind, name, "--output=jsonpath={.spec.replicas}")


def stored_request(cluster: ControlPlane) -> str:
    path = "{.items[*].template.spec.containers[0].resources.requests.cpu}"
    return cluster.kubectl("get", "podtemplates", "--namespace=default", f"--output=jsonpath={path}")


def test_where_lists_are_not_streamed_every_kind_is_listed_in_pages(
    without_streamed_lists: ControlPlane, tmp_path: Path
) -> None:
    cluster = without_streamed_lists
    with_buffers(cluster)
    cluster.apply(sandbox_set_definition(), sandbox_warm_pool_definition(), held_lease())
    with running_growth(cluster, tmp_path, {"plans": {"scheduler": {"enabled": True, "servesDefault": True}}}):
        cluster.apply(
            node_pool("default", "CX32"), deployment("web", 1, cpu="1", memory="1Gi"), buffer(replicas=1),
            of_kind("StatefulSet", "store", serviceName="store"), of_kind("ReplicaSet", "cache"),
            sandbox_set("analysts", 1), sandbox_warm_pool("training", 1),
        )  # fmt: skip
        targets = {"store": ("apps/v1", "StatefulSet"), "cache": ("apps/v1", "ReplicaSet")}
        targets |= {"analysts": SANDBOX_SET, "training": SANDBOX_WARM_POOL}
        cluster.apply(*(autoscaler(name, name, of, minReplicas=2) for name, of in targets.items()))
        for name, (_, kind) in targets.items():
            cluster.wait_until(lambda: replicas(cluster, kind, name) == "2", f"{kind} {name} has two")  # noqa: B023
        cluster.wait_until(is_provisioned(cluster), "the buffer has room", 90)
        cluster.kubectl("set", "resources", "deployment/web", "--requests=cpu=1500m", "--namespace=default")
        cluster.wait_until(lambda: stored_request(cluster) == "1500m", "its template follows")
        listed = {each.resource for each in cluster.audit_events() if (each.user_name, each.verb) == (USER, "list")}
    assert sorted(LISTED - listed) == []


def test_a_buffer_may_refer_to_a_replication_controller(cluster: ControlPlane, tmp_path: Path) -> None:
    with_buffers(cluster)
    old = {**deployment("old", 2), "apiVersion": "v1", "kind": "ReplicationController"}
    old["spec"] = {**old["spec"], "selector": {"app": "old"}}
    spare = buffer(of="old", percentage=50)
    spare["spec"]["scalableRef"] = {"kind": "ReplicationController", "name": "old"}
    with running_growth(cluster, tmp_path):
        cluster.apply(node_pool("default", "CX32"), old, spare)
        cluster.wait_until(lambda: status(cluster).get("replicas") == 1, "the buffer knows its size", 90)


def test_an_event_that_happens_again_is_counted(cluster: ControlPlane) -> None:
    install(cluster)

    async def tell_twice() -> None:
        async with speaking(cluster.kubeconfig_for(USER)) as client:
            recorder = Recorder(client, client.runtime, "test", EventSettings(series_seconds=0.0, per_second=100.0))
            for _ in range(2):
                recorder.record(Regarding("v1", "Namespace", "default"), "Normal", "Told", "twice")
                await wait_until(lambda: not recorder.waiting, lambda: "the event to be written")
                await client.runtime.sleep(1.0)

    asyncio.run(tell_twice())
    [event] = [
        each for each in cluster.objects("events.events.k8s.io", "--namespace=default") if each["note"] == "twice"
    ]
    assert event["series"]["count"] == 2


def test_every_verb_of_the_role_was_used(request: pytest.FixtureRequest) -> None:
    granted = [each for each in rights(Features("kwok")) if each.resource != POD_GROUPS or HAS_POD_GROUPS]
    needed = (*granted, *lease_rights(NAMESPACE, "growth"), *TOKEN_RIGHTS)
    assert rights_used(request.config).unused(rules(needed)) == []
