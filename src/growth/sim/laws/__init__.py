"""What must never happen: the safety laws, checked after every write and every call at the cloud.

Each law is one small function: its docstring is the law, its answer is what broke it, or nothing. A new law is a new
row of LAWS. The laws of the end, when everything has settled, are in `sim/laws/settled`.

| moment | the function gets the witness and |
| --- | --- |
| ordered | the server that growth ordered; where the cloud makes it much later, that is not growth's doing |
| created, deleting | the server that was created, or is about to be deleted |
| written | the write, by growth or anybody else |
| sent, done | a call that left a growth, or a write of one that took effect |
| passed | whether nothing is broken: some seconds have passed |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from growth.providers.simulated import Server
from growth.sim.laws import machines, requests, waiting, warm_pools, writes
from growth.sim.laws.memory import Call
from growth.sim.laws.witness import Complaint, Witness


class Law(Struct, frozen=True):
    """A row: when it is looked at, and the function that is the law."""

    moment: str  # ordered | created | deleting | written | sent | done | passed
    check: Callable[[Witness, Any], Complaint]

    @property
    def name(self) -> str:
        return self.check.__name__.replace("_", " ")

    @property
    def sentence(self) -> str:
        return (self.check.__doc__ or "").strip()


LAWS: Final[tuple[Law, ...]] = (
    Law("created", machines.within_limits),
    Law("created", machines.one_machine_for_each_request),
    Law("created", machines.no_runaway),
    Law("ordered", machines.live_before_launch),
    Law("ordered", machines.not_while_paused),
    Law("created", machines.within_limits_of_all),
    Law("ordered", machines.few_in_vain),
    Law("ordered", machines.few_while_braked),
    Law("created", machines.recorded_when_it_comes),
    Law("ordered", machines.on_fresh_caches),
    Law("deleting", machines.nobody_is_killed),
    Law("deleting", machines.not_while_braked),
    Law("deleting", machines.protected_nodes_stay),
    Law("deleting", machines.on_fresh_caches),
    Law("deleting", machines.live_before_delete),
    Law("deleting", machines.only_ours),
    Law("deleting", machines.removal_is_written_first),
    Law("deleting", machines.not_while_paused),
    Law("ordered", requests.bought_once),
    Law("written", requests.real_demand),
    Law("written", requests.struck_out),
    Law("written", requests.phases_move_forward),
    Law("written", requests.irrevocable_is_kept),
    Law("written", writes.only_allowed_writes),
    Law("written", writes.strangers_are_left_alone),
    Law("written", writes.no_node_is_overcommitted),
    Law("written", writes.volumes_are_bound_first),
    Law("written", writes.only_evictions),
    Law("written", writes.removal_before_eviction),
    Law("written", writes.protected_pods_stay),
    Law("written", writes.few_evictions_of_one_owner),
    Law("written", writes.within_disruption_budgets),
    Law("written", warm_pools.only_replicas_within_bounds),
    Law("written", warm_pools.scales_are_apart),
    Law("written", warm_pools.used_replicas_stay),
    Law("sent", warm_pools.tries_are_apart),
    Law("passed", waiting.the_true_reason),
    Law("passed", waiting.nobody_waits_for_nothing),
    Law("passed", waiting.nobody_is_overtaken),
    Law("sent", writes.one_leads),
    Law("sent", writes.only_the_leader_writes),
    Law("done", writes.nothing_of_an_earlier_leader),
)


_LAWS_OF: Final = {each.moment: tuple(law for law in LAWS if law.moment == each.moment) for each in LAWS}
ORDER_AND_EFFECT: Final = ("ordered", "created")  # where the cloud does at once what it is asked for


class Violation(Struct, frozen=True):
    """A law that was broken, when and how."""

    at: float
    law: str
    what: str

    def __str__(self) -> str:
        return f"{self.at:9.2f}  {self.law}: {self.what}"


class Judge:
    """Looks at the laws whenever something happened; keeps what broke them. Never stops the world."""

    def __init__(self, witness: Witness) -> None:
        self.violations: list[Violation] = []
        self._witness = witness
        witness.cluster.store.on_write(lambda write: self._look("written", write))
        witness.cluster.shop.on_change.append(self._look_at_server)

    def _look_at_server(self, what: str, server: Server) -> None:
        if what == "delete":
            self._look("deleting", server)
        elif not self._witness.is_foreign(server):
            was_ordered_before = server.server_id in self._witness.cluster.shop.late
            for moment in ("ordered",) if what == "order" else ("created",) if was_ordered_before else ORDER_AND_EFFECT:
                self._look(moment, server)

    def hear_call(self, call: Call) -> None:
        self._witness.hear_sent(call)
        self._look("sent", call)

    def hear_effect(self, call: Call) -> None:
        self._look("done", call)

    def hear_time(self, *, is_calm: bool) -> None:
        """Some seconds have passed; in a calm world nothing is broken, and a growth leads."""
        self._look("passed", is_calm)

    def _look(self, moment: str, subject: Any) -> None:
        for law in _LAWS_OF[moment]:
            if complaint := law.check(self._witness, subject):
                self.accuse(law.name, complaint)

    def accuse(self, law: str, what: str) -> None:
        self.violations.append(Violation(self._witness.now, law, what))
