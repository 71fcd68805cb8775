"""NodeRequest and NodeRemovalRequest: the written-ahead record of every machine bought and every node given back.

`PHASES` says what each phase means and `TRANSITIONS` which arrows lead from one to the next; `docs/reference/phases.md`
is made from them. A phase is written by `plan/world/turn` only, which refuses every other arrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from growth.model.api import Condition, Instant, LifeEvent, Name, QuantityText, Sentence, Word

PENDING: Final = "Pending"
PROVISIONING: Final = "Provisioning"
READY: Final = "Ready"
UNMET: Final = "Unmet"
DEPROVISIONING: Final = "Deprovisioning"
COULD_NOT_REMOVE: Final = "CouldNotRemove"
REMOVAL_FAILED: Final = "RemovalFailed"

RequestPhase = Literal["Pending", "Provisioning", "Ready", "Unmet", "Deprovisioning"]
RemovalPhase = Literal["Pending", "Deprovisioning", "CouldNotRemove", "RemovalFailed"]

PHASES: Final[Mapping[str, Mapping[str, str]]] = {
    "NodeRequest": {
        PENDING: "written; no machine was asked for yet, or the answer was lost",
        PROVISIONING: "the provider accepted; waiting for a Ready node",
        READY: "the node serves; the record goes after `readyRecordSeconds`",
        UNMET: "the offering cannot be had and is struck out until `expiresAt`",
        DEPROVISIONING: "the node never became Ready: its machine is handed to a NodeRemovalRequest; "
        "then the record tells of the failure until `expiresAt`, and until its pool's status does. Or it was withdrawn "
        "before it had a machine, and waits ten minutes for one that an order without an answer may bring",
    },
    "NodeRemovalRequest": {
        PENDING: "decided, nothing irreversible done",
        DEPROVISIONING: "the provider was asked to delete the machine, or is about to be",
        COULD_NOT_REMOVE: "the provider refused the last attempt; tried again after `removalRetrySeconds`",
        REMOVAL_FAILED: "all attempts are spent; a person must look",
    },
}


class Transition(Struct, frozen=True):
    """An arrow from one phase to the next, and when it is taken."""

    before: str
    after: str
    when: str


TRANSITIONS: Final[Mapping[str, tuple[Transition, ...]]] = {
    "NodeRequest": (
        Transition(PENDING, PROVISIONING, "the provider accepted the launch, or its list shows the machine already"),
        Transition(
            PENDING,
            UNMET,
            "the provider has no capacity, or refuses; the offering is left alone until `expiresAt`, "
            "twice as long each time it repeats",
        ),
        Transition(
            PENDING, DEPROVISIONING, "nobody needs it any more, and an order may have been made that was not answered"
        ),
        Transition(UNMET, PROVISIONING, "an order without an answer brought a machine late, and it is still needed"),
        Transition(PROVISIONING, READY, "the node joined, is Ready and has its labels"),
        Transition(PROVISIONING, DEPROVISIONING, "the node did not come up in time"),
    ),
    "NodeRemovalRequest": (
        Transition(PENDING, DEPROVISIONING, "the node is empty: written before the provider is asked"),
        Transition(
            PENDING,
            REMOVAL_FAILED,
            "its machine is there, but no longer carries growth's label at the provider; or a person wrote into its "
            "status that all attempts are spent",
        ),
        Transition(
            DEPROVISIONING, DEPROVISIONING, "the provider did not answer in time: asked again, one attempt more"
        ),
        Transition(DEPROVISIONING, PENDING, "surely nothing was done, now or ever: the attempt does not count"),
        Transition(DEPROVISIONING, COULD_NOT_REMOVE, "the provider refused, or surely did nothing this time"),
        Transition(DEPROVISIONING, REMOVAL_FAILED, "the last attempt was refused, or not answered"),
        Transition(COULD_NOT_REMOVE, DEPROVISIONING, "`removalRetrySeconds` are over: the next attempt"),
        Transition(COULD_NOT_REMOVE, REMOVAL_FAILED, "no attempt is left"),
    ),
}
_ARROWS: Final = frozenset((kind, each.before, each.after) for kind, some in TRANSITIONS.items() for each in some)


class TransitionError(ValueError):
    """No arrow leads from the phase of the object to the phase that was to be written."""


def check_transition(kind: str, before: str, after: str) -> None:
    if (kind, before, after) not in _ARROWS:
        raise TransitionError(f"a {kind} does not go from {before} to {after}")


ACCEPTED: Final = "nodeRequested"
UNANSWERED: Final = "nodeRequestUnanswered"
WITHDRAWN: Final = "nodeRequestWithdrawn"
IN_FLIGHT: Final = (PENDING, PROVISIONING)
EVENTS_KEPT: Final = 20

Events = Annotated[
    tuple[LifeEvent, ...],
    Meta(max_length=EVENTS_KEPT, description="What happened, the newest last; older ones are dropped."),
]
Conditions = Annotated[tuple[Condition, ...], Meta(max_length=20, description="How single aspects stand.")]
QuantityTexts = Annotated[dict[Annotated[str, Meta(max_length=317)], QuantityText], Meta(max_length=50)]
ReplacedNodes = Annotated[tuple[Annotated[str, Meta(max_length=253)], ...], Meta(max_length=100)]
PlannedPods = Annotated[tuple[Annotated[str, Meta(max_length=317)], ...], Meta(max_length=1000)]


class NodeRequestSpec(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What was ordered, and for whom: the assignment survives a restart."""

    pool: Annotated[Name, Meta(description="The NodePool it is bought for.")]
    target_offering: Annotated[
        str, Meta(min_length=1, max_length=63, description="What is bought: the provider and the server type.")
    ]
    location: Annotated[str, Meta(max_length=63, description="Where it is bought.")] = ""
    resources: Annotated[QuantityTexts, Meta(description="What pods may use of it, as it was planned.")] = {}
    planned_pods: Annotated[PlannedPods, Meta(description="namespace/name of the pods this node is bought for.")] = ()
    reason: Annotated[
        Word,
        Meta(description="Demand, Minimum, Buffer, Replacement (to save money) or Renewal (of old or changed nodes)."),
    ] = "Demand"
    replaces: Annotated[
        ReplacedNodes,
        Meta(description="The nodes that go once this one, and all that replace the same nodes, are Ready."),
    ] = ()
    gap: Annotated[
        Sentence,
        Meta(description="How far all that was bought at once is above the cheapest possible, at most, if known."),
    ] = ""


