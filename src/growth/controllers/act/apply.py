"""How each action is performed. A table with one row for each action: the function, the object it acts on, the rights
it needs, and whether it is slow.

Asked by the loop; decides nothing. The role that growth runs under is
generated from this table (`controllers/act/role.py`), so an action without its rights here cannot work anywhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from growth.controllers.act import nodes, pods
from growth.controllers.act.failures import outcome_of
from growth.controllers.act.nodes import Tools
from growth.kube.api.resources import (
    CAPACITY_BUFFERS,
    NODE_POOLS,
    NODE_REMOVAL_REQUESTS,
    NODE_REQUESTS,
    NODES,
    POD_TEMPLATES,
    PODS,
    POOL_AUTOSCALERS,
    Right,
)
from growth.model import action as act
from growth.model.action import Action
from growth.model.outcome import Outcome, TryLater
from growth.model.warmpool import KNOWN_KINDS, REPLICA_SET


class Effect(Struct, frozen=True):
    """How one kind of action is performed."""

    perform: Callable[[Tools, Any], Awaitable[Outcome]]
    subject: str  # the action's field that names the object acted on; "" where there is none yet
    rights: tuple[Right, ...] = ()
    is_slow: bool = False  # speaks to the provider, or binds many pods: runs beside the loop
    feature: str = ""  # only done, and so only allowed, where this is turned on


_PATCH_NODE: Final = (Right(NODES, ("patch",)),)
_WRITE_POD_STATUS: Final = (Right(PODS, ("patch",), "status"),)
_BIND: Final = Right(PODS, ("create",), "binding")
_LIST_PODS: Final = Right(PODS, ("list",))
_RELEASE_REQUEST: Final = Right(NODE_REQUESTS, ("get", "delete", "patch"))
_RELEASE_REMOVAL: Final = Right(NODE_REMOVAL_REQUESTS, ("get", "delete", "patch"))
_DEMAND_IS_REAL: Final = tuple(Right(resource, ("get",)) for resource in (PODS, NODES))
_BUFFER_IS_REAL: Final = Right(CAPACITY_BUFFERS, ("get",))  # looked at before room is bought for it

BUFFERS: Final = "buffers"
WARM_POOLS: Final = "warm pools"
SCHEDULER: Final = "scheduler"

EFFECTS: Final[Mapping[type[Any], Effect]] = {
    act.CreateNodeRequest: Effect(
        nodes.create_node_request, "", (Right(NODE_REQUESTS, ("create", "get")), *_DEMAND_IS_REAL)
    ),
    act.WriteNodeRequestStatus: Effect(
        nodes.write_node_request_status,
        "request",
        (Right(NODE_REQUESTS, ("patch",), "status"), Right(NODES, ("get",))),
    ),
    act.ReleaseNodeRequest: Effect(nodes.release_node_request, "request", (_RELEASE_REQUEST,)),
    act.LaunchMachine: Effect(nodes.launch_machine, "request", (Right(NODE_REQUESTS, ("get",)),), is_slow=True),
    act.RegisterNode: Effect(nodes.register_node, "node", _PATCH_NODE),
    act.FillNode: Effect(pods.fill_node, "node", (_BIND, Right(NODES, ("get",)), _LIST_PODS), is_slow=True),
    act.BindPods: Effect(
        pods.bind_pods,
        "",
        (_BIND, Right(NODES, ("get",)), _LIST_PODS, *_WRITE_POD_STATUS, *pods.VOLUME_RIGHTS),
        is_slow=True,
        feature=SCHEDULER,
    ),
    act.WritePodsUnscheduled: Effect(
        pods.write_pods_unscheduled, "", _WRITE_POD_STATUS, is_slow=True, feature=SCHEDULER
    ),
    act.NominatePod: Effect(pods.nominate_pod, "pod", _WRITE_POD_STATUS),
    act.ReadyNode: Effect(nodes.ready_node, "node", _PATCH_NODE),
    act.MarkScaleDown: Effect(nodes.mark_scale_down, "node", _PATCH_NODE),
    act.UnmarkScaleDown: Effect(nodes.unmark_scale_down, "node", _PATCH_NODE),
    act.CreateNodeRemovalRequest: Effect(
        nodes.create_node_removal_request, "node", (Right(NODE_REMOVAL_REQUESTS, ("create", "get")),)
    ),
    act.WriteNodeRemovalStatus: Effect(
        nodes.write_node_removal_status, "removal", (Right(NODE_REMOVAL_REQUESTS, ("patch",), "status"),)
    ),
    act.EvictPod: Effect(pods.evict_pod, "pod", (Right(PODS, ("create",), "eviction"),)),
    act.DeleteMachine: Effect(
        nodes.delete_machine, "removal", (Right(NODE_REMOVAL_REQUESTS, ("get",)), _LIST_PODS), is_slow=True
    ),
    act.FinishRemoval: Effect(
        nodes.finish_removal, "removal", (Right(NODES, ("delete",)), _RELEASE_REMOVAL), is_slow=True
    ),
    act.CancelRemoval: Effect(nodes.cancel_removal, "removal", (_RELEASE_REMOVAL,)),
    act.WriteNodePoolStatus: Effect(nodes.write_node_pool_status, "pool", (Right(NODE_POOLS, ("patch",), "status"),)),
    act.HoldNodePool: Effect(nodes.hold_node_pool, "pool", (Right(NODE_POOLS, ("get", "patch")),)),
    act.ScaleWarmPool: Effect(
        pods.scale_warm_pool,
        "target",
        (*pods.scale_rights((*KNOWN_KINDS, REPLICA_SET)), Right(PODS, ("list",))),
        feature=WARM_POOLS,
    ),
    act.WritePoolAutoscalerStatus: Effect(
        pods.write_pool_autoscaler_status,
        "autoscaler",
        (Right(POOL_AUTOSCALERS, ("patch",), "status"),),
        feature=WARM_POOLS,
    ),
    act.WriteBufferStatus: Effect(
        pods.write_buffer_status,
        "buffer",
        (Right(CAPACITY_BUFFERS, ("patch",), "status"), _BUFFER_IS_REAL),
        feature=BUFFERS,
    ),
    act.WritePodTemplate: Effect(
        pods.write_pod_template, "buffer", (Right(POD_TEMPLATES, ("create", "get", "update")),), feature=BUFFERS
    ),
}


def is_slow(action: Action) -> bool:
    return EFFECTS[type(action)].is_slow


def object_of(action: Action) -> str:
    """What it acts on. Actions on one object keep their order, and only one slow action on it runs at a time."""
    field = EFFECTS[type(action)].subject
    if not field:
        return f"new/{id(action)}"
    subject: act.Seen = getattr(action, field)
    return f"{subject.namespace}/{subject.name}"


class Applier:
    """Performs actions. With `only_observes` it performs none, and says so."""

    def __init__(self, tools: Tools, *, only_observes: bool = False) -> None:
        self.tools = tools
        self.only_observes = only_observes

    async def perform(self, action: Action) -> Outcome:
        if self.only_observes:
            return TryLater("growth only observes", retry_after_seconds=60.0)
        with self.tools.metrics.time_action(type(action).__name__) as record:
            record.outcome = await outcome_of(EFFECTS[type(action)].perform(self.tools, action))
            return record.outcome
