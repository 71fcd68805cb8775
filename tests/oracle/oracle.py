"""The oracle as a running process: lines in, lines out. Asked by the comparison, in batches, and by the tests, one case
at a time.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from tests.oracle.compare import Truth

_truth = msgspec.json.Decoder(Truth)


def ask_all(binary: Path, lines: Sequence[bytes]) -> list[Truth]:
    """Answers to many lines, in their order."""
    done = subprocess.run([str(binary)], input=b"\n".join(lines) + b"\n", capture_output=True, check=True)
    return [_truth.decode(line) for line in done.stdout.splitlines()]


class Oracle:
    """Answers one line at a time."""

    def __init__(self, binary: Path) -> None:
        self._process = subprocess.Popen([str(binary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, line: bytes) -> Truth:
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("started with pipes")
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()
        return _truth.decode(self._process.stdout.readline())

    def __enter__(self) -> Oracle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()
