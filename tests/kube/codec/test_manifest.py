"""Files of objects, read without a cluster."""

from __future__ import annotations

import json

import pytest

from growth.kube.codec.manifest import ManifestError, decode_manifest_text
from growth.model.labels import Labels
from growth.model.pod import Owner
from growth.model.resources import Resources
from tests.kube.objects import pod
from tests.kube.samples import SAMPLES, node_pool

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  template:
    metadata: {labels: {app: web}}
    spec:
      priorityClassName: high
      containers:
      - {name: main, resources: {requests: {cpu: 0.5, memory: 1Gi}}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high, creationTimestamp: 2026-03-29T01:30:00Z}
value: 1000
---
# nothing in this one
---
apiVersion: v1
kind: Service
metadata: {name: web}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        decode_manifest_text(text)
    return str(caught.value).splitlines()


def test_a_deployment_becomes_the_pods_its_controller_would_make() -> None:
    found = decode_manifest_text(DEPLOYMENT)
    assert [one.key for one in found.pods] == ["shop/web-0", "shop/web-1", "shop/web-2"]
    first = found.pods[0]
    assert first.shape is found.pods[2].shape
    assert (first.shape.requests, first.shape.labels, first.shape.priority) == (
        Resources({"cpu": 500, "memory": 2**30}),
        Labels({"app": "web"}),
        1000,
    )
    assert (first.owner, first.unschedulable_at) == (Owner("Deployment", "web"), 0.0)
    assert found.skipped == {"Service": 1}


@pytest.mark.parametrize(
    ("kind", "spec", "count"),
    [
        ("Deployment", {}, 1),
        ("StatefulSet", {"replicas": 0}, 0),
        ("Job", {"parallelism": 4}, 4),
        ("ReplicaSet", {"replicas": 2}, 2),
    ],
)
def test_a_workload_has_as_many_pods_as_it_asks_for(kind: str, spec: dict[str, int], count: int) -> None:
    template = {"spec": {"containers": [{"name": "main"}]}}
    found = decode_manifest_text(
        json.dumps({"kind": kind, "metadata": {"name": "a"}, "spec": {**spec, "template": template}})
    )
    assert len(found.pods) == count


def test_everything_growth_reads_has_its_place() -> None:
    found = decode_manifest_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": list(SAMPLES.values())}))
    assert (list(found.nodes), list(found.pools), list(found.requests), list(found.removals)) == (
        ["node-1"],
        ["web"],
        ["web-pool-0123456789ab"],
        ["node-1"],
    )
    assert (list(found.volumes.claims), list(found.volumes.volumes), list(found.volumes.classes)) == (
        ["web/data"],
        ["pv-1"],
        ["fast"],
    )
    assert (found.pods[0].key, found.daemon_sets[0].key, found.budgets[0].key) == (
        "web/web-1",
        "kube-system/agent",
        "web/web",
    )
    assert found.namespaces == {"web": Labels({"team": "a"})}


def test_the_items_of_a_typed_list_need_not_name_their_kind() -> None:
    found = decode_manifest_text(
        json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [pod("a"), pod("b", "node-1")]})
    )
    assert [(one.name, one.unschedulable_at is None) for one in found.pods] == [("a", False), ("b", True)]


def test_a_pod_without_a_namespace_is_in_default() -> None:
    found = decode_manifest_text("{kind: Pod, metadata: {name: a}, spec: {containers: [{name: main}]}}")
    assert found.pods[0].key == "default/a"


def test_times_in_yaml_are_texts() -> None:
    found = decode_manifest_text("kind: Node\nmetadata: {name: a, creationTimestamp: 2026-03-29T01:30:00Z}\n")
    assert found.nodes["a"].created_at == 1774747800.0


def test_null_means_absent_in_our_own_kinds() -> None:
    found = decode_manifest_text(
        "kind: NodePool\napiVersion: growth.dev/v1alpha1\nmetadata: {name: a}\n"
        "spec: {serverTypes: [{name: CAX11, max: null}], limits: null}\n"
    )
    assert found.pools["a"].spec.server_types[0].max is None


def test_every_problem_is_told_with_its_document() -> None:
    text = "\n---\n".join(
        [
            json.dumps(node_pool()),
            "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: main, resources: {requests: {cpu: much}}}]}",
            (
                "kind: NodePool\napiVersion: growth.dev/v1alpha1\nmetadata: {name: b}\n"
                "spec: {serverTypes: [{name: CAX11, mx: 3}], budgets: [{node: '1'}]}"
            ),
            "just text",
            "kind: Deployment\nmetadata: {name: c}\nspec: {replicas: many}",
            "kind: Node\nmetadata: {}",
        ]
    )
    assert problems("---\n" + text) == [
        "document 4: not a Kubernetes object: it has no kind",
        "document 2: Pod default/a: container main: cpu: 'much' is not a quantity (examples: 250m, 1.5Gi, 2)",
        "document 3: NodePool: unknown field spec.serverTypes[0].mx",
        "document 3: NodePool: unknown field spec.budgets[0].node",
        "document 5: Deployment default/c: needs a template, and from 0 to 100000 replicas",
        "document 6: Node : metadata.name is missing",
    ]


def test_an_item_of_a_list_is_named_by_its_place() -> None:
    assert problems(
        json.dumps({"kind": "PodList", "items": [pod("a"), {"metadata": {"name": "b"}, "spec": None}]})
    ) == ["document 1, item 2: Pod default/b: spec.containers: there are none"]


@pytest.mark.parametrize("text", ["{not json", "a: [b", "\t- tabs", "kind: &a [*a]"])
def test_text_that_is_neither_yaml_nor_json_is_refused(text: str) -> None:
    assert problems(text)


@pytest.mark.parametrize(
    "text",
    [
        "kind: Pod",
        "kind: Pod\nmetadata: []",
        "kind: PodList\nitems: [1, null, []]",
        "kind: PriorityClass\nmetadata: x",
        "kind: Job\nspec: []",
        "{1: 2}",
    ],
)
def test_odd_documents_are_told_and_never_raise_anything_else(text: str) -> None:
    assert all(line.startswith("document 1") for line in problems(text))


def test_nothing_is_an_empty_manifest() -> None:
    assert decode_manifest_text("").pods == ()
    assert decode_manifest_text("---\n---\n").skipped == {}
