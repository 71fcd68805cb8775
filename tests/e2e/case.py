"""One case of many that share a cluster and a running growth: nodes and pods of its own, made over one connection. For
e2e tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import deployment, kwok_node
from tests.e2e.running import GrowthProcess

Json = dict[str, Any]
GOODS: Final = "example.com/goods"  # a resource that a node has ten of, where a case counts
POD, NODE, SET = "/api/v1/namespaces/default/pods", "/api/v1/nodes", "/apis/apps/v1/namespaces/default/replicasets"


class Case:
    """Nodes, and pods that name no scheduler."""

    def __init__(self, cluster: ControlPlane, growth: GrowthProcess, name: str) -> None:
        self.cluster, self.growth, self.name = cluster, growth, name
        self.api = cluster.connect()

    def nodes(self, number: int = 1, *, taints: Sequence[Json] = (), goods: int = 10) -> list[str]:
        """Ready ones, each labelled with its own name under `site`."""
        names = [f"{self.name}-{place}" for place in range(len(self.at_rest(NODE)), 99)][:number]
        for name in names:
            made = kwok_node(name, labels={"site": name, "topology.kubernetes.io/zone": name}, taints=taints)
            for each in ("capacity", "allocatable"):
                made["status"][each] |= {GOODS: str(goods)}
            self.api.post(NODE, made)
        self.wait_until(
            lambda: {name_of(each) for each in self.at_rest(NODE) if _is_ready(each)} >= set(names), "Ready nodes"
        )
        return names

    def pod(
        self, name: str, goods: int = 0, *, where: str = "default", labels: Json | None = None, **spec: Any
    ) -> None:
        requests = {"cpu": "100m", "memory": "64Mi"} | ({GOODS: str(goods)} if goods else {}) | spec.pop("requests", {})
        limits = {key: value for key, value in requests.items() if "/" in key}
        resources = {"requests": requests, "limits": limits}
        container = {"name": "main", "image": "registry.invalid/main:1", "resources": resources}
        container |= {"ports": spec.pop("ports", [])}
        metadata = {"name": name, "labels": {"app": name, **(labels or {})}}
        body = {"metadata": metadata, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}}
        self.api.post(POD.replace("default", where), body)

    def replicas(self, name: str, count: int, *, labels: Json | None = None, **spec: Any) -> None:
        made = deployment(name, count)
        template = made["spec"]["template"]
        goods = str(spec.pop("goods", 1))
        resources = {"requests": {"cpu": "100m", GOODS: goods}, "limits": {GOODS: goods}}
        template["spec"] |= {"terminationGracePeriodSeconds": 0, **spec}
        template["spec"]["containers"][0]["resources"] = resources
        template["metadata"]["labels"] |= labels or {}
        self.api.post(SET, {**made, "kind": "ReplicaSet"})

    def pods(self, where: str = "default") -> dict[str, Json]:
        return {name_of(each): each for each in self.at_rest(POD.replace("default", where))}

    def at_rest(self, path: str) -> list[Json]:
        return [each for each in self.api.get(path)["items"] if not each["metadata"].get("deletionTimestamp")]

    def places(self) -> dict[str, str]:
        """The node of each pod that has one."""
        found = {name: each["spec"].get("nodeName", "") for name, each in self.pods().items()}
        return {name: node for name, node in found.items() if node}

    def change(self, path: str, body: Json) -> None:
        assert self.api.ask("PATCH", path, body, "application/merge-patch+json").good

    def wait_until(self, condition: Callable[[], object], what: str, seconds: float = 20.0) -> None:
        self.cluster.wait_until(condition, f"{self.name}: {what}", seconds)

    def expect_placed(self, name: str, node: str = "") -> None:
        """It gets a node, this one if one is named."""
        self.wait_until(lambda: name in self.places(), f"{name} has a node")
        assert not node or self.places()[name] == node

    def expect_waiting(self, name: str, because: str) -> None:
        """It is told that it has no place, and why, and has none."""
        self.wait_until(
            lambda: because in self.told(name), f"{name} is told: {because}; it was told: {self.told(name)}"
        )
        assert name not in self.places()

    def told(self, name: str) -> str:
        conditions = self.pods()[name]["status"].get("conditions", ())
        return " ".join(
            f"{each.get('reason')}: {each.get('message')}" for each in conditions if each["status"] != "True"
        )

    def clear(self) -> None:
        for path in (SET, SET.replace("replicasets", "daemonsets")):
            self.api.ask("DELETE", f"{path}?propagationPolicy=Background")
        for path in (POD, POD.replace("default", "kube-system")):
            self.api.ask("DELETE", f"{path}?gracePeriodSeconds=0")
        self.wait_until(lambda: not self.api.get(POD)["items"], "no pods are left")
        self.api.ask("DELETE", NODE)
        self.wait_until(lambda: not self.api.get(NODE)["items"], "no nodes are left")
        self.api.close()


def name_of(item: Json) -> str:
    return str(item["metadata"]["name"])


def _is_ready(node: Json) -> bool:
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", ()))
    return ready and not any("not-ready" in each["key"] for each in node["spec"].get("taints", ()))
