"""What does scale-up know before it asks the solver? Gathers, from one snapshot and its memory, who needs a place and
what there is to give.

Asked by scale-up only. Nothing is ordered here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from growth.model.nodepool import NodePool
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_up.buffer_demand import SpareLedger, Wanting, look_at_spares
from growth.plan.nodes_up.demand import Demand, Problem, demands
from growth.plan.nodes_up.minimum import lacks_minimum, missing_minimum
from growth.plan.nodes_up.outlook import Outlook
from growth.plan.nodes_up.runaway import InVain, Verdict, judge, observe
from growth.plan.nodes_up.waiting import Wait, is_over, with_prospects
from growth.plan.world.capacity import Assignments, assignments, holders, may_hold, rooms
from growth.plan.world.limits import Allowance, allowances, members
from growth.plan.world.market import Learned, Market, corrected, learn, open_market, struck_since
from growth.plan.world.orders import Orders
from growth.plan.world.pools import OfferingKey
from growth.plan.world.records import sooner
from growth.solver.purchase.problem import Choice, Pattern, Room


class Batch(Struct, frozen=True):
    """Pods that arrive close together are planned together."""

    began_at: float
    grew_at: float
    pods: frozenset[str]


class Ledger(Struct, frozen=True):
    """What scale-up remembers. All of it may be lost: then offerings are tried again and back-off begins anew.

    Machines in vain are money: when a clock went back they are kept, for their records may have expired while it was
    ahead."""

    learned: Learned = {}
    struck_at: Mapping[OfferingKey, float] = {}
    in_vain: InVain = {}
    waits: Mapping[str, Wait] = {}
    known: frozenset[str] = frozenset()  # pods that were asked about before
    batch: Batch | None = None
    told: Mapping[str, str] = {}  # what was said to pods that have no pool
    orders: Orders = Orders()
    looked_at: float = 0.0  # when the nodes were last searched for those who wait
    spare: SpareLedger = SpareLedger()
    patterns: tuple[Pattern, ...] = ()  # good uses of nodes that the solver found: a head start for the next question


class Survey(Struct, frozen=True):
    """Everything gathered."""

    ledger: Ledger  # with what this look has taught; patience and batch included
    assigned: Assignments
    allowances: tuple[Allowance, ...]
    market: Market
    minimum: tuple[Choice, ...]  # what to order so that every `min` is kept
    eligible: tuple[Demand, ...]  # who is tried now
    problems: tuple[Problem, ...]
    closes_at: float | None  # of the batch window; None: nothing new has arrived
    again_at: float | None  # when time alone changes this
    wanting: Wanting = Wanting()  # buffers, looked at only when no pod is tried

    def all_rooms(self, snapshot: Snapshot) -> tuple[Room, ...]:
        return rooms(snapshot, self.assigned)

    def outlook(self, snapshot: Snapshot, open_rooms: Iterable[Room] | None) -> Outlook:
        return Outlook(snapshot.pools, self.market, self.allowances, open_rooms)


def identity(pod: Pod) -> str:
    return pod.uid or pod.key


def survey(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Survey:
    """Quick where nobody waits: then there is nothing to weigh but `min`."""
    someone_waits = any(pod.unschedulable_at is not None for pod in snapshot.waiting_pods)
    young = (snapshot.nodes[name] for name in snapshot.requests if name in snapshot.nodes)
    learned = learn(snapshot, ledger.learned, snapshot.nodes.values() if someone_waits else young)
    ledger = replace(ledger, learned=learned, struck_at=struck_since(snapshot, ledger.struck_at, settings))
    if someone_waits or lacks_minimum(snapshot):
        found = _whole_survey(snapshot, ledger, settings)
    else:
        found = Survey(
            replace(ledger, in_vain={}, batch=None), Assignments(), (), Market((), {}, None), (), (), (), None, None
        )
    return (
        found
        if found.eligible or found.minimum or not snapshot.buffers.buffers
        else _with_spares(found, snapshot, settings)
    )


def _with_spares(found: Survey, snapshot: Snapshot, settings: Settings) -> Survey:
    """Nobody real is tried now: buffers have their turn."""
    ledger = found.ledger
    offerings = corrected(snapshot.offerings, ledger.learned)
    closed = ledger.orders.closed_pools(snapshot.now)
    spares = look_at_spares(
        snapshot,
        ledger.spare,
        lambda pools: open_market(snapshot, pools, offerings, ledger.struck_at, settings),
        closed,
        settings,
    )
    return replace(
        found,
        ledger=replace(ledger, spare=spares.ledger),
        wanting=spares,
        again_at=sooner(found.again_at, spares.again_at),
    )


def _whole_survey(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Survey:
    now = snapshot.now
    offerings = corrected(snapshot.offerings, ledger.learned)
    in_vain = observe(snapshot, ledger.in_vain)
    verdict = judge(in_vain, now)
    assigned = assignments(snapshot, offerings, _lodged(snapshot, ledger))
    found = demands(
        snapshot.waiting_pods, assigned.keys, snapshot.pools, offerings, settings.priority_cutoff, verdict.barred
    )
    present = members(snapshot)
    allowed = allowances(snapshot.pools, settings.limits, present)
    market = open_market(
        snapshot, _pools_in_question(found.wanted, snapshot.pools, ledger, now), offerings, ledger.struck_at, settings
    )
    gathered = Survey(
        replace(ledger, in_vain=in_vain), assigned, allowed, market,
        missing_minimum(snapshot, market, present, allowed),
        found.wanted, found.problems, None, sooner(market.reopens_at, *ledger.orders.closed_pools(now).values()),
    )  # fmt: skip
    return _with_batch(_with_patience(gathered, snapshot, verdict, settings), now, settings)


def _lodged(snapshot: Snapshot, ledger: Ledger) -> dict[str, tuple[Pod, ...]]:
    """Pods that the scheduler, or we, sent to a node with room: they hold it until their time is over."""
    sent: list[tuple[Pod, str]] = []
    for pod in snapshot.waiting_pods:
        wait = ledger.waits.get(identity(pod))
        if not may_hold(pod):
            continue
        if pod.nominated_node:
            sent.append((pod, pod.nominated_node))
        elif wait is not None and wait.lodged_on and snapshot.now < wait.until:
            sent.append((pod, wait.lodged_on))
    return holders(sent, snapshot)


def _pools_in_question(
    wanted: Iterable[Demand], pools: Mapping[str, NodePool], ledger: Ledger, now: float
) -> list[str]:
    asked = {name for demand in wanted for name in demand.pools}
    warm = {name for name, pool in pools.items() if any(choice.min for choice in pool.spec.server_types)}
    return sorted(name for name in asked | warm if ledger.orders.closed.get(name, 0.0) <= now)


def _with_patience(found: Survey, snapshot: Snapshot, verdict: Verdict, settings: Settings) -> Survey:
    """Of those who need a place, only the ones whose time has come."""
    now, waits = snapshot.now, dict(found.ledger.waits)
    has_waiters = any(identity(demand.pod) in waits for demand in found.eligible)
    looks = has_waiters and now - found.ledger.looked_at >= settings.batch_longest_seconds
    outlook = found.outlook(snapshot, found.all_rooms(snapshot) if looks else None)
    eligible: list[Demand] = []
    again: list[float] = [found.ledger.looked_at + settings.batch_longest_seconds] if has_waiters and not looks else []
    for demand in found.eligible:
        wait = waits.get(identity(demand.pod))
        if demand.pod.shape in verdict.waits:
            again.append(verdict.waits[demand.pod.shape])
        elif wait is None or wait.lodged_on or is_over(wait, now, outlook.of(demand)):
            eligible.append(demand)
        else:
            waits[identity(demand.pod)] = with_prospects(wait, outlook.of(demand), outlook.not_looked_at)
            again += [] if wait.is_backed_off else [wait.until]
    again += [
        wait.until
        for pods in found.assigned.holders.values()
        for pod in pods
        if (wait := waits.get(identity(pod))) is not None and wait.until > now
    ]
    ledger = replace(found.ledger, waits=waits, looked_at=now if looks else found.ledger.looked_at)
    return replace(found, ledger=ledger, eligible=tuple(eligible), again_at=sooner(found.again_at, *again))


def _with_batch(found: Survey, now: float, settings: Settings) -> Survey:
    """Each new arrival keeps the window open a little longer, but not for ever."""
    fresh = frozenset(identity(demand.pod) for demand in found.eligible) - found.ledger.known
    if not fresh:
        return replace(found, ledger=replace(found.ledger, batch=None))
    before = found.ledger.batch
    batch = (
        Batch(now, now, fresh)
        if before is None
        else Batch(before.began_at, now if fresh - before.pods else before.grew_at, fresh)
    )
    closes_at = min(batch.grew_at + settings.batch_quiet_seconds, batch.began_at + settings.batch_longest_seconds)
    return replace(found, ledger=replace(found.ledger, batch=batch), closes_at=closes_at)
