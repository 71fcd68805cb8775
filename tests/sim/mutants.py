"""Does the simulation notice when growth is wrong? Planted bugs, each switched on by wrapping functions of growth for
one simulation only.

Each row names a bug, the world in which it shows, the law that it breaks there, and a seed of that world in which it
does. `python -m tests.sim.mutants` looks for such seeds, of all bugs or of those that are named; a bug that no seed
catches means that a law or a world is missing. A seed counts only if growth without the bug passes it. The tests replay
the known seeds. `python -m tests.sim.mutants --page` writes the page of the bugs.
"""

from __future__ import annotations

import inspect
import logging
import multiprocessing
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

import structlog
from msgspec import Struct

from growth.sim.laws import LAWS
from growth.sim.laws.settled import SETTLED_LAWS
from growth.sim.stories.simulation import Report, Wish, simulate
from tests.sim.bugs import buying, others, removing

SEEDS_OF_A_HUNT: Final = 200
SEEDS_OF_A_REPLAY: Final = 5
PAGE: Final = Path("docs/reference/planted-bugs.md")


class Mutant(Struct, frozen=True):
    """A bug, the world in which it shows, the law it breaks there, and the seed in which it is known to."""

    plant: Callable[[], Any]
    behaviours: tuple[str, ...]
    faults: tuple[str, ...] = ()
    law: str = ""
    number: int = 0
    is_patient: bool = False  # other laws are broken long before

    @property
    def wish(self) -> Wish:
        return Wish(self.behaviours, self.faults, stops_early=True, stops_at=self.law if self.is_patient else "")

    @property
    def sentence(self) -> str:
        return " ".join((inspect.getdoc(self.plant) or "").split())


