"""Row by row: observe, plan, apply, settle. The one place where decisions and effects meet, and it only carries them
across.

    wake (something changed, a timer, an outcome) → for each row that has a reason to look:
        observe → [solve] → plan → journal the notes → apply the actions → settle the outcomes → apply what follows …

A row is looked at when its inputs changed, when its own `again_at` has passed, or when an outcome came back. Slow
actions (those that speak to the provider, or bind many pods) run beside the loop; the same action on the same object is
never under way twice. A row with a keeper asks it beside the loop, too: an answer that comes within a moment is taken
in the same look, any other in a later one; until then the row asks nothing else, and the other rows go on.

Changes that come close together are looked at together. Where deciding takes long, because thousands of pods wait, more
are collected: thousands of pods that arrive or are bound one after the other would else be walked at each of them."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Sequence
from typing import Any, Final

import structlog
from msgspec.structs import replace

from growth.controllers.act.apply import Applier, is_slow, object_of
from growth.controllers.loop.journal import Journal
from growth.controllers.loop.metrics import Metrics
from growth.controllers.loop.runtime import Signal, work_through
from growth.controllers.loop.table import ROWS, Plan, Row
from growth.controllers.loop.workers import Begin
from growth.controllers.observe.observer import Observer
from growth.model.action import Action
from growth.model.decision import Decision, Settled
from growth.model.outcome import Unknown
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.runtime import Runtime, Servant

_PARALLEL_WRITES: Final = 32
_FOLLOW_UPS: Final = 4  # a decision, its outcome, the next step …: no walk in one look is longer
_COALESCE_SECONDS: Final = 0.05  # events come in bursts
_MOST_COALESCED_SECONDS: Final = 0.3
_PAUSE_AFTER_THOUGHT: Final = 2.0  # so many times as long as a turn took to decide are further changes collected
_PODS_COALESCED_SECONDS: Final = 1.0
_PODS_PAUSE_AFTER_THOUGHT: Final = 9.0  # the same while nothing but pods has changed
_LONGEST_SLEEP_SECONDS: Final = 30.0
_CLOCK_STEP_SECONDS: Final = 5.0  # less is a correction, more is a step
SOLVE_SECONDS: Final = 45.0  # its own budgets end it long before
STILL_SECONDS: Final = 600.0  # the longest single step is a request that the API server leaves without an answer
_SILENCES: Final = 3  # one question may be too hard; so many in a row mean that the worker process is of no use
_LATELY_SECONDS: Final = 600.0
_AT_ONCE_SECONDS: Final = 0.1  # a keeper's answer is awaited so long: most rounds of a few pods take a tenth of it
_FAILED_SECONDS: Final = 10.0  # before a decision that failed by our own mistake is tried again

log = structlog.get_logger(__name__)


class Asked:
    """A question to a row's keeper, and its answer when it is there."""

    def __init__(self, question: Any, runtime: Runtime) -> None:
        self.question = question
        self.answer: Any = None
        self.is_answered = Signal(runtime)


