"""Which pods are one class, and how classes split."""

from __future__ import annotations

from growth.model.labels import HOSTNAME, Labels, LabelSelector, Requirement
from growth.model.pod import Pod, PodAffinityTerm, PodShape, TopologySpread, VolumeUse
from growth.model.resources import Resources
from growth.model.snapshot import VolumeWorld
from growth.model.volumes import AttachLimit, Claim, Volume, VolumeNode
from growth.solver.rules import Neighbours
from growth.solver.rules.pod_class import Entry, PodClasses, entry_of, selected_keys
from tests.solver.rules.scenes import node

BY_NAME = "statefulset.kubernetes.io/pod-name"


def member(number: int, **fields: object) -> PodShape:
    return PodShape(labels=Labels({"app": "db", BY_NAME: f"db-{number}"}), **fields)  # type: ignore[arg-type]


def looking_at(*keys: str) -> PodShape:
    terms = tuple(PodAffinityTerm(HOSTNAME, LabelSelector((Requirement(key, "Exists"),))) for key in keys)
    return PodShape(anti_affinity=terms)


def test_labels_that_nobody_selects_on_do_not_tell_pods_apart() -> None:
    classes = PodClasses(VolumeWorld(), [looking_at("app")])
    assert classes.of(Entry(member(0))) is classes.of(Entry(member(1)))


def test_labels_that_somebody_selects_on_do() -> None:
    classes = PodClasses(VolumeWorld(), [looking_at(BY_NAME)])
    assert classes.of(Entry(member(0))) is not classes.of(Entry(member(1)))


def test_whatever_a_rule_sees_tells_pods_apart() -> None:
    classes = PodClasses(VolumeWorld())
    plain = classes.of(Entry(member(0)))
    assert classes.of(Entry(member(0, requests=Resources({"cpu": 1})))) is not plain
    assert classes.of(Entry(member(0, namespace="other"))) is not plain
    assert classes.of(Entry(member(0), is_leaving=True)) is not plain
    assert classes.of(Entry(member(0, volumes=(VolumeUse("data"),)))) is not plain


def test_a_new_selector_splits_classes_and_the_first_pod_keeps_its_class() -> None:
    classes = PodClasses(VolumeWorld())
    first, second = Entry(member(0)), Entry(member(1))
    held = classes.of(first)
    assert classes.of(second) is held
    classes.of(Entry(looking_at(BY_NAME)))
    assert classes.of(first) is held
    assert classes.of(second) is not held
    assert classes.splits == 1


def test_a_split_counts_the_pods_on_the_nodes_anew() -> None:
    index = Neighbours(
        [node("a"), node("b")], [Pod("db-0", member(0), node_name="a"), Pod("db-1", member(1), node_name="b")]
    )
    picky = PodShape(
        anti_affinity=(PodAffinityTerm(HOSTNAME, LabelSelector((Requirement(BY_NAME, "In", ("db-1",)),))),)
    )
    assert index.fits(index.class_of(PodShape())).tolist() == [True, True]
    assert index.fits(index.class_of(picky)).tolist() == [True, False]


def test_a_split_counts_attached_volumes_once() -> None:
    claims = [Claim("default", f"c{number}", f"pv{number}", is_bound=True) for number in range(2)]
    volumes = [Volume(f"pv{number}", driver="disk", handle=f"h{number}") for number in range(2)]
    limits = {"a": VolumeNode("a", (AttachLimit("disk", 2),))}
    world = VolumeWorld({claim.key: claim for claim in claims}, {volume.name: volume for volume in volumes}, {}, limits)
    index = Neighbours(
        [node("a")],
        [Pod("db-0", member(0, volumes=(VolumeUse("c0"),)), node_name="a"), Pod("db-1", member(1), node_name="a")],
        world,
    )
    index.class_of(member(2))
    index.class_of(looking_at(BY_NAME))
    assert index.fits(index.class_of(PodShape(volumes=(VolumeUse("c1"),)))).all()


def test_a_trial_outlives_a_split() -> None:
    index = Neighbours([node("a")])
    with index.trial():
        index.add(index.class_of(member(0)), 0)
        index.add(index.class_of(member(1)), 0)
        index.class_of(looking_at(BY_NAME))
        assert sum(count for _, count in index.contents(0)) == 2
    assert index.contents(0) == []


def test_the_keys_of_spread_and_affinity_are_selected() -> None:
    spread = TopologySpread(1, HOSTNAME, selector=LabelSelector((Requirement("a", "Exists"),)), match_label_keys=("b",))
    assert selected_keys(PodShape(spread=(spread,), anti_affinity=looking_at("c").anti_affinity)) == {"a", "b", "c"}


def test_only_a_claim_named_after_the_pod_keeps_the_pods_name() -> None:
    ephemeral = Pod("web-0", PodShape(volumes=(VolumeUse("scratch", is_ephemeral=True),)), uid="u")
    assert entry_of(ephemeral) == Entry(ephemeral.shape, False, "web-0", "u")
    assert entry_of(Pod("web-0", PodShape(), deleted_at=1.0)) == Entry(PodShape(), True)
