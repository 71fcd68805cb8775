"""The demo tells a story that ends well, says so, and fails when it does not."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from growth.cli.demo import demo
from growth.sim.apiserver.objects import deployment
from growth.sim.clock import run_virtual
from growth.sim.stories.story import DEMO, Story, Summary


def test_the_demo_places_every_pod_gives_every_machine_back_and_says_what_it_cost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert demo(once=True) == 0
    told = capsys.readouterr().out
    assert "120 of 120, all running after" in told
    assert "bought, 0 left at the end" in told
    order = [
        told.index(words)
        for words in (
            "three Deployments",
            "plans",
            "machines ordered",
            "120 of 120 pods running",
            "the load goes",
            "given back, 0 left",
        )
    ]
    assert order == sorted(order)


def test_the_demo_at_hetzner_falls_over_to_other_types_and_gives_everything_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert demo(once=True, provider="hetzner-fake") == 0
    told = capsys.readouterr().out
    assert "not met: sold out" in told
    assert "120 of 120, all running after" in told
    assert "0 left at the end" in told
    [(price, bound)] = re.findall(r"price per hour +([0-9.]+) \(no plan can cost less than ([0-9.]+)\)", told)
    assert float(bound) <= float(price) <= 1.2 * float(bound), (
        "the bound is that of all 120 pods; the cheapest type was sold out, and a new pool buys five machines first, "
        "so it cost a little more"
    )


def test_a_story_with_a_pod_that_fits_nowhere_fails() -> None:
    setting = replace(DEMO, workloads=(deployment("web", 3), deployment("giant", 1, cpu="500")))

    async def run() -> Summary:
        return await Story(lambda _at, _who, _what: None, "unhappy", setting).run()

    summary = run_virtual(run())
    assert (summary.pods, summary.placed, summary.placed_after_seconds, summary.succeeded) == (4, 3, None, False)
