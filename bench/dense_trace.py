"""A trace of a busy week for `growth simulate`: pods that come by day more than by night, most for minutes, some for
hours, a few for days.

    python -m bench.dense_trace docs/examples/scenarios/dense/pods.csv --pods 20000 --days 7
    growth simulate docs/examples/scenarios/dense/week.yaml

The same numbers give the same file."""

from __future__ import annotations

import argparse
import csv
import math
import random
from collections.abc import Iterator
from pathlib import Path

DAY = 86_400.0
SIZES = ((250, 512), (500, 1024), (1000, 2048), (2000, 2048), (3000, 4096))  # cpu_milli, memory_mib
STAYS = ((0.80, 600.0), (0.17, 7200.0), (0.03, DAY))  # part of all pods, and how long they stay in the middle


def arrivals(pods: int, days: float, seed: int = 0) -> Iterator[tuple[str, int, int, int, int]]:
    """Name, what it asks for, when it comes and when it goes, in the order in which they come."""
    chance = random.Random(seed)
    times = sorted(_moment(chance, days) for _ in range(pods))
    for number, at in enumerate(times):
        cpu, memory = chance.choices(SIZES, (30, 30, 25, 10, 5))[0]
        middle = chance.choices([each for _, each in STAYS], [part for part, _ in STAYS])[0]
        stays = min(chance.lognormvariate(math.log(middle), 0.8), 3 * DAY)
        yield f"pod-{number:05d}", cpu, memory, int(at), int(at + max(30.0, stays))


def _moment(chance: random.Random, days: float) -> float:
    """Four times as many at noon as at midnight."""
    while True:
        at = chance.uniform(0.0, days * DAY)
        if chance.random() < 0.625 - 0.375 * math.cos(2 * math.pi * at / DAY):
            return at


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", default=Path(".build/pods.csv"))
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.file.parent.mkdir(parents=True, exist_ok=True)
    with given.file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(("name", "cpu_milli", "memory_mib", "creation_time", "deletion_time"))
        writer.writerows(arrivals(given.pods, given.days, given.seed))
    print(f"{given.pods} pods in {given.days:g} days: {given.file}")


if __name__ == "__main__":
    main()
