"""What can go wrong in a scenario? One class for each fault: its name, its parameters, and what the world does.

Read by `reader` (a scenario file), `schema` (editors and the reference) and `world` (which makes it happen). The first
sentence of a class is the sentence of the reference. A fault lasts from `from` until `until` (absent: to the end).
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from growth.sim.faults.duration import NOTHING, Duration

Share = Annotated[float, Meta(ge=0.0, le=1.0, description="The chance of each one it can happen to.")]
Glob = Annotated[str, Meta(description="A name; `*` stands for any letters.")]
Verb = Literal["*", "get", "list", "watch", "create", "update", "patch", "delete"]


class Fault(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, tag_field="kind", kw_only=True):
    """Something that goes wrong for a while."""

    begins: Duration = field(name="from", default=NOTHING)
    until: Duration | None = None


class NeverBoots(Fault, frozen=True, tag="never-boots", kw_only=True):
    """Machines are sold and paid, and never come up."""

    share: Share = 1.0
    offering: Glob = "*"
    location: Glob = "*"


class NeverReady(Fault, frozen=True, tag="never-ready", kw_only=True):
    """Machines come up and join, and never become Ready."""

    share: Share = 1.0
    offering: Glob = "*"
    location: Glob = "*"


class SmallerThanSold(Fault, frozen=True, tag="smaller-than-sold", kw_only=True):
    """Machines have less to give than the catalogue says."""

    by: Annotated[float, Meta(gt=0.0, lt=1.0, description="The part that is missing.")]
    share: Share = 1.0
    offering: Glob = "*"
    location: Glob = "*"


class SoldOut(Fault, frozen=True, tag="sold-out", kw_only=True):
    """An order is answered: no capacity."""

    offering: Glob = "*"
    location: Glob = "*"


class LaunchError(Fault, frozen=True, tag="launch-error", kw_only=True):
    """An order is answered with an error; what was ordered comes all the same, or not."""

    status: Annotated[int, Meta(ge=400, le=599)] | Literal["timeout", "locked"] = 503
    effect: Annotated[bool, Meta(description="The machine is made although the answer is an error.")] = False
    share: Share = 1.0
    offering: Glob = "*"
    location: Glob = "*"


class DeleteRefused(Fault, frozen=True, tag="delete-refused", kw_only=True):
    """A deletion is refused: the machine is protected, or locked, and stays."""

    status: Literal["protected", "locked"] = "protected"
    share: Share = 1.0


class Quota(Fault, frozen=True, tag="quota", kw_only=True):
    """The account may have no more machines than this; an order beyond is refused."""

    machines: Annotated[int, Meta(ge=0)]


class LabelsLost(Fault, frozen=True, tag="labels-lost", kw_only=True):
    """Machines lose the labels by which growth finds its own at the provider; a person or a tool took them off."""

    share: Share = 1.0


class ListError(Fault, frozen=True, tag="list-error", kw_only=True):
    """The list of machines is answered with an error."""

    share: Share = 1.0


class ListEmpty(Fault, frozen=True, tag="list-empty", kw_only=True):
    """The list of machines is empty, though there are some."""

    share: Share = 1.0


class ListStale(Fault, frozen=True, tag="list-stale", kw_only=True):
    """The list of machines is the one of a while ago."""

    share: Share = 1.0


class ListGarbage(Fault, frozen=True, tag="list-garbage", kw_only=True):
    """The list of machines is no list: an answer that cannot be read."""

    share: Share = 1.0


class ListIncomplete(Fault, frozen=True, tag="list-incomplete", kw_only=True):
    """The list of machines lacks some of them."""

    share: Annotated[float, Meta(ge=0.0, le=1.0, description="The chance of each machine to be missing.")] = 0.5


class SlowProvider(Fault, frozen=True, tag="slow-provider", kw_only=True):
    """Answers of the provider come late."""

    seconds: Duration


class LateEffect(Fault, frozen=True, tag="late-effect", kw_only=True):
    """An order times out, and the machine appears later."""

    seconds: Duration
    share: Share = 1.0


class Vanish(Fault, frozen=True, tag="vanish", kw_only=True):
    """Machines are gone, without having been asked to."""

    share: Share = 1.0


class PoweredOff(Fault, frozen=True, tag="powered-off", kw_only=True):
    """Machines stop by themselves; the provider still lists them, as off."""

    share: Share = 1.0


class ApiError(Fault, frozen=True, tag="api-error", kw_only=True):
    """The API server answers requests of growth with this status, and does nothing."""

    status: Annotated[int, Meta(ge=400, le=599)]
    verb: Verb = "*"
    resource: Annotated[str, Meta(description="The plural, such as pods; `*` for all.")] = "*"
    subresource: Annotated[str, Meta(description="Such as scale, eviction, binding; `*` for all and none.")] = "*"
    retry_after_seconds: Annotated[int, Meta(ge=0)] | None = None
    share: Share = 1.0


class ApiDown(Fault, frozen=True, tag="api-down", kw_only=True):
    """The API server takes no connections."""

    seconds: Duration | None = None


class ApiSlow(Fault, frozen=True, tag="api-slow", kw_only=True):
    """Answers of the API server come late."""

    seconds: Duration
    verb: Verb = "*"
    resource: Annotated[str, Meta(description="The plural, such as pods; `*` for all.")] = "*"
    subresource: Annotated[str, Meta(description="Such as scale, eviction, binding; `*` for all and none.")] = "*"
    share: Share = 1.0


class WatchCut(Fault, frozen=True, tag="watch-cut", kw_only=True):
    """Watches break off, and can be opened again."""

    seconds: Annotated[Duration | None, Meta(description="Again and again, so far apart; absent: once.")] = None


class WatchSilent(Fault, frozen=True, tag="watch-silent", kw_only=True):
    """Watches stay open and say nothing any more."""

    seconds: Duration | None = None


class HistoryGone(Fault, frozen=True, tag="history-gone", kw_only=True):
    """The API server forgets its history: watches that go on from an older version are answered with 410."""

    seconds: Annotated[Duration | None, Meta(description="Again and again, so far apart; absent: once.")] = None


class NotReady(Fault, frozen=True, tag="not-ready", kw_only=True):
    """Nodes stop reporting, until the fault is over."""

    nodes: Annotated[int, Meta(ge=1)] | None = None
    share: Share | None = None


class Interruption(Fault, frozen=True, tag="interruption", kw_only=True):
    """Machines are announced to go, and go."""

    share: Share = 1.0
    notice_seconds: Annotated[float, Meta(ge=0)] = 120.0


class HistoryRestored(Fault, frozen=True, tag="history-restored", kw_only=True):
    """The API server's data are again what they were so long before: etcd was restored from a backup."""

    seconds: Duration


