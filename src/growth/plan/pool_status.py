"""What is the status of each NodePool, and may a pool that is being deleted go? Writes a status only when it says
something new.

| condition | True when |
| --- | --- |
| Ready | the pool can buy: something it lists is sold, its limits can be read, it is neither paused nor going |
| UnknownServerType | a type or location it lists is none of the provider's; the rest of the pool works |
| MalformedBudget (only then) | the schedule or time zone of a disruption budget cannot be read: it always holds |
| Deprecated (only then) | a type it lists is not sold for long, or any more: from when on |
| LimitReached | a limit lets not even the smallest of its offerings be bought |
| AllUnmet | everything it lists is Unmet or out of stock |
| Braked | so many nodes are NotReady that neither they nor nodes with pods are given up (`plan/world/brake`) |
| Failing | machines were bought in vain, so no more are for a while: how many, the last cause, when it is tried again |
| Paused | its annotation, or the global switch, stops buying and deleting |

A node with pods that is marked or drained stands in the status until the longest window of the pool's budgets has
passed since it went: budgets are read off that after a restart. `recordedSince` moves on to the newest that was left
out, so that nothing is believed to be whole that is not.

The finalizer goes on before anything is bought, and comes off once no request, removal, machine or node of the pool is
left (`growth.dev/orphan-nodes: "true"` leaves the nodes alone). A node that only says it is of the pool, with no
machine that the provider shows, holds it up for `machineCollectionGraceSeconds`: its machine may be back by then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import Action, HoldNodePool, WriteNodePoolStatus
from growth.model.api import FINALIZER, Condition
from growth.model.decision import Decision, Note
from growth.model.instant import format_instant, is_from_future
from growth.model.node import Node
from growth.model.nodepool import (
    MOST_DISRUPTED,
    MOST_MENDINGS,
    RELEASE_BRAKE,
    RETRY,
    DisruptedNode,
    Exempt,
    NodePool,
    NodePoolStatus,
    OfferingStatus,
    PoolTrials,
)
from growth.model.offering import Offering
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.world.brake import BRAKED, Brake
from growth.plan.world.limits import (
    Allowance,
    Member,
    allowances_now,
    exempt_now,
    members,
    price_text,
    why_not_one_more,
)
from growth.plan.world.machines import claimed_pool, pool_of_machine
from growth.plan.world.market import struck_out
from growth.plan.world.nodes import disrupted_nodes, is_being_emptied, was_kept
from growth.plan.world.pools import longest_window_seconds, nodes_by_pool, offerings_of, why_not_buying
from growth.plan.world.schedule import why_no_schedule
from growth.plan.world.trials import MEMORY_SECONDS, Standing, standings
from growth.plan.world.turn import Conditions, Turn, about, instant_of, retry_after, seen, without_times

_MOST_OFFERINGS = 1000
_RETRY_SECONDS = 5.0
_ANOTHER_POOL = -1  # a generation that no pool has


class Ledger(Struct, frozen=True):
    """Everything is in the objects."""


def plan(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    present: dict[str, list[Member]] = {}
    for member in members(snapshot):
        present.setdefault(member.pool, []).append(member)
    left = allowances_now(snapshot, settings)
    struck = struck_out(snapshot.requests.values(), snapshot.now, settings.unmet_seconds)
    turn, brake, trusted = Turn(), Brake(snapshot), standings(snapshot)
    turn.wake(*struck.values(), brake.changes_at())
    for name in sorted(snapshot.pools):
        pool, why_braked = snapshot.pools[name], brake.why(name)
        turn.do(*_finalizer(pool, snapshot, settings, turn))
        turn.wake(trusted[name].wakes_at(snapshot.now))
        turn.tell(*_failing(pool, trusted[name]))
        view = _View(
            pool, snapshot, settings, present.get(name, ()), left, frozenset(struck), (why_braked, trusted[name])
        )
        status = view.status()
        if without_times(status) != without_times(pool.status):
            turn.do(WriteNodePoolStatus(seen(pool), status))
            turn.tell(*_told_of_brake(pool, why_braked))
    return turn.decision(ledger)


def _told_of_brake(pool: NodePool, why_braked: str) -> tuple[Note, ...]:
    """When it begins and when it ends."""
    was_braked = any(each.type == BRAKED and each.status == "True" for each in pool.status.conditions)
    if bool(why_braked) == was_braked:
        return ()
    if why_braked:
        text = f"{why_braked}; the annotation {RELEASE_BRAKE}, a time at most 24 h ahead, lifts this"
        return (Note(about(pool), BRAKED, text, "Warning"),)
    return (Note(about(pool), "BrakeReleased", "nodes are given up as ever again"),)


def _failing(pool: NodePool, standing: Standing) -> list[Note]:
    return [Note(about(pool), "Failing", standing.why, "Warning")] if standing.is_failing and standing.why else []


def _finalizer(pool: NodePool, snapshot: Snapshot, settings: Settings, turn: Turn) -> list[Action]:
    is_held = FINALIZER in pool.finalizers
    if pool.deleted_at is None:
        return [] if is_held else [HoldNodePool(seen(pool), holds=True)]
    if not is_held or _is_needed(pool, snapshot):
        return []
    unproved = [each for each in snapshot.nodes.values() if not each.pool and claimed_pool(each) == pool.name]
    goes_at = pool.deleted_at + settings.machine_collection_grace_seconds
    if unproved and snapshot.now < goes_at:
        turn.wake(goes_at)
        return []
    turn.tell(*(Note(about(each), "PoolGone", _left_behind(each, pool), "Warning") for each in unproved))
    return [HoldNodePool(seen(pool), holds=False)]


def _left_behind(node: Node, pool: NodePool) -> str:
    machine = node.provider_id or "no machine"
    known = f"the node ({machine}) says it is of NodePool {pool.name}, which is gone, and no machine of it is known"
    return f"{known}: it is left alone, a person must look whether its machine is paid for"


def _is_needed(pool: NodePool, snapshot: Snapshot) -> bool:
    """Is there still something that only this pool explains? Without the provider's list that is not known."""
    if any(request.spec.pool == pool.name for request in snapshot.requests.values()):
        return True
    if any(removal.spec.pool == pool.name for removal in snapshot.removals.values()):
        return True
    mine = [node for node in snapshot.nodes.values() if node.pool == pool.name]
    if pool.leaves_its_nodes:
        return any(node.is_marked for node in mine)  # until scale-down has taken that off
    if mine:
        return True
    if snapshot.machines_at is None:
        return True
    return any(pool_of_machine(machine) == pool.name for machine in snapshot.machines.values())


