from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.kube.api.client import Client
from growth.kube.api.request import ClientSettings
from growth.kube.api.resources import NODE_POOLS
from growth.kube.api.transport import Transport
from growth.kube.watch.reflector import Reflector, Selection, Trouble, WatchSettings
from growth.kube.watch.stream import TroubleKind
from growth.sim.clock import SimRuntime, run_virtual
from tests.kube.scripted import Answer, RememberingSink, ScriptedTransport, bookmark, event, named, query_of
from tests.kube.small_server import FAULTS, SmallServer


class Scene:
    """A reflector at work on a server, in virtual time."""

    def __init__(self, transport: Transport, page_size: int = 500, settings: WatchSettings | None = None) -> None:
        runtime = SimRuntime("watch")
        self.sink = RememberingSink()
        self.troubles: list[Trouble] = []
        client = Client(transport, runtime, ClientSettings(page_size=page_size))
        self.reflector = Reflector(client, runtime, NODE_POOLS, self.sink, settings, report=self.troubles.append)
        self.task = asyncio.get_running_loop().create_task(self.reflector.run())

    @property
    def kinds(self) -> list[TroubleKind]:
        return [trouble.kind for trouble in self.troubles]


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtual(scene())


@pytest.mark.parametrize("streams_lists", [True, False])
def test_a_reflector_lists_and_then_follows(streams_lists: bool) -> None:
    async def scene() -> None:
        server = SmallServer("a", "b", "c", streams_lists=streams_lists)
        play = Scene(server, page_size=2)
        assert (play.reflector.synced, play.reflector.age_seconds) == (False, math.inf)
        await asyncio.sleep(1)
        assert (play.reflector.synced, play.reflector.listings) == (True, 1)
        assert play.sink.items == server.items
        server.put("d")
        server.put("a")
        server.remove("b")
        await asyncio.sleep(1)
        assert play.sink.items == server.items == {"a": "102", "c": "3", "d": "101"}
        assert play.troubles == []

    play(scene)


def test_a_server_without_streamed_lists_is_asked_for_one_only_once() -> None:
    async def scene() -> None:
        server = SmallServer("a", "b", "c", streams_lists=False)
        server.plan("", "", "", "gone event")
        Scene(server, page_size=2)
        await asyncio.sleep(30)
        asked = [
            "stream" if query.get("sendInitialEvents") else "watch" if query.get("watch") else "page"
            for query in map(query_of, server.requests)
        ]
        assert asked == ["stream", "page", "page", "watch", "page", "page", "watch"]

    play(scene)


def test_a_watch_that_ends_in_order_goes_on_from_its_last_version() -> None:
    async def scene() -> None:
        server = SmallServer("a")
        play = Scene(server)
        await asyncio.sleep(100)
        server.put("b")
        await asyncio.sleep(2000)
        assert play.reflector.listings == 1
        assert sum("watch" in query_of(request) for request in server.requests) >= 3
        assert int(query_of(server.requests[-1])["resourceVersion"]) == 101
        assert all(300 <= int(query_of(request)["timeoutSeconds"]) <= 600 for request in server.requests)
        assert play.reflector.age_seconds <= 60.5
        assert play.troubles == []

    play(scene)


def test_bookmarks_keep_a_quiet_watch_fresh_and_its_version_young() -> None:
    async def scene() -> None:
        server = SmallServer("a")
        play = Scene(server)
        server.version = 5000  # other collections move on
        await asyncio.sleep(700)
        server.compact()
        assert play.sink.version == "5000"
        assert play.reflector.listings == 1

    play(scene)


def test_what_vanished_while_we_were_away_is_gone_after_the_new_listing_and_not_before() -> None:
    async def scene() -> None:
        server = SmallServer("a", "b")
        play = Scene(server)
        await asyncio.sleep(1)
        server.plan(*["500"] * 3)
        server.epoch += 1
        server.remove("a")
        server.compact()
        await asyncio.sleep(1)
        assert play.sink.items == {"a": "1", "b": "2"}
        await asyncio.sleep(30)
        assert play.sink.items == {"b": "2"}
        assert play.reflector.listings == 2
        assert play.kinds == [TroubleKind.UNREACHABLE]

    play(scene)


