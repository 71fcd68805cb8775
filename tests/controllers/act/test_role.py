"""The generated role is the least that works."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from growth.controllers.act.join_tokens import JoinTokens
from growth.controllers.act.role import Features, features_of, manifests, rights, rules
from growth.controllers.configuration import load_configuration
from growth.kube.api.resources import NODES, PODS, Right
from growth.model.warmpool import WarmPoolKind


def verbs_on(resource: str, provider: str = "kwok") -> list[str]:
    return next((rule["verbs"] for rule in rules(rights(Features(provider))) if rule["resources"] == [resource]), [])


def test_nothing_is_granted_with_a_star() -> None:
    assert "*" not in str(manifests(Features("kwok")))


def test_secrets_are_never_read() -> None:
    assert verbs_on("secrets") == []
    assert "secrets" not in str(manifests(Features("hetzner"), tokens=JoinTokens()))


def test_minting_join_tokens_brings_a_role_in_kube_system_and_the_policy_that_narrows_it() -> None:
    added = [
        item
        for item in manifests(Features("hetzner"), "here", tokens=JoinTokens(mint=True))
        if item not in manifests(Features("hetzner"), "here")
    ]
    assert [item["kind"] for item in added] == [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "Role",
        "RoleBinding",
    ]
    policy, binding, role, _ = added
    assert role["metadata"]["namespace"] == "kube-system"
    assert role["rules"] == [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "delete"]}]
    assert (
        policy["spec"]["matchConditions"][0]["expression"]
        == "request.userInfo.username == 'system:serviceaccount:here:growth'"
    )
    assert (policy["spec"]["failurePolicy"], binding["spec"]["validationActions"]) == ("Fail", ["Deny"])


def test_pods_are_neither_created_nor_deleted_only_bound_evicted_and_nominated() -> None:
    assert verbs_on("pods") == ["get", "list", "watch"]
    assert verbs_on("pods/binding") == ["create"]
    assert verbs_on("pods/eviction") == ["create"]
    assert verbs_on("pods/status") == ["patch"]


def test_only_the_provider_whose_machines_are_nodes_may_create_nodes() -> None:
    assert "create" in verbs_on("nodes", "kwok")
    assert "create" not in verbs_on("nodes", "hetzner")


def test_the_lease_is_a_right_in_our_own_namespace_only() -> None:
    kinds = {
        (each["kind"], str(each.get("rules", ""))) for each in manifests(Features("kwok", stands_in=False), "here")
    }
    assert not any(kind == "ClusterRole" and "leases" in text for kind, text in kinds)
    assert any(kind == "Role" and "leases" in text for kind, text in kinds)


def test_who_stands_in_for_kube_scheduler_may_read_its_lease_and_no_other() -> None:
    of_leases = [each for each in rules(rights(Features("kwok", stands_in=True))) if each["resources"] == ["leases"]]
    assert of_leases == [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["kube-scheduler"],
            "verbs": ["list", "watch"],
        }
    ]


def test_rules_of_one_resource_are_merged_and_sorted() -> None:
    merged = rules(
        [Right(PODS, ("watch",)), Right(NODES, ("get",)), Right(PODS, ("list",)), Right(PODS, ("create",), "binding")]
    )
    assert merged == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    ]


# -------------------------------------------------------------------------- smaller with fewer features

WRITES = ("create", "delete", "patch", "update")
ALL = Features("hetzner")


def granted(features: Features) -> set[tuple[str, str]]:
    """Every verb on every resource."""
    return {(verb, rule["resources"][0]) for rule in rules(rights(features)) for verb in rule["verbs"]}


def test_who_only_observes_writes_events_and_nothing_else() -> None:
    found = granted(Features("kwok", acts=False))
    assert {(verb, what) for verb, what in found if verb in WRITES} == {("create", "events"), ("patch", "events")}
    assert ("watch", "poolautoscalers") in found
    assert ("watch", "capacitybuffers") in found


def test_without_buffers_nothing_of_buffers_is_read_or_written() -> None:
    found = granted(replace(ALL, serves_buffers=False, serves_warm_pools=False))
    gone = granted(ALL) - found
    assert {what for _, what in gone} >= {"capacitybuffers", "capacitybuffers/status", "podtemplates", "limitranges"}
    assert not any("buffer" in what or what in ("podtemplates", "resourcequotas") for _, what in found)


def test_without_warm_pools_nothing_is_scaled() -> None:
    found = granted(replace(ALL, serves_warm_pools=False))
    assert not any("/scale" in what or "poolautoscaler" in what or "sandbox" in what for _, what in found)
    assert ("watch", "deployments") in found, "buffers name them"
    neither = granted(replace(ALL, serves_warm_pools=False, serves_buffers=False))
    assert not any(what in ("deployments", "statefulsets", "jobs") for _, what in neither)


def test_only_an_exposed_page_has_tokens_reviewed() -> None:
    reviews = {("create", "tokenreviews"), ("create", "subjectaccessreviews")}
    assert granted(replace(ALL, exposes_page=True)) - granted(ALL) == reviews


def test_kinds_of_ones_own_are_scaled_only_where_growth_acts() -> None:
    kinds = (
        WarmPoolKind("example.com", "v1", "desks", "Desk"),
        WarmPoolKind("example.com", "v1", "rooms", "Room", reads_scale=True),
    )
    watched = {("list", "desks"), ("watch", "desks"), ("get", "rooms/scale")}
    scaled = {("patch", "desks/scale"), ("patch", "rooms/scale")}
    assert granted(replace(ALL, kinds=kinds)) - granted(ALL) == watched | scaled
    observing = replace(ALL, acts=False)
    assert granted(replace(observing, kinds=kinds)) - granted(observing) == watched
    assert granted(replace(ALL, kinds=kinds, serves_warm_pools=False)) == granted(replace(ALL, serves_warm_pools=False))


@pytest.mark.parametrize("provider", ["kwok", "hetzner"])
@pytest.mark.parametrize("acts", [True, False])
@pytest.mark.parametrize("buffers", [True, False])
@pytest.mark.parametrize("warm_pools", [True, False])
@pytest.mark.parametrize("schedules", [True, False])
def test_turning_something_off_never_adds_a_right(
    provider: str, acts: bool, buffers: bool, warm_pools: bool, schedules: bool
) -> None:
    features = Features(provider, acts, buffers, warm_pools, schedules)
    for name in ("acts", "serves_buffers", "serves_warm_pools", "schedules"):
        assert granted(replace(features, **{name: False})) <= granted(features)
    assert {("watch", "pods"), ("watch", "nodes")} <= granted(features)


def test_the_settings_say_which_features_there_are() -> None:
    gates = "PoolAutoscaler=false,CapacityBuffer=false"
    found = features_of(load_configuration(None, {}, {"featureGates": gates, "observe": True, "provider": "hetzner"}))
    assert found == Features(
        "hetzner", acts=False, serves_buffers=False, serves_warm_pools=False, schedules=False, stands_in=False
    )


def test_the_lease_is_bound_to_its_name_but_for_its_creation() -> None:
    role = next(each for each in manifests(ALL, "here", "mine") if each["kind"] == "Role")
    assert role["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["mine"],
            "verbs": ["get", "update"],
        },
    ]
