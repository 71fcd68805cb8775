"""How large would these CapacityBuffers be, and why? With the very code that sizes them in a cluster.

A file holds buffers and, beside them, what they look at: workloads, PodTemplates, LimitRanges, ResourceQuotas,
PriorityClasses, RuntimeClasses. What is missing is said as the buffer itself would say it. In a cluster it is also told
where their room is, what is missing, and why nothing is bought: all that the controller writes into the status."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from msgspec import Struct

from growth.cli.explain.layout import told_conditions
from growth.cli.session import read_text
from growth.kube.codec import Codec
from growth.kube.codec.buffer import Referenced, TemplateText, Workload, WorldBuilder
from growth.kube.codec.template import ContainerRange, RuntimeClass
from growth.model.capacitybuffer import ACTIVE_CAPACITY, BufferWorld, CapacityBuffer, ResourceQuota, reference_key
from growth.model.disruption import PriorityClass
from growth.model.malformed import Malformed
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import Counts, place_buffers
from growth.plan.buffers.size import Sizing, calculation
from growth.plan.buffers.status import status_now
from growth.plan.buffers.virtual_pods import ServedBuffer, served_buffers, virtual_pods

_NAMES_SHOWN = 3
_MODES: Final[tuple[Sizing, ...]] = ("capped", "upstream")
Served = Mapping[Sizing, Mapping[str, ServedBuffer]]  # by the key of the buffer


class BufferAnswer(Struct, rename="camel"):
    """What is said of one buffer."""

    buffer: str
    size: int
    sizes: dict[str, int]
    reason: str
    message: str
    calculation: list[str] = []
    chunk: str = ""
    together: str = ""
    workload: str = ""
    quota: str = ""
    virtual_pods: list[str] = []
    conditions: dict[str, str] = {}  # in a cluster: what its status says, or will
    nodes: dict[str, int] = {}  # in a cluster: how many chunks have room on each
    on_their_way: dict[str, int] = {}  # the same, of nodes that were ordered
    missing: int = 0  # chunks without room


def explain_buffers(file: Path, sizing: Sizing, output: str) -> int:
    """Print an answer for each buffer; 1 if one of them has no size, or an object cannot be read."""
    world, problems = read_world(read_text(file))
    answers = answers_for_buffers(sorted(world.buffers), world, sizing)
    if not answers:
        problems.append(f"{file}: there is no CapacityBuffer in it")
    text = msgspec.json.encode(answers).decode() if output == "json" else "\n\n".join(map(_as_text, answers))
    print(text)
    for problem in problems:
        print(f"growth: {problem}", file=sys.stderr)
    return 1 if problems or not all(map(_is_sized, answers)) else 0


def show_buffer(answer: BufferAnswer, output: str) -> int:
    """Of a cluster; 1 if it has no size."""
    print(msgspec.json.encode(answer).decode() if output == "json" else _as_text(answer))
    return 0 if _is_sized(answer) else 1


def _is_sized(answer: BufferAnswer) -> bool:
    return answer.reason == "AttributesSetSuccessfully"


def answers_for_buffers(keys: Iterable[str], world: BufferWorld, sizing: Sizing) -> list[BufferAnswer]:
    served = {mode: {each.key: each for each in served_buffers(world, {}, (), mode)} for mode in _MODES}
    return [_answer(world.buffers[key], world, sizing, served) for key in keys]


def answer_in_cluster(key: str, snapshot: Snapshot, settings: Settings) -> BufferAnswer:
    """What the controller makes of one buffer, at its first look. It must be there."""
    (answer,) = answers_for_buffers([key], snapshot.buffers, settings.buffer_sizing)
    if snapshot.buffers.buffers[key].strategy != ACTIVE_CAPACITY:
        return answer
    status, placed = status_now(key, snapshot, settings), place_buffers(snapshot, settings)
    if status is None:
        answer.message = answer.message or "what it refers to has not been read: nothing is decided until it is"
        return answer
    answer.conditions = told_conditions(status.conditions)
    answer.nodes, answer.on_their_way = _of(key, placed.by_node), _of(key, placed.on_their_way)
    answer.missing = placed.missing.get(key, 0)
    return answer


def _of(key: str, places: Mapping[str, Counts]) -> dict[str, int]:
    return {node: held[key] for node, held in places.items() if held.get(key)}


def read_world(text: str) -> tuple[BufferWorld, list[str]]:
    """All that the file says of buffers, and a sentence for each object that cannot be read."""
    codec, found, problems = Codec(), list[Any](), list[str]()
    for item in _objects(text):
        kind = str(item.get("kind", ""))
        if kind not in codec.kinds:
            continue
        item.setdefault("metadata", {}).setdefault("namespace", "default")
        noun = codec.decode(kind, msgspec.json.encode(item)).noun
        if isinstance(noun, Malformed):
            problems.append(str(noun))
        found.append(noun)
    referenced = Referenced(
        buffers={each.key: each for each in found if isinstance(each, CapacityBuffer)},
        workloads=[each for each in found if isinstance(each, Workload)],
        templates=[each for each in found if isinstance(each, TemplateText)],
        quotas={f"{each.namespace}/{each.name}": each for each in found if isinstance(each, ResourceQuota)},
        ranges=[each for each in found if isinstance(each, ContainerRange)],
        priority_classes=[each for each in found if isinstance(each, PriorityClass)],
        runtime_classes=[each for each in found if isinstance(each, RuntimeClass)],
    )
    return WorldBuilder(codec.pods).build(referenced), problems


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Every object of every document; lists are opened."""
    for document in yaml.safe_load_all(text):
        if isinstance(document, dict):
            yield from document.get("items") or [document]


