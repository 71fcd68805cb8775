"""Bugs planted in what growth buys: launches, limits, trials, needs, adoption, and the providers themselves.

Rows of the table in `tests/sim/mutants.py`; each function wraps growth for one simulation only, and its docstring says
what is wrong."""

from __future__ import annotations

from copy import copy
from typing import Any

from msgspec.structs import replace

from growth.model.nodepool import PoolLimits
from growth.model.offering import CLUSTER_LABEL
from growth.model.outcome import Unknown
from growth.plan.world.limits import allowances
from growth.plan.world.trials import Standing
from growth.providers.contract import Gone, ProviderError
from growth.providers.hetzner.quota import Rank
from growth.providers.hetzner.wire import Servers
from tests.sim.planting import now, open_gate, replaced


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


def spins_on_sold_out() -> Any:
    """An Unmet offering is not struck out."""
    return replaced(struck_out=lambda *_: {})


def ignores_pause() -> Any:
    """A paused pool buys on."""
    return replaced(
        gate_closed=lambda *_: "", gate_paused=lambda *_: None, launching=lambda *_: "", buying=lambda *_: ""
    )


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


def never_learns() -> Any:
    """A pool buys again and again although its machines are of no use."""
    return replaced(standings=lambda snapshot: {name: Standing(name) for name in snapshot.pools})


def no_limits_of_all() -> Any:
    """Limits of all pools together are neither planned with nor looked at by the gate."""

    def of_pools_only(snapshot: Any, settings: Any) -> Any:
        return allowed(snapshot, replace(settings, limits=PoolLimits()))

    def at_gate(tally: Any, spec: Any) -> Any:
        others = copy(tally)
        others._left = tuple(each for each in tally._left if each.pool)
        return over(others, spec)

    allowed, over = now("allowances"), now("over_at_gate")
    return replaced(allowances=of_pools_only, over_at_gate=at_gate, over_limit=lambda *_: {})


def forgets_the_minimum() -> Any:
    """The machines that a pool always has are not bought."""
    return replaced(missing_minimum=lambda *_: ())


def no_limits_of_types() -> Any:
    """How many machines of one type there may be is not counted."""

    def without_types(*arguments: Any) -> Any:
        return tuple(each for each in allowed(*arguments) if not each.server_type)

    allowed = now("allowances")
    return replaced(allowances=without_types, over_at_gate=lambda *_: "", over_limit=lambda *_: {})


def no_limits_of_price() -> Any:
    """What the machines of a pool may cost together is not counted."""

    def without_price(*arguments: Any) -> Any:
        return tuple(replace(each, price_per_hour=None, resources={}) for each in allowed(*arguments))

    allowed = now("allowances")
    return replaced(allowances=without_price, over_at_gate=lambda *_: "", over_limit=lambda *_: {})


def orders_do_not_count() -> Any:
    """A machine counts against limits when it is there, and not when it is ordered."""

    def only_nodes(snapshot: Any) -> Any:
        return tuple(each for each in counted(snapshot) if each.name in snapshot.nodes)

    def of_nodes(snapshot: Any, settings: Any) -> Any:
        return allowances(snapshot.pools, settings, only_nodes(snapshot))

    counted = now("members")
    return replaced(members=only_nodes, allowances=of_nodes, over_at_gate=lambda *_: "", over_limit=lambda *_: {})


def never_ready_never_strikes() -> Any:
    """A machine that never becomes Ready says nothing about its pool."""

    def of_ready_ones(request: Any) -> Any:
        return verdict(request) if request.phase == "Ready" else None

    verdict = now("verdict")
    return replaced(verdict=of_ready_ones)


def forgets_the_day() -> Any:
    """What was in vain is forgotten with its NodeRequest."""

    def forgetful(pool: Any, *arguments: Any) -> Any:
        status = replace(pool.status, trials=replace(pool.status.trials, in_vain=()))
        return of(replace(pool, status=status), *arguments)

    of = now("trials_of")
    return replaced(trials_of=forgetful)


