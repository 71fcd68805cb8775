"""How is a scenario written? The parts of the file, as classes: what there is, what happens, what goes wrong, and what
is expected.

Read by `reader`, which checks a file against them, and by `schema`, which tells editors and the reference.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from growth.sim.faults.duration import NOTHING, Duration
from growth.sim.faults.kinds import AnyFault

Json = dict[str, Any]
Count = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1, max_length=100)]


class Part(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A mapping of the file; a key that is not known is a mistake."""


class Target(Part, frozen=True, kw_only=True):
    """An object by kind and name."""

    kind: Name
    name: Name
    namespace: str = ""


class Scale(Target, frozen=True, kw_only=True):
    """A workload gets this many replicas."""

    replicas: Count


class Members(Target, frozen=True, kw_only=True):
    """Members of a warm pool are taken into use, or given back."""

    count: Count = 1


class ObjectChoice(Part, frozen=True, kw_only=True):
    """Objects of a kind: one by name, those with labels, or the first few."""

    kind: Name
    name: str = ""
    namespace: str = ""
    selector: dict[str, str] = {}
    first: Annotated[int, Meta(ge=1)] | None = None


class Patch(ObjectChoice, frozen=True, kw_only=True):
    """These objects are changed by a JSON merge patch."""

    merge: Json


VERBS = ("apply", "scale", "delete", "patch", "restart", "pause", "claim", "release", "renew")


class Step(Part, frozen=True, kw_only=True):
    """Something that happens at a time, or again and again."""

    at: Duration
    every: Annotated[Duration | None, Meta(description="Again and again, so far apart.")] = None
    until: Annotated[Duration | None, Meta(description="With `every`: the last time is before this.")] = None
    apply: Annotated[tuple[Json, ...], Meta(description="Manifests; `generateName` makes a new object each time.")] = ()
    scale: Scale | None = None
    delete: ObjectChoice | None = None
    patch: Patch | None = None
    restart: Annotated[Literal["growth"] | None, Meta(description="growth is killed, and comes back `after`.")] = None
    pause: Annotated[Literal["growth"] | None, Meta(description="growth stands still `for` a while.")] = None
    claim: Members | None = None
    release: Members | None = None
    renew: Annotated[
        Literal["credentials"] | None, Meta(description="What machines are bought and join with is exchanged.")
    ] = None
    after: Annotated[Duration, Meta(description="With `restart`: how long growth is away.")] = NOTHING
    lasts: Annotated[Duration, Meta(description="With `pause`: how long.")] = field(name="for", default=NOTHING)
    replica: Annotated[int, Meta(ge=0)] | None = None

    def __post_init__(self) -> None:
        given = [verb for verb in VERBS if getattr(self, verb)]
        if len(given) != 1:
            told = f"has {' and '.join(given)}" if given else "has none"
            raise ValueError(f"a step does exactly one of {', '.join(VERBS)}; this one {told}")
        if self.every is not None and self.every <= 0:
            raise ValueError("`every` must be longer than nothing")
        if self.until is not None and self.every is None:
            raise ValueError("`until` goes with `every`")

    @property
    def verb(self) -> str:
        return next(verb for verb in VERBS if getattr(self, verb))


class Trace(Part, frozen=True, kw_only=True):
    """Pods that come and go as a file says."""

    file: Name
    pool: Annotated[str, Meta(description="The NodePool that the pods ask for; empty: none.")] = ""
    time_unit: Literal["s", "ms", "m", "h"] = "s"
    priority_class: str = ""
    made_again: Annotated[
        bool,
        Meta(
            description="Pods that are evicted or lost are made again, as by a controller, and stay until their time;"
            " growth may move them. Otherwise they are pods without a controller, which nothing moves."
        ),
    ] = False


class StrangersMachine(Part, frozen=True, kw_only=True):
    """A machine in the same account at the provider that is not growth's, and is no node."""

    name: Name
    server_type: Name
    location: Name
    labels: Annotated[dict[str, str], Meta(description="Those it has at the provider.")] = {}


class Bound(Part, frozen=True, kw_only=True):
    """A value lies within these."""

    min: float | None = None
    max: float | None = None

    def __post_init__(self) -> None:
        if self.min is None and self.max is None:
            raise ValueError("give min, max or both")


class Scenario(Part, frozen=True, kw_only=True):
    """A world, what happens in it, what goes wrong, and what is expected of growth."""

    name: Name
    about: Annotated[str, Meta(description="What it shows, in a sentence.")] = ""
    duration: Duration
    seed: Annotated[int, Meta(description="Decides everything that is left to chance.")] = 0
    replicas: Annotated[int, Meta(ge=1, le=5, description="How many growths run; they elect a leader.")] = 1
    settings: Annotated[Json, Meta(description="As in a settings file of `growth run`.")] = {}
    provider: Annotated[
        Literal["sim", "hetzner-fake"],
        Meta(
            description="Where machines come from: a simple cloud, or growth's Hetzner provider on a fake of Hetzner's "
            "API, with its own catalogue."
        ),
    ] = "sim"
    catalogue: Annotated[str | Json | None, Meta(description="A file, or inline; absent: the built-in one.")] = None
    prices: Annotated[dict[str, float], Meta(description="Prices per hour for a catalogue without them.")] = {}
    machines: Annotated[
        tuple[StrangersMachine, ...], Meta(description="Machines of others, at the provider from the start.")
    ] = ()
    manifests: Annotated[tuple[str, ...], Meta(description="Files with objects, relative to this one.")] = ()
    objects: Annotated[tuple[Json, ...], Meta(description="Objects that are there at the start.")] = ()
    steps: tuple[Step, ...] = ()
    chapters: Annotated[
        dict[Name, Duration], Meta(description="Titles, and when each begins: `growth demo` can jump to them.")
    ] = {}
    trace: Trace | None = None
    faults: tuple[AnyFault, ...] = ()
    expect: Annotated[
        dict[str, Bound | float | int | str | bool],
        Meta(description="Keys of the result, each with its value or with min and max."),
    ] = {}