class ClockStep(Fault, frozen=True, tag="clock-step", kw_only=True):
    """The wall clock of growth is off by so much."""

    seconds: Annotated[Duration, Meta(description="May be negative.")]
    replica: Annotated[int, Meta(ge=0)] | None = None


class LeaseLost(Fault, frozen=True, tag="lease-lost", kw_only=True):
    """Renewals of the lease fail for the growth that leads when the fault begins."""

    seconds: Duration | None = None


class LeaseSlow(Fault, frozen=True, tag="lease-slow", kw_only=True):
    """Writes of the growth that leads when the fault begins take this long, its lease included."""

    seconds: Duration


class SolverHangs(Fault, frozen=True, tag="solver-hangs", kw_only=True):
    """The worker process that solves does not come back."""


AnyFault = (
    NeverBoots
    | NeverReady
    | SmallerThanSold
    | SoldOut
    | LaunchError
    | DeleteRefused
    | Quota
    | LabelsLost
    | ListError
    | ListEmpty
    | ListStale
    | ListGarbage
    | ListIncomplete
    | SlowProvider
    | LateEffect
    | Vanish
    | PoweredOff
    | ApiError
    | ApiDown
    | ApiSlow
    | WatchCut
    | WatchSilent
    | HistoryGone
    | NotReady
    | Interruption
    | HistoryRestored
    | ClockStep
    | LeaseLost
    | LeaseSlow
    | SolverHangs
)
