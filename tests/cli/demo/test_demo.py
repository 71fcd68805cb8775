"""`growth demo NAME`: the scenarios that come with growth, told."""

from __future__ import annotations

from pathlib import Path

import pytest

from growth.cli.app import main
from growth.sim.scenarios.reader import built_in_scenarios, read_scenario
from tests.sim.scenarios.worlds import pool, scenario, web, write

NAMES = ("broken-image", "buffer", "burst", "consolidation", "day", "morning-load", "stock-out", "warm-pool")
TOLD = {
    "broken-image": (
        "begins: never-ready.",
        "NotReadyInTime: sim-cx33: no Ready node within 300 s",
        "over: never-ready",
    ),
    "buffer": ("BufferScaleUp", "CapacityProvisioned: there is room for all 5 chunks", "scale Deployment web to 8"),
    "burst": ("add Job report", "60 of 60 pods running", "given back, 0 left"),
    "consolidation": ("5 × CX33", "1 × CX33", "1 node marked", "given back, 2 left"),
    "day": (
        "scale Deployment web to 26",
        "add Job report",
        "begins: sold-out.",
        "not met: sold out",
        "NotReadyInTime",
        "Failing: NodePool default is failing",
        "scale Deployment web to 6",
    ),
    "morning-load": ("scale Deployment web to 40", "40 of 40 pods running", "scale Deployment web to 12"),
    "stock-out": ("begins: sold-out.", "not met: sold out", "CX32 in fsn1"),
    "warm-pool": ("scales SandboxSet agents from 4 to 8", "take into use 4 of SandboxSet agents"),
}


def test_these_come_with_growth_and_are_listed_with_what_they_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuple(built_in_scenarios()) == NAMES
    assert main(["demo", "--list"]) == 0
    printed = capsys.readouterr().out
    for name, path in built_in_scenarios().items():
        read = read_scenario(path).scenario
        assert read.name == name
        assert f"{name} " in printed
        assert read.about in printed


@pytest.mark.parametrize("name", NAMES)
def test_each_is_told_in_order_and_ends_as_it_expects(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", name, "--once"]) == 0
    told = capsys.readouterr().out
    places = [told.index(words) for words in TOLD[name]]
    assert places == sorted(places)
    assert "spent in all" in told


def test_a_scenario_that_ends_otherwise_fails_and_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, scenario(pool(), web(2), duration="3m", expect={"pods.running": 3}))
    assert main(["demo", str(path), "--once"]) == 1
    assert "failure  pods.running is 2, expected 3" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["demo", "simulate"])
@pytest.mark.parametrize(
    ("name", "words"), [("bufer", "did you mean buffer? There are: broken-image"), ("zzz", "there are: broken-image")]
)
def test_a_name_that_is_none_gets_the_choices(
    command: str, name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, name]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--provider", "sim"], "says itself where machines come from"),
        (["--seed", "x"], "the seed of a scenario is a number"),
    ],
)
def test_what_a_scenario_says_itself_cannot_be_said_again(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "buffer", *flags]) == 2
    assert words in capsys.readouterr().err
