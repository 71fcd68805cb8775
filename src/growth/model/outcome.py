"""What came of an action. Handed from `apply` back to the plan that asked, which settles it.

| outcome | means | so |
| --- | --- | --- |
| Accepted | done, or surely under way; of an action on many objects, but for those that failed | go on |
| NoCapacity | the provider has none of it now | Unmet: strike the offering out for a while |
| Refused | positively not done, and asking again unchanged will not help | tell the user |
| Conflict | another writer was first, or the object is gone | look again, plan again |
| TryLater | positively not done; the other side is busy or limits us | again after `retry_after_seconds` |
| Unknown | no answer: it may or may not have happened | look before asking again |
"""

from __future__ import annotations

from msgspec import Struct


class NoCapacity(Struct, frozen=True, tag=True):
    reason: str


class Refused(Struct, frozen=True, tag=True):
    reason: str


class Conflict(Struct, frozen=True, tag=True):
    reason: str


class TryLater(Struct, frozen=True, tag=True):
    reason: str
    retry_after_seconds: float = 1.0
    was_asked: bool = False  # by a provider that was asked for a machine, not by a check of our own before that
    is_held: bool = False  # something holds this very machine (it is locked); the provider itself answers


class Unknown(Struct, frozen=True, tag=True):
    reason: str


Failure = NoCapacity | Refused | Conflict | TryLater | Unknown


class Accepted(Struct, frozen=True, tag=True):
    machine_id: str = ""
    resource_version: str = ""
    failed: tuple[tuple[str, Failure], ...] = ()  # the UIDs of objects that it was not done to, and why


Outcome = Accepted | Failure
