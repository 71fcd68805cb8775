"""`growth plan --live`: the sentence first, then what is bought and done; what it takes and what it refuses."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from growth.cli import main
from growth.cli.plan.live import in_a_sentence, tell
from growth.controllers.ask.forecast import Forecast, Order, Step, WithoutPlace
from growth.kube.api.resources import DEPLOYMENTS, PODS
from tests.cli.living import Living
from tests.controllers.ask.clinic import pool

ORDER = Order("default", "kwok-cx33", "fsn1", 2, 0.02, ("default/a", "default/b"), "Demand")
MARK = Step("marks", "Node", "idle", "not needed; goes in 60 s unless pods come")
QUIET = Forecast((), (), (), 0.5, 0.5, ())


def shown(found: Forecast, before: Forecast | None = None) -> str:
    to = Console(file=io.StringIO(), width=200, highlight=False, markup=False)
    tell(found, before, to)
    return str(to.file.getvalue())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (QUIET, "growth has nothing to do; 0.5000 per hour"),
        (
            Forecast((ORDER,), (MARK,), (), 0.5, 0.51, ()),
            "growth buys 2 nodes, marks 1 Node; from 0.5000 per hour to 0.5100",
        ),
        (
            Forecast((), (), (WithoutPlace("default/a", "why"),), 0.0, 0.0, ()),
            "growth has nothing to do; 1 pod without a place; 0.0000 per hour",
        ),
    ],
)
def test_the_sentence_says_what_is_done_and_what_it_costs(found: Forecast, sentence: str) -> None:
    assert in_a_sentence(found) == sentence


def test_tables_follow_and_pods_with_one_reason_share_a_line() -> None:
    left = tuple(WithoutPlace(f"default/{name}", "no place for this pod: limit") for name in "abc")
    text = shown(Forecast((ORDER,), (MARK,), left, 0.0, 0.02, ()), QUIET)
    lines = text.splitlines()
    assert lines[1].startswith("as it is: growth has nothing to do")
    assert any("kwok-cx33" in line and "fsn1" in line and "0.0200" in line for line in lines)
    assert any("Node idle" in line and "not needed" in line for line in lines)
    assert lines[-1] == "unplaced: default/a and 2 more: no place for this pod: limit"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--what-if", "pool.default.max=3"], "say --live too"),
        (["--live", "--pods", "some.yaml"], "it takes no files"),
        ([], "say which --pods and --offerings to plan with, or --live"),
    ],
)
def test_what_does_not_go_together_is_said(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *arguments]) == 1
    assert complaint in capsys.readouterr().err


# ------------------------------------------------------------------------ on the embedded API server

CONTAINERS = [{"name": "main", "image": "web", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    """A cluster with a pool of at most one node, a pod that waits, and a Deployment."""
    cluster = Living(tmp_path, {}, {})
    server = cluster.serve()
    most = [{"name": "CX33", "max": 1}]
    pod = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"containers": CONTAINERS}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": CONTAINERS}}
    web = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    try:
        cluster.do(cluster.clinic.install({**pool(), "spec": {"serverTypes": most}}))
        cluster.do(cluster.clinic.client.create(PODS, pod))
        cluster.do(cluster.clinic.client.create(DEPLOYMENTS, web))
        made = [path for path in cluster.clinic.paths if not path.startswith("GET")]
        yield str(cluster.write_kubeconfig(server))
        assert [path for path in cluster.clinic.paths if not path.startswith("GET")] == made, "a plan changes nothing"
    finally:
        cluster.stop()


def asked(kubeconfig: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["plan", "--live", "--kubeconfig", kubeconfig, "-o", "json", *arguments]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_a_pod_that_waits_is_planned_for_without_a_write(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = asked(kubeconfig, capsys)["plan"]
    assert [(each["offering"], each["nodes"], each["pods"]) for each in plan["orders"]] == [
        ("kwok-cx33", 1, ["default/a"])
    ]
    assert plan["pricePerHour"] == 0
    assert plan["pricePerHourThen"] == plan["orders"][0]["pricePerHour"]


def test_what_if_shows_both_and_words_need_no_quotes(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = asked(kubeconfig, capsys, "--what-if", "add", "deployment/web=8")
    assert sum(each["nodes"] for each in more["plan"]["orders"]) == 1
    assert all("max 1 of CX33" in each["why"] for each in more["plan"]["unplaced"])
    assert len(more["plan"]["unplaced"]) > 4
    assert more["asItIs"]["unplaced"] == []
    wider = asked(kubeconfig, capsys, "--what-if", "add deployment/web=8", "--what-if", "pool.default.max=20")
    assert wider["plan"]["unplaced"] == []
    assert sum(each["nodes"] for each in wider["plan"]["orders"]) > 1


def test_a_workload_that_is_not_there_is_one_line(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--live", "--kubeconfig", kubeconfig, "--what-if", "add deployment/none=2"]) == 1
    assert capsys.readouterr().err == "growth: there is no deployment default/none\n"
