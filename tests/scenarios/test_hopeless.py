"""One pod that can run nowhere, whatever rule keeps it out, stops nothing: nodes that are not needed go, dear ones are
replaced and old ones are renewed as if it were not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from growth.controllers.loop.journal import be_quiet
from growth.sim.scenarios.result import Result
from growth.sim.scenarios.sweep import Job, run_job

Json = dict[str, Any]

WORLD = """
name: hopeless
duration: 50m
catalogue:
  locations: [{name: a}]
  serverTypes:
    - {name: big, cpu: "16", memory: 32Gi, pricePerHour: 0.2, allocatable: {cpu: "16", memory: 32Gi}}
    - {name: small, cpu: "2", memory: 4Gi, pricePerHour: 0.01, allocatable: {cpu: "2", memory: 4Gi}}
steps:
  - {at: 4m, delete: {kind: Deployment, name: large}}
  - {at: 6m, scale: {kind: Deployment, name: first, replicas: 2}}
  - {at: 6m, scale: {kind: Deployment, name: second, replicas: 2}}
objects:
  - apiVersion: growth.dev/v1alpha1
    kind: NodePool
    metadata: {name: default}
    spec:
      serverTypes: [{name: big}, {name: small}]
      consolidation: Full
      expireAfterSeconds: 1800
      budgets: [{nodes: "100%"}]
  - apiVersion: growth.dev/v1alpha1
    kind: NodePool
    metadata: {name: tainted}
    spec: {serverTypes: [{name: small}], taints: [{key: gpu, value: "true", effect: NoSchedule}]}
  - apiVersion: growth.dev/v1alpha1
    kind: NodePool
    metadata: {name: separate}
    spec: {serverTypes: [{name: small}]}
  - apiVersion: growth.dev/v1alpha1
    kind: NodePool
    metadata: {name: full}
    spec: {serverTypes: [{name: small}], limits: {cpu: "1"}}
  - apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: agent}
    spec:
      selector: {matchLabels: {app: agent}}
      template:
        metadata: {labels: {app: agent}}
        spec:
          tolerations: [{operator: Exists}]
          containers:
            - name: main
              image: agent
              ports: [{containerPort: 9100, hostPort: 9100}]
              resources: {requests: {cpu: 50m, memory: 32Mi}}
  - apiVersion: v1
    kind: PersistentVolume
    metadata: {name: far}
    spec:
      capacity: {storage: 1Gi}
      accessModes: [ReadWriteOnce]
      storageClassName: local
      claimRef: {namespace: default, name: far}
      nodeAffinity:
        required:
          nodeSelectorTerms:
            - matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [mars]}]
  - apiVersion: v1
    kind: PersistentVolumeClaim
    metadata: {name: far}
    spec:
      accessModes: [ReadWriteOnce]
      storageClassName: local
      volumeName: far
      resources: {requests: {storage: 1Gi}}
    status: {phase: Bound}
