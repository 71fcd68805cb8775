"""`growth simulate`: how it ends, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from growth.cli.app import main
from tests.sim.scenarios.worlds import pool, scenario, web, write

EXAMPLES = sorted((Path(__file__).parents[2] / "docs/examples/scenarios").glob("*.yaml"))
SMALL = scenario(pool(), web(2), duration="3m")


def test_a_scenario_that_is_as_expected_ends_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(write(tmp_path, {**SMALL, "expect": {"pods.running": 2}})), "--output", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["scenario"], printed["pods"]["running"], printed["lawsBroken"]) == ("small", 2, [])


def test_one_that_is_not_ends_with_1_and_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(write(tmp_path, {**SMALL, "expect": {"pods.running": 3}}))]) == 1
    printed = capsys.readouterr()
    assert "small" in printed.out
    assert "pods.running is 2, expected 3" in printed.err


def test_a_wrong_file_ends_with_2_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(write(tmp_path, {**SMALL, "durations": "3m"}))]) == 2
    assert "scenario.yaml:" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nope.yaml"],
        ["--set", "duration"],
        ["burst", "--output", "yaml"],
        ["burst", "--anonymise"],
        ["burst", "--namespace", "shop"],
        ["--record", "burst"],
    ],
)
def test_what_cannot_be_run_ends_with_2(arguments: list[str]) -> None:
    assert main(["simulate", *arguments]) == 2


def test_a_wrong_value_of_a_grid_is_said_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = ["--grid", "settings.scaleDownDelaySeconds=30,soon"]
    assert main(["simulate", str(write(tmp_path, SMALL)), *grid]) == 2
    assert "Expected `float`" in capsys.readouterr().err


def test_a_trace_is_everything_that_happened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(write(tmp_path, SMALL)), "--trace"]) == 0
    printed = capsys.readouterr().out
    assert "cloud create CX33" in printed
    assert "growth added NodeRequest" in printed


def test_a_report_is_one_page_that_asks_for_nothing(tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    grid = ["--grid", "settings.scaleDownDelaySeconds=30,300", "--report", str(page)]
    assert main(["simulate", str(write(tmp_path, SMALL)), "--jobs", "1", *grid]) == 0
    text = page.read_text()
    assert text.count("<svg") == 5
    assert "settings.scaleDownDelaySeconds=300" in text
    assert text.count("settings.scaleDownDelaySeconds=300") == 2, "in the table and in the one key of all plots"
    assert "95 of 100 pods waited at most" in text
    assert "<script" not in text
    assert 'src="http' not in text


def test_the_schema_takes_the_examples_and_refuses_nonsense(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--schema"]) == 0
    check = jsonschema.Draft202012Validator(json.loads(capsys.readouterr().out))
    for path in EXAMPLES:
        assert list(check.iter_errors(yaml.safe_load(path.read_text()))) == []
    assert list(check.iter_errors({**SMALL, "durations": "1h"}))
    assert list(check.iter_errors({**SMALL, "faults": [{"kind": "no-such-fault"}]}))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_as_they_expect(path: Path) -> None:
    assert main(["simulate", str(path)]) == 0
