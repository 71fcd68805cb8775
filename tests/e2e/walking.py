"""A page of the docs, walked literally: every command block is typed into a shell, and says what the page says.

A comment directly above a block says how it is walked; without one a block of `sh` is run, and must succeed.

| comment | the block |
| --- | --- |
| `<!-- walk: not run, WHY -->` | is passed over |
| `<!-- walk: file NAME -->` | is what the reader saves under this name |
| `<!-- walk: stays -->` | is a command that goes on, beside those that follow |
| `<!-- walk: Ctrl-C -->` | is run after the command that goes on was ended so |

A block of `text` directly after a block of commands is what they print: its lines stand in the output in this order,
whatever the numbers, the spaces, and what `…` leaves out. `<!-- walk: not compared, WHY -->` passes it over.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.e2e.controlplane.cluster import ControlPlane

ROOT: Final = Path(__file__).parents[2]
_BLOCK: Final = re.compile(r"(?:<!-- walk: (?P<how>[^>]*?) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)```", re.DOTALL)
_NUMBER: Final = re.compile(r"\d+(?:\\\.\d+)?")
_LONGEST_SECONDS: Final = 150.0


class Block(Struct, frozen=True):
    language: str
    code: str
    how: str = ""


def blocks_of(text: str) -> Iterator[Block]:
    for found in _BLOCK.finditer(text):
        yield Block(found["language"], found["code"], found["how"] or "")


def missing_line(shown: str, printed: str) -> str:
    """The first line of the page that was not printed, in its turn. Empty: all were."""
    rest = [" ".join(line.split()) for line in printed.splitlines()]
    lines = (" ".join(each.split()) for each in shown.splitlines())
    for line in (each for each in lines if each not in ("", "…")):
        pattern = _NUMBER.sub(r"\\d+(?:\\.\\d+)?", re.escape(line)).replace("…", ".*")
        place = next((number for number, each in enumerate(rest) if re.fullmatch(pattern, each)), None)
        if place is None:
            return line
        rest = rest[place + 1 :]
    return ""


class Walk:
    """One reader, with a folder of their own in which docs and deploy are as in a checkout."""

    def __init__(self, cluster: ControlPlane, folder: Path, helm: Path | None = None) -> None:
        self._folder = folder
        self._running: subprocess.Popen[str] | None = None
        self.printed: str | None = None  # by the block just before
        tools = folder / "bin"
        tools.mkdir()
        launcher = tools / "growth"
        launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m growth "$@"\n')
        launcher.chmod(0o755)
        (tools / "kubectl").symlink_to(cluster.kubectl_binary)
        if helm is not None:
            (tools / "helm").symlink_to(helm)
        for name in ("docs", "deploy"):
            (folder / name).symlink_to(ROOT / name)
        self._environment = {
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "KUBECONFIG": str(cluster.kubeconfig),
            "HOME": str(folder),
            "GROWTH_LISTEN_PORT": "0",  # somebody may have the one of the pages
        }

    def page(self, path: str) -> int:
        """All of it, in its order. How many blocks of commands were run."""
        taken = 0
        for block in blocks_of((ROOT / path).read_text(encoding="utf-8")):
            self._take(block)
            taken += block.language == "sh" and not block.how.startswith("not ")
        self.interrupt()
        return taken

    def _take(self, block: Block) -> None:
        before, self.printed = self.printed, None
        match block.language, block.how.split(maxsplit=1):
            case _, ["not", *_]:
                return
            case _, ["file", name]:
                (self._folder / name).write_text(block.code)
            case "sh", ["stays"]:
                self.interrupt()
                self._start(block.code)
            case "sh", how:
                if how == ["Ctrl-C"]:
                    self.interrupt()
                self.run(block.code)
            case "text", _ if before is not None:
                missing = missing_line(block.code, before)
                assert not missing, f"the page says {missing!r}; this was printed:\n{before}"

    def run(self, code: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_LONGEST_SECONDS,
            check=False,
        )
        self.printed = done.stdout
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _start(self, code: str) -> None:
        """It has begun when it has said something."""
        log = (self._folder / "stays.log").open("w", encoding="utf-8")
        with log:
            self._running = subprocess.Popen(
                ["bash", "-c", f"exec {code.strip()}"],
                cwd=self._folder,
                env=self._environment,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        ends_at = time.monotonic() + _LONGEST_SECONDS
        while not self.said and self._running.poll() is None and time.monotonic() < ends_at:
            time.sleep(0.1)

    @property
    def said(self) -> str:
        """By the command that goes on, or went on last."""
        return (self._folder / "stays.log").read_text(encoding="utf-8")

    def interrupt(self) -> None:
        """As Ctrl-C in its terminal: every process of it hears that, and it ends without a trace."""
        running, self._running = self._running, None
        if running is None:
            return
        assert running.poll() is None, f"it ended by itself:\n{self.said}"
        os.killpg(running.pid, signal.SIGINT)
        assert running.wait(timeout=30) == 0, self.said
        assert "Traceback" not in self.said
        assert "growth stops" in self.said

    def end(self) -> None:
        """Whatever happened, nothing goes on."""
        if self._running is not None and self._running.poll() is None:
            os.killpg(self._running.pid, signal.SIGKILL)
            self._running.wait(timeout=30)
