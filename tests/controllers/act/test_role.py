"""The generated role is the least that works."""

from __future__ import annotations

from growth.controllers.act.join_tokens import JoinTokens
from growth.controllers.act.role import manifests, rights, rules
from growth.kube.api.resources import NODES, PODS, Right


def verbs_on(resource: str, provider: str = "kwok") -> list[str]:
    return next((rule["verbs"] for rule in rules(rights(provider)) if rule["resources"] == [resource]), [])


def test_nothing_is_granted_with_a_star() -> None:
    assert "*" not in str(manifests("kwok"))


def test_secrets_are_never_read() -> None:
    assert verbs_on("secrets") == []
    assert "secrets" not in str(manifests("hetzner", tokens=JoinTokens()))


def test_minting_join_tokens_brings_a_role_in_kube_system_and_the_policy_that_narrows_it() -> None:
    added = [
        item
        for item in manifests("hetzner", "here", tokens=JoinTokens(mint=True))
        if item not in manifests("hetzner", "here")
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
    kinds = {(each["kind"], str(each.get("rules", ""))) for each in manifests("kwok", "here")}
    assert not any(kind == "ClusterRole" and "leases" in text for kind, text in kinds)
    assert any(kind == "Role" and "leases" in text for kind, text in kinds)


def test_rules_of_one_resource_are_merged_and_sorted() -> None:
    merged = rules(
        [Right(PODS, ("watch",)), Right(NODES, ("get",)), Right(PODS, ("list",)), Right(PODS, ("create",), "binding")]
    )
    assert merged == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    ]
