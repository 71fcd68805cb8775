"""The dashboard's questions and the alerts, put to a real Prometheus that scrapes a real growth: none is refused, and
what growth always has is answered.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from deploy.dashboard import PANELS
from growth.kube.api.resources import PODS
from tests.cli.living import Living, living
from tests.controllers.ask.clinic import pool
from tests.prometheus.test_alerts import RULES

_LONGEST_SECONDS = 60.0


class Prometheus:
    """One that scrapes every second, and answers."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def get(self, path: str, **query: str) -> Any:
        url = f"{self._url}/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own
            return json.load(answer)["data"]

    def ask(self, expression: str) -> list[Any]:
        found: list[Any] = self.get("query", query=expression)["result"]
        return found


def wait_for(what: Callable[[], Any]) -> Any:
    ends_at = time.monotonic() + _LONGEST_SECONDS
    while True:
        try:
            if found := what():
                return found
        except OSError:
            pass
        assert time.monotonic() < ends_at
        time.sleep(0.3)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    with living(folder, prepare=_with_a_pod, pools=(pool("default", "CX33"),)) as growth:
        growth.wait_until_ready()
        port = next(line["port"] for line in growth.lines if line["event"] == "growth listens")
        labels = {"namespace": "growth-system", "pod": "growth-0"}
        job = {"job_name": "growth", "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": labels}]}
        settings = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config = {"global": settings, "rule_files": [str(RULES)], "scrape_configs": [job]}
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        own = _free_port()
        with (folder / "prometheus.log").open("wb") as log:
            process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={folder / 'prometheus.yaml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{own}",
                ],
                stdout=log,
                stderr=log,
            )
        try:
            made = Prometheus(own)
            wait_for(lambda: made.ask("growth_leader == 1"))
            time.sleep(5)  # a rate needs two scrapes
            yield made
        finally:
            process.terminate()
            process.wait(timeout=30)


def _with_a_pod(growth: Living) -> None:
    containers = [{"name": "main", "image": "web", "resources": {"requests": {"cpu": "1"}}}]
    pod = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"containers": containers}}
    growth.do(growth.clinic.client.create(PODS, pod))


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_growth_is_scraped_without_a_complaint(prometheus: Prometheus) -> None:
    [target] = prometheus.get("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel.title))
def test_every_panel_is_answered(prometheus: Prometheus, panel: Any) -> None:
    for expression, legend in panel.queries:
        answer = prometheus.ask(expression)
        for label in re.findall(r"{{(\w+)}}", legend):
            assert all(label in each["metric"] for each in answer), expression


def test_most_panels_have_something_to_show_of_a_growth_that_has_just_begun(prometheus: Prometheus) -> None:
    empty = [panel.title for panel in PANELS if not any(prometheus.ask(expression) for expression, _ in panel.queries)]
    assert len(empty) <= len(PANELS) // 2, empty


def test_every_alert_is_evaluated_and_none_fires_that_has_no_reason(prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert {rule["health"] for rule in rules} == {"ok"}
    assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
