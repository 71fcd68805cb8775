"""What repeats is kept once, and what no longer comes is forgotten."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from growth.kube.codec.pod import Interned, Memo, PodDecoder
from growth.model.instant import format_instant


def test_equal_values_become_one_object() -> None:
    interned: Interned[tuple[int, ...]] = Interned()
    first = tuple(range(3))
    assert interned.one(first) is first
    assert interned.one(tuple(range(3))) is first


@given(st.lists(st.integers(0, 50), max_size=200), st.integers(1, 10))
def test_a_memo_stays_bounded_and_never_answers_wrongly(keys: list[int], limit: int) -> None:
    memo: Memo[int, str] = Memo(limit)
    for key in keys:
        known = memo.get(key)
        assert known in (None, str(key))
        memo.put(key, str(key))
        assert memo.get(key) == str(key)
        assert len(memo) <= 2 * limit


def test_what_is_asked_for_again_and_again_is_not_forgotten() -> None:
    memo: Memo[int, str] = Memo(10)
    memo.put(0, "kept")
    for key in range(1, 200):
        memo.put(key, "passing")
        assert memo.get(0) == "kept"
    assert memo.get(1) is None


def test_what_a_decoder_keeps_follows_the_number_of_pods_not_the_time() -> None:
    decoder = PodDecoder()
    for second in range(9000):
        decoder.decode(f'{{"metadata": {{"creationTimestamp": "{format_instant(second)}"}}}}'.encode())
    assert len(decoder._instants) <= 2 * 4096
    for pods, kept in ((10_000, 10_000), (10**6, 32_768), (10, 4096)):
        decoder.expect(pods)
        assert decoder._instants.limit == decoder._one_shape.memo.limit == kept
