"""Buffers, workloads, templates, LimitRanges and quotas as nouns; pods as the API server would admit them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.kube.api.resources import DEPLOYMENTS, Resource
from growth.kube.codec import Codec
from growth.kube.codec.buffer import (
    Referenced,
    TemplateText,
    Workload,
    WorldBuilder,
    known_workload,
    why_not_asked_for,
    with_group,
)
from growth.kube.codec.template import Admission, ContainerRange, RuntimeClass, clean_template, read_template
from growth.model.capacitybuffer import (
    BufferTemplate,
    CapacityBuffer,
    CapacityBufferSpec,
    QuotaScope,
    ResourceQuota,
    ScalableReference,
    reference_key,
)
from growth.model.disruption import PriorityClass
from growth.model.malformed import Malformed
from tests.kube import samples

Json = dict[str, Any]


def decoded(kind: str, **item: Any) -> Any:
    item.setdefault(
        "metadata",
        {
            "name": "it",
            "namespace": "team",
            "uid": "u",
            "resourceVersion": "5",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
    )
    return Codec().decode(kind, json.dumps(item).encode()).noun


def container(name: str = "main", **resources: Any) -> Json:
    return {"name": name, "image": "x", "resources": resources}


def admitted(
    *containers: Json,
    ranges: tuple[ContainerRange, ...] = (),
    classes: tuple[PriorityClass, ...] = (),
    runtimes: tuple[RuntimeClass, ...] = (),
    **spec: Any,
) -> BufferTemplate:
    admission = Admission(ranges, {each.name: each for each in classes}, {each.name: each for each in runtimes})
    return read_template(
        clean_template({"spec": {"containers": list(containers), **spec}}), "team", admission, Codec().pods
    )


def test_a_buffer_is_read_with_references_of_both_kinds_and_quantities_of_every_form() -> None:
    found = decoded(
        "CapacityBuffer",
        spec={
            "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"},
            "limits": {"cpu": 2, "memory": "1.5Gi"},
        },
    )
    assert isinstance(found, CapacityBuffer)
    assert (found.key, found.strategy, found.spec.limits) == (
        "team/it",
        "buffer.x-k8s.io/active-capacity",
        {"cpu": 2, "memory": "1.5Gi"},
    )
    assert found.spec.scalable_ref == ScalableReference("Deployment", "web", "apps")
    assert (
        decoded("CapacityBuffer", spec={"podTemplateRef": {"name": "chunk"}, "replicas": 3}).spec.pod_template_ref.name
        == "chunk"
    )


def test_a_status_that_somebody_else_wrote_in_another_form_does_not_spoil_the_buffer() -> None:
    found = decoded(
        "CapacityBuffer", spec={"replicas": 1}, status={"conditions": [{"type": "x" * 99}], "replicas": "many"}
    )
    assert isinstance(found, CapacityBuffer)
    assert found.status.conditions == ()


def test_a_buffer_with_fields_of_the_wrong_type_is_malformed_and_says_where() -> None:
    found = decoded("CapacityBuffer", spec={"replicas": "five"})
    assert isinstance(found, Malformed)
    assert "replicas" in found.why


@pytest.mark.parametrize(
    ("kind", "spec", "replicas"),
    [
        ("Deployment", {}, 1),
        ("Deployment", {"replicas": 7}, 7),
        ("ReplicaSet", {"replicas": 0}, 0),
        ("StatefulSet", {"replicas": 3}, 3),
        ("ReplicationController", {}, 1),
        ("Job", {"parallelism": 4, "replicas": 9}, 4),
        ("Job", {}, 1),
    ],
)
def test_workloads_say_how_many_pods_they_ask_for(kind: str, spec: Json, replicas: int) -> None:
    found = decoded(kind, spec={**spec, "template": {"spec": {"containers": []}}})
    assert isinstance(found, Workload)
    assert (found.kind, found.replicas) == (kind, replicas)


def test_a_reference_may_leave_out_the_group_of_a_known_kind() -> None:
    assert with_group(ScalableReference("Deployment", "web")) == ScalableReference("Deployment", "web", "apps")
    assert known_workload(ScalableReference("Deployment", "web", "example.com")) is None
    assert known_workload(ScalableReference("Deployment", "web", "apps")) is DEPLOYMENTS


def test_what_belongs_to_one_pod_is_cleaned_out_of_a_template() -> None:
    mounts = [
        {"name": "data", "mountPath": "/d"},
        {"name": "config", "mountPath": "/c"},
        {"name": "claimed-by-set", "mountPath": "/s"},
    ]
    spec = {
        "nodeName": "n1",
        "ephemeralContainers": [{}],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "d"}},
            {"name": "config", "configMap": {"name": "c"}},
        ],
        "containers": [{"name": "main", "volumeMounts": mounts, "volumeDevices": [{}]}],
    }
    found = json.loads(
        clean_template({"metadata": {"name": "pod-1", "uid": "u", "labels": {"app": "x"}}, "spec": spec})
    )
    assert found["metadata"] == {"labels": {"app": "x"}}
    assert found["spec"] == {
        "volumes": [{"name": "config", "configMap": {"name": "c"}}],
        "containers": [{"name": "main", "volumeMounts": [mounts[1]]}],
    }


def test_the_effective_request_is_the_larger_of_init_and_containers_with_sidecars_and_overhead() -> None:
    init = [
        container("setup", requests={"cpu": "4"}),
        {**container("proxy", requests={"cpu": "500m"}), "restartPolicy": "Always"},
    ]
    found = admitted(container(requests={"cpu": "1"}), initContainers=init, overhead={"memory": "64Mi"})
    assert dict(found.shape.requests) == {"cpu": 4000, "memory": 64 * 1024**2}


def test_a_limit_without_a_request_is_one_and_limit_ranges_fill_in_the_rest() -> None:
    small = ContainerRange(
        "team", "small", default={"cpu": "2", "memory": "1Gi"}, default_request={"cpu": "250m", "memory": "256Mi"}
    )
    elsewhere = ContainerRange("other", "large", default_request={"cpu": "64"})
    found = admitted(container(limits={"cpu": "1"}), container("side"), ranges=(small, elsewhere))
    assert dict(found.shape.requests) == {"cpu": 1250, "memory": 512 * 1024**2}
    assert dict(found.limits) == {"cpu": 3000, "memory": 2 * 1024**3}


def test_a_pod_that_a_limit_range_would_refuse_is_refused_with_its_name() -> None:
    tight = ContainerRange("team", "tight", max={"cpu": "1"}, min={"memory": "64Mi"})
    assert (
        admitted(container(requests={"cpu": "2"}), ranges=(tight,)).refusal
        == "LimitRange tight allows at most cpu 1 for each container; main has 2"
    )
    assert "at least memory 64Mi" in admitted(container(requests={"memory": "1Mi"}), ranges=(tight,)).refusal
    assert admitted(container(requests={"cpu": "1", "memory": "64Mi"}), ranges=(tight,)).refusal == ""


def test_the_priority_is_the_templates_own_or_minus_one_thousand() -> None:
    high = PriorityClass("high", 100_000)
    everybody = PriorityClass("everybody", 7, is_default=True)
    assert admitted(container()).shape.priority == -1000
    assert admitted(container(), classes=(everybody,)).shape.priority == -1000
    assert admitted(container(), classes=(high,), priorityClassName="high").shape.priority == 100_000
    assert admitted(container(), priority=5).shape.priority == 5
    assert admitted(container(), priorityClassName="gone").refusal == "PriorityClass gone of its pods does not exist"


def test_a_runtime_class_adds_its_overhead_and_where_its_pods_can_run() -> None:
    gvisor = decoded(
        "RuntimeClass",
        metadata={"name": "gvisor"},
        **{part: samples.runtime_class()[part] for part in ("overhead", "scheduling")},
    )
    plain = RuntimeClass("plain")
    asked = container(requests={"cpu": "1", "memory": "1Gi"}, limits={"memory": "2Gi"})
    found = admitted(asked, runtimes=(gvisor, plain), runtimeClassName="gvisor", nodeSelector={"disk": "ssd"})
    assert dict(found.shape.requests) == {"cpu": 1250, "memory": (1024 + 120) * 2**20}
    assert dict(found.limits) == {"memory": (2048 + 120) * 2**20}
    assert dict(found.shape.node_selector) == {"disk": "ssd", "sandbox": "yes"}
    assert [toleration.key for toleration in found.shape.tolerations] == ["sandbox"]
    assert dict(admitted(asked, runtimes=(gvisor, plain), runtimeClassName="plain").shape.requests) == {
        "cpu": 1000,
        "memory": 2**30,
    }


def test_a_runtime_class_that_is_missing_or_runs_elsewhere_refuses_the_pods() -> None:
    gvisor = RuntimeClass("gvisor", node_selector={"sandbox": "yes"})
    assert admitted(container(), runtimeClassName="gone").refusal == "RuntimeClass gone of its pods does not exist"
    refused = admitted(container(), runtimes=(gvisor,), runtimeClassName="gvisor", nodeSelector={"sandbox": "no"})
    assert refused.refusal == "RuntimeClass gvisor and the template select different nodes by sandbox"


@pytest.mark.parametrize(
    "broken", [{"containers": [{"name": "x", "resources": {"requests": {"cpu": "much"}}}]}, {"containers": None}, {}]
)
def test_a_template_that_cannot_be_read_is_told_and_never_raises(broken: Json) -> None:
    found = read_template(clean_template({"spec": broken}), "team", Admission(), Codec().pods)
    assert found.refusal or found.shape.malformed


def test_a_limit_range_and_a_quota_are_read() -> None:
    limits = [{"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}, {"type": "Pod", "max": {"cpu": "9"}}]
    assert decoded("LimitRange", spec={"limits": limits}) == ContainerRange(
        "team", "it", {"cpu": "1"}, {}, {}, {"cpu": "2"}
    )
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    status = {"hard": {"requests.cpu": "2500m", "pods": "10"}, "used": {"requests.cpu": "1", "pods": 3}}
    scopes = (QuotaScope("NotTerminating"), QuotaScope("PriorityClass", "In", ("high",)))
    assert decoded(
        "ResourceQuota", spec={"hard": {}, "scopes": ["NotTerminating"], "scopeSelector": selector}, status=status
    ) == ResourceQuota(
        "team",
        "it",
        {"pods": 10, "requests.cpu": 2500},
        {"pods": 3, "requests.cpu": 1000},
        scopes,
    )
    assert isinstance(decoded("ResourceQuota", spec={"hard": {"cpu": "x"}}), Malformed)


def test_a_pod_template_of_ours_says_from_what_it_was_made_and_who_owns_it() -> None:
    metadata = {
        "name": "t", "namespace": "team", "uid": "u", "generation": 4,
        "annotations": {"growth.dev/template-digest": "abc"},
        "ownerReferences": [{"kind": "CapacityBuffer", "name": "b", "uid": "buffer-uid"}],
    }  # fmt: skip
    found = decoded("PodTemplate", metadata=metadata, template={"spec": {"containers": []}})
    assert isinstance(found, TemplateText)
    assert (found.generation, found.owner_uid, found.digest) == (4, "buffer-uid", "abc")


def test_a_world_follows_limit_ranges_and_reads_each_text_once() -> None:
    text = clean_template({"spec": {"containers": [container()]}})
    builder = WorldBuilder(Codec().pods)
    workload = Workload("team", "web", "Deployment", "apps", 3, text)
    first = builder.build(Referenced(workloads=[workload]))
    again = builder.build(Referenced(workloads=[workload], ranges=[]))
    key = "Deployment.apps/team/web"
    assert again.scalables[key].template is first.scalables[key].template
    limited = builder.build(
        Referenced(workloads=[workload], ranges=[ContainerRange("team", "r", default_request={"cpu": "2"})])
    )
    template = limited.scalables[key].template
    assert template is not None
    assert dict(template.shape.requests) == {"cpu": 2000}


# ------------------------------------------------------------------------- what tenants name


@pytest.mark.parametrize(
    ("reference", "field"),
    [
        (ScalableReference("Rollout", "web", "apps/v1/replicasets"), "apiGroup"),
        (ScalableReference("Rollout", "web", "apps/v1/replicasets?watch=true"), "apiGroup"),
        (ScalableReference("Rollout", "web", "../api/v1/secrets"), "apiGroup"),
        (ScalableReference("Rollout", "web", "apps\n"), "apiGroup"),
        (ScalableReference("Deployment", "../web", "apps"), "name"),
        (ScalableReference("Deployment", "web,metadata.namespace=x", "apps"), "name"),
        (ScalableReference("Deployment", "", "apps"), "name"),
        (ScalableReference("Deployment", "a b"), "name"),
        (ScalableReference("", "web", "apps"), "kind"),
        (ScalableReference("Rollout/scale", "web", "apps"), "kind"),
    ],
)
def test_a_reference_that_cannot_be_one_is_said_on_the_buffer_and_never_asked_for(
    reference: ScalableReference, field: str
) -> None:
    assert why_not_asked_for(reference).startswith(f"scalableRef.{field}: ")
    buffer = CapacityBuffer("team", "spare", CapacityBufferSpec(scalable_ref=reference, replicas=1))
    world = WorldBuilder(Codec().pods).build(Referenced({"team/spare": buffer}))
    found = world.scalables[reference_key("team", with_group(reference))]
    assert "cannot be one" in found.why
    assert (found.is_unread, found.is_missing) == (False, False)


@pytest.mark.parametrize("kind", ["Deployment", "Rollout"])
def test_a_good_reference_is_asked_for(kind: str) -> None:
    assert why_not_asked_for(ScalableReference(kind, "web-1.a", "apps")) == ""
    assert why_not_asked_for(ScalableReference(kind, "web")) == ""


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_no_text_of_a_reference_changes_what_a_path_asks_for(kind: str, name: str, group: str) -> None:
    if not why_not_asked_for(ScalableReference(kind, name, group)):
        path = Resource(group, "v1", "rollouts", kind).path(name, "team", "scale")
        assert path == f"/{f'apis/{group}' if group else 'api'}/v1/namespaces/team/rollouts/{name}/scale"
