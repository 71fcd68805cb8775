"""Doubles for the network: a transport that answers as told, and a sink that remembers what it was told and checks the
order of calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
from msgspec import Raw

from growth.kube.api.transport import Request, TransportError
from growth.kube.watch.stream import ChangeType

Json = dict[str, Any]


class Answer:
    """Some bytes, and how they end: in order, cut off, or never."""

    def __init__(
        self,
        status: int = 200,
        *chunks: bytes,
        headers: Mapping[str, str] | None = None,
        ending: str = "end",
        delay: float = 0.0,
    ) -> None:
        self.status = status
        self.headers: Mapping[str, str] = headers or {}
        self.is_closed = False
        self._chunks = chunks
        self._ending = ending
        self._delay = delay

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            if self._delay:
                await asyncio.sleep(self._delay)
            yield chunk
        if self._ending == "cut":
            raise TransportError("cut off")
        if self._ending == "silent":
            await asyncio.sleep(10_000_000)

    async def close(self) -> None:
        self.is_closed = True


Step = Answer | Exception | Callable[[Request], Answer]


class ScriptedTransport:
    """Plays its steps one after another; the last one again and again."""

    def __init__(self, *steps: Step) -> None:
        self.requests: list[Request] = []
        self.at: list[float] = []
        self._steps = list(steps)

    async def send(self, request: Request) -> Answer:
        self.requests.append(request)
        self.at.append(asyncio.get_running_loop().time())
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, Answer) else step(request)

    def query(self, index: int = -1) -> dict[str, str]:
        return query_of(self.requests[index])


class Hung:
    """Never answers."""

    async def send(self, request: Request) -> Answer:
        await asyncio.sleep(10_000_000)
        raise AssertionError


def query_of(request: Request) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(request.path).query))


def json_answer(content: Any, status: int = 200, **headers: str) -> Answer:
    return Answer(
        status, msgspec.json.encode(content), headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


def status_answer(code: int, reason: str, message: str = "", causes: Sequence[Json] = (), **headers: str) -> Answer:
    status = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": {"causes": list(causes)}}
    return json_answer(status, code, **headers)


def page(*names: str, version: str = "1", token: str = "") -> Json:
    return {"metadata": {"resourceVersion": version, "continue": token}, "items": [named(name) for name in names]}


def named(name: str, version: str = "1") -> Json:
    return {"metadata": {"name": name, "resourceVersion": version}}


def event(change: str, item: Json) -> bytes:
    return msgspec.json.encode({"type": change, "object": item}) + b"\n"


def bookmark(version: str, ends_listing: bool = False) -> bytes:
    annotations = {"annotations": {"k8s.io/initial-events-end": "true"}} if ends_listing else {}
    return event("BOOKMARK", {"metadata": {"resourceVersion": version, **annotations}, "spec": {"containers": None}})


class RememberingSink:
    """The smallest cache: names and versions. `calls` is the story in short words."""

    def __init__(self) -> None:
        self.items: dict[str, str] = {}
        self.calls: list[str] = []
        self.version = ""
        self._listing: dict[str, str] | None = None

    def relisting(self) -> None:
        self.calls.append("relisting")
        self._listing = {}

    def listed(self, objects: Sequence[Raw]) -> None:
        assert self._listing is not None, "listed without relisting"
        for raw in objects:
            name, version = _name_and_version(raw)
            self.calls.append(f"listed {name}")
            self._listing[name] = version

    def relisted(self, version: str) -> None:
        assert self._listing is not None, "relisted without relisting"
        self.calls.append(f"relisted {version}")
        self.items, self._listing, self.version = self._listing, None, version

    def changed(self, change: ChangeType, item: Raw) -> None:
        name, version = _name_and_version(item)
        self.calls.append(f"{change} {name}")
        held = self.items if self._listing is None else self._listing
        assert self._listing is None or change is ChangeType.DELETED
        if change is ChangeType.DELETED:
            held.pop(name, None)
        else:
            held[name] = version

    def bookmarked(self, version: str) -> None:
        assert self._listing is None, "bookmarked while listing"
        self.calls.append(f"bookmarked {version}")
        self.version = version


def _name_and_version(raw: Raw) -> tuple[str, str]:
    metadata = msgspec.json.decode(raw)["metadata"]
    return metadata["name"], metadata["resourceVersion"]
