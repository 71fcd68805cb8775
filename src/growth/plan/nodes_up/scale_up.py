"""What is bought, revived or waited for, so that every pod that needs a place gets one, and after them every buffer its
room? The first of growth's decisions.

    question  which demands are tried, what room there is and what may be bought: put to the solver,
              which runs elsewhere
    plan      the solver's answer as actions; without a question, what can be decided without the solver

| the solver puts a pod | then |
| --- | --- |
| onto a node to buy | CreateNodeRequest, with the pod among its planned pods |
| onto a request on its way | the request's status names it as well |
| onto a node marked for scale-down | the mark is taken off: revive before buying |
| onto a node with room | nothing: the scheduler will; the pod holds that room for a while |
| nowhere | a note with the reasons; a miss (see `plan/nodes_up/waiting`) |

A gang is bought for whole or not at all (`plan/nodes_up/demand`).

A virtual pod is only ever bought for: on nodes that exist, `plan/buffers/placement` finds its room. Machines that `min`
keeps warm are ordered first, and the solver is asked once they are on their way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import Action, CreateNodeRequest, WriteNodeRequestStatus
from growth.model.decision import Decision, Note, Settled
from growth.model.gang import name_of_gang
from growth.model.outcome import Accepted
from growth.model.pod import PodShape
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.buffers.virtual_pods import planned_entry
from growth.plan.nodes_up.assign import Dealt, Hand, deal, notes_for, of_minimum
from growth.plan.nodes_up.demand import Demand, buffer_name, gang_demands, identity
from growth.plan.nodes_up.failures import doubted_gangs
from growth.plan.nodes_up.survey import Ledger, Survey, survey
from growth.plan.nodes_up.verdict import Trust, after_plan
from growth.plan.nodes_up.waiting import Wait, after_lodging, after_miss
from growth.plan.world.market import placement_problem, with_settings
from growth.plan.world.marks import unmark_node
from growth.plan.world.orders import Purchases, create_request, settle_order
from growth.plan.world.turn import about, seen, sooner
from growth.solver.purchase.problem import DemandClass, PlacementProblem, PlacementSolution

__all__ = ["Ledger", "Question", "plan", "question", "settle"]

MOST_PLANNED_PODS: Final = 1000  # on one request: the bound of its API
_LONGEST_ENTRY: Final = 317  # of a planned pod in the API
_RETRY_SECONDS: Final = 2.0


class Question(Struct, frozen=True):
    """What is put to the solver, with the demands behind each class and what else was seen."""

    problem: PlacementProblem
    classes: tuple[Hand, ...]
    survey: Survey


def question(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Question | None:
    """None: nothing needs a place now, or more is about to arrive, or something must be settled first."""
    if ledger.orders.busy_until(snapshot) is not None:
        return None
    found = survey(snapshot, ledger, settings)
    if found.minimum or not found.demands or found.is_open(snapshot.now):
        return None
    classes: dict[tuple[PodShape, tuple[str, ...], str], list[Demand]] = {}
    for demand in sorted(found.demands, key=lambda each: (each.pod.created_at, each.pod.key)):
        gang = "" if demand.is_virtual else name_of_gang(demand.pod, snapshot.pod_groups)
        classes.setdefault((demand.shape, demand.pools, gang), []).extend([demand] * demand.count)
    wanted = (DemandClass(shape, len(hand), pools, found.is_virtual) for (shape, pools, _), hand in classes.items())
    most_nodes = sum(demand.count for demand in found.demands)  # every node gets a pod
    rooms, market = found.all_rooms(snapshot), found.market
    limits = tuple(each for each in found.allowances if found.is_virtual or not each.is_pace)
    problem = placement_problem(snapshot, wanted, rooms, market, limits, most_nodes=most_nodes)
    problem = with_settings(problem, settings, () if found.is_virtual else ledger.patterns)
    hands = tuple(tuple(hand) for hand in classes.values())
    if not found.is_virtual:
        doubted = doubted_gangs(found.demands, market.standings, snapshot)
        problem = replace(problem, gangs=gang_demands(hands, found.assigned, doubted, snapshot))
    return Question(problem, hands, found)


def plan(
    snapshot: Snapshot,
    ledger: Ledger,
    settings: Settings,
    question: Question | None = None,
    solution: PlacementSolution | None = None,
) -> Decision[Ledger]:
    if question is None or solution is None:
        return _without_solver(snapshot, ledger, settings)
    found = question.survey
    dealt = deal(question.problem, question.classes, solution, Purchases(found.allowances))
    waits = _waits_after(dealt, question, snapshot, settings)
    actions = _orders(dealt, found, snapshot)
    if not found.is_virtual:
        actions += _additions(dealt, snapshot) + _revivals(dealt, snapshot)
    after = _next_ledger(ledger, found, snapshot, waits, solution)
    after = after if found.is_virtual else replace(after, trust=_trust_after(dealt, found, snapshot.now))
    again = [wait.until for wait in after.waits.values() if wait.until > snapshot.now]
    notes = (
        *_of_problems(found, ledger),
        *_complaints(question, solution, snapshot),
        *notes_for(dealt, found, waits, snapshot, settings),
    )
    return Decision(after, actions, notes, sooner(found.again_at, *again))


def _without_solver(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    held_until = ledger.orders.busy_until(snapshot)
    if held_until is not None:
        return Decision(ledger, again_at=held_until)
    found = survey(snapshot, ledger, settings)
    actions = tuple(create_request(choice, snapshot, "Minimum") for choice in found.minimum)
    again_at = sooner(found.again_at, found.closes_at)
    notes = (*_of_problems(found, ledger), *of_minimum(found.minimum, snapshot))
    return Decision(_next_ledger(ledger, found, snapshot, found.waits), actions, notes, again_at)


# --------------------------------------------------------------------------------------- the memory


def _next_ledger(
    ledger: Ledger,
    found: Survey,
    snapshot: Snapshot,
    waits: Mapping[str, Wait],
    solution: PlacementSolution | None = None,
) -> Ledger:
    """What the next look must know, after the solver was asked or not. Pods that wait no longer, buffers that are gone
    and orders that are seen are forgotten.
    """
    was_asked = solution is not None
    pods = {identity(pod) for pod in snapshot.waiting_pods}
    buffers = {buffer_name(key) for key in snapshot.buffers.buffers}
    is_open = found.is_open(snapshot.now)
    known = ledger.known if is_open else ledger.known | {identity(pod) for pod in found.asked}
    learned = () if solution is None or found.is_virtual else solution.patterns
    return Ledger(
        experience=found.experience,
        waits={name: wait for name, wait in waits.items() if name in pods or name in buffers},
        known=known & pods,
        batch=found.batch,
        buffer_batch=None if was_asked and found.is_virtual else found.buffer_batch,
        looked_at=found.looked_at,
        buffers_looked_at=found.buffers_looked_at,
        told=ledger.told if is_open else {identity(each.pod): each.told for each in found.problems},
        orders=replace(ledger.orders, awaited=()),
        patterns=learned or ledger.patterns,
        trust=found.trust,
        gap=solution.gap if solution is not None and solution.nodes else ledger.gap,
    )


def _waits_after(dealt: Dealt, question: Question, snapshot: Snapshot, settings: Settings) -> dict[str, Wait]:
    """A demand that was placed waits no longer; a pod that was sent to a node holds its room; a demand that was not
    placed has missed once more.
    """
    found, now = question.survey, snapshot.now
    before, tried = found.waits, {demand.name for demand in found.demands}
    waits = {name: wait for name, wait in before.items() if name not in tried}
    for room, hand in dealt.into_rooms:
        if room.kind != "in-flight" and not found.is_virtual:
            node = room.node.name
            waits |= {each.name: after_lodging(before.get(each.name), node, now, settings) for each in hand}
    open_rooms = question.problem.rooms if dealt.unplaced and not found.is_virtual else None
    outlook = found.outlook(snapshot, open_rooms)
    left = replace(found, allowances=dealt.allowances).outlook(snapshot, None)
    for demand, _ in dealt.unplaced:
        why = "" if demand.is_virtual else left.why_nothing(demand, snapshot.offerings)
        waits[demand.name] = after_miss(before.get(demand.name), now, settings, outlook.of(demand), why)
    return waits


def _trust_after(dealt: Dealt, found: Survey, now: float) -> Trust:
    bought = [demand.pod for _, hand in dealt.orders for demand in hand]
    joined = [demand.pod for room, hand in dealt.into_rooms if room.kind == "in-flight" for demand in hand]
    return after_plan(found.trust, bought, joined, found.waits, now)


# ---------------------------------------------------------------------------- the answer in actions


def _orders(dealt: Dealt, found: Survey, snapshot: Snapshot) -> tuple[Action, ...]:
    reason, planned = ("Buffer", _planned_entries) if found.is_virtual else ("Demand", _planned_pods)
    gap = dealt.gap.removeprefix(", ")
    return tuple(create_request(choice, snapshot, reason, planned(hand), gap=gap) for choice, hand in dealt.orders)


def _planned_pods(hand: Hand) -> tuple[str, ...]:
    return tuple(demand.pod.key for demand in hand)[:MOST_PLANNED_PODS]


def _planned_entries(hand: Hand) -> tuple[str, ...]:
    entries = (planned_entry(key, count) for key, count in Counter(demand.pod.key for demand in hand).items())
    return tuple(entry for entry in entries if len(entry) <= _LONGEST_ENTRY)


def _additions(dealt: Dealt, snapshot: Snapshot) -> tuple[Action, ...]:
    """Pods that find room on a request on its way join those it was ordered for."""
    actions = []
    for room, hand in dealt.into_rooms:
        request = snapshot.requests.get(room.node.name)
        if room.kind == "in-flight" and request is not None:
            known = request.status.added_pods
            added = (*known, *(demand.pod.key for demand in hand if demand.pod.key not in known))[-MOST_PLANNED_PODS:]
            actions.append(WriteNodeRequestStatus(seen(request), replace(request.status, added_pods=added)))
    return tuple(actions)


def _revivals(dealt: Dealt, snapshot: Snapshot) -> tuple[Action, ...]:
    """The mark comes off nodes that pods are sent to; a removal ends itself."""
    marked = [room.node.name for room, _ in dealt.into_rooms if room.kind == "marked"]
    live = [name for name in marked if name in snapshot.nodes and name not in snapshot.removals]
    return tuple(unmark_node(snapshot.nodes[name]) for name in live)


def _of_problems(found: Survey, ledger: Ledger) -> tuple[Note, ...]:
    """Each pod for which nothing can be bought is told so once."""
    new = [each for each in found.problems if ledger.told.get(identity(each.pod)) != each.told]
    return (*(problem.note() for problem in new), *found.notes)


def _complaints(question: Question, solution: PlacementSolution, snapshot: Snapshot) -> tuple[Note, ...]:
    """A plan that the checker threw away is our mistake: every pool it was for is told."""
    if not solution.complaints:
        return ()
    message = f"a plan was wrong and is not carried out: {'; '.join(solution.complaints[:3])}"
    pools = sorted({choice.pool for choice in question.problem.choices})
    return tuple(Note(about(snapshot.pools[name]), "PlanWasWrong", message, "Warning") for name in pools)


# ----------------------------------------------------------------------------------------- outcomes


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    """An order that was accepted, or may have been, is waited for: the objects will show it. Anything else is planned
    again.
    """
    action, outcome, now = settled.action, settled.outcome, snapshot.now
    if not isinstance(action, CreateNodeRequest):
        return Decision(ledger, again_at=None if isinstance(outcome, Accepted) else now + _RETRY_SECONDS)
    orders, notes, again_at = settle_order(action, outcome, snapshot, ledger.orders)
    return Decision(replace(ledger, orders=orders), notes=notes, again_at=again_at)
