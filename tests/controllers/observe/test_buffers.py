"""For how long nodes are kept for buffers that cannot be read."""

from __future__ import annotations

from growth.controllers.observe.buffers import Patience


def test_patience_with_a_namespace_ends_is_nobody_elses_and_comes_back_in_a_day() -> None:
    now = [0.0]
    patience = Patience(lambda: now[0])

    def awaited_after(seconds: float, *lost: str) -> set[str]:
        now[0] += seconds
        return set(patience.awaited(frozenset(lost)))

    assert awaited_after(0, "hostile") == {"hostile"}
    assert awaited_after(899, "hostile") == {"hostile"}
    assert awaited_after(2, "hostile", "other") == {"other"}
    assert awaited_after(1) == set()
    assert awaited_after(60, "hostile") == {"hostile"}
    assert awaited_after(60, "hostile") == set(), "a pause of a minute is worth less than a second"
    assert awaited_after(0) == set()
    assert awaited_after(86_400, "hostile") == {"hostile"}
    assert awaited_after(800, "hostile") == {"hostile"}
