"""The page docs/reference/events.md: every reason that growth gives in an event, on what, and what it means.

The sentences stand here; a test compares the reasons with those that the code gives.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Told(NamedTuple):
    on: str  # the kinds it is told on
    meaning: str
    is_warning: bool = False


PODS: Final = {
    "Planned": Told("Pod", "A machine was ordered for it, or it joins one that is on its way."),
    "Revived": Told("Pod", "A node that was about to go is kept for it."),
    "RoomExists": Told("Pod", "A node has room for it; nothing is bought, the scheduler decides."),
    "Unplaced": Told("Pod, CapacityBuffer", "No place was found; the message says why, offering by offering.", True),
    "BackOff": Told(
        "Pod", "No place was found several times; tried again from time to time, and when something changes.", True
    ),
    "NoPool": Told("Pod", "It names no NodePool, and there is none called `default`.", True),
    "MissingPool": Told("Pod", "It names a NodePool that does not exist.", True),
    "NamespaceNotAllowed": Told("Pod", "Its NodePool does not serve its namespace.", True),
    "BindRefused": Told("Pod", "The API server did not let growth bind it; the scheduler will.", True),
    "GangIncomplete": Told(
        "Pod", "A node waited for others of its gang for as long as `gangSeconds`, and opens.", True
    ),
    "Scheduled": Told("Pod", "growth's own scheduler bound it."),
    "FailedScheduling": Told(
        "Pod", "growth's own scheduler has no place for it; the reasons add up over all nodes.", True
    ),
    "WaitingForVolumes": Told("Pod", "It has its node; growth's own scheduler asked for volumes and binds it then."),
    "FailedBinding": Told("Pod", "growth's own scheduler could not bind it.", True),
    "ServesDefaultScheduler": Told(
        "Lease", "Nobody renews kube-scheduler's Lease: growth places the pods in its stead."
    ),
    "LeftToKubeScheduler": Told(
        "Lease", "kube-scheduler renews its Lease: the pods of default-scheduler are left to it.", True
    ),
    "Preempting": Told("Pod", "Less important pods make way for it; the message names them."),
    "Moved": Told("Pod", "It leaves its node by eviction: by growth's own scheduler another place costs less."),
    "Preempted": Told("Pod", "It makes way for a more important pod of growth's own scheduler.", True),
}

POOLS: Final = {
    "ScaleUp": Told(
        "NodePool", "Machines are ordered: which, for how many pods, at what price, how near to the least."
    ),
    "BufferScaleUp": Told("NodePool", "Machines are ordered for spare capacity."),
    "Replacing": Told("NodePool, Node", "Dear nodes become cheaper ones; the message says what that saves."),
    "ReplacementGivenUp": Told("NodePool", "Old nodes could not go, so a replacement was taken back; the pool rests."),
    "Failing": Told("NodePool", "Machines came in vain; the pool buys one at a time, or pauses.", True),
    "Braked": Told("NodePool", "Too many nodes stopped reporting: nothing is given up, and little is bought.", True),
    "BrakeReleased": Told("NodePool", "Nodes are given up as ever again."),
    "OrphanCollected": Told("NodePool", "A machine that never had a node is given back.", True),
    "OrphanedMachine": Told("NodePool", "A machine has neither a record nor a node; growth leaves it alone.", True),
    "MachineUnknown": Told("NodePool, Node", "The provider does not show the machine of a node as growth's.", True),
    "VerdictAwaited": Told(
        "NodePool", "A scheduler found room where growth saw none; for a day growth waits for its word.", True
    ),
    "OrderRefused": Told("NodePool", "The API server refused a NodeRequest; the pool rests for a minute.", True),
    "PlanWasWrong": Told("NodePool", "A plan broke a rule and was thrown away: please report it.", True),
}

REQUESTS: Final = {
    "Provisioning": Told("NodeRequest", "The provider took the order."),
    "Ready": Told("NodeRequest", "Its node serves."),
    "Unmet": Told("NodeRequest, NodePool, Pod", "The offering cannot be had now, and is left alone for a while.", True),
    "NoAnswer": Told("NodeRequest, NodePool, Pod", "An order has had no answer for half a minute.", True),
    "OrderHeld": Told(
        "NodeRequest, NodePool, Pod", "Not ordered for half a minute: growth does not know what there is.", True
    ),
    "NameTaken": Told("NodeRequest", "A machine or node of that name belongs to somebody else.", True),
    "OverLimit": Told("NodeRequest", "Not launched: a limit was lowered meanwhile.", True),
    "NotNeeded": Told("NodeRequest", "Not launched: its pods run, or others were ordered for them.", True),
    "NoFinalizer": Told(
        "NodeRequest", "Not launched: without growth's finalizer its machine could be forgotten.", True
    ),
    "NotReadyInTime": Told("NodeRequest", "The node did not become Ready in time; the machine is given back.", True),
    "NotUsed": Told("NodeRequest", "The node served, and none of the pods it was bought for came.", True),
}

NODES: Final = {
    "ScaleDown": Told("Node", "The node is marked: no new pods; it goes after a while if nothing needs it."),
    "ScaleDownCancelled": Told("Node", "The mark is taken off; the message says what needs the node."),
    "Staying": Told("Node", "Consolidation looked at it and leaves it; the message says why."),
    "NeededByBuffer": Told("Node", "It is idle, and kept for a CapacityBuffer."),
    "Renewing": Told("Node", "It is too old, changed or dead, and is replaced."),
    "Removing": Told("Node", "It is given back; the message says why."),
    "RemovalCancelled": Told("Node", "A removal was taken back before the provider was asked."),
    "RemovalRefused": Told("NodeRemovalRequest, Node", "A removal that somebody wrote is not carried out.", True),
    "CouldNotRemove": Told("NodeRemovalRequest", "The provider refused the deletion; tried again.", True),
    "RemovalFailed": Told("NodeRemovalRequest, Node", "The machine could not be deleted: somebody must look.", True),
    "PoolGone": Told("Node", "Its pool was deleted, and no machine of growth's is behind it; it is left alone.", True),
}

RESERVES: Final = {
    "AttributesSetSuccessfully": Told("CapacityBuffer", "Its size and its pods are known."),
    "ScalableRefNotFound": Told("CapacityBuffer", "The workload it names is not there.", True),
    "PodTemplateNotFound": Told("CapacityBuffer", "The PodTemplate it names is not there.", True),
    "ResolutionFailed": Told("CapacityBuffer", "What it refers to cannot be read.", True),
    "BufferEmpty": Told("CapacityBuffer", "It asks for nothing."),
    "CapacityProvisioned": Told("CapacityBuffer", "All of its room is there."),
    "RequiresNewCapacity": Told("CapacityBuffer", "Room is missing and is being bought."),
    "NotReadyForProvisioning": Told("CapacityBuffer", "Its size is not known, so nothing is bought."),
    "LimitedByPool": Told("CapacityBuffer", "Room is missing and nothing is bought; the message says why.", True),
    "LimitedByQuotas": Told("CapacityBuffer", "ResourceQuotas leave less than it asks for.", True),
    "PodTemplateTaken": Told("CapacityBuffer", "The PodTemplate of its name belongs to somebody else.", True),
    "WriteRefused": Told("CapacityBuffer", "The API server refused what growth wrote about it.", True),
    "RoomNotKnown": Told(
        "CapacityBuffer", "Its size is lost; nodes are kept for it for a quarter of an hour at most.", True
    ),
    "ScaledUp": Told("PoolAutoscaler", "Replicas were added; the message is the calculation."),
    "ScaledDown": Told("PoolAutoscaler", "Replicas were taken away; the message is the calculation."),
    "ScaleBlocked": Told("PoolAutoscaler", "Something is in the way of scaling; the message says what.", True),
    "FailedScale": Told("PoolAutoscaler", "A change of the replicas was refused or had no answer.", True),
    "FailedGetScale": Told("PoolAutoscaler", "The target cannot be read.", True),
    "UnknownTimeZone": Told("PoolAutoscaler", "A schedule names a time zone that is not known.", True),
}

GROWTH: Final = {
    "Malformed": Told("any", "The object cannot be read, and is left out; the message says where.", True),
    "CannotWatch": Told("any", "A kind cannot be followed; growth acts on what it last knew, or not at all.", True),
    "NoCapacityBuffers": Told("CustomResourceDefinition", "The kind CapacityBuffer is not installed.", True),
    "NoScaleOnBuffers": Told("CustomResourceDefinition", "CapacityBuffers cannot be scaled by PoolAutoscalers here."),
    "ForbiddenStep": Told("any", "growth was about to write a phase that may not follow: please report it.", True),
}

SECTIONS: Final = {
    "Pods": PODS,
    "NodePools": POOLS,
    "NodeRequests": REQUESTS,
    "Nodes and removals": NODES,
    "Buffers and warm pools": RESERVES,
    "growth itself": GROWTH,
}

INTRODUCTION = """# Events

What growth tells with `kubectl describe` and `kubectl get events`, by the reason of the event. The message has the \
details: names, numbers, and the very constraint.
With `--observe` it says what would happen. Warnings on many equal pods are told on the first hundred and once \
on their owner, with the count.
"""

CLOSING = """
This page is generated from the code: `python -m deploy.generate`. What to do about the most frequent ones: \
[troubleshooting](../guides/troubleshooting.md).
"""


def events_page() -> str:
    return INTRODUCTION + "".join(_section(title, rows) for title, rows in SECTIONS.items()) + CLOSING


def _section(title: str, rows: dict[str, Told]) -> str:
    lines = [
        f"| `{reason}` | {told.on} | {'Warning' if told.is_warning else 'Normal'} | {told.meaning} |"
        for reason, told in sorted(rows.items())
    ]
    return f"\n## {title}\n\n| reason | on | type | means |\n| --- | --- | --- | --- |\n" + "\n".join(lines) + "\n"
