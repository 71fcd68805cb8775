"""What the annotations of gangs mean, and how a gang stands."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.gang import FIRMAMENT_GANG, GANG, Gang, gangs_on, read_gang, waiting_gangs
from growth.model.labels import Labels
from growth.model.pod import Owner, Pod, PodShape
from growth.model.snapshot import PodGroups
from tests.plan.builders import NOW, bound, node, world
from tests.plan.builders import pod as any_pod


def pod(annotations: dict[str, str], owner: Owner | None = None) -> Pod:
    return Pod("p", PodShape(), owner=owner, annotations=Labels(annotations))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train", Gang("default/train", percent=100)),
        ("train:3", Gang("default/train", number=3)),
        ("train:75%", Gang("default/train", percent=75)),
    ],
)
def test_a_gang_is_named_with_a_number_or_a_share(text: str, expected: Gang) -> None:
    assert read_gang(pod({GANG: text})) == expected


@pytest.mark.parametrize("text", ["", ":3", "train:", "train:0", "train:101%", "train:many", "train:-1"])
def test_what_cannot_be_read_is_told(text: str) -> None:
    found = read_gang(pod({GANG: text}))
    if text == "train:":
        assert found == Gang("default/train", percent=100)
    else:
        assert isinstance(found, str)
        assert "cannot be read" in found


def test_firmaments_annotation_means_the_pods_of_one_controller() -> None:
    owner = Owner("Job", "train", "u1")
    assert read_gang(pod({FIRMAMENT_GANG: "75%"}, owner)) == Gang("default/Job/u1", percent=75)
    assert read_gang(pod({FIRMAMENT_GANG: "true"}, owner)) == Gang("default/Job/u1", percent=100)
    assert read_gang(pod({FIRMAMENT_GANG: "false"}, owner)) is None
    assert read_gang(pod({}, owner)) is None


def test_a_share_is_rounded_up() -> None:
    assert [Gang("g", percent=75).minimum(members) for members in (1, 3, 4, 5)] == [1, 3, 3, 4]
    assert Gang("g", number=3).minimum(9) == 3


def member(name: str, text: str = "train:3", **fields: Any) -> Pod:
    return any_pod(name, annotations={GANG: text}, **fields)


def test_a_gang_counts_those_that_wait_and_those_that_run() -> None:
    over = replace(bound(member("done"), "n1"), phase="Succeeded")
    going = replace(bound(member("going"), "n1"), deleted_at=NOW)
    pods = [member("a"), member("b", is_gated=True), bound(member("c"), "n1"), over, going, any_pod("other")]
    standing = waiting_gangs(world(pods, nodes=[node("n1")]))["default/train"]
    assert (standing.minimum, standing.running, standing.needed, standing.missing) == (3, 1, 2, 1)
    assert standing.why_missing == "gang default/train: 3 must run together, 2 can, and 1 are missing"


def test_where_members_disagree_the_largest_number_counts() -> None:
    found = waiting_gangs(world([member("a", "train:2"), member("b", "train:5"), member("c", "train:50%")]))
    assert found["default/train"].minimum == 5


def test_a_gang_of_which_nobody_waits_is_not_looked_at() -> None:
    assert waiting_gangs(world([bound(member("a"), "n1")], nodes=[node("n1")])) == {}


KUBERNETES, PLUGIN = "PodGroup.scheduling.k8s.io/train", "PodGroup.scheduling.x-k8s.io/train"


@pytest.mark.parametrize("group", [KUBERNETES, PLUGIN])
def test_a_pod_that_names_a_group_is_in_the_gang_that_the_group_says(group: str) -> None:
    one, name = replace(pod({}), group=group), f"default/{group}"
    assert read_gang(one, PodGroups({name: 3})) == Gang(name, number=3)
    assert read_gang(one, PodGroups({name: 0})) is None
    assert read_gang(one, PodGroups()) == Gang(name, is_unknown=True)
    assert read_gang(one, PodGroups(absent=frozenset({group.partition("/")[0]}))) is None
    assert read_gang(replace(one, annotations=Labels({GANG: "other:2"})), PodGroups({name: 3})) == Gang(
        "default/other", number=2
    )


def test_pods_of_a_group_that_does_not_exist_wait_and_those_that_run_are_free() -> None:
    waiting, running = replace(any_pod("a"), group=KUBERNETES), replace(any_pod("b"), group=KUBERNETES)
    snapshot = world([waiting, bound(running, "n1")], nodes=[node("n1")])
    standing = waiting_gangs(snapshot)[f"default/{KUBERNETES}"]
    assert standing.missing == 1
    assert "there is no such object yet" in standing.why_missing
    assert gangs_on([bound(running, "n1")], snapshot) == {}
    known = replace(snapshot, pod_groups=PodGroups({f"default/{KUBERNETES}": 2}))
    assert waiting_gangs(known)[f"default/{KUBERNETES}"].needed == 1
    assert gangs_on([bound(running, "n1")], known)[f"default/{KUBERNETES}"].minimum == 2
