"""Does the chart install what growth needs, and no more? By helm itself, and by the real API server."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from growth.controllers.act.join_tokens import JoinTokens
from growth.controllers.act.role import features_of, lease_rights, rights, rules, token_manifests
from growth.controllers.configuration import load_configuration
from growth.kube.crds.buffer import buffer_definition
from growth.model.api import FINALIZER
from tests.e2e.chart import CHART, Helm, HelmError, Json, only
from tests.e2e.controlplane.cluster import ControlPlane, KubectlError
from tests.e2e.manifests import kwok_node, namespace
from tests.e2e.running import NAMESPACE, USER, node_pool

EVERYTHING = (
    "settings.joinTokens.mint=true",
    "serviceMonitor.enabled=true",
    "alerts.enabled=true",
    "dashboard.enabled=true",
)
BUFFERS = "capacitybuffers.autoscaling.x-k8s.io"
NEEDS_OPERATOR = ("ServiceMonitor", "PrometheusRule")


def growth(*arguments: str, kubeconfig: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "growth", *arguments, f"--kubeconfig={kubeconfig}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GROWTH_")}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def examined(kubeconfig: Path) -> tuple[int, dict[str, set[str]]]:
    """How the doctor ends, and the states that each of its checks found."""
    done = growth("doctor", "--output=json", kubeconfig=kubeconfig)
    states: dict[str, set[str]] = {}
    for finding in json.loads(done.stdout):
        states.setdefault(finding["check"], set()).add(finding["state"])
    return done.returncode, states


# --------------------------------------------------------------------------------------- helm alone


def test_helm_lint_has_nothing_to_complain_about(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm.lint()
    assert "0 chart(s) failed" in helm.lint(*EVERYTHING, "image.repository=a", "replicas=1")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("replica=1", "additional properties 'replica' not allowed"),
        ("settings.listenport=1", "additional properties 'listenport' not allowed"),
        ("settings.plans.removalAttempts=0", "/settings/plans/removalAttempts"),
        ("settings.provider=acme", "/settings/provider"),
        ("settings.namespace=other", "additional properties 'namespace' not allowed"),
        ("image.digest=latest", "/image/digest"),
        ("networkPolicy.apiServer.ports[0]=https", "/networkPolicy/apiServer/ports/0"),
        ("settings.leaderElection=false", "more than one needs settings.leaderElection"),
        ("image.repository=", "name the image that you built"),
    ],
)
def test_a_wrong_value_is_refused_by_name(helm: Helm, value: str, words: str) -> None:
    with pytest.raises(HelmError) as refused:
        helm.render(value)
    assert words in str(refused.value)


def test_the_settings_file_is_one_that_growth_takes(helm: Helm, tmp_path: Path) -> None:
    items = helm.render(
        "settings.observe=true",
        "settings.plans.readinessWaitSeconds=90",
        "settings.listenPort=9000",
        "catalogue=serverTypes: []",
        namespace="here",
    )
    data = only("ConfigMap", items)["data"]
    (tmp_path / "settings.yaml").write_text(data["settings.yaml"])
    found = load_configuration(tmp_path / "settings.yaml", {}, {})
    assert (found.namespace, found.listen_host, found.listen_port, found.observe) == ("here", "0.0.0.0", 9000, True)  # noqa: S104 - in a pod
    assert (found.plans.readiness_wait_seconds, found.catalogue) == (90.0, "/etc/growth/catalogue.yaml")
    assert yaml.safe_load(data["catalogue.yaml"]) == {"serverTypes": []}


def test_other_settings_make_other_pods_and_the_same_make_none(helm: Helm) -> None:
    digests = [
        _template(helm.render(*values))["metadata"]["annotations"]
        for values in ((), (), ("settings.observe=true",), ("catalogue=a: 1",))
    ]
    assert digests[0] == digests[1]
    assert len({str(each) for each in digests}) == 3


def granted(found: list[Json]) -> set[tuple[str, str, str]]:
    return {(rule["apiGroups"][0], rule["resources"][0], verb) for rule in found for verb in rule["verbs"]}


_KIND = "settings.plans.warmPools.kinds[0]"
_OWN_KIND = (f"{_KIND}.group=a.example", f"{_KIND}.version=v1", f"{_KIND}.plural=desks", f"{_KIND}.kind=Desk")


@pytest.mark.parametrize(
    "values",
    [
        (),
        ("settings.observe=true",),
        ("settings.provider=hetzner",),
        ("settings.featureGates=CapacityBuffer=false",),
        ("settings.featureGates=PoolAutoscaler=false", *_OWN_KIND),
        (r"settings.featureGates=PoolAutoscaler=false\,CapacityBuffer=false", "settings.observe=true"),
        ("settings.plans.scheduler.enabled=true",),
        ("settings.plans.scheduler.enabled=true", "settings.plans.scheduler.servesDefault=true"),
        ("settings.plans.scheduler.name=default-scheduler", "settings.observe=true"),
        ("settings.page.host=0.0.0.0",),
        _OWN_KIND,
        (*_OWN_KIND, f"{_KIND}.readsScale=true"),
        (*_OWN_KIND, "settings.observe=true"),
    ],
)
def test_the_roles_are_those_that_the_settings_need(helm: Helm, values: tuple[str, ...], tmp_path: Path) -> None:
    items = helm.render(*values)
    (tmp_path / "settings.yaml").write_text(only("ConfigMap", items)["data"]["settings.yaml"])
    features = features_of(load_configuration(tmp_path / "settings.yaml", {}, {}))
    found = granted(only("ClusterRole", items)["rules"])
    assert found == granted(rules(rights(features)))
    assert "*" not in {verb for _, _, verb in found}
    assert only("Role", items)["rules"] == rules(lease_rights(NAMESPACE, "growth"))


def test_metrics_are_closed_to_everybody_until_somebody_is_named(helm: Helm) -> None:
    assert only("NetworkPolicy", helm.render())["spec"]["ingress"] == []
    monitoring = "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring"
    opened = only("NetworkPolicy", helm.render(monitoring))["spec"]["ingress"]
    assert opened[0]["from"] == [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]
    assert [port["port"] for port in opened[0]["ports"]] == [8080]


def test_minting_join_tokens_brings_its_role_and_its_policy_and_only_if_it_is_turned_on(helm: Helm) -> None:
    def in_kube_system(*values: str) -> list[Json]:
        items = [
            item
            for item in helm.render(*values, release="mine", namespace="here")
            if "join-tokens" in item["metadata"]["name"]
        ]
        return sorted(items, key=lambda item: str(item["kind"]))

    group = "system:bootstrappers:k3s:default-node-token"
    assert in_kube_system() == in_kube_system("settings.joinTokens.mint=false") == []
    others = ("serviceAccount.name=other", f"settings.joinTokens.group={group}")
    for account, chosen, values in (("mine-growth", JoinTokens().group, ()), ("other", group, others)):
        wanted = sorted(token_manifests("mine-growth", account, "here", chosen), key=lambda item: str(item["kind"]))
        assert in_kube_system("settings.joinTokens.mint=true", *values) == wanted


def test_kinds_stay_when_the_release_goes(helm: Helm) -> None:
    kinds = [item for item in helm.render() if item["kind"] == "CustomResourceDefinition"]
    assert kinds
    assert all(item["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"} for item in kinds)
    assert [item for item in helm.render("crds.install=false") if item["kind"] == "CustomResourceDefinition"] == []


def test_the_standard_kind_of_buffers_comes_along_unless_it_is_turned_off(helm: Helm) -> None:
    def names(*values: str) -> set[str]:
        return {item["metadata"]["name"] for item in helm.render(*values) if item["kind"] == "CustomResourceDefinition"}

    assert names() - names("crds.capacityBuffers=false") == {"capacitybuffers.autoscaling.x-k8s.io"}


def test_two_releases_share_no_name_and_no_selector(helm: Helm) -> None:
    apart = ("crds.install=false",)
    both = [helm.render(*apart, release=release, namespace="shared") for release in ("growth", "second")]
    names = [{(item["kind"], item["metadata"]["name"]) for item in items} for items in both]
    assert names[0] & names[1] == set()
    assert only("Service", both[0])["spec"]["selector"] != only("Service", both[1])["spec"]["selector"]


def test_the_network_policy_lets_out_what_is_needed_and_nothing_else(helm: Helm) -> None:
    policy = only("NetworkPolicy", helm.render("networkPolicy.apiServer.cidrs={10.0.0.1/32}"))["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert [sorted(port["port"] for port in way["ports"]) for way in policy["egress"]] == [[53, 53], [443, 6443]]
    assert policy["egress"][1]["to"] == [{"ipBlock": {"cidr": "10.0.0.1/32"}}]


# ------------------------------------------------------------------------------ the real API server


def test_everything_rendered_is_taken_by_the_api_server(helm: Helm, cluster: ControlPlane) -> None:
    cluster.apply(namespace(NAMESPACE))
    items = [item for item in helm.render(*EVERYTHING) if item["kind"] not in NEEDS_OPERATOR]
    taken = cluster.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "--filename=-", input=yaml.safe_dump_all(items)
    )
    assert taken.count("(server dry run)") == len(items) > 10


def test_the_pod_meets_the_restricted_standard(helm: Helm, cluster: ControlPlane) -> None:
    restricted = namespace(NAMESPACE)
    restricted["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "restricted"}
    items = helm.render()
    cluster.apply(restricted, only("ServiceAccount", items))
    pod = _pod(items)
    cluster.kubectl("create", "--dry-run=server", "--validate=strict", "--filename=-", input=json.dumps(pod))
    loose = copy.deepcopy(pod)
    loose["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(KubectlError, match="violates PodSecurity"):
        cluster.kubectl("create", "--dry-run=server", "--filename=-", input=json.dumps(loose))


@pytest.mark.refused("get customresourcedefinitions", "get leases")
def test_the_doctor_is_content_under_the_rendered_role_and_says_so_when_a_right_is_missing(
    helm: Helm, cluster: ControlPlane
) -> None:
    items = helm.render("replicas=0")
    cluster.apply(namespace(NAMESPACE), *items)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    cluster.apply(node_pool("default", "CAX11"))
    kubeconfig = cluster.kubeconfig_for(USER)
    checks = ("API server", "clock", "kinds", "namespace", "rights", "leadership", "provider", "pools")
    well = {check: {"ok"} for check in checks}
    assert examined(kubeconfig) == (0, well)
    assert examined(cluster.kubeconfig) == (
        0,
        well,
    )  # an administrator may also read the definitions, and they are ours to the letter
    cluster.kubectl("delete", "rolebinding", "growth", f"--namespace={NAMESPACE}")
    cluster.wait_until(
        lambda: examined(kubeconfig) == (1, {**well, "rights": {"failed"}, "leadership": {"failed"}}),
        "the missing right to be noticed",
    )


def test_install_upgrade_and_uninstall_leave_nodes_kinds_and_pools_and_release_lets_them_go(
    helm: Helm, cluster: ControlPlane
) -> None:
    access = (f"--kubeconfig={cluster.kubeconfig}", f"--namespace={NAMESPACE}")
    values = ("--set=image.repository=registry.invalid/growth", "--set=replicas=0")
    helm("install", "growth", str(CHART), *access, "--create-namespace", *values)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    cluster.kubectl(
        "patch",
        "crd",
        "nodepools.growth.dev",
        "--type=json",
        '--patch=[{"op": "remove", "path": "/spec/names/shortNames"}]',
    )
    held = node_pool("default", "CAX11")
    held["metadata"]["finalizers"] = [FINALIZER]
    cluster.apply(held, kwok_node("default-pool-0123456789ab", labels={"growth.dev/pool": "default"}))
    helm("upgrade", "growth", str(CHART), *access, *values, "--set=settings.observe=true", "--force-conflicts")
    assert _definition(cluster)["spec"]["names"]["shortNames"] == ["np"], "the kinds are upgraded in place"
    assert "observe: true" in cluster.kubectl(
        "get", "configmap", "growth-settings", f"--namespace={NAMESPACE}", "-o", "yaml"
    )

    helm("uninstall", "growth", *access)
    assert cluster.objects("deployments", f"--namespace={NAMESPACE}") == []
    assert [item["metadata"]["name"] for item in cluster.objects("nodes")] == ["default-pool-0123456789ab"]
    cluster.kubectl("delete", "nodepool", "default", "--wait=false")
    assert [item["metadata"]["name"] for item in cluster.objects("nodepools")] == ["default"], (
        "our finalizer still holds it"
    )

    done = growth("release", kubeconfig=cluster.kubeconfig)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "released NodePool default")
    cluster.wait_until(lambda: cluster.objects("nodepools") == [], "the pool to go")
    assert [item["metadata"]["name"] for item in cluster.objects("nodes")] == ["default-pool-0123456789ab"]
    cluster.kubectl(
        "delete",
        "crd",
        "nodepools.growth.dev",
        "noderequests.growth.dev",
        "noderemovalrequests.growth.dev",
        "--timeout=30s",
    )


def test_the_kind_of_buffers_that_somebody_else_installed_is_left_alone_and_ours_is_upgraded(
    helm: Helm, cluster: ControlPlane
) -> None:
    access = (
        f"--kubeconfig={cluster.kubeconfig}",
        f"--namespace={NAMESPACE}",
        "--create-namespace",
        "--install",
        "--force-conflicts",
    )
    values = ("--set=image.repository=registry.invalid/growth", "--set=replicas=0")
    theirs = buffer_definition()
    theirs["metadata"]["labels"] = {"app": "somebody-elses"}
    theirs["spec"]["names"]["shortNames"] = ["theirs"]
    cluster.apply(theirs)
    helm("upgrade", "growth", str(CHART), *access, *values)
    after = _definition(cluster, BUFFERS)
    assert after["spec"]["names"]["shortNames"] == ["theirs"]
    assert (after["metadata"]["labels"], "meta.helm.sh/release-name" in str(after)) == (
        {"app": "somebody-elses"},
        False,
    )
    cluster.kubectl("delete", "crd", BUFFERS, "--timeout=30s")
    helm("upgrade", "growth", str(CHART), *access, *values)
    cluster.kubectl(
        "patch", "crd", BUFFERS, "--type=json", '--patch=[{"op": "remove", "path": "/spec/names/shortNames"}]'
    )
    helm("upgrade", "growth", str(CHART), *access, *values, "--set=settings.observe=true")
    assert _definition(cluster, BUFFERS)["spec"]["names"]["shortNames"] == ["cb"]
    policies = {item["metadata"]["name"] for item in cluster.objects("validatingadmissionpolicies")}
    assert "poolautoscalers-target.growth.dev" in policies


def _template(items: list[Json]) -> Json:
    template: Json = only("Deployment", items)["spec"]["template"]
    return template


def _pod(items: list[Json]) -> Json:
    template: dict[str, Any] = _template(items)
    metadata = {**template["metadata"], "name": "growth-0", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _definition(cluster: ControlPlane, name: str = "nodepools.growth.dev") -> Json:
    (found,) = [item for item in cluster.objects("crd") if item["metadata"]["name"] == name]
    return found
