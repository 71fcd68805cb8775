"""The very best placement of a few pods: who is left out, what is bought, and what rules between pods make of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from growth.solver.arrays import MANY
from growth.solver.exact.few_pods import Apart, Counted, Even, FewPods, Near, place_few


def few(count: list[int], need: list[int], free: list[int], price: list[float], kind: list[int]) -> FewPods:
    """Classes of one resource, which may go to every place."""
    places, classes = len(free), len(count)
    return FewPods(
        need=np.array(need)[:, None],
        count=np.array(count),
        rank=np.zeros(classes, dtype=np.int64),
        free=np.array(free)[:, None],
        fits=np.ones((classes, places), dtype=np.bool_),
        kind=np.array(kind),
        price=np.array(price),
        tier=np.zeros(places, dtype=np.int64),
        limit_use=np.zeros((0, places)),
        limit_bound=np.zeros(0),
    )


def counted(domain: list[int], adds: list[bool], held: list[int] | None = None) -> Counted:
    places = len(domain)
    return Counted(np.array(domain), np.array(held or [0] * places), np.full(places, MANY), np.array(adds))


def placed(question: FewPods, can_all: bool = False) -> list[list[int]]:
    found = place_few(question, can_all, 1_000)
    assert found is not None
    return [[int(count) for count in row] for row in found]


def test_what_exists_is_filled_before_anything_is_bought() -> None:
    assert placed(few([2], [1], [1, 2], [0.0, 5.0], [-1, 0])) == [[1, 1]]
    assert placed(few([1], [1], [1, 2], [0.0, 5.0], [-1, 0])) == [[1, 0]]


def test_the_pod_that_cannot_buy_gets_the_room() -> None:
    question = few([1, 1], [1, 1], [1, 1], [0.0, 5.0], [-1, 0])
    fits = np.array([[True, True], [True, False]])
    assert placed(replace(question, fits=fits)) == [[0, 1], [1, 0]]


def test_the_least_important_pod_is_left_out() -> None:
    question = few([1, 2], [2, 1], [2], [0.0], [-1])
    assert placed(question) == [[0], [2]]
    assert placed(replace(question, rank=np.array([0, 1]))) == [[1], [0]]


def test_a_limit_is_spent_on_what_holds_most_before_it_is_spent_on_what_is_preferred() -> None:
    question = few([4], [1], [1, 4], [1.0, 9.0], [0, 1])
    limited = replace(question, limit_use=np.ones((1, 2)), limit_bound=np.ones(1), tier=np.array([0, 1]))
    assert placed(limited) == [[0, 4]]
    assert placed(replace(limited, count=np.array([1])), can_all=True) == [[1, 0]]


def test_a_group_that_must_be_near_itself_goes_where_all_of_it_has_a_place() -> None:
    question = few([2], [1], [1, 2, 1], [1.0, 9.0, 1.0], [0, 1, 2])
    near = replace(question, counted=(counted([0, 1, 2], [True]),), near=(Near(0, (0,), True),))
    assert placed(near) == [[0, 2, 0]]


def test_who_must_be_near_others_goes_where_they_are_or_nowhere() -> None:
    question = few([1, 1], [1, 1], [1, 2], [0.0, 9.0], [-1, 0])
    tally = counted([0, 1], [False, True])
    assert placed(replace(question, counted=(tally,), near=(Near(0, (0,), False),))) == [[0, 1], [0, 1]]
    alone = replace(question, count=np.array([1, 0]), counted=(tally,), near=(Near(0, (0,), False),))
    assert placed(alone) == [[0, 0], [0, 0]]


def test_two_that_wait_for_each_other_wait_for_ever() -> None:
    question = few([1, 1], [1, 1], [2], [0.0], [-1])
    tallies = counted([0], [False, True]), counted([0], [True, False])
    assert placed(replace(question, counted=tallies, near=(Near(0, (0,), False), Near(1, (1,), False)))) == [[0], [0]]


def test_pods_that_keep_apart_look_ahead() -> None:
    """The one may be anywhere, the four only on the cheap place."""
    question = few([1, 4], [1, 1], [5, 5], [1.0, 1.1], [0, 1])
    fits = np.array([[True, True], [True, False]])
    apart = replace(question, fits=fits, counted=(counted([0, 1], [False, True]),), apart=(Apart(0, 0, 0),))
    assert placed(apart) == [[0, 1], [4, 0]]


def test_an_even_spread_needs_as_few_places_as_hold_it_evenly() -> None:
    """Eight on two places of four: no other place is a domain, since none is bought."""
    question = few([8], [1], [4] * 8, [1.0] * 8, [0] * 8)
    even = replace(question, counted=(counted(list(range(8)), [True]),), even=(Even(0, 0, 1, 1, np.ones(8, np.bool_)),))
    assert sorted(placed(even, can_all=True)[0]) == [0, 0, 0, 0, 0, 0, 4, 4]


def test_beside_a_place_that_holds_none_of_them_every_other_place_gets_one() -> None:
    question = few([3], [1], [0, 4, 4, 4], [0.0, 1.0, 1.0, 1.0], [-1, 0, 0, 0])
    even = replace(question, counted=(counted([0, 1, 2, 3], [True]),), even=(Even(0, 0, 1, 1, np.ones(4, np.bool_)),))
    assert placed(even) == [[0, 1, 1, 1]]


def test_pods_that_are_there_keep_others_away() -> None:
    question = few([1], [1], [1, 1], [0.0, 1.0], [-1, 0])
    kept = Counted(np.array([0, 1]), np.array([1, 0]), np.array([0, MANY]), np.array([True]))
    assert placed(replace(question, counted=(kept,))) == [[0, 1]]
