"""How is a bug planted? Things of growth are exchanged for one simulation, each by its place in PLACES."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final

from msgspec.structs import replace


@contextmanager
def replaced(**changes: Any) -> Iterator[None]:
    """Things of growth exchanged for a while, each by its place in PLACES; a place that is gone is an error."""
    with ExitStack() as stack:
        for place, new in changes.items():
            owner, name = find(PLACES[place])
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, new)
        yield


def find(path: str) -> tuple[Any, str]:
    module, _, attributes = path.partition(":")
    *outer, name = attributes.split(".")
    owner: Any = importlib.import_module(module)
    for attribute in outer:
        owner = getattr(owner, attribute)
    return owner, name


def now(place: str) -> Any:
    owner, name = find(PLACES[place])
    return getattr(owner, name)


PLACES: Final = {
    "absent_for_launch": "growth.plan.nodes_up.provisioning:is_surely_absent",
    "attempt": "growth.plan.nodes_down.removal:_Look._attempt",
    "awaited": "growth.plan.world.orders:still_awaited",
    "batch_closes_at": "growth.plan.nodes_up.survey:closes_at",
    "brake_allowance": "growth.plan.world.brake:Brake.allowance",
    "brake_held": "growth.plan.world.brake:Brake.why_held",
    "buffer_demands": "growth.plan.nodes_up.survey:buffer_demands",
    "demands": "growth.plan.nodes_up.survey:demands",
    "doubled": "growth.plan.nodes_up.provisioning:is_doubled",
    "fail": "growth.plan.nodes_up.provisioning:_Look._fail",
    "gate_bind": "growth.controllers.act.gate:Gate.why_not_bind",
    "gate_bind_among": "growth.controllers.act.gate:Gate.why_not_bind_among",
    "gate_delete": "growth.controllers.act.gate:Gate.why_not_delete",
    "give_up": "growth.plan.nodes_down.removal:_give_up",
    "hetzner_launch": "growth.providers.hetzner.provider:HetznerProvider.launch",
    "hetzner_machine": "growth.providers.hetzner.provider:HetznerProvider._machine",
    "hetzner_refusal": "growth.providers.hetzner.provider:HetznerProvider._why_not_delete",
    "hetzner_servers": "growth.providers.hetzner.listing:Listing.servers",
    "inherited": "growth.plan.nodes_up.provisioning:Ledger.may_have_inherited",
    "kept_at_gate": "growth.controllers.act.gate:is_kept_by_wish",
    "kept_in_removal": "growth.plan.nodes_down.removal:is_kept_by_wish",
    "volume_wait": "growth.plan.flow.volumes:_Asking.wait_for",
    "overtaken": "growth.solver.flow:oldest_overtaken",
    "sparing_used": "growth.plan.warm_pools.warm_pools:sparing_used",
    "lacks_minimum": "growth.plan.nodes_up.survey:lacks_minimum",
    "hear_date": "growth.kube.api.server_time:ServerTime.hear",
    "left_to_pods": "growth.plan.buffers.placement:left_to_pods",
    "lease_is_free": "growth.kube.election:Election._is_free",
    "mark_idle": "growth.plan.nodes_down.scale_down:_Look._mark_idle",
    "may_be_taken_back": "growth.plan.nodes_down.removal:may_be_taken_back",
    "may_come": "growth.plan.nodes_up.provisioning:may_come_until",
    "members": "growth.plan.nodes_up.survey:members",
    "orphans": "growth.plan.nodes_down.orphans:is_alone",
    "owner": "growth.controllers.observe.supply:owner_of",
    "pause": "growth.plan.world.trials:_pause",
    "recommend": "growth.plan.warm_pools.size:recommend",
    "recover": "growth.kube.watch.reflector:Reflector._recover",
    "refresh": "growth.controllers.observe.supply:Supply.refresh",
    "removal_pods": "growth.plan.nodes_down.removal:_Look._pods",
    "returned_for_drain": "growth.plan.nodes_down.drain:has_returned",
    "returned_for_removal": "growth.plan.nodes_down.removal:has_returned",
    "scale_next_at": "growth.plan.warm_pools.memory:Writes.next_at",
    "someone_waits": "growth.controllers.act.nodes:_someone_waits",
    "stale": "growth.controllers.observe.observer:Observer.why_stale",
    "standing_minimum": "growth.plan.nodes_up.survey:_standing",
    "surely_no_machine": "growth.plan.nodes_up.provisioning:_Look._surely_no_machine",
    "survey": "growth.plan.nodes_up.survey:_survey",
    "trials_of": "growth.plan.world.trials:trials_of",
    "verdict": "growth.plan.world.trials:verdict",
    "wait_is_over": "growth.plan.nodes_up.survey:is_over",
    "rows": "growth.controllers.loop.loop:ROWS",
    "effects": "growth.controllers.act.apply:EFFECTS",
    "write_taints": "growth.controllers.act.nodes:_patch_node",
    "gate_limits": "growth.controllers.act.gate:Gate._why_over_limit",
    "gate_pods": "growth.controllers.act.gate:Gate._why_occupied",
    "gate_owner": "growth.controllers.act.gate:Gate._why_not_this_one",
    "gate_launch": "growth.controllers.act.gate:Gate.why_not_launch",
    "gate_closed": "growth.controllers.act.gate:Gate._why_closed",
    "gate_paused": "growth.controllers.act.gate:_why_paused",
    "allowances": "growth.plan.nodes_up.survey:allowances_now",
    "over_limit": "growth.plan.nodes_up.provisioning:over_limit",
    "expected_nodes": "growth.plan.world.capacity:_expected_nodes",
    "struck_out": "growth.plan.world.market:struck_out",
    "buying": "growth.plan.world.market:why_not_buying",
    "launching": "growth.plan.nodes_up.provisioning:why_not_buying",
    "surely_gone": "growth.plan.nodes_down.removal:is_surely_gone",
    "minimum": "growth.plan.nodes_down.scale_down:minimum",
    "remembered": "growth.plan.nodes_down.orphans:_remembered",
    "budget": "growth.plan.nodes_down.candidates:disruptions_left",
    "protected_for_plan": "growth.plan.evictions:is_protected_pod",
    "protected_for_drain": "growth.plan.nodes_down.drain:is_protected_pod",
    "stays": "growth.plan.nodes_down.what_if:Emptying.why_stays",
    "stuck": "growth.plan.nodes_down.what_if:Emptying.why_stuck",
    "choose": "growth.plan.nodes_down.what_if:Emptying.choose",
    "wanted": "growth.plan.nodes_down.drain:Drains._is_wanted",
    "kept": "growth.plan.nodes_down.scale_down:place_buffers",
    "clamped": "growth.plan.warm_pools.size:clamped",
    "standings": "growth.plan.world.market:standings",
    "brake": "growth.plan.world.brake:Brake.why",
    "make_growth": "growth.controllers.growth:Growth.__init__",
    "over_at_gate": "growth.plan.world.limits:Tally.why_over",
    "protected_node": "growth.plan.world.nodes:is_protected_node",
    "protected_node_for_swaps": "growth.plan.world.swaps:is_protected_node",
    "protected_node_for_what_if": "growth.plan.nodes_down.what_if:is_protected_node",
    "protected_node_for_buffers": "growth.plan.buffers.giving_way:is_protected_node",
    "notes": "growth.plan.nodes_up.scale_up:notes_for",
    "missing_minimum": "growth.plan.nodes_up.survey:missing_minimum",
    "launch": "growth.providers.simulated:SimulatedProvider.launch",
    "list": "growth.providers.simulated:SimulatedProvider.list",
    "describe": "growth.providers.simulated:SimulatedProvider.describe",
}


async def open_gate(*_arguments: Any) -> None:
    return None


def acting(kind: type, perform: Callable[[Any, Any], Any]) -> Any:
    """The table of effects with one of them exchanged."""
    effects = now("effects").items()
    return {each: replace(effect, perform=perform) if each is kind else effect for each, effect in effects}


def rows_with(name: str, plan: Callable[[Any, Any, Any, Any], Any]) -> Any:
    """The table of rows with one plan wrapped; the wrapper gets the plan it replaces first."""
    return tuple(replace(row, plan=partial(plan, row.plan)) if row.name == name else row for row in now("rows"))
