"""Join tokens that growth mints itself: what the API server lets it do with Secrets, and that machines can join with
them, once, in time.
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from growth.controllers.act.join_tokens import JoinTokens
from growth.controllers.act.role import Features
from growth.controllers.act.role import manifests as role_manifests
from growth.model.instant import format_instant
from growth.model.node import REQUEST_LABEL
from growth.sim.cloud.hetzner.api import FakeAnswer, FakeRequest
from tests.e2e.controlplane.cluster import ControlPlane, KubectlError
from tests.e2e.hetzner import growth_at_hetzner, hetzner_beside
from tests.e2e.manifests import deployment
from tests.e2e.running import NAMESPACE, USER, node_pool, refused_calls, wait_for_running

Json = dict[str, Any]
TOKENS = JoinTokens(mint=True)
TEMPLATE = (
    '{"labels": {{ growth.labels_json }}, "taints": {{ growth.taints_json }}, "token": "{{ growth.join_token }}"}\n'
)


def token_secret(changes: dict[str, str] | None = None, expires_in: float = 1500) -> Json:
    data = {
        "token-id": "abc123",
        "token-secret": "0123456789abcdef",
        "expiration": format_instant(time.time() + expires_in),
        "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true",
        "auth-extra-groups": TOKENS.group,
        **(changes or {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "bootstrap.kubernetes.io/token",
        "metadata": {
            "name": "bootstrap-token-abc123",
            "namespace": "kube-system",
            "labels": {REQUEST_LABEL: "default-pool-0123456789ab"},
        },
        "data": {key: b64encode(value.encode()).decode() for key, value in data.items() if value},
    }


def with_metadata(**changes: Any) -> Json:
    secret = token_secret()
    return {**secret, "metadata": {**secret["metadata"], **changes}}


REFUSED: dict[str, tuple[Callable[[], Json], str]] = {
    "another type": (lambda: {**token_secret(), "type": "Opaque"}, "only create and delete bootstrap tokens"),
    "no label of ours": (lambda: with_metadata(labels={}), "only create and delete bootstrap tokens"),
    "another namespace": (lambda: with_metadata(namespace="default"), "forbidden"),
    "a life of 31 minutes": (lambda: token_secret(expires_in=31 * 60), "expire within 30 minutes"),
    "a life for ever": (lambda: token_secret({"expiration": ""}), "expiration"),
    "an expiration that is none": (lambda: token_secret({"expiration": "the day after tomorrow"}), "expire"),
    "another group": (lambda: token_secret({"auth-extra-groups": "system:bootstrappers:admins"}), "in the group"),
    "two groups": (
        lambda: token_secret({"auth-extra-groups": f"{TOKENS.group},system:bootstrappers:b"}),
        "in the group",
    ),
    "something else in it": (lambda: token_secret({"more": "than that"}), "in the group"),
    "a usage that is not true": (lambda: token_secret({"usage-bootstrap-signing": "false"}), "in the group"),
}


def create(cluster: ControlPlane, kubeconfig: Path, item: Json) -> None:
    cluster.kubectl("create", "-f", "-", input=json.dumps(item), kubeconfig=kubeconfig)


@pytest.mark.refused("create secrets", "delete secrets", "get secrets")
def test_growth_may_create_and_delete_its_own_join_tokens_and_no_other_secret(cluster: ControlPlane) -> None:
    cluster.apply(*role_manifests(Features("hetzner"), NAMESPACE, tokens=TOKENS))
    growth = cluster.kubeconfig_for(USER)
    cluster.wait_until(lambda: policy_is_active(cluster, growth), "the policy is in force")
    cluster.wait_until(lambda: "typeChecking" in type_checked(cluster), "the policy's types were checked")
    assert type_checked(cluster)["typeChecking"] == {}, "the API server has no doubts about its expressions"
    answers = {what: refusal(cluster, growth, make()) for what, (make, _) in REFUSED.items()}
    assert {what: words in answers[what] for what, (_, words) in REFUSED.items()} == dict.fromkeys(REFUSED, True), (
        answers
    )
    create(cluster, growth, token_secret())
    with pytest.raises(KubectlError, match="forbidden"):
        cluster.kubectl("get", "secret", "bootstrap-token-abc123", "--namespace=kube-system", kubeconfig=growth)
    cluster.kubectl("create", "secret", "generic", "others", "--namespace=kube-system", "--from-literal=a=b")
    with pytest.raises(KubectlError, match="only create and delete bootstrap tokens"):
        cluster.kubectl("delete", "secret", "others", "--namespace=kube-system", "--wait=false", kubeconfig=growth)
    cluster.kubectl(
        "delete", "secret", "bootstrap-token-abc123", "--namespace=kube-system", "--wait=false", kubeconfig=growth
    )


def refusal(cluster: ControlPlane, kubeconfig: Path, item: Json) -> str:
    """What the API server says; empty if it took it."""
    try:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(item), kubeconfig=kubeconfig)
    except KubectlError as error:
        return str(error)
    return ""


def type_checked(cluster: ControlPlane) -> Json:
    [policy] = [
        item
        for item in cluster.objects("validatingadmissionpolicies")
        if item["metadata"]["name"] == "growth-join-tokens.growth.dev"
    ]
    status: Json = policy.get("status", {})
    return status


def policy_is_active(cluster: ControlPlane, kubeconfig: Path) -> bool:
    return "growth may only" in refusal(cluster, kubeconfig, {**token_secret(), "type": "Opaque"})


class Machines:
    """The machines' side: the token each was ordered with, and who its bearer then is to the API server."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster
        self.tokens: dict[str, str] = {}
        self.groups: dict[str, list[str]] = {}

    def look_on(self, request: FakeRequest, answer: FakeAnswer) -> None:
        if (request.method, request.path, answer.status) == ("POST", "/servers", 201):
            body = json.loads(request.body)
            self.tokens[body["name"]] = json.loads(body["user_data"])["token"]
            self.groups[body["name"]] = groups_of(self._cluster, self.tokens[body["name"]])


