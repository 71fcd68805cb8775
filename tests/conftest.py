"""What all tests share: how hypothesis searches, and the sizes printed at the end when the house rules ran."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

# `make test` is the same on every run; HYPOTHESIS_PROFILE=search looks further, and elsewhere each time.
settings.register_profile(
    "steady", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "search", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A command that logs nothing leaves that to no other test."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    if any(getattr(report, "nodeid", "").startswith("tests/house/") for report in reports):
        from tests.house.sizes import summary

        terminalreporter.section("sizes")
        for line in summary():
            terminalreporter.write_line(line)
