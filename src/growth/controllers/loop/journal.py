"""Tells people why: every note becomes a log line, an event on its object, and a count.

Written by the loop. A note that says nothing new is not written again. The latest notes on each object are kept for a
day after the last one: objects come and go, and memory must not grow with them.

    a Warning on a pod that nobody owns ............... an event on the pod
    the same Warning on pods of one owner ............. an event on each of the first 100, and from the second on one on
                                                        the owner, with their count
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

import structlog
from msgspec.structs import replace

from growth.controllers.loop.metrics import Metrics
from growth.kube.api.events import Recorder, Regarding
from growth.kube.api.resources import (
    CAPACITY_BUFFERS,
    LEASES,
    NODE_POOLS,
    NODE_REMOVAL_REQUESTS,
    NODE_REQUESTS,
    NODES,
    PODS,
    POOL_AUTOSCALERS,
)
from growth.model.decision import About, Note
from growth.model.pod import Owner
from growth.plan.nodes_down.consolidation import STAYING
from growth.plan.nodes_down.scale_down import NEEDED_BY_BUFFER

_DEEDS: Final = ("ScaleUp", "BufferScaleUp")  # each is a purchase, however much it is like the last one
_FINDINGS: Final = (
    STAYING,
    "RoomExists",
    "ScaleBlocked",
)  # like Warnings, they announce nothing
_WOULD: Final = "would happen, but growth only observes: "
_OBJECTS_KEPT: Final = 50_000
_KEPT_SECONDS: Final = 86_400.0
_TOLD_SINGLY: Final = 100
_OF_PODS: Final = "of its pods: "
_REASONS_KEPT: Final = 20  # for each object, the latest

# kinds that get events
_TOLD_ON: Final = (
    PODS,
    NODES,
    NODE_POOLS,
    NODE_REQUESTS,
    NODE_REMOVAL_REQUESTS,
    CAPACITY_BUFFERS,
    POOL_AUTOSCALERS,
    LEASES,
)
_API_VERSIONS: Final = {resource.kind: resource.api_version for resource in _TOLD_ON}

log = structlog.get_logger("growth")


Key = TypeVar("Key")
Value = TypeVar("Value")


class _Recent(Generic[Key, Value]):
    """What was kept within the last day, the latest last, and not too many."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[Key, tuple[float, Value]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key, otherwise: Value) -> Value:
        found = self._kept.get(key)
        return otherwise if found is None else found[1]

    def keep(self, key: Key, value: Value) -> None:
        now = self._clock()
        self._kept[key] = (now, value)
        self._kept.move_to_end(key)
        while len(self._kept) > _OBJECTS_KEPT or now - next(iter(self._kept.values()))[0] > _KEPT_SECONDS:
            self._kept.popitem(last=False)

    def latest(self, count: int) -> list[Value]:
        """The newest first."""
        return [value for _, value in list(self._kept.values())[-count:][::-1]]


class Journal:
    """The last word on each object, by reason."""

    def __init__(
        self,
        events: Recorder,
        metrics: Metrics,
        clock: Callable[[], float],
        owner_of: Callable[[About], Owner | None] = lambda _pod: None,
        *,
        only_observes: bool = False,
    ) -> None:
        self._only_observes = only_observes
        self._events = events
        self._metrics = metrics
        self._owner_of = owner_of
        self._equal = _Recent[tuple[Owner, str, str], int](clock)  # pods that were told the same
        self._said = _Recent[About, dict[str, Note]](clock)
        self.listeners: list[Callable[[Note, bool], None]] = []  # hear every note, and whether it says something new

    def record(self, notes: Iterable[Note]) -> None:
        for note in map(self._as_is, notes):
            fields = dict(note.fields)
            if note.reason == STAYING and "checkType" in fields:  # counted at each look at the node, said or not
                self._metrics.safety_failures.labels(fields["checkType"], fields.get("nodepool", "")).inc()
            is_told = self._is_new(note) or note.reason in _DEEDS
            for hear in self.listeners:
                hear(note, is_told)
            if is_told:
                self._tell(note)

    def _as_is(self, note: Note) -> Note:
        """What is announced does not happen where growth only observes."""
        if not self._only_observes or note.severity == "Warning" or note.reason in _FINDINGS:
            return note
        return replace(note, message=f"{_WOULD}{note.message}")

    def about(self, about: About) -> tuple[Note, ...]:
        """What was last said about an object, oldest first."""
        return tuple(self._said.get(about, {}).values())

    def latest(self, count: int) -> tuple[Note, ...]:
        """The objects spoken of last, newest first."""
        return tuple(note for said in self._said.latest(count) for note in reversed(said.values()))[:count]

    def _is_new(self, note: Note) -> bool:
        said = self._said.get(note.about, {})
        known = said.pop(note.reason, None)
        said[note.reason] = note
        if len(said) > _REASONS_KEPT:
            del said[next(iter(said))]
        self._said.keep(note.about, said)
        return known is None or known.message != note.message

    def _tell(self, note: Note) -> None:
        self._metrics.notes.labels(note.reason, note.severity).inc()
        if note.reason == NEEDED_BY_BUFFER:
            self._metrics.buffer_blocked.inc()
        level = log.warning if note.severity == "Warning" else log.info
        level(note.message, about=str(note.about), reason=note.reason, **dict(note.fields))
        about, version = note.about, _API_VERSIONS.get(note.about.kind)
        if version is not None and self._tell_owner(note) <= _TOLD_SINGLY:
            regarding = Regarding(version, about.kind, about.name, about.namespace, about.uid or about.name)
            self._events.record(regarding, note.severity, note.reason, note.message)

    def _tell_owner(self, note: Note) -> int:
        """How many pods of the same owner were told the same by now, this one among them; the owner hears it too."""
        is_shared = note.about.kind == PODS.kind and note.severity == "Warning"
        owner = self._owner_of(note.about) if is_shared else None
        if owner is None:
            return 0
        key = (owner, note.reason, note.message)
        count = self._equal.get(key, 0) + 1
        self._equal.keep(key, count)
        if count > 1:
            regarding = Regarding(owner.api_version, owner.kind, owner.name, note.about.namespace, owner.uid)
            more = 2 if count == 2 else 1  # the first one was not counted while it was alone
            self._events.record(regarding, "Warning", note.reason, f"{_OF_PODS}{note.message}", count=more)
        return count


def be_quiet() -> None:
    """Log nothing: for commands whose output says it all, and for worlds with a log line every virtual second."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
