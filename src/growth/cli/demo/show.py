"""How is a story shown on the page? Played in a thread of its own, at a speed that its viewers choose, while the page
is served beside it.

| who watches | what happens |
| --- | --- |
| a terminal, or an open page | it is told at its speed; when it is over it waits, and begins again |
| nobody, for a few seconds (no terminal, as in CI) | it is told as fast as it goes, and the command ends |

A chapter that lies ahead is reached as fast as it goes; for one that lies behind, the story begins anew."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from growth.controllers.ask.bound import bound_of, bound_problem
from growth.controllers.growth import Growth
from growth.plan.buffers.placement import place_buffers
from growth.sim.clock import START_OF_TIME
from growth.sim.stories.story import ScenarioStory, Story
from growth.web.notes import Notes
from growth.web.page import Control
from growth.web.state import Look, Stage

Result = TypeVar("Result")

SLOWEST, FASTEST = 0.1, 1000.0
_ALONE_SECONDS: Final = 5.0  # until a story that nobody watches is hurried through
_PICTURE_SECONDS: Final = 0.2  # between two pictures, of real time
_SAMPLE_SECONDS: Final = 10.0  # between two costs, of virtual time
_BOUND_OLDEST_SECONDS: Final = 90.0  # of virtual time
_OPENING_SECONDS: Final = 2.0  # of a story, until there is something to see
_LINES_KEPT: Final = 5


class Ended(Exception):  # noqa: N818  (says what happened)
    """The telling is given up: another chapter was chosen, or the command ends."""


class Shown(Struct, frozen=True):
    """How the story is told now; replaced as a whole, so that any thread may read it."""

    speed: float
    is_paused: bool = False
    until: float = 0.0  # virtual seconds to hurry to
    is_over: bool = False


class Show:
    """One page, and the stories told on it one after the other. `is_seen` says whether a terminal shows it too."""

    def __init__(self, speed: float, is_seen: bool) -> None:
        self.viewers: Callable[[], int] = lambda: 0
        self.wants_again = False
        self._is_seen = is_seen
        self._state = Shown(speed)
        self._change = threading.Condition()
        self._is_given_up = False
        self._world = 0
        self._at, self._moved_at = 0.0, 0.0
        self._watched_at = time.monotonic()
        self._pictured_at = 0.0
        self._picture: Look | None = None
        self._bound: tuple[float, float] | None = None  # and of which moment it is
        self._story: Story | ScenarioStory | None = None
        self._growths: list[Growth] = []
        self._notes = Notes(self._now)
        self._said: deque[tuple[float, str, str]] = deque(maxlen=_LINES_KEPT)

    # ------------------------------------------------------------------------ in the story's thread

    def begin(self, story: Story | ScenarioStory) -> None:
        self._story, self._growths, self._notes = story, [], Notes(self._now)
        self._world += 1
        self._at, self._moved_at, self._bound = 0.0, time.monotonic(), None
        self._said.clear()
        self._is_given_up = False
        self._state = replace(self._state, is_over=False)

    def say(self, at: float, who: str, what: str) -> None:
        self._said.append((at, who, what))

    def leap(self, when: float) -> None:
        """Wait until the story may go on to this moment. Raises Ended."""
        self._take_picture()
        is_pictured = False
        with self._change:
            while not self._is_given_up:
                seconds = self._seconds_until(when)
                if seconds <= 0:
                    break
                if seconds > _PICTURE_SECONDS and not is_pictured:  # this moment lasts: it is worth a picture
                    self._pictured_at, is_pictured = 0.0, True
                    self._take_picture()
                self._change.wait(min(seconds, 1.0))
            if self._is_given_up:
                raise Ended
        self._at = when
        self._moved_at = max(self._moved_at, time.monotonic() - 0.5)  # a slow machine is not caught up with for ever

    def _seconds_until(self, when: float) -> float:
        state, now = self._state, time.monotonic()
        if self._is_hurried(now) or when <= state.until:
            self._moved_at = now
            return 0.0
        if state.is_paused:
            self._moved_at = now
            return 1.0
        due = self._moved_at + (when - self._at) / state.speed
        if due <= now:
            self._moved_at = due
        return due - now

    def _is_hurried(self, now: float) -> bool:
        if self._is_seen or self.viewers():
            self._watched_at = now
        return now - self._watched_at > _ALONE_SECONDS

    def _take_picture(self) -> None:
        """A snapshot of the growth that runs now, a few times a second."""
        now, growth = time.monotonic(), self._story.growth if self._story is not None else None
        if now < self._pictured_at + _PICTURE_SECONDS or growth is None:
            return
        if growth not in self._growths:
            self._growths.append(growth)
            growth.journal.listeners.append(self._notes.hear)
        if growth.observer is None or not growth.observer.is_synced:
            return
        self._pictured_at, settings = now, growth.installation.settings
        snapshot = growth.observer.snapshot()
        self._picture = Look(
            snapshot,
            settings,
            self._notes,
            None,
            placement=place_buffers(snapshot, settings),
            leads=growth.fence.holds(),
            sample_seconds=_SAMPLE_SECONDS,
            bound_seconds=1.0,
            world=self._world,
        )

    def end(self) -> None:
        """The story is over, and stays to be looked at."""
        self._pictured_at = 0.0
        self._state = replace(self._state, is_over=True, until=0.0)

    # -------------------------------------------------------------------------- in the page's thread

    def look(self, is_watched: bool) -> Look | None:
        picture, state = self._picture, self._state
        if picture is None or self._story is None:
            return None
        chapters = tuple(self._story.chapters.items())
        stage = Stage(chapters, round(self._at, 1), state.speed, state.is_paused, state.is_over, tuple(self._said))
        bound, at = self._bound or (0.0, -1e9)
        is_fresh = abs(picture.snapshot.now - at) <= _BOUND_OLDEST_SECONDS
        version = (id(picture), stage, self._bound, is_watched)
        return replace(picture, stage=stage, version=version, bound_per_hour=bound if is_fresh else None)

    async def find_bound(self, look: Look) -> None:
        problem = bound_problem(look.snapshot, look.settings)
        bound = 0.0 if problem is None else await asyncio.to_thread(bound_of, problem)
        self._bound = (bound, look.snapshot.now)

    def steer(self, control: Control) -> None:
        with self._change:
            state = self._state
            if control.pause is not None:
                state = replace(state, is_paused=control.pause)
            if control.speed is not None:
                state = replace(state, speed=min(FASTEST, max(SLOWEST, control.speed)))
            if control.chapter is not None and self._story is not None:
                starts = list(self._story.chapters.values()) or [0.0]
                until = starts[max(0, min(control.chapter, len(starts) - 1))]
                if until < self._at or state.is_over:
                    self._is_given_up = self.wants_again = True
                state = replace(state, until=max(until, _OPENING_SECONDS))
            self._state = state
            self._change.notify_all()

    def give_up(self) -> None:
        """End the telling, from any thread."""
        with self._change:
            self._is_given_up = True
            self._change.notify_all()

    def wait_for_another(self, seconds: float) -> bool:
        """Whether the story shall be told again: as soon as a viewer wishes it, or, where somebody watches, after so
        long.
        """
        until = time.monotonic() + seconds
        with self._change:
            while not self.wants_again and time.monotonic() < until:
                if self._is_hurried(time.monotonic()) or self._is_given_up:
                    break
                self._change.wait(0.5)
        wanted, self.wants_again = self.wants_again, False
        return wanted or self._is_seen or bool(self.viewers())

    def _now(self) -> float:
        return START_OF_TIME + self._at
