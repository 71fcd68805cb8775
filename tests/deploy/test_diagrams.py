"""The diagrams show what there is: modules that exist, every phase, every arrow; and they are well-formed."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from deploy.diagrams import WALKS, phases_picture, walks_picture
from deploy.generate import ROOT
from growth.model.noderequest import PHASES, TRANSITIONS

ARROWS = ".//{http://www.w3.org/2000/svg}path[@marker-end]"


def test_every_step_of_a_walk_names_a_module_that_there_is() -> None:
    for step in (step for steps in WALKS.values() for step in steps):
        place = ROOT / "src/growth" / step.module
        assert place.with_suffix(".py").is_file(), step.module


def test_a_walk_has_an_arrow_between_each_two_steps() -> None:
    picture = ET.fromstring(walks_picture())  # noqa: S314 - our own
    assert len(picture.findall(ARROWS)) == sum(len(steps) - 1 for steps in WALKS.values())


@pytest.mark.parametrize("kind", PHASES)
def test_the_phases_and_arrows_of_a_kind_are_all_drawn(kind: str) -> None:
    text = phases_picture(kind)
    drawn = ET.fromstring(text)  # noqa: S314 - our own
    assert len(drawn.findall(ARROWS)) == len(TRANSITIONS[kind])
    assert all(f">{phase}</text>" in text for phase in PHASES[kind])
