"""What a plan can ask for: a closed union of imperatives. `controllers/act/apply` performs them, by a table with one
row for each.

Actions carry the UID and resourceVersion of what was seen, so that a write on changed ground fails as a Conflict.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from growth.model.capacitybuffer import CapacityBufferStatus
from growth.model.node import Taint
from growth.model.nodepool import NodePoolStatus
from growth.model.noderequest import (
    NodeRemovalRequestSpec,
    NodeRemovalRequestStatus,
    NodeRequestSpec,
    NodeRequestStatus,
)
from growth.model.poolautoscaler import PodSelector, PoolAutoscalerStatus
from growth.model.warmpool import WarmPoolKind


class Seen(Struct, frozen=True, gc=False):
    """Which version of which object the decision was made on."""

    name: str
    uid: str = ""
    resource_version: str = ""
    namespace: str = ""


class CreateNodeRequest(Struct, frozen=True, tag=True):
    """Write ahead: with a finalizer and the pool as owner, before any provider call. The shell completes the name."""

    pool: Seen
    spec: NodeRequestSpec


class WriteNodeRequestStatus(Struct, frozen=True, tag=True):
    request: Seen
    status: NodeRequestStatus


class ReleaseNodeRequest(Struct, frozen=True, tag=True):
    """The record has done its work: drop our finalizer and delete it. The machine is not touched."""

    request: Seen


class LaunchMachine(Struct, frozen=True, tag=True):
    """Buy: idempotent by the request's name; a name that is taken is adopted only if its labels match."""

    request: Seen
    spec: NodeRequestSpec
    labels: tuple[tuple[str, str], ...] = ()  # of the node it becomes
    annotations: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()  # the start-up taint among them
    settings: str = ""  # name of the pool's provider settings


class RegisterNode(Struct, frozen=True, tag=True):
    """Labels, annotations and taints of the pool onto a node that has joined."""

    node: Seen
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] | None = None  # the whole list, as it shall be; None: as it is


class FillNode(Struct, frozen=True, tag=True):
    """Realise a plan on one node behind our start-up taint, beside the loop: bind these pods, each after a live look.
    The outcome tells of each pod that was not bound.
    """

    node: Seen
    pods: tuple[Seen, ...]
    beside: tuple[
        str, ...
    ] = ()  # UIDs of the pods that were counted on the node: there already, or planned onto it as well


class VolumeAsk(Struct, frozen=True, gc=False):
    """A claim whose volume is wanted on the node of its pod: a free one is reserved, or its provisioner makes one."""

    claim: Seen
    volume: str = ""  # empty: the provisioner is asked


class VolumeWait(Struct, frozen=True):
    """What a pod needs before it can be bound to its node. It is nominated to the node, its condition says what it
    waits for, and volumes are asked for.
    """

    since: float
    message: str
    asks: tuple[VolumeAsk, ...] = ()  # none: they are asked for already, or others of its gang have volumes


class Assignment(Struct, frozen=True, gc=False):
    """One pod and its node; with `wait` it is not bound yet."""

    pod: Seen
    node_name: str
    wait: VolumeWait | None = None


class BindPods(Struct, frozen=True, tag=True):
    """The same for many pods, beside the loop: so many at a time, each on its own. The first failure is the outcome; a
    pod that is not bound still waits.
    """

    assignments: tuple[Assignment, ...]
    at_once: int = 32
    beside: Mapping[str, tuple[str, ...]] = {}  # by node: UIDs of the other pods that were counted there


class Unscheduled(Struct, frozen=True, gc=False):
    """One pod that found no node: what its condition PodScheduled says."""

    pod: Seen
    since: float
    message: str
    reason: str = "Unschedulable"
    is_withdrawn: bool = False  # from the node that it is nominated to


class WritePodsUnscheduled(Struct, frozen=True, tag=True):
    """PodScheduled=False for many pods, beside the loop, as kube-scheduler writes it."""

    pods: tuple[Unscheduled, ...]
    at_once: int = 32


class NominatePod(Struct, frozen=True, tag=True):
    """Hold room for a pod that growth must not bind; an empty node withdraws the nomination."""

    pod: Seen
    node_name: str = ""


