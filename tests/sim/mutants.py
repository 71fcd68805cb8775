"""Does the simulation notice when growth is wrong? Planted bugs, each switched on by wrapping functions of growth for
one simulation only.

`python -m tests.sim.mutants` plants all of them, one after the other. Each row names a bug, where it shows, and the
wrapping; a bug that no seed of its hunt catches means that a law or a fault is missing. A seed counts only if growth
without the bug passes it."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import ReadyNode, WriteNodePoolStatus
from growth.model.offering import CLUSTER_LABEL
from growth.model.outcome import Accepted, Unknown
from growth.plan.buffers.placement import NO_PLACEMENT
from growth.plan.warm_pools.size import Clamped
from growth.plan.world.trials import Standing
from growth.plan.world.turn import seen
from growth.providers.contract import Gone, ProviderError
from growth.sim.stories.simulation import Report, Wish, simulate
from tests.sim import guards
from tests.sim.planting import now, open_gate, replaced, rows_with

SEEDS_OF_A_HUNT: Final = 12


# ----------------------------------------------------------------------------------------- the bugs


def second_name() -> Any:
    """A launch without an answer is tried again under another name."""

    async def launch_again(self: Any, order: Any) -> Any:
        outcome = await launch(self, order)
        return await launch(self, replace(order, name=f"{order.name}x")) if isinstance(outcome, Unknown) else outcome

    launch = now("launch")
    return replaced(launch=launch_again)


def no_limits() -> Any:
    """Limits are counted neither in the plan nor at the gate."""
    return replaced(allowances=lambda *_: (), gate_limits=lambda *_: None, over_limit=lambda *_: {})


def gate_ignores_pods() -> Any:
    """The gate does not look for pods before a delete."""
    return replaced(gate_pods=open_gate)


def gate_ignores_records() -> Any:
    """A machine is bought without a live look at its request."""
    return replaced(gate_launch=open_gate)


def foreign_machines() -> Any:
    """Machines of others are taken for ours, and collected."""

    async def list_all(self: Any, cluster: str) -> Any:
        servers = self._cloud._cloud.servers.values()
        return tuple(
            replace(self._machine(server), labels=server.labels.with_items({CLUSTER_LABEL: cluster}))
            for server in servers
        )

    return replaced(list=list_all, gate_owner=open_gate, remembered=_forgetful)


def forgets_what_is_on_its_way() -> Any:
    """Machines on their way are not counted as room."""
    return replaced(expected_nodes=lambda *_: ())


def drops_foreign_taints() -> Any:
    """A node's taints are written without those of others."""

    async def write_own(hands: Any, node: Any, metadata: Any, taints: Any) -> Any:
        return await write(
            hands, node, metadata, tuple(taint for taint in taints if taint.key.startswith("growth.dev/"))
        )

    write = now("write_taints")
    return replaced(write_taints=write_own)


