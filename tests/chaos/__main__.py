"""`make chaos`: as many rounds as asked for. Prints the seed, each round, and what came of it; the exit code is 1 if
growth broke a law or did not recover in time.

What was drawn is the same for the same seed; the moments are those of real processes."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

from tests.chaos.rounds import RECOVERED_SECONDS, Chaos, Round, draw
from tests.chaos.world import world_of
from tests.e2e.controlplane import build
from tests.e2e.controlplane.cluster import ControlPlane

LONG_ROUNDS = 64


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", default="", help="what to draw from; without one a new one is taken")
    parser.add_argument("--rounds", type=int, default=LONG_ROUNDS, help="how many faults")
    parser.add_argument("--first", type=int, default=1, help="the round to begin with")
    parser.add_argument("--minutes", type=float, default=30.0, help="after which no further round begins")
    arguments = parser.parse_args()
    seed = arguments.seed or str(random.SystemRandom().randrange(1_000_000))
    signal.signal(signal.SIGTERM, _end)
    print(f"chaos, seed {seed}: {arguments.rounds} rounds", flush=True)
    began_at = time.monotonic()
    try:
        assets = build.obtain(print)
    except build.AssetsMissingError as missing:
        print(missing)
        return 1 if os.environ.get("CI") else 0
    folder = Path(tempfile.mkdtemp(prefix="growth-chaos-"))
    print(f"logs and audit log are in {folder}", flush=True)
    with ControlPlane(assets, folder / "control-plane") as cluster, world_of(cluster, folder, seed) as world:
        chaos = Chaos(world, seed)
        try:
            _play(chaos, list(draw(seed, arguments.rounds))[arguments.first - 1 :], began_at + 60 * arguments.minutes)
        finally:
            _tell(chaos, world.witness.seen, world.gateway.lies_told)
            print(f"{(time.monotonic() - began_at) / 60:.1f} minutes, seed {seed}")
        broken = chaos.broken
    for sentence in broken:
        print(f"BROKEN  {sentence}")
    print("nothing twice, leaked, killed or deleted blindly" if not broken else f"{len(broken)} broken")
    return 1 if broken else 0


def _play(chaos: Chaos, rounds: list[Round], until: float) -> None:
    """What is broken is said at once; on a machine that is too slow the last rounds are left out, and that is said."""
    chaos.begin()
    said: set[str] = set()
    for played, drawn in enumerate(rounds):
        if time.monotonic() > until:
            print(f"the time is over: {len(rounds) - played} rounds were not played")
            return
        print(f"{time.strftime('%H:%M:%S')} {drawn}: recovered in {chaos.play(drawn):.1f} s", flush=True)
        for sentence in [each for each in chaos.broken if each not in said]:
            print(f"BROKEN  {sentence}", flush=True)
            said.add(sentence)


def _tell(chaos: Chaos, seen: dict[str, int], lies: int) -> None:
    print(f"\n{'fault':34} {'times':>5} {'slowest':>8}")
    for name, seconds in sorted(chaos.result.seconds.items()):
        print(f"{name:34} {len(seconds):5d} {max(seconds):6.1f} s")
    taken = [each for seconds in chaos.result.seconds.values() for each in seconds]
    kills = chaos.result.kills
    killed = ", ".join(f"{count} at {kind}" for kind, count in sorted(kills.items()))
    late = sum(each > RECOVERED_SECONDS for each in taken)
    print(f"\n{len(taken)} faults of {len(chaos.result.seconds)} kinds, {kills.total()} processes killed ({killed})")
    print(f"{seen['bought']} machines bought, {seen['given back']} given back, {lies} answers falsified")
    mean, most = sum(taken) / max(1, len(taken)), max(taken, default=0.0)
    print(f"recovered in {mean:.1f} s on average, {most:.1f} s at most, {late} times after {RECOVERED_SECONDS:.0f} s")


def _end(*_: object) -> NoReturn:
    """So that everything started is ended: by way of the exits of all blocks."""
    sys.exit(143)


if __name__ == "__main__":
    sys.exit(main())
