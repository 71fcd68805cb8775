"""`growth demo` as people see it: a story on the page that can be paused, slowed down and taken to any chapter. The
pictures that are taken on the way are those of the docs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import Page
from tests.browser.conftest import Laboratory

PICTURES = Path(".build/browser")
LARGEST_BYTES = 150_000  # of a picture for the docs
CHAPTERS = ["Night", "Morning load", "Burst", "Stock-out", "Broken image", "Quiet evening"]


class Theatre:
    """A demo that runs, and a tab on its page."""

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        command = [sys.executable, "-m", "growth", "demo", "--speed", "40"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        assert first.startswith("Look at it: "), first
        self.url = first.removeprefix("Look at it: ").strip()
        self.page: Page = laboratory.open_tab()
        self.do(self.page.resize(1440, 1000))
        self.do(self.page.open(self.url))
        self.wait_for("document.querySelectorAll('.chapters button').length > 0")

    def do(self, work: Any) -> Any:
        return self._laboratory.do(work)

    def run(self, code: str) -> Any:
        return self.do(self.page.run(code))

    def wait_for(self, code: str) -> Any:
        return self.do(self.page.wait_for(code, 100.0))

    def press_button(self, words: str) -> None:
        code = f"[...document.querySelectorAll('growth-stage button')].find((each) => each.innerText === {words!r})"
        self.wait_for(f"Boolean({code})")
        self.run(f"{code}.click()")

    def take_picture(self, name: str) -> None:
        self.do(self.page.take_picture(PICTURES / f"{name}.png"))
        assert (PICTURES / f"{name}.png").stat().st_size <= LARGEST_BYTES


@pytest.fixture(scope="module")
def theatre(laboratory: Laboratory) -> Iterator[Theatre]:
    made = Theatre(laboratory)
    yield made
    made.process.send_signal(signal.SIGINT)
    told = made.process.communicate(timeout=60)[0]
    assert made.process.returncode == 130
    assert "Traceback" not in told
    assert told.rstrip().endswith("growth demo: interrupted")
    assert [each for each in made.page.errors if "ERR_" not in each] == []
    assert [each for each in made.page.requests if not each.startswith(made.url)] == []


def test_the_story_has_chapters_and_stands_still_when_it_is_paused(theatre: Theatre) -> None:
    assert theatre.run("[...document.querySelectorAll('.chapters button')].map((each) => each.innerText)") == CHAPTERS
    theatre.press_button("Pause")
    theatre.wait_for("growth.cluster.stage.isPaused")
    at = theatre.run("growth.cluster.stage.atSeconds")
    theatre.run("new Promise((go) => setTimeout(go, 1200))")
    assert theatre.run("growth.cluster.stage.atSeconds") - at < 5


def test_a_chapter_is_reached_and_the_page_shows_it(theatre: Theatre) -> None:
    theatre.press_button("Burst")
    theatre.press_button("Play")
    theatre.wait_for("growth.cluster.stage.atSeconds > 735")
    theatre.press_button("Pause")
    theatre.wait_for("document.querySelector('growth-pools').innerText.includes('batch')")
    theatre.wait_for("growth.cluster.bound > 0")
    assert theatre.run("growth.table('nodes').size") > 0
    theatre.take_picture("page")
    theatre.do(theatre.page.resize(1180, 760))
    theatre.do(theatre.page.prefer(prefers_color_scheme="dark"))
    theatre.run("location.hash = '#/Node/' + [...growth.table('nodes').keys()][0]")
    theatre.wait_for("document.querySelector('growth-explain .first')?.innerText.length > 10")
    theatre.take_picture("page-explain-dark")
    theatre.do(theatre.page.prefer(prefers_color_scheme="light"))
    theatre.run("document.querySelector('growth-explain .close').click()")
    theatre.do(theatre.page.resize(390, 844, is_phone=True))
    theatre.take_picture("page-phone")
    theatre.do(theatre.page.resize(1440, 1000))


def test_the_speed_is_chosen_on_the_page(theatre: Theatre) -> None:
    code = "(() => { const box = document.querySelector('growth-stage select'); box.value = '80'; box.dispatchEvent(new Event('change')) })()"  # noqa: E501
    theatre.run(code)
    theatre.wait_for("growth.cluster.stage.speed === 80")
    assert theatre.run("document.querySelector('growth-stage select').value") == "80"


def test_a_chapter_that_lies_behind_begins_the_story_anew(theatre: Theatre) -> None:
    before = theatre.run("growth.cluster.stage.atSeconds")
    theatre.press_button("Night")
    theatre.wait_for("growth.cluster.stage.atSeconds < 300 && growth.table('nodes').size < 8")
    assert theatre.run("growth.cluster.stage.atSeconds") < before


def test_pictures_were_taken() -> None:
    assert sorted(os.listdir(PICTURES)) == ["page-explain-dark.png", "page-phone.png", "page.png"]
