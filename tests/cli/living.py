"""`growth run` as a real process, over HTTP, against the embedded API server: for what only a process can show. Limits
that take a minute in earnest can be made short."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from aiohttp import web

from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.transport import Request, TransportError
from tests.controllers.ask.clinic import Clinic, Json

Result = TypeVar("Result")

_LAUNCHER: Final = """
import importlib, json, sys
for name, value in json.loads(sys.argv[1]).items():
    module, _, constant = name.rpartition(".")
    setattr(importlib.import_module(module), constant, value)
from growth.cli.app import main
sys.exit(main(sys.argv[2:]))
"""
_LONGEST_SECONDS: Final = 60.0


class Living:
    """One growth and its cluster."""

    def __init__(self, folder: Path, settings: Json, limits: Mapping[str, float]) -> None:
        self.clinic = Clinic(SystemRuntime())
        self._folder, self._settings, self._limits = folder, settings, limits
        self._loop = asyncio.new_event_loop()
        self._serving = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._process: subprocess.Popen[bytes] | None = None

    # --------------------------------------------------------------------------------------- cluster

    def do(self, work: Any) -> Any:
        """Run a coroutine in the thread of the API server."""
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(timeout=30)

    def serve(self) -> str:
        self._serving.start()
        return str(self.do(self._listen()))

    async def _listen(self) -> str:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _pass_on(self, asked: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in asked.headers.items()}
        response = await self.clinic.send(Request(asked.method, asked.raw_path, headers, await asked.read()))
        told = web.StreamResponse(status=response.status, headers=dict(response.headers))
        await told.prepare(asked)
        try:
            async for chunk in response.chunks():
                await told.write(chunk)
        except (TransportError, ConnectionError):
            if asked.transport is not None:
                asked.transport.abort()
        finally:
            await response.close()
        return told

    async def _end_serving(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._runner.cleanup()

    # ---------------------------------------------------------------------------------------- growth

    def write_kubeconfig(self, server: str) -> Path:
        kubeconfig = self._folder / "kubeconfig"
        cluster = {"cluster": {"server": server}, "name": "a"}
        context = {"context": {"cluster": "a", "user": "a"}, "name": "a"}
        user: Json = {"user": {}, "name": "a"}
        config = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "a"}
        kubeconfig.write_text(json.dumps(config))
        return kubeconfig

    def start(self, server: str) -> None:
        kubeconfig, settings = self.write_kubeconfig(server), self._folder / "settings.yaml"
        settings.write_text(json.dumps({"listenPort": 0, "page": {"port": 0}, **self._settings}))
        command = [sys.executable, "-c", _LAUNCHER, json.dumps(dict(self._limits))]
        command += ["run", "--settings", str(settings), "--kubeconfig", str(kubeconfig)]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def stop(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(timeout=30)
        self.do(self._end_serving())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._serving.join(10)
        self._loop.close()

    @property
    def lines(self) -> list[Json]:
        """The log, so far."""
        text = (self._folder / "log").read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def said(self, event: str) -> list[str]:
        """Why growth said so, each time."""
        return [str(line.get("why", "")) for line in self.lines if line["event"] == event]

    def asked(self, path: str) -> tuple[int, str]:
        """Status and text of a probe; 0 while nobody listens."""
        ports = [line["port"] for line in self.lines if line["event"] == "growth listens"]
        return self._asked(f"http://127.0.0.1:{ports[0]}{path}") if ports else (0, "")

    def asked_page(self, path: str) -> tuple[int, str]:
        """The same of the page."""
        urls = [line["url"] for line in self.lines if line["event"] == "growth shows its page"]
        return self._asked(urls[0] + path) if urls else (0, "")

    @staticmethod
    def _asked(url: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - of this very process
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except urllib.error.URLError:
            return 0, ""

    def wait_for(self, what: Callable[[], Result]) -> Result:
        """The first answer that is true."""
        ends_at = time.monotonic() + _LONGEST_SECONDS
        while not (answer := what()):
            if time.monotonic() > ends_at or (self._process is not None and self._process.poll() is not None):
                raise AssertionError((self._folder / "log").read_text()[-4000:])
            time.sleep(0.1)
        return answer

    def wait_until_ready(self) -> None:
        self.wait_for(lambda: self.asked("/readyz") == (200, "ok\n"))

    def wait_for_unready(self, reason: str) -> None:
        """`/readyz` says why, and so does a line of the log."""
        self.wait_for(lambda: (found := self.asked("/readyz"))[0] == 503 and reason in found[1])
        self.wait_for(lambda: any(reason in why for why in self.told))

    @property
    def told(self) -> list[str]:
        return [
            why for event in ("growth waits", "growth cannot act", "growth is not alive") for why in self.said(event)
        ]

    def stop_workers(self) -> None:
        """Every child stands still, as one that calculates for ever would. One that is only being started does not:
        until it is a program of its own, its parent stands still with it.
        """
        assert self._process is not None
        own, children = Path(f"/proc/{self._process.pid}"), list[str]()
        for thread in (own / "task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                children += re.findall(r"\d+", (thread / "children").read_text())
        for child in children:
            with suppress(FileNotFoundError, ProcessLookupError):  # so has this
                if Path(f"/proc/{child}/cmdline").read_bytes() != (own / "cmdline").read_bytes():
                    os.kill(int(child), signal.SIGSTOP)


@contextmanager
def living(
    folder: Path,
    settings: Json | None = None,
    limits: Mapping[str, float] | None = None,
    prepare: Callable[[Living], None] = lambda _cluster: None,
    pools: tuple[Json, ...] = (),
) -> Iterator[Living]:
    """The cluster with our kinds, its namespace and these pools; then growth begins."""
    growth = Living(folder, settings or {}, limits or {})
    server = growth.serve()
    try:
        growth.do(growth.clinic.install(*pools))
        prepare(growth)
        growth.start(server)
        yield growth
    finally:
        growth.stop()
