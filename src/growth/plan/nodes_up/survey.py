"""What does scale-up know before it asks the solver? Gathers, from one snapshot and its memory, which demands are tried
now and what there is to give. Nothing is ordered here.

| tried now | |
| --- | --- |
| machines that `min` keeps warm | first, without the solver; of a type that just failed, after pods that are tried |
| pods whose time has come | once no more arrive, or the window of their batch closes; until then nothing is looked at |
| virtual pods of buffers | only while no pod is tried, once their number has been quiet for a moment |

So a real pod is never planned later, or elsewhere, because of a buffer. A demand that found no place waits
(`plan/nodes_up/waiting`); while nodes have just stopped reporting nothing is bought for a buffer
(`plan/buffers/giving_way`), and a buffer for which three machines came and hold none of it is not bought for.

`min` of a server type counts nodes that serve or come; those in removal do not, nor idle ones that must be replaced,
nor dead ones whose machine is surely gone. The cheapest location that is for sale is taken, within all limits; while
none is, or the brake holds, the pool simply has fewer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.decision import Note
from growth.model.gang import name_of_gang
from growth.model.instant import is_due
from growth.model.nodepool import NodePool, ServerTypeChoice
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.giving_way import Standstills
from growth.plan.buffers.placement import BufferPlacement, look_seconds, occupied_rooms, place_buffers
from growth.plan.nodes_up.demand import (
    UNPLACED,
    Demand,
    Problem,
    buffer_demands,
    buffer_name,
    called_with,
    demands,
    identity,
    why_gangs_wait,
)
from growth.plan.nodes_up.failures import buffers_in_vain, held_back
from growth.plan.nodes_up.verdict import Batch, Foresight, Trust, closes_at, learned, next_batch
from growth.plan.nodes_up.waiting import Outlook, Wait, is_over, overtaking, with_prospects
from growth.plan.world.capacity import (
    Assignments,
    assignments,
    coming_rooms,
    holders,
    is_plannable,
    may_hold,
    rooms,
)
from growth.plan.world.limits import Allowance, Member, allowances_now, members
from growth.plan.world.market import (
    NOTHING_FOR_SALE,
    NOTHING_LEARNED,
    Learned,
    Market,
    corrected,
    learn,
    open_market,
    struck_since,
)
from growth.plan.world.orders import Orders, Purchases
from growth.plan.world.pools import OfferingKey, server_type_of
from growth.plan.world.swaps import fills_minimum, minimum_ages_at
from growth.plan.world.turn import sooner
from growth.solver.purchase.problem import Choice, Pattern, Room

_NEXT_SECONDS: Final = 1.0  # after those who have waited longer


class Experience(Struct, frozen=True):
    """What machines have shown so far."""

    learned: Learned = NOTHING_LEARNED
    struck_at: Mapping[OfferingKey, float] = {}


class Ledger(Struct, frozen=True):
    """What scale-up remembers. All of it may be lost: then offerings are tried again and back-off begins anew."""

    experience: Experience = Experience()
    waits: Mapping[str, Wait] = {}  # by demand
    known: frozenset[str] = frozenset()  # pods that were looked at before: no batch waits for them
    batch: Batch | None = None
    buffer_batch: Batch | None = None
    looked_at: float = 0.0  # when the nodes were last searched for those who wait
    buffers_looked_at: float = 0.0
    told: Mapping[str, str] = {}  # what was said to pods that have no pool
    orders: Orders = Orders()
    patterns: tuple[Pattern, ...] = ()  # good uses of nodes that the solver found: a head start for the next question
    gap: float = 0.0  # how far the last purchase was above what was proven, as a share
    trust: Trust = Trust()


class Survey(Struct, frozen=True):
    """Everything gathered. What the next look must know has the name it has in the ledger."""

    experience: Experience
    waits: Mapping[str, Wait]
    batch: Batch | None
    buffer_batch: Batch | None
    looked_at: float
    buffers_looked_at: float
    assigned: Assignments = Assignments()
    allowances: tuple[Allowance, ...] = ()
    market: Market = NOTHING_FOR_SALE
    minimum: tuple[Choice, ...] = ()  # what to order so that every `min` is kept
    demands: tuple[Demand, ...] = ()  # what is tried now: pods, or buffers if there are none
    problems: tuple[Problem, ...] = ()
    closes_at: float | None = None  # of the batch window; None: nothing new has arrived
    again_at: float | None = None  # when time alone changes this
    notes: tuple[Note, ...] = ()  # to pods for which nothing is bought, since it was in vain before; of mistrust
    trust: Trust = Trust()
    asked: tuple[Pod, ...] = ()  # those that growth is asked about
    placed: BufferPlacement | None = None  # where virtual pods have room, if buffers are tried

    @property
    def is_virtual(self) -> bool:
        return self.placed is not None

    def is_open(self, now: float) -> bool:
        """Do pods still arrive? Then nobody is tried."""
        return self.closes_at is not None and now < self.closes_at

    def all_rooms(self, snapshot: Snapshot) -> tuple[Room, ...]:
        """Virtual pods hold room against each other, never against a pod."""
        return rooms(snapshot, self.assigned) if self.placed is None else occupied_rooms(self.placed)

    def outlook(self, snapshot: Snapshot, open_rooms: Iterable[Room] | None) -> Outlook:
        coming = partial(coming_rooms, self.assigned)
        return Outlook(snapshot.pools, self.market, self.allowances, open_rooms, snapshot.volumes, coming)


def survey(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Survey:
    """Kept in the memo: the question and the plan of one look ask the same."""
    return snapshot.memo.recall("survey", (snapshot, ledger, settings), lambda: _survey(snapshot, ledger, settings))


def _survey(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Survey:
    """Quick where no pod waits, or pods still arrive: then there is nothing to weigh but `min` and buffers."""
    found = _with_arrivals(snapshot, ledger, settings)
    found = replace(found, again_at=sooner(found.again_at, minimum_ages_at(snapshot)))
    is_short = lacks_minimum(snapshot)
    if found.is_open(snapshot.now) and not is_short:
        return found
    young = (snapshot.nodes[name] for name in snapshot.requests if name in snapshot.nodes)
    seen = learn(snapshot, ledger.experience.learned, snapshot.nodes.values() if found.asked else young)
    struck_at = struck_since(snapshot, ledger.experience.struck_at, settings)
    found = replace(found, experience=Experience(seen, struck_at))
    if found.asked or is_short:
        found = _with_pods(found, snapshot, ledger, settings)
    is_idle = not (found.demands or found.minimum)
    return _with_buffers(found, snapshot, ledger, settings) if is_idle and snapshot.buffers.buffers else found


def _with_arrivals(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Survey:
    """Which pods growth is asked about, and whether more are on their way. A window that closes because it was open for
    long leaves out who came a moment ago: the scheduler may be about to place them.
    """
    now, (trust, notes) = snapshot.now, learned(ledger.trust, ledger.waits, snapshot)
    foresight = Foresight(snapshot, trust, settings)
    asked = tuple(pod for pod in snapshot.waiting_pods if foresight.is_asked(pod))
    counts = {identity(pod): 1 for pod in asked if is_plannable(pod)}
    batch = next_batch(ledger.batch, counts, ledger.known, now)
    found = Survey(
        experience=ledger.experience,
        waits=ledger.waits,
        batch=batch,
        buffer_batch=ledger.buffer_batch,
        looked_at=ledger.looked_at,
        buffers_looked_at=ledger.buffers_looked_at,
        closes_at=closes_at(batch, settings, asked),
        notes=notes,
        trust=trust,
        asked=asked,
    )
    if found.is_open(now):
        return found
    ripe = tuple(pod for pod in asked if foresight.is_ripe(pod))
    is_early = len(ripe) < len(asked)
    return replace(found, asked=ripe, batch=None, again_at=now + settings.batch_quiet_seconds if is_early else None)


def _with_pods(found: Survey, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Survey:
    now = snapshot.now
    offerings = corrected(snapshot.offerings, found.experience.learned)
    assigned = assignments(snapshot, offerings, _holders(snapshot, ledger))
    asked = demands(found.asked, assigned.keys, snapshot.pools, offerings, settings.priority_cutoff)
    present = members(snapshot)
    warm = {name for name, pool in snapshot.pools.items() if any(choice.min for choice in pool.spec.server_types)}
    market = _market(found, {name for each in asked.wanted for name in each.pools} | warm, snapshot, ledger, settings)
    allowed = (*allowances_now(snapshot, settings), *market.bounds)
    held = held_back(asked.wanted, market.standings, snapshot)
    partial = why_gangs_wait([each for each in asked.wanted if each.name not in held], assigned, snapshot)
    found = replace(
        found,
        assigned=assigned,
        allowances=allowed,
        market=market,
        demands=asked.wanted,
        problems=asked.problems,
        again_at=sooner(
            found.again_at,
            market.reopens_at,
            *ledger.orders.closed_pools(now).values(),
            *(each.may_come_until for each in present),
        ),
    )
    has_waiters = any(demand.name in found.waits for demand in found.demands)
    looks = has_waiters and now - ledger.looked_at >= settings.batch_longest_seconds
    holding = [found.waits.get(identity(pod)) for pods in assigned.holders.values() for pod in pods]
    again = [wait.until for wait in holding if wait is not None and wait.until > now]
    again += [ledger.looked_at + settings.batch_longest_seconds] if has_waiters and not looks else []
    told = {name: each.message for name, each in held.items()}
    told |= {name: f"no place for this pod: {why}" for name, why in partial.items()}
    notes = tuple(Note(each.about, UNPLACED, told[each.name], "Warning") for each in found.demands if each.name in told)
    barred = dict.fromkeys(partial, None) | {name: each.until for name, each in held.items()}
    found = _with_patience(found, snapshot, barred, looks=looks)
    spared = _left_to_pods(market.without_braked, found.demands, now)
    found = replace(found, minimum=missing_minimum(snapshot, spared, present, allowed))
    looked_at = now if looks else ledger.looked_at
    return replace(found, notes=(*found.notes, *notes), looked_at=looked_at, again_at=sooner(found.again_at, *again))


def _with_buffers(found: Survey, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Survey:
    """No pod is tried now: buffers, which have the lowest rank, are. A busy cluster is not searched at every change."""
    now, seconds = snapshot.now, look_seconds(snapshot, settings)
    if not is_due(now, ledger.buffers_looked_at, seconds):
        return replace(found, again_at=sooner(found.again_at, ledger.buffers_looked_at + seconds))
    placed = place_buffers(snapshot, settings)
    short = buffer_demands(placed)
    provided = {buffer_name(key) for key in snapshot.buffers.buffers} - {demand.name for demand in short}
    waits = {name: wait for name, wait in found.waits.items() if name not in provided}
    found = replace(found, waits=waits, buffers_looked_at=now)
    if not short:
        return replace(found, buffer_batch=None)
    market = _market(found, {name for demand in short for name in demand.pools}, snapshot, ledger, settings)
    found = replace(
        found,
        placed=placed,
        demands=short,
        market=market,
        allowances=(*allowances_now(snapshot, settings), *market.bounds),
        again_at=sooner(found.again_at, market.reopens_at),
    )
    in_vain, standstills = buffers_in_vain(placed, snapshot), Standstills(snapshot, placed.left)
    barred = {each.name: standstill.until for each in short if (standstill := standstills.of(each.pools)) is not None}
    barred |= {each.name: None for each in short if each.pod.key in in_vain}
    found = _with_patience(found, snapshot, barred)
    counts = {demand.name: demand.count for demand in found.demands}
    batch = next_batch(ledger.buffer_batch, counts, (), now)
    return replace(found, buffer_batch=batch, closes_at=closes_at(batch, settings))


def _holders(snapshot: Snapshot, ledger: Ledger) -> dict[str, tuple[Pod, ...]]:
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


def _market(found: Survey, pools: Collection[str], snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Market:
    """What these pools sell, those that refuse orders left out."""
    seen, closed = found.experience, ledger.orders.closed_pools(snapshot.now)
    selling = sorted(name for name in pools if name not in closed)
    return open_market(snapshot, selling, corrected(snapshot.offerings, seen.learned), seen.struck_at, settings)


def _with_patience(
    found: Survey, snapshot: Snapshot, barred: Mapping[str, float | None], *, looks: bool = False
) -> Survey:
    """Of the demands, only those whose time has come; `barred` ones are not tried, some of them until a known time."""
    waits, again = dict(found.waits), list[float | None]()
    outlook = found.outlook(snapshot, found.all_rooms(snapshot) if looks else None)
    eligible: list[Demand] = []
    for demand in found.demands:
        wait = waits.get(demand.name)
        if demand.name in barred:
            again.append(barred[demand.name])
        elif wait is None or wait.lodged_on or is_over(wait, snapshot.now, outlook.of(demand)):
            eligible.append(demand)
        else:
            waits[demand.name] = with_prospects(wait, outlook.of(demand), outlook.not_looked_at)
            again.append(wait.until)
    alone = (each for each in eligible if not name_of_gang(each.pod, snapshot.pod_groups))
    late = overtaking(alone, waits, coming_rooms(found.assigned)) if waits else frozenset()
    again += [snapshot.now + _NEXT_SECONDS] if late else []
    eligible = [each for each in eligible if each.name not in late]
    tried = called_with(eligible, [each for each in found.demands if each.name not in barred], snapshot)
    return replace(found, waits=waits, demands=tried, again_at=sooner(found.again_at, *again))


# -------------------------------------------------------------------------------- what `min` lacks


def lacks_minimum(snapshot: Snapshot) -> bool:
    """Is any minimum not kept? A cheap look, before everything is counted exactly."""
    least = {
        (pool.name, choice.name.lower()): choice.min
        for pool in snapshot.pools.values()
        for choice in pool.spec.server_types
        if choice.min
    }
    if not least:
        return False
    for node in snapshot.nodes.values():
        kind = (node.pool, server_type_of(node.offering))
        if kind in least and fills_minimum(node.name, snapshot):
            least[kind] -= 1
    for request in snapshot.requests.values():
        kind = (request.spec.pool, server_type_of(request.spec.target_offering))
        if kind in least and request.name not in snapshot.nodes and fills_minimum(request.name, snapshot):
            least[kind] -= 1
    return any(count > 0 for count in least.values())


def missing_minimum(
    snapshot: Snapshot, market: Market, present: tuple[Member, ...], allowed: tuple[Allowance, ...]
) -> tuple[Choice, ...]:
    """What to order now so that every minimum is kept."""
    wanted, purchases = list[Choice](), Purchases(allowed)
    probations, probes = dict(market.probations), dict(market.probes)
    for name in sorted(snapshot.pools):
        pool = snapshot.pools[name]
        for server_type in pool.spec.server_types:
            for _ in range(server_type.min - _standing(pool, server_type, snapshot, present)):
                closed = {(name, place) for place, left in probations.items() if left <= 0}
                closed |= {key for key, left in probes.items() if left <= 0}
                choice = _cheapest(pool, server_type, market, purchases, closed)
                if choice is None:
                    break
                place = (choice.offering.name, choice.offering.location)
                if place in probations:
                    probations[place] -= 1
                if (name, place) in probes:
                    probes[name, place] -= 1
                purchases.add(choice)
                wanted.append(choice)
    return tuple(wanted)


def _left_to_pods(market: Market, tried: Iterable[Demand], now: float) -> Market:
    """Where few may be bought, since machines were in vain, pods that are tried now go first: of what has failed lately
    none is ordered to keep a minimum, if their pools sell something better.
    """
    wanted = {name for demand in tried for name in demand.pools}
    demoted = [(_demotion(each, market, now), each) for each in market.choices]
    least = {each.pool: count for count, each in sorted(demoted, key=lambda pair: -pair[0])}
    kept = (each for count, each in demoted if each.pool not in wanted or count == least[each.pool])
    return replace(market, choices=tuple(kept))


def _demotion(choice: Choice, market: Market, now: float) -> int:
    return market.standings[choice.pool].demotion((choice.offering.name, choice.offering.location), now)


def _standing(pool: NodePool, server_type: ServerTypeChoice, snapshot: Snapshot, present: tuple[Member, ...]) -> int:
    """Members that are there to stay: a node, or a request for one."""
    mine = [member for member in present if member.pool == pool.name]
    of_type = [member for member in mine if server_type_of(member.offering) == server_type.name.lower()]
    return sum(fills_minimum(member.name, snapshot) for member in of_type)


def _cheapest(
    pool: NodePool,
    server_type: ServerTypeChoice,
    market: Market,
    purchases: Purchases,
    closed: Collection[tuple[str, OfferingKey]],
) -> Choice | None:
    """For sale, not being tried already, and under every limit."""
    mine = [choice for choice in market.choices if choice.pool == pool.name]
    of_type = [choice for choice in mine if choice.offering.server_type.lower() == server_type.name.lower()]
    found = [
        (choice.offering.price_per_hour, choice.offering.name, choice.offering.location, choice)
        for choice in of_type
        if (pool.name, (choice.offering.name, choice.offering.location)) not in closed and not purchases.why_not(choice)
    ]
    return min(found, key=lambda each: each[:3])[3] if found else None
