"""One Chromium for all tests, in a loop of its own thread; and pages to look at."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest

from growth.cli.explain import explain_on_page
from growth.web.guard import Guard
from growth.web.page import PageServer
from tests.browser.chromium import Page, find_chromium, open_browser
from tests.browser.world import Town

Result = TypeVar("Result")


class Laboratory:
    """Runs what tests ask for, beside them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="laboratory", daemon=True)
        self._thread.start()
        self._browser = open_browser()
        self._open_tab = self.do(self._browser.__aenter__())

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        future: Future[Result] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(timeout=110)

    def open_tab(self) -> Page:
        page: Page = self.do(self._open_tab())
        return page

    def close(self) -> None:
        self.do(self._browser.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Visit:
    """A tab on the page of a town, and what a person does there."""

    def __init__(self, laboratory: Laboratory, town: Town, guard: Guard | None = None) -> None:
        self.laboratory, self.town, self._guard = laboratory, town, guard or Guard()
        self.page = laboratory.open_tab()
        self.port = 0
        self.serve()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def serve(self) -> None:
        self.server = PageServer(self.town, self._guard, explain_on_page)
        self.port = self.do(self.server.start("127.0.0.1", self.port))

    def stop(self) -> None:
        self.do(self.server.stop())

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.laboratory.do(work)

    def open(self, rest: str = "") -> Visit:
        self.do(self.page.open(self.url + rest))
        self.wait_for("globalThis.growth?.isReady && document.querySelector('growth-figures').children.length > 0")
        return self

    def run(self, code: str) -> Any:
        return self.do(self.page.run(code))

    def wait_for(self, code: str) -> Any:
        return self.do(self.page.wait_for(code))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.do(self.page.press(key))

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({selector!r})?.innerText ?? ''"))

    def place_of(self, node: str) -> tuple[float, float]:
        """The middle of the upper edge of a node's box, where no pod is."""
        code = f"""(() => {{ const part = document.querySelector("growth-nodes"), box = part.byName.get({node!r});
            part.canvas.scrollIntoView({{block: "center"}}); const frame = part.canvas.getBoundingClientRect();
            return [frame.left + box.x + part.boxWidth / 2, frame.top + box.y + 8] }})()"""
        x, y = self.run(code)
        return x, y

    def end(self) -> None:
        """Whatever was done, nothing went wrong and nobody else was asked."""
        self.stop()
        assert [each for each in self.page.errors if "ERR_" not in each] == []
        assert [each for each in self.page.requests if not each.startswith(self.url)] == []


@pytest.fixture(scope="session")
def laboratory() -> Iterator[Laboratory]:
    assert find_chromium(), "there is no Chromium: make browser installs it, where it may"
    made = Laboratory()
    yield made
    made.close()


@pytest.fixture
def visit(laboratory: Laboratory) -> Iterator[Visit]:
    made = Visit(laboratory, Town())
    made.do(made.page.resize(1440, 1000))
    yield made
    made.end()
