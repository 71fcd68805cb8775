"""Every viewer gets the whole page once and then what changed; a slow one costs no more than a quick one."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from growth.web.feed import QUEUE_LENGTH, Feed, Viewer
from tests.web.moments import look, pod, read, world


def moments(count: int) -> Any:
    """Each has one more pod on node a."""
    return [
        look(replace(world({"a": tuple(pod(f"web-{each}", "a") for each in range(number))}), now=100.0 + number))
        for number in range(count)
    ]


def test_a_viewer_gets_the_whole_first_and_then_what_changed() -> None:
    async def watch() -> None:
        feed = Feed()
        viewer = Viewer(feed)
        feed.viewers.add(viewer)
        first, second, _ = moments(3)
        feed.follow(first)
        name, whole = read(await viewer.next())
        assert (name, list(whole["tables"]["nodes"])) == ("whole", ["a"])
        assert feed.follow(second)
        name, delta = read(await viewer.next())
        assert (name, delta["number"]) == ("delta", whole["number"] + 1)
        assert set(delta["tables"]) == {"nodes", "classes", "cluster"}

    asyncio.run(watch())


def test_nothing_is_sent_while_nothing_changes() -> None:
    async def watch() -> None:
        feed, moment = Feed(), moments(1)[0]
        assert feed.follow(moment)
        assert not feed.follow(moment)

    asyncio.run(watch())


def test_a_slow_viewer_loses_its_queue_and_gets_the_whole_again() -> None:
    async def watch() -> None:
        feed = Feed()
        slow, quick = Viewer(feed), Viewer(feed)
        feed.viewers |= {slow, quick}
        for moment in moments(QUEUE_LENGTH + 5):
            feed.follow(moment)
            await quick.next()
        await slow.next()  # the whole, as of now
        for moment in moments(2 * QUEUE_LENGTH + 5)[QUEUE_LENGTH + 5 :]:
            feed.follow(moment)
        for moment in moments(2 * QUEUE_LENGTH + 10)[2 * QUEUE_LENGTH + 5 :]:
            feed.follow(moment)
        assert len(slow._queue) <= QUEUE_LENGTH
        name, whole = read(await slow.next())
        assert name == "whole"
        assert whole["tables"]["cluster"][""]["pods"] == 2 * QUEUE_LENGTH + 9

    asyncio.run(watch())


def test_a_viewer_that_comes_before_there_is_a_page_waits_for_it() -> None:
    async def watch() -> None:
        feed = Feed()
        viewer = Viewer(feed)
        feed.viewers.add(viewer)
        waiting = asyncio.create_task(viewer.next())
        await asyncio.sleep(0)
        assert not waiting.done()
        feed.follow(moments(1)[0])
        assert read(await waiting)[0] == "whole"

    asyncio.run(watch())


def test_another_world_begins_with_the_whole() -> None:
    async def watch() -> None:
        feed = Feed()
        viewer = Viewer(feed)
        feed.viewers.add(viewer)
        feed.follow(moments(1)[0])
        await viewer.next()
        feed.forget()
        feed.follow(moments(2)[1])
        assert read(await viewer.next())[0] == "whole"

    asyncio.run(watch())


def test_a_reader_that_goes_away_is_no_viewer_any_more() -> None:
    class Gone:
        async def write(self, data: bytes) -> None:
            raise ConnectionResetError

    feed = Feed()
    asyncio.run(feed.serve(Gone()))
    assert not feed.viewers
