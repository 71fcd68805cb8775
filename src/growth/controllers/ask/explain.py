"""Why is this pod where it is, or this node still here? Asked by `growth explain`; it changes nothing.

For a pod the answer is scale-up's own, made from one look with an empty memory and closed batch windows. A pod that the
scheduler has not refused yet is answered as if it had been.

| the node | the answer |
| --- | --- |
| of no pool, or not made by growth | growth never touches it |
| in removal | why it goes, how far that is and what it waits for |
| marked | when it goes, unless it is needed |
| pods work on it | why they cannot all move, or that they could |
| empty | whose spare room it is, or that scale-down will have it |
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.controllers.ask.offers import Offer, Remedy, offers_to, remedies_for
from growth.model.action import BindPods
from growth.model.instant import format_instant
from growth.model.node import Node
from growth.model.pod import Pod
from growth.model.resources import CPU, MEMORY, sum_resources
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.placement import place_buffers
from growth.plan.flow import scheduling
from growth.plan.flow.improvement import why_stays
from growth.plan.nodes_down.budgets import Recent, with_moment
from growth.plan.nodes_down.candidates import Candidates
from growth.plan.nodes_down.consolidation import why_pool_keeps
from growth.plan.nodes_down.what_if import Emptying
from growth.plan.nodes_up import scale_up
from growth.plan.nodes_up.demand import MALFORMED, UNPLACED, identity
from growth.plan.nodes_up.survey import Survey, survey
from growth.plan.world.capacity import is_plannable
from growth.plan.world.marks import mark_of
from growth.plan.world.nodes import (
    Prices,
    delay_seconds,
    is_ours,
    is_paused,
    is_protected_node,
    why_not_idle,
    working_pods,
)
from growth.plan.world.pools import REASONS
from growth.solver.flow import Fleet, arcs_of
from growth.solver.purchase.solve import solve
from growth.solver.rules import Neighbours

REASONS_WITHOUT_PLACE: Final = (UNPLACED, MALFORMED, *REASONS)
_LONG_AGO: Final = 1.0

# -------------------------------------------------------------------------------------------- a pod


class PodAnswer(Struct, frozen=True, rename="camel", omit_defaults=True):
    pod: str
    answer: str  # in one sentence
    state: str
    plan: str
    nodes: str = ""  # the sentence that adds up over all nodes
    pools: tuple[str, ...] = ()  # it may buy from
    offers: tuple[Offer, ...] = ()  # what every pool says to it, offering by offering
    remedies: tuple[Remedy, ...] = ()  # of one that gets no place: what would help
    arcs: dict[
        str, str
    ] = {}  # where growth schedules it: its ways through the network, and the price of leaving it out


def find_pod(key: str, snapshot: Snapshot) -> Pod | None:
    bound = (pod for pods in snapshot.pods_by_node.values() for pod in pods)
    return next((pod for pod in (*snapshot.waiting_pods, *bound) if pod.key == key), None)


def why_pod(pod: Pod, snapshot: Snapshot, settings: Settings) -> PodAnswer:
    if pod.node_name:
        where = f"{pod.phase} on node {pod.node_name}"
        moved = why_stays(pod, snapshot, settings)
        plan = f"nothing: it has its place{'; ' + moved if moved else ''}"
        return PodAnswer(pod.key, f"it has its place: {where}", where, plan)
    state = state_of_pod(pod)
    if not is_plannable(pod) and not pod.shape.malformed:
        return PodAnswer(pod.key, f"growth does nothing for it: {state}", state, "nothing, as long as this is so")
    asked = replace(pod, unschedulable_at=pod.unschedulable_at or snapshot.now)
    waiting = tuple(asked if each.key == pod.key else each for each in snapshot.waiting_pods)
    world = replace(snapshot, waiting_pods=waiting)
    at_once = replace(settings, batch_quiet_seconds=0.0, batch_longest_seconds=0.0)
    found = survey(world, scale_up.Ledger(), at_once)
    pools = next((demand.pools for demand in found.demands if demand.name == identity(pod)), ())
    plan = _held(pod, found) or _scheduled(pod, snapshot, settings) or _planned(asked, world, at_once)
    is_lost = plan.startswith(REASONS_WITHOUT_PLACE) and not pod.shape.malformed
    return PodAnswer(
        pod=pod.key,
        answer=_in_a_sentence(plan),
        state=state,
        plan=plan,
        nodes=_sentence(pod, snapshot),
        pools=pools,
        offers=offers_to(asked, world, at_once) if not pod.shape.malformed else (),
        remedies=remedies_for(asked, world, at_once) if is_lost else (),
        arcs=_arcs(pod, snapshot, settings),
    )


def _in_a_sentence(plan: str) -> str:
    """Without the word that events carry for programs."""
    head, mark, text = plan.partition(": ")
    return text if mark and head in {"Planned", *REASONS_WITHOUT_PLACE} else plan


def state_of_pod(pod: Pod) -> str:
    if pod.deleted_at is not None:
        return "being deleted"
    if pod.is_gated:
        return "waits for its scheduling gates"
    if pod.is_daemon or pod.is_mirror:
        return "belongs to one node (DaemonSet or static pod): it makes no demand"
    if pod.volumes_asked_at is not None:
        return f"waits on node {pod.nominated_node} for volumes"
    if pod.unschedulable_at is not None:
        return "the scheduler finds no node for it"
    return "the scheduler has not looked at it yet"


def _sentence(pod: Pod, snapshot: Snapshot) -> str:
    bound = [each for pods in snapshot.pods_by_node.values() for each in pods if not each.is_finished]
    neighbours = Neighbours(snapshot.nodes.values(), bound, snapshot.volumes, snapshot.namespaces, shapes=[pod.shape])
    pod_class = neighbours.class_of_pod(pod)
    fitting = int(neighbours.fits(pod_class).sum())
    return f"{fitting} of {len(snapshot.nodes)} nodes would take it now" if fitting else neighbours.sentence(pod_class)


def _held(pod: Pod, found: Survey) -> str:
    """A place that it has already."""
    for each in found.assigned.expected:
        if any(planned.key == pod.key for planned in each.planned):
            return f"planned onto {each.node.name}, which is on its way ({each.request.phase})"
    holders = found.assigned.holders.items()
    node = next((name for name, pods in holders if any(each.key == pod.key for each in pods)), "")
    return f"nothing: it is nominated to node {node}, which has room" if node else ""


def _scheduled(pod: Pod, snapshot: Snapshot, settings: Settings) -> str:
    """Where growth's own scheduler would bind it, if it is on and the pod names it."""
    whole = replace(settings, scheduler=replace(settings.scheduler, pods_per_round=max(1, len(snapshot.waiting_pods))))
    actions = scheduling.plan_on_the_spot(snapshot, scheduling.Ledger(), whole).actions
    assigned = (one for action in actions if isinstance(action, BindPods) for one in action.assignments)
    one = next((one for one in assigned if one.pod.uid == pod.uid), None)
    if one is not None and one.wait is not None:
        return f"growth asks for volumes on node {one.node_name}, and binds it there"
    return f"growth binds it to node {one.node_name}" if one is not None else ""