class NodeRequestStatus(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How far it has come. Written by growth."""

    phase: Annotated[RequestPhase, Meta(description="Pending, Provisioning, then Ready, Unmet or Deprovisioning.")] = (
        "Pending"
    )
    node_id: Annotated[str, Meta(max_length=253, description="Name of the prospective node.")] = field(
        default="", name="nodeID"
    )
    machine_id: Annotated[str, Meta(max_length=253, description="The machine's id at the provider.")] = field(
        default="", name="machineID"
    )
    events: Events = ()
    conditions: Conditions = ()
    last_transition_time: Annotated[Instant | None, Meta(description="When the phase last changed.")] = None
    expires_at: Annotated[
        Instant | None,
        Meta(
            description=(
                "When this record goes; of an Unmet one, until when its offering is struck out, after which it may "
                "stay as a memory."
            )
        ),
    ] = None
    added_pods: Annotated[
        PlannedPods, Meta(description="namespace/name of pods planned onto this node after it was ordered.")
    ] = ()


class NodeRequest(Struct, frozen=True):
    """One request, read from the API."""

    name: str
    spec: NodeRequestSpec
    status: NodeRequestStatus = NodeRequestStatus()
    uid: str = ""
    resource_version: str = ""
    finalizers: tuple[str, ...] = ()
    created_at: float = 0.0
    deleted_at: float | None = None
    changed_at: float = 0.0  # status.lastTransitionTime, or creation

    @property
    def phase(self) -> RequestPhase:
        return self.status.phase

    @property
    def planned_pods(self) -> tuple[str, ...]:
        """The pods this node is meant for: those it was ordered for, and those planned onto it later."""
        return self.spec.planned_pods + self.status.added_pods

    @property
    def unanswered(self) -> tuple[LifeEvent, ...]:
        """Its orders of which nobody knows what came of them."""
        return tuple(event for event in self.status.events if event.name == UNANSWERED)

    @property
    def is_in_flight(self) -> bool:
        return self.status.phase in IN_FLIGHT and self.deleted_at is None

    @property
    def is_handed_over(self) -> bool:
        """A NodeRemovalRequest has taken the machine over: the record only tells of the failure, until its time is
        over.
        """
        return self.status.phase == DEPROVISIONING and bool(self.status.expires_at)

    @property
    def is_withdrawn(self) -> bool:
        """Before it had a machine; one may still come."""
        return self.status.phase == DEPROVISIONING and any(each.name == WITHDRAWN for each in self.status.events)


class NodeRemovalRequestSpec(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which node goes, and why."""

    node_name: Annotated[str, Meta(min_length=1, max_length=253, description="The node that goes.")]
    pool: Annotated[Name, Meta(description="Its NodePool.")]
    offering: Annotated[str, Meta(max_length=63, description="What it was bought as.")] = ""
    machine_id: Annotated[str, Meta(max_length=253, description="The machine's id at the provider.")] = field(
        default="", name="machineID"
    )
    reason: Annotated[Sentence, Meta(description="Why it goes, for people.")] = ""


class ToleratingPods(Struct, frozen=True, rename="camel"):
    """Pods of one owner that tolerate the mark, and so come back to the node after an eviction."""

    owner: Annotated[str, Meta(max_length=400, description="Kind, namespace and name of what makes them anew.")]
    pods: Annotated[
        tuple[Annotated[str, Meta(max_length=63)], ...],
        Meta(max_length=1000, description="UIDs of those that were on the node: each is evicted once."),
    ] = ()


class NodeRemovalRequestStatus(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How far it has come. Written by growth."""

    phase: Annotated[
        RemovalPhase,
        Meta(description="Pending, Deprovisioning, CouldNotRemove (tried again later) or RemovalFailed (final)."),
    ] = "Pending"
    removal_attempt: Annotated[int, Meta(ge=0, le=1000, description="How often the provider was asked.")] = 0
    remove_attempted_at: Annotated[Instant | None, Meta(description="When the provider was last asked.")] = None
    waiting_for: Annotated[Sentence, Meta(description="What keeps it from going on.")] = ""
    events: Events = ()
    conditions: Conditions = ()
    drain_began_at: Annotated[Instant | None, Meta(description="When the pods of the node began to leave.")] = None
    tolerating: Annotated[
        tuple[ToleratingPods, ...],
        Meta(max_length=1000, description="Pods that tolerate the mark, as they were when the drain began."),
    ] = ()


class NodeRemovalRequest(Struct, frozen=True):
    """One removal, named after its node."""

    name: str
    spec: NodeRemovalRequestSpec
    status: NodeRemovalRequestStatus = NodeRemovalRequestStatus()
    uid: str = ""
    resource_version: str = ""
    finalizers: tuple[str, ...] = ()
    created_at: float = 0.0
    deleted_at: float | None = None
    attempted_at: float | None = None  # status.removeAttemptedAt

    @property
    def phase(self) -> RemovalPhase:
        return self.status.phase


# ------------------------------------------------------- events that name classes of pods, as checksums

CLASSES: Final = "; classes "
_MOST_CLASSES: Final = 5


def with_classes(text: str, classes: Iterable[str]) -> str:
    """The reason of an event, from which `classes_in` reads them again."""
    return f"{text}{CLASSES}{' '.join(sorted(classes)[:_MOST_CLASSES])}"


def classes_in(text: str) -> tuple[str, ...]:
    return tuple(text.rpartition(CLASSES)[2].split()[:_MOST_CLASSES])


def classes_of(request: NodeRequest) -> tuple[str, ...]:
    """Of the pods it was bought for, as written when it became Ready."""
    ready = next((each.reason for each in reversed(request.status.events) if each.name == "nodeReady"), "")
    return classes_in(ready) if CLASSES in ready else ()
