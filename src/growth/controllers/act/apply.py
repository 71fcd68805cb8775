"""How each action is performed. A table with one row for each action: the way, whether it is slow, and the rights it
needs.

Asked by the loop. Translates failures into Outcomes in one place; decides nothing. The role that growth runs under is
generated from this table (`controllers/act/role.py`), so an action without its rights here cannot work anywhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from growth.controllers.act import buffers, nodes, pods, warm_pools
from growth.controllers.act.nodes import Hands
from growth.controllers.act.rights import Right
from growth.kube.api import errors
from growth.kube.api.resources import (
    CAPACITY_BUFFERS,
    NODE_POOLS,
    NODE_REMOVAL_REQUESTS,
    NODE_REQUESTS,
    NODES,
    POD_TEMPLATES,
    PODS,
)
from growth.model import action as act
from growth.model.action import Action
from growth.model.outcome import Conflict, Outcome, Refused, TryLater, Unknown


class Way(Struct, frozen=True):
    """How one kind of action is performed."""

    perform: Callable[[Hands, Any], Awaitable[Outcome]]
    rights: tuple[Right, ...] = ()
    is_slow: bool = False  # speaks to the provider: runs beside the loop
    subject: str = "request"  # the field that names the object acted on; "" where there is none yet


_REQUEST_STATUS: Final = Right(NODE_REQUESTS, ("patch",), "status")
_REMOVAL_STATUS: Final = Right(NODE_REMOVAL_REQUESTS, ("patch",), "status")
_NODE_PATCH: Final = Right(NODES, ("patch",))

WAYS: Final[Mapping[type[Any], Way]] = {
    act.CreateNodeRequest: Way(
        nodes.create_node_request,
        (
            Right(NODE_REQUESTS, ("create", "get")),
            Right(PODS, ("get",)),
            Right(CAPACITY_BUFFERS, ("get",)),
            Right(NODES, ("get",)),
        ),
        subject="",
    ),
    act.WriteNodeRequestStatus: Way(nodes.write_node_request_status, (_REQUEST_STATUS,)),
    act.ReleaseNodeRequest: Way(nodes.release_node_request, (Right(NODE_REQUESTS, ("get", "delete", "patch")),)),
    act.LaunchMachine: Way(nodes.launch_machine, (Right(NODE_REQUESTS, ("get",)),), is_slow=True),
    act.RegisterNode: Way(nodes.register_node, (_NODE_PATCH,), subject="node"),
    act.BindPod: Way(
        nodes.bind_pod,
        (Right(PODS, ("create",), "binding"), Right(NODES, ("get",)), Right(PODS, ("list",))),
        subject="pod",
    ),
    act.BindPods: Way(pods.bind_pods, (Right(PODS, ("create",), "binding"),), is_slow=True, subject=""),
    act.WritePodsUnscheduled: Way(
        pods.write_pods_unscheduled, (Right(PODS, ("patch",), "status"),), is_slow=True, subject=""
    ),
    act.NominatePod: Way(nodes.nominate_pod, (Right(PODS, ("patch",), "status"),), subject="pod"),
    act.ReadyNode: Way(nodes.ready_node, (_NODE_PATCH,), subject="node"),
    act.MarkScaleDown: Way(nodes.mark_scale_down, (_NODE_PATCH,), subject="node"),
    act.UnmarkScaleDown: Way(nodes.unmark_scale_down, (_NODE_PATCH,), subject="node"),
    act.CreateNodeRemovalRequest: Way(
        nodes.create_node_removal_request, (Right(NODE_REMOVAL_REQUESTS, ("create", "get")),), subject="node"
    ),
    act.WriteNodeRemovalStatus: Way(nodes.write_node_removal_status, (_REMOVAL_STATUS,), subject="removal"),
    act.EvictPod: Way(nodes.evict_pod, (Right(PODS, ("create",), "eviction"),), subject="pod"),
    act.DeleteMachine: Way(
        nodes.delete_machine,
        (Right(NODE_REMOVAL_REQUESTS, ("get",)), Right(PODS, ("list",))),
        is_slow=True,
        subject="removal",
    ),
    act.FinishRemoval: Way(
        nodes.finish_removal,
        (Right(NODES, ("delete",)), Right(NODE_REMOVAL_REQUESTS, ("get", "delete", "patch"))),
        is_slow=True,
        subject="removal",
    ),
    act.CancelRemoval: Way(
        nodes.cancel_removal, (Right(NODE_REMOVAL_REQUESTS, ("get", "delete", "patch")),), subject="removal"
    ),
    act.WriteNodePoolStatus: Way(
        nodes.write_node_pool_status, (Right(NODE_POOLS, ("patch",), "status"),), subject="pool"
    ),
    act.HoldNodePool: Way(nodes.hold_node_pool, (Right(NODE_POOLS, ("get", "patch")),), subject="pool"),
    act.ScaleWarmPool: Way(warm_pools.scale_warm_pool, warm_pools.SCALE_RIGHTS, subject="target"),
    act.WritePoolAutoscalerStatus: Way(
        warm_pools.write_pool_autoscaler_status, warm_pools.STATUS_RIGHTS, subject="autoscaler"
    ),
    act.WriteBufferStatus: Way(
        buffers.write_buffer_status, (Right(CAPACITY_BUFFERS, ("patch",), "status"),), subject="buffer"
    ),
    act.WritePodTemplate: Way(
        buffers.write_pod_template, (Right(POD_TEMPLATES, ("create", "get", "update")),), subject="buffer"
    ),
}


def is_slow(action: Action) -> bool:
    return WAYS[type(action)].is_slow


def object_of(action: Action) -> str:
    """What the action is about: actions on one object keep their order, and only one slow action on it runs at a time."""
    field = WAYS[type(action)].subject
    if not field:
        return f"new/{id(action)}"
    subject: act.Seen = getattr(action, field)
    return f"{subject.namespace}/{subject.name}"


class Applier:
    """Performs actions. With `only_observes` it performs none, and says so."""

    def __init__(self, hands: Hands, *, only_observes: bool = False) -> None:
        self.hands = hands
        self.only_observes = only_observes

    async def perform(self, action: Action) -> Outcome:
        if self.only_observes:
            return TryLater("growth only observes", retry_after_seconds=60.0)
        name = type(action).__name__
        with self.hands.metrics.time_action(name) as record:
            record.outcome = await _outcome_of(WAYS[type(action)].perform(self.hands, action))
            return record.outcome


async def _outcome_of(performed: Awaitable[Outcome]) -> Outcome:
    """Every way to fail, as data."""
    try:
        return await performed
    except (errors.Conflict, errors.NotFound, errors.AlreadyExists) as error:
        return Conflict(str(error))
    except errors.TooManyRequests as error:
        return TryLater(str(error), retry_after_seconds=error.retry_after_seconds or 5.0)
    except (errors.NotLeader, errors.Unreachable, errors.ServerError, errors.Unauthorized) as error:
        return TryLater(str(error))  # unauthorized: the token was rotated, and is read anew
    except (errors.EffectUnknown, errors.UnreadableAnswer) as error:
        return Unknown(str(error))
    except errors.Refused as error:
        return Refused(str(error))
