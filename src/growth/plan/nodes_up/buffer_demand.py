"""What is bought so that every buffer has its room? Asked by scale-up, only when no pod that exists wants to be asked
about.

So a real pod is never planned later, or elsewhere, because of a buffer; and since virtual pods are only ever counted,
the question is as small as the number of buffers. Within the pools' limits, like everything that is bought.

| a buffer | then |
| --- | --- |
| all its virtual pods have room, or room on its way | nothing |
| some have none | asked about once the number has been quiet for a moment |
| some could not be placed | tried again as a pod would be: with patience, or when more can be had (`plan/nodes_up/waiting`) |
| three machines bought for it came and hold none of it | nothing more is bought for it while they are remembered |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import CreateNodeRequest
from growth.model.noderequest import READY
from growth.model.note import About, Note
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import NOTHING_KEPT, Kept, keep, look_seconds, occupied_rooms, virtual_demands
from growth.plan.buffers.virtual_pods import Spare, planned_entries, planned_entry
from growth.plan.nodes_up.demand import Demand
from growth.plan.nodes_up.outlook import Outlook
from growth.plan.nodes_up.runaway import MOST_IN_VAIN
from growth.plan.nodes_up.waiting import Wait, after_miss, is_over, with_prospects
from growth.plan.world.limits import Allowance, allowances, members
from growth.plan.world.market import Market
from growth.plan.world.nodes import working_pods
from growth.plan.world.orders import Purchases, create_request
from growth.plan.world.problem import placement_problem, with_settings
from growth.plan.world.records import cut, sooner
from growth.solver.purchase.problem import Choice, PlacementProblem, PlacementSolution
from growth.solver.rules.fit import fits_alone, free_amounts

_LONGEST_ENTRY: Final = 317  # of a planned pod in the API
_LONGEST_MESSAGE: Final = 1000


class SpareLedger(Struct, frozen=True):
    """What is remembered of buffers between two looks."""

    counts: Mapping[str, int] = {}  # missing, as last seen
    began_at: float = 0.0
    changed_at: float = 0.0
    looked_at: float = 0.0
    waits: Mapping[str, Wait] = {}


class Wanting(Struct, frozen=True):
    """Buffers that want something bought; `closes_at` is when the numbers have been quiet for long enough."""

    ledger: SpareLedger = SpareLedger()
    kept: Kept = NOTHING_KEPT
    spares: tuple[Spare, ...] = ()
    market: Market = Market((), {}, None)
    allowances: tuple[Allowance, ...] = ()
    closes_at: float = 0.0
    again_at: float | None = None


def look_at_spares(
    snapshot: Snapshot,
    before: SpareLedger,
    market_of: Callable[[Collection[str]], Market],
    closed: Collection[str],
    settings: Settings,
) -> Wanting:
    """`closed`: pools that refuse orders."""
    now = snapshot.now
    next_look_at = before.looked_at + look_seconds(snapshot, settings)
    if before.looked_at <= now < next_look_at:
        return Wanting(before, again_at=next_look_at)
    kept = keep(snapshot, settings)
    short = [spare for spare in kept.spares if spare.key in kept.missing and spare.pools]
    if not short:
        return Wanting(SpareLedger(looked_at=now), kept)
    market = market_of(sorted({name for spare in short for name in spare.pools if name not in closed}))
    allowed = allowances(snapshot.pools, settings.limits, members(snapshot))
    outlook = Outlook(snapshot.pools, market, allowed, None)
    found = _with_patience(short, kept, snapshot, before, outlook, settings)
    return replace(
        found, kept=kept, market=market, allowances=allowed, again_at=sooner(found.again_at, market.reopens_at)
    )


def _with_patience(
    short: list[Spare], kept: Kept, snapshot: Snapshot, before: SpareLedger, outlook: Outlook, settings: Settings
) -> Wanting:
    now, waits, again = snapshot.now, dict[str, Wait](), list[float]()
    barred, wanted = _in_vain(kept, snapshot), []
    for spare in short:
        wait, prospects = before.waits.get(spare.key), outlook.of(_as_demand(spare))
        if spare.key not in barred and (wait is None or is_over(wait, now, prospects)):
            wanted.append(spare)
        elif wait is not None:
            again += [] if wait.is_backed_off else [wait.until]
        if wait is not None:
            waits[spare.key] = with_prospects(wait, prospects, outlook.not_looked_at)
    counts = {spare.key: kept.missing[spare.key] for spare in wanted}
    began_at = before.began_at if before.counts else now
    changed_at = before.changed_at if counts == before.counts else now
    closes_at = min(changed_at + settings.batch_quiet_seconds, began_at + settings.batch_longest_seconds)
    again += [closes_at] if wanted and closes_at > now else []
    return Wanting(
        SpareLedger(counts, began_at, changed_at, now, waits),
        spares=tuple(wanted),
        closes_at=closes_at,
        again_at=sooner(*again),
    )


def _as_demand(spare: Spare) -> Demand:
    return Demand(Pod(spare.buffer.name, spare.shape), spare.pools, spare.shape)


def _in_vain(kept: Kept, snapshot: Snapshot) -> frozenset[str]:
    """Buffers for which three machines came, empty, and have no room for a single chunk: a fourth would not either."""
    shapes = {spare.key: spare.shape for spare in kept.spares}
    failed: dict[str, int] = {}
    for name in sorted(snapshot.requests):
        request, node = snapshot.requests[name], snapshot.nodes.get(name)
        if request.phase != READY or node is None or working_pods(snapshot, name):
            continue
        free = free_amounts(
            node.allocatable, (pod.shape for pod in snapshot.pods_by_node.get(name, ()) if not pod.is_finished)
        )
        for key in planned_entries(request.planned_pods):
            shape = shapes.get(key)
            if shape is not None and not fits_alone(shape, node, free):
                failed[key] = failed.get(key, 0) + 1
    return frozenset(key for key, count in failed.items() if count >= MOST_IN_VAIN)


# ------------------------------------------------------------------------------------- the question


class SpareQuestion(Struct, frozen=True):
    """What is put to the solver: the virtual pods that have no room, beside those that have."""

    problem: PlacementProblem
    wanting: Wanting


def spare_question(found: Wanting, snapshot: Snapshot, settings: Settings) -> SpareQuestion | None:
    if not found.spares or snapshot.now < found.closes_at:
        return None
    demands = virtual_demands(found.spares, found.kept.missing)
    problem = placement_problem(snapshot, demands, occupied_rooms(found.kept), found.market, found.allowances)
    return SpareQuestion(with_settings(problem, settings), found)


# --------------------------------------------------------------------------------------- the answer


class Bought(Struct, frozen=True):
    """The solver's answer as orders and words; `left` are the reasons of buffers that did not get all their room."""

    actions: tuple[CreateNodeRequest, ...] = ()
    notes: tuple[Note, ...] = ()
    left: Mapping[str, tuple[str, ...]] = {}