def restless() -> Any:
    """The status of pools is written again and again."""

    def plan_restlessly(plan: Any, snapshot: Any, ledger: Any, settings: Any) -> Any:
        decision = plan(snapshot, ledger, settings)
        again = [
            WriteNodePoolStatus(seen(pool), replace(pool.status, observed_generation=int(snapshot.now) // 30 + 100))
            for pool in snapshot.pools.values()
        ]
        return replace(decision, actions=(*decision.actions, *again), again_at=snapshot.now + 30)

    return replaced(rows=rows_with("pool status", plan_restlessly))


def keeps_startup_taint() -> Any:
    """The start-up taint is said to be off, and is not."""

    async def say_so(_tools: Any, _action: Any) -> Any:
        return Accepted()

    return replaced(
        effects={
            kind: replace(effect, perform=say_so) if kind is ReadyNode else effect
            for kind, effect in now("effects").items()
        }
    )


def spins_on_sold_out() -> Any:
    """An Unmet offering is not struck out."""
    return replaced(struck_out=lambda *_: {})


def ignores_pause() -> Any:
    """A paused pool buys on."""

    async def not_paused(*_: Any) -> None:
        return None

    return replaced(gate_closed=lambda *_: "", gate_paused=not_paused, launching=lambda *_: "", buying=lambda *_: "")


def unknown_is_absent() -> Any:
    """A provider that does not answer counts as one that has no such machine."""

    async def describe_boldly(self: Any, machine_id: str) -> Any:
        try:
            return await describe(self, machine_id)
        except ProviderError:
            return Gone()

    describe = now("describe")
    return replaced(describe=describe_boldly, surely_gone=lambda *_: True)


def collects_what_ran() -> Any:
    """A machine whose Node a user deleted is collected like one that never had a Node."""
    return replaced(remembered=_forgetful)


def _forgetful(snapshot: Any, ledger: Any) -> Any:
    """Nobody has ever had a node."""
    return replace(ledger, unborn=frozenset(snapshot.machines), joined=frozenset())


def below_minimum() -> Any:
    """Scale-down does not know about min."""
    return replaced(minimum=lambda *_: 0)


def never_learns() -> Any:
    """A pool buys again and again although its machines are of no use."""
    return replaced(standings=lambda snapshot: {name: Standing(name) for name in snapshot.pools})


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


def beyond_its_bounds() -> Any:
    """A warm pool is scaled as its policy wants, whatever its bounds are."""
    return replaced(clamped=lambda _spec, replicas: Clamped(replicas))


class Mutant(Struct, frozen=True):
    """A bug, where it shows, and, where that is known, which law it breaks in which seed of its hunt."""

    plant: Callable[[], Any]
    behaviours: tuple[str, ...]
    faults: tuple[str, ...] = ()
    law: str = ""
    number: int = 0

    @property
    def wish(self) -> Wish:
        return Wish(self.behaviours, self.faults, stops_early=True)


MUTANTS: Final[dict[str, Mutant]] = {
    "second name": Mutant(second_name, ("burst", "churn"), ("cloud lost_after_effect",)),
    "no limits": Mutant(no_limits, ("pool too small", "limited pool")),
    "gate ignores pods": Mutant(gate_ignores_pods, ("scale to zero", "tolerant guests")),
    "gate ignores records": Mutant(gate_ignores_records, ("burst",)),
    "foreign machines": Mutant(foreign_machines, ("strangers", "burst")),
    "forgets what is on its way": Mutant(forgets_what_is_on_its_way, ("burst", "churn")),
    "drops foreign taints": Mutant(drops_foreign_taints, ("burst", "scale to zero"), ("nodes flap",)),
    "restless": Mutant(restless, ("burst",)),
    "keeps start-up taint": Mutant(keeps_startup_taint, ("burst",)),
    "spins on sold out": Mutant(spins_on_sold_out, ("burst", "sold out")),
    "ignores pause": Mutant(ignores_pause, ("paused pool",)),
    "unknown is absent": Mutant(
        unknown_is_absent, ("scale to zero", "churn"), ("cloud server_error", "cloud lingers_seconds")
    ),
    "collects what ran": Mutant(collects_what_ran, ("node deleted", "burst")),
    "below minimum": Mutant(below_minimum, ("minimum",)),
    "never learns": Mutant(never_learns, ("haunted pool",)),
    "no budget": Mutant(no_budget, ("thinned out",)),
    "moves the protected": Mutant(moves_the_protected, ("thinned out",)),
    "moves without room": Mutant(moves_without_room, ("thinned out",)),
    "gives back spare room": Mutant(gives_back_spare_room, ("spare room",)),
    "beyond its bounds": Mutant(beyond_its_bounds, ("warm pool",)),
    "no brake": Mutant(guards.no_brake, ("sick nodes",), law="not while braked"),
    "no fence": Mutant(guards.no_fence, ("burst",), ("two growths",), law="only the leader writes"),
    "no limits of all pools": Mutant(guards.no_limits_of_all, ("limits of all",), law="within limits of all"),
    "disturbs protected nodes": Mutant(
        guards.disturbs_protected_nodes, ("protected nodes",), law="protected nodes stay", number=1
    ),
    "writes labels of others": Mutant(guards.writes_labels_of_others, ("scale to zero",), law="only allowed writes"),
    "says nothing": Mutant(guards.says_nothing, ("hopeless",), law="pods without a place"),
    "forgets the minimum": Mutant(guards.forgets_the_minimum, ("minimum",), law="missing minimum", number=1),
    "never learns from broken images": Mutant(never_learns, ("broken buffer",), law="few in vain"),
}


def hunt(name: str) -> Report | None:
    """The first seed in which the bug breaks a law that growth itself keeps; None if none does."""
    mutant = MUTANTS[name]
    for number in range(SEEDS_OF_A_HUNT):
        seed = f"{name}-{number}"
        with mutant.plant():
            caught = simulate(seed, wish=mutant.wish)
        if not caught.succeeded and simulate(seed, wish=mutant.wish).succeeded:
            return caught
    return None


def replay(name: str) -> set[str]:
    """The laws that the bug breaks in the seed in which it is known to show."""
    mutant = MUTANTS[name]
    with mutant.plant():
        return {violation.law for violation in simulate(f"{name}-{mutant.number}", wish=mutant.wish).violations}


def main() -> int:
    """Plant every bug; each must break a law within its seeds."""
    missed, context = 0, multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count() or 1, context, initializer=_be_quiet) as workers:
        for name, found in zip(MUTANTS, workers.map(hunt, MUTANTS), strict=True):
            missed += found is None
            said = (
                f"caught by seed {found.seed}: {found.violations[0].law}: {found.violations[0].what}" if found else ""
            )
            print(f"{name:<34} {(said or 'NOT CAUGHT')[:150]}", flush=True)
    print(f"{len(MUTANTS)} planted bugs, {missed} not caught")
    return 1 if missed else 0


def _be_quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


if __name__ == "__main__":
    raise SystemExit(main())