def test_silence_is_noticed_before_the_cache_counts_as_old() -> None:
    async def scene() -> None:
        server = SmallServer("a")
        server.plan("silence")
        play = Scene(server)
        await asyncio.sleep(90)
        server.put("b")
        oldest = 0.0
        for _ in range(60):
            await asyncio.sleep(1)
            oldest = max(oldest, play.reflector.age_seconds)
        assert play.sink.items == server.items
        assert (play.reflector.listings, play.troubles) == (2, [])
        assert oldest < 110

    play(scene)


def test_a_server_that_sends_no_bookmarks_is_listed_again_before_the_cache_is_old() -> None:
    async def scene() -> None:
        play = Scene(SmallServer("a", bookmarks=False))
        oldest = 0.0
        await asyncio.sleep(1)
        for _ in range(600):
            await asyncio.sleep(1)
            oldest = max(oldest, play.reflector.age_seconds)
        assert oldest < 110
        assert play.troubles == []

    play(scene)


def test_a_kind_that_is_not_installed_is_said_once_and_found_when_it_appears() -> None:
    async def scene() -> None:
        server = SmallServer("a")
        server.is_installed = False
        play = Scene(server)
        await asyncio.sleep(300)
        assert play.kinds == [TroubleKind.MISSING]
        assert play.reflector.missing
        assert not play.reflector.synced
        assert play.reflector.age_seconds <= 30  # that there is none is known
        assert len(server.requests) <= 25
        server.is_installed = True
        await asyncio.sleep(31)
        assert play.sink.items == server.items
        assert not play.reflector.missing

    play(scene)


def test_a_kind_that_vanishes_leaves_its_cache_as_it_was_and_growing_old() -> None:
    async def scene() -> None:
        server = SmallServer("a")
        play = Scene(server)
        await asyncio.sleep(1)
        server.is_installed = False
        server.epoch += 1
        await asyncio.sleep(200)
        assert (play.sink.items, play.reflector.missing) == ({"a": "1"}, True)
        assert play.reflector.age_seconds > 150

    play(scene)


def test_streamed_listings_that_are_always_cut_give_way_to_pages() -> None:
    async def scene() -> None:
        server = SmallServer("a", "b", "c")
        server.plan(*["cut"] * 2, "", "", "", *["cut"] * 50)
        play = Scene(server, page_size=2)
        await asyncio.sleep(10)
        assert play.sink.items == server.items
        asked = [
            "stream" if query.get("sendInitialEvents") else "watch" if query.get("watch") else "page"
            for query in map(query_of, server.requests)
        ]
        assert asked == ["stream", "stream", "page", "page", "watch"]

    play(scene)


def test_a_listing_is_as_old_as_its_question() -> None:
    listing = [event("ADDED", named("a", "3")), bookmark("9", ends_listing=True)]

    async def scene() -> None:
        play = Scene(ScriptedTransport(Answer(200, *listing, ending="silent", delay=20.0)))
        await asyncio.sleep(41)
        assert play.reflector.age_seconds == 41

    play(scene)


def test_after_a_long_good_time_a_fault_is_met_with_a_short_wait() -> None:
    async def scene() -> None:
        server = SmallServer("a")
        server.plan(*["500"] * 12)
        play = Scene(server)
        await asyncio.sleep(400)
        assert play.reflector.synced
        server.epoch += 1
        server.put("b")
        await asyncio.sleep(1.5)
        assert play.sink.items == server.items

    play(scene)


def test_a_refusal_is_said_once_and_tried_again() -> None:
    async def scene() -> None:
        server = SmallServer("a")
        server.plan(*["403"] * 5)
        play = Scene(server)
        await asyncio.sleep(120)
        assert play.kinds == [TroubleKind.FORBIDDEN]
        assert play.sink.items == server.items

    play(scene)


