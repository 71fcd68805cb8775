"""How does a benchmark measure, and how does it show what it found? Asked by every `bench.NAME`; it knows nothing of
what is measured.

A report is a table of cases (rows) and figures (columns). `--json` prints the same as `{"case": {"figure": value}}`, so
the figure `mib` of the case `pods_100000` is `pods_100000.mib`. A figure may have a limit; a benchmark over a limit
exits with 1."""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

Figure = float | int | str
MIB = 1024 * 1024


@dataclass
class Spent:
    """What a measured block cost; filled in when the block ends."""

    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0


@contextmanager
def measured() -> Iterator[Spent]:
    """Count the CPU seconds of this process (all its threads) and of the children it waited for inside the block."""
    spent = Spent()
    cpu_before, wall_before = cpu_seconds(), time.perf_counter()
    try:
        yield spent
    finally:
        spent.cpu_seconds = cpu_seconds() - cpu_before
        spent.wall_seconds = time.perf_counter() - wall_before


def cpu_seconds() -> float:
    """User and system time of this process and of its finished children."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def resident_mib() -> float:
    """Memory this process holds now, from the kernel's own count."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / MIB


def peak_resident_mib() -> float:
    """The most memory this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def family_cpu_seconds(process: int) -> float:
    """Of a process and its children, the ended ones too."""
    total = 0
    for one in _family(process):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        total += sum(int(each) for each in fields[11:15])
    return total / os.sysconf("SC_CLK_TCK")


def family_peak_mib(process: int) -> float:
    """The most memory that a process and its children held, each at its own time."""
    return sum(_status_mib(one, "VmHWM") for one in _family(process))


def family_mib(process: int) -> float:
    """What they hold now."""
    return sum(_status_mib(one, "VmRSS") for one in _family(process))


def _family(process: int) -> list[int]:
    children = [
        int(child)
        for listed in Path(f"/proc/{process}/task").glob("*/children")
        for child in listed.read_text().split()
    ]
    return [process, *(one for child in children for one in _family(child))]


def _status_mib(process: int, field_name: str) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(field_name)) / 1024


@dataclass
class Report:
    """Cases and their figures, in the order they were added."""

    title: str
    cases: dict[str, dict[str, Figure]] = field(default_factory=dict)
    limits: dict[tuple[str, str], float] = field(default_factory=dict)

    def add(self, case: str, **figures: Figure) -> None:
        """Put figures into the row of `case`; a figure that is measured again replaces the first."""
        self.cases.setdefault(case, {}).update(figures)

    def limit(self, case: str, figure: str, at_most: float) -> None:
        """Say what `figure` may be at most; `exit_code` tells whether it held."""
        self.limits[case, figure] = at_most

    def twice(self, less: str, more: str, most: Mapping[str, float], size: float = 2.0) -> None:
        """A row that says how many times as much twice the size takes, where `more` is `size` times as large."""
        for figure, limit in most.items():
            small, large = self.cases[less][figure], self.cases[more][figure]
            if isinstance(small, int | float) and isinstance(large, int | float):
                self.add(f"twice {less}", **{figure: (large / small) ** (1 / math.log2(size))})
            self.limit(f"twice {less}", figure, limit)

    def broken_limits(self) -> list[str]:
        """A sentence for each figure above its limit. A figure that is missing, or no number, breaks its limit too."""
        return [
            f"{case}.{figure} is {_shown(self.cases.get(case, {}).get(figure, 'missing'))}, more than {_shown(most)}"
            for (case, figure), most in self.limits.items()
            if not _within(self.cases.get(case, {}).get(figure), most)
        ]

    def exit_code(self) -> int:
        return 1 if self.broken_limits() else 0

    def as_json(self) -> str:
        return json.dumps(self.cases, indent=2)

    def as_table(self) -> Table:
        columns = list(dict.fromkeys(figure for figures in self.cases.values() for figure in figures))
        table = Table(title=self.title, title_justify="left", box=None, pad_edge=False)
        table.add_column("case")
        for column in columns:
            table.add_column(column, justify="right")
        for case, figures in self.cases.items():
            table.add_row(case, *(self._cell(case, column, figures.get(column)) for column in columns))
        return table

    def _cell(self, case: str, figure: str, value: Figure | None) -> str:
        most = self.limits.get((case, figure))
        text = "" if value is None else _shown(value)
        return text if most is None else f"{text} (≤ {_shown(most)})"

    def show(self, json_wanted: bool) -> int:
        """Print the figures and, on stderr, every broken limit; returns the exit code."""
        if json_wanted:
            print(self.as_json())
        else:
            Console(width=200 if not sys.stdout.isatty() else None).print(self.as_table())
        for sentence in self.broken_limits():
            print(f"over its limit: {sentence}", file=sys.stderr)
        return self.exit_code()


def parser(description: str | None) -> argparse.ArgumentParser:
    """The arguments every benchmark has; add your own to it."""
    arguments = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return arguments


def main(arguments: argparse.ArgumentParser, run: Callable[[argparse.Namespace], Report]) -> int:
    """Parse, run, show: what stands under `if __name__ == "__main__"` in a benchmark, inside `sys.exit(...)`."""
    chosen = arguments.parse_args()
    return run(chosen).show(chosen.json)


def _within(value: Figure | None, most: float) -> bool:
    return isinstance(value, int | float) and value <= most


def _shown(value: Figure) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 10 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else value
