"""How does a NodePool, a NodeRequest or a NodeRemovalRequest stand? Asked by `growth explain`; it changes nothing.

A pool's status is decided again, with the code that writes it: what is written may be old, or missing. The first
sentence is the condition that matters most:

| the pool | the answer |
| --- | --- |
| is being deleted, is paused | that |
| has a condition that stops or slows buying | its message: Failing before Braked, LimitReached, not Ready |
| otherwise | that it can buy, and from what price on |
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import WriteNodePoolStatus
from growth.model.api import Condition, LifeEvent
from growth.model.instant import format_instant
from growth.model.nodepool import NodePool, NodePoolStatus
from growth.model.noderequest import NodeRemovalRequest, NodeRequest
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan import pool_status
from growth.plan.world.brake import BRAKED
from growth.plan.world.pools import by_key, why_not_buying

_STOPS: Final = ("Failing", BRAKED, "LimitReached")  # a pool that has one of them buys little or nothing


class PoolAnswer(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What its status says, or would say."""

    pool: str
    answer: str
    conditions: dict[str, str]
    offerings: dict[str, str]
    nodes: int = 0
    in_flight: int = 0
    price_per_hour: str = "0"
    last_purchase: str = ""


def why_pool(name: str, snapshot: Snapshot, settings: Settings) -> PoolAnswer:
    untold = replace(snapshot.pools[name], status=NodePoolStatus(trials=snapshot.pools[name].status.trials))
    world = replace(snapshot, pools={**snapshot.pools, name: untold})
    actions = pool_status.plan(world, pool_status.Ledger(), settings).actions
    writes = [each for each in actions if isinstance(each, WriteNodePoolStatus) and each.pool.name == name]
    status = writes[0].status if writes else untold.status
    conditions = {each.type: f"{each.status}, {each.reason}: {each.message}".rstrip(": ") for each in status.conditions}
    offerings = {
        f"{each.name} {each.location}".strip(): f"{each.state}, {each.price_per_hour} per hour, {each.nodes} nodes"
        for each in status.offerings
    }
    answer, bought = _pool_in_a_sentence(snapshot.pools[name], status, settings), _last_purchase(name, snapshot)
    counts = status.nodes, status.in_flight, status.price_per_hour
    return PoolAnswer(name, answer, conditions, offerings, *counts, bought)


def _last_purchase(pool: str, snapshot: Snapshot) -> str:
    """Its newest order for waiting pods, as long as there is a record of it, and how good the plan was."""
    known = [each for each in snapshot.requests.values() if each.spec.pool == pool and each.spec.gap]
    if not known:
        return ""
    newest = max(known, key=lambda each: (each.created_at, each.name))
    return f"{newest.spec.target_offering} at {format_instant(newest.created_at)}, {newest.spec.gap}"


def _pool_in_a_sentence(pool: NodePool, status: NodePoolStatus, settings: Settings) -> str:
    if stopped := why_not_buying(pool, settings.is_paused):
        return f"it buys nothing: {stopped}"
    known: dict[str, Condition] = {each.type: each for each in status.conditions}
    for kind in _STOPS:
        if kind in known and known[kind].status == "True":
            return f"it buys little or nothing: {known[kind].message or known[kind].reason}"
    if "Ready" in known and known["Ready"].status != "True":
        return f"it buys nothing: {known['Ready'].message or known['Ready'].reason}"
    sold = sorted((float(each.price_per_hour), each.name) for each in status.offerings if each.state == "Available")
    if not sold:
        return "it buys nothing: nothing that it lists is for sale now"
    price, cheapest = sold[0]
    return f"it can buy {len(sold)} offerings, from {cheapest} at {price:.4f} per hour on"


class RequestAnswer(Struct, frozen=True, rename="camel", omit_defaults=True):
    noderequest: str
    answer: str
    pool: str
    offering: str
    location: str
    price_per_hour: float = 0.0
    planned_pods: tuple[str, ...] = ()
    machine: str = ""
    history: tuple[str, ...] = ()


def why_request(request: NodeRequest, snapshot: Snapshot) -> RequestAnswer:
    spec, status = request.spec, request.status
    sold = by_key(snapshot.offerings).get((spec.target_offering, spec.location))
    return RequestAnswer(
        request.name,
        _request_in_a_sentence(request),
        spec.pool,
        spec.target_offering,
        spec.location,
        0.0 if sold is None else sold.price_per_hour,
        request.planned_pods,
        status.machine_id,
        _history(status.events),
    )


def _request_in_a_sentence(request: NodeRequest) -> str:
    last, since = request.status.events[-1:], format_instant(request.changed_at)
    why = f": {last[0].reason}" if last and last[0].reason else ""
    bought = f"for {len(request.planned_pods)} pods" if request.planned_pods else f"({request.spec.reason})"
    words = {
        "Pending": f"it is about to be ordered {bought}",
        "Provisioning": f"its machine is ordered {bought} and has not joined yet, since {since}",
        "Ready": f"its node serves since {since}",
        "Unmet": f"it could not be had{why}",
        "Deprovisioning": f"{'it was withdrawn' if request.is_withdrawn else 'its machine is given back'}{why}",
    }
    return words[request.phase]


class RemovalAnswer(Struct, frozen=True, rename="camel", omit_defaults=True):
    noderemovalrequest: str
    answer: str
    pool: str
    offering: str = ""
    attempts: int = 0
    history: tuple[str, ...] = ()


def why_removal(removal: NodeRemovalRequest) -> RemovalAnswer:
    spec, status = removal.spec, removal.status
    waits = f"; it waits for {status.waiting_for}" if status.waiting_for else ""
    answer = f"node {spec.node_name} goes ({spec.reason or 'removal'}): {removal.phase}{waits}"
    return RemovalAnswer(
        removal.name, answer, spec.pool, spec.offering, status.removal_attempt, _history(status.events)
    )


def _history(events: tuple[LifeEvent, ...]) -> tuple[str, ...]:
    return tuple(f"{each.at} {each.name}{f': {each.reason}' if each.reason else ''}" for each in events)