class RowMemory:
    """What the loop remembers of one row of the table."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.ledger: Any = row.first_ledger()
        self.seen_version: object = None
        self.again_at: float | None = None
        self.inbox: list[Settled] = []  # outcomes of slow actions
        self.asked: Asked | None = None  # of its keeper

    def look_again(self, at: float | None) -> None:
        """The soonest wish counts."""
        self.again_at = at if self.again_at is None or (at is not None and at < self.again_at) else self.again_at

    def is_due(self, version: object, now: float) -> bool:
        if self.asked is not None and not self.inbox:
            return self.asked.is_answered.is_set
        return bool(self.inbox) or version != self.seen_version or (self.again_at is not None and now >= self.again_at)


class Loop:
    """Carries snapshots to plans and actions to the world."""

    def __init__(
        self,
        observer: Observer,
        applier: Applier,
        journal: Journal,
        metrics: Metrics,
        runtime: Runtime,
        settings: Settings,
    ) -> None:
        self.observer = observer
        self.applier = applier
        self.journal = journal
        self.metrics = metrics
        self.runtime = runtime
        self.settings = settings
        self.wake = Signal(runtime)
        self._hurry = Signal(runtime)  # something else than a pod has changed
        self._thought_seconds = 0.0  # how long this turn's decisions took
        self.memories = tuple(RowMemory(row) for row in ROWS)
        self._under_way: set[tuple[str, str]] = set()
        self._keepers: dict[str, Servant] = {}  # by the name of their row
        self.turned_at = runtime.monotonic()  # when something of it last came to an end
        self.failures: dict[str, Exception] = {}  # by row, the latest: there should never be one
        self.solver_silences = 0  # questions in a row that the solver did not answer in time
        self._silent_at = -math.inf  # when the last of them was given up
        self.clock_went_back = 0  # how often: all ledgers then began anew
        self._latest = 0.0
        observer.on_change(self._wake_soon, self.wake.set)

    async def run(self) -> None:
        """For ever: the caller cancels it."""
        while True:
            self._thought_seconds = 0.0
            await self.tick()
            self._turn()
            await self.wake.wait(self._sleep_seconds())
            await self._collect(self._thought_seconds)
            self.wake.clear()
            self._hurry.clear()

    async def _collect(self, thought_seconds: float) -> None:
        """Wait for what comes close behind, the longer the more work a turn is."""
        pods_seconds = min(_PODS_COALESCED_SECONDS, _PODS_PAUSE_AFTER_THOUGHT * thought_seconds, self._sleep_seconds())
        if pods_seconds > _COALESCE_SECONDS:
            await self._hurry.wait(pods_seconds)
        seconds = min(_MOST_COALESCED_SECONDS, _PAUSE_AFTER_THOUGHT * thought_seconds)
        await self.runtime.sleep(max(_COALESCE_SECONDS, seconds))

    def _wake_soon(self) -> None:
        self._hurry.set()
        self.wake.set()

    def why_not_turning(self) -> str:
        """What stands still, so that growth must be started again. Empty: nothing."""
        still_seconds = self.runtime.monotonic() - self.turned_at
        if still_seconds > STILL_SECONDS:
            return f"the loop has stood still for {still_seconds:.0f} s"
        if self.solver_silences >= _SILENCES:
            return f"the solver did not answer the last {self.solver_silences} questions"
        return ""

    def why_not_solving(self) -> str:
        """Whether the solver was silent, and lately: hours later nobody knows whether it would answer. Empty: no."""
        is_lately = self.runtime.monotonic() - self._silent_at < _LATELY_SECONDS
        return (
            "the solver did not answer the last question, and was ended" if self.solver_silences and is_lately else ""
        )

    def _turn(self) -> None:
        self.turned_at = self.runtime.monotonic()

    async def tick(self) -> None:
        """Let every row that has a reason look once."""
        self.journal.record(self.observer.complaints())
        self._notice_a_clock_that_went_back()
        version, now = self.observer.version, self.runtime.now()
        for memory in self.memories:
            if memory.is_due(version, now):
                await self._look_safely(memory)
                self._turn()
                version, now = self.observer.version, self.runtime.now()  # only a look gives time for a change

    def _notice_a_clock_that_went_back(self) -> None:
        """Timers in memory then lie in a future that may not come for an hour. A ledger may be lost: it begins anew."""
        now = self.runtime.now()
        if now < self._latest - _CLOCK_STEP_SECONDS:
            log.warning("the clock went back", seconds=round(self._latest - now, 1))
            self.clock_went_back += 1
            for memory in self.memories:
                memory.ledger, memory.seen_version, memory.again_at = memory.row.first_ledger(), None, None
                memory.asked = None
        self._latest = now

    def _sleep_seconds(self) -> float:
        now = self.runtime.now()
        due = [memory.again_at - now for memory in self.memories if memory.again_at is not None]
        return max(0.0, min([_LONGEST_SLEEP_SECONDS, *due]))

    async def _look_safely(self, memory: RowMemory) -> None:
        """A mistake in one decision must not stop the others: it is logged, counted and tried again later."""
        began_at = self.runtime.monotonic()
        try:
            await self._look(memory)
        except Exception as error:
            log.exception("a decision failed", row=memory.row.name)
            self._failed(memory.row.name, error)
            memory.again_at = self.runtime.now() + _FAILED_SECONDS
        finally:
            self.metrics.looked(memory.row.name, self.runtime.monotonic() - began_at)

    def _failed(self, row: str, error: Exception) -> None:
        self.metrics.failures.labels(row).inc()
        self.failures[row] = error

    async def _look(self, memory: RowMemory) -> None:
        """What came back is settled first; the decision then sees what settling wrote."""
        outcomes, memory.inbox, memory.again_at = memory.inbox, [], None
        if outcomes:
            await self._settle(memory, self.observer.snapshot(), outcomes)
        if memory.row.keeper is None:
            memory.seen_version = self.observer.version
        elif not await self._is_answered(memory, memory.row.keeper):
            return
        snapshot = self.observer.snapshot()
        began_at = self.runtime.monotonic()
        decision = await self._decide(memory, snapshot)
        if memory.row.measure is not None:
            memory.row.measure(self.metrics, decision.ledger, self.runtime.monotonic() - began_at)
        memory.look_again(decision.again_at)
        await self._settle(memory, snapshot, await self._perform(memory, self._absorb(memory, decision)))

    async def _decide(self, memory: RowMemory, snapshot: Snapshot) -> Decision[Any]:
        row, given = memory.row, (snapshot, memory.ledger, self.settings)
        solved: tuple[Any, ...] = ()
        if row.keeper is not None:
            asked, memory.asked = memory.asked, None
            solved = (None, None) if asked is None else (asked.question, asked.answer)
        elif row.question is not None:
            question = self._timed(row.question, *given)
            solved = (question, None if question is None else await self._timed_answer(row, question.problem))
        decision: Decision[Any] = self._timed(row.plan, *given, *solved)
        return decision

    def _timed(self, decide: Plan, *given: Any) -> Any:
        began_at = self.runtime.monotonic()
        try:
            return decide(*given)
        finally:
            self._thought_seconds += self.runtime.monotonic() - began_at

    async def _is_answered(self, memory: RowMemory, begin: Begin) -> bool:
        """Can the row decide now? Not while its keeper thinks."""
        if memory.asked is None:
            row, memory.seen_version = memory.row, self.observer.version  # a change from here on is a reason to look
            given = (self.observer.snapshot(), memory.ledger, self.settings)
            question = self._timed(row.question, *given) if row.question else None
            if question is None:
                return True
            memory.asked = Asked(question, self.runtime)
            if question.problem is None:
                return True
            if row.name not in self._keepers:
                self._keepers[row.name] = self.runtime.servant(begin)
            self.runtime.spawn(f"ask {row.name}", self._ask(row, memory.asked, self._keepers[row.name]))
            await memory.asked.is_answered.wait(_AT_ONCE_SECONDS)
        return memory.asked.is_answered.is_set

    async def _ask(self, row: Row, asked: Asked, keeper: Servant) -> None:
        try:
            for part in asked.question.problem.parts():
                asked.answer = await self._in_time(row, keeper.ask(SOLVE_SECONDS, part))
                if asked.answer is None:
                    break
        finally:
            asked.is_answered.set()
            self._wake_soon()

    async def _timed_answer(self, row: Row, problem: Any) -> Any:
        with self.metrics.time(self.metrics.solves):
            return await self._solve(row, problem)

    async def _solve(self, row: Row, problem: Any) -> Any:
        """The solver's answer; where none comes in time, the answer of a simpler way."""
        answer = await self._in_time(row, self.runtime.offload(SOLVE_SECONDS, row.answer, problem))
        if answer is not None:
            return answer
        return await self.runtime.offload(SOLVE_SECONDS, row.simpler_answer, problem)

    async def _in_time(self, row: Row, work: Awaitable[Any]) -> Any:
        """Its result; None: it did not come, which is told."""
        try:
            answer = await work
            self.solver_silences = 0
            return answer
        except TimeoutError:
            self.solver_silences += 1
            self._silent_at = self.runtime.monotonic()
            self._turn()
            self.metrics.solver_timeouts.labels(row.name).inc()
            log.error("the solver did not answer and was ended", row=row.name, seconds=SOLVE_SECONDS)
        except Exception as error:
            log.exception("the solver failed", row=row.name)
            self._failed(row.name, error)
        return None

    async def _settle(self, memory: RowMemory, snapshot: Snapshot, settled: list[Settled]) -> None:
        """Turn outcomes into the next steps, and theirs into the next. They are seen as the decision saw, at the time
        they came: actions take a while.
        """
        for _ in range(_FOLLOW_UPS):
            if not settled:
                return
            snapshot = replace(snapshot, now=self.runtime.now())
            following: list[Action] = []
            for one in settled:
                decision = memory.row.settle(one, snapshot, memory.ledger, self.settings)
                memory.look_again(decision.again_at)
                following += self._absorb(memory, decision)
            settled = await self._perform(memory, following)

    def _absorb(self, memory: RowMemory, decision: Decision[Any]) -> Sequence[Action]:
        """Keep the ledger and tell the notes; the actions are left to perform."""
        memory.ledger = decision.ledger
        if decision.notes:
            self.journal.record(decision.notes)
        return decision.actions

    async def _perform(self, memory: RowMemory, actions: Sequence[Action]) -> list[Settled]:
        """Quick actions in parallel, but in order for each object; slow ones are started, and their outcomes come by
        the inbox.
        """
        if not actions:
            return []
        queues: dict[str, list[Action]] = {}
        for action in actions:
            if is_slow(action):
                self._start(memory, action)
            else:
                queues.setdefault(object_of(action), []).append(action)
        settled = list[Settled]()

        async def perform(queue: list[Action]) -> None:
            for action in queue:
                settled.append(Settled(action, await self.applier.perform(action)))
                self._turn()

        await work_through(self.runtime, "apply", queues.values(), _PARALLEL_WRITES, perform)
        return settled

    def _start(self, memory: RowMemory, action: Action) -> None:
        key = (type(action).__name__, object_of(action))
        if key not in self._under_way:
            self._under_way.add(key)
            self.runtime.spawn(f"{key[0]} {key[1]}", self._perform_slowly(memory, action, key))

    async def _perform_slowly(self, memory: RowMemory, action: Action, key: tuple[str, str]) -> None:
        outcome: Any = Unknown("the call was abandoned")
        try:
            outcome = await self.applier.perform(action)
        finally:
            self._under_way.discard(key)
            memory.inbox.append(Settled(action, outcome))
            self._wake_soon()
