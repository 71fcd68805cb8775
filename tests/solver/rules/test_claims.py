"""What a pod's volumes demand, for every state a claim can be in."""

from __future__ import annotations

from typing import Any

import pytest

from growth.model.labels import Labels, NodeSelectorTerm, Requirement
from growth.model.pod import PodShape, VolumeUse
from growth.model.snapshot import VolumeWorld
from growth.model.volumes import Claim, StorageClass, Volume
from growth.solver.reasons import Kind, Rule
from growth.solver.rules.claims import Attachment, volume_needs

IN_Z1 = (NodeSelectorTerm((Requirement("zone", "In", ("z1",)),)),)
WAITS = StorageClass("fast", "disk.example.com", waits_for_consumer=True)


def world(*objects: Claim | Volume | StorageClass) -> VolumeWorld:
    return VolumeWorld(
        claims={one.key: one for one in objects if isinstance(one, Claim)},
        volumes={one.name: one for one in objects if isinstance(one, Volume)},
        classes={one.name: one for one in objects if isinstance(one, StorageClass)},
    )


def claim(**fields: Any) -> Claim:
    return Claim("default", "data", **{"storage_class": "fast", "uid": "u", **fields})


USES_DATA = PodShape(volumes=(VolumeUse("data"),))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ((), "claim default/data not found"),
        ((claim(is_lost=True, volume="gone"),), "lost its volume gone"),
        ((claim(is_bound=True, volume="pv", deleted_at=1.0), Volume("pv")), "is being deleted"),
        ((claim(storage_class="now"), StorageClass("now", "x")), "unbound immediate claims default/data"),
        ((claim(storage_class=None),), "unbound immediate claims"),
        ((claim(volume="pv"), WAITS, Volume("pv")), "unbound immediate claims"),
    ],
)
def test_a_claim_that_cannot_be_used_refuses_the_pod_before_any_node(found: tuple[Any, ...], words: str) -> None:
    refusals = volume_needs(USES_DATA, world(*found)).refusals
    assert any(words in str(reason) for reason in refusals)
    assert {reason.kind for reason in refusals} == {Kind.VOLUME}


def test_a_bound_claim_demands_the_volumes_place() -> None:
    volume = Volume("pv", Labels({"topology.kubernetes.io/zone": "z1__z2"}), IN_Z1, "disk.example.com", "handle")
    needs = volume_needs(USES_DATA, world(claim(is_bound=True, volume="pv"), volume))
    assert needs.refusals == ()
    assert [bound.node_affinity for bound in needs.bound] == [IN_Z1]
    assert [zone.values for zone in needs.zones] == [("z1", "z2")]
    assert needs.attachments == (Attachment("disk.example.com", "handle"),)


def test_a_waiting_claim_is_left_to_the_node() -> None:
    needs = volume_needs(USES_DATA, world(claim(), WAITS))
    assert needs.refusals == ()
    assert needs.waiting == (claim(),)
    assert needs.attachments == (Attachment("disk.example.com", "?default/data"),)


def test_an_ephemeral_claim_is_named_after_the_pod_and_must_be_its_own() -> None:
    shape = PodShape(volumes=(VolumeUse("scratch", is_ephemeral=True, storage_class="fast"),))
    made = Claim("default", "web-0-scratch", storage_class="fast", owner_uid="uid-web-0")
    assert volume_needs(shape, world(made, WAITS), "web-0", "uid-web-0").refusals == ()
    foreign = volume_needs(shape, world(made, WAITS), "web-0", "uid-other").refusals
    assert "was not made for this pod" in str(foreign[0])
    missing = volume_needs(shape, world(WAITS), "web-1", "uid-web-1").refusals
    assert "waiting for the ephemeral volume controller" in str(missing[0])


def test_an_ephemeral_claim_of_a_template_waits_for_its_class() -> None:
    shape = PodShape(volumes=(VolumeUse("scratch", is_ephemeral=True, storage_class="fast"),))
    needs = volume_needs(shape, world(WAITS))
    assert needs.refusals == ()
    assert [waiting.storage_class for waiting in needs.waiting] == ["fast"]


def test_every_rule_refuses_a_missing_claim() -> None:
    needs = volume_needs(USES_DATA, world())
    assert [reason.rule for reason in needs.refusals] == [
        Rule.VOLUME_RESTRICTIONS,
        Rule.VOLUME_BINDING,
        Rule.VOLUME_ZONE,
    ]
    assert needs.limit_refusal is not None
    assert needs.limit_refusal.rule is Rule.NODE_VOLUME_LIMITS


def test_an_unreadable_zone_label_is_left_out() -> None:
    volume = Volume("pv", Labels({"topology.kubernetes.io/zone": "z1____z2"}))
    assert volume_needs(USES_DATA, world(claim(is_bound=True, volume="pv"), volume)).zones == ()


def test_an_old_provisioner_counts_for_the_driver_that_took_over() -> None:
    old = StorageClass("fast", "kubernetes.io/aws-ebs", waits_for_consumer=True)
    assert volume_needs(USES_DATA, world(claim(), old)).attachments[0].driver == "ebs.csi.aws.com"
    never = StorageClass("fast", "kubernetes.io/vsphere-volume", waits_for_consumer=True)
    assert volume_needs(USES_DATA, world(claim(), never)).attachments == ()
