"""`growth top`: what the picture says of nodes that fill, empty, come and go."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from growth.cli import main
from growth.cli.top import picture
from growth.model.instant import format_instant
from growth.model.node import SCALE_DOWN_AT, SCALE_DOWN_TAINT, STARTUP_TAINT
from growth.model.snapshot import Snapshot
from tests.cli.living import Living
from tests.controllers.ask.clinic import pool as pool_object
from tests.plan.builders import NOW, bound, machine, node, offering, pod, pool, request, world

SMALL = offering("small", 2, 4096, 0.01)


def shown(snapshot: Snapshot, of_pool: str = "", most: int | None = None) -> list[str]:
    to = Console(file=io.StringIO(), width=200)
    to.print(picture(snapshot, of_pool, most))
    return [line.rstrip() for line in to.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def small_town() -> Snapshot:
    marks = {SCALE_DOWN_AT: format_instant(NOW + 40)}
    nodes = [
        node("full", of=SMALL),
        node("leaving", of=SMALL, taints=(SCALE_DOWN_TAINT,), annotations=marks),
        node("new", of=SMALL, taints=(STARTUP_TAINT,)),
        node("ill", of=SMALL, is_ready=False),
        node("other", "", allocatable=SMALL.allocatable),
    ]
    pods = [bound(pod("a", 1, 1024), "full"), bound(pod("b", 0.5, 1024), "full"), pod("c")]
    ours = [machine(each.name, SMALL) for each in nodes[:4]]
    coming = request("coming", SMALL, "Provisioning", planned=["default/c"], created_at=NOW - 12)
    return world(pods, [pool()], [SMALL], nodes, [coming], ours)


def test_the_headline_counts_what_there_is_and_what_it_costs() -> None:
    assert shown(small_town())[0] == (
        "08:00:00  5 nodes, 1 on their way, 2 ready, 1 marked, 1 not Ready, 1 starting, 2 pods, 1 waiting; "
        "0.0400 per hour"
    )


def test_each_node_has_bars_pods_state_and_price() -> None:
    lines = {line.split()[0]: line for line in shown(small_town())[2:]}
    assert lines["full"].split() == [
        *("full", "default", "sim-small", "ready"),
        *("█████████░░░", "75%", "██████░░░░░░", "50%", "2", "0.0100"),
    ]
    assert "marked, goes in 40 s" in lines["leaving"]
    assert "starting" in lines["new"]
    assert "not Ready" in lines["ill"]
    assert lines["other"].split()[1:4] == ["-", "-", "ready"]
    assert "Provisioning, 12 s" in lines["coming"]


def test_what_changes_comes_first_and_a_small_screen_says_how_many_are_left_out() -> None:
    lines = shown(small_town(), most=2)
    assert [line.split()[0] for line in lines[2:4]] == ["coming", "new"]
    assert lines[4] == "… and 4 more nodes"


def test_only_the_nodes_of_one_pool() -> None:
    assert {line.split()[0] for line in shown(small_town(), "default")[2:]} == {
        *("coming", "full", "leaving", "new", "ill")
    }


def test_once_prints_one_picture_without_colours_and_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Living(tmp_path, {}, {})
    server = cluster.serve()
    try:
        cluster.do(cluster.clinic.install(pool_object()))
        assert main(["top", "--once", "--kubeconfig", str(cluster.write_kubeconfig(server))]) == 0
    finally:
        cluster.stop()
    said = capsys.readouterr().out
    assert "0 nodes, 0 pods, 0 waiting; 0.0000 per hour" in said
    assert "\x1b" not in said