MUTANTS: Final[dict[str, Mutant]] = {
    "second name": Mutant(
        buying.second_name,
        ("burst", "churn"),
        ("cloud lost_after_effect",),
        law="one machine for each request",
        number=1,
    ),
    "no limits": Mutant(buying.no_limits, ("pool too small", "limited pool"), law="within limits"),
    "gate ignores records": Mutant(buying.gate_ignores_records, ("burst",), law="live before launch"),
    "foreign machines": Mutant(buying.foreign_machines, ("strangers", "burst"), law="only ours"),
    "forgets what is on its way": Mutant(
        buying.forgets_what_is_on_its_way, ("burst", "churn"), law="pods without a place"
    ),
    "spins on sold out": Mutant(buying.spins_on_sold_out, ("burst", "sold out"), law="struck out"),
    "ignores pause": Mutant(buying.ignores_pause, ("paused pool",), law="not while paused"),
    "unknown is absent": Mutant(
        buying.unknown_is_absent,
        ("scale to zero", "churn"),
        ("cloud server_error", "cloud lingers_seconds"),
        law="only allowed writes",
    ),
    "collects what ran": Mutant(buying.collects_what_ran, ("node deleted", "burst"), law="only ours"),
    "never learns": Mutant(buying.never_learns, ("haunted pool",), law="no runaway"),
    "never learns from broken images": Mutant(buying.never_learns, ("broken buffer",), law="few in vain"),
    "no limits of all pools": Mutant(buying.no_limits_of_all, ("limits of all",), law="within limits of all"),
    "forgets the minimum": Mutant(buying.forgets_the_minimum, ("minimum",), law="missing minimum", number=1),
    "no limits of types": Mutant(buying.no_limits_of_types, ("pool too small",), law="within limits"),
    "no limits of price": Mutant(buying.no_limits_of_price, ("limited pool",), law="within limits"),
    "orders do not count": Mutant(buying.orders_do_not_count, ("pool too small", "limited pool"), law="within limits"),
    "never Ready never strikes": Mutant(
        buying.never_ready_never_strikes, ("broken image",), law="few in vain", number=1
    ),
    "forgets the day": Mutant(buying.forgets_the_day, ("broken image",), law="few in vain"),
    "pauses for ever": Mutant(buying.pauses_for_ever, ("broken image",), law="pods without a place"),
    "buys for running pods": Mutant(buying.buys_for_running_pods, ("burst", "churn"), law="real demand"),
    "buys the minimum again": Mutant(buying.buys_the_minimum_again, ("minimum",), law="real demand"),
    "buys twice": Mutant(buying.buys_twice, ("burst",), law="bought once", number=1),
    "forgets its predecessor's orders": Mutant(
        buying.forgets_orders_of_its_predecessor,
        ("churn", "second thoughts"),
        ("provider late", "growth crashes"),
        law="recorded when it comes",
    ),
    "releases too early": Mutant(
        buying.releases_too_early, ("called off",), ("provider late", "launch errors"), law="recorded when it comes"
    ),
    "waits for machines for ever": Mutant(
        buying.waits_for_machines_for_ever, ("burst", "churn"), ("cloud never_boots",), law="requests without a machine"
    ),
    "orphans are left": Mutant(buying.orphans_are_left, ("erased records",), law="machines without a record"),
    "gate asks nobody whose machine": Mutant(
        buying.gate_asks_nobody_whose_machine, ("come and go", "scale to zero"), ("labels lost",), law="only ours"
    ),
    "Hetzner deletes strangers": Mutant(buying.hetzner_deletes_strangers, ("at Hetzner",), law="only ours"),
    "Hetzner takes any name": Mutant(
        buying.hetzner_takes_any_name,
        ("at Hetzner",),
        ("launch errors", "provider late"),
        law="one machine for each request",
        number=9,
    ),
    "own clock": Mutant(
        buying.own_clock, ("sick and needed",), ("growth's clock steps",), law="few while braked", number=5
    ),
    "brake does not hold purchases": Mutant(
        buying.brake_does_not_hold_purchases, ("sick and needed",), law="few while braked"
    ),
    "gate ignores pods": Mutant(
        removing.gate_ignores_pods, ("scale to zero", "tolerant guests"), law="live before delete", number=1
    ),
    "kills what runs": Mutant(removing.kills_what_runs, ("tolerant guests", "pool made anew"), law="nobody is killed"),
    "below minimum": Mutant(removing.below_minimum, ("minimum",), law="traces left behind", number=2),
    "no budget": Mutant(removing.no_budget, ("thinned out",), law="within disruption budgets", number=9),
    "moves the protected": Mutant(removing.moves_the_protected, ("thinned out",), law="protected pods stay", number=2),
    "moves without room": Mutant(removing.moves_without_room, ("thinned out",), law="zero writes at rest"),
    "gives back spare room": Mutant(removing.gives_back_spare_room, ("spare room",), law="declared room", number=1),
    "no brake": Mutant(removing.no_brake, ("sick nodes",), law="not while braked"),
    "brake without end": Mutant(removing.brake_without_end, ("come and go",), law="empty nodes"),
    "disturbs protected nodes": Mutant(
        removing.disturbs_protected_nodes, ("protected nodes",), law="protected nodes stay"
    ),
    "a wish counts before the mark only": Mutant(
        removing.a_wish_counts_before_the_mark_only, ("protected nodes",), law="protected nodes stay", number=1
    ),
    "deletes before it writes": Mutant(
        removing.deletes_before_it_writes, ("come and go",), law="removal is written first"
    ),
    "gives up at once": Mutant(removing.gives_up_at_once, ("come and go",), law="phases move forward"),
    "takes back what may be deleted": Mutant(
        removing.takes_back_what_may_be_deleted,
        ("second thoughts",),
        ("cloud lost_before_effect", "cloud refuses_delete"),
        law="irrevocable is kept",
        number=2,
    ),
    "deletes pods": Mutant(removing.deletes_pods, ("thinned out",), law="only evictions"),
    "evicts from marked nodes": Mutant(
        removing.evicts_from_marked_nodes, ("tolerant guests", "scale to zero"), law="removal before eviction"
    ),
    "evicts again and again": Mutant(
        removing.evicts_again_and_again, ("operators",), law="few evictions of one owner", number=5
    ),
    "keeps empty nodes": Mutant(removing.keeps_empty_nodes, ("come and go",), law="empty nodes"),
    "never lets a pool go": Mutant(removing.never_lets_a_pool_go, ("pool made anew",), law="traces left behind"),
    "trusts labels": Mutant(removing.trusts_labels, ("foreign nodes", "scale to zero"), law="strangers are left alone"),
    "nodes down is blind": Mutant(removing.nodes_down_is_blind, ("come and go",), law="traces left behind"),
    "drops foreign taints": Mutant(
        others.drops_foreign_taints, ("burst", "scale to zero"), ("nodes flap",), law="only allowed writes"
    ),
    "restless": Mutant(others.restless, ("burst",), law="zero writes at rest"),
    "keeps start-up taint": Mutant(others.keeps_startup_taint, ("burst",), law="traces left behind"),
    "beyond its bounds": Mutant(others.beyond_its_bounds, ("warm pool",), law="only replicas within bounds", number=8),
    "no fence": Mutant(others.no_fence, ("burst",), ("two growths",), law="only the leader writes"),
    "writes labels of others": Mutant(others.writes_labels_of_others, ("scale to zero",), law="only allowed writes"),
    "says nothing": Mutant(others.says_nothing, ("hopeless",), law="pods without a place"),
    "labels pods": Mutant(others.labels_pods, ("burst",), law="only allowed writes"),
    "writes specs of pools": Mutant(others.writes_specs_of_pools, ("burst",), law="only allowed writes"),
    "tells a wrong constraint": Mutant(
        others.tells_a_wrong_constraint, ("hopeless", "tainted pool"), law="the true reason"
    ),
    "tells a wrong limit": Mutant(others.tells_a_wrong_limit, ("hopeless", "tainted pool"), law="the true reason"),
    "tells no constraint": Mutant(others.tells_no_constraint, ("pool too small",), law="the true reason"),
    "waits for more": Mutant(others.waits_for_more, ("burst", "churn"), law="nobody waits for nothing"),
    "never tries again": Mutant(
        others.never_tries_again, ("burst", "sold out"), ("cloud stock-outs",), law="nobody waits for nothing"
    ),
    "stale is fresh": Mutant(
        others.stale_is_fresh, ("churn", "second thoughts"), ("deaf to one kind",), law="on fresh caches"
    ),
    "follows once": Mutant(others.follows_once, ("burst",), ("api watch_torn", "api watch_cut"), law="old caches"),
    "no term of office": Mutant(others.no_term_of_office, ("burst", "churn"), ("two growths",), law="one leads"),
    "no fence for long": Mutant(
        others.no_fence, ("burst", "churn"), ("two growths",), law="nothing of an earlier leader", is_patient=True
    ),
    "a task fails": Mutant(others.a_row_fails, ("burst",), law="no task fails"),
    "bind gate is open": Mutant(
        others.bind_gate_is_open, ("swarm",), ("api watch_lag_seconds",), law="no node is overcommitted", number=3
    ),
    "own scheduler does not look": Mutant(
        others.own_scheduler_does_not_look,
        ("impatient users", "queue"),
        ("api watch_lag_seconds",),
        law="no node is overcommitted",
        number=26,
    ),
    "buffers give way to nobody": Mutant(
        others.buffers_give_way_to_nobody, ("reserve in the way",), law="pods behind buffers"
    ),
    "binds before volumes": Mutant(others.binds_before_volumes, ("volumes",), law="volumes are bound first"),
    "forgets who waits longest": Mutant(others.forgets_who_waits_longest, ("queue",), law="nobody is overtaken"),
    "buys nothing for buffers": Mutant(others.buys_nothing_for_buffers, ("spare room",), law="declared room", number=2),
    "scales in steps": Mutant(others.scales_in_steps, ("warm pool",), law="scales are apart", number=2),
    "tries without pause": Mutant(
        others.scales_without_pause, ("kept warm",), ("subresource refused",), law="tries are apart", number=8
    ),
    "takes replicas in use": Mutant(others.takes_replicas_in_use, ("kept warm",), law="used replicas stay", number=31),
    "never scales": Mutant(others.never_scales, ("warm pool",), law="warm pools"),
}