def with_past(
    pools: Mapping[str, NodePool], past: Mapping[str, PoolTrials], now: float
) -> tuple[Mapping[str, NodePool], Mapping[str, PoolTrials]]:
    """The pools as they are, and what was bought in vain for each of them; `past`: what that was at the last look.

    One that was made again under its name goes on with what the one before had bought in vain: whatever makes pools
    anew cannot spend without end. It counts as mended, for somebody has touched it."""
    silent = (each for each in pools.values() if each.status.trials.generation == 0 and each.name in past)
    anew = {each.name: replace(past[each.name], generation=_ANOTHER_POOL) for each in silent}
    told = {name: replace(pools[name], status=replace(pools[name].status, trials=anew[name])) for name in anew}
    known = {**past, **{name: pool.status.trials for name, pool in pools.items() if name not in anew}}
    since = now - MEMORY_SECONDS
    kept = {name: trials for name, trials in known.items() if any(_at(each.at) > since for each in trials.in_vain)}
    return ({**pools, **told} if told else pools), kept


def as_written(pool: NodePool, found: PoolTrials, now: float, credentials: str = "") -> PoolTrials:
    """What the pool's status says from now on: what `trials_of` found, and mended if the pool was changed."""
    known, retry = pool.status.trials, pool.annotations.get(RETRY, "")[:253]
    is_changed = known.generation not in (0, pool.generation)
    is_asked = bool(retry) and retry != known.retry and known.generation != 0
    is_renewed = bool(credentials) and known.credentials not in ("", credentials)
    is_after_failure = any(each.cause and _at(each.at) > _at(known.mended_at) for each in found.in_vain)
    mendings = tuple(at for at in known.mendings if _at(at) > now - MEMORY_SECONDS)
    if (is_changed or is_asked or is_renewed) and (not is_after_failure or len(mendings) < MOST_MENDINGS):
        known = replace(known, mended_at=format_instant(now))
        mendings += (format_instant(now),) if is_after_failure else ()
    return replace(
        found,
        generation=pool.generation,
        retry=retry,
        credentials=credentials or known.credentials,
        mended_at=known.mended_at,
        mendings=mendings,
    )


def _at(text: str | None) -> float:
    return instant_of(text) or 0.0


def _nodes_by_place(snapshot: Snapshot) -> Counter[tuple[str, str, str]]:
    """How many there are, by pool, offering and location."""

    def location(name: str) -> str:
        machine, request = snapshot.machines.get(name), snapshot.requests.get(name)
        return machine.location if machine is not None else request.spec.location if request is not None else ""

    def count() -> Counter[tuple[str, str, str]]:
        return Counter((node.pool, node.offering, location(node.name)) for node in snapshot.nodes.values())

    return snapshot.memo.recall("nodes by place", (snapshot.nodes, snapshot.machines, snapshot.requests), count)