def buy(question: SpareQuestion, solution: PlacementSolution, snapshot: Snapshot) -> Bought:
    """An order that would break a limit is not made, whatever the answer says."""
    asked, purchases = question.wanting.spares, Purchases(snapshot, question.wanting.allowances)
    actions, choices = [], []
    left = {asked[each.demand].key: each.reasons for each in solution.unplaced}
    for node in solution.nodes:
        choice = question.problem.choices[node.choice]
        why_not = purchases.add(choice)
        contents = {asked[index].key: count for index, count in node.contents}
        if why_not:
            left |= {key: (*left.get(key, ()), why_not) for key in contents}
            continue
        entries = tuple(
            entry for key, count in contents.items() if len(entry := planned_entry(key, count)) <= _LONGEST_ENTRY
        )
        actions.append(create_request(choice, snapshot, "Buffer", entries))
        choices.append((choice, contents))
    return Bought(tuple(actions), (*_of_pools(choices, snapshot), *_of_left(left, asked)), left)


def _of_pools(orders: list[tuple[Choice, dict[str, int]]], snapshot: Snapshot) -> tuple[Note, ...]:
    notes = []
    for name in sorted({choice.pool for choice, _ in orders}):
        mine = [(choice.offering, contents) for choice, contents in orders if choice.pool == name]
        pods, price = (
            sum(sum(contents.values()) for _, contents in mine),
            sum(offering.price_per_hour for offering, _ in mine),
        )
        buffers = sorted({key for _, contents in mine for key in contents})
        told = ", ".join(buffers[:3]) + (f" and {len(buffers) - 3} more" if len(buffers) > 3 else "")
        message = f"orders {len(mine)} nodes for {pods} virtual pods of CapacityBuffer {told}, {price:.4f} per hour"
        fields = (("nodes", len(mine)), ("pods", pods), ("price_per_hour", round(price, 6)))
        notes.append(
            Note(About("NodePool", name, uid=snapshot.pools[name].uid), "BufferScaleUp", message, fields=fields)
        )
    return tuple(notes)


def _of_left(left: Mapping[str, tuple[str, ...]], asked: tuple[Spare, ...]) -> tuple[Note, ...]:
    return tuple(
        Note(
            about_buffer(spare),
            "Unplaced",
            cut("no room for all of this buffer: " + "; ".join(dict.fromkeys(left[spare.key])), _LONGEST_MESSAGE),
            "Warning",
        )
        for spare in asked
        if spare.key in left
    )


def about_buffer(spare: Spare) -> About:
    return About("CapacityBuffer", spare.buffer.name, spare.buffer.namespace, spare.buffer.uid)


def after_buying(question: SpareQuestion, bought: Bought, snapshot: Snapshot, settings: Settings) -> SpareLedger:
    """Whoever was placed waits no longer; the others have missed once more."""
    found = question.wanting
    outlook = Outlook(snapshot.pools, found.market, found.allowances, None)
    before, now = found.ledger.waits, snapshot.now
    missed = {
        spare.key: after_miss(before.get(spare.key), now, settings, outlook.of(_as_demand(spare)))
        for spare in found.spares
        if spare.key in bought.left
    }
    return SpareLedger(
        looked_at=now, waits={**{key: wait for key, wait in before.items() if key not in found.ledger.counts}, **missed}
    )
