"""`growth plan`: what would be bought for these pods, what would it cost, and how much less could it cost at best?
Without a cluster.

The decision is that of `plan/nodes_up/scale_up`, made on the cluster that files describe (see `cli/plan`).
Nothing is changed anywhere.

Which cluster do these files describe? Asked by `growth plan` and the benchmarks of the solver; it decides nothing.

| file | may be |
| --- | --- |
| pods, nodes, pools | Kubernetes objects in YAML or JSON: documents, Lists, what `kubectl get -o json` prints; each file may hold any kind, also those
  that matter on the side (DaemonSets, Namespaces, claims, volumes, PriorityClasses) |
| pods | also a JSON object with a list `pods`, as benchmarks of planners have it |
| offerings | a catalogue (see `providers/catalogue`), or a benchmark's JSON list of instance types; of those, what is on demand |

Pods with a node are there already, all others wait. Without pools there is one, called default, that may buy
everything.

How does a plan read? Asked by `growth plan`: nodes in groups of equals, how full they are, what they cost, and how
near that is to the bound.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from growth.cli.plan.bench_catalogue import parse_bench_catalogue
from growth.cli.session import SettingsFile
from growth.controllers.configuration import load_configuration
from growth.kube.codec import Codec
from growth.kube.codec.manifest import Manifest, ManifestError, decode_manifest_text
from growth.model.nodepool import DEFAULT_POOL, NodePool, NodePoolSpec, ServerTypeChoice
from growth.model.noderequest import NodeRequest
from growth.model.offering import Offering
from growth.model.pod import Pod
from growth.model.resources import CPU, MEMORY
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot, VolumeWorld
from growth.plan.nodes_up import scale_up
from growth.plan.nodes_up.assign import Dealt, Hand, deal
from growth.plan.nodes_up.survey import Ledger, identity, survey
from growth.plan.world.orders import Purchases, request_spec
from growth.providers.catalogue import CatalogueError, parse_catalogue
from growth.solver.purchase.check import check as complaints_about
from growth.solver.purchase.problem import Choice, PlacementSolution
from growth.solver.purchase.solve import solve


class PlannedNode(Struct, frozen=True, rename="camel"):
    """A node to buy."""

    name: str
    pool: str
    offering: str
    server_type: str
    zone: str
    price_per_hour: float
    pods: tuple[str, ...]


class ExistingNode(Struct, frozen=True):
    """A node that is there, and the waiting pods it would take."""

    name: str
    pods: tuple[str, ...]


class UnplacedPod(Struct, frozen=True):
    pod: str
    reasons: tuple[str, ...]


class Cost(Struct, frozen=True, rename="camel"):
    price_per_hour: float
    lower_bound: float
    gap: float


class Answer(Struct, frozen=True):
    """What `--output json` prints."""

    nodes: tuple[PlannedNode, ...]
    unplaced: tuple[UnplacedPod, ...]
    cost: Cost
    seconds: float  # of CPU, for the solve alone
    existing: tuple[ExistingNode, ...] = ()


def plan(
    *,
    pods: Annotated[
        Path, Parameter(help="Pods, or workloads with their pods, in YAML or JSON; what kubectl get -o json prints.")
    ],
    offerings: Annotated[
        Path, Parameter(help="What can be bought: a catalogue, or a benchmark's list of instance types.")
    ],
    nodes: Annotated[
        Path | None, Parameter(help="Nodes that are there; pods of --pods with a nodeName stand on them.")
    ] = None,
    pools: Annotated[Path | None, Parameter(help="NodePools; without them one pool may buy everything.")] = None,
    settings: SettingsFile = None,
    check: Annotated[bool, Parameter(help="Let the independent checker look at the plan.", negative="")] = False,
    output: Annotated[Literal["table", "json"], Parameter(help="A table for people, or JSON.")] = "table",
) -> int:
    """Plan offline what to buy for pods, with its price, a proven lower bound and the gap between them."""
    chosen = load_configuration(settings, os.environ, {}).plans
    described = read_files(pods, offerings, nodes, pools)
    asked = ask(described.snapshot, chosen)
    began = time.process_time()
    solution = PlacementSolution("NoDemands") if asked is None else solve(asked.problem)
    seconds = time.process_time() - began
    answer, dealt = _answer(described.snapshot, chosen, asked, solution, seconds)
    if output == "json":
        print(msgspec.json.encode(answer).decode())
    else:
        print_plan(dealt, solution, seconds, answer.unplaced)
    wrong = complaints_about(asked.problem, solution) if check and asked is not None else ()
    for line in (*described.problems, *(f"the plan is wrong: {each}" for each in wrong)):
        print(f"growth: {line}", file=sys.stderr)
    return 1 if described.problems or wrong else 0


def ask(snapshot: Snapshot, settings: Settings) -> scale_up.Question | None:
    """What scale-up would put to the solver. Machines that `min` keeps warm count as ordered, and no pod is too new to
    be planned for.
    """
    known = frozenset(identity(pod) for pod in snapshot.waiting_pods)
    ledger = Ledger(known=known)
    warm = survey(snapshot, ledger, settings).minimum
    ordered = {f"{choice.pool}-minimum-{number}": choice for number, choice in enumerate(warm, 1)}
    requests = {name: NodeRequest(name, request_spec(choice, "Minimum")) for name, choice in ordered.items()}
    asked = scale_up.question(replace(snapshot, requests={**snapshot.requests, **requests}), ledger, settings)
    return asked if isinstance(asked, scale_up.Question) else None


def _answer(
    snapshot: Snapshot, settings: Settings, asked: scale_up.Question | None, solution: PlacementSolution, seconds: float
) -> tuple[Answer, Dealt]:
    found = asked.survey if asked is not None else survey(snapshot, Ledger(), settings)
    dealt = Dealt()
    if asked is not None:
        dealt = deal(asked.problem, asked.classes, solution, Purchases(snapshot, found.allowances))
    nodes = tuple(
        PlannedNode(
            f"{choice.pool}-{number}", choice.pool, choice.offering.name, choice.offering.server_type, choice.offering.zone,
            choice.offering.price_per_hour + settings.node_price_per_hour, tuple(demand.pod.key for demand in hand),
        )
        for number, (choice, hand) in enumerate(dealt.orders, 1)
    )  # fmt: skip
    existing = tuple(
        ExistingNode(room.node.name, tuple(demand.pod.key for demand in hand)) for room, hand in dealt.into_rooms
    )
    unplaced = [UnplacedPod(demand.pod.key, reasons) for demand, reasons in dealt.unplaced]
    unplaced += [UnplacedPod(problem.pod.key, (problem.message,)) for problem in found.problems]
    cost = Cost(solution.price_per_hour, solution.lower_bound, solution.gap)
    return Answer(nodes, tuple(unplaced), cost, round(seconds, 3), existing), dealt


class Described(Struct, frozen=True):
    """The cluster, and what could not be read of it."""

    snapshot: Snapshot
    problems: tuple[str, ...] = ()


def read_files(pods: Path, offerings: Path, nodes: Path | None = None, pools: Path | None = None) -> Described:
    """Raises ManifestError or CatalogueError for a file that says nothing; an object that cannot be read is a problem."""
    codec = Codec()
    read = [_read_manifest(path, codec) for path in (pods, nodes, pools) if path is not None]
    sold = read_offerings(offerings)
    found: dict[str, NodePool] = _merged(manifest.pools for _, manifest in read)
    return Described(
        _snapshot([manifest for _, manifest in read], found or _one_pool(sold), sold),
        tuple(line for lines, _ in read for line in lines),
    )


def read_offerings(path: Path) -> tuple[Offering, ...]:
    data = _bytes(path, CatalogueError)
    try:
        if data.lstrip().startswith(b"["):
            return parse_bench_catalogue(data)
        return parse_catalogue(data.decode("utf-8", "replace")).offerings()
    except CatalogueError as error:
        raise CatalogueError(f"{path}: {error}") from None


def _bytes(path: Path, error_type: type[ValueError]) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise error_type(f"{path}: {error.strerror or error}") from None


def _read_manifest(path: Path, codec: Codec) -> tuple[list[str], Manifest]:
    try:
        manifest = decode_manifest_text(_text(_bytes(path, ManifestError)), codec, is_strict=False)
    except ManifestError as error:
        raise ManifestError(f"{path}: {error}") from None
    return [f"{path}: {problem}" for problem in manifest.problems], manifest


def _text(data: bytes) -> str:
    """What is a list of pods under another name becomes a PodList."""
    if data.lstrip().startswith(b"{"):
        try:
            root = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        except msgspec.MsgspecError:
            return data.decode("utf-8", "replace")
        if "pods" in root and "kind" not in root:
            return msgspec.json.encode({"kind": "PodList", "apiVersion": "v1", "items": root["pods"]}).decode()
    return data.decode("utf-8", "replace")


def _one_pool(offerings: Iterable[Offering]) -> dict[str, NodePool]:
    types = tuple(ServerTypeChoice(name) for name in dict.fromkeys(offering.server_type for offering in offerings))
    return {DEFAULT_POOL: NodePool(DEFAULT_POOL, NodePoolSpec(types))}


def _snapshot(manifests: list[Manifest], pools: Mapping[str, NodePool], offerings: tuple[Offering, ...]) -> Snapshot:
    pods = _merged({pod.key: pod for pod in manifest.pods} for manifest in manifests)
    there: dict[str, list[Pod]] = {}
    for pod in pods.values():
        if pod.node_name:
            there.setdefault(pod.node_name, []).append(pod)
    volumes = [manifest.volumes for manifest in manifests]
    return Snapshot(
        now=max((pod.created_at for pod in pods.values()), default=0.0),
        nodes=_merged(manifest.nodes for manifest in manifests),
        pods_by_node={name: tuple(standing) for name, standing in there.items()},
        waiting_pods=tuple(
            replace(pod, nominated_node="") for pod in pods.values() if not pod.node_name and not pod.is_finished
        ),
        namespaces=_merged(manifest.namespaces for manifest in manifests),
        daemon_sets=tuple({each.key: each for manifest in manifests for each in manifest.daemon_sets}.values()),
        volumes=VolumeWorld(
            claims=_merged(world.claims for world in volumes),
            volumes=_merged(world.volumes for world in volumes),
            classes=_merged(world.classes for world in volumes),
            nodes=_merged(world.nodes for world in volumes),
        ),
        pools=pools,
        requests=_merged(manifest.requests for manifest in manifests),
        removals=_merged(manifest.removals for manifest in manifests),
        offerings=offerings,
    )


def _merged(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {key: value for part in parts for key, value in part.items()}


_MOST_REASONS = 20


def print_plan(dealt: Dealt, solution: PlacementSolution, seconds: float, unplaced: Sequence[Any]) -> None:
    console = Console()
    if dealt.orders:
        console.print(_bought(dealt), markup=False)
    if dealt.into_rooms:
        pods = sum(len(hand) for _, hand in dealt.into_rooms)
        console.print(
            f"{pods} pods on {len(dealt.into_rooms)} nodes that are there or on their way", markup=False, soft_wrap=True
        )
    _print_unplaced(console, unplaced)
    console.print(_summary(dealt, solution, seconds), markup=False, soft_wrap=True)


def _bought(dealt: Dealt) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("nodes", "pool", "server type", "zone", "price/h", "pods", "cpu", "memory"):
        table.add_column(column, justify="left" if column in ("pool", "server type", "zone") else "right")
    groups: dict[tuple[str, str, str], list[tuple[Choice, Hand]]] = {}
    for choice, hand in dealt.orders:
        groups.setdefault((choice.pool, choice.offering.server_type, choice.offering.zone), []).append((choice, hand))
    for (pool, server_type, zone), bought in groups.items():
        price = sum(choice.offering.price_per_hour for choice, _ in bought)
        full = [f"{_full(bought, name):.0%}" for name in (CPU, MEMORY)]
        table.add_row(
            str(len(bought)), pool, server_type, zone, f"{price:.4f}", str(sum(len(hand) for _, hand in bought)), *full
        )
    return table


def _full(bought: Sequence[tuple[Choice, Hand]], name: str) -> float:
    """How much of what the nodes have is asked for, by the pods and by the daemons that land there."""
    asked = sum(demand.shape.requests[name] for _, hand in bought for demand in hand)
    asked += sum(shape.requests[name] for choice, _ in bought for shape in choice.daemons)
    return asked / max(1, sum(choice.offering.allocatable[name] for choice, _ in bought))


def _print_unplaced(console: Console, unplaced: Sequence[Any]) -> None:
    """Many pods share their reasons."""
    counted = Counter(pod.reasons for pod in unplaced)
    example = {pod.reasons: pod.pod for pod in reversed(unplaced)}
    for reasons, count in counted.most_common(_MOST_REASONS):
        others = f" and {count - 1} more" if count > 1 else ""
        console.print(f"unplaced: {example[reasons]}{others}: {'; '.join(reasons)}", markup=False, soft_wrap=True)
    if len(counted) > _MOST_REASONS:
        console.print(
            f"… and {len(counted) - _MOST_REASONS} more reasons; --output json has them all",
            markup=False,
            soft_wrap=True,
        )


def _summary(dealt: Dealt, solution: PlacementSolution, seconds: float) -> str:
    if solution.kind == "NoDemands":
        return "no pod needs a place"
    bound = (
        f"no plan for them costs less than {solution.lower_bound:.4f} (gap {solution.gap:.2%})"
        if solution.lower_bound
        else "nothing to prove"
    )
    return f"{len(dealt.orders)} nodes for {solution.price_per_hour:.4f} per hour; {bound}; {seconds:.2f} s"