def seed_of(name: str, number: int) -> str:
    return f"{name}-{number}"


def hunt(name: str) -> tuple[int, Report] | None:
    """The first seed in which the bug breaks its law, and growth without it none; None if there is none."""
    mutant = MUTANTS[name]
    for number in range(SEEDS_OF_A_HUNT):
        seed = seed_of(name, number)
        with mutant.plant():
            caught = simulate(seed, wish=mutant.wish)
        if mutant.law in {each.law for each in caught.violations} and simulate(seed, wish=mutant.wish).succeeded:
            return number, caught
    return None


def replay(name: str) -> set[str]:
    """The laws that the bug breaks in the seed in which it is known to show. A change elsewhere in growth can shift the
    moment that a seed hits: then the seeds that follow are asked, a few of them.
    """
    mutant, broken = MUTANTS[name], set[str]()
    for number in range(mutant.number, mutant.number + SEEDS_OF_A_REPLAY):
        with mutant.plant():
            broken |= {each.law for each in simulate(seed_of(name, number), wish=mutant.wish).violations}
        if mutant.law in broken:
            break
    return broken


def laws() -> dict[str, str]:
    """Every law by its name, with its sentence."""
    found = {law.name: law.sentence for law in LAWS}
    return found | {name: inspect.getdoc(law) or "" for name, law in SETTLED_LAWS.items()} | OF_THE_RUN


