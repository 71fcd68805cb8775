"""The four rules about volumes, node by node."""

from __future__ import annotations

from typing import Any

import pytest

from growth.model.labels import HOSTNAME, ZONE, Labels, LabelSelector, NodeSelectorTerm, Requirement
from growth.model.node import Node
from growth.model.pod import Pod, PodShape, VolumeUse
from growth.model.snapshot import VolumeWorld
from growth.model.volumes import AttachLimit, Claim, StorageClass, Volume, VolumeNode
from growth.solver.rules import Neighbours, Rule, why_not
from tests.solver.rules.scenes import node

DRIVER = "disk.example.com"
NODES = (node("a", "z1"), node("b", "z2"))
IN_Z1 = (NodeSelectorTerm((Requirement(ZONE, "In", ("z1",)),)),)
FAST = StorageClass("fast", DRIVER, waits_for_consumer=True)
STATIC = StorageClass("static", "kubernetes.io/no-provisioner", waits_for_consumer=True)


def world(*objects: Any) -> VolumeWorld:
    return VolumeWorld(
        claims={one.key: one for one in objects if isinstance(one, Claim)},
        volumes={one.name: one for one in objects if isinstance(one, Volume)},
        classes={one.name: one for one in objects if isinstance(one, StorageClass)},
        nodes={one.name: one for one in objects if isinstance(one, VolumeNode)},
    )


def bound(name: str = "data", volume: str = "pv", **fields: Any) -> Claim:
    return Claim("default", name, volume, is_bound=True, uid=f"uid-{name}", **fields)


def waiting(name: str = "data", storage_class: str = "fast", **fields: Any) -> Claim:
    return Claim("default", name, storage_class=storage_class, uid=f"uid-{name}", **fields)


def using(*names: str, node_name: str = "", name: str = "new") -> Pod:
    return Pod(name, PodShape(volumes=tuple(VolumeUse(claim) for claim in names)), node_name=node_name)


def fitting(pod: Pod, volumes: VolumeWorld, *pods: Pod, nodes: tuple[Node, ...] = NODES) -> str:
    index = Neighbours(nodes, pods, volumes)
    return "".join(one.name for one in nodes if why_not(pod, one, index) is None)


def test_a_bound_volume_is_used_where_its_node_affinity_says() -> None:
    assert fitting(using("data"), world(bound(), Volume("pv", node_affinity=IN_Z1))) == "a"


def test_a_bound_volume_is_used_where_its_zone_label_says() -> None:
    assert fitting(using("data"), world(bound(), Volume("pv", Labels({ZONE: "z2"})))) == "b"
    assert (
        fitting(
            using("data"), world(bound(), Volume("pv", Labels({"failure-domain.beta.kubernetes.io/zone": "z1__z3"})))
        )
        == "a"
    )


def test_a_node_without_zone_labels_is_not_held_to_zones() -> None:
    bare = Node("c", Labels({HOSTNAME: "c"}), allocatable=NODES[0].allocatable)
    assert fitting(using("data"), world(bound(), Volume("pv", Labels({ZONE: "z1"}))), nodes=(*NODES, bare)) == "ac"


def test_a_claim_bound_to_a_volume_that_is_gone_fits_nowhere() -> None:
    assert fitting(using("data"), world(bound())) == ""


def test_a_waiting_claim_is_made_where_its_class_allows() -> None:
    assert fitting(using("data"), world(waiting(), FAST)) == "ab"
    assert fitting(using("data"), world(waiting(), StorageClass("fast", DRIVER, True, IN_Z1))) == "a"
    assert fitting(using("data"), world(waiting(storage_class="static"), STATIC)) == ""


def test_a_waiting_claim_takes_a_free_volume_that_suits() -> None:
    free = Volume("pv", storage_class="static", capacity_bytes=10, node_affinity=IN_Z1, access_modes=("ReadWriteOnce",))
    claim = waiting(storage_class="static", request_bytes=10, access_modes=("ReadWriteOnce",))
    assert fitting(using("data"), world(claim, STATIC, free)) == "a"


@pytest.mark.parametrize(
    "unfit",
    [
        {"capacity_bytes": 9},
        {"phase": "Released"},
        {"access_modes": ()},
        {"storage_class": "other"},
        {"volume_mode": "Block"},
        {"attributes_class": "gold"},
        {"deleted_at": 1.0},
        {"claim": "default/other"},
        {"claim": "default/data", "claim_uid": "uid-older"},
        {"labels": Labels({"kind": "bad"})},
    ],
)
def test_such_a_volume_does_not_suit(unfit: dict[str, Any]) -> None:
    volume = Volume(
        "pv", **{"storage_class": "static", "capacity_bytes": 10, "access_modes": ("ReadWriteOnce",), **unfit}
    )
    selector = LabelSelector((Requirement("kind", "NotIn", ("bad",)),))
    claim = waiting(storage_class="static", request_bytes=10, access_modes=("ReadWriteOnce",), selector=selector)
    assert fitting(using("data"), world(claim, STATIC, volume)) == ""