def groups_of(cluster: ControlPlane, token: str) -> list[str]:
    """As whom this token is let in; empty: as nobody."""
    try:
        told = cluster.kubectl("auth", "whoami", "-o", "json", kubeconfig=cluster.kubeconfig_with_token(token))
    except KubectlError as error:
        if "Unauthorized" in str(error):
            return []
        raise
    groups: list[str] = json.loads(told)["status"]["userInfo"]["groups"]
    return groups


def minted(cluster: ControlPlane) -> list[str]:
    found = cluster.objects("secrets", "--namespace=kube-system", f"--selector={REQUEST_LABEL}")
    return sorted(item["metadata"]["labels"][REQUEST_LABEL] for item in found)


def test_each_machine_is_ordered_with_a_token_that_works_and_is_gone_once_it_has_joined(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    with hetzner_beside(cluster) as fake, growth_at_hetzner(cluster, fake, tmp_path, TOKENS, TEMPLATE) as growth:
        machines = Machines(cluster)
        fake.api.look_on = machines.look_on
        cluster.apply(node_pool("default", "CX33"), deployment("web", 5, cpu="3", memory="2Gi"))
        cluster.wait_until(lambda: len(machines.tokens) >= 2, "two machines are ordered")
        growth.kill()
        growth.start()
        wait_for_running(cluster, 5)
        cluster.wait_until(lambda: minted(cluster) == [], "every token is deleted")
        names = sorted(item["metadata"]["name"] for item in cluster.objects("nodes"))
    assert sorted(machines.tokens) == names
    assert len(set(machines.tokens.values())) == len(fake.api.project.meter.bills) == 5
    assert all(TOKENS.group in groups for groups in machines.groups.values()), machines.groups
    assert [token for token in machines.tokens.values() if groups_of(cluster, token)] == [], (
        "nobody joins with a token that was used"
    )
    shown = growth.log_path.read_text() + json.dumps(
        [cluster.objects(kind, "--all-namespaces") for kind in ("events", "noderequests", "nodepools", "nodes")]
    )
    assert [token for token in machines.tokens.values() if token.partition(".")[2][:8] in shown] == []
    assert refused_calls(cluster) == []


@pytest.mark.refused("create secrets", "delete secrets")
def test_without_the_right_to_mint_nothing_is_ordered_and_the_request_says_why(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    with hetzner_beside(cluster) as fake, growth_at_hetzner(cluster, fake, tmp_path, TOKENS, TEMPLATE):
        cluster.kubectl("delete", "rolebinding", "growth-join-tokens", "--namespace=kube-system")
        cluster.apply(node_pool("default", "CX33"), deployment("web", 1, cpu="3", memory="2Gi"))
        cluster.wait_until(
            lambda: "no join token could be minted: apply the role" in str(cluster.objects("noderequests")),
            "the request says why",
        )
        assert not fake.api.project.meter.bills
