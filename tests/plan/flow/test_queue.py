"""What the annotations of gangs mean."""

from __future__ import annotations

import pytest

from growth.model.labels import Labels
from growth.model.pod import Owner, Pod, PodShape
from growth.plan.flow.queue import FIRMAMENT_GANG, GANG, Gang, read_gang


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
