"""Objects known only by their scale are looked at in turn, a few at a time; what was read stays known."""

from __future__ import annotations

import asyncio

import pytest

from growth.controllers.observe.scale import ScalePoller
from growth.kube.api.errors import NotFound, ServerError, Status


class Scales:
    """Answers with the replicas of each key; a key without any is not there, a broken server answers nothing."""

    def __init__(self, **replicas: int) -> None:
        self.replicas = replicas
        self.asked: list[str] = []
        self.is_broken = False
        self.told = 0

    async def read(self, key: str) -> int:
        self.asked.append(key)
        if self.is_broken:
            raise ServerError(Status(code=500, message="no"))
        if key not in self.replicas:
            raise NotFound(Status(code=404))
        return self.replicas[key]

    def tell(self) -> None:
        self.told += 1


def looked(poller: ScalePoller[int], times: int = 1) -> dict[str, int]:
    for _ in range(times):
        asyncio.run(poller.look())
    return dict(poller.known)


def test_at_most_so_many_are_looked_at_in_one_interval_and_each_has_its_turn() -> None:
    scales = Scales(a=1, b=2, c=3)
    poller = ScalePoller(scales.read, scales.tell, most=2)
    poller.want(["c", "a", "b"])
    assert (looked(poller), poller.is_complete) == ({"a": 1, "b": 2}, False)
    assert (looked(poller), poller.is_complete) == ({"a": 1, "b": 2, "c": 3}, True)
    assert scales.asked == ["a", "b", "c", "a"]


def test_only_a_change_is_told() -> None:
    scales = Scales(a=1)
    poller = ScalePoller(scales.read, scales.tell)
    poller.want(["a"])
    looked(poller, times=3)
    assert scales.told == 1
    scales.replicas["a"] = 2
    assert (looked(poller), scales.told) == ({"a": 2}, 2)


def test_an_object_that_is_gone_is_no_longer_known() -> None:
    scales = Scales(a=1)
    poller = ScalePoller(scales.read, scales.tell)
    poller.want(["a"])
    looked(poller)
    del scales.replicas["a"]
    assert (looked(poller), poller.is_complete, poller.problem) == ({}, True, "")


@pytest.mark.parametrize("known", [True, False])
def test_what_was_read_stays_known_while_a_look_fails_and_the_problem_is_said(known: bool) -> None:
    scales = Scales(a=1)
    poller = ScalePoller(scales.read, scales.tell)
    poller.want(["a"])
    if known:
        looked(poller)
    scales.is_broken = True
    assert looked(poller) == ({"a": 1} if known else {})
    assert (poller.is_complete, "500" in poller.problem) == (known, True)
    scales.is_broken = False
    assert (looked(poller), poller.problem) == ({"a": 1}, "")


def test_a_new_wish_is_not_complete_until_it_was_looked_at() -> None:
    scales = Scales(a=1, b=2)
    poller = ScalePoller(scales.read, scales.tell, most=5)
    poller.want(["a"])
    looked(poller)
    poller.want(["a", "b"])
    assert not poller.is_complete
    looked(poller)
    assert poller.is_complete