WITHOUT_A_BUG: Final[dict[str, str]] = {}

OF_THE_RUN: Final = {
    "zero writes at rest": "When everything has settled and records have expired, growth writes nothing any more.",
    "no task fails": "No task of growth ends with an error.",
}


def page() -> str:
    """For people: which bugs are planted, and which law catches each."""
    lines = [
        "# Planted bugs",
        "",
        "What would the simulation notice? Each row is a mistake that growth could make. A test plants it, runs the",
        "seed of the world that is named, and fails unless the law is broken there. `make mutants` looks for such",
        "seeds. This page is made from the code (`tests/sim/mutants.py`); every law has a bug, but for those that the",
        "table of laws names.",
        "",
        f"{len(MUTANTS)} bugs, {len(laws())} laws.",
        "",
        "| bug | what is wrong | breaks the law | in a world of | with the faults | seed |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, each in sorted(MUTANTS.items(), key=lambda item: (item[1].law, item[0])):
        cells = (name, each.sentence, each.law, ", ".join(each.behaviours), ", ".join(each.faults) or "none")
        lines.append(f"| {' | '.join(cells)} | {each.number} |")
    lines += ["", "## The laws", "", "| law | |", "| --- | --- |"]
    for name, sentence in sorted(laws().items()):
        without = f" (Without a bug: {WITHOUT_A_BUG[name]}.)" if name in WITHOUT_A_BUG else ""
        lines.append(f"| {name} | {' '.join(sentence.split())}{without} |")
    return "\n".join(lines) + "\n"


def main(names: list[str]) -> int:
    """Plant every bug, or those that are named; each must break its law within its seeds."""
    if names == ["--page"]:
        PAGE.write_text(page())
        return 0
    wanted, missed, context = names or list(MUTANTS), 0, multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count() or 1, context, initializer=_be_quiet) as workers:
        for name, found in zip(wanted, workers.map(hunt, wanted), strict=True):
            missed += found is None
            said = "NOT CAUGHT" if found is None else f"caught by seed {found[0]}: {found[1].violations[0]}"
            print(f"{name:<34} {said[:150]}", flush=True)
    print(f"{len(wanted)} planted bugs, {missed} not caught")
    return 1 if missed else 0


def _be_quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
