"""`growth plan`: what would be bought for these pods, what would it cost, and how much less could it cost at best?
Without a cluster.

The decision is that of `plan/nodes_up/scale_up`, made on the cluster that files describe (see `cli/plan/files`).
Nothing is changed anywhere."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter
from msgspec import Struct
from msgspec.structs import replace

from growth.cli.plan.files import read_files
from growth.cli.plan.table import print_plan
from growth.controllers.configuration import load_configuration
from growth.model.noderequest import NodeRequest
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_up import scale_up
from growth.plan.nodes_up.assign import Dealt, deal
from growth.plan.nodes_up.survey import Ledger, identity, survey
from growth.plan.world.orders import Purchases, request_spec
from growth.solver.purchase.check import check as complaints_about
from growth.solver.purchase.problem import PlacementSolution
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
    settings: Annotated[Path | None, Parameter(help="The settings file that growth runs with.")] = None,
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
