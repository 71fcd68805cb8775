"""Bugs planted in what growth writes, says and knows: objects of others, words for people, caches, leadership, the
scheduler's work, buffers and warm pools.

Rows of the table in `tests/sim/mutants.py`; each function wraps growth for one simulation only, and its docstring says
what is wrong."""

from __future__ import annotations

import math
from typing import Any

from msgspec.structs import replace

from growth.controllers.growth import Growth
from growth.kube.api.resources import NODE_POOLS, PODS
from growth.model.action import FillNode, ReadyNode, ScaleWarmPool, WriteNodePoolStatus
from growth.model.decision import Note
from growth.model.outcome import Accepted
from growth.plan.buffers.giving_way import BEFORE_NOBODY
from growth.plan.warm_pools.size import Clamped
from growth.plan.world.turn import seen
from tests.sim.planting import acting, now, open_gate, replaced, rows_with


def drops_foreign_taints() -> Any:
    """A node's taints are written without those of others."""

    async def write_own(hands: Any, node: Any, metadata: Any, taints: Any) -> Any:
        return await write(
            hands, node, metadata, tuple(taint for taint in taints if taint.key.startswith("growth.dev/"))
        )

    write = now("write_taints")
    return replaced(write_taints=write_own)


def restless() -> Any:
    """The status of pools is written every half minute, although nothing has changed."""
    written: dict[str, int] = {}

    def plan_restlessly(plan: Any, snapshot: Any, ledger: Any, settings: Any) -> Any:
        decision, half_minute = plan(snapshot, ledger, settings), int(snapshot.now) // 30
        due = [pool for name, pool in snapshot.pools.items() if written.get(name) != half_minute]
        written.update(dict.fromkeys(snapshot.pools, half_minute))
        again = () if decision.actions else tuple(WriteNodePoolStatus(seen(pool), pool.status) for pool in due)
        return replace(decision, actions=(*decision.actions, *again), again_at=snapshot.now + 30)

    return replaced(rows=rows_with("pool status", plan_restlessly))


def keeps_startup_taint() -> Any:
    """The start-up taint is said to be off, and is not."""

    async def say_so(_tools: Any, _action: Any) -> Any:
        return Accepted()

    return replaced(effects=acting(ReadyNode, say_so))


def beyond_its_bounds() -> Any:
    """A warm pool is scaled as its policy wants, whatever its bounds are."""
    return replaced(clamped=lambda _spec, replicas: Clamped(replicas))


def no_fence() -> Any:
    """A growth that does not lead acts all the same."""

    def without_fence(self: Growth, *arguments: Any) -> None:
        make(self, *arguments[:4])

    make = now("make_growth")
    return replaced(make_growth=without_fence)


def writes_labels_of_others() -> Any:
    """A node gets a label that is none of growth's."""

    async def write_more(hands: Any, node: Any, metadata: Any, taints: Any) -> Any:
        labels = {**(metadata.get("labels") or {}), "example.com/team": "growth"}
        return await write(hands, node, {**metadata, "labels": labels}, taints)

    write = now("write_taints")
    return replaced(write_taints=write_more)


def says_nothing() -> Any:
    """Pods that find no place are not told why."""
    return replaced(notes=lambda *_: ())


def labels_pods() -> Any:
    """A pod that growth binds gets a label of growth."""

    async def bind_and_label(tools: Any, action: Any) -> Any:
        outcome = await bind(tools, action)
        patch = {"metadata": {"labels": {"growth.dev/bound": "true"}}}
        for pod in action.pods:
            await tools.client.merge_patch(PODS, pod.name, patch, pod.namespace)
        return outcome

    bind = now("effects")[FillNode].perform
    return replaced(effects=acting(FillNode, bind_and_label))


def writes_specs_of_pools() -> Any:
    """With the status of a pool its spec is written."""

    async def write_both(tools: Any, action: Any) -> Any:
        await tools.client.merge_patch(NODE_POOLS, action.pool.name, {"spec": {"consolidation": "Full"}})
        return await write(tools, action)

    write = now("effects")[WriteNodePoolStatus].perform
    return replaced(effects=acting(WriteNodePoolStatus, write_both))


# ----------------------------------------------------------------------------------- words and waits


