"""Writes Kubernetes events, so that people see what happened to an object.

Used by the journal, which says nothing twice. Writes events.k8s.io/v1, which `kubectl describe` shows with its count
and age. Never blocks its caller and never fails it: what could not be written is counted in `dropped`.

    the same object, severity, reason and note    first time ... one Event is created
                                                  again ........ counted; written at most once in `series_seconds`
    it cannot be written now                      it goes to the end of the queue, and is dropped after an hour
    many different events of one object           beyond `burst` only one each `refill_seconds`, the others are dropped
    many events at once                           `per_second` are written, Warnings first; the others wait their turn
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from typing import Any, Literal

import msgspec
from msgspec import Struct

from growth.kube.api.client import Client
from growth.kube.api.errors import (
    AlreadyExists,
    EffectUnknown,
    NotFound,
    NotLeader,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from growth.kube.api.pace import Backoff, Lane
from growth.kube.api.resources import EVENTS
from growth.kube.fence import belong_to_no_term
from growth.model.instant import format_precise_instant
from growth.runtime import Runtime, Spawned

NOTE_BYTES = 1024
_WORD_BYTES = 128  # reason, action and reporting instance
_PASSING = (Unreachable, EffectUnknown, TooManyRequests, NotLeader, Unauthorized)  # it may get through later
_KEPT_SECONDS = 3600.0  # so long a server keeps events, too

Severity = Literal["Normal", "Warning"]


class Regarding(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The object an event is about; those of objects without a namespace live in `default`."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


class EventSettings(Struct, frozen=True):
    controller: str = "growth.dev/growth"
    remembered: int = 4096  # events whose repetition is noticed, and objects whose rate is known
    waiting: int = 20_000  # events that are not written yet: one for each pod of a large burst
    per_second: float = 10.0
    series_seconds: float = 300.0
    burst: int = 20
    refill_seconds: float = 60.0


class _Occasion(Struct, gc=False):
    """One event: what it says, how often it happened, and what the server knows of it."""

    regarding: Regarding
    severity: Severity
    reason: str
    note: str
    action: str
    first_at: float
    last_at: float = 0.0
    count: int = 0
    name: str = ""  # chosen once: a lost answer must not make two of it
    is_created: bool = False
    written_at: float = -math.inf  # monotonic
    is_waiting: bool = False
    queued_at: float = 0.0  # monotonic


class Recorder:
    """Collects events at once and writes them beside the caller, one after another."""

    def __init__(self, client: Client, runtime: Runtime, instance: str, settings: EventSettings | None = None) -> None:
        self.dropped = 0
        self._client = client
        self._runtime = runtime
        self._instance = _cut(instance, _WORD_BYTES)
        self._settings = settings or EventSettings()
        self._occasions: OrderedDict[tuple[Regarding, str, str, str], _Occasion] = OrderedDict()
        self._budgets: OrderedDict[Regarding, tuple[float, float]] = OrderedDict()  # events left, and as of when
        self._waiting: dict[Severity, deque[_Occasion]] = {"Warning": deque(), "Normal": deque()}  # in this order
        self._writing: Spawned | None = None

    @property
    def waiting(self) -> int:
        """How many events are not written yet."""
        return sum(map(len, self._waiting.values()))

    def record(
        self, regarding: Regarding, severity: Severity, reason: str, note: str, action: str = "", count: int = 1
    ) -> None:
        """It happened, so many times."""
        self._forget()
        action, reason = _cut(action or reason, _WORD_BYTES), _cut(reason, _WORD_BYTES)
        occasion = self._occasion(regarding, severity, reason, _cut(note, NOTE_BYTES), action)
        if occasion is None:
            self.dropped += 1
            return
        occasion.count += count
        occasion.last_at = self._runtime.now()
        is_due = self._runtime.monotonic() >= occasion.written_at + self._settings.series_seconds
        if is_due and not occasion.is_waiting:
            self._enqueue(occasion)

    def _occasion(
        self, regarding: Regarding, severity: Severity, reason: str, note: str, action: str
    ) -> _Occasion | None:
        key = (regarding, severity, reason, note)
        known = self._occasions.get(key)
        if known is None and self._has_budget(regarding):
            now = self._runtime.now()
            known = _Occasion(regarding, severity, reason, note, action, now, queued_at=self._runtime.monotonic())
        if known is not None:
            _keep(self._occasions, key, known, self._settings.remembered)
        return known

    def _has_budget(self, regarding: Regarding) -> bool:
        now = self._runtime.monotonic()
        left, as_of = self._budgets.get(regarding, (float(self._settings.burst), now))
        left = min(float(self._settings.burst), left + (now - as_of) / self._settings.refill_seconds)
        _keep(self._budgets, regarding, (left - 1 if left >= 1 else left, now), self._settings.remembered)
        return left >= 1

    def _forget(self) -> None:
        """What is of no use any more: events that the server has forgotten, and objects that may be told as much as
        one that was never heard of.
        """
        now, whole = self._runtime.monotonic(), self._settings.burst * self._settings.refill_seconds
        while self._budgets and now - next(iter(self._budgets.values()))[1] > whole:
            self._budgets.popitem(last=False)
        while self._occasions:
            oldest = next(iter(self._occasions.values()))
            if oldest.is_waiting or now - max(oldest.written_at, oldest.queued_at) < _KEPT_SECONDS:
                return
            self._occasions.popitem(last=False)

    def _enqueue(self, occasion: _Occasion) -> None:
        if self.waiting >= self._settings.waiting:
            self.dropped += 1
            return
        occasion.is_waiting = True
        occasion.queued_at = self._runtime.monotonic()
        self._waiting[occasion.severity].append(occasion)
        if self._writing is None:
            self._writing = self._runtime.spawn("event recorder", self._write_all())

    # ---------------------------------------------------------------------------- beside the caller

    async def _write_all(self) -> None:
        belong_to_no_term()  # what happened stays true, whoever leads by now
        backoff = Backoff(self._runtime, 1.0, 30.0)
        try:
            while self.waiting:
                occasion = next(filter(None, self._waiting.values())).popleft()
                occasion.is_waiting = False
                occasion.written_at = self._runtime.monotonic()
                try:
                    await self._write(occasion)
                    backoff.reset()
                except _PASSING as failure:
                    self._put_back(occasion)
                    await backoff.wait(getattr(failure, "retry_after_seconds", None))
                except Exception:  # an event is never worth a failure; `dropped` tells
                    self.dropped += 1
                await self._runtime.sleep(1 / self._settings.per_second)
        finally:
            self._writing = None

    def _put_back(self, occasion: _Occasion) -> None:
        """The event waits behind the others: one that the server never takes must not hold them up."""
        is_old = self._runtime.monotonic() >= occasion.queued_at + _KEPT_SECONDS
        if occasion.is_waiting:
            return
        if is_old or self.waiting >= self._settings.waiting:
            self.dropped += 1
            return
        occasion.is_waiting = True
        self._waiting[occasion.severity].append(occasion)

    async def _write(self, occasion: _Occasion) -> None:
        if occasion.is_created:
            patch, namespace = {"series": _series(occasion)}, occasion.regarding.namespace or "default"
            try:
                await self._client.merge_patch(EVENTS, occasion.name, patch, namespace, lane=Lane.BACKGROUND)
                return
            except NotFound:  # events live for an hour
                occasion.first_at, occasion.count, occasion.name, occasion.is_created = occasion.last_at, 1, "", False
        occasion.name = occasion.name or f"{occasion.regarding.name[:200]}.{self._runtime.new_id()[:16]}"
        try:
            await self._client.create(EVENTS, self._event(occasion), lane=Lane.BACKGROUND)
        except AlreadyExists:
            pass  # an attempt before this one got through
        occasion.is_created = True

    def _event(self, occasion: _Occasion) -> dict[str, Any]:
        event = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": occasion.name, "namespace": occasion.regarding.namespace or "default"},
            "eventTime": format_precise_instant(occasion.first_at),
            "reportingController": self._settings.controller,
            "reportingInstance": self._instance,
            "action": occasion.action,
            "reason": occasion.reason,
            "regarding": msgspec.to_builtins(occasion.regarding),
            "note": occasion.note,
            "type": occasion.severity,
        }
        return event | ({"series": _series(occasion)} if occasion.count > 1 else {})


def _series(occasion: _Occasion) -> dict[str, Any]:
    return {"count": occasion.count, "lastObservedTime": format_precise_instant(occasion.last_at)}


def _cut(text: str, longest_bytes: int) -> str:
    encoded = text.encode(errors="replace")
    if len(encoded) <= longest_bytes:
        return encoded.decode()
    return encoded[: longest_bytes - 3].decode(errors="ignore") + "…"


def _keep(memory: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    """Remember an entry, and forget the oldest if there are too many."""
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > most:
        memory.popitem(last=False)
