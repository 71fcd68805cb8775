"""How is one program of the control plane run? Asked by `cluster`.

A child has its own process group (so that Ctrl-C reaches only the test run, which then ends it in order), its own log
file, and dies when the thread that started it ends, whatever ends it: start control planes from the main thread. It is
only ever ended by its own id."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# Below the range from which Linux takes the ports of outgoing connections: nobody else gets the port of a server that
# is being restarted.
PORTS = range(20_000, 30_000)
LINES_SHOWN = 40

# Runs in the child before the program: ask the kernel for SIGKILL when the parent ends, and give up if it has ended
# already.
DIE_WITH_PARENT = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


class ProcessEndedError(Exception):
    """A program of the control plane ended by itself; the message carries the end of its log."""


class Process:
    """One program with its command line and its log; it can be started and stopped again and again."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self.command = list(command)
        self.log = folder / f"{name}.log"
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self.alive:
            raise RuntimeError(f"{self.name} runs already")
        wrapped = [sys.executable, "-I", "-S", "-c", DIE_WITH_PARENT, str(os.getpid()), *self.command]
        # HOME is the folder of the run, so that no configuration of the person who tests is read.
        environment = {**os.environ, "HOME": str(self._folder)}
        environment.pop("KUBECONFIG", None)
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                wrapped,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=environment,
                process_group=0,
            )

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        if self._child is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._child.pid

    def check(self) -> None:
        """Raise ProcessEndedError if it was started and is no longer there."""
        if self._child is not None and (code := self._child.poll()) is not None:
            raise ProcessEndedError(f"{self.name} ended with {code}; the end of {self.log}:\n{self.log_tail()}")

    def stop(self, grace_seconds: float = 10.0) -> None:
        """Ask it to end, and kill it when the grace has passed; with no grace it is killed at once."""
        if self._child is None:
            return
        if grace_seconds > 0:
            self._child.terminate()
            try:
                self._child.wait(grace_seconds)
            except subprocess.TimeoutExpired:
                pass  # asked long enough
        self._child.kill()
        self._child.wait()
        self._child = None

    def pause(self) -> None:
        """Freeze it, as an overloaded machine would; its connections stay open and silent."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def log_tail(self, lines: int = LINES_SHOWN) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on now."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError(f"no {count} free loopback ports between {PORTS.start} and {PORTS.stop}")
