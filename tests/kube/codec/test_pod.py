"""A pod's bytes become the noun that scheduling sees."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from growth.kube.codec import Codec
from growth.model.labels import Labels, LabelSelector, NodeSelectorTerm, Requirement
from growth.model.pod import (
    HostPort,
    Owner,
    Pod,
    PodAffinityTerm,
    PreferredNodes,
    PreferredPods,
    Toleration,
    TopologySpread,
    VolumeUse,
)
from growth.model.resources import Resources
from tests.kube.objects import CREATED_AT, Json, full_pod, full_volumes, pod, raw

SELECTOR = LabelSelector((Requirement("app", "In", ("web",)), Requirement("tier", "NotIn", ("back",))))
NODE_TERM = NodeSelectorTerm((Requirement("disk", "In", ("ssd",)),), (Requirement("metadata.name", "NotIn", ("a",)),))
POD_TERM = PodAffinityTerm("zone", SELECTOR, ("other",), LabelSelector((Requirement("team", "In", ("a",)),)))


def decoded(item: Any) -> Pod:
    return Codec().decode_pod(raw(item))


def changed(item: Json, *path: str | int, to: Any) -> Json:
    result = copy.deepcopy(item)
    inner: Any = result
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return result


def test_where_the_pod_stands_is_read() -> None:
    found = decoded(full_pod())
    assert (found.name, found.namespace, found.key, found.uid, found.resource_version) == (
        "web-1",
        "web",
        "web/web-1",
        "uid-web-1",
        "7",
    )
    assert found.owner == Owner("ReplicaSet", "web", "r", "apps/v1")
    assert (found.phase, found.node_name, found.nominated_node) == ("Pending", "", "node-9")
    assert (found.created_at, found.deleted_at, found.unschedulable_at) == (CREATED_AT, CREATED_AT + 60, CREATED_AT + 5)
    assert (found.is_gated, found.is_mirror, found.grace_seconds, found.has_local_data) == (True, False, 5, True)
    assert found.annotations == Labels({"growth.dev/do-not-disrupt": "true"})


def test_all_that_scheduling_sees_is_read() -> None:
    shape = decoded(full_pod()).shape
    assert shape.malformed == ""
    assert shape.labels == Labels({"app": "web", "tier": "front"})
    assert shape.requests == Resources({"cpu": 175, "memory": 2 * 2**30})
    assert shape.tolerations == (Toleration("gpu", "Exists", "", "NoSchedule"), Toleration("a", "Equal", "b", "", 5))
    assert shape.node_selector == Labels({"kubernetes.io/arch": "arm64"})
    assert shape.node_affinity == (NODE_TERM,)
    assert shape.preferred_nodes == (PreferredNodes(5, NODE_TERM),)
    assert shape.affinity == (POD_TERM,)
    assert shape.preferred_affinity == (PreferredPods(7, POD_TERM),)
    assert shape.anti_affinity == (PodAffinityTerm("kubernetes.io/hostname", LabelSelector()),)
    assert shape.spread == (TopologySpread(2, "zone", "ScheduleAnyway", SELECTOR, 3, "Ignore", "Honor", ("tier",)),)
    assert (shape.priority, shape.scheduler_name, shape.uses_resource_claims) == (1000, "other-scheduler", True)


def test_host_ports_of_containers_and_sidecars_are_read() -> None:
    assert decoded(full_pod()).shape.host_ports == (HostPort(9191), HostPort(8080, "UDP", "10.0.0.1"))


def test_on_the_hosts_network_every_port_is_a_host_port() -> None:
    ports = [{"name": "main", "ports": [{"containerPort": 80}]}]
    assert decoded(pod(hostNetwork=True, containers=ports)).shape.host_ports == (HostPort(80),)
    assert decoded(pod(containers=ports)).shape.host_ports == ()


def test_volumes_that_bind_or_exclude_are_read() -> None:
    assert decoded(full_pod()).shape.volumes == (
        VolumeUse(claim="web-data", read_only=True),
        VolumeUse(claim="scratch", is_ephemeral=True, storage_class="fast"),
        VolumeUse(driver="csi.example.com"),
        VolumeUse(disk="gce:disk", read_only=True),
        VolumeUse(disk="ebs:vol"),
        VolumeUse(disk="iscsi:iqn.example"),
        VolumeUse(disk="rbd:m1/p/i"),
        VolumeUse(disk="rbd:m2/p/i"),
    )


@pytest.mark.parametrize(
    ("kind", "local"), [("emptyDir", True), ("hostPath", True), ("configMap", False), ("secret", False)]
)
def test_data_that_would_be_lost_is_noticed(kind: str, local: bool) -> None:
    assert decoded(pod(volumes=[{"name": "v", kind: {}}])).has_local_data is local


def test_the_least_a_pod_can_say_is_enough() -> None:
    found = decoded({"metadata": {"name": "a", "namespace": "web"}, "spec": {"containers": [{"name": "main"}]}})
    assert (found.shape.malformed, found.phase, found.shape.scheduler_name, found.grace_seconds) == (
        "",
        "Pending",
        "default-scheduler",
        30,
    )
    assert (found.owner, found.deleted_at, found.unschedulable_at, found.created_at) == (None, None, None, 0.0)


def test_the_group_that_a_pod_names_and_whether_it_preempts_are_read() -> None:
    own: Json = {"schedulingGroup": {"podGroupName": "train"}}
    plugin = {"scheduling.x-k8s.io/pod-group": "train"}
    assert decoded(pod(**own)).group == "PodGroup.scheduling.k8s.io/train"
    labelled = changed(pod(), "metadata", "labels", to=plugin)
    assert decoded(labelled).group == "PodGroup.scheduling.x-k8s.io/train"
    assert decoded(changed(pod(**own), "metadata", "labels", to=plugin)).group == "PodGroup.scheduling.k8s.io/train"
    assert (decoded(pod()).group, decoded(pod()).shape.never_preempts) == ("", False)
    assert decoded(pod(preemptionPolicy="Never")).shape.never_preempts
    assert not decoded(pod(preemptionPolicy="PreemptLowerPriority")).shape.never_preempts


def test_an_empty_affinity_matches_nothing_and_an_absent_one_is_no_rule() -> None:
    rule: Json = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    assert decoded(pod(affinity=rule)).shape.node_affinity == ()
    assert decoded(pod(affinity={"nodeAffinity": {}})).shape.node_affinity is None
    assert decoded(pod()).shape.node_affinity is None


def test_label_keys_of_an_affinity_term_become_part_of_its_selector_once() -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["app", "absent"],
        "mismatchLabelKeys": ["app"],
    }
    rule = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    selector = decoded(pod(affinity=rule)).shape.affinity[0].selector
    assert selector == LabelSelector((Requirement("app", "In", ("web",)), Requirement("app", "NotIn", ("web",))))


def test_a_static_pods_mirror_is_known_by_its_annotation() -> None:
    item = changed(pod(node="node-1"), "metadata", "annotations", to={"kubernetes.io/config.mirror": "hash"})
    assert decoded(item).is_mirror


@pytest.mark.parametrize(
    ("condition", "since"),
    [
        ({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}, CREATED_AT),
        ({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}, None),
        ({"type": "PodScheduled", "status": "True"}, None),
        ({"type": "Ready", "status": "False", "reason": "Unschedulable"}, None),
    ],
)
def test_only_the_schedulers_own_word_makes_a_pod_unschedulable(condition: Json, since: float | None) -> None:
    assert decoded(changed(pod(), "status", "conditions", to=[condition])).unschedulable_at == since


def test_a_pod_that_waits_on_its_node_for_volumes_says_since_when_and_is_not_unschedulable() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "WaitingForVolumes"}
    found = decoded(changed(pod(), "status", "conditions", to=[condition]))
    assert (found.unschedulable_at, found.volumes_asked_at) == (None, CREATED_AT)


def test_a_bound_pod_is_not_unschedulable_whatever_its_conditions_say() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    assert decoded(changed(pod(node="node-1"), "status", "conditions", to=[condition])).unschedulable_at is None


# ------------------------------------------------------------------------------------- what repeats


def test_pods_of_one_template_share_one_shape_though_their_token_volumes_differ() -> None:
    codec = Codec()
    first, second = (
        changed(
            pod(f"web-{number}", "node-1"),
            "spec",
            "volumes",
            to=[{"name": f"kube-api-access-{number}", "projected": {}}],
        )
        for number in (1, 2)
    )
    assert codec.decode_pod(raw(first)).shape is codec.decode_pod(raw(second)).shape


def test_being_bound_and_running_does_not_change_a_shape() -> None:
    codec = Codec()
    running = changed(
        pod(node="node-1"),
        "status",
        "containerStatuses",
        to=[{"name": "main", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}],
    )
    assert codec.decode_pod(raw(pod())).shape is codec.decode_pod(raw(running)).shape


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("metadata", "labels", "app"), "other"),
        (("metadata", "namespace"), "other"),
        (("spec", "priority"), 1),
        (("spec", "preemptionPolicy"), "Never"),
        (("spec", "schedulerName"), "other"),
        (("spec", "hostNetwork"), True),
        (("spec", "resourceClaims"), [{"name": "a"}]),
        (("spec", "overhead"), {"cpu": "1"}),
        (("spec", "resources"), {"requests": {"cpu": "1"}}),
        (("spec", "tolerations"), [{"operator": "Exists"}]),
        (("spec", "nodeSelector"), {"a": "b"}),
        (
            ("spec", "affinity"),
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
        ),
        (("spec", "topologySpreadConstraints"), [{"maxSkew": 1, "topologyKey": "zone"}]),
        (("spec", "containers", 0, "resources"), {"requests": {"cpu": "2"}}),
        (("spec", "containers", 0, "ports"), [{"containerPort": 80, "hostPort": 80}]),
        (("spec", "initContainers"), [{"name": "a", "resources": {"requests": {"cpu": "2"}}}]),
        (
            ("spec", "initContainers"),
            [{"name": "a", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}}],
        ),
        (("spec", "volumes"), full_volumes()),
        (("status", "containerStatuses"), [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]),
    ],
)
def test_whatever_scheduling_sees_makes_another_shape(path: tuple[str | int, ...], to: Any) -> None:
    codec = Codec()
    plain = changed(pod(), "spec", "containers", 0, "ports", to=[{"containerPort": 80}])
    assert codec.decode_pod(raw(plain)).shape != codec.decode_pod(raw(changed(plain, *path, to=to))).shape


def test_an_infeasible_resize_is_seen_through_the_conditions() -> None:
    status = [
        {
            "name": "main",
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
            "allocatedResources": {"cpu": "100m", "memory": "64Mi"},
        }
    ]
    codec = Codec()
    grown = changed(pod(node="node-1", cpu="4"), "status", "containerStatuses", to=status)
    assert codec.decode_pod(raw(grown)).shape.requests["cpu"] == 4000
    refused = changed(
        grown, "status", "conditions", to=[{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    )
    assert codec.decode_pod(raw(refused)).shape.requests["cpu"] == 100


def daemon(node: str, **more: Any) -> Json:
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}], **more}
    item = pod(
        f"agent-{node}",
        node,
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pin]}}},
    )
    return changed(item, "metadata", "ownerReferences", to=[{"kind": "DaemonSet", "name": "agent", "controller": True}])


def test_the_settled_pods_of_a_daemon_set_share_one_shape() -> None:
    codec = Codec()
    first, second = codec.decode_pod(raw(daemon("node-1"))), codec.decode_pod(raw(daemon("node-2")))
    assert first.is_daemon
    assert first.shape is second.shape
    assert first.shape.node_affinity is None


def test_a_daemon_sets_own_node_rules_stay_and_a_waiting_daemon_keeps_its_node() -> None:
    expressions = [{"key": "disk", "operator": "Exists"}]
    assert decoded(daemon("node-1", matchExpressions=expressions)).shape.node_affinity == (
        NodeSelectorTerm((Requirement("disk", "Exists"),)),
    )
    waiting = changed(daemon("node-1"), "spec", "nodeName", to=None)
    assert decoded(waiting).shape.node_affinity == (
        NodeSelectorTerm((), (Requirement("metadata.name", "In", ("node-1",)),)),
    )


# ---------------------------------------------------------------------------------------- malformed


@pytest.mark.parametrize(
    ("path", "to", "why"),
    [
        (
            ("spec", "containers", 0, "resources"),
            {"requests": {"cpu": "much"}},
            "container main: cpu: 'much' is not a quantity",
        ),
        (("spec", "containers", 0, "resources"), {"requests": {"cpu": "-1"}}, "container main: cpu: '-1' is negative"),
        (
            ("spec", "containers", 0, "resources"),
            "none",
            "container main: resources: Expected `object | null`, got `str`",
        ),
        (("spec", "overhead"), {"cpu": [1]}, "spec.overhead: Expected"),
        (("spec", "containers"), [], "spec.containers: there are none"),
        (("spec", "containers"), None, "spec.containers: there are none"),
        (("metadata", "labels"), {"app": "x" * 300}, "(300 characters) is not a value for the label app"),
        (("metadata", "labels"), {"-": "x"}, "'-' is not a label key"),
        (("metadata", "labels"), {"app": 1}, "metadata.labels: Expected `str`, got `int`"),
        (("spec", "nodeSelector"), {"app": "a b"}, "spec.nodeSelector: 'a b' is not a value"),
        (
            ("spec", "topologySpreadConstraints"),
            [{"maxSkew": 0, "topologyKey": "zone"}],
            "maxSkew 0 on 'zone' is not positive",
        ),
        (("spec", "topologySpreadConstraints"), [{"maxSkew": 1}], "missing required field `topologyKey`"),
        (
            ("spec", "topologySpreadConstraints"),
            [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "Panic"}],
            "unknown whenUnsatisfiable 'Panic'",
        ),
        (("spec", "containers", 0, "ports"), [{"hostPort": 70000}], "host port 70000 is not between 1 and 65535"),
        (("spec", "priority"), "high", "spec.priority: Expected `int | null`, got `str`"),
        (("spec", "volumes"), "none", "Expected `array | null`, got `str` at `.spec.volumes`"),
        (("status", "phase"), 5, "Expected `str | null`, got `int` at `.status.phase`"),
    ],
)
def test_a_malformed_pod_says_why(path: tuple[str | int, ...], to: Any, why: str) -> None:
    found = decoded(changed(pod(), *path, to=to))
    assert why in found.shape.malformed
    assert found.key == "web/web-1"


@pytest.mark.parametrize(
    ("requirement", "why"),
    [
        ({"key": "a", "operator": "Near", "values": ["b"]}, "unknown operator 'Near' on 'a'"),
        ({"key": "a", "operator": "In"}, "In on 'a' needs values"),
        ({"key": "a", "operator": "Exists", "values": ["b"]}, "Exists on 'a' takes no values"),
        ({"key": "a", "operator": "Gt", "values": ["1", "2"]}, "Gt on 'a' takes one value, not 2"),
    ],
)
def test_a_malformed_rule_says_why(requirement: Json, why: str) -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    found = decoded(pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}))
    assert why in found.shape.malformed


def test_a_malformed_part_leaves_the_others_readable() -> None:
    found = decoded(changed(full_pod(), "spec", "tolerations", to="all"))
    assert found.shape.malformed.startswith("spec.tolerations: ")
    assert found.shape.requests == Resources({"cpu": 175, "memory": 2 * 2**30})
    assert found.shape.host_ports


def test_a_toleration_with_an_unknown_operator_is_kept_and_is_no_malformation() -> None:
    shape = decoded(pod(tolerations=[{"key": "a", "operator": "Roughly"}])).shape
    assert shape.tolerations == (Toleration("a", "Roughly"),)
    assert shape.malformed == ""


def test_a_pod_that_is_no_pod_still_blocks_its_node() -> None:
    found = decoded(changed(pod(node="node-1"), "spec", "volumes", to=7))
    assert (found.node_name, found.phase, found.key, found.counts_as_work) == ("node-1", "Running", "web/web-1", True)
    assert found.shape.malformed


def test_a_bookmark_with_null_containers_is_read() -> None:
    found = decoded(
        {
            "kind": "Pod",
            "metadata": {"resourceVersion": "9", "creationTimestamp": None},
            "spec": {"containers": None},
            "status": {},
        }
    )
    assert found.resource_version == "9"


def test_tolerations_that_compare_are_read_only_where_the_cluster_knows_them() -> None:
    tolerations = [{"key": "gpu", "operator": "Gt", "value": "5"}, {"key": "team", "operator": "Exists"}]
    known, unknown = (
        Codec(compares_tolerations=compares).decode_pod(raw(pod("a", tolerations=tolerations)))
        for compares in (True, False)
    )
    assert [each.operator for each in known.shape.tolerations] == ["Gt", "Exists"]
    assert [each.operator for each in unknown.shape.tolerations] == ["Exists"]
