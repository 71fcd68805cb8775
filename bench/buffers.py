"""What do buffers cost the plans? Virtual pods next to as many real ones, and a loop in which nothing changed.

    python -m bench.buffers [--buffers 200 --virtual 10000 --pods 10000] [--json]

`same_as_pods` buys for real pods and for buffers, in the turns the loop would take; `overhead_percent` compares with
the same number of pods of the same shapes, all real, in pairs; the median of the ratios counts. `nothing_changed` lets
every row look at a cluster at rest whose idle nodes are kept by buffers, and at the same kept by an annotation. The
order in which the two sides are measured alternates, and the least counts. `first_look` is what one answer to "where
would all virtual pods stand" takes after a change. `full_buffers`: 1,000 new pods come beside 100 buffers whose 1,000
virtual pods all have room; from the pods to their NodeRequests, with the buffers and with the same nodes and none, in
pairs."""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from bench.report import Report, main, measured, parser
from growth.controllers.loop.table import ROWS
from growth.model.action import CreateNodeRequest, WriteBufferStatus
from growth.model.api import FINALIZER
from growth.model.capacitybuffer import (
    BufferTemplate,
    BufferWorld,
    CapacityBuffer,
    CapacityBufferSpec,
    StoredTemplate,
    TemplateReference,
)
from growth.model.decision import Decision
from growth.model.labels import ARCHITECTURE, HOSTNAME, Labels
from growth.model.node import DO_NOT_DISRUPT, OFFERING_LABEL, POOL_LABEL, REQUEST_LABEL, Node
from growth.model.nodepool import NodePool, NodePoolSpec, NodePoolStatus, PoolLimits, PoolTrials, ServerTypeChoice
from growth.model.noderequest import NodeRequest
from growth.model.offering import Offering
from growth.model.pod import Pod, PodShape
from growth.model.resources import Resources
from growth.model.settings import Settings
from growth.model.snapshot import EMPTY, Snapshot
from growth.plan.buffers import status
from growth.plan.buffers.placement import place_buffers
from growth.plan.buffers.virtual_pods import planned_annotation
from growth.plan.nodes_up import scale_up
from growth.plan.world.swaps import template_digest
from growth.solver.purchase.solve import solve

NOW = 1_800_000_000.0
GIB = 1024**3
AT_ONCE = Settings(batch_quiet_seconds=0.0)
OFFERINGS = tuple(
    Offering(
        f"bench-{name}",
        name,
        "here",
        price,
        Resources({"cpu": cpu * 1000, "memory": gib * GIB, "pods": 110}),
        Labels({ARCHITECTURE: "amd64"}),
    )
    for name, cpu, gib, price in (("s", 4, 8, 0.011), ("m", 8, 16, 0.019), ("l", 16, 32, 0.036), ("xl", 32, 64, 0.071))
)
SPEC = NodePoolSpec(tuple(ServerTypeChoice(each.server_type) for each in OFFERINGS), limits=PoolLimits(nodes=100_000))
WORKED = NodePoolStatus(trials=PoolTrials(template=template_digest(SPEC)))  # else it would buy five at a time
POOL = NodePool("default", SPEC, WORKED, uid="pool", finalizers=(FINALIZER,))


def run(arguments: argparse.Namespace) -> Report:
    report = Report("Buffers")
    world = _World(arguments.buffers, arguments.virtual, arguments.pods)
    _add_pairs(report, "same_as_pods", world.buy_for_pods, world.buy_for_both, arguments.pairs)
    without, beside = world.at_rest()
    rows = (_Rows(without), _Rows(beside))
    resting = _compared(lambda: rows[0].look(20), lambda: rows[1].look(20), 15)
    report.add(
        "nothing_changed",
        cpu_seconds=resting[1] / 20,
        pods_cpu_seconds=resting[0] / 20,
        overhead_percent=100 * (resting[1] / resting[0] - 1),
    )
    report.limit("nothing_changed", "overhead_percent", at_most=5.0)
    report.add(
        "first_look", cpu_seconds=_spent(lambda: place_buffers(_fresh(beside), AT_ONCE)), nodes=len(beside.nodes)
    )
    without, beside = _World(100, 1_000, 1_000).arriving()
    _add_pairs(report, "full_buffers", lambda: _ordered(without), lambda: _ordered(beside), arguments.pairs)
    return report


