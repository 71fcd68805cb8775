"""`growth demo`: growth at work in the embedded cluster, on its page and told as a timeline. Needs no cluster and no
account, and changes nothing.

Without a name it shows one day (with --once: the story of 120 pods), with one that of a scenario which comes with
growth; `growth simulate NAME` runs the same file and gives the figures. Where nobody watches, neither a terminal nor an
open page, it ends by itself with the summary. Ends with 1 if a story did not end as it should, with 2 if there is none
of that name, with 130 if it was interrupted.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Iterable
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from growth.cli.demo.show import Ended, Show
from growth.cli.explain import explain_on_page
from growth.controllers.loop.journal import be_quiet
from growth.sim.clock import run_virtual
from growth.sim.scenarios.reader import ScenarioError, built_in_scenarios, find_scenario, read_scenario, with_seed
from growth.sim.stories.story import Ending, HetznerStory, ScenarioStory, Story, Summary
from growth.sim.stories.timeline import Say
from growth.web.guard import Guard
from growth.web.page import PageServer

AnyStory = Story | ScenarioStory
Tell = Callable[[Say, int], AnyStory]  # how often it was told before: each time another seed


def demo(  # noqa: PLR0913 - every flag is an argument
    name: Annotated[str, Parameter(help="A scenario that comes with growth (--list), or a scenario file.")] = "",
    /,
    *,
    once: Annotated[
        bool, Parameter(negative="", help="Tell the story once, as fast as it goes, without the page, and end.")
    ] = False,
    speed: Annotated[float, Parameter(help="Virtual seconds in one real second; the page can change it.")] = 20.0,
    port: Annotated[int, Parameter(help="Port of the page on this machine; 0 takes a free one.")] = 0,
    open_: Annotated[
        bool, Parameter(name="--open", help="Open the page in a browser, where there is a terminal and a desktop.")
    ] = True,
    seed: Annotated[str, Parameter(help="Chooses another run of the same story; for a scenario, a number.")] = "",
    provider: Annotated[
        Literal["sim", "hetzner-fake"] | None,
        Parameter(
            help="The cloud: a simple one, or the Hetzner provider on a fake Hetzner. A scenario says it itself."
        ),
    ] = None,
    list_: Annotated[bool, Parameter(name="--list", negative="", help="Name the scenarios that can be told.")] = False,
) -> int:
    """Watch pending pods become machines, and machines go again."""
    if list_:
        _print_names()
        return 0
    try:
        shown = name or ("" if once or provider else _DAY)
        tell = _of_scenario(shown, seed, provider) if shown else _of_demo(seed or "demo", provider)
    except (ScenarioError, ValueError) as error:
        print(f"growth demo: {error}", file=sys.stderr)
        return 2
    be_quiet()
    if once:
        return 0 if _tell(tell, 0).succeeded else 1
    show = Show(speed, is_seen=sys.stdout.isatty())
    try:
        return asyncio.run(_show(show, tell, port, opens=open_))
    except KeyboardInterrupt:
        print("\ngrowth demo: interrupted", file=sys.stderr)
        return 130


def _print_names() -> None:
    scenarios = {name: read_scenario(path).scenario.about for name, path in built_in_scenarios().items()}
    width = max(map(len, scenarios))
    for name, about in scenarios.items():
        print(f"{name:<{width}}  {about}")


def _of_demo(seed: str, provider: str | None) -> Tell:
    story = HetznerStory if provider == "hetzner-fake" else Story
    return lambda say, telling: story(say, f"{seed}-{telling + 1}" if telling else seed)


def _of_scenario(name: str, seed: str, provider: str | None) -> Tell:
    if provider is not None:
        raise ValueError(f"{name} says itself where machines come from: leave --provider out")
    if seed and not seed.isdecimal():
        raise ValueError(f"the seed of a scenario is a number, not {seed}")
    read = read_scenario(find_scenario(name))
    first = int(seed or read.scenario.seed)
    return lambda say, telling: ScenarioStory(say, with_seed(read, first + telling))


_DAY: Final = "day"
_PAUSE_SECONDS: Final = 20.0  # before the story begins again


async def _show(show: Show, tell: Tell, port: int, *, opens: bool) -> int:
    """Serve the page, and let a thread tell the story until nobody watches any more."""
    server = PageServer(show, Guard(controls=True), explain_on_page, show.steer)
    show.viewers = lambda: len(server.feed.viewers)
    url = f"http://127.0.0.1:{await server.start('127.0.0.1', port)}/"
    print(f"Look at it: {url}", flush=True)
    has_desktop = sys.platform == "darwin" or bool(os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"})
    if opens and has_desktop and sys.stdout.isatty():
        webbrowser.open(url)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    result = [1]

    def play() -> None:
        try:
            result[0] = _tell_again_and_again(show, tell)
        finally:
            loop.call_soon_threadsafe(ended.set)

    thread = threading.Thread(target=play, name="story", daemon=True)
    thread.start()
    try:
        await ended.wait()
    finally:
        show.give_up()
        await asyncio.to_thread(thread.join)
        await server.stop()
    return result[0]


def _tell_again_and_again(show: Show, tell: Tell) -> int:
    telling = 0
    while True:
        try:
            summary = _tell(tell, telling, show)
        except Ended:
            if not show.wants_again:
                return 130
            show.wants_again = False
            print("\n       (from the beginning)\n", flush=True)
            continue
        if not summary.succeeded:
            return 1
        show.end()
        if not show.wait_for_another(_PAUSE_SECONDS):
            return 0
        telling += 1


def _tell(tell: Tell, telling: int, show: Show | None = None) -> Summary | Ending:
    began = time.monotonic()

    def say(at: float, who: str, what: str) -> None:
        print(f"{int(at) // 60:3d}:{int(at) % 60:02d}  {who:<7} {what}", flush=True)
        if show is not None:
            show.say(at, who, what)

    async def run() -> Summary | Ending:
        story = tell(say, telling)
        if show is not None:
            show.begin(story)
        return await story.run()

    summary = run_virtual(run(), show.leap if show is not None else None)
    rows = _rows_of_demo(summary) if isinstance(summary, Summary) else _rows_of_scenario(summary)
    virtual = summary.virtual_seconds if isinstance(summary, Summary) else summary.result.virtual_seconds
    took = f"{virtual / 60:.1f} virtual minutes in {time.monotonic() - began:.1f} real seconds"
    _print_rows((*rows, ("time", took), *(("failure", failure) for failure in summary.failures)))
    return summary


def _rows_of_demo(summary: Summary) -> Iterable[tuple[str, str]]:
    bound = f" (no plan can cost less than {summary.lower_bound:.4f})" if summary.lower_bound else ""
    after = (
        "not all of them"
        if summary.placed_after_seconds is None
        else f"all running after {summary.placed_after_seconds:.0f} s"
    )
    yield "pods placed", f"{summary.placed} of {summary.pods}, {after}"
    yield "nodes", f"{summary.nodes} bought, {summary.nodes_left} left at the end"
    yield "price per hour", f"{summary.price_per_hour:.4f}{bound}; {summary.spent:.4f} spent in all"


def _rows_of_scenario(ending: Ending) -> Iterable[tuple[str, str]]:
    pods, machines, cost, waits = (
        ending.result.pods, ending.result.machines, ending.result.cost, ending.result.waiting_seconds
    )  # fmt: skip
    yield "pods", f"{pods.made} in all; {pods.running} running and {pods.pending} waiting at the end"
    yield (
        "waited",
        f"{waits.p50:.0f} s in the middle, {waits.p95:.0f} s at the 95th percentile, {waits.max:.0f} s at most",
    )
    yield "machines", f"{machines.bought} bought, {machines.given_back} given back, {machines.at_end} left at the end"
    yield "disturbed", f"{pods.evicted} pods evicted, {pods.killed} killed"
    yield "cost", f"{cost.total:.4f} spent in all, {cost.per_hour_at_end:.4f} per hour at the end"


def _print_rows(rows: Iterable[tuple[str, str]]) -> None:
    print()
    for name, value in rows:
        print(f"{name:>15}  {value}")
