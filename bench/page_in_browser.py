"""What does the page cost those who look at it? A real Chromium with three tabs on a large cluster whose pods come and
go.

For each update: script, style and layout of the first tab in CPU milliseconds of its main thread, so that a busy
machine does not show; and the longest by the clock of the page itself, where it does. Before that, the seconds until
the first paint, and until every node is drawn. Without a Chromium it says so and measures nothing."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from statistics import mean
from typing import Any

from bench.page import LargeCluster
from bench.report import Report, main, parser
from growth.web.guard import Guard
from growth.web.page import PageServer
from tests.browser.chromium import Page, find_chromium, open_browser

_COUNTED = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
_DRAWN = "globalThis.growth?.isReady && document.querySelector('growth-nodes')?.boxes?.length"


async def spent_seconds(page: Page) -> float:
    found = await page.send("Performance.getMetrics")
    return sum(float(each["value"]) for each in found["metrics"] if each["name"] in _COUNTED)


async def measure(nodes: int, pods: int, viewers: int, changes: int, updates: int) -> dict[str, float]:
    cluster = LargeCluster(nodes, pods)
    server = PageServer(cluster, Guard(), lambda *_asked: {})
    url = f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}/"
    async with open_browser() as open_tab:
        tabs = [await open_tab() for _ in range(viewers)]
        first: Page = tabs[0]
        await first.send("Performance.enable", timeDomain="threadTicks")
        await first.send("Page.bringToFront")
        await first.resize(1440, 1000)
        began = time.monotonic()
        await first.open(url)
        await first.wait_for(_DRAWN)
        drawn_seconds = time.monotonic() - began
        painted = await first.wait_for("performance.getEntriesByType('paint')[0]?.startTime")
        for tab in tabs[1:]:
            await tab.open(url)
            await tab.wait_for(_DRAWN)
        await first.send("Page.bringToFront")
        await first.run("(() => { growth.longest = 0; growth.updates = 0; })()")
        costs = [await _one_update(cluster, first, changes) for _ in range(updates)]
        longest: Any = await first.run("growth.longest")
    await server.stop()
    return {
        "cpu_ms_per_update": 1000 * mean(costs),
        "cpu_ms_of_the_dearest": 1000 * max(costs),
        "longest_by_the_clock_ms": float(longest),
        "first_paint_seconds": painted / 1000,
        "all_nodes_drawn_seconds": drawn_seconds,
    }


async def _one_update(cluster: LargeCluster, page: Page, changes: int) -> float:
    known, before = await page.run("growth.updates ?? 0"), await spent_seconds(page)
    cluster.change(changes)
    await page.wait_for(f"(growth.updates ?? 0) > {known}")
    return await spent_seconds(page) - before


def run(arguments: argparse.Namespace) -> Report:
    report = Report("What the page costs who looks at it")
    if not find_chromium():
        print("there is no Chromium: make browser installs it, where it may", file=sys.stderr)
        return report
    nodes, pods, viewers, changes = 1000, 20_000, 3, 20
    found = asyncio.run(measure(nodes, pods, viewers, changes, arguments.updates))
    name = f"{nodes}_nodes_{pods}_pods_{viewers}_viewers_{changes}_changes_an_update"
    report.add(name, **found)
    report.limit(name, "cpu_ms_of_the_dearest", at_most=100.0)
    report.limit(name, "first_paint_seconds", at_most=2.0)
    return report


if __name__ == "__main__":
    flags = parser(__doc__)
    flags.add_argument("--updates", type=int, default=20)
    sys.exit(main(flags, run))