def _add_pairs(report: Report, row: str, alone: Callable[[], object], beside: Callable[[], object], times: int) -> None:
    """Without and with buffers, in pairs: the median of the ratios, since both of a pair meet the same machine."""
    pairs = [(_spent(alone), _spent(beside)) for _ in range(times)]
    report.add(
        row,
        cpu_seconds=statistics.median(with_them for _, with_them in pairs),
        pods_cpu_seconds=statistics.median(without_them for without_them, _ in pairs),
        overhead_percent=100 * (statistics.median(one / other for other, one in pairs) - 1),
    )
    report.limit(row, "overhead_percent", at_most=5.0)


def _compared(one: Callable[[], object], other: Callable[[], object], times: int) -> tuple[float, float]:
    """The least of both, measured in turns: whatever else the machine does only adds."""
    spent: tuple[list[float], list[float]] = ([], [])
    for turn in range(times):
        for side in (0, 1) if turn % 2 else (1, 0):
            spent[side].append(_spent((one, other)[side]))
    return min(spent[0]), min(spent[1])


def _spent(work: Callable[[], object]) -> float:
    with measured() as spent:
        work()
    return spent.cpu_seconds


class _World:
    def __init__(self, count: int, virtual: int, pods: int) -> None:
        chance = random.Random(7)
        cores, memory = (100, 250, 500, 750, 1000, 1500, 2000), (256, 512, 1024, 1536, 2048, 4096)
        self.shapes = [
            PodShape(
                labels=Labels({"app": f"app-{number}"}),
                requests=Resources({"cpu": chance.choice(cores) + number, "memory": chance.choice(memory) << 20}),
            )
            for number in range(2 * count)
        ]
        self.real, self.kinds = self.shapes[:count], self.shapes[count:]
        each = virtual // count
        self.pods = tuple(_pod(number, self.real[number % count]) for number in range(pods))
        self.more = tuple(_pod(pods + number, self.kinds[number % count]) for number in range(virtual))
        listed = [
            CapacityBuffer(
                "default",
                f"buffer-{number:04d}",
                CapacityBufferSpec(pod_template_ref=TemplateReference(f"t{number}"), replicas=each),
            )
            for number in range(count)
        ]
        templates = {
            f"default/t{number}": StoredTemplate("default", f"t{number}", BufferTemplate(shape))
            for number, shape in enumerate(self.kinds)
        }
        self.buffers = BufferWorld({buffer.key: buffer for buffer in listed}, templates=templates)

    def snapshot(self, waiting: Iterable[Pod], declared: BufferWorld) -> Snapshot:
        return Snapshot(
            now=NOW, waiting_pods=tuple(waiting), pools={"default": POOL}, offerings=OFFERINGS, buffers=declared
        )

    def buy_for_pods(self) -> Snapshot:
        return _bought(self.snapshot(self.pods + self.more, BufferWorld()))

    def buy_for_both(self) -> Snapshot:
        return _bought(self.snapshot(self.pods, self.buffers))

    def arriving(self) -> tuple[Snapshot, Snapshot]:
        """All pods wait for a pool of their own, beside the nodes that hold the virtual pods: those nodes without the
        buffers, and with them.
        """
        bought = _bought(self.snapshot((), self.buffers))
        nodes = {name: _node(name, request) for name, request in bought.requests.items()}
        apps, kept = replace(POOL, name="apps", uid="apps"), Labels({DO_NOT_DISRUPT: "true"})
        wanted = tuple(
            replace(pod, shape=replace(pod.shape, node_selector=Labels({POOL_LABEL: "apps"}))) for pod in self.pods
        )
        alone = Snapshot(
            now=NOW + 3600,
            nodes={name: replace(node, annotations=kept) for name, node in nodes.items()},
            waiting_pods=wanted,
            pools={"default": POOL, "apps": apps},
            offerings=OFFERINGS,
            machines_at=NOW + 3600,
        )
        return alone, _told(replace(alone, nodes=nodes, buffers=self.buffers))

    def at_rest(self) -> tuple[Snapshot, Snapshot]:
        """The nodes that were bought for both, real pods bound: idle nodes kept by an annotation, and the same kept by
        buffers.
        """
        bought = self.buy_for_both()
        nodes, by_node = {}, {}
        waiting = {pod.key: pod for pod in bought.waiting_pods}
        for name, request in bought.requests.items():
            nodes[name] = _node(name, request)
            here = tuple(waiting[key] for key in request.planned_pods if key in waiting)
            by_node[name] = tuple(replace(pod, node_name=name, phase="Running", unschedulable_at=None) for pod in here)
        resting = Snapshot(
            now=NOW + 3600,
            nodes=nodes,
            pods_by_node=by_node,
            pools={"default": POOL},
            offerings=OFFERINGS,
            machines_at=NOW + 3600,
        )
        protected = {name: replace(node, annotations=Labels({DO_NOT_DISRUPT: "true"})) for name, node in nodes.items()}
        return replace(resting, nodes=protected), _told(replace(resting, buffers=self.buffers))


