"""Spare capacity on a real control plane: bought, used at once, refilled, kept and given back; manifests of others
apply unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from growth.kube.crds.buffer import buffer_definition
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import deployment
from tests.e2e.running import node_pool, refused_calls, running_growth, running_pods, wait_for_running

Json = dict[str, Any]
QUICK = {"plans": {"scaleDownDelaySeconds": 5}}

FOR_OTHERS = """
apiVersion: v1
kind: PodTemplate
metadata: {name: chunk, namespace: default}
template:
  spec:
    containers:
    - name: main
      image: registry.invalid/main:1
      resources: {requests: {cpu: "1", memory: 1Gi}}
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: written-for-others, namespace: default}
spec:
  provisioningStrategy: buffer.x-k8s.io/active-capacity
  podTemplateRef: {name: chunk}
  replicas: 2
---
apiVersion: autoscaling.x-k8s.io/v1alpha1
kind: CapacityBuffer
metadata: {name: older, namespace: default}
spec:
  podTemplateRef: {name: chunk}
  limits: {cpu: "2", memory: 8Gi}
"""


def buffer(name: str = "spare", of: str = "web", **spec: Any) -> Json:
    reference = {"apiGroup": "apps", "kind": "Deployment", "name": of}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": metadata,
        "spec": {"scalableRef": reference, **spec},
    }


def with_buffers(cluster: ControlPlane) -> None:
    cluster.apply(buffer_definition())
    cluster.kubectl(
        "wait", "--for=condition=Established", "crd", "capacitybuffers.autoscaling.x-k8s.io", "--timeout=30s"
    )


def status(cluster: ControlPlane, name: str = "spare") -> Json:
    return next(
        (
            each.get("status") or {}
            for each in cluster.objects("capacitybuffers", "--namespace=default")
            if each["metadata"]["name"] == name
        ),
        {},
    )


def reasons(cluster: ControlPlane, name: str = "spare") -> dict[str, str]:
    return {each["type"]: each["reason"] for each in status(cluster, name).get("conditions", ())}


def is_provisioned(cluster: ControlPlane, *names: str) -> Callable[[], bool]:
    return lambda: all(
        reasons(cluster, name).get("Provisioning") == "CapacityProvisioned" for name in names or ("spare",)
    )


def has_size(cluster: ControlPlane, size: int, name: str = "spare") -> Callable[[], bool]:
    return lambda: status(cluster, name).get("replicas") == size


def requested(cluster: ControlPlane) -> set[str]:
    return {each["metadata"]["name"] for each in cluster.objects("noderequests")}


def test_a_buffer_of_five_is_bought_used_at_once_refilled_kept_and_given_back(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_buffers(cluster)
    with running_growth(cluster, tmp_path, QUICK):
        cluster.apply(node_pool("default", "CX32"), deployment("web", 1, cpu="1", memory="1Gi"))
        wait_for_running(cluster, 1, 60)
        cluster.apply(buffer(replicas=5))
        cluster.wait_until(is_provisioned(cluster), "room for all five", 60)
        before = requested(cluster)
        assert {each["spec"]["reason"] for each in cluster.objects("noderequests")} == {"Demand", "Buffer"}
        began = time.monotonic()
        cluster.kubectl("scale", "deployment", "web", "--replicas=6", "--namespace=default")
        cluster.wait_until(lambda: running_pods(cluster) == 6, "all five new pods run", 30)
        seconds = time.monotonic() - began
        pods = {pod["metadata"]["name"] for pod in cluster.objects("pods", "--namespace=default")}
        bound = {pod["spec"]["nodeName"] for pod in cluster.objects("pods", "--namespace=default")}
        assert bound <= before, "they stand on nodes that were there"
        later = [each for each in cluster.objects("noderequests") if each["metadata"]["name"] not in before]
        assert not [
            pod for each in later for pod in each["spec"].get("plannedPods", ()) if pod.partition("/")[2] in pods
        ], "nothing was bought for them"
        cluster.wait_until(
            lambda: requested(cluster) - before and is_provisioned(cluster)(), "the buffer is full again", 60
        )
        nodes = len(cluster.objects("nodes"))
        time.sleep(15)  # three times the delay of scale-down
        assert len(cluster.objects("nodes")) == nodes, "consolidation keeps the buffer"
        template = cluster.objects("podtemplates", "--namespace=default")
        assert [each["metadata"]["name"] for each in template] == ["capacitybuffer-spare-pod-template"]
        assert status(cluster)["podTemplateGeneration"] == template[0]["metadata"]["generation"]
        cluster.kubectl("delete", "capacitybuffer", "spare", "--namespace=default")
        cluster.kubectl("scale", "deployment", "web", "--replicas=0", "--namespace=default")
        cluster.wait_until(lambda: not cluster.objects("nodes"), "all nodes are given back", 90)
        cluster.wait_until(
            lambda: not cluster.objects("podtemplates", "--namespace=default"),
            "its PodTemplate goes with the buffer",
            60,
        )
        assert refused_calls(cluster) == []
    with capsys.disabled():
        print(f"\n  five pods on spare capacity: all Running {seconds:.1f} s after the Deployment was scaled")


def test_a_percentage_follows_the_workload_and_kubectl_scale_sizes_a_buffer(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    with_buffers(cluster)
    with running_growth(cluster, tmp_path, QUICK):
        cluster.apply(
            node_pool("default", "CX32"),
            deployment("web", 4, cpu="500m", memory="256Mi"),
            buffer(percentage=50),
            buffer("fixed", replicas=1),
        )
        for replicas, size in ((4, 2), (10, 5), (3, 1)):
            cluster.kubectl("scale", "deployment", "web", f"--replicas={replicas}", "--namespace=default")
            cluster.wait_until(has_size(cluster, size), f"a buffer of {size}", 60)
        cluster.kubectl("scale", "capacitybuffer", "fixed", "--replicas=3", "--namespace=default")
        cluster.wait_until(lambda: status(cluster, "fixed").get("replicas") == 3, "the size that scale asked for", 30)
        cluster.wait_until(is_provisioned(cluster, "spare", "fixed"), "room for both", 60)
        assert refused_calls(cluster) == []


def test_manifests_written_for_others_apply_unchanged_and_the_kind_is_noticed_when_it_comes_late(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    with running_growth(cluster, tmp_path, QUICK) as growth:
        cluster.apply(node_pool("default", "CX32"), deployment("web", 1, cpu="1", memory="1Gi"))
        wait_for_running(cluster, 1, 60)
        assert growth.log_path.read_text().count("CapacityBuffer is not installed here") == 1
        with_buffers(cluster)
        cluster.apply(*yaml.safe_load_all(FOR_OTHERS))
        cluster.wait_until(is_provisioned(cluster, "written-for-others", "older"), "room for both", 120)
        assert status(cluster, "older")["replicas"] == 2
        assert refused_calls(cluster) == []


def test_what_makes_no_sense_is_refused_or_told_on_the_buffer_and_limits_hold(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    with_buffers(cluster)
    both, neither = buffer(podTemplateRef={"name": "chunk"}, replicas=1), buffer(replicas=1)
    del neither["spec"]["scalableRef"]
    for wrong, words in (
        (both, "cannot both be set"),
        (neither, "must be set"),
        (buffer(replicas=-1), "greater than or equal to 0"),
    ):
        with pytest.raises(Exception, match=words):
            cluster.apply(wrong)
    with running_growth(cluster, tmp_path, QUICK):
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "team", "namespace": "default"},
            "spec": {"hard": {"requests.cpu": "40"}},
        }
        cluster.apply(
            node_pool("default", {"name": "CX32", "max": 2}), deployment("web", 0, cpu="1", memory="1Gi"), quota
        )
        cluster.apply(
            buffer(replicas=20),
            buffer("huge", replicas=10_000_000),
            buffer("lost", of="gone", replicas=1),
            buffer("tight", limits={"cpu": "100m"}),
        )
        cluster.apply(buffer("younger", replicas=30))
        cluster.wait_until(
            lambda: reasons(cluster).get("Provisioning") == "LimitedByPool", "the pool's max is named", 90
        )
        assert len(cluster.objects("nodes")) <= 2
        ready = {name: reasons(cluster, name).get("ReadyForProvisioning") for name in ("huge", "lost", "tight")}
        assert ready == {"huge": "ResolutionFailed", "lost": "ScalableRefNotFound", "tight": "BufferEmpty"}
        cluster.wait_until(
            lambda: status(cluster, "younger").get("replicas") == 20, "what the quota leaves to the younger one", 30
        )
        (limited,) = [each for each in status(cluster, "younger")["conditions"] if each["type"] == "LimitedByQuotas"]
        assert limited["status"] == "True"
        assert refused_calls(cluster) == []