def _arcs(pod: Pod, snapshot: Snapshot, settings: Settings) -> dict[str, str]:
    if not settings.scheduler.serves(pod.shape.scheduler_name) or pod.shape.malformed:
        return {}
    fleet = Fleet()
    fleet.follow(snapshot.nodes, snapshot.pods_by_node, snapshot.volumes, snapshot.namespaces)
    found = arcs_of(fleet, pod, settings.scheduler, lambda node: node.name not in snapshot.removals)
    ways = {f"way {number}": str(arc) for number, arc in enumerate(found.arcs, 1)}
    return {**ways, "unscheduled": str(found.unscheduled)}


def _planned(pod: Pod, snapshot: Snapshot, settings: Settings) -> str:
    ledger = scale_up.Ledger()
    question = scale_up.question(snapshot, ledger, settings)
    solution = None if question is None else solve(question.problem)
    decision = scale_up.plan(snapshot, ledger, settings, question, solution)
    notes = [note for note in decision.notes if note.about.kind == "Pod" and note.about.uid == pod.uid]
    wait = decision.ledger.waits.get(identity(pod))
    if notes:
        return "; ".join(f"{note.reason}: {note.message}" for note in notes)
    if wait is not None and wait.lodged_on:
        return f"nothing: node {wait.lodged_on} has room for it, and the scheduler decides"
    return "after the machines that `min` keeps warm have been ordered" if question is None else "nothing"


