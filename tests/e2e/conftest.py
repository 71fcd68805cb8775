"""The fixtures of the e2e tests: one real control plane for a test run, and an empty cluster on it for each test.

    def test_something(cluster: ControlPlane) -> None:   # clean, everything running
    def test_a_cut(cluster: ControlPlane, proxy: Proxy)  # the same behind a line that can be cut
    def test_the_chart(helm: Helm)                       # helm on our chart

Missing binaries are built before the first test, outside any test's timeout. Where that cannot be done the tests skip
and say why; with `CI` set they fail."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.e2e.chart import Helm
from tests.e2e.controlplane import build
from tests.e2e.controlplane.audit import RightsUsed
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.controlplane.proxy import Proxy
from tests.e2e.running import USER

ASSETS: pytest.StashKey[build.Assets | str] = pytest.StashKey()
RIGHTS: pytest.StashKey[RightsUsed] = pytest.StashKey()
HELM: pytest.StashKey[Path | str] = pytest.StashKey()
HERE = Path(__file__).parent
USED = "growth/rights"  # in pytest's cache: what a run used, for the run of those that failed in it
ABOUT_THE_WHOLE_RUN = "test_every_verb_of_the_role_was_used"

Found = TypeVar("Found", build.Assets, Path)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is said about the whole run comes last, and is left out where only a part runs."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    for item in ours:
        item.add_marker(pytest.mark.e2e)
    is_whole = {item.path for item in ours} == set(HERE.glob("test_*.py")) and not config.option.keyword
    last = [item for item in ours if item.name == ABOUT_THE_WHOLE_RUN]
    items[:] = [item for item in items if item not in last]
    if is_whole or config.getoption("lf", False):
        items.extend(last)
    else:
        config.hook.pytest_deselected(items=last)


def rights_used(config: pytest.Config) -> RightsUsed:
    """By the tests so far; where those run again that failed, also by the others."""
    cache = config.cache if config.getoption("lf", False) else None
    return config.stash.setdefault(RIGHTS, RightsUsed(USER, cache.get(USED, []) if cache is not None else ()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    found, cache = session.config.stash.get(RIGHTS, None), getattr(session.config, "cache", None)
    if found is not None and cache is not None:
        cache.set(USED, sorted(found.used))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is missing, if any test here is going to run; a run split over workers builds in the first that gets
    the lock.
    """
    if session.config.option.collectonly or not any(item.path.is_relative_to(HERE) for item in session.items):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    say = reporter.write_line if reporter else print
    session.config.stash[ASSETS] = _or_why_not(lambda: build.obtain(say))
    if any("helm" in getattr(item, "fixturenames", ()) for item in session.items):
        session.config.stash[HELM] = _or_why_not(lambda: build.obtain_one(build.HELM, say))


def _or_why_not(obtain: Callable[[], Found]) -> Found | str:
    try:
        return obtain()
    except build.AssetsMissingError as missing:
        return str(missing)


def _found(obtained: Found | str) -> Found:
    """What was obtained; without it the test skips and says why, under CI it fails."""
    if isinstance(obtained, str):
        if os.environ.get("CI"):
            pytest.fail(obtained, pytrace=False)
        pytest.skip(obtained)
    return obtained


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure says where the logs of the control plane are."""
    report = yield
    plane = getattr(item, "funcargs", {}).get("control_plane")
    if report.failed and plane is not None:
        report.sections.append(("control plane", f"logs, audit log and kubeconfigs are in {plane.folder}"))
    return report


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane of this run. Tests take `cluster`; this is for those that look after the empty cluster
    themselves.
    """
    assets = _found(request.config.stash[ASSETS])
    with ControlPlane(assets, tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture
def cluster(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """An empty cluster: no nodes, no objects but those every cluster begins with, no custom resource definitions, an
    empty audit log.

    What a test leaves behind stays for a look after a failure, and goes when the next test begins. At the end nothing
    may have been refused to growth but what the test's mark `refused` names.
    """
    control_plane.clean()
    yield control_plane
    refused = rights_used(request.config).take(control_plane.audit_events())
    mark = request.node.get_closest_marker("refused")
    expected = mark.args or tuple(refused) if mark is not None else ()
    assert sorted(refused.difference(expected)) == [], "growth asked for what its role does not grant"


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[Proxy]:
    """A line to the API server that can be cut, silenced and delayed: `cluster.kubeconfig_for(name, groups,
    server=proxy.url)`.
    """
    with Proxy(control_plane.port) as line:
        yield line


@pytest.fixture(scope="session")
def helm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """helm, on our chart."""
    return Helm(_found(request.config.stash[HELM]), tmp_path_factory.mktemp("helm"))