"""

OF_THE_ZONE = {"topologyKey": "topology.kubernetes.io/zone"}
OF_THE_HOST = {"topologyKey": "kubernetes.io/hostname"}
SPREAD = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


def _nodes(**expression: Any) -> Json:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _pods(kind: str, **term: Any) -> Json:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _selected(**labels: str) -> Json:
    return {"labelSelector": {"matchLabels": labels}}


def _claim(name: str) -> Json:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


HOPELESS: dict[str, Json] = {
    "selector": {"nodeSelector": {"disk": "ssd"}},
    "architecture": {"nodeSelector": {"kubernetes.io/arch": "arm64"}},
    "node affinity": _nodes(key="topology.kubernetes.io/zone", operator="In", values=["mars"]),
    "missing pool": {"nodeSelector": {"growth.dev/pool": "nope"}},
    "taint": {"nodeSelector": {"growth.dev/pool": "tainted"}},
    "limit": {"nodeSelector": {"growth.dev/pool": "full"}},
    "pod affinity": _pods("podAffinity", **_selected(app="nobody"), **OF_THE_HOST),
    "anti-affinity": _pods("podAntiAffinity", **_selected(app="agent"), **OF_THE_HOST),
    "spread over hosts": {
        "topologySpreadConstraints": [SPREAD | OF_THE_HOST | _selected(app="agent") | {"minDomains": 500}],
        "labels": {"app": "agent"},
    },
    "spread over zones": {
        "topologySpreadConstraints": [SPREAD | OF_THE_ZONE | _selected(app="agent") | {"minDomains": 3}],
        "labels": {"app": "agent"},
    },
    "spread over something unknown": {
        "topologySpreadConstraints": [SPREAD | {"topologyKey": "rack"} | _selected(app="first")]
    },
    "missing claim": _claim("nowhere"),
    "claim of another zone": _claim("far"),
    "resource claim": {"resourceClaims": [{"name": "device", "resourceClaimName": "nowhere"}]},
    "resource claim of a pod that needs a machine": {
        "resourceClaims": [{"name": "device", "resourceClaimTemplateName": "device"}],
        "requests": {"cpu": "1900m"},
        "nodeSelector": {"growth.dev/pool": "separate"},
    },
    "host port": {"ports": [{"containerPort": 9100, "hostPort": 9100}]},
    "too large": {"requests": {"cpu": "500"}},
    "DaemonSets take the rest": {"requests": {"cpu": "16"}},
    "a device that nobody sells": {"requests": {"nvidia.com/gpu": "1"}},
    "priority": {
        "priority": -100,
        "nodeSelector": {"growth.dev/pool": "tainted"},
        "tolerations": [{"operator": "Exists"}],
    },
    "priority, though a node that goes has room": {"priority": -100, "requests": {"cpu": "15500m"}},
    "gate": {"schedulingGates": [{"name": "example.com/wait"}]},
    "gang": {"annotations": {"growth.dev/gang": "team", "growth.dev/gang-size": "50"}, "schedulerName": "growth"},
    "another scheduler": {"schedulerName": "somebody-else", "requests": {"cpu": "1900m"}},
}


def _deployment(name: str, replicas: int, wish: Json) -> Json:
    """`wish`: of its pods' spec, and what belongs to the container or to their metadata."""
    wish = dict(wish)
    annotations, ports = wish.pop("annotations", {}), wish.pop("ports", [])
    requests = {"cpu": "100m", "memory": "64Mi"} | wish.pop("requests", {})
    devices = {key: amount for key, amount in requests.items() if "/" in key}
    container = {"name": "main", "image": name, "resources": {"requests": requests, "limits": devices}, "ports": ports}
    labels = {"app": name, "team": name} | wish.pop("labels", {})
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": {**wish, "containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"team": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def _outcome(path: Path, wish: Json | None) -> Result:
    be_quiet()
    content = msgspec.yaml.decode(WORLD.encode())
    # the two of a node part ways at 6 min: half of the nodes are enough then
    content["objects"] += [
        _deployment("large", 1, {"requests": {"cpu": "12", "memory": "1Gi"}}),
        _deployment("first", 4, {"requests": {"cpu": "900m"}}),
        _deployment("second", 4, {"requests": {"cpu": "900m"}}),
        *([] if wish is None else [_deployment("hopeless", 1, wish)]),
    ]
    path.write_bytes(msgspec.yaml.encode(content))
    return run_job(Job(str(path))).result


def _ending(found: Result) -> tuple[Any, ...]:
    return (found.nodes.by_offering, found.cost.per_hour_at_end, found.pods.running, found.pods.killed)


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Result:
    found = _outcome(tmp_path_factory.mktemp("without") / "world.yaml", None)
    assert found.nodes.by_offering == {"sim-small": 2}  # the dear one was replaced, of the others half are left
    assert found.machines.bought >= 5  # and those were renewed
    return found


@pytest.mark.parametrize("kind", HOPELESS)
def test_a_pod_that_can_run_nowhere_stops_nothing(kind: str, without: Result, tmp_path: Path) -> None:
    found = _outcome(tmp_path / "world.yaml", HOPELESS[kind])
    assert found.pods.pending == 1
    assert _ending(found) == _ending(without)
    assert found.machines.given_back - found.machines.in_vain >= 3  # the dear one, and two that were old
    assert found.laws_broken == ()
