"""Does the real API server take our CustomResourceDefinitions, and refuse bad objects in plain words?"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from growth.kube.codec import Codec
from growth.model.nodepool import DisruptionBudget, NodePool
from growth.model.noderequest import NodeRemovalRequest, NodeRequest
from tests.e2e.controlplane.cluster import ControlPlane, KubectlError

Json = dict[str, Any]


@pytest.fixture
def growing(cluster: ControlPlane) -> ControlPlane:
    """A cluster with our kinds, installed as a person would."""
    printed = subprocess.run(
        [sys.executable, "-m", "growth", "crds"], capture_output=True, text=True, check=True
    ).stdout
    cluster.kubectl("apply", "--filename=-", input=printed)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    return cluster


def node_pool(name: str = "default", **spec: Any) -> Json:
    return _object("NodePool", name, {"serverTypes": [{"name": "CAX11"}], **spec})


def node_request(name: str = "default-pool-0123456789ab", **spec: Any) -> Json:
    return _object("NodeRequest", name, {"pool": "default", "targetOffering": "kwok-cax11", **spec})


def node_removal_request(name: str = "node-1", **spec: Any) -> Json:
    return _object("NodeRemovalRequest", name, {"nodeName": "node-1", "pool": "default", **spec})


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> Json:
    return {"apiVersion": "growth.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def patched(cluster: ControlPlane, what: str, patch: str, *arguments: str) -> str:
    return cluster.kubectl("patch", *what.split("/"), "--type=merge", f"--patch={patch}", *arguments)


FULL_POOL = {
    "priority": 10,
    "locations": ["fsn1", "nbg1"],
    "architectures": ["arm64"],
    "labels": {"team": "web", "example.com/tier": "front"},
    "annotations": {"example.com/note": "any text: 100 %"},
    "taints": [
        {"key": "dedicated", "value": "web", "effect": "NoSchedule"},
        {"key": "dedicated", "effect": "NoExecute"},
    ],
    "startupTaints": [{"key": "example.com/starting", "effect": "NoSchedule"}],
    "limits": {"nodes": 20, "cpu": "100", "memory": "1.5Ti", "pricePerHour": "3.50"},
    "allowedNamespaces": ["web"],
    "budgets": [
        {"nodes": "2"},
        {"nodes": "0", "schedule": "0 8 * * 1-5", "durationSeconds": 36000, "timeZone": "Europe/Berlin"},
    ],
    "consolidation": "Full",
    "bindPlannedPods": False,
    "expireAfterSeconds": 604800,
}

GOOD = {
    "the least a pool can say": node_pool(),
    "everything a pool can say": node_pool("full", **FULL_POOL),
    "a pool whose name has 40 characters": node_pool("a" * 40),
    "types with bounds": node_pool(
        "bounded", serverTypes=[{"name": "CAX11", "min": 1, "max": 1}, {"name": "cax21", "max": 3, "priority": -5}]
    ),
    "a request": node_request(
        resources={"cpu": "2", "memory": "4Gi", "example.com/gpu": "1"}, plannedPods=["web/a", "web/b"]
    ),
    "a removal": node_removal_request(offering="kwok-cax11", machineID="17", reason="idle for 60 s"),
}

BAD = {
    "a pool without a spec": ({**node_pool(), "spec": None}, "spec: Required value"),
    "a pool that names no type": (node_pool(serverTypes=[]), "spec.serverTypes in body should have at least 1 items"),
    "a pool whose name is too long": (node_pool("a" * 41), "at most 40 characters"),
    "a type named twice": (node_pool(serverTypes=[{"name": "CAX11"}, {"name": "CAX11"}]), "Duplicate value"),
    "a type named twice in other letters": (
        node_pool(serverTypes=[{"name": "CAX11"}, {"name": "cax11"}]),
        "case does not matter",
    ),
    "min above max": (
        node_pool(serverTypes=[{"name": "CAX11", "min": 3, "max": 2}]),
        "min must not be larger than max",
    ),
    "a negative min": (node_pool(serverTypes=[{"name": "CAX11", "min": -1}]), "should be greater than or equal to 0"),
    "a count that is no number": (node_pool(serverTypes=[{"name": "CAX11", "max": "many"}]), "must be of type integer"),
    "an unknown architecture": (node_pool(architectures=["mips"]), 'supported values: "amd64", "arm64"'),
    "a bad quantity": (node_pool(limits={"cpu": "12 cores"}), "spec.limits.cpu in body should match"),
    "a bad price": (node_pool(limits={"pricePerHour": "cheap"}), "spec.limits.pricePerHour in body should match"),
    "a label value of 300 characters": (node_pool(labels={"team": "x" * 300}), "63"),
    "a label key of 318 characters": (node_pool(labels={"x" * 318: ""}), "at most 317 characters"),
    "a label key that ends in a line break": (node_pool(labels={"team\n": ""}), "letters, digits"),
    "a label that is growth's own": (node_pool(labels={"growth.dev/pool": "mine"}), "growth itself writes"),
    "51 labels": (node_pool(labels={f"l{number}": "" for number in range(51)}), "must have at most 50 items"),
    "an unknown effect": (
        node_pool(taints=[{"key": "a", "effect": "Never"}]),
        'supported values: "NoExecute", "NoSchedule", "PreferNoSchedule"',
    ),
    "a taint twice": (node_pool(taints=[{"key": "a", "effect": "NoExecute"}] * 2), "Duplicate value"),
    "a budget of more than all": (node_pool(budgets=[{"nodes": "101%"}]), "spec.budgets[0].nodes in body should match"),
    "a schedule without an end": (
        node_pool(budgets=[{"schedule": "0 8 * * *"}]),
        "schedule and durationSeconds go together",
    ),
    "a zone without a schedule": (node_pool(budgets=[{"timeZone": "Europe/Berlin"}]), "timeZone needs a schedule"),
    "an unknown consolidation": (node_pool(consolidation="Sometimes"), 'supported values: "Full", "Off", "WhenEmpty"'),
    "a request without a pool": (
        _object("NodeRequest", "a", {"targetOffering": "kwok-cax11"}),
        "spec.pool: Required value",
    ),
    "a request of a pool with a long name": (node_request(pool="a" * 41), "at most 40 characters"),
    "a request with a long name": (node_request("a" * 64), "at most 63 characters"),
    "a request for a bad amount": (node_request(resources={"cpu": "lots"}), "spec.resources.cpu in body should match"),
    "a request for 1001 pods": (
        node_request(plannedPods=[f"a/{number}" for number in range(1001)]),
        "must have at most 1000 items",
    ),
    "a removal named otherwise than its node": (node_removal_request("other"), "named after its node"),
    "a removal of no node": (
        node_removal_request(nodeName=""),
        "spec.nodeName in body should be at least 1 chars long",
    ),
}


def test_good_objects_are_taken_and_read_back_as_they_were_meant(growing: ControlPlane) -> None:
    growing.apply(*GOOD.values())
    codec = Codec()
    bodies = {
        kind: growing.kubectl("get", "--raw", f"/apis/growth.dev/v1alpha1/{kind}")
        for kind in ("nodepools", "noderequests", "noderemovalrequests")
    }
    nouns = [codec.decode(kind, item).noun for kind, item in _items(bodies)]
    assert [type(noun) for noun in nouns] == [NodePool] * 4 + [NodeRequest, NodeRemovalRequest], nouns
    pools = {noun.name: noun for noun in nouns if isinstance(noun, NodePool)}
    assert pools["default"].spec.budgets == (DisruptionBudget(nodes="10%"),)
    assert pools["full"].spec.limits.memory == "1.5Ti"


def _items(bodies: Mapping[str, str]) -> list[tuple[str, bytes]]:
    return [(item["kind"], json.dumps(item).encode()) for body in bodies.values() for item in json.loads(body)["items"]]


def test_bad_objects_are_refused_and_told_why(growing: ControlPlane) -> None:
    wrong = []
    for what, (manifest, words) in BAD.items():
        try:
            growing.kubectl(
                "create", "--validate=ignore", "--filename=-", input=json.dumps(manifest)
            )  # so that the server answers, not kubectl
            wrong.append(f"{what}: taken")
        except KubectlError as error:
            if words not in str(error):
                wrong.append(f"{what}: {error}")
    assert not wrong, "\n".join(wrong)


def test_a_misspelt_field_is_named(growing: ControlPlane) -> None:
    with pytest.raises(KubectlError, match='unknown field "serverType"'):
        growing.apply(node_pool(serverType=[]))


def test_what_was_ordered_cannot_be_changed_but_its_status_can(growing: ControlPlane) -> None:
    growing.apply(node_request(), node_removal_request())
    with pytest.raises(KubectlError, match="spec cannot be changed"):
        patched(growing, "nodeRequest/default-pool-0123456789ab", '{"spec": {"targetOffering": "kwok-cax21"}}')
    with pytest.raises(KubectlError, match="nodeName and pool cannot be changed"):
        patched(growing, "nodeRemovalRequest/node-1", '{"spec": {"pool": "other"}}')
    patched(
        growing,
        "nodeRequest/default-pool-0123456789ab",
        '{"status": {"phase": "Provisioning", "machineID": "17"}}',
        "--subresource=status",
    )
    patched(growing, "nodeRemovalRequest/node-1", '{"spec": {"machineID": "17"}}')
    assert growing.objects("noderequests")[0]["status"]["machineID"] == "17"


def test_phases_do_not_go_back(growing: ControlPlane) -> None:
    growing.apply(node_request(), node_removal_request())
    patched(growing, "nr/default-pool-0123456789ab", '{"status": {"phase": "Unmet"}}', "--subresource=status")
    with pytest.raises(KubectlError, match="does not go back"):
        patched(growing, "nr/default-pool-0123456789ab", '{"status": {"phase": "Pending"}}', "--subresource=status")
    patched(growing, "nrr/node-1", '{"status": {"phase": "RemovalFailed"}}', "--subresource=status")
    with pytest.raises(KubectlError, match="RemovalFailed is final"):
        patched(growing, "nrr/node-1", '{"status": {"phase": "Deprovisioning"}}', "--subresource=status")


def test_a_status_written_as_a_spec_is_ignored(growing: ControlPlane) -> None:
    growing.apply({**node_request(), "status": {"phase": "Ready"}})
    assert growing.objects("noderequests")[0]["status"]["phase"] == "Pending"


def test_whoever_asks_for_the_removal_of_a_node_must_be_allowed_to_delete_it(growing: ControlPlane) -> None:
    user = growing.kubeconfig_for("alice")
    removals = "--resource=noderemovalrequests.growth.dev"
    growing.kubectl("create", "clusterrole", "writer", "--verb=create,get,patch,update,delete", removals)
    growing.kubectl("create", "clusterrole", "remover", "--verb=delete", "--resource=nodes", "--resource-name=node-1")
    for role in ("writer", "remover"):
        growing.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", "--user=alice")

    def create(name: str) -> str:
        item = node_removal_request(name, nodeName=name)
        try:
            return growing.kubectl("create", "--filename=-", input=json.dumps(item), kubeconfig=user)
        except KubectlError as error:
            return str(error)

    growing.wait_until(lambda: "right to delete node control-1" in create("control-1"), "the policy is in force")
    growing.wait_until(lambda: "created" in create("node-1"), "what she may delete she may have removed")
    with pytest.raises(KubectlError, match="nodeName and pool cannot be changed"):
        patched(growing, "noderemovalrequest/node-1", '{"spec": {"nodeName": "control-1"}}', f"--kubeconfig={user}")


def test_get_reads_well(growing: ControlPlane) -> None:
    growing.apply(node_pool(), node_request(location="fsn1"), node_removal_request(reason="idle for 60 s"))
    ready = (
        '{"type": "Ready", "status": "True", "reason": "CanBuy", "message": "", '
        '"lastTransitionTime": "2026-03-29T01:30:00Z"}'
    )
    patched(
        growing,
        "np/default",
        f'{{"status": {{"nodes": 2, "inFlight": 1, "pricePerHour": "0.021", "conditions": [{ready}]}}}}',
        "--subresource=status",
    )
    patched(
        growing,
        "nr/default-pool-0123456789ab",
        '{"status": {"phase": "Ready", "nodeID": "node-1"}}',
        "--subresource=status",
    )
    lines = [line.split() for line in growing.kubectl("get", "np,nr,nrr").splitlines() if line]
    assert lines[0] == ["NAME", "READY", "NODES", "IN", "FLIGHT", "PRICE/H", "AGE"]
    assert lines[1][:-1] == ["nodepool.growth.dev/default", "True", "2", "1", "0.021"]
    assert lines[2] == ["NAME", "PHASE", "POOL", "OFFERING", "LOCATION", "NODE", "AGE"]
    assert lines[3][:-1] == [
        "noderequest.growth.dev/default-pool-0123456789ab",
        "Ready",
        "default",
        "kwok-cax11",
        "fsn1",
        "node-1",
    ]
    assert lines[4] == ["NAME", "PHASE", "NODE", "POOL", "ATTEMPT", "REASON", "AGE"]
    assert lines[5][:-1] == [
        "noderemovalrequest.growth.dev/node-1",
        "Pending",
        "node-1",
        "default",
        "0",
        "idle",
        "for",
        "60",
        "s",
    ]
    assert "nodepool.growth.dev/default" in growing.kubectl("get", "growth")
    assert "Server type as the provider names it" in growing.kubectl("explain", "nodepool.spec.serverTypes.name")
