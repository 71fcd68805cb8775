"""Which nodes may this pod go to, and why not to the others? The rules of kube-scheduler, for people and scripts,
without a cluster.

One case per line, as JSON: `{id, nodes, pods, pod}` with Kubernetes objects (`pods` are those bound already), and if
they matter `namespaces`, `persistentVolumes`, `persistentVolumeClaims`, `storageClasses`, `csiNodes`. One answer per
line: `{id, fits: [node…], fails: {node: [kind, reason…]}, every: {node: {rule: [kind, reason…]}}}`; `fails` has the
first rule that refuses, `every` all of them. Objects that could not be read are named in `malformed`: a pod then fits
nowhere, a node takes nothing, others are left out. A line that cannot be read gets `{id, error}`, the others are
answered, and the command ends with 1."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from cyclopts import Parameter
from msgspec import UNSET, Raw, Struct, UnsetType, structs

from growth.kube.codec import Codec
from growth.model.labels import Labels
from growth.model.malformed import Malformed
from growth.model.node import Node
from growth.model.pod import Pod
from growth.model.snapshot import VolumeWorld
from growth.model.volumes import Claim, StorageClass, Volume, VolumeNode
from growth.solver.rules import Neighbours, Reason
from growth.solver.rules.pod_class import PodClass

Noun = TypeVar("Noun")

_NAMESPACE_NAME = "kubernetes.io/metadata.name"  # the API server puts it on every namespace


class Switches(Struct, frozen=True, rename="camel"):
    comparison_operators: bool = False  # Gt and Lt in tolerations, alpha in Kubernetes


class Case(Struct, rename="camel"):
    """One line as it is written; the objects are read one by one, so that a malformed one spoils nothing else."""

    pod: Raw
    nodes: tuple[Raw, ...] = ()
    pods: tuple[Raw, ...] = ()
    namespaces: tuple[Raw, ...] = ()
    persistent_volumes: tuple[Raw, ...] = ()
    persistent_volume_claims: tuple[Raw, ...] = ()
    storage_classes: tuple[Raw, ...] = ()
    csi_nodes: tuple[Raw, ...] = ()
    settings: Switches = Switches()
    id: Any = None


class Answer(Struct):
    id: Any
    fits: list[str] = []
    fails: dict[str, list[str]] = {}
    every: dict[str, dict[str, list[str]]] = {}
    malformed: list[str] | UnsetType = UNSET


class Unanswered(Struct):
    id: Any
    error: str


class World(Struct):
    """One case, read."""

    pod: Pod
    neighbours: Neighbours
    malformed: list[str]

    @property
    def pod_class(self) -> PodClass:
        return self.neighbours.class_of_pod(self.pod)


_case = msgspec.json.Decoder(Case)
_identified = msgspec.json.Decoder(dict[str, Any])
_encode = msgspec.json.Encoder().encode

File = Annotated[Path, Parameter(help="JSON lines to answer; - reads standard input.")]
Output = Annotated[
    Literal["json", "table"], Parameter(name=("--output", "-o"), help="JSON lines, or a table for people.")
]


def fits(file: File = Path("-"), *, output: Output = "json") -> int:
    """Say for each case which nodes its pod may go to, and why not to the others."""
    codec, has_failed = Codec(), False
    with sys.stdin.buffer if str(file) == "-" else file.open("rb") as lines:
        for line in filter(bytes.strip, lines):
            answer = answer_line(line, codec)
            has_failed |= isinstance(answer, Unanswered)
            if output == "json":
                print(_encode(answer).decode())
            else:
                _print_table(answer)
    return 1 if has_failed else 0


def answer_line(line: bytes, codec: Codec) -> Answer | Unanswered:
    """One line in, one answer out; never raises for what the line holds."""
    try:
        case = _case.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return Unanswered(_id_of(line), str(error))
    return answer_world(case.id, read_case(case, codec))


def _id_of(line: bytes) -> Any:
    try:
        return _identified.decode(line).get("id")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def read_case(case: Case, codec: Codec) -> World:
    """The objects of a case as the rules see them."""
    reader = _Reader(Codec(compares_tolerations=True) if case.settings.comparison_operators else codec)
    pod = reader.pod(case.pod)
    if pod.node_name:
        pod = structs.replace(pod, node_name="", shape=structs.replace(pod.shape, required_node=pod.node_name))
    nodes = {node.name: node for node in map(reader.node, case.nodes)}
    namespaces = reader.named("Namespace", case.namespaces, Labels)
    neighbours = Neighbours(
        nodes.values(),
        [reader.pod(raw) for raw in case.pods],
        VolumeWorld(
            claims=reader.named("PersistentVolumeClaim", case.persistent_volume_claims, Claim),
            volumes=reader.named("PersistentVolume", case.persistent_volumes, Volume),
            classes=reader.named("StorageClass", case.storage_classes, StorageClass),
            nodes=reader.named("CSINode", case.csi_nodes, VolumeNode),
        ),
        {name: labels.with_items({_NAMESPACE_NAME: name}) for name, labels in namespaces.items()},
        shapes=[pod.shape],
    )
    return World(pod, neighbours, reader.malformed)


class _Reader:
    """Reads objects and remembers which could not be read."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.malformed: list[str] = []

    def pod(self, raw: Raw) -> Pod:
        pod = self._codec.decode_pod(raw)
        if pod.shape.malformed:
            self.malformed.append(f"Pod {pod.key}: {pod.shape.malformed}")
        return pod

    def node(self, raw: Raw) -> Node:
        node = self._codec.decode_node(raw)
        if node.malformed:
            self.malformed.append(f"Node {node.name}: {node.malformed}")
        return node

    def named(self, kind: str, raws: Iterable[Raw], noun: type[Noun]) -> dict[str, Noun]:
        """Objects of one kind by key; those that cannot be read are left out."""
        found: dict[str, Noun] = {}
        for raw in raws:
            decoded = self._codec.decode(kind, raw)
            if isinstance(decoded.noun, noun):
                found[decoded.key] = decoded.noun
            elif isinstance(decoded.noun, Malformed):
                self.malformed.append(f"{kind} {decoded.key}: {decoded.noun.why}")
        return found


def answer_world(identity: Any, world: World) -> Answer:
    answer, neighbours = Answer(identity, malformed=world.malformed or UNSET), world.neighbours
    for index, node in enumerate(neighbours.table.nodes):
        first = neighbours.why_not(world.pod_class, index)
        if first is None:
            answer.fits.append(node.name)
        else:
            answer.fails[node.name] = _told(first)
            answer.every[node.name] = {
                reason.rule: _told(reason) for reason in neighbours.every_reason(world.pod_class, index)
            }
    return answer


def _told(reason: Reason) -> list[str]:
    return [reason.kind, *reason.phrases[:-1], reason.phrases[-1] + (f" ({reason.detail})" if reason.detail else "")]


def _print_table(answer: Answer | Unanswered) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if isinstance(answer, Unanswered):
        console.print(f"{answer.id}: {answer.error}", markup=False)
        return
    table = Table(title=f"case {answer.id}", title_justify="left", box=None, pad_edge=False)
    for column in ("node", "fits", "kind", "why not"):
        table.add_column(column)
    for node in answer.fits:
        table.add_row(node, "yes", "", "")
    for node, (kind, *words) in answer.fails.items():
        table.add_row(node, "no", kind, ", ".join(words))
    console.print(table, markup=False)
    for problem in answer.malformed or ():
        console.print(f"malformed: {problem}", markup=False)
