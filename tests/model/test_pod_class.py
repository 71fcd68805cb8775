"""The checksum of a class of pods, as statuses keep it."""

from __future__ import annotations

from msgspec.structs import replace

from growth.model.labels import Labels, LabelSelector, Requirement
from growth.model.pod import HostPort, PodAffinityTerm, PodShape, Toleration, VolumeUse, class_checksum
from growth.model.resources import Resources

RICH = PodShape(
    namespace="team",
    labels=Labels({"job": "a"}),
    requests=Resources({"cpu": 1500, "memory": 1 << 30}),
    tolerations=(Toleration("gpu", "Exists", seconds=0),),
    node_selector=Labels({"disk": "ssd"}),
    node_affinity=(),
    anti_affinity=(PodAffinityTerm("kubernetes.io/hostname", LabelSelector((Requirement("app", "In", ("web",)),))),),
    host_ports=(HostPort(80),),
    volumes=(VolumeUse("data-0"),),
    priority=7,
)


def test_the_checksum_of_a_class_stays_what_it_is_from_version_to_version() -> None:
    """A change here means another rule: then its name must change too, and what was written is forgotten."""
    assert class_checksum(RICH) == "v1-62675c4c80ff"
    assert class_checksum(PodShape()) == "v1-44136fa355b3"


def test_pods_made_anew_are_one_class_and_others_are_not() -> None:
    anew = replace(RICH, labels=Labels({"job": "b"}), volumes=(VolumeUse("data-1"),))
    assert class_checksum(anew) == class_checksum(RICH)
    others = (
        replace(RICH, namespace="other"),
        replace(RICH, requests=Resources({"cpu": 1501, "memory": 1 << 30})),
        replace(RICH, tolerations=(Toleration("gpu", "Exists"),)),
        replace(RICH, node_affinity=None),
        replace(RICH, host_ports=(HostPort(81),)),
        replace(RICH, volumes=()),
        replace(RICH, priority=0),
    )
    assert len({class_checksum(each) for each in (RICH, *others)}) == len(others) + 1