def _answer(buffer: CapacityBuffer, world: BufferWorld, sizing: Sizing, by_mode: Served) -> BufferAnswer:
    if buffer.strategy != ACTIVE_CAPACITY:
        message = f"left alone: growth does not know the strategy {buffer.strategy}"
        return BufferAnswer(buffer.key, 0, {}, "AttributesSetSuccessfully", message)
    served = {mode: by_mode[mode][buffer.key] for mode in _MODES}
    chosen, sizes = served[sizing], {str(mode): each.count for mode, each in served.items()}
    answer = BufferAnswer(buffer.key, chosen.count, sizes, chosen.size.reason, chosen.size.message)
    reference = buffer.spec.scalable_ref
    scalable = world.scalables.get(reference_key(buffer.namespace, reference)) if reference is not None else None
    if reference is not None and scalable is not None:
        answer.workload = f"{reference.kind} {reference.name}, {scalable.replicas} replicas"
    if chosen.size.template is not None and not chosen.size.is_remembered:
        workload, requests = 0 if scalable is None else scalable.replicas, chosen.size.template.shape.requests
        answer.calculation = calculation(buffer.spec, workload, requests, sizing)
    if chosen.size.is_ready:
        answer.chunk, answer.together = str(chosen.shape.requests), str(chosen.shape.requests.times(chosen.count))
        answer.virtual_pods = [pod.name for pod in virtual_pods(chosen)]
    if chosen.granted.limited_by:
        answer.quota = f"{chosen.granted.limited_by} admits {chosen.granted.count} of {chosen.size.count} chunks"
    return answer


def in_a_sentence(answer: BufferAnswer) -> str:
    """What keeps it from all of its room, or that nothing does."""
    if not _is_sized(answer) or not answer.sizes:
        return answer.message or answer.reason
    if answer.quota:
        return f"smaller than asked for: {answer.quota}"
    if answer.missing:
        why = answer.conditions.get("Provisioning", "").partition(": ")[2]
        return f"{answer.missing} of {answer.size} chunks have no room" + (f": {why}" if why else "")
    kept = f"room for {answer.size} chunks of {answer.chunk}"
    return f"{kept} is kept or on its way" if answer.nodes or answer.on_their_way else f"it asks for {kept}"


def _as_text(answer: BufferAnswer) -> str:
    names, sizes = answer.virtual_pods, ", ".join(f"{count} by {mode}" for mode, count in answer.sizes.items())
    others = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    lines = [
        ("size", f"{answer.size} ({sizes})" if sizes else str(answer.size)),
        ("workload", answer.workload),
        *(("calculated", each) for each in answer.calculation),
        ("one chunk", answer.chunk),
        ("together", answer.together),
        ("quota", answer.quota),
        (answer.reason, answer.message),
        ("virtual pods", ", ".join(names[:_NAMES_SHOWN]) + others),
        *((name, text) for name, text in answer.conditions.items()),
        *(("room", f"{count} on node {node}") for node, count in answer.nodes.items()),
        *(("on its way", f"room for {count} on node {node}") for node, count in answer.on_their_way.items()),
        ("without room", str(answer.missing or "")),
    ]
    first = f"CapacityBuffer {answer.buffer}: {in_a_sentence(answer)}"
    return "\n".join([first, *(f"  {name}: {text}" for name, text in lines if text)])
