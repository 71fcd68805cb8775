"""When does a fault begin, what does it do at once, and when is it over? For the faults of one world.

Asked by `sim/scenarios/run`. Most faults are only on or off (`sim/faults/active`): the cloud and the network ask. These
act by themselves:

| fault | at its beginning | at its end |
| --- | --- | --- |
| vanish, powered-off, labels-lost | machines go, stop, or lose their labels | |
| interruption | nodes are tainted, and their machines go when the notice is over | |
| not-ready | nodes stop reporting | they report again |
| watch-cut, history-gone | watches break off, history is forgotten; again and again where `seconds` says so | |
| history-restored | objects are what they were | |
| clock-step | growth's clock is off | it is right again |
| lease-lost, lease-slow | the growth that leads now is the one it happens to | |
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from growth.providers.simulated import Server
from growth.sim.apiserver.kinds import KINDS, NODE, Json
from growth.sim.apiserver.refusal import Refusal
from growth.sim.apiserver.store import Write
from growth.sim.clock import after
from growth.sim.cluster import Cluster
from growth.sim.faults import kinds
from growth.sim.faults.active import ActiveFaults
from growth.sim.process import GrowthProcess

INTERRUPTED: Final = {"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"}


class FaultSchedule:
    """The faults of one world. `replicas` are the growths in it, None while one is away."""

    def __init__(self, cluster: Cluster, replicas: list[GrowthProcess | None]) -> None:
        self.active: ActiveFaults = cluster.shop.faults
        self._cluster, self.replicas = cluster, replicas
        self._chance = random.Random(f"{cluster.seed}/fault schedule")
        self._versions: list[tuple[float, int]] = []  # of the store, and since when

    def plan(self, fault: kinds.Fault) -> None:
        """Let the fault begin and end when it says."""
        if isinstance(fault, kinds.HistoryRestored) and not self._versions:
            self._cluster.store.on_write(self._note_version)
        until = fault.until
        seconds = getattr(fault, "seconds", None)
        if until is None and isinstance(fault, kinds.ApiDown | kinds.WatchSilent | kinds.LeaseLost) and seconds:
            until = fault.begins + seconds
        after(fault.begins, partial(self._begin, fault))
        if until is not None:
            after(until, partial(self._end, fault))

    def end_all(self) -> None:
        """Whatever is on ends now."""
        for fault in list(self.active.of(kinds.Fault)):
            self._end(fault)

    def _note_version(self, write: Write) -> None:
        self._versions.append((self._cluster.runtime.monotonic(), write.version))

    def _begin(self, fault: kinds.Fault) -> None:
        self.active.turn_on(fault)
        act = _BEGINNINGS.get(type(fault))
        if act is not None:
            act(self, fault)

    def _end(self, fault: kinds.Fault) -> None:
        self.active.turn_off(fault)
        act = _ENDS.get(type(fault))
        if act is not None:
            act(self, fault)

    # ------------------------------------------------------------------------------------- machines

    def _chosen(self, share: float | None, count: int | None = None) -> list[Server]:
        """Running machines: so many, or each with this chance."""
        servers = [each for each in self._cluster.shop.servers.values() if each.status == "running"]
        if count is not None:
            return self._chance.sample(servers, min(count, len(servers)))
        return [each for each in servers if share is None or self._chance.random() < share]

    def vanish(self, fault: kinds.Vanish) -> None:
        for server in self._chosen(fault.share):
            self._cluster.shop.vanish(server.server_id)

    def power_off(self, fault: kinds.PoweredOff) -> None:
        for server in self._chosen(fault.share):
            self._cluster.shop.power_off(server.server_id)

    def lose_labels(self, fault: kinds.LabelsLost) -> None:
        for server in self._chosen(fault.share):
            self._cluster.shop.lose_labels(server.server_id)

    def interrupt(self, fault: kinds.Interruption) -> None:
        for server in self._chosen(fault.share):
            self._change_node(server.name, _with_interruption)
            after(fault.notice_seconds, partial(self._cluster.shop.vanish, server.server_id))

    def silence_nodes(self, fault: kinds.NotReady) -> None:
        until = fault.until if fault.until is not None else float("inf")
        for server in self._chosen(fault.share, fault.nodes):
            self._cluster.kubelets.fall_ill(server.name, min(until - fault.begins, 1e9))

    def _change_node(self, name: str, change: Callable[[Json], None]) -> None:
        try:
            self._cluster.verbs.modify(NODE, name, "", change, "cloud-controller")
        except Refusal:
            return  # it has not joined yet

    # ------------------------------------------------------------------------------------ API server

    def cut_watches(self, fault: kinds.WatchCut) -> None:
        self._again(fault, self.cut_watches)
        for watch in list(self._cluster.api.watches):
            watch.cut()

    def forget_history(self, fault: kinds.HistoryGone) -> None:
        self._again(fault, self.forget_history)
        for kind in KINDS:
            self._cluster.store.compact(kind)
        self._cluster.api.pages.forget_tokens()
        for watch in list(self._cluster.api.watches):
            watch.cut()

    def restore_history(self, fault: kinds.HistoryRestored) -> None:
        at = self._cluster.runtime.monotonic() - fault.seconds
        version = next((version for moment, version in reversed(self._versions) if moment <= at), 0)
        self._cluster.store.go_back(version, "etcd")
        self.forget_history(kinds.HistoryGone())

    def _again(self, fault: Any, act: Callable[[Any], None]) -> None:
        if fault.seconds and fault in self.active.of(type(fault)):
            after(fault.seconds, lambda: act(fault) if fault in self.active.of(type(fault)) else None)

    # ----------------------------------------------------------------------------------------- growth

    def aim_at_leader(self, fault: kinds.Fault) -> None:
        """One growth alone has no election: it is the one."""
        for number, process in enumerate(self.replicas):
            if process is not None and process.election is not None and process.election.fence.holds():
                self.active.aim(fault, number)

    def step_clock(self, fault: kinds.ClockStep, *, is_over: bool = False) -> None:
        for number, process in enumerate(self.replicas):
            if process is not None and fault.replica in (None, number):
                process.runtime.skew_seconds = 0.0 if is_over else fault.seconds


def _with_interruption(node: Json) -> None:
    taints = node.setdefault("spec", {}).setdefault("taints", [])
    if INTERRUPTED not in taints:
        taints.append(INTERRUPTED)


Act = Callable[[FaultSchedule, Any], None]

_BEGINNINGS: Final[dict[type[kinds.Fault], Act]] = {
    kinds.Vanish: FaultSchedule.vanish,
    kinds.PoweredOff: FaultSchedule.power_off,
    kinds.Interruption: FaultSchedule.interrupt,
    kinds.NotReady: FaultSchedule.silence_nodes,
    kinds.WatchCut: FaultSchedule.cut_watches,
    kinds.HistoryGone: FaultSchedule.forget_history,
    kinds.HistoryRestored: FaultSchedule.restore_history,
    kinds.ClockStep: FaultSchedule.step_clock,
    kinds.LabelsLost: FaultSchedule.lose_labels,
    kinds.LeaseLost: FaultSchedule.aim_at_leader,
    kinds.LeaseSlow: FaultSchedule.aim_at_leader,
}
_ENDS: Final[dict[type[kinds.Fault], Act]] = {
    kinds.ClockStep: partial(FaultSchedule.step_clock, is_over=True),
}
