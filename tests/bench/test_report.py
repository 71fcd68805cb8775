"""The shared report of the benchmarks: what it prints, what it measures, and when it fails."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bench.report import Report, measured, parser, resident_mib


def report_with(**figures: float | int | str) -> Report:
    report = Report("Decoded pods")
    report.add("pods_100000", **figures)
    return report


def test_json_names_each_figure_by_its_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert report_with(mib=120.5, cpu_seconds=0.25).show(json_wanted=True) == 0
    assert json.loads(capsys.readouterr().out) == {"pods_100000": {"mib": 120.5, "cpu_seconds": 0.25}}


def test_the_table_shows_every_case_and_figure_with_its_limit(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_with(mib=120.5, pods=100_000)
    report.limit("pods_100000", "mib", at_most=150)
    report.add("pods_10", note="small")
    assert report.show(json_wanted=False) == 0
    printed = capsys.readouterr().out.split("\n")
    assert printed[0].strip() == "Decoded pods"
    assert printed[1].split() == ["case", "mib", "pods", "note"]
    assert printed[2].split() == ["pods_100000", "120.5", "(≤", "150)", "100,000"]
    assert printed[3].split() == ["pods_10", "small"]


@pytest.mark.parametrize(("value", "exit_code"), [(150, 0), (150.1, 1), ("much", 1)])
def test_a_figure_above_its_limit_fails_the_benchmark(value: float | str, exit_code: int) -> None:
    report = report_with(mib=value)
    report.limit("pods_100000", "mib", at_most=150)
    assert report.show(json_wanted=True) == exit_code


def test_a_figure_that_was_never_measured_breaks_its_limit(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_with(mib=1)
    report.limit("pods_100000", "cpu_seconds", at_most=1)
    assert report.show(json_wanted=True) == 1
    assert capsys.readouterr().err == "over its limit: pods_100000.cpu_seconds is missing, more than 1\n"


def test_a_measured_block_counts_its_own_work_and_that_of_children() -> None:
    with measured() as idle:
        pass
    with measured() as busy:
        sum(range(1_000_000))
        subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    assert busy.cpu_seconds > idle.cpu_seconds >= 0
    assert busy.wall_seconds > idle.wall_seconds > 0


def test_the_figures_survive_a_block_that_fails() -> None:
    # The work before the failure is the point.
    with pytest.raises(ValueError, match="broken"), measured() as spent:  # noqa: PT012
        sum(range(1_000_000))
        raise ValueError("broken")
    assert spent.wall_seconds > 0


def test_resident_memory_is_that_of_this_process() -> None:
    before = resident_mib()
    block = bytearray(64 * 1024 * 1024)
    assert resident_mib() - before > 32
    assert len(block) == 64 * 1024 * 1024


def test_every_benchmark_understands_json() -> None:
    assert parser("About pods").parse_args(["--json"]).json is True
    assert parser("About pods").parse_args([]).json is False


@pytest.mark.parametrize(("large", "size", "times"), [(6.3, 2, 2.1), (2 * 3**4, 16, 3)])
def test_twice_the_size_is_reckoned_from_any_two_sizes(large: float, size: float, times: float) -> None:
    report = Report("Bursts")
    report.add("pods_1000", cpu_seconds=3.0 if size == 2 else 2.0)
    report.add("pods_more", cpu_seconds=large)
    report.twice("pods_1000", "pods_more", {"cpu_seconds": times - 0.01}, size)
    assert report.cases["twice pods_1000"]["cpu_seconds"] == pytest.approx(times)
    assert report.exit_code() == 1
