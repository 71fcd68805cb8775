"""The page over HTTP: files, data, a stream, explanations; hardened, and only for reading."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import ClientSession, DummyCookieJar
from yarl import URL

from growth.model.decision import About, Note
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.web.guard import Guard
from growth.web.notes import Notes
from growth.web.page import Control, PageServer
from growth.web.state import Look
from tests.web.moments import pod, read, world

LARGEST_COMPRESSED_BYTES = 150_000


class Shown:
    """Something to look at that changes when it is told to."""

    def __init__(self) -> None:
        self.notes = Notes(lambda: 100.0)
        self.snapshot = world({"a": (pod("web-1", "a"),)})
        self.version = 0

    def look(self, is_watched: bool) -> Look | None:
        return Look(self.snapshot, Settings(), self.notes, self.version)

    async def find_bound(self, look: Look) -> None:
        return


def explain(kind: str, name: str, snapshot: Snapshot, settings: Settings) -> Mapping[str, Any]:
    if name not in snapshot.nodes:
        raise ValueError(f"there is no {kind} {name}")
    return {"stays": "its pods fit nowhere else"}


Ask = Callable[[ClientSession, str, Shown], Awaitable[None]]


def served(ask: Ask, guard: Guard | None = None, steer: Callable[[Control], None] | None = None) -> None:
    async def run() -> None:
        shown = Shown()
        server = PageServer(shown, guard or Guard(), explain, steer)
        port = await server.start("127.0.0.1", 0)
        try:
            async with ClientSession(auto_decompress=False, cookie_jar=DummyCookieJar()) as session:
                await ask(session, f"http://127.0.0.1:{port}", shown)
        finally:
            await server.stop()

    asyncio.run(run())


def test_every_answer_forbids_inline_code_frames_and_other_origins() -> None:
    async def ask(session: ClientSession, url: str, shown: Shown) -> None:
        for path in ("/", "/api/state", "/api/explain?kind=Node&name=a", "/nothing", "/api/nothing"):
            async with session.get(url + path) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert "*" not in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert not [name for name in answer.headers if name.lower().startswith("access-control")]
                assert "Set-Cookie" not in answer.headers

    served(ask)


def test_only_reading_is_answered_on_every_path() -> None:
    async def ask(session: ClientSession, url: str, shown: Shown) -> None:
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            for path in ("/", "/app.js", "/api/state", "/api/events", "/api/explain", "/api/stage"):
                async with session.request(method, url + path) as answer:
                    assert answer.status == 405, (method, path)

    served(ask)


def test_other_hosts_and_origins_get_nothing() -> None:
    async def ask(session: ClientSession, url: str, shown: Shown) -> None:
        for path in ("/", "/api/state", "/api/events"):
            async with session.get(url + path, headers={"Host": "evil.example"}) as answer:
                assert answer.status == 421
            async with session.get(url + path, headers={"Origin": "http://evil.example"}) as answer:
                assert answer.status == 403

    served(ask)


def test_an_exposed_page_shows_its_files_and_asks_for_a_token_before_data() -> None:
    async def ask(session: ClientSession, url: str, shown: Shown) -> None:
        async with session.get(url + "/") as answer:
            assert answer.status == 200
        for path in ("/api/state", "/api/events", "/api/explain?kind=Node&name=a"):
            async with session.get(url + path) as answer:
                assert answer.status == 401
                assert answer.headers["WWW-Authenticate"] == "Bearer"

    served(ask, Guard(is_exposed=True))


def test_no_path_leaves_the_folder_of_the_page() -> None:
    async def ask(session: ClientSession, url: str, shown: Shown) -> None:
        for path in ("/../page.py", "/%2e%2e/page.py", "/..%2fpage.py", "/files/index.html", "/page.py", "/.."):
            async with session.get(URL(url + path, encoded=True)) as answer:
                assert answer.status == 404, path

    served(ask)


def test_state_is_json_and_small_on_the_way() -> None:
    async def ask(session: ClientSession, url: str, shown: Shown) -> None:
        async with session.get(url + "/api/state", headers={"Accept-Encoding": "gzip"}) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            packed = msgspec.json.decode(gzip.decompress(await answer.read()))
        async with session.get(url + "/api/state", headers={"Accept-Encoding": "identity"}) as answer:
            assert msgspec.json.decode(await answer.read()) == packed
        assert list(packed["tables"]["nodes"]) == ["a"]

    served(ask)


def test_the_stream_begins_with_the_whole_and_tells_each_change() -> None:
    async def ask(session: ClientSession, url: str, shown: Shown) -> None:
        async with session.get(url + "/api/events") as answer:
            assert answer.content_type == "text/event-stream"
            assert await answer.content.readuntil(b"\n\n") == b": growth\n\n"
            assert read(await answer.content.readuntil(b"\n\n"))[0] == "whole"
            shown.snapshot, shown.version = world({"a": (), "b": ()}), 1
            name, delta = read(await answer.content.readuntil(b"\n\n"))
            assert (name, sorted(delta["tables"]["nodes"]["set"])) == ("delta", ["a", "b"])

    served(ask)


def test_a_click_is_answered_with_why_and_with_what_was_said() -> None:
    async def ask(session: ClientSession, url: str, shown: Shown) -> None:
        shown.notes.hear(Note(About("Node", "a"), "Staying", "its pods fit nowhere else"), is_new=True)
        await session.get(url + "/api/state")
        async with session.get(url + "/api/explain", params={"kind": "Node", "name": "a"}) as answer:
            found = msgspec.json.decode(await answer.read())
        assert found["answer"] == {"stays": "its pods fit nowhere else"}
        assert [entry["reason"] for entry in found["said"]] == ["Staying"]
        async with session.get(url + "/api/explain", params={"kind": "Node", "name": "z"}) as answer:
            assert msgspec.json.decode(await answer.read())["answer"] == {"gone": "there is no Node z"}

    served(ask)


def test_a_story_is_steered_by_its_own_page_only() -> None:
    steered: list[Control] = []

    async def ask(session: ClientSession, url: str, shown: Shown) -> None:
        for origin, status in ((url, 204), ("http://evil.example", 403)):
            async with session.post(url + "/api/stage", json={"pause": True}, headers={"Origin": origin}) as answer:
                assert answer.status == status
        async with session.post(url + "/api/stage", json={"delete": "all"}, headers={"Origin": url}) as answer:
            assert answer.status == 400

    served(ask, Guard(controls=True), steered.append)
    assert steered == [Control(pause=True)]


def test_the_whole_page_is_small_and_asks_nobody_else() -> None:
    files = PageServer(Shown(), Guard(), explain)._files
    assert sum(len(packed) for _, _, packed in files.values()) <= LARGEST_COMPRESSED_BYTES
    for name, (_, plain, _) in files.items():
        text = plain.decode()
        assert not re.findall(r"https?://(?!www\.w3\.org/)|url\(|@import", text), name
        assert "<style" not in text
        assert " style=" not in text
        assert "innerHTML" not in text
