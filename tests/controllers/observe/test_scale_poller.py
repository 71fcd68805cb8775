"""Objects that are not under watch are looked at in turn, a few at a time and fair to namespaces; what was read stays
known.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from growth.controllers.observe.scale import Poller
from growth.kube.api.errors import NotFound, ServerError, Status
from growth.sim.clock import SimRuntime, run_virtual


class Scales:
    """Answers with the replicas of each key; a key without any is not there, a broken server answers nothing, a slow
    namespace not in time.
    """

    def __init__(self, **replicas: int) -> None:
        self.replicas = replicas
        self.asked: list[str] = []
        self.is_broken = False
        self.told = 0
        self.runtime = SimRuntime("looks")

    def poller(self, *wanted: str, most: int = 1) -> Poller[int]:
        poller = Poller(self.runtime, self.read, self.tell, most)
        poller.want(wanted)
        return poller

    async def read(self, key: str) -> int:
        self.asked.append(key)
        if self.is_broken:
            raise ServerError(Status(code=500, message="no"))
        if key.startswith("slow/"):
            await self.runtime.sleep(1000)
        if key not in self.replicas:
            raise NotFound(Status(code=404))
        return self.replicas[key]

    def tell(self) -> None:
        self.told += 1


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await story()

    run_virtual(run())


async def looked(poller: Poller[int], times: int = 1) -> dict[str, int]:
    for _ in range(times):
        await poller.look()
    return dict(poller.known)


def test_at_most_so_many_are_looked_at_in_one_interval_and_each_has_its_turn() -> None:
    async def story() -> None:
        scales = Scales(a=1, b=2, c=3)
        poller = scales.poller("c", "a", "b", most=2)
        assert (await looked(poller), poller.is_complete) == ({"a": 1, "b": 2}, False)
        assert (await looked(poller), poller.is_complete) == ({"a": 1, "b": 2, "c": 3}, True)
        assert scales.asked == ["a", "b", "c", "a"]

    play(story)


def test_only_a_change_is_told() -> None:
    async def story() -> None:
        scales = Scales(a=1)
        poller = scales.poller("a")
        await looked(poller, times=3)
        assert scales.told == 1
        scales.replicas["a"] = 2
        assert (await looked(poller), scales.told) == ({"a": 2}, 2)

    play(story)


def test_an_object_that_is_gone_is_no_longer_known() -> None:
    async def story() -> None:
        scales = Scales(a=1)
        poller = scales.poller("a")
        await looked(poller)
        del scales.replicas["a"]
        assert (await looked(poller), poller.is_complete, poller.problem) == ({}, True, "")

    play(story)


@pytest.mark.parametrize("known", [True, False])
def test_what_was_read_stays_known_while_a_look_fails_and_the_problem_is_said(known: bool) -> None:
    async def story() -> None:
        scales = Scales(a=1)
        poller = scales.poller("a")
        if known:
            await looked(poller)
        scales.is_broken = True
        assert await looked(poller) == ({"a": 1} if known else {})
        assert (poller.is_complete, "500" in poller.problem) == (known, True)
        scales.is_broken = False
        assert (await looked(poller), poller.problem) == ({"a": 1}, "")

    play(story)


def test_a_new_wish_is_not_complete_until_it_was_looked_at() -> None:
    async def story() -> None:
        poller = Scales(a=1, b=2).poller("a", most=5)
        await looked(poller)
        poller.want(["a", "b"])
        assert not poller.is_complete
        await looked(poller)
        assert poller.is_complete

    play(story)


def test_what_one_namespace_wants_takes_no_turn_from_another() -> None:
    async def story() -> None:
        scales = Scales()
        crowd = [f"crowd/{number:03}" for number in range(200)]
        await looked(scales.poller(*crowd, "quiet/a", "quiet/b", "small/a", most=4), times=5)
        counts = {name: sum(each.startswith(name) for each in scales.asked) for name in ("crowd", "quiet", "small")}
        assert counts == {"crowd": 8, "quiet": 7, "small": 5}
        assert len(set(scales.asked)) == 8 + 2 + 1, "the one that waits longest comes first"

    play(story)


def test_a_look_that_hangs_costs_its_namespace_a_turn_and_the_others_nothing() -> None:
    async def story() -> None:
        scales = Scales(**{"quick/a": 1, "quick/b": 2})
        poller = scales.poller(*(f"slow/{number}" for number in range(50)), "quick/a", "quick/b", most=60)
        began_at = scales.runtime.monotonic()
        assert await looked(poller) == {"quick/a": 1, "quick/b": 2}
        assert scales.runtime.monotonic() - began_at < 11
        assert sorted(scales.asked) == ["quick/a", "quick/b", "slow/0"]
        assert "no answer within 10 s" in poller.problem

    play(story)


def test_what_is_new_is_looked_at_without_waiting_for_the_interval() -> None:
    async def story() -> None:
        scales = Scales(a=1)
        poller = scales.poller(most=5)
        task = scales.runtime.spawn("looks", poller.run(lambda: 600.0))
        await scales.runtime.sleep(5)
        poller.want(["a"])
        await scales.runtime.sleep(2)
        task.cancel()
        assert dict(poller.known) == {"a": 1}

    play(story)
