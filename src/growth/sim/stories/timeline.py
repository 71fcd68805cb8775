"""What happened in the embedded cluster, told to a person: who did what, second by second.

Asked by the demo. Looks at the cluster once a virtual second and says what changed in the counts that matter; it never
takes part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from growth.model.node import SCALE_DOWN_TAINT
from growth.plan.world.orders import NOT_READY_EVENT
from growth.sim.agents.kubelet import ready_status
from growth.sim.apiserver.kinds import Json
from growth.sim.apiserver.store import Write
from growth.sim.cluster import Cluster
from growth.sim.laws.witness import GROWTH
from growth.solver.purchase.problem import PlacementProblem, PlacementSolution

Say = Callable[[float, str, str], None]  # virtual seconds, who, what

_PAUSE_SECONDS: Final = 5.0
_LONGEST_NOTE: Final = 150
_TOLD_BY_COUNTS: Final = ("Planned", "Provisioning", "Ready", "ScaleUp", "ScaleDown", "Removing", "Unmet", "Staying")


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
    """Says each change once; `plans` keeps what the solver was asked and answered when it planned machines."""

    def __init__(self, cluster: Cluster, say: Say) -> None:
        self.plans: list[tuple[PlacementProblem, PlacementSolution]] = []
        self._cluster = cluster
        self._say = say
        self._before = View()
        self._said, self._said_at = View(), 0.0
        self._ordered: Counter[str] = Counter()
        self._events: list[tuple[str, str]] = []  # reason, note

    def listen(self) -> None:
        """Tell from now on what growth says in events, and whose replicas it changes."""
        self._cluster.store.on_write(self._hear)

    def _hear(self, write: Write) -> None:
        if write.actor != GROWTH or write.type == "DELETED":
            return
        if write.kind.name == "Event":
            if write.type == "ADDED" and write.item.get("reason") not in _TOLD_BY_COUNTS:
                self._events.append((str(write.item["reason"]), str(write.item.get("note") or "")))
        elif write.before is not None:
            before, now = ((item.get("spec") or {}).get("replicas") for item in (write.before.decoded(), write.item))
            if before != now:
                self._tell("growth", f"scales {write.kind.name} {write.key[1]} from {before} to {now}")

    def _tell_events(self) -> None:
        """One line for each reason; the first of them speaks for all."""
        counts = Counter(reason for reason, _ in self._events)
        notes = dict(reversed(self._events))
        for reason, count in counts.items():
            more = f" (and {count - 1} more)" if count > 1 else ""
            self._tell("growth", f"{reason}: {_shortened(notes[reason])}{more}")
        self._events.clear()

    def look_at_answer(self, asked: object, answer: object) -> None:
        """The solver has answered; an answer that plans machines is told with its price and its bound."""
        if isinstance(asked, PlacementProblem) and isinstance(answer, PlacementSolution) and answer.nodes:
            self.plans.append((asked, answer))
            unplaced = sum(one.count for one in answer.unplaced)
            rest = f"; {unplaced} pods find no place" if unplaced else ""
            nodes = _count(len(answer.nodes), "node")
            self._tell("growth", f"plans {nodes} for {answer.price_per_hour:.4f} an hour{answer.gap_in_words}{rest}")

    def look(self) -> View:
        now, before = self.view(), self._before
        self._before = now
        self._tell_events()
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
            marked=sum(_is_marked(node) for node in nodes),
            removals=len(cluster.objects("NodeRemovalRequest")),
            unmet=sum(_is_sold_out(each) for each in cluster.objects("NodeRequest")),
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
            is_empty = not any(self._has_work(each) for each in self._cluster.objects("Node") if _is_marked(each))
            marked = _count(now.marked, "empty node" if is_empty else "node")
            self._tell("growth", f"{marked} marked: no pods in, given back unless needed again")
        if now.removals > before.removals:
            self._tell("growth", f"{_count(now.removals, 'removal')} under way")

    def _has_work(self, node: Json) -> bool:
        pods = (each for each in self._cluster.objects("Pod") if not _is_daemons(each))
        return any(each["spec"].get("nodeName") == node["metadata"]["name"] and not _is_over(each) for each in pods)

    def _tell(self, who: str, what: str) -> None:
        self._say(self._cluster.runtime.monotonic(), who, what)


def _shortened(note: str) -> str:
    return note if len(note) <= _LONGEST_NOTE else f"{note[:_LONGEST_NOTE]} …"


def _is_marked(node: Json) -> bool:
    return any(taint["key"] == SCALE_DOWN_TAINT.key for taint in node["spec"].get("taints") or ())


def _is_sold_out(request: Json) -> bool:
    """One whose machine came and failed is told by its event."""
    status = request.get("status") or {}
    failed = [event["name"] for event in status.get("events") or ()][-1:] == [NOT_READY_EVENT]
    return status.get("phase") == "Unmet" and not failed


def _is_over(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"] or pod["status"]["phase"] in ("Succeeded", "Failed")


def _is_daemons(pod: Json) -> bool:
    return any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or [])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
