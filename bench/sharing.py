"""What does it cost, and what does it bring, if several growths share a cluster by pools? Tried in the embedded cluster
(`tests/sim/sharing`); growth itself knows no shares, and the page of decision 7 says what came of this.

    python -m bench.sharing [--pods 180] [--json]

Three pools, and pods that come in three waves while the machines of the wave before are on their way. Each input is
served by one growth for all pools, and by three with a pool each:

| input | pods |
| --- | --- |
| apart | each names one pool |
| mixed | a third of them may use every pool, and all pools sell the same |
| unequal | the same, but the pool that is first by name sells dearer machines |

`price` is that of all machines an hour when all pods run, `machines` their number, `over_one` how much dearer that is
than with one growth, in percent, and `seconds` the virtual time until then. `changes` are those that the busiest growth
was told of, `waiting` and `running` changes of pods among them, `writes` what it asked to write, `cpu_seconds` its own,
without the API server's; `all_cpu_seconds` are those of all growths together. In `narrow` a growth sees no nodes of
other shares and no pods on them."""

from __future__ import annotations

import argparse
import logging
import sys
from asyncio import Handle, TimerHandle
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import Context, ContextVar, copy_context
from itertools import product
from time import process_time
from typing import Any, Final

import structlog
from msgspec import Struct

from bench.report import Figure, Report, main, parser
from growth.sim.apiserver.objects import deployment
from growth.sim.clock import VirtualLoop, run_virtual
from growth.sim.cluster import Cluster
from tests.sim.share_view import WAITING
from tests.sim.sharing import QUICK, Growths, in_pools, share_pool

POOLS: Final = ("apples", "pears", "plums")
SIZES: Final = (("300m", "700Mi"), ("700m", "500Mi"), ("1100m", "3Gi"), ("1700m", "900Mi"))
WAVES: Final = 3
FIRST_SECONDS: Final = 30.0  # until every growth leads
WAVE_SECONDS: Final = 8.0
_SHARE: Final[ContextVar[str]] = ContextVar("the share whose growth works", default="")


class MeasuredLoop(VirtualLoop):
    """Counts the CPU seconds of every callback for the growth that set it in motion."""

    def __init__(self) -> None:
        super().__init__()
        self.cpu_seconds: dict[str, float] = {}

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:  # type: ignore[override]  # as in the base
        return super().call_soon(self._timed, callback, args, _share_in(context), context=context)

    def call_at(  # type: ignore[override]  # as in the base
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        return super().call_at(when, self._timed, callback, args, _share_in(context), context=context)

    def _timed(self, callback: Callable[..., object], args: tuple[Any, ...], share: str) -> None:
        began = process_time()
        callback(*args)
        self.cpu_seconds[share] = self.cpu_seconds.get(share, 0.0) + process_time() - began


def _share_in(context: Context | None) -> str:
    return (copy_context() if context is None else context).get(_SHARE, "")


class Trial(Struct, frozen=True):
    """One world: an input, and how many growths serve it."""

    name: str
    pods: int
    is_shared: bool
    is_narrow: bool = False

    @property
    def shares(self) -> tuple[str, ...]:
        return POOLS if self.is_shared else ("",)

    def pools(self) -> Iterator[dict[str, Any]]:
        for pool in POOLS:
            kind = "cx32" if self.name == "unequal" and pool == POOLS[0] else "cx33"
            yield share_pool(pool, pool if self.is_shared else "", kind, limits={"nodes": 1000})

    def wave(self, number: int) -> Iterator[dict[str, Any]]:
        """For each size a Deployment of each pool, and one for each pool whose pods may use every pool."""
        count = self.pods // (WAVES * len(SIZES) * len(POOLS))
        for size, pool in product(SIZES, POOLS):
            places = (pool,) if self.name == "apart" else POOLS
            name = f"{pool}-{size[0]}-{number}"
            yield deployment(name, count - count // 3, *size, **in_pools(pool))
            yield deployment(f"{name}-any", count // 3, *size, **in_pools(*places))

    async def run(self) -> Growths:
        """From the first pod until all run."""
        growths = Growths(Cluster("sharing"), QUICK, is_narrow=self.is_narrow)
        growths.cluster.create(*self.pools())
        for share in self.shares:
            _SHARE.set(share or "all")
            growths.start(share)
        _SHARE.set("")
        await growths.rest(FIRST_SECONDS)
        apps = [await self._come(growths, number) for number in range(WAVES)]
        every = [app for wave in apps for app in wave]
        wanted = len(growths.cluster.objects("Pod"))
        await growths.until(600, lambda: growths.running(*every) == wanted, "all pods run")
        return growths

    async def _come(self, growths: Growths, number: int) -> list[str]:
        wave = list(self.wave(number))
        growths.cluster.create(*wave)
        await growths.rest(WAVE_SECONDS)
        return [each["metadata"]["name"] for each in wave]


def measure(trial: Trial) -> dict[str, Figure]:
    loops: list[MeasuredLoop] = []

    def make_loop() -> MeasuredLoop:
        loops.append(MeasuredLoop())
        return loops[0]

    growths = run_virtual(trial.run(), make_loop=make_loop)
    told = {share: growths.views[share].told for share in trial.shares}
    own = {share: loops[0].cpu_seconds[share or "all"] - told[share].cpu_seconds for share in trial.shares}
    changes = max((each.changes for each in told.values()), key=Counter.total)
    return {
        "price": growths.price_per_hour(),
        "machines": len(growths.bought()),
        "seconds": loops[0].time() - FIRST_SECONDS,
        "changes": changes.total(),
        "waiting": changes[WAITING],
        "running": changes["Pod"],
        "writes": max(growths.views[share].writes_asked for share in trial.shares),
        "cpu_seconds": max(own.values()),
        "all_cpu_seconds": sum(own.values()),
    }


def run(arguments: argparse.Namespace) -> Report:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    report = Report("Several growths in one cluster")
    for name in ("apart", "mixed", "unequal"):
        one = measure(Trial(name, arguments.pods, is_shared=False))
        report.add(f"{name}_one", **one)
        for kind in ("three", "narrow"):
            found = measure(Trial(name, arguments.pods, is_shared=True, is_narrow=kind == "narrow"))
            over = 100 * (float(found["price"]) / float(one["price"]) - 1)
            report.add(f"{name}_{kind}", **found, over_one=over)
    return report


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("--pods", type=int, default=180)
    sys.exit(main(options, run))