# ------------------------------------------------------------------------------------------- a node


class NodeAnswer(Struct, frozen=True, rename="camel", omit_defaults=True):
    node: str
    answer: str  # why it stays or when it goes, in one sentence
    pool: str = ""
    offering: str = ""
    price_per_hour: float = 0.0
    pods: int = 0  # that work there
    used: str = ""
    check_type: str = ""  # of what keeps it
    constraint: str = ""
    blocking_pod: str = ""


def why_node(node: Node, snapshot: Snapshot, settings: Settings) -> NodeAnswer:
    stays, block = _why_stays(node, snapshot, settings)
    offering, pods = node.offering, len(working_pods(snapshot, node.name))
    price, used = Prices(snapshot).price(node), _used(node, snapshot)
    return NodeAnswer(node.name, stays, node.pool, offering, price, pods, used, *block)


def _why_stays(node: Node, snapshot: Snapshot, settings: Settings) -> tuple[str, tuple[str, ...]]:
    pool, removal = snapshot.pools.get(node.pool), snapshot.removals.get(node.name)
    if pool is None or not is_ours(node, snapshot):
        return "growth did not make it, and never touches it", ()
    if removal is not None:
        waits = f", waits for {removal.status.waiting_for}" if removal.status.waiting_for else ""
        return f"it goes ({removal.spec.reason or 'removal'}): {removal.phase}{waits}", ()
    if (mark := mark_of(node)) is not None:
        due = "an unknown time" if mark.due_at is None else format_instant(mark.due_at)
        return f"it is marked, and goes at {due} unless it is needed", ()
    if is_paused(pool, settings):
        return "it stays: growth, or its pool, is paused", ()
    if working_pods(snapshot, node.name):
        return _why_not_emptied(node, snapshot, settings)
    return _why_kept_empty(node, snapshot, settings), ()


def _why_not_emptied(node: Node, snapshot: Snapshot, settings: Settings) -> tuple[str, tuple[str, ...]]:
    pool = snapshot.pools[node.pool]
    if kept := why_pool_keeps(pool, is_empty=False):
        return f"it stays: {kept}", ()
    if (block := Emptying(snapshot, settings, settings.scale_down_headroom).why_stays(node)) is not None:
        return f"it stays: {block.message}", (block.check_type, block.constraint, block.pod)
    recent = with_moment(Recent(known_since=_LONG_AGO), snapshot, settings)  # as far as the pool's status tells
    candidates = Candidates(snapshot, settings, recent)
    if not candidates.is_settled(node):
        settled_at = format_instant(node.created_at + settings.settling_seconds)
        return f"it stays until {settled_at}, since it is new; its pods fit on other nodes, so it goes after that", ()
    if why_wait := candidates.why_wait(node, pool):
        return f"it stays for now: its pods fit on other nodes, but {why_wait}", ()
    seconds = settings.consolidation_interval_seconds
    return f"it goes: its pods fit on other nodes, and growth looks every {seconds:.0f} s", ()


def _why_kept_empty(node: Node, snapshot: Snapshot, settings: Settings) -> str:
    busy = why_not_idle(node, snapshot, delay_seconds(snapshot.pools[node.pool], settings))
    holders = place_buffers(snapshot, settings).holders_of(node.name)
    if busy:
        return f"it stays: {busy}"
    if is_protected_node(node):
        return "it stays: an annotation says that it must not be disrupted"
    if holders:
        return f"it stays: it is spare room of CapacityBuffer {', '.join(holders)}"
    if kept := why_pool_keeps(snapshot.pools[node.pool], is_empty=True):
        return f"it stays: {kept}"
    return "it is empty: it goes, unless `min` keeps it or its hour is paid"


def _used(node: Node, snapshot: Snapshot) -> str:
    asked = sum_resources(pod.shape.requests for pod in snapshot.pods_by_node.get(node.name, ()) if not pod.is_finished)
    shares = [(name, asked[name] / node.allocatable[name]) for name in (CPU, MEMORY) if node.allocatable[name]]
    return ", ".join(f"{share:.0%} of {name}" for name, share in shares)