class _View:
    """One pool, and what its status says."""

    def __init__(
        self,
        pool: NodePool,
        snapshot: Snapshot,
        settings: Settings,
        present: Sequence[Member],
        left: tuple[Allowance, ...],
        struck: frozenset[tuple[str, str]],
        held: tuple[str, Standing],
    ) -> None:
        self.pool, self.snapshot, self.settings = pool, snapshot, settings
        self.members = present
        self.left = [allowance for allowance in left if allowance.pool in ("", pool.name)]
        self.struck, (self.why_braked, self.standing) = struck, held
        self.offerings = offerings_of(pool, snapshot.offerings)
        self._refusals: dict[tuple[str, str], str] = {}  # by offering and location
        self.write = Conditions(pool.status.conditions, pool.generation, snapshot.now).write

    def status(self) -> NodePoolStatus:
        name, snapshot = self.pool.name, self.snapshot
        nodes = nodes_by_pool(snapshot).get(name, ())
        ordered = [each for each in snapshot.requests.values() if each.spec.pool == name]
        recorded_since, disrupted = self._disrupted()
        return NodePoolStatus(
            nodes=len(nodes),
            in_flight=sum(not self._has_node(request.name) for request in ordered if request.is_in_flight),
            price_per_hour=price_text(self._price_per_hour),
            offerings=self._offerings()[:_MOST_OFFERINGS],
            conditions=self._conditions(),
            observed_generation=self.pool.generation,
            trials=as_written(self.pool, self.standing.trials, snapshot.now, self._credentials),
            exempt=self._exempt(),
            recorded_since=format_instant(recorded_since),
            disrupted=disrupted,
        )

    def _has_node(self, name: str) -> bool:
        node = self.snapshot.nodes.get(name)
        return node is not None and node.pool == self.pool.name

    @property
    def _price_per_hour(self) -> float:
        """Of what is paid for: not of an order that may still come."""
        return sum(one.price_per_hour for one in self.members if one.may_come_until is None)

    @property
    def _credentials(self) -> str:
        return self.snapshot.credentials.get(self.pool.spec.provider_settings or "", "")

    def _exempt(self) -> Exempt:
        """Only a list of machines, and of prices, that has been read says what there is."""
        snapshot = self.snapshot
        if snapshot.machines_at is None:
            return self.pool.status.exempt
        price = self._price_per_hour if snapshot.offerings else None
        return exempt_now(self.pool, self.settings, len(self.members), price)

    def _disrupted(self) -> tuple[float, tuple[DisruptedNode, ...]]:
        """Since when they are known, and which: those that are still there first, then the newest."""
        now, snapshot, before = self.snapshot.now, self.snapshot, self.pool.status
        names = {each.name for each in before.disrupted}
        names |= {node.name for node in disrupted_nodes(snapshot) if node.pool == self.pool.name}
        went = {each.name: self._not_from_future(each.gone_at) for each in before.disrupted}
        emptied = {each.name for each in before.disrupted if each.emptied}
        emptied |= {name for name in names if is_being_emptied(name, snapshot)}
        over = {name for name in names if name not in snapshot.nodes or was_kept(name, snapshot)}
        gone = {
            name: went.get(name, now) if name in over else now
            for name in names
            if name in emptied or not was_kept(name, snapshot)
        }
        order = sorted(gone, key=lambda name: (name not in snapshot.nodes, -gone[name], name))
        oldest = now - longest_window_seconds(self.pool, self.settings)
        kept = [name for name in order[:MOST_DISRUPTED] if gone[name] > oldest]
        left_out = [gone[name] for name in order[len(kept) :]]
        recorded = tuple(
            DisruptedNode(name, format_instant(gone[name]) if name in over else None, name in emptied) for name in kept
        )
        return max(self._not_from_future(before.recorded_since), *left_out, 0.0), recorded

    def _not_from_future(self, text: str | None) -> float:
        """An instant that is not known, or was written before a clock went back, counts as now."""
        at, now = instant_of(text), self.snapshot.now
        return now if at is None or is_from_future(now, at) else at

    def _offerings(self) -> tuple[OfferingStatus, ...]:
        name, counts, found = self.pool.name, _nodes_by_place(self.snapshot), []
        for each in sorted(self.offerings, key=lambda each: (each.name, each.location)):
            count, price = counts[name, each.name, each.location], price_text(each.price_per_hour)
            found.append(OfferingStatus(each.name, each.location, self._state(each), price, count))
        return tuple(found)

    def _state(self, offering: Offering) -> str:
        if not offering.is_available:
            return "Unavailable"
        if (offering.name, offering.location) in self.struck:
            return "Unmet"
        return "Available" if self._has_headroom(offering) else "LimitReached"

    def _has_headroom(self, offering: Offering) -> bool:
        return not self._why_not_one_more(offering)

    def _why_not_one_more(self, offering: Offering) -> str:
        """The limit that leaves no room for it, with its number; asked for the state, and for two conditions."""
        key = (offering.name, offering.location)
        if key not in self._refusals:
            self._refusals[key] = self._refusal(offering)
        return self._refusals[key]

    def _refusal(self, offering: Offering) -> str:
        one = Member("", self.pool.name, offering.name, offering.allocatable, offering.price_per_hour)
        return why_not_one_more(self.left, one)

    # ----------------------------------------------------------------------------------- conditions

    def _conditions(self) -> tuple[Condition, ...]:
        """Every problem as a text, empty if there is none. The first that keeps the pool from buying is Ready's."""
        pool, offerings = self.pool, self.offerings
        deleting = "" if pool.deleted_at is None else why_not_buying(pool, self.settings.is_paused)
        by_annotation = "the pool's annotation pauses it" if pool.is_paused else ""
        paused = "growth is paused" if self.settings.is_paused else by_annotation
        malformed = "; ".join(f"{each.name}: {each.malformed}" for each in self.left if each.malformed)
        unsold = "" if offerings else "no server type it lists is sold here, in its locations"
        problems = {"Deleting": deleting, "Paused": paused, "MalformedLimits": malformed, "NothingForSale": unsold}
        reason, text = next((each for each in problems.items() if each[1]), ("Ready", "the pool can buy"))
        is_full = bool(offerings) and not any(self._has_headroom(each) for each in offerings)
        for_sale = (each for each in offerings if each.is_available and (each.name, each.location) not in self.struck)
        is_unmet = bool(offerings) and not any(for_sale)
        unmet = "everything this pool lists is Unmet or out of stock" if is_unmet else ""
        limited = "; ".join(dict.fromkeys(map(self._why_not_one_more, offerings))) if is_full else ""
        return (
            self.write("Ready", reason == "Ready", reason, text),
            self._problem("UnknownServerType", self._unknown_types(), "NotSold", "AllKnown"),
            self._problem("LimitReached", limited, "LimitReached", "WithinLimits"),
            self._problem("AllUnmet", unmet, "AllUnmet", "ForSale" if offerings else "NothingForSale"),
            self._problem(BRAKED, self.why_braked, "ManyNotReady", "Working"),
            self._problem("Paused", paused, "Paused", "Active"),
            self._problem("Failing", self.standing.why if self.standing.is_failing else "", "InVain", "Trusted"),
            *self._unread_budgets(),
            *self._deprecated(),
        )

    def _problem(self, kind: str, text: str, reason: str, otherwise: str) -> Condition:
        return self.write(kind, bool(text), reason if text else otherwise, text)

    def _unknown_types(self) -> str:
        """Only a catalogue that has been read can lack something."""
        sold = {each.server_type.lower() for each in self.snapshot.offerings}
        unknown = [each.name for each in self.pool.spec.server_types if sold and each.name.lower() not in sold]
        places = {each.location.lower() for each in self.snapshot.offerings}
        nowhere = [each for each in self.pool.spec.locations if places and each.lower() not in places]
        told = [f"not sold here: {', '.join(unknown)}"] if unknown else []
        told += [f"no location of the provider: {', '.join(nowhere)}"] if nowhere else []
        return "; ".join(told)

    def _unread_budgets(self) -> tuple[Condition, ...]:
        """Such a budget always holds: rather too strict than not at all."""
        scheduled = [(each.schedule, each.time_zone or "UTC") for each in self.pool.spec.budgets if each.schedule]
        wrong = dict.fromkeys(f"disruption budget: {why}" for each in scheduled if (why := why_no_schedule(*each)))
        return (self.write("MalformedBudget", True, "Unreadable", "; ".join(wrong)),) if wrong else ()

    def _deprecated(self) -> tuple[Condition, ...]:
        """In words that stay the same while time passes: a status is written only when it says something new."""
        ends: dict[str, float] = {}
        for each in self.offerings:
            if each.sold_until is not None:
                ends[each.server_type] = max(each.sold_until, ends.get(each.server_type, 0.0))
        if not ends:
            return ()
        words = ", ".join(f"{name} until {format_instant(ends[name])}" for name in sorted(ends))
        return (self.write("Deprecated", True, "SoldUntil", f"sold no longer than: {words}"),)


settle = retry_after(_RETRY_SECONDS)
