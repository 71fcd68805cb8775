"""The loop carries: outcomes are settled before the next decision, which sees what settling wrote; the soonest wish for
another look counts.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import Struct

from growth.controllers.loop.loop import STILL_SECONDS, Loop, RowMemory
from growth.controllers.loop.metrics import Metrics
from growth.controllers.loop.table import ROWS, Row
from growth.model.action import Action, ReleaseNodeRequest, Seen, WriteNodeRequestStatus
from growth.model.decision import Decision, Settled
from growth.model.noderequest import NodeRequestStatus
from growth.model.outcome import Accepted, Outcome, TryLater
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.sim.clock import START_OF_TIME, SimRuntime, run_virtual

WRITE = WriteNodeRequestStatus(Seen("a"), NodeRequestStatus(phase="Provisioning"))
LAUNCHED = Settled(ReleaseNodeRequest(Seen("a")), Accepted())


class World(Struct):
    """Observer and applier in one: each action that is performed is one more version."""

    version: int = 0
    performed: list[Action] = []
    outcome: Outcome = Accepted()
    seconds: float = 0.0  # that an action takes

    def snapshot(self) -> Snapshot:
        return Snapshot(START_OF_TIME, machines_at=self.version)

    def on_change(self, *_callbacks: object) -> None: ...

    def complaints(self) -> tuple[()]:
        return ()

    async def perform(self, action: Action) -> Outcome:
        await asyncio.sleep(self.seconds)
        self.performed.append(action)
        self.version += 1
        return self.outcome


class Quiet:
    def record(self, _notes: object) -> None: ...


def taken(row: Row, world: World, *inbox: Settled) -> RowMemory:
    async def play() -> RowMemory:
        runtime, doubles = SimRuntime("loop"), [world, world, Quiet()]
        observer, applier, journal = (thing for thing in doubles)
        loop = Loop(observer, applier, journal, Metrics(runtime), runtime, Settings())  # type: ignore[arg-type]
        memory = RowMemory(row)
        memory.inbox += inbox
        await loop._look(memory)
        return memory

    return run_virtual(play())


def test_when_the_clock_goes_back_a_ledger_begins_anew() -> None:
    async def play() -> list[dict[str, float]]:
        runtime = SimRuntime("loop")
        loop = Loop(World(), World(), Quiet(), Metrics(runtime), runtime, Settings())  # type: ignore[arg-type]
        loop.memories = (RowMemory(Row("row", Decision, Decision, dict)),)
        for memory in loop.memories:
            memory.ledger = {"learned": 1.0, "until": 2.0}
        loop._latest = runtime.now() + 3600
        loop._notice_a_clock_that_went_back()
        assert loop.clock_went_back == 1
        return [memory.ledger for memory in loop.memories]

    assert run_virtual(play()) == [{}]


@pytest.mark.parametrize(
    ("thought_seconds", "changed", "waited_seconds"),
    [(0.0, "pods", 0.05), (0.04, "pods", 0.36 + 0.08), (0.04, "nodes", 0.08), (5.0, "pods", 1.3), (5.0, "nodes", 0.3)],
)
def test_the_longer_a_turn_takes_to_decide_the_more_changes_are_collected_for_the_next(
    thought_seconds: float, changed: str, waited_seconds: float
) -> None:
    async def play() -> float:
        runtime = SimRuntime("loop")
        loop = Loop(World(), World(), Quiet(), Metrics(runtime), runtime, Settings())  # type: ignore[arg-type]
        (loop._wake_soon if changed == "nodes" else loop.wake.set)()
        began_at = runtime.monotonic()
        await loop._collect(thought_seconds)
        return runtime.monotonic() - began_at

    assert run_virtual(play()) == pytest.approx(waited_seconds)


def test_a_decision_sees_what_settling_the_last_outcomes_has_written() -> None:
    seen: list[float | None] = []

    def plan(snapshot: Snapshot, ledger: Any, _settings: Settings) -> Decision[Any]:
        seen.append(snapshot.machines_at)
        return Decision(ledger)

    def settle(settled: Settled, _snapshot: Any, ledger: Any, _settings: Settings) -> Decision[Any]:
        return Decision(ledger, (WRITE,) if settled == LAUNCHED else ())

    world = World(performed=[])
    memory = taken(Row("row", plan, settle, dict), world, LAUNCHED)
    assert (world.performed, seen) == ([WRITE], [1])
    assert not memory.is_due(world.version, 0.0)  # nothing happened since: no second look


def test_the_wish_of_a_settled_outcome_to_be_looked_at_again_outlives_the_decision() -> None:
    def plan(_snapshot: Any, ledger: Any, _settings: Settings) -> Decision[Any]:
        return Decision(ledger, again_at=500.0)

    def settle(settled: Settled, _snapshot: Any, ledger: Any, _settings: Settings) -> Decision[Any]:
        return Decision(ledger, (WRITE,)) if settled == LAUNCHED else Decision(ledger, again_at=7.0)

    memory = taken(Row("row", plan, settle, dict), World(performed=[], outcome=TryLater("busy")), LAUNCHED)
    assert memory.again_at == 7.0
    assert taken(Row("row", plan, settle, dict), World(performed=[])).again_at == 500.0


def test_an_outcome_is_settled_at_the_time_it_came_with_what_the_decision_saw() -> None:
    settled_at: list[tuple[float, float | None]] = []

    def plan(_snapshot: Any, ledger: Any, _settings: Settings) -> Decision[Any]:
        return Decision(ledger, (WRITE,))

    def settle(_settled: Settled, snapshot: Snapshot, ledger: Any, _settings: Settings) -> Decision[Any]:
        settled_at.append((snapshot.now - START_OF_TIME, snapshot.machines_at))
        return Decision(ledger)

    taken(Row("row", plan, settle, dict), World(performed=[], seconds=60.0))
    assert settled_at == [(60.0, 0)]


class Asked(Struct):
    problem: int = 7


def test_where_the_solver_does_not_answer_in_time_a_simpler_way_answers_and_it_is_counted() -> None:
    seen: list[object] = []

    def plan(_snapshot: Snapshot, ledger: object, _settings: Settings, _asked: Asked, answer: object) -> Decision[Any]:
        seen.append(answer)
        return Decision(ledger)

    async def play() -> None:
        runtime = SimRuntime("loop")
        metrics, world = Metrics(runtime), World()
        loop = Loop(world, world, Quiet(), metrics, runtime, Settings())  # type: ignore[arg-type]
        row = Row("buy", plan, plan, int, lambda *_given: Asked(), str, float)
        hangs = [True, False, False]
        runtime.solver_hangs = lambda: hangs.pop(0)
        await loop._look(RowMemory(row))
        assert (seen, loop.solver_silences) == ([7.0], 1)
        assert loop.why_not_solving() == "the solver did not answer the last question, and was ended"
        await runtime.sleep(601)
        assert loop.why_not_solving() == ""
        await loop._look(RowMemory(row))
        assert (seen, loop.solver_silences) == ([7.0, "7"], 0)
        assert metrics.registry.get_sample_value("growth_solver_timeouts_total", {"row": "buy"}) == 1
        broken = Row("buy", plan, plan, int, lambda *_given: Asked(), str.upper, float)
        hangs += [False, False]
        await loop._look(RowMemory(broken))
        assert seen[-1] == 7.0

    run_virtual(play())


def test_a_loop_that_stands_still_says_so_and_one_that_works_slowly_does_not() -> None:
    async def play() -> None:
        runtime, world = SimRuntime("loop"), World(seconds=STILL_SECONDS - 1)
        loop = Loop(world, world, Quiet(), Metrics(runtime), runtime, Settings())  # type: ignore[arg-type]
        queue = [WRITE, WRITE, WRITE]
        working = runtime.spawn("write", loop._perform(RowMemory(ROWS[0]), queue))
        for _ in queue:
            await runtime.sleep(STILL_SECONDS - 1)
            assert loop.why_not_turning() == ""
        await working
        await runtime.sleep(STILL_SECONDS + 1)
        assert "the loop has stood still for 601 s" in loop.why_not_turning()

    run_virtual(play())


def test_one_question_may_be_too_hard_but_a_solver_that_never_answers_is_named() -> None:
    async def play() -> None:
        runtime, world = SimRuntime("loop"), World()
        loop = Loop(world, world, Quiet(), Metrics(runtime), runtime, Settings())  # type: ignore[arg-type]
        for silences, said in ((0, ""), (2, ""), (3, "the solver did not answer the last 3 questions")):
            loop.solver_silences = silences
            assert loop.why_not_turning() == said

    run_virtual(play())


class Sum(Struct):
    """A keeper: how much it was told so far."""

    told: int = 0

    def __call__(self, part: int) -> int:
        self.told += part
        return self.told


class Parts(Struct):
    numbers: tuple[int, ...]

    def parts(self) -> tuple[int, ...]:
        return self.numbers


class Asking(Struct):
    problem: Parts | None


def keeping(asked: Asking | None) -> Row:
    """Its ledger is a list of what its plan was given, and when."""

    def plan(snapshot: Snapshot, ledger: list[Any], _settings: Settings, question: Any, answer: Any) -> Decision[Any]:
        return Decision([*ledger, (snapshot.machines_at, question is not None, answer)])

    return Row("row", plan, Decision, list, lambda *_: asked, keeper=Sum)


def told_in(row: Row, solve_seconds: float, ticks: int, *, hangs: bool = False) -> list[list[Any]]:
    """The ledger after each tick; in each, something changes at its end, and half a second passes."""

    async def play() -> list[list[Any]]:
        runtime, world = SimRuntime("loop", solve_seconds), World()
        runtime.solver_hangs = lambda: hangs
        loop = Loop(world, world, Quiet(), Metrics(runtime), runtime, Settings())  # type: ignore[arg-type]
        loop.memories = (RowMemory(row),)
        found = []
        for _ in range(ticks):
            await loop.tick()
            world.version += 1
            await runtime.sleep(0.5)
            found.append(loop.memories[0].ledger)
        return found

    return run_virtual(play())


def test_a_keeper_that_answers_in_a_moment_is_heard_in_the_same_look_and_remembers() -> None:
    row = keeping(Asking(Parts((1, 2))))
    assert told_in(row, 0.01, 2)[-1] == [(0, True, 3), (1, True, 6)]


def test_a_keeper_that_takes_longer_is_heard_later_with_what_is_so_by_then() -> None:
    row = keeping(Asking(Parts((1, 2))))
    assert told_in(row, 0.3, 3) == [[], [], [(2, True, 3)]]


def test_a_row_that_asks_nothing_of_its_keeper_decides_at_once() -> None:
    assert told_in(keeping(None), 0.3, 1) == [[(0, False, None)]]
    assert told_in(keeping(Asking(None)), 0.3, 1) == [[(0, True, None)]]


def test_a_keeper_that_does_not_answer_is_ended_and_the_plan_hears_of_it() -> None:
    row = keeping(Asking(Parts((1, 2))))
    ledgers = [ledger for ledger in told_in(row, 0.01, 100, hangs=True) if ledger]
    assert [given[1:] for given in ledgers[0]] == [(True, None)]
