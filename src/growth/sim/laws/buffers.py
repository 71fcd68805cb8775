"""How much of the room that CapacityBuffers declare is missing on a pool's nodes? Asked by `sim/laws/settled`.

Counted from stored objects alone, by plain arithmetic: so many chunks of a Deployment's pods fit into what each node
has left. That is exact while all buffers of a pool have the same chunk and nothing but requests decides, which
scenarios see to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from growth.model.node import POOL_LABEL, Node
from growth.model.resources import PODS, Resources, sum_resources
from growth.sim.apiserver.kinds import BY_NAME, NODE
from growth.sim.laws.witness import Witness

BUFFER: Final = BY_NAME["CapacityBuffer"]
DEPLOYMENT: Final = BY_NAME["Deployment"]
_ONE_POD: Final = Resources({PODS: 1})


def missing_chunks(witness: Witness, pool: str, without: str = "") -> int:
    """Chunks that find no room on the pool's nodes, or on those beside one of them; negative: so many more would find
    some. 0 if none are declared.
    """
    declared = list(_declared(witness, pool))
    if not declared:
        return 0
    stored = [item["metadata"]["name"] for item in witness.cluster.store.read_all(NODE)]
    nodes = [
        node
        for name in stored
        if name != without and (node := witness.node(name)) is not None and node.pool == pool and not node.taints
    ]
    return sum(count for _, count in declared) - sum(_times(declared[0][0], free_on(witness, node)) for node in nodes)


def has_buffers(witness: Witness, pool: str) -> bool:
    return any(_declared(witness, pool))


def _declared(witness: Witness, pool: str) -> Iterator[tuple[Resources, int]]:
    """What a chunk needs, and how many are wanted."""
    for buffer in witness.cluster.store.read_all(BUFFER):
        workload = witness.cluster.store.read(
            DEPLOYMENT, buffer["spec"]["scalableRef"]["name"], buffer["metadata"]["namespace"]
        )
        spec = {} if workload is None else workload["spec"]["template"]["spec"]
        if (spec.get("nodeSelector") or {}).get(POOL_LABEL) == pool:
            yield Resources.parse(spec["containers"][0]["resources"]["requests"]) + _ONE_POD, buffer["spec"]["replicas"]


def free_on(witness: Witness, node: Node) -> Resources:
    """What the pods bound to a node leave of it."""
    pods = [pod for pod in witness.bound.get(node.name, {}).values() if not pod.is_finished]
    return node.allocatable - sum_resources([pod.shape.requests + _ONE_POD for pod in pods])


def _times(chunk: Resources, free: Resources) -> int:
    return max(0, min(free[name] // amount for name, amount in chunk.items()))