def _told(snapshot: Snapshot) -> Snapshot:
    """Every buffer says how it stands already."""
    decision = status.plan(snapshot, status.Ledger(), AT_ONCE)
    statuses = {
        f"{each.buffer.namespace}/{each.buffer.name}": each.status
        for each in decision.actions
        if isinstance(each, WriteBufferStatus)
    }
    told = {key: replace(buffer, status=statuses[key]) for key, buffer in snapshot.buffers.buffers.items()}
    return replace(snapshot, buffers=replace(snapshot.buffers, buffers=told))


def _pod(number: int, shape: PodShape) -> Pod:
    return Pod(f"pod-{number:06d}", shape, uid=f"uid-{number}", created_at=NOW - 60, unschedulable_at=NOW - 60)


def _node(name: str, request: NodeRequest) -> Node:
    offering = next(each for each in OFFERINGS if each.name == request.spec.target_offering)
    labels = {
        HOSTNAME: name,
        POOL_LABEL: "default",
        REQUEST_LABEL: name,
        OFFERING_LABEL: offering.name,
        ARCHITECTURE: "amd64",
    }
    marks = Labels(planned_annotation(request.planned_pods))
    return Node(
        name,
        Labels(labels),
        annotations=marks,
        allocatable=offering.allocatable,
        pool="default",
        is_ready=True,
        created_at=NOW,
        ready_changed_at=NOW,
    )


def _bought(snapshot: Snapshot) -> Snapshot:
    """Turn after turn, until nothing more is ordered."""
    ledger = scale_up.Ledger()
    for _ in range(10):
        asked = scale_up.question(snapshot, ledger, AT_ONCE)
        decision: Decision[scale_up.Ledger] = scale_up.plan(
            snapshot, ledger, AT_ONCE, asked, None if asked is None else solve(asked.problem)
        )
        ordered = [action.spec for action in decision.actions if isinstance(action, CreateNodeRequest)]
        if not ordered:
            return snapshot
        names = {f"node-{len(snapshot.requests) + number:05d}": spec for number, spec in enumerate(ordered)}
        made = {
            name: NodeRequest(name, spec, uid=name, created_at=snapshot.now, finalizers=(FINALIZER,))
            for name, spec in names.items()
        }
        ledger, snapshot = (
            decision.ledger,
            replace(snapshot, requests={**snapshot.requests, **made}, now=snapshot.now + 1),
        )
    raise AssertionError("it orders more and more")


def _ordered(snapshot: Snapshot) -> int:
    """One turn, from the pods to their NodeRequests; how many."""
    fresh, ledger = _fresh(snapshot), scale_up.Ledger()
    asked = scale_up.question(fresh, ledger, AT_ONCE)
    answer = None if asked is None else solve(asked.problem)
    decision: Decision[scale_up.Ledger] = scale_up.plan(fresh, ledger, AT_ONCE, asked, answer)
    count = sum(isinstance(action, CreateNodeRequest) for action in decision.actions)
    if not count:
        raise AssertionError("nothing is ordered")
    return count


class _Rows:
    """Every row, with what it remembers after a first look."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.ledgers = {row.name: row.first_ledger() for row in ROWS}
        self.look(1)

    def look(self, times: int) -> None:
        for _ in range(times):
            self.snapshot = replace(self.snapshot, now=self.snapshot.now + 10)
            for row in ROWS:
                if row.question is not None:
                    row.question(self.snapshot, self.ledgers[row.name], AT_ONCE)
                self.ledgers[row.name] = row.plan(self.snapshot, self.ledgers[row.name], AT_ONCE).ledger


def _fresh(snapshot: Snapshot) -> Snapshot:
    """Equal, but not the same objects: nothing that was remembered helps."""
    return replace(snapshot, nodes=dict(snapshot.nodes), namespaces=EMPTY)


def _arguments() -> argparse.ArgumentParser:
    made = parser(__doc__)
    made.add_argument("--buffers", type=int, default=200)
    made.add_argument("--virtual", type=int, default=10_000, help="virtual pods of all buffers together")
    made.add_argument("--pairs", type=int, default=9, help="how often each pair is measured")
    made.add_argument("--pods", type=int, default=10_000, help="real pods that wait")
    return made


if __name__ == "__main__":
    sys.exit(main(_arguments(), run))
