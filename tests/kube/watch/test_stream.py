from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.kube.api.errors import Expired
from growth.kube.watch.stream import Lines, StreamError, TroubleKind, WatchStream
from tests.kube.scripted import RememberingSink, bookmark, event, named

NAMES = st.sampled_from("abcde")
CHANGES = st.lists(st.tuples(st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]), NAMES), max_size=20)


def written(changes: list[tuple[str, str]], first: int) -> bytes:
    """A stream in which each event has the next version."""
    lines = [
        bookmark(str(version)) if change == "BOOKMARK" else event(change, named(name, str(version)))
        for version, (change, name) in enumerate(changes, start=first)
    ]
    return b"".join(lines)


def hear(version: str, *chunks: bytes) -> tuple[RememberingSink, WatchStream]:
    sink = RememberingSink()
    stream = WatchStream(sink, version)
    for chunk in chunks:
        stream.feed(chunk)
    return sink, stream


def pieces(content: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(content) + 1) for cut in cuts), len(content)]
    return [content[start:end] for start, end in pairwise(places)]


@given(CHANGES, st.lists(st.integers(0, 5000), max_size=30), st.booleans())
def test_any_cutting_of_the_bytes_tells_the_same_story(
    changes: list[tuple[str, str]], cuts: list[int], listing: bool
) -> None:
    content = written(changes, first=10)
    if listing:
        content = written([("ADDED", "a"), ("ADDED", "b")], first=3) + bookmark("9", ends_listing=True) + content
    version = "" if listing else "5"
    whole, whole_stream = hear(version, content)
    cut, cut_stream = hear(version, *pieces(content, cuts))
    assert cut.calls == whole.calls
    assert (cut.items, cut_stream.version, cut_stream.listing) == (
        whole.items,
        whole_stream.version,
        whole_stream.listing,
    )


@given(
    st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=10),
    st.lists(st.integers(0, 500), max_size=10),
)
def test_lines_come_out_whole_however_they_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    splitter = Lines()
    heard = [line for piece in pieces(b"".join(line + b"\n" for line in lines), cuts) for line in splitter.feed(piece)]
    assert heard == [line for line in lines if line.strip()]


def test_a_line_has_no_end_only_up_to_a_bound() -> None:
    splitter = Lines(longest_bytes=1_000_000)
    for _ in range(100):
        assert splitter.feed(b"x" * 10_000) == []
    with pytest.raises(StreamError, match="a line of more than 1000000 bytes"):
        splitter.feed(b"x")
    many = Lines(longest_bytes=100)
    assert sum(len(many.feed(b"x" * 60 + b"\n" + b"x" * 30)) for _ in range(100)) == 100


def test_a_large_object_is_no_problem() -> None:
    large = named("a", "7") | {"data": "x" * 3_000_000}
    content = event("ADDED", large)
    sink, stream = hear("5", *[content[start : start + 65_536] for start in range(0, len(content), 65_536)])
    assert sink.items == {"a": "7"}
    assert stream.version == "7"


def test_a_streamed_listing_ends_with_its_bookmark() -> None:
    sink, stream = hear("", event("ADDED", named("a", "3")), bookmark("8"))
    assert (stream.listing, sink.calls) == (True, ["relisting", "listed a"])
    stream.feed(
        event("MODIFIED", named("a", "8"))
        + event("DELETED", named("a", "9"))
        + event("MODIFIED", named("b", "9"))
        + bookmark("9", ends_listing=True)
    )
    assert not stream.listing
    assert stream.version == "9"
    assert sink.calls == ["relisting", "listed a", "listed a", "DELETED a", "listed b", "relisted 9"]
    assert sink.items == {"b": "9"}


def test_versions_of_a_listing_are_in_no_order() -> None:
    sink, _ = hear(
        "", event("ADDED", named("a", "80")) + event("ADDED", named("b", "3")) + bookmark("90", ends_listing=True)
    )
    assert sink.items == {"a": "80", "b": "3"}


def test_gone_may_come_as_an_event_and_what_came_before_counts() -> None:
    sink = RememberingSink()
    stream = WatchStream(sink, "5")
    with pytest.raises(Expired):
        stream.feed(
            event("ADDED", named("a", "6")) + event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})
        )
    assert (sink.items, stream.version) == ({"a": "6"}, "6")


@pytest.mark.parametrize(
    "line",
    [
        b"{not json}\n",
        b'{"type":"ADDED"}\n',
        b"[1]\n",
        b'{"type":"BORED","object":{}}\n',
        b'{"type":"ADDED","object":{"a":}}\n',
        b"\xff\xfe\n",
    ],
)
def test_a_line_that_cannot_be_read_ends_the_trust_in_the_stream(line: bytes) -> None:
    with pytest.raises(StreamError) as caught:
        hear("5", line)
    assert caught.value.kind is TroubleKind.MALFORMED


@pytest.mark.parametrize("late", [event("MODIFIED", named("a", "6")), bookmark("6")])
def test_a_version_that_goes_back_is_noticed(late: bytes) -> None:
    with pytest.raises(StreamError) as caught:
        hear("5", event("ADDED", named("a", "70")), late)
    assert caught.value.kind is TroubleKind.WENT_BACK


def test_blank_lines_and_an_unfinished_line_say_nothing() -> None:
    sink, stream = hear("5", b"\n\r\n", event("ADDED", named("a", "6"))[:-1])
    assert (sink.calls, stream.version) == ([], "5")
