"""Bugs planted in how growth gives nodes back: the gate before a delete, the brake, drains, budgets, protection, marks.

Rows of the table in `tests/sim/mutants.py`; each function wraps growth for one simulation only, and its docstring says
what is wrong."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from growth.kube.api.resources import PODS
from growth.model.action import DeleteMachine, EvictPod, HoldNodePool
from growth.model.decision import Decision
from growth.model.node import OFFERING_LABEL, POOL_LABEL
from growth.model.outcome import Accepted
from growth.plan.buffers.placement import NO_PLACEMENT
from growth.plan.world.machines import Owner
from growth.plan.world.turn import seen
from tests.sim.planting import acting, now, open_gate, replaced, rows_with


def gate_ignores_pods() -> Any:
    """The gate does not look for pods before a delete."""
    return replaced(gate_pods=open_gate)


def below_minimum() -> Any:
    """Scale-down does not know about min."""
    return replaced(minimum=lambda *_: 0)


def no_budget() -> Any:
    """Consolidation does not know about disruption budgets."""
    return replaced(budget=lambda *_, **__: 1000)


def moves_the_protected() -> Any:
    """A pod that must not be disrupted is moved like any other."""
    return replaced(protected_for_plan=lambda *_: False, protected_for_drain=lambda *_: False)


def moves_without_room() -> Any:
    """Nodes are emptied whether or not their pods fit elsewhere."""

    def why_left_alone(self: Any, node: Any) -> Any:
        return self.why_left_alone(node)

    def nothing(*_: Any, **__: Any) -> None:
        return None

    return replaced(stays=why_left_alone, stuck=nothing, choose=nothing, wanted=lambda *_: False)


def gives_back_spare_room() -> Any:
    """Scale-down does not know about CapacityBuffers."""
    return replaced(kept=lambda *_: NO_PLACEMENT)


def no_brake() -> Any:
    """Nodes are given up however many fail at once."""
    return replaced(brake=lambda *_: "")


def disturbs_protected_nodes() -> Any:
    """A node that must not be disturbed is treated like any other."""
    places = ("", "_for_swaps", "_for_what_if", "_for_buffers")
    return replaced(**{f"protected_node{place}": lambda *_: False for place in places})


def brake_without_end() -> Any:
    """The brake holds although every node is well."""
    return replaced(brake_held=lambda *_: "nodes failed once")


def kills_what_runs() -> Any:
    """Pods on a node do not keep its machine, neither in the plan nor at the gate."""

    async def look_away(self: Any, removal: Any) -> None:
        await look(self, removal)

    def no_pods(self: Any, removal: Any) -> Any:
        del self, removal
        return (), ()

    look = now("gate_pods")
    return replaced(gate_pods=look_away, removal_pods=no_pods)


def deletes_before_it_writes() -> Any:
    """The provider is asked before the removal says Deprovisioning."""
    asked: set[str] = set()

    def ask_at_once(plan: Any, snapshot: Any, ledger: Any, settings: Any) -> Any:
        due = [each for each in snapshot.removals.values() if each.spec.machine_id and each.uid not in asked]
        asked.update(each.uid for each in due)
        deletes = tuple(DeleteMachine(seen(each), each.spec.node_name, each.spec.machine_id, "") for each in due)
        decision = plan(snapshot, ledger, settings)
        return replace(decision, actions=deletes) if due else decision

    return replaced(rows=rows_with("removal", ask_at_once), gate_delete=open_gate)


def gives_up_at_once() -> Any:
    """A removal counts as failed before it was attempted."""
    return replaced(attempt=lambda self, removal, *_: _fail(self, removal))


def _fail(self: Any, removal: Any) -> None:
    action, notes = now("give_up")(removal, self._snapshot, "all attempts are spent")
    self._turn.do(action)
    self._turn.tell(*notes)


def takes_back_what_may_be_deleted() -> Any:
    """A removal is taken back although its delete may have been accepted."""
    return replaced(may_be_taken_back=lambda *_: True)


def deletes_pods() -> Any:
    """Pods are deleted, and their eviction is not asked for."""

    async def delete(tools: Any, action: Any) -> Any:
        await tools.client.delete(PODS, action.pod.name, action.pod.namespace, uid=action.pod.uid)
        return Accepted()

    return replaced(effects=acting(EvictPod, delete))


def evicts_from_marked_nodes() -> Any:
    """Pods that come to a marked node are evicted before any removal says why."""

    def evict(plan: Any, snapshot: Any, ledger: Any, settings: Any) -> Any:
        decision = plan(snapshot, ledger, settings)
        marked = [name for name, node in snapshot.nodes.items() if node.is_marked and name not in snapshot.removals]
        pods = [pod for name in marked for pod in snapshot.pods_by_node.get(name, ()) if pod.counts_as_work]
        return replace(decision, actions=(*decision.actions, *(EvictPod(seen(pod)) for pod in pods)))

    return replaced(rows=rows_with("scale-down", evict))


def evicts_again_and_again() -> Any:
    """A pod that tolerates the mark and came back is evicted like any other, over and over."""
    return replaced(returned_for_drain=lambda *_: False, returned_for_removal=lambda *_: False)


def keeps_empty_nodes() -> Any:
    """Nodes without pods are never marked."""
    return replaced(mark_idle=lambda *_: None)


def never_lets_a_pool_go() -> Any:
    """The finalizer of a pool stays when nothing of the pool is left."""

    async def only_hold(tools: Any, action: Any) -> Any:
        return await hold(tools, action) if action.holds else Accepted()

    hold = now("effects")[HoldNodePool].perform
    return replaced(effects=acting(HoldNodePool, only_hold))


def a_wish_counts_before_the_mark_only() -> Any:
    """A node that is protected after it was marked goes all the same."""
    return replaced(
        kept_at_gate=lambda *_: False,
        kept_in_removal=lambda *_: False,
        protected_node=lambda *_: False,
    )


def trusts_labels() -> Any:
    """Every node that carries growth's labels is taken for growth's own."""
    return replaced(owner=lambda node, *_: _claimed(node))


def _claimed(node: Any) -> Any:
    pool = node.labels.get(POOL_LABEL, "")
    return Owner(pool, node.labels.get(OFFERING_LABEL, "")) if pool else None


def nodes_down_is_blind() -> Any:
    """The row that removes machines fails as soon as there is one to remove."""

    def fail(plan: Any, snapshot: Any, ledger: Any, settings: Any) -> Decision[Any]:
        if snapshot.removals:
            raise ZeroDivisionError
        decision: Decision[Any] = plan(snapshot, ledger, settings)
        return decision

    return replaced(rows=rows_with("removal", fail))
