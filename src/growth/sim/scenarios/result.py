"""What came of a scenario? The result in numbers, and whether it is as expected.

Made by `measure` while the scenario runs; printed by `growth simulate`. Keys of `expect` are its fields, joined by
dots: `machines.bought`, `waitingSeconds.p95`, `events.Unplaced`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from growth.sim.scenarios.file import Bound


class Figures(Struct, frozen=True, rename="camel", kw_only=True):
    """A group of numbers."""


class Cost(Figures, frozen=True, kw_only=True):
    """Money, in the currency of the catalogue."""

    total: Annotated[float, Meta(description="What all machines cost, by the catalogue's billing.")] = 0.0
    per_hour_at_end: float = 0.0
    bound_at_end: Annotated[
        float, Meta(description="No set of machines for the pods that exist at the end costs less.")
    ] = 0.0
    billing: str = "seconds"


class Machines(Figures, frozen=True, kw_only=True):
    """What was bought, and what became of it."""

    bought: int = 0
    given_back: int = 0
    at_end: int = 0
    never_ready: Annotated[int, Meta(description="Their node never became Ready.")] = 0
    in_vain: Annotated[int, Meta(description="None of the pods it was bought for ever ran there.")] = 0
    most: Annotated[int, Meta(description="At one time.")] = 0
    leaked: Annotated[int, Meta(description="Nothing in the cluster speaks of it any more.")] = 0
    twice: Annotated[
        int, Meta(description="NodeRequests with more than one machine; what the provider made late is not counted.")
    ] = 0
    foreign: Annotated[int, Meta(description="Those of others, at the end.")] = 0


class Nodes(Figures, frozen=True, kw_only=True):
    """Node objects at the end."""

    at_end: int = 0
    ready: int = 0
    by_offering: Mapping[str, int] = {}


class Pods(Figures, frozen=True, kw_only=True):
    """Pods over the whole time, and at the end."""

    made: Annotated[int, Meta(description="All pods but those of DaemonSets.")] = 0
    running: int = 0
    pending: Annotated[int, Meta(description="Without a node at the end.")] = 0
    evicted: Annotated[int, Meta(description="Their end was asked for by growth.")] = 0
    most_evicted_of_one_owner: int = 0
    returned: Annotated[int, Meta(description="Came back to the node they were evicted from.")] = 0
    killed: Annotated[int, Meta(description="Died with their machine, without an eviction.")] = 0


class WaitingSeconds(Figures, frozen=True, kw_only=True):
    """From a pod's creation until it is bound, or until now."""

    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    max: float = 0.0


class Requests(Figures, frozen=True, kw_only=True):
    """What growth asked of others."""

    writes: Annotated[int, Meta(description="Of growth at the API server, without events and leases.")] = 0
    refused: Annotated[int, Meta(description="Writes that were answered with an error, counted likewise.")] = 0
    provider: Annotated[int, Meta(description="Orders and deletions that the provider was asked for.")] = 0


class Claims(Figures, frozen=True, kw_only=True):
    """Members of warm pools that the steps asked for."""

    wanted: int = 0
    missed: Annotated[int, Meta(description="No member was running and idle.")] = 0


class Result(Figures, frozen=True, kw_only=True):
    """One run of one scenario."""

    scenario: str
    seed: int
    virtual_seconds: float
    settled: Annotated[bool, Meta(description="Nothing on its way, and no write in the last five minutes.")] = False
    cost: Cost = Cost()
    machines: Machines = Machines()
    nodes: Nodes = Nodes()
    pods: Pods = Pods()
    waiting_seconds: WaitingSeconds = WaitingSeconds()
    requests: Requests = Requests()
    claims: Claims = Claims()
    targets: Annotated[Mapping[str, int], Meta(description="Replicas of each workload at the end.")] = {}
    events: Annotated[Mapping[str, int], Meta(description="How often each reason was told.")] = {}
    conditions: Annotated[Mapping[str, Mapping[str, str]], Meta(description="Their status, by object and type.")] = {}
    reasons: Annotated[Mapping[str, Mapping[str, str]], Meta(description="Of conditions, by object and type.")] = {}
    laws_broken: Annotated[tuple[str, ...], Meta(description="What must never happen, and did.")] = ()


def why_not_key(key: str) -> str | None:
    """Does every result have this key? Keys of events, conditions and targets are whatever comes."""
    kind: Any = Result
    for index, part in enumerate(key.split(".")):
        if _is_mapping(kind):
            return None
        names = _fields(kind)
        if part not in names:
            given = ".".join(key.split(".")[:index])
            known = ", ".join(sorted(names)) or "nothing more"
            return f"no result has {key}; {f'{given} has' if given else 'it has'} {known}"
        kind = names[part]
    return None if not _fields(kind) else f"{key} is a group of numbers: add one of {', '.join(sorted(_fields(kind)))}"


def _is_mapping(kind: Any) -> bool:
    return get_origin(kind) is not None and issubclass(get_origin(kind), Mapping)


def _fields(kind: Any) -> dict[str, Any]:
    if not (isinstance(kind, type) and issubclass(kind, Struct)):
        return {}
    hints = get_type_hints(kind)
    return {each.encode_name: hints[each.name] for each in msgspec.structs.fields(kind)}


def value_of(result: Result, key: str) -> Any:
    """The value of a key; what was not counted is 0, a condition that is not there is empty."""
    found: Any = msgspec.to_builtins(result)
    parts = key.split(".")
    while parts:
        if not isinstance(found, dict):
            return None
        longest = next(
            (".".join(parts[:size]) for size in range(len(parts), 0, -1) if ".".join(parts[:size]) in found), ""
        )
        if not longest:
            return "" if key.startswith(("conditions.", "reasons.")) else 0
        found = found[longest]
        parts = parts[len(longest.split(".")) :]
    return len(found) if isinstance(found, list) else found


def broken_expectations(result: Result, expect: Mapping[str, Bound | float | int | str | bool]) -> Iterator[str]:
    """A sentence for each key that is not as expected."""
    for key, wanted in expect.items():
        found = value_of(result, key)
        if isinstance(wanted, Bound):
            if wanted.max is not None and found > wanted.max:
                yield f"{key} is {found:g}, expected at most {wanted.max:g}"
            if wanted.min is not None and found < wanted.min:
                yield f"{key} is {found:g}, expected at least {wanted.min:g}"
        elif found != wanted and not (
            isinstance(found, float) and isinstance(wanted, int | float) and abs(found - wanted) < 1e-9
        ):
            yield f"{key} is {found!r}, expected {wanted!r}"
