"""Is the room that CapacityBuffers declare there, and if not, do they say the true reason? The liveness laws of
buffers, asked by `sim/laws/settled` of stored objects, servers and the embedded scheduler alone.

How large a buffer shall be follows from its document by plain arithmetic; how many chunks have room is what the
scheduler would grant now, pod after pod. That is exact while all buffers of a pool have the same chunk, which
behaviours see to.

| chunks without room because | the condition says |
| --- | --- |
| no server type of the pool holds one | no server type … can hold a chunk |
| `max` and limits of the pool leave no machine that holds one | the limits … leave no room |
| no machine that may be bought would take one, by rules between pods | may run on no node that could be bought |
| a pod that exists waits for what the limits leave | a pod waits for what the limits … leave |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from growth.kube.codec import Codec
from growth.model.labels import HOSTNAME
from growth.model.node import POOL_LABEL, Node
from growth.model.offering import Offering
from growth.model.pod import Pod
from growth.model.resources import PODS, Resources, parse_amount, sum_resources
from growth.sim.apiserver.kinds import BY_NAME, NODE, POD, Json
from growth.sim.laws.witness import Witness
from growth.solver.rules import Neighbours

BUFFER, TEMPLATE, QUOTA = (BY_NAME[name] for name in ("CapacityBuffer", "PodTemplate", "ResourceQuota"))
WAITS: Final = "a pod waits for what the limits"
_TOO_SMALL: Final = "no server type"
_LIMITS: Final = "leave no room for one more node"
_RULES: Final = "may run on no node that could be bought"


class Declared(Struct, frozen=True):
    """One buffer as its document asks for it: its chunk as a pod, and how many a quota lets it have."""

    item: Json
    chunk: Pod
    count: int

    @property
    def name(self) -> str:
        return f"{self.item['metadata']['namespace']}/{self.item['metadata']['name']}"

    @property
    def pool(self) -> str:
        return _pool_of(self.chunk)

    def condition(self, kind: str) -> Json:
        conditions = (self.item.get("status") or {}).get("conditions") or []
        return next((each for each in conditions if each["type"] == kind), {})


# ------------------------------------------------------------------------------------------- the laws


def declared_room(witness: Witness) -> Iterator[str]:
    """Room that a buffer declares is free on nodes that serve, or its condition says the true reason why not."""
    found = declared(witness)
    for pool in dict.fromkeys(each.pool for each in found):
        buffers = [each for each in found if each.pool == pool]
        missing = missing_chunks(witness, buffers)
        for buffer in buffers:
            told = (buffer.item.get("status") or {}).get("replicas", 0)
            if told != buffer.count:
                yield f"buffer {buffer.name} says {told} replicas, its document asks for {buffer.count}"
            elif buffer.count:
                yield from _why_untrue(witness, buffer, missing)


def _why_untrue(witness: Witness, buffer: Declared, missing: int) -> Iterator[str]:
    condition = buffer.condition("Provisioning")
    reason, message = condition.get("reason", ""), condition.get("message", "")
    if missing <= 0:
        if reason != "CapacityProvisioned":
            yield f"there is room for all of buffer {buffer.name}, and it says {reason}: {message}"
        return
    causes = _causes(witness, buffer)
    if not causes:
        yield f"{missing} chunks of buffer {buffer.name} have no room and nothing stands against buying it: {message}"
    elif reason == "CapacityProvisioned" and _shares_pool(witness, buffer):
        return  # another buffer of the pool lacks the room
    elif reason != "LimitedByPool" or not any(words in message for words in causes):
        wrong = f"{missing} chunks of buffer {buffer.name} have no room since {' or '.join(causes)}"
        yield f"{wrong}; it says {reason}: {message}"


def pods_behind_buffers(witness: Witness) -> Iterator[str]:
    """No pod that exists waits while nodes that hold nothing but virtual pods use up the limits that it needs."""
    held = {each.pool for each in declared(witness)}
    for key, pod in witness.pods.items():
        pool = _pool_of(pod)
        if pod.node_name or pod.is_finished or pod.deleted_at is not None or pool not in held:
            continue
        idle = [name for name in _names_of(witness, pool) if not _works(witness, name)]
        if idle and _helps(witness, pod, 1, _buyable(witness, pool, idle), idle):
            yield f"pod {'/'.join(key)} waits, and would run if empty nodes of pool {pool} went ({', '.join(idle[:3])})"


def _shares_pool(witness: Witness, buffer: Declared) -> bool:
    return any(each.pool == buffer.pool and each.name != buffer.name for each in declared(witness))


# ------------------------------------------------------------------------------- how large, and where


def declared(witness: Witness) -> list[Declared]:
    """Every buffer whose pods are known, and its size by its document and its quota."""
    found = []
    for item in witness.cluster.store.read_all(BUFFER):
        namespace, spec = item["metadata"]["namespace"], item["spec"]
        replicas, template = _referred(witness, namespace, spec)
        if template is None:
            continue
        chunk = _pod_of(template, namespace)
        wanted = _size(spec, replicas, chunk.shape.requests)
        found.append(Declared(item, chunk, _granted(witness, namespace, wanted, chunk.shape.requests)))
    return found


def _referred(witness: Witness, namespace: str, spec: Json) -> tuple[int, Json | None]:
    store = witness.cluster.store
    if "podTemplateRef" in spec:
        stored = store.read(TEMPLATE, spec["podTemplateRef"]["name"], namespace)
        return 0, None if stored is None else stored["template"]
    reference = spec["scalableRef"]
    workload = store.read(BY_NAME[reference["kind"]], reference["name"], namespace)
    if workload is None:
        return 0, None
    replicas = workload["spec"].get("parallelism" if reference["kind"] == "Job" else "replicas", 1)
    return replicas, workload["spec"].get("template")


def _pod_of(template: Json, namespace: str) -> Pod:
    metadata = {"labels": {}, **(template.get("metadata") or {}), "name": "chunk", "namespace": namespace}
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    return Codec().decode_pod(msgspec.json.encode(whole))


def _size(spec: Json, workload: int, requests: Resources) -> int:
    """By the document: a percentage is rounded down, the smaller of both counts, limits cap it."""
    wanted = [spec["replicas"]] if "replicas" in spec else []
    wanted += [spec["percentage"] * workload // 100] if "percentage" in spec and "scalableRef" in spec else []
    for name, text in (spec.get("limits") or {}).items():
        asked = 1 if name == PODS else requests[name]
        wanted += [parse_amount(name, str(text)) // asked] if asked else []
    return min(wanted, default=0)


def _granted(witness: Witness, namespace: str, count: int, requests: Resources) -> int:
    for quota in witness.cluster.store.read_all(QUOTA, namespace):
        for name, text in quota["spec"]["hard"].items():
            asked = 1 if name == PODS else requests[name.removeprefix("requests.")]
            amount = parse_amount(name.removeprefix("requests."), str(text)) if name != PODS else int(text)
            count = min(count, amount // asked) if asked else count
    return count


def missing_chunks(witness: Witness, buffers: list[Declared], without: str = "") -> int:
    """Chunks of these buffers, all alike, that the scheduler would find no node for, or none beside that one."""
    cache, wanted = witness.cluster.scheduler.cache, sum(each.count for each in buffers)
    if not wanted:
        return 0
    return wanted - _granted_by(cache.index, buffers[0].chunk, wanted, {without})


def _granted_by(index: Neighbours, pod: Pod, most: int, without: Collection[str] = ()) -> int:
    """How many such pods the scheduler would bind, one after the other."""
    placed, pod_class = 0, index.class_of_pod(pod)
    closed = {index.table.index[name] for name in without if name in index.table.index}
    with index.trial():
        while placed < most:
            number = next((at for at, fits in enumerate(index.fits(pod_class)) if fits and at not in closed), None)
            if number is None:
                break
            index.add(pod_class, number)
            placed += 1
    return placed


# ------------------------------------------------------------------------------- what could be bought


def _causes(witness: Witness, buffer: Declared) -> list[str]:
    """The reasons that are true; none: a machine for it can be bought."""
    pool = buffer.pool
    if witness.cluster.store.read(BY_NAME["NodePool"], pool) is None:
        return ["NodePool"]
    waiting = [pod for pod in witness.pods.values() if pod.shape.node_selector.get(POOL_LABEL) == pool]
    if not _fitting(witness, pool, buffer.chunk):
        return [_TOO_SMALL]
    buyable = [each for each in _buyable(witness, pool) if buffer.chunk.shape.requests.fits_in(each.allocatable)]
    if not buyable:
        return [_LIMITS, *([WAITS] if any(not pod.node_name for pod in waiting) else [])]
    return [] if _helps(witness, buffer.chunk, buffer.count, buyable) else [_RULES]


def _fitting(witness: Witness, pool: str, pod: Pod) -> list[Offering]:
    """What the pool may hold, whatever its limits say, that is large enough for the pod."""
    return [each for each in _offerings(witness, pool) if pod.shape.requests.fits_in(each.allocatable)]


def _offerings(witness: Witness, pool: str) -> list[Offering]:
    stored = witness.cluster.store.read(BY_NAME["NodePool"], pool)
    names = {choice["name"].lower() for choice in stored["spec"]["serverTypes"]} if stored else set()
    return [each for each in witness.sold if each.server_type.lower() in names]


def _buyable(witness: Witness, pool: str, gone: Collection[str] = ()) -> list[Offering]:
    """What one more machine may be by `max` and limits, if those nodes were gone."""
    stored = witness.cluster.store.read(BY_NAME["NodePool"], pool)
    if stored is None:
        return []
    spec, servers = stored["spec"], [each for each in witness.servers_of(pool) if each.name not in gone]
    counts = Counter(each.server_type.lower().rpartition("-")[2] for each in servers)
    most = {choice["name"].lower(): choice.get("max", 1 << 30) for choice in spec["serverTypes"]}
    return [
        each
        for each in _offerings(witness, pool)
        if counts[each.server_type.lower()] < most[each.server_type.lower()]
        and _is_within(spec.get("limits") or {}, [*(one.allocatable for one in servers), each.allocatable])
    ]


def _is_within(limits: Json, machines: list[Resources]) -> bool:
    """By nodes, cores and memory; behaviours with buffers limit nothing else."""
    amounts = sum_resources(machines)
    return all(
        (len(machines) if name == "nodes" else amounts[name])
        <= (int(text) if name == "nodes" else parse_amount(name, text))
        for name, text in limits.items()
    )


def _helps(witness: Witness, pod: Pod, wanted: int, offerings: list[Offering], gone: Collection[str] = ()) -> bool:
    """Would a new node of one of these let more such pods be bound than without it, by every rule?"""
    codec, store, pool = Codec(), witness.cluster.store, _pool_of(pod)
    nodes = [codec.decode_node(stored.data) for stored in store.all(NODE) if stored.name not in gone]
    bound = [codec.decode_pod(stored.data) for stored in store.all(POD)]
    standing = [each for each in bound if each.node_name and not each.is_finished]
    before = _granted_by(Neighbours(nodes, standing), pod, wanted)
    for each in offerings:
        labels = each.labels.with_items({POOL_LABEL: pool, HOSTNAME: "new"})
        index = Neighbours([*nodes, Node("new", labels, (), each.allocatable)], standing)
        if _granted_by(index, pod, wanted) > before:
            return True
    return False


def _pool_of(pod: Pod) -> str:
    return pod.shape.node_selector.get(POOL_LABEL, "default")


def _names_of(witness: Witness, pool: str) -> list[str]:
    return [
        node["metadata"]["name"]
        for node in witness.cluster.store.read_all(NODE)
        if (node["metadata"].get("labels") or {}).get(POOL_LABEL) == pool
    ]


def _works(witness: Witness, node: str) -> bool:
    return any(pod.counts_as_work for pod in witness.bound.get(node, {}).values())
