"""Scenario files as tests: each is run as `growth simulate` runs it, and must be as it expects.

A file whose first lines say `# Fails: …` tells of a defect that is known and not repaired yet: it is expected to fail,
and the test fails when it does not, so that the line goes with the defect."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from growth.controllers.loop.journal import be_quiet
from growth.sim.scenarios.sweep import Job, run_job

FAILS = re.compile(r"^# Fails: (.+)$", re.MULTILINE)


def scenario_files(folder: Path) -> list[Any]:
    """A parameter for each file of the folder, marked where it is expected to fail."""
    return [_parameter(path) for path in sorted(folder.glob("*.yaml"))]


def _parameter(path: Path) -> Any:
    known = FAILS.search(path.read_text(encoding="utf-8"))
    marks = [pytest.mark.xfail(reason=known[1], strict=True, raises=AssertionError)] if known else []
    return pytest.param(path, id=path.stem, marks=marks)


def broken_in(path: Path) -> tuple[str, ...]:
    """What is not as the file expects, and the laws that were broken; nothing: it is as expected."""
    be_quiet()
    outcome = run_job(Job(str(path)))
    return (*outcome.broken, *outcome.result.laws_broken)
