"""`growth plan`: what would be bought for these pods, what would it cost, and how much less could it cost at best?
Without a cluster; with `--live` what growth would do now in one (`cli/plan/live`).

The decision is that of `plan/nodes_up/scale_up`, made on the cluster that files describe (see `cli/plan/files`).
Nothing is changed anywhere. The table shows nodes in groups of equals, how full they are, what they cost, and how near
that is to the bound."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from growth.cli.plan.files import read_files
from growth.cli.plan.live import OFFLINE, LiveFlags, plan_live
from growth.cli.session import THE_CLUSTER, ClusterAccess, SettingsFile, busy
from growth.controllers.configuration import load_configuration
from growth.model.noderequest import NodeRequest
from growth.model.resources import CPU, MEMORY
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_up import scale_up
from growth.plan.nodes_up.assign import Dealt, Hand, deal, why_less
from growth.plan.nodes_up.demand import identity
from growth.plan.nodes_up.survey import Ledger, survey
from growth.plan.world.orders import Purchases, request_spec
from growth.solver.purchase.check import check as complaints_about
from growth.solver.purchase.problem import Choice, PlacementSolution
from growth.solver.purchase.solve import solve

_MOST_REASONS = 20


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


class PlanAnswer(Struct, frozen=True):
    """What `--output json` prints."""

    nodes: tuple[PlannedNode, ...]
    unplaced: tuple[UnplacedPod, ...]
    cost: Cost
    seconds: float  # of CPU, for the solve alone
    existing: tuple[ExistingNode, ...] = ()


def plan(  # noqa: PLR0913 - every flag is an argument
    *,
    pods: Annotated[
        Path | None,
        Parameter(
            allow_leading_hyphen=True,
            help="Pods, or workloads with their pods, in YAML or JSON, as kubectl get -o json prints them; - is "
            "standard input.",
        ),
    ] = None,
    offerings: Annotated[
        Path | None,
        Parameter(
            help="What can be bought: a catalogue, a benchmark's list of instance types, or kwok: what it has built in."
        ),
    ] = None,
    nodes: Annotated[
        Path | None, Parameter(help="Nodes that are there; pods of --pods with a nodeName stand on them.")
    ] = None,
    pools: Annotated[Path | None, Parameter(help="NodePools; without them one pool may buy everything.")] = None,
    settings: SettingsFile = None,
    check: Annotated[bool, Parameter(help="Let the independent checker look at the plan.", negative="")] = False,
    asked: LiveFlags = OFFLINE,
    access: ClusterAccess = THE_CLUSTER,
    output: Annotated[
        Literal["table", "json"], Parameter(name=("--output", "-o"), help="A table for people, or JSON.")
    ] = "table",
) -> int:
    """Plan what to buy for pods: offline, with its price, a proven lower bound and the gap between them; or --live."""
    configuration = load_configuration(settings, os.environ, {})
    if asked.live:
        if pods or offerings or nodes or pools:
            raise ValueError("--live looks at the cluster: it takes no files; --what-if changes what it finds")
        return plan_live(configuration, access, asked, output)
    if asked.what_if:
        raise ValueError("--what-if changes what --live finds: say --live too")
    if pods is None or offerings is None:
        raise ValueError("say which --pods and --offerings to plan with, or --live for what the cluster needs now")
    chosen = configuration.plans
    described = read_files(pods, offerings, nodes, pools)
    question = ask(described.snapshot, chosen)
    began = time.process_time()
    with busy("planning"):
        solution = PlacementSolution("NoDemands") if question is None else solve(question.problem)
    seconds = time.process_time() - began
    answer, dealt = _answer(described.snapshot, chosen, question, solution, seconds)
    if output == "json":
        print(msgspec.json.encode(answer).decode())
    else:
        _print_plan(dealt, solution, seconds, answer.unplaced)
    wrong = complaints_about(question.problem, solution) if check and question is not None else ()
    for line in (*described.problems, *(f"the plan is wrong: {each}" for each in wrong)):
        print(f"growth: {line}", file=sys.stderr)
    return 1 if described.problems or wrong else 0


def ask(snapshot: Snapshot, settings: Settings) -> scale_up.Question | None:
    """What scale-up would put to the solver. Machines that `min` keeps warm count as ordered, and no pod is too new to
    be planned for.
    """
    ledger = _knowing_all(snapshot)
    warm = survey(snapshot, ledger, settings).minimum
    ordered = {f"{choice.pool}-minimum-{number}": choice for number, choice in enumerate(warm, 1)}
    requests = {name: NodeRequest(name, request_spec(choice, "Minimum")) for name, choice in ordered.items()}
    asked = scale_up.question(replace(snapshot, requests={**snapshot.requests, **requests}), ledger, settings)
    return None if asked is None or asked.survey.is_virtual else asked


def _knowing_all(snapshot: Snapshot) -> Ledger:
    return Ledger(known=frozenset(identity(pod) for pod in snapshot.waiting_pods))


def _answer(
    snapshot: Snapshot, settings: Settings, asked: scale_up.Question | None, solution: PlacementSolution, seconds: float
) -> tuple[PlanAnswer, Dealt]:
    found = asked.survey if asked is not None else survey(snapshot, _knowing_all(snapshot), settings)
    purchases = Purchases(found.allowances)
    dealt = Dealt() if asked is None else deal(asked.problem, asked.classes, solution, purchases)
    nodes = tuple(
        _planned_node(number, choice, hand, settings) for number, (choice, hand) in enumerate(dealt.orders, 1)
    )
    existing = tuple(
        ExistingNode(room.node.name, tuple(demand.pod.key for demand in hand)) for room, hand in dealt.into_rooms
    )
    less = {name: why_less(name, found, snapshot, settings) for name in snapshot.pools}
    unplaced = [
        UnplacedPod(demand.pod.key, (*reasons, *filter(None, (less[name] for name in demand.pools))))
        for demand, reasons in dealt.unplaced
    ]
    unplaced += [UnplacedPod(problem.pod.key, (problem.message,)) for problem in found.problems]
    cost = Cost(solution.price_per_hour, solution.lower_bound, solution.gap)
    return PlanAnswer(nodes, tuple(unplaced), cost, round(seconds, 3), existing), dealt


def _planned_node(number: int, choice: Choice, hand: Hand, settings: Settings) -> PlannedNode:
    sold, pods = choice.offering, tuple(demand.pod.key for demand in hand)
    price = sold.price_per_hour + settings.node_price_per_hour
    return PlannedNode(f"{choice.pool}-{number}", choice.pool, sold.name, sold.server_type, sold.zone, price, pods)


# ---------------------------------------------------------------------------------------- the table


def _print_plan(dealt: Dealt, solution: PlacementSolution, seconds: float, unplaced: Sequence[UnplacedPod]) -> None:
    console = Console()
    if dealt.orders:
        console.print(_bought(dealt), markup=False)
    pods, nodes = sum(len(hand) for _, hand in dealt.into_rooms), len(dealt.into_rooms)
    existing = [f"{pods} pods on {nodes} nodes that are there or on their way"] if nodes else []
    for line in (*existing, *_unplaced(unplaced), _summary(dealt, solution, seconds)):
        console.print(line, markup=False, soft_wrap=True)


def _bought(dealt: Dealt) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("nodes", "pool", "server type", "zone", "price/h", "pods", "cpu", "memory"):
        table.add_column(column, justify="left" if column in ("pool", "server type", "zone") else "right")
    groups: dict[tuple[str, str, str], list[tuple[Choice, Hand]]] = {}
    for choice, hand in dealt.orders:
        groups.setdefault((choice.pool, choice.offering.server_type, choice.offering.zone), []).append((choice, hand))
    for (pool, server_type, zone), bought in groups.items():
        price = sum(choice.offering.price_per_hour for choice, _ in bought)
        pods, full = sum(len(hand) for _, hand in bought), [f"{_full(bought, name):.0%}" for name in (CPU, MEMORY)]
        table.add_row(str(len(bought)), pool, server_type, zone, f"{price:.4f}", str(pods), *full)
    return table


def _full(bought: Sequence[tuple[Choice, Hand]], name: str) -> float:
    """How much of what the nodes have is asked for, by the pods and by the daemons that land there."""
    asked = sum(demand.shape.requests[name] for _, hand in bought for demand in hand)
    asked += sum(shape.requests[name] for choice, _ in bought for shape in choice.daemons)
    return asked / max(1, sum(choice.offering.allocatable[name] for choice, _ in bought))


def _unplaced(unplaced: Sequence[UnplacedPod]) -> Iterator[str]:
    """Many pods share their reasons."""
    counted = Counter(pod.reasons for pod in unplaced)
    example = {pod.reasons: pod.pod for pod in reversed(unplaced)}
    for reasons, count in counted.most_common(_MOST_REASONS):
        others = f" and {count - 1} more" if count > 1 else ""
        yield f"unplaced: {example[reasons]}{others}: {'; '.join(reasons)}"
    if len(counted) > _MOST_REASONS:
        yield f"… and {len(counted) - _MOST_REASONS} more reasons; --output json has them all"


def _summary(dealt: Dealt, solution: PlacementSolution, seconds: float) -> str:
    if solution.kind == "NoDemands":
        return "no pod needs a place"
    proof = f"no plan for them costs less than {solution.lower_bound:.4f} (gap {solution.gap:.2%})"
    bound = proof if solution.lower_bound else "nothing to prove"
    return f"{len(dealt.orders)} nodes for {solution.price_per_hour:.4f} per hour; {bound}; {seconds:.2f} s"
