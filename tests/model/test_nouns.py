"""What the nouns say of themselves."""

from __future__ import annotations

import pytest

from growth.model.decision import About
from growth.model.disruption import PodDisruptionBudget
from growth.model.labels import Labels
from growth.model.malformed import Malformed
from growth.model.node import POOL_LABEL, SCALE_DOWN_AT, SCALE_DOWN_TAINT, STARTUP_TAINT, Node, Taint
from growth.model.nodepool import PAUSED, NodePool, NodePoolSpec, ServerTypeChoice
from growth.model.noderequest import NodeRequest, NodeRequestSpec, NodeRequestStatus, RequestPhase
from growth.model.offering import CLUSTER_LABEL, REQUEST_UID_LABEL, Machine, Offering
from growth.model.pod import Owner, Pod, PodShape
from growth.model.volumes import Claim


@pytest.mark.parametrize(
    ("owner", "phase", "mirror", "works"),
    [
        (None, "Running", False, True),
        (Owner("ReplicaSet", "web"), "Pending", False, True),
        (Owner("DaemonSet", "agent"), "Running", False, False),
        (None, "Running", True, False),
        (None, "Succeeded", False, False),
        (None, "Failed", False, False),
    ],
)
def test_daemons_mirrors_and_finished_pods_are_no_work(
    owner: Owner | None, phase: str, mirror: bool, works: bool
) -> None:
    assert Pod("a", PodShape(), owner=owner, phase=phase, is_mirror=mirror).counts_as_work is works


def test_keys_are_namespace_and_name() -> None:
    assert Pod("a", PodShape(namespace="web")).key == "web/a"
    assert Claim("web", "data").key == PodDisruptionBudget("web", "data").key == "web/data"
    assert str(About("Pod", "a", "web")) == "Pod web/a"
    assert str(About("Node", "a")) == "Node a"


def test_a_node_knows_whether_it_is_marked_or_starting_and_its_labels_do_not_say_its_pool() -> None:
    node = Node("a", Labels({POOL_LABEL: "web"}), taints=(STARTUP_TAINT,))
    assert (node.pool, node.is_starting, node.is_marked) == ("", True, False)
    assert Node("a", pool="web", taints=(SCALE_DOWN_TAINT,)).is_marked
    assert Node("a", pool="web", annotations=Labels({SCALE_DOWN_AT: "2026-03-29T01:30:00Z"})).is_marked
    assert not Node("a", taints=(SCALE_DOWN_TAINT,)).is_marked, "a stranger's"
    assert Node("a").pool == ""


def test_taints_read_as_kubectl_shows_them() -> None:
    assert str(Taint("gpu", "true", "NoSchedule")) == "gpu=true:NoSchedule"
    assert str(SCALE_DOWN_TAINT) == "growth.dev/scale-down:NoSchedule"


@pytest.mark.parametrize(
    ("phase", "in_flight"),
    [("Pending", True), ("Provisioning", True), ("Ready", False), ("Unmet", False), ("Deprovisioning", False)],
)
def test_a_request_is_in_flight_until_its_node_serves(phase: RequestPhase, in_flight: bool) -> None:
    spec = NodeRequestSpec("web", "kwok-cax11")
    assert NodeRequest("a", spec, NodeRequestStatus(phase)).is_in_flight is in_flight
    assert not NodeRequest("a", spec, NodeRequestStatus(phase), deleted_at=1.0).is_in_flight


def test_a_pool_is_paused_by_its_annotation_alone() -> None:
    spec = NodePoolSpec((ServerTypeChoice("CAX11"),))
    assert NodePool("web", spec, annotations={PAUSED: "true"}).is_paused
    assert not NodePool("web", spec, annotations={PAUSED: "false"}).is_paused
    assert not NodePool("web", spec).is_paused


def test_an_offering_is_in_its_location_unless_its_labels_name_a_zone() -> None:
    offering = Offering("kwok-cax11", "CAX11", "fsn1", 0.1)
    assert (offering.zone, offering.architecture) == ("fsn1", "amd64")
    named = Offering(
        "kwok-cax11",
        "CAX11",
        "fsn1",
        0.1,
        labels=Labels({"topology.kubernetes.io/zone": "z", "kubernetes.io/arch": "arm64"}),
    )
    assert (named.zone, named.architecture) == ("z", "arm64")


def test_a_machine_says_whose_it_is() -> None:
    machine = Machine("17", "a", labels=Labels({CLUSTER_LABEL: "c", REQUEST_UID_LABEL: "u"}))
    assert (machine.cluster, machine.request_uid) == ("c", "u")


def test_a_malformed_object_reads_as_a_sentence() -> None:
    assert str(Malformed("NodePool", "web", "spec: there is none")) == "NodePool web: spec: there is none"
    assert Malformed("PodDisruptionBudget", "a", "…", "web").key == "web/a"
