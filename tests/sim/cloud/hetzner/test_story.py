"""The demo's story at the fake Hetzner ends well, and shows what happens when a type is sold out."""

from __future__ import annotations

import re

import pytest

from growth.cli.demo import demo


def test_the_demo_at_hetzner_falls_over_to_other_types_and_gives_everything_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert demo(once=True, provider="hetzner-fake") == 0
    told = capsys.readouterr().out
    assert "not met: sold out" in told
    assert "120 of 120, all running after" in told
    assert "0 left at the end" in told
    [(price, bound)] = re.findall(r"price per hour +([0-9.]+) \(no plan can cost less than ([0-9.]+)\)", told)
    assert float(bound) <= float(price) <= 1.15 * float(bound), (
        "the cheapest type was sold out, and so it cost a little more"
    )
