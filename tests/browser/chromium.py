"""A real Chromium, driven over its own debugging protocol: no other program and no other package is needed.

What goes wrong on a page is kept: errors of the console, exceptions, violations of the Content-Security-Policy, and
every address that it asked for."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-dev-shm-usage", "--remote-debugging-port=0", "about:blank",
)  # fmt: skip
_LONGEST_SECONDS: Final = 60.0


def find_chromium() -> str:
    """Where it is; empty: nowhere."""
    return next((path for path in map(shutil.which, NAMES) if path), "")


class Page:
    """One tab."""

    def __init__(self, socket: ClientWebSocketResponse, session: str) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._socket, self._session = socket, session
        self._number = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}

    async def send(self, method: str, **params: Any) -> Any:
        self._number += 1
        waiting = self._answers[self._number] = asyncio.get_running_loop().create_future()
        message = {"id": self._number, "method": method, "params": params}
        await self._socket.send_str(msgspec.json.encode({**message, "sessionId": self._session}).decode())
        async with asyncio.timeout(_LONGEST_SECONDS):
            return await waiting

    def hear(self, message: dict[str, Any]) -> None:
        if "id" in message:
            waiting = self._answers.pop(message["id"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message.get("result", message.get("error")))
            return
        params = message.get("params", {})
        match message["method"]:
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.errors.append(f"exception: {details.get('exception', {}).get('description', details['text'])}")
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.errors.append(f"{params['entry']['source']}: {params['entry']['text']}")
            case "Runtime.consoleAPICalled" if params["type"] == "error":
                self.errors.append(f"console: {params['args']}")
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

    # ----------------------------------------------------------------------------------- what a person does

    async def open(self, url: str) -> None:
        await self.send("Page.navigate", url=url)

    async def run(self, code: str) -> Any:
        """The value of an expression; a promise is waited for."""
        answer = await self.send(
            "Runtime.evaluate",
            expression=code,
            returnByValue=True,
            awaitPromise=True,
            allowUnsafeEvalBlockedByCSP=False,
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"]["exception"].get("description", answer))
        return answer["result"].get("value")

    async def wait_for(self, code: str, seconds: float = 30.0) -> Any:
        """Until the expression is true. Nothing on the page tells when, so it is asked again and again."""
        async with asyncio.timeout(seconds):
            while True:
                if found := await self.run(code):
                    return found
                await asyncio.sleep(0.05)

    async def press(self, key: str, code: int = 0, text: str = "") -> None:
        known = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowRight": 39, "ArrowDown": 40, "ArrowLeft": 37, "ArrowUp": 38}
        number = code or known.get(key, 0)
        typed = text or ("\r" if key == "Enter" else "")
        event = {"key": key, "code": key, "windowsVirtualKeyCode": number, **({"text": typed} if typed else {})}
        await self.send("Input.dispatchKeyEvent", type="keyDown", **event)
        await self.send("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=number)

    async def type(self, text: str) -> None:
        await self.send("Input.insertText", text=text)

    async def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            await self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def resize(self, width: int, height: int, *, is_phone: bool = False) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 2 if is_phone else 1, "mobile": is_phone}
        await self.send("Emulation.setDeviceMetricsOverride", **size)

    async def prefer(self, **features: str) -> None:
        listed = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        await self.send("Emulation.setEmulatedMedia", features=listed)

    async def take_picture(self, path: Path, *, whole: bool = False) -> None:
        answer = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        await asyncio.to_thread(_write, path, base64.b64decode(answer["data"]))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@contextlib.asynccontextmanager
async def open_browser() -> AsyncIterator[Callable[[], Any]]:
    """A browser without any past; the answer opens a tab."""
    with tempfile.TemporaryDirectory(prefix="growth-browser-", ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            find_chromium() or "chromium", *_FLAGS[:-1], f"--user-data-dir={folder}", _FLAGS[-1],
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                address = await _address(process)
            async with ClientSession() as session, session.ws_connect(address, max_msg_size=0) as socket:
                tabs: dict[str, Page] = {}
                reading = asyncio.create_task(_read(socket, tabs))
                yield lambda: _open_tab(socket, tabs)
                reading.cancel()
        finally:
            process.kill()
            await process.wait()


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    told = list[str]()
    while line := (await process.stderr.readline()).decode():
        told.append(line)
        if "DevTools listening on " in line:
            return line.partition("listening on ")[2].strip()
    raise RuntimeError("Chromium ended: " + "".join(told[-5:]))


async def _read(socket: ClientWebSocketResponse, tabs: dict[str, Page]) -> None:
    async for message in socket:
        if message.type == WSMsgType.TEXT:
            content = msgspec.json.decode(message.data)
            tab = tabs.get(content.get("sessionId", ""))
            if tab is not None:
                tab.hear(content)


async def _open_tab(socket: ClientWebSocketResponse, tabs: dict[str, Page]) -> Page:
    browser = tabs.setdefault("", Page(socket, ""))
    browser._session = ""
    made = await _command(browser, "Target.createTarget", url="about:blank")
    attached = await _command(browser, "Target.attachToTarget", targetId=made["targetId"], flatten=True)
    page = tabs[attached["sessionId"]] = Page(socket, attached["sessionId"])
    page._number = 1000 * len(tabs)
    for domain in ("Page", "Runtime", "Log", "Network"):
        await page.send(f"{domain}.enable")
    return page


async def _command(browser: Page, method: str, **params: Any) -> Any:
    """To the browser itself, not to a tab."""
    browser._number += 1
    waiting = browser._answers[browser._number] = asyncio.get_running_loop().create_future()
    message = {"id": browser._number, "method": method, "params": params}
    await browser._socket.send_str(msgspec.json.encode(message).decode())
    async with asyncio.timeout(_LONGEST_SECONDS):
        return await waiting
