"""Which virtual pods are there? Every buffer as one class of demand. Asked by scale-up, scale-down, the buffers' status
and explain.

Virtual pods are in memory only and come again each time somebody asks, so room that was used is wanted again. Plans see
a class and a count; only `virtual_pods` writes single pods out, with names that stay the same. They never have claims
or a node of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.capacitybuffer import (
    ACTIVE_CAPACITY,
    BUFFER_ANNOTATION,
    BUFFER_LABEL,
    BUFFER_NAMESPACE_ANNOTATION,
    BUFFER_NAMESPACE_LABEL,
    BufferWorld,
    CapacityBuffer,
)
from growth.model.labels import Labels
from growth.model.node import Node
from growth.model.nodepool import NodePool
from growth.model.offering import Offering
from growth.model.pod import Pod, PodShape
from growth.plan.buffers.size import BufferSize, Grant, Quotas, Sizing, size_buffer
from growth.plan.world.market import PoolReader

PLANNED_BUFFERS: Final = "growth.dev/planned-buffers"

_LONGEST_LABEL: Final = 63


class ServedBuffer(Struct, frozen=True):
    """One buffer that growth serves: how many virtual pods it has, and what they look like to the solver."""

    buffer: CapacityBuffer
    size: BufferSize  # before quotas
    granted: Grant
    shape: PodShape = PodShape()
    pools: tuple[str, ...] = ()
    problem: str = ""  # why no pool buys for it

    @property
    def key(self) -> str:
        return self.buffer.key

    @property
    def count(self) -> int:
        return self.granted.count


def served_buffers(
    world: BufferWorld, pools: Mapping[str, NodePool], offerings: tuple[Offering, ...], sizing: Sizing
) -> tuple[ServedBuffer, ...]:
    """All buffers with our strategy, the oldest first: it is the first to be granted quota. One that is being deleted
    holds nothing.
    """
    ours = [each for each in world.buffers.values() if each.strategy == ACTIVE_CAPACITY and each.deleted_at is None]
    quotas = Quotas(world.quotas)
    reader = PoolReader(pools, offerings)
    found = []
    for buffer in sorted(ours, key=lambda each: (each.created_at, each.key)):
        size = size_buffer(buffer, world, sizing)
        if size.template is None or not size.is_ready:
            found.append(ServedBuffer(buffer, size, Grant(0)))
            continue
        granted = quotas.grant(buffer.namespace, size.template, size.count)
        known = buffer.status.replicas or 0
        if world.unread_quotas and granted.count > known:
            granted = Grant(known, f"a ResourceQuota that could not be read ({world.unread_quotas})")
        match, shape = reader.read(virtual_shape(buffer, size.template.shape))
        found.append(ServedBuffer(buffer, size, granted, shape, match.names, match.message))
    return tuple(found)


def virtual_shape(buffer: CapacityBuffer, shape: PodShape) -> PodShape:
    """The template's own labels, and whose virtual pod it is; claims bind to one pod alone, so there are none."""
    marks = {BUFFER_LABEL: buffer.name[:_LONGEST_LABEL].rstrip("-."), BUFFER_NAMESPACE_LABEL: buffer.namespace}
    kept = tuple(use for use in shape.volumes if not use.claim or use.is_ephemeral)
    return replace(
        shape, namespace=buffer.namespace, labels=shape.labels.with_items(marks), volumes=kept, required_node=""
    )


def virtual_pods(served: ServedBuffer) -> Iterator[Pod]:
    """One by one, for people; their names never change while the buffer has at least that many."""
    marks = Labels({BUFFER_ANNOTATION: served.buffer.name, BUFFER_NAMESPACE_ANNOTATION: served.buffer.namespace})
    for number in range(served.count):
        name = f"capacitybuffer-{served.buffer.name}-{number}"
        uid = f"{served.buffer.uid}/{number}"
        yield Pod(name, served.shape, uid=uid, created_at=served.buffer.created_at, annotations=marks)


# ----------------------------------------------------------------------- as an order remembers them


def planned_entry(key: str, count: int) -> str:
    """How a NodeRequest names the virtual pods it was bought for: no pod's name has a star."""
    return f"{key}*{count}"


def planned_entries(planned: tuple[str, ...]) -> dict[str, int]:
    """Back again: buffers and counts among the pods that a request is for."""
    found = {}
    for entry in planned:
        key, star, count = entry.rpartition("*")
        if star and count.isdecimal():
            found[key] = int(count)
    return found


def planned_annotation(planned: tuple[str, ...]) -> dict[str, str]:
    """The same on the node itself, which outlives its order."""
    entries = [planned_entry(key, count) for key, count in planned_entries(planned).items()]
    return {PLANNED_BUFFERS: " ".join(entries)} if entries else {}


def planned_on(node: Node) -> dict[str, int]:
    """The virtual pods that a node was bought for."""
    return planned_entries(tuple(node.annotations.get(PLANNED_BUFFERS, "").split()))