def pauses_for_ever() -> Any:
    """A pool whose machines were in vain is never tried again."""

    def without_end(*arguments: Any) -> Any:
        pause = of(*arguments)
        return replace(pause, until=1e12) if pause.until else pause

    of = now("pause")
    return replaced(pause=without_end)


def buys_for_running_pods() -> Any:
    """Machines are bought for pods that have a node."""

    def with_running(snapshot: Any, ledger: Any, settings: Any) -> Any:
        running = [
            replace(pod, node_name="", unschedulable_at=snapshot.now)
            for pods in snapshot.pods_by_node.values()
            for pod in pods
            if pod.counts_as_work
        ]
        return survey(replace(snapshot, waiting_pods=(*snapshot.waiting_pods, *running[:3])), ledger, settings)

    async def somebody_waits(*_: Any) -> bool:
        return True

    survey = now("survey")
    return replaced(survey=with_running, someone_waits=somebody_waits, doubled=lambda *_: False)


def buys_the_minimum_again() -> Any:
    """Nodes that are there do not count for the minimum of their pool."""
    return replaced(lacks_minimum=lambda *_: True, standing_minimum=lambda *_: 0)


def buys_twice() -> Any:
    """Machines are bought for pods that others are on their way for."""

    def of_all(pods: Any, _assigned: Any, *arguments: Any) -> Any:
        return wanted(pods, set(), *arguments)

    wanted = now("demands")
    return replaced(demands=of_all, doubled=lambda *_: False, awaited=lambda *_: ())


def forgets_orders_of_its_predecessor() -> Any:
    """What an earlier process may have ordered is let go as if it had not."""
    return replaced(inherited=lambda *_: False)


def releases_too_early() -> Any:
    """A NodeRequest is let go while its launch may still bring a machine."""
    return replaced(surely_no_machine=lambda *_: True, may_come=lambda *_: 0.0, absent_for_launch=lambda *_: True)


def waits_for_machines_for_ever() -> Any:
    """A machine that does not become a node is waited for without end."""
    return replaced(fail=lambda *_: None)


def nothing_alone(*_: Any) -> bool:
    return False


def orphans_are_left() -> Any:
    """A machine that everybody has forgotten is never collected."""
    return replaced(orphans=nothing_alone)


def gate_asks_nobody_whose_machine() -> Any:
    """The gate does not ask whose machine it is, nor whether it is the recorded one."""
    return replaced(gate_owner=open_gate)


def hetzner_deletes_strangers() -> Any:
    """At Hetzner every server of the project counts as ours, and none is looked at before it is deleted."""

    async def all_servers(self: Any, _cluster: str) -> Any:
        return tuple((await self._api.get("/servers", Servers, Rank.LIST, {})).servers)

    def as_ours(self: Any, server: Any) -> Any:
        machine = made(self, server)
        return replace(machine, labels=machine.labels.with_items({CLUSTER_LABEL: self._cluster}))

    made = now("hetzner_machine")
    return replaced(
        hetzner_servers=all_servers,
        hetzner_machine=as_ours,
        hetzner_refusal=lambda *_: "",
        gate_owner=open_gate,
        remembered=_forgetful,
    )


def hetzner_takes_any_name() -> Any:
    """At Hetzner a lost order is made again under another name."""

    async def launch_again(self: Any, order: Any) -> Any:
        outcome = await launch(self, order)
        return await launch(self, replace(order, name=f"{order.name}x")) if isinstance(outcome, Unknown) else outcome

    launch = now("hetzner_launch")
    return replaced(hetzner_launch=launch_again)


def own_clock() -> Any:
    """Stamps of the API server are compared with growth's own clock."""
    return replaced(hear_date=lambda *_: None)


def brake_does_not_hold_purchases() -> Any:
    """While many nodes fail machines are bought as ever."""
    return replaced(brake_allowance=lambda *_: None)