class ReadyNode(Struct, frozen=True, tag=True):
    """Take the start-up taint off: the node serves."""

    node: Seen
    taints: tuple[Taint, ...] = ()  # those that stay


class MarkScaleDown(Struct, frozen=True, tag=True):
    """Taint the node and say when it goes."""

    node: Seen
    taints: tuple[Taint, ...]
    scale_down_at: float


class UnmarkScaleDown(Struct, frozen=True, tag=True):
    """Keep the node after all: taint and annotation off, the other taints untouched."""

    node: Seen
    taints: tuple[Taint, ...]


class CreateNodeRemovalRequest(Struct, frozen=True, tag=True):
    node: Seen
    spec: NodeRemovalRequestSpec


class WriteNodeRemovalStatus(Struct, frozen=True, tag=True):
    removal: Seen
    status: NodeRemovalRequestStatus


class EvictPod(Struct, frozen=True, tag=True):
    """Through the Eviction API only, so a PodDisruptionBudget can refuse."""

    pod: Seen


class DeleteMachine(Struct, frozen=True, tag=True):
    """Give back: by recorded id, after a live re-read of node, pods and machine labels."""

    removal: Seen
    node_name: str
    machine_id: str
    request_uid: str = ""


class FinishRemoval(Struct, frozen=True, tag=True):
    """The machine is positively gone: the Node object and the NodeRemovalRequest go. Without an id the provider is
    asked by the node's name, and by the id that the Node itself names.
    """

    removal: Seen
    node_name: str
    machine_id: str = ""
    node_uid: str = ""  # of the Node that was seen; empty: none was, and none is deleted


class CancelRemoval(Struct, frozen=True, tag=True):
    """Pods came back before anything irreversible happened: the NodeRemovalRequest goes, the node stays."""

    removal: Seen


class WriteNodePoolStatus(Struct, frozen=True, tag=True):
    pool: Seen
    status: NodePoolStatus


class HoldNodePool(Struct, frozen=True, tag=True):
    """Our finalizer onto a pool (or off it, when its nodes are gone)."""

    pool: Seen
    holds: bool = True


class Sparing(Struct, frozen=True):
    """What a scale-down must leave alone: pods that are in use by their labels. Of these the decision knew."""

    labels: PodSelector
    owners: tuple[str, ...]  # UIDs of what the pool's pods belong to
    known: tuple[str, ...]  # UIDs of pods in use


class ScaleWarmPool(Struct, frozen=True, tag=True):
    """Set the replicas of an autoscaler's target, by its scale subresource and only on the version that was seen. Fewer
    only if no pod has been taken into use that the decision did not know of.
    """

    target: Seen
    kind: WarmPoolKind
    autoscaler: str  # namespace/name of the one that asks
    replicas: int
    before: int
    sparing: Sparing | None = None


class WritePoolAutoscalerStatus(Struct, frozen=True, tag=True):
    autoscaler: Seen
    status: PoolAutoscalerStatus


class WriteBufferStatus(Struct, frozen=True, tag=True):
    buffer: Seen
    status: CapacityBufferStatus


class WritePodTemplate(Struct, frozen=True, tag=True):
    """The template of a buffer's chunks as a PodTemplate that the buffer owns; one of another's is never touched."""

    buffer: Seen
    name: str
    text: str  # JSON of the template
    digest: str


Action = (
    CreateNodeRequest
    | WriteNodeRequestStatus
    | ReleaseNodeRequest
    | LaunchMachine
    | RegisterNode
    | FillNode
    | BindPods
    | WritePodsUnscheduled
    | NominatePod
    | ReadyNode
    | MarkScaleDown
    | UnmarkScaleDown
    | CreateNodeRemovalRequest
    | WriteNodeRemovalStatus
    | EvictPod
    | DeleteMachine
    | FinishRemoval
    | CancelRemoval
    | WriteNodePoolStatus
    | HoldNodePool
    | ScaleWarmPool
    | WritePoolAutoscalerStatus
    | WriteBufferStatus
    | WritePodTemplate
)