def tells_a_wrong_constraint() -> Any:
    """Whatever keeps a pod from its place, it is told that the machines are too small."""
    return _telling("9 of 9 offerings: insufficient memory (needs 1Gi, has 0)")


def tells_a_wrong_limit() -> Any:
    """Whatever keeps a pod from its place, it is told of a limit."""
    return _telling("9 of 9 offerings: limit reached: limits of the settings: at most 500 nodes")


def tells_no_constraint() -> Any:
    """A pod without a place is told that it has none, and nothing else."""
    return _telling("no place was found")


def _telling(words: str) -> Any:
    def notes_with(*arguments: Any) -> tuple[Note, ...]:
        message = f"no place for this pod: {words}"
        return tuple(
            replace(note, message=message) if note.reason == "Unplaced" else note for note in notes(*arguments)
        )

    notes = now("notes")
    return replaced(notes=notes_with)


def waits_for_more() -> Any:
    """Arriving pods are collected for ten minutes before anything is bought."""

    def ten_minutes(batch: Any, *_: Any) -> Any:
        return None if batch is None else batch.began_at + 600.0

    return replaced(batch_closes_at=ten_minutes)


def never_tries_again() -> Any:
    """A pod that found no place once is not tried again, whatever can be had."""
    return replaced(wait_is_over=lambda *_: False)


# ------------------------------------------------------------------------------ caches and leadership


def stale_is_fresh() -> Any:
    """Caches count as fresh however old they are."""
    return replaced(stale=lambda *_: "")


def follows_once() -> Any:
    """A watch that ended is not opened again."""

    async def end(self: Any, *_: Any) -> None:
        await self._runtime.sleep(1e9)

    return replaced(recover=end)


def no_term_of_office() -> Any:
    """Whoever contends for the lease takes it, whoever holds it."""
    return replaced(lease_is_free=lambda *_: True)


def a_row_fails() -> Any:
    """A task of growth ends with an error as soon as a node starts."""

    async def fail(self: Any) -> Any:
        self._runtime.spawn("broken", _break())
        return await refresh(self)

    refresh = now("refresh")
    return replaced(refresh=fail)


async def _break() -> None:
    raise ZeroDivisionError


# ------------------------------------------------------------------- binding, buffers and warm pools


def bind_gate_is_open() -> Any:
    """Nobody looks at a node before a pod is bound to it."""
    return replaced(gate_bind=open_gate)


def own_scheduler_does_not_look() -> Any:
    """growth's own scheduler believes its watch, and looks at no node before it binds pods to it."""
    return replaced(gate_bind_among=open_gate)


def buys_nothing_for_buffers() -> Any:
    """Declared spare room is never bought."""
    return replaced(buffer_demands=lambda *_: ())


def buffers_give_way_to_nobody() -> Any:
    """Idle nodes that only a buffer holds stay, though a pod waits for what they take of the limits."""
    return replaced(left_to_pods=lambda *_: BEFORE_NOBODY)


def scales_in_steps() -> Any:
    """A warm pool is brought to its size by several writes, one at once after the other."""

    async def in_steps(tools: Any, action: Any) -> Any:
        middle = (action.before + action.replicas) // 2
        target = replace(action.target, resource_version="")
        if middle not in (action.before, action.replicas):
            await scale(tools, replace(action, replicas=middle))
        return await scale(tools, replace(action, target=target))

    scale = now("effects")[ScaleWarmPool].perform
    return replaced(effects=acting(ScaleWarmPool, in_steps))


def scales_without_pause() -> Any:
    """A warm pool is written whenever it should have another size."""
    return replaced(scale_next_at=property(lambda _self: -math.inf))


def never_scales() -> Any:
    """A warm pool keeps the size that it has."""

    def as_it_is(_marks: Any, *, replicas: int, **_: Any) -> int:
        return replicas

    return replaced(recommend=as_it_is)


def takes_replicas_in_use() -> Any:
    """A warm pool is made smaller whoever is at work in it."""
    return replaced(sparing_used=lambda scaling, _counts: scaling)


def binds_before_volumes() -> Any:
    """Growth's scheduler binds pods at once, whether or not their volumes are there."""
    return replaced(volume_wait=lambda *_: None)


def forgets_who_waits_longest() -> Any:
    """Growth's scheduler places pods with rules about other pods first, however long the others have waited."""
    return replaced(overtaken=lambda *_: None)
