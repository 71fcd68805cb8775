"""`growth demo`: growth at work in the embedded cluster, told as a timeline. Needs no cluster and no account, and
changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Literal

from cyclopts import Parameter

from growth.controllers.loop.journal import be_quiet
from growth.sim.clock import run_virtual
from growth.sim.stories.story import HetznerStory, Story, Summary
from growth.sim.stories.timeline import Say


def demo(
    *,
    once: Annotated[bool, Parameter(negative="", help="Tell the story once, as fast as it goes, and end.")] = False,
    speed: Annotated[
        float, Parameter(help="Virtual seconds in one real second, while it is told again and again.")
    ] = 10.0,
    seed: Annotated[str, Parameter(help="Chooses another run of the same story.")] = "demo",
    provider: Annotated[
        Literal["sim", "hetzner-fake"],
        Parameter(help="The cloud: a simple one, or the Hetzner provider on a fake Hetzner."),
    ] = "sim",
) -> int:
    """Watch pending pods become machines, and machines go again."""
    story = HetznerStory if provider == "hetzner-fake" else Story
    be_quiet()
    telling = 0
    while True:
        telling += 1
        summary = _tell(story, seed if telling == 1 else f"{seed}-{telling}", None if once else speed)
        if once or not summary.succeeded:
            return 0 if summary.succeeded else 1


def _tell(story: Callable[[Say, str], Story], seed: str, speed: float | None) -> Summary:
    began = time.monotonic()
    last = 0.0

    def say(at: float, who: str, what: str) -> None:
        nonlocal last
        if speed:
            time.sleep((at - last) / speed)
        last = at
        print(f"{int(at) // 60:3d}:{int(at) % 60:02d}  {who:<7} {what}", flush=True)

    async def run() -> Summary:
        return await story(say, seed).run()

    summary = run_virtual(run())
    _print_summary(summary, time.monotonic() - began)
    return summary


def _print_summary(summary: Summary, real_seconds: float) -> None:
    bound = f" (no plan can cost less than {summary.lower_bound:.4f})" if summary.lower_bound else ""
    after = (
        "not all of them"
        if summary.placed_after_seconds is None
        else f"all running after {summary.placed_after_seconds:.0f} s"
    )
    rows = (
        ("pods placed", f"{summary.placed} of {summary.pods}, {after}"),
        ("nodes", f"{summary.nodes} bought, {summary.nodes_left} left at the end"),
        ("price per hour", f"{summary.price_per_hour:.4f}{bound}; {summary.spent:.4f} spent in all"),
        ("time", f"{summary.virtual_seconds / 60:.1f} virtual minutes in {real_seconds:.1f} real seconds"),
    )
    print()
    for name, value in rows:
        print(f"{name:>15}  {value}")
    for failure in summary.failures:
        print(f"{'failure':>15}  {failure}")
