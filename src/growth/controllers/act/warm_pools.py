"""The ways in which warm pools are scaled and told about. Called through the table in `controllers/act/apply.py`."""

from __future__ import annotations

from typing import Final

from growth.controllers.act.nodes import Hands, write_status
from growth.controllers.act.rights import Right
from growth.kube.api.errors import KubeError
from growth.kube.api.resources import POOL_AUTOSCALERS
from growth.kube.cache.warm_pools import resource_of
from growth.kube.codec.warm_pools import read_scale
from growth.model import action as act
from growth.model.outcome import Accepted, Outcome
from growth.model.warmpool import KNOWN_KINDS, REPLICA_SET, WarmPoolKind


def scale_rights(kinds: tuple[WarmPoolKind, ...]) -> tuple[Right, ...]:
    """What scaling these kinds needs: to follow them, and to patch their scale."""
    rights: list[Right] = []
    for kind in kinds:
        resource = resource_of(kind)
        rights.append(Right(resource, ("get", "patch") if kind.reads_scale else ("patch",), "scale"))
        if not kind.reads_scale:
            rights.append(Right(resource, ("list", "watch")))
    return tuple(rights)


SCALE_RIGHTS: Final = scale_rights((*KNOWN_KINDS, REPLICA_SET))
STATUS_RIGHTS: Final = (Right(POOL_AUTOSCALERS, ("list", "watch")), Right(POOL_AUTOSCALERS, ("patch",), "status"))


async def scale_warm_pool(hands: Hands, action: act.ScaleWarmPool) -> Outcome:
    """One write, on the version that was seen; the count is known here at once."""
    began_at, target = hands.runtime.monotonic(), action.target
    direction = "scale_up" if action.replicas > action.before else "scale_down"
    try:
        answer = await hands.client.set_scale(
            resource_of(action.kind), target.name, target.namespace, action.replicas, target.resource_version
        )
    except KubeError:
        hands.metrics.reconciled(direction, "internal", hands.runtime.monotonic() - began_at)
        raise
    hands.metrics.reconciled(direction, "none", hands.runtime.monotonic() - began_at)
    hands.caches.scaled(action.kind, f"{target.namespace}/{target.name}", target.uid, read_scale(answer).replicas)
    return Accepted()


async def write_pool_autoscaler_status(hands: Hands, action: act.WritePoolAutoscalerStatus) -> Outcome:
    return await write_status(hands, POOL_AUTOSCALERS, action.autoscaler, action.status)