def test_two_claims_do_not_take_the_same_volume() -> None:
    claims = (waiting("one", "static"), waiting("two", "static"))
    assert fitting(using("one", "two"), world(*claims, STATIC, Volume("pv", storage_class="static"))) == ""
    two = (Volume("pv", storage_class="static"), Volume("pw", storage_class="static"))
    assert fitting(using("one", "two"), world(*claims, STATIC, *two)) == "ab"


def test_a_volume_reserved_for_the_claim_is_taken_or_none_is() -> None:
    reserved = Volume("pv", storage_class="static", claim="default/data", node_affinity=IN_Z1)
    free = Volume("pw", storage_class="static")
    assert fitting(using("data"), world(waiting(storage_class="static"), STATIC, reserved, free)) == "a"


def test_a_claim_promised_to_a_node_is_made_there() -> None:
    assert fitting(using("data"), world(waiting(selected_node="b"), FAST)) == "b"


def test_each_claim_is_told_which_volume_it_takes_on_a_node_and_what_is_taken_is_left() -> None:
    small, large = (Volume(name, storage_class="fast", capacity_bytes=size) for name, size in (("s", 5), ("l", 9)))
    claims = [waiting("one", request_bytes=6), waiting("two", request_bytes=2), waiting("kept", selected_node="a")]
    static = Neighbours(NODES, volumes=world(FAST, small, large, *claims)).static_volumes
    assert static.choose(claims, 0, ()) == {"default/one": "l", "default/two": "s", "default/kept": ""}
    assert static.choose(claims, 0, {"s", "l"}) == dict.fromkeys(("default/one", "default/two", "default/kept"), "")
    alone = [waiting("one", "static")]
    bare = Neighbours(NODES, volumes=world(STATIC, *alone)).static_volumes
    assert bare.choose(alone, 0, ()) is None


def limited(count: int | None, *names: str) -> list[VolumeNode]:
    return [VolumeNode(name, (AttachLimit(DRIVER, count),)) for name in names]


def volumes(count: int) -> list[Any]:
    return [
        one
        for number in range(count)
        for one in (bound(f"c{number}", f"pv{number}"), Volume(f"pv{number}", driver=DRIVER, handle=f"h{number}"))
    ]


def test_the_attach_limit_counts_each_volume_once() -> None:
    storage = world(*volumes(3), *limited(2, "a", "b"))
    both = (using("c0", node_name="a", name="p"), using("c0", "c1", node_name="a", name="q"))
    assert fitting(using("c2"), storage, *both) == "b"
    assert fitting(using("c1"), storage, *both) == "ab"  # attached there already
    assert fitting(using("c2"), world(*volumes(3), *limited(None, "a", "b")), *both) == "ab"


def test_a_simulated_placement_attaches_its_volumes() -> None:
    index = Neighbours(NODES, (), world(*volumes(2), *limited(1, "a", "b")))
    first, second = index.class_of_pod(using("c0")), index.class_of_pod(using("c1"))
    with index.trial():
        index.add(first, 0)
        assert index.fits(second).tolist() == [False, True]
    assert index.fits(second).all()


def test_a_claim_for_one_pod_alone_is_used_once_in_the_cluster() -> None:
    storage = world(bound(access_modes=("ReadWriteOncePod",)), Volume("pv"))
    assert fitting(using("data"), storage) == "ab"
    assert fitting(using("data"), storage, using("data", node_name="b", name="p")) == ""


def test_a_legacy_disk_is_shared_on_a_node_only_for_reading() -> None:
    def disk(read_only: bool, node_name: str = "") -> Pod:
        return Pod("p", PodShape(volumes=(VolumeUse(disk="gce:d", read_only=read_only),)), node_name=node_name)

    assert fitting(disk(False), world(), disk(False, "a")) == "b"
    assert fitting(disk(True), world(), disk(False, "a")) == "b"
    assert fitting(disk(True), world(), disk(True, "a")) == "ab"


def test_the_reasons_name_claim_volume_and_driver() -> None:
    index = Neighbours(
        NODES,
        (using("c0", node_name="a", name="p"),),
        world(*volumes(2), bound("zoned", "pz"), Volume("pz", node_affinity=IN_Z1), *limited(1, "a")),
    )
    full = why_not(using("c1"), NODES[0], index)
    assert full is not None
    assert str(full) == f"attach limit of {DRIVER} reached (1 of 1 attached)"
    away = why_not(using("zoned"), NODES[1], index)
    assert away is not None
    assert (away.rule, away.constraint) == (Rule.VOLUME_BINDING, "pz")
    missing = why_not(using("nothing"), NODES[0], index)
    assert missing is not None
    assert str(missing) == "claim default/nothing not found"
