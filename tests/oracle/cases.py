"""Random cases, each with its weight on one rule, so that every rule decides often. Asked by `make oracle` and by the
hypothesis test.

A case starts as one that fits: plain nodes, plain pods. Then the rule in focus gets its parts on both sides, the others
a few."""

from __future__ import annotations

from random import Random

from tests.oracle import objects
from tests.oracle.draws import NAMESPACES, Draws, Json
from tests.oracle.storage import Storage

RULES = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
)


def random_case(random: Random, focus: str | None = None) -> Json:
    return _Builder(Draws(random), focus or Draws(random).one(RULES)).build()


class _Builder:
    def __init__(self, draws: Draws, focus: str) -> None:
        self._draws = draws
        self._focus = focus
        names = [f"n{number}" for number in range(draws.number(2, 5))]
        self._nodes = [objects.node(draws, name) for name in names]
        self._bound = [
            self._bind(objects.pod(draws, f"p{number}", 0.25), draws.one(names)) for number in range(draws.number(0, 8))
        ]
        self._pod = objects.pod(draws, "new", 0.25)
        self._storage = Storage(draws, names)

    @staticmethod
    def _bind(pod: Json, node: str) -> Json:
        pod["spec"]["nodeName"] = node
        pod["status"]["phase"] = "Running"
        return pod

    def build(self) -> Json:
        draws = self._draws
        for rule in RULES:
            if rule == self._focus or draws.chance(0.06):
                getattr(self, f"_about_{rule}")()
        for pod in self._bound:
            if draws.chance(0.05):
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            if draws.chance(0.08):
                objects.resize(draws, pod)
            if draws.chance(0.04):
                pod["status"]["phase"] = draws.one(("Succeeded", "Failed"))
        compares = {"comparisonOperators": draws.chance(0.4)}
        case: Json = {"id": 0, "settings": compares, "nodes": self._nodes, "pods": self._bound, "pod": self._pod}
        case["namespaces"] = [objects.namespace(draws, name) for name in NAMESPACES if draws.chance(0.9)]
        if self._storage.claims:
            case["persistentVolumes"], case["persistentVolumeClaims"] = self._storage.volumes, self._storage.claims
        case["storageClasses"], case["csiNodes"] = self._storage.classes, self._storage.csi_nodes
        return case

    def _about_NodeUnschedulable(self) -> None:  # noqa: N802  (the rule's own name)
        for node in self._draws.at_least_one(self._nodes):
            node["spec"]["unschedulable"] = True
        if self._draws.chance(0.4):
            taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
            chosen = self._draws.one(
                (
                    {"operator": "Exists"},
                    {**taint, "operator": "Exists"},
                    taint,
                    {**taint, "value": "x"},
                    {**taint, "effect": "NoExecute"},
                )
            )
            self._pod["spec"]["tolerations"] = [chosen]

    def _about_NodeName(self) -> None:  # noqa: N802
        self._pod["spec"]["nodeName"] = self._draws.one(("n0", "n1", "elsewhere"))

    def _about_TaintToleration(self) -> None:  # noqa: N802
        draws = self._draws
        for node in draws.at_least_one(self._nodes):
            made = {
                (taint["key"], taint["effect"]): taint
                for taint in (objects.taint(draws) for _ in range(draws.number(1, 2)))
            }
            node["spec"]["taints"] = list(made.values())
        tolerations = [objects.toleration(draws) for _ in range(draws.number(0, 3))]
        self._pod["spec"]["tolerations"] = self._pod["spec"].get("tolerations", []) + tolerations

    def _about_NodeAffinity(self) -> None:  # noqa: N802
        draws = self._draws
        if draws.chance(0.4):
            self._pod["spec"]["nodeSelector"] = {"disktype": draws.one(("ssd", "hdd"))}
        if "nodeSelector" not in self._pod["spec"] or draws.chance(0.4):
            objects.node_affinity(draws, self._pod)

    def _about_NodePorts(self) -> None:  # noqa: N802
        draws = self._draws
        for pod in (self._pod, *draws.some(self._bound, 0.7)):
            ports = {
                (port["hostPort"], port["protocol"], port.get("hostIP")): port
                for port in (objects.host_port(draws) for _ in range(draws.number(1, 2)))
            }
            pod["spec"]["containers"][0]["ports"] = [
                port | {"containerPort": number + 80} for number, port in enumerate(ports.values())
            ]

    def _about_NodeResourcesFit(self) -> None:  # noqa: N802
        """Often exactly full, or one unit short."""
        draws = self._draws
        resources = self._pod["spec"]["containers"][0]["resources"]
        resources["requests"] = {
            "cpu": draws.one(("4", "4001m", "3900m", "1", "0")),
            "memory": draws.one(("8Gi", "8589934593", "1Gi")),
        }
        resources["limits"] = {}
        if draws.chance(0.3):
            resources["requests"][objects.GPU] = resources["limits"][objects.GPU] = str(draws.number(1, 3))
        for node in draws.some(self._nodes):
            node["status"]["allocatable"]["pods"] = str(draws.number(0, 3))
        for pod in draws.some(self._bound, 0.3):
            pod["spec"]["containers"][0]["resources"]["requests"] = {
                "cpu": draws.one(("100m", "3", "1")),
                "memory": draws.one(("1Gi", "7Gi")),
            }
            pod["spec"]["containers"][0]["resources"]["limits"] = {}

    def _about_VolumeRestrictions(self) -> None:  # noqa: N802
        draws = self._draws
        if draws.chance(0.5):
            for pod in (self._pod, *draws.some(self._bound, 0.8)):
                self._storage.use(pod, "disk")
        else:
            self._storage.use(self._pod, "bound")
            claim = self._storage.claims[-1]
            claim["spec"]["accessModes"] = ["ReadWriteOncePod"] if draws.chance(0.8) else ["ReadWriteOnce"]
            for pod in draws.some(self._bound, 0.4):
                pod["metadata"]["namespace"] = (
                    self._pod["metadata"]["namespace"] if draws.chance(0.8) else draws.one(NAMESPACES)
                )
                pod["spec"]["volumes"] = [
                    {"name": "v", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
                ]

    def _about_NodeVolumeLimits(self) -> None:  # noqa: N802
        draws = self._draws
        for pod in draws.some(self._bound, 0.7):
            self._storage.use(pod, draws.one(("bound", "shared", "waiting", "ephemeral")))
        for _ in range(draws.number(1, 3)):
            self._storage.use(self._pod, draws.one(("bound", "bound", "shared", "waiting", "ephemeral")))

    def _about_VolumeBinding(self) -> None:  # noqa: N802
        for _ in range(self._draws.number(1, 2)):
            self._storage.use(
                self._pod, self._draws.one(("bound", "waiting", "waiting", "waiting", "ephemeral", "missing", "broken"))
            )

    def _about_VolumeZone(self) -> None:  # noqa: N802
        draws = self._draws
        self._storage.use(self._pod, "bound")
        if self._storage.volumes and draws.chance(0.9):
            volume = self._storage.volumes[-1]
            volume["spec"].pop("nodeAffinity", None)
            volume["metadata"]["labels"][
                draws.one(("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"))
            ] = draws.one(("a", "b", "b__c"))

    def _about_PodTopologySpread(self) -> None:  # noqa: N802
        draws = self._draws
        constraints = {
            (made["topologyKey"], made["whenUnsatisfiable"]): made
            for made in (objects.spread(draws) for _ in range(draws.number(1, 2)))
        }
        self._pod["spec"]["topologySpreadConstraints"] = list(constraints.values())
        for pod in draws.some(self._bound, 0.7):
            pod["metadata"]["namespace"] = self._pod["metadata"]["namespace"]
            pod["metadata"]["labels"]["app"] = objects.sibling_app(draws, self._pod)

    def _about_InterPodAffinity(self) -> None:  # noqa: N802
        draws = self._draws
        if draws.chance(0.5):
            objects.require(self._pod, "podAffinity", [objects.pod_term(draws) for _ in range(draws.number(1, 2))])
        if draws.chance(0.5):
            objects.require(self._pod, "podAntiAffinity", [objects.pod_term(draws) for _ in range(draws.number(1, 2))])
        for pod in draws.some(self._bound, 0.4):
            objects.require(pod, "podAntiAffinity", [objects.pod_term(draws) for _ in range(draws.number(1, 2))])
        for pod in draws.some(self._bound, 0.5):
            pod["metadata"]["namespace"] = self._pod["metadata"]["namespace"]
