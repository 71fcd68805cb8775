"""What happened in the embedded cluster, told to a person: who did what, second by second.

Asked by the demo. Looks at the cluster once a virtual second and says what changed in the counts that matter; it never
takes part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from growth.model.node import SCALE_DOWN_TAINT
from growth.sim.agents.kubelet import ready_status
from growth.sim.apiserver.kinds import Json
from growth.sim.cluster import Cluster
from growth.solver.purchase.problem import PlacementSolution

Say = Callable[[float, str, str], None]  # virtual seconds, who, what

_PAUSE_SECONDS: Final = 5.0


class View(Struct, frozen=True):
    """The counts of one moment."""

    pods: int = 0
    bound: int = 0
    running: int = 0
    machines: int = 0
    booting: int = 0
    nodes: int = 0
    ready: int = 0
    marked: int = 0
    removals: int = 0
    unmet: int = 0


class Timeline:
    """Says each change once; `solutions` keeps the solver's answers that planned machines."""

    def __init__(self, cluster: Cluster, say: Say) -> None:
        self.solutions: list[PlacementSolution] = []
        self._cluster = cluster
        self._say = say
        self._before = View()
        self._said, self._said_at = View(), 0.0
        self._ordered: Counter[str] = Counter()

    def look_at_answer(self, answer: object) -> None:
        """The solver has answered; an answer that plans machines is told with its price and its bound."""
        if isinstance(answer, PlacementSolution) and answer.nodes:
            self.solutions.append(answer)
            gap = f", at most {100 * answer.gap:.1f} % above the cheapest possible" if answer.lower_bound else ""
            unplaced = sum(one.count for one in answer.unplaced)
            rest = f"; {unplaced} pods find no place" if unplaced else ""
            nodes = _count(len(answer.nodes), "node")
            self._tell("growth", f"plans {nodes} for {answer.price_per_hour:.4f} an hour{gap}{rest}")

    def look(self) -> View:
        now, before = self.view(), self._before
        self._before = now
        self._tell_machines(before, now)
        self._tell_nodes(before, now)
        self._tell_pods(now)
        return now

    def _tell_pods(self, now: View) -> None:
        """Every few seconds while they come and go, and once when all run."""
        said, at = self._said, self._cluster.runtime.monotonic()
        is_news = (now.running, now.pods, now.ready) != (said.running, said.pods, said.ready)
        if is_news and (at >= self._said_at + _PAUSE_SECONDS or now.running == now.pods > said.running):
            self._said, self._said_at = now, at
            waiting = f", {now.pods - now.bound} wait for a node" if now.pods > now.bound else ""
            nodes = f"{now.ready} of {now.nodes} nodes Ready"
            self._tell("cluster", f"{now.running} of {now.pods} pods running{waiting}; {nodes}")

    def view(self) -> View:
        cluster = self._cluster
        pods = [pod for pod in cluster.objects("Pod") if not _is_daemons(pod)]
        nodes, servers = cluster.objects("Node"), list(cluster.shop.servers.values())
        return View(
            pods=len(pods),
            bound=sum(bool(pod["spec"].get("nodeName")) for pod in pods),
            running=sum(pod["status"]["phase"] == "Running" for pod in pods),
            machines=len(servers),
            booting=sum(server.status == "initializing" for server in servers),
            nodes=len(nodes),
            ready=sum(ready_status(node) == "True" for node in nodes),
            marked=sum(SCALE_DOWN_TAINT.key in (taint["key"] for taint in _taints(node)) for node in nodes),
            removals=len(cluster.objects("NodeRemovalRequest")),
            unmet=sum((each.get("status") or {}).get("phase") == "Unmet" for each in cluster.objects("NodeRequest")),
        )

    def _tell_machines(self, before: View, now: View) -> None:
        ordered = Counter(f"{server.server_type} in {server.location}" for server in self._cluster.shop.creates)
        fresh = ordered - self._ordered
        self._ordered = ordered
        if fresh:
            listed = ", ".join(f"{count} × {name}" for name, count in sorted(fresh.items()))
            self._tell("cloud", f"machines ordered: {listed}")
        if now.unmet > before.unmet:
            self._tell("cloud", f"{_count(now.unmet - before.unmet, 'order')} not met: sold out")
        if now.machines < before.machines:
            self._tell("cloud", f"{_count(before.machines - now.machines, 'machine')} given back, {now.machines} left")

    def _tell_nodes(self, before: View, now: View) -> None:
        if now.marked > before.marked:
            marked = _count(now.marked, "empty node")
            self._tell("growth", f"{marked} marked: no pods in, given back unless needed again")
        if now.removals > before.removals:
            self._tell("growth", f"{_count(now.removals, 'removal')} under way")

    def _tell(self, who: str, what: str) -> None:
        self._say(self._cluster.runtime.monotonic(), who, what)


def _taints(node: Json) -> list[Json]:
    return node["spec"].get("taints") or []


def _is_daemons(pod: Json) -> bool:
    return any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or [])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