def test_a_restored_etcd_is_noticed_by_its_lower_versions() -> None:
    async def scene() -> None:
        server = SmallServer("a", "b")
        play = Scene(server)
        await asyncio.sleep(1)
        earlier, version = dict(server.items), server.version
        for name in ("c", "d", "e"):
            server.put(name)
        await asyncio.sleep(1)
        assert set(play.sink.items) == set("abcde")
        server.restore(earlier, version)
        await asyncio.sleep(70)
        assert play.sink.items == earlier
        assert TroubleKind.WENT_BACK in play.kinds

    play(scene)


def test_a_server_younger_than_our_version_makes_us_list_again() -> None:
    too_large = {
        "kind": "Status",
        "code": 504,
        "reason": "Timeout",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]},
    }
    listing = event("ADDED", named("a", "3")) + bookmark("9", ends_listing=True)
    transport = ScriptedTransport(
        Answer(200, listing), Answer(200, event("ERROR", too_large)), Answer(200, listing, ending="silent")
    )

    async def scene() -> None:
        play = Scene(transport)
        await asyncio.sleep(20)
        assert play.reflector.listings == 2

    play(scene)


def test_a_sink_that_fails_is_filled_anew_and_the_fault_is_said() -> None:
    async def scene() -> None:
        server = SmallServer("a")
        play = Scene(server)
        await asyncio.sleep(1)
        broken = {"b"}
        honest = play.sink.changed

        def failing(change: Any, item: Any) -> None:
            if broken:
                broken.pop()
                raise KeyError("oops")
            honest(change, item)

        play.sink.changed = failing  # type: ignore[method-assign]
        server.put("b")
        await asyncio.sleep(10)
        assert play.sink.items == server.items
        assert play.kinds == [TroubleKind.FAILED]

    play(scene)


def test_a_server_that_closes_at_once_is_not_asked_in_a_frenzy() -> None:
    listing = event("ADDED", named("a", "3")) + bookmark("9", ends_listing=True)
    transport = ScriptedTransport(lambda request: Answer(200, listing if "sendInitialEvents" in request.path else b""))

    async def scene() -> None:
        Scene(transport)
        await asyncio.sleep(600)
        assert len(transport.requests) < 40

    play(scene)


def test_a_selection_is_part_of_every_question() -> None:
    async def scene() -> None:
        transport, runtime = ScriptedTransport(Answer(200, bookmark("9", ends_listing=True))), SimRuntime("watch")
        selection = Selection(namespace="", labels="app=web", fields="spec.nodeName=")
        task = asyncio.get_running_loop().create_task(
            Reflector(Client(transport, runtime), runtime, NODE_POOLS, RememberingSink(), selection=selection).run()
        )
        await asyncio.sleep(5)
        task.cancel()
        assert len(transport.requests) > 1
        assert all(query_of(request)["fieldSelector"] == "spec.nodeName=" for request in transport.requests)

    play(scene)


def test_a_cancelled_reflector_closes_its_stream() -> None:
    async def scene() -> None:
        answer = Answer(200, bookmark("9", ends_listing=True), ending="silent")
        play = Scene(ScriptedTransport(answer))
        await asyncio.sleep(5)
        play.task.cancel()
        await asyncio.gather(play.task, return_exceptions=True)
        assert answer.is_closed

    play(scene)


WRITES = st.lists(
    st.tuples(st.floats(0, 40), st.sampled_from(["put", "remove", "compact"]), st.sampled_from("abcdef")), max_size=12
)


@given(st.lists(st.sampled_from(FAULTS), max_size=12), WRITES, st.booleans(), st.booleans())
def test_whatever_goes_wrong_the_sink_ends_with_the_servers_state(
    faults: list[str], writes: list[tuple[float, str, str]], streams_lists: bool, bookmarks: bool
) -> None:
    async def scene() -> None:
        server = SmallServer("a", "b", "c", streams_lists=streams_lists, bookmarks=bookmarks)
        server.plan(*faults)
        play = Scene(server, page_size=2)
        for delay, write, name in writes:
            await asyncio.sleep(delay)
            getattr(server, write)(*([] if write == "compact" else [name]))
        await server.faults_used_up.wait()
        await asyncio.sleep(250)
        assert play.sink.items == server.items
        assert play.reflector.synced
        assert play.reflector.age_seconds < 150
        server.put("z")
        await asyncio.sleep(150)
        assert play.sink.items == server.items

    play(scene)
