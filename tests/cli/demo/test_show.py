"""A story waits for those who watch it, obeys them, and hurries where nobody does."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from growth.cli.app import main
from growth.cli.demo import show as module
from growth.cli.demo.show import Ended, Show
from growth.web.page import Control
from tests.sim.scenarios.worlds import pool, scenario, web, write


class Told:
    """A story of three chapters, without a cluster."""

    growth = None
    chapters: Mapping[str, float] = {"one": 0.0, "two": 100.0, "three": 200.0}


def shown(speed: float = 1e6, *, is_seen: bool = True) -> Show:
    show = Show(speed, is_seen)
    show.begin(Told())  # type: ignore[arg-type]  # as much of a story as is asked for
    return show


def test_time_passes_at_the_chosen_speed() -> None:
    show = shown(speed=100.0)
    began = time.monotonic()
    show.leap(20.0)
    assert time.monotonic() - began >= 0.19


def test_a_paused_story_goes_on_when_it_is_told_to() -> None:
    show = shown()
    show.steer(Control(pause=True))
    threading.Timer(0.2, lambda: show.steer(Control(pause=False))).start()
    began = time.monotonic()
    show.leap(1.0)
    assert time.monotonic() - began >= 0.15


def test_a_chapter_ahead_is_reached_as_fast_as_it_goes_and_one_behind_begins_anew() -> None:
    show = shown(speed=0.1)
    show.steer(Control(chapter=1))
    show.leap(99.0)
    show.leap(100.0)
    show.steer(Control(chapter=0))
    with pytest.raises(Ended):
        show.leap(101.0)
    assert show.wants_again


def test_speeds_stay_within_bounds() -> None:
    show = shown()
    for wish, speed in ((0.0, module.SLOWEST), (-5.0, module.SLOWEST), (1e9, module.FASTEST), (40.0, 40.0)):
        show.steer(Control(speed=wish))
        assert show._state.speed == speed


def test_nobody_watches_so_nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ALONE_SECONDS", -1.0)
    show = shown(speed=0.1, is_seen=False)
    show.leap(1000.0)
    assert not show.wait_for_another(100.0)
    show.viewers = lambda: 1
    monkeypatch.setattr(module, "_ALONE_SECONDS", 5.0)
    assert show.wait_for_another(0.0)


def test_without_a_terminal_the_demo_names_its_page_and_ends_with_the_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ALONE_SECONDS", -1.0)
    path = write(tmp_path, scenario(pool(), web(2), duration="3m", expect={"pods.running": 2}))
    assert main(["demo", str(path)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("Look at it: http://127.0.0.1:")
    assert "2 running and 0 waiting at the end" in told


def test_a_story_that_ends_otherwise_fails_on_the_page_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ALONE_SECONDS", -1.0)
    path = write(tmp_path, scenario(pool(), web(2), duration="3m", expect={"pods.running": 3}))
    assert main(["demo", str(path)]) == 1
    assert "failure  pods.running is 2, expected 3" in capsys.readouterr().out
