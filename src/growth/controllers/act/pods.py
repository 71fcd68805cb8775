"""The ways in which growth's own scheduler acts on many pods at once. Called through the table in
`controllers/act/apply.py`.

A bounded number of requests is under way at a time. One that fails stops no other; the first failure is handed back
when all are done."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from growth.controllers.act.nodes import Hands
from growth.kube.api.errors import Conflict, KubeError, Status
from growth.kube.api.resources import PODS
from growth.model import action as act
from growth.model.instant import format_instant
from growth.model.outcome import Accepted, Outcome

Item = TypeVar("Item")


async def bind_pods(hands: Hands, action: act.BindPods) -> Outcome:
    """The API server binds to nodes that do not exist: whether a node is still there is looked up at the last moment."""

    async def bind(one: act.Assignment) -> None:
        pod = one.pod
        if not hands.caches.has_node(one.node_name):
            raise Conflict(Status(code=409, reason="NodeGone", message=f"node {one.node_name} is gone"))
        await hands.client.bind(pod.name, pod.namespace, one.node_name, uid=pod.uid)
        hands.caches.bound(f"{pod.namespace}/{pod.name}", pod.uid, one.node_name)

    return await _each(hands, action.assignments, action.at_once, bind)


async def write_pods_unscheduled(hands: Hands, action: act.WritePodsUnscheduled) -> Outcome:
    async def write(one: act.Unscheduled) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": one.reason,
            "message": one.message,
            "lastTransitionTime": format_instant(one.since),
        }
        patch = {"metadata": {"uid": one.pod.uid}, "status": {"conditions": [condition]}}
        hands.caches.learned(
            PODS, await hands.client.strategic_patch(PODS, one.pod.name, patch, one.pod.namespace, "status")
        )

    return await _each(hands, action.pods, action.at_once, write)


async def _each(
    hands: Hands, items: Iterable[Item], at_once: int, perform: Callable[[Item], Awaitable[None]]
) -> Outcome:
    waiting, failures = deque(items), list[KubeError]()

    async def work() -> None:
        while waiting:
            try:
                await perform(waiting.popleft())
            except KubeError as error:
                failures.append(error)

    for worker in [hands.runtime.spawn("pods", work()) for _ in range(min(at_once, len(waiting)))]:
        await worker
    if failures:
        raise failures[0]
    return Accepted()
