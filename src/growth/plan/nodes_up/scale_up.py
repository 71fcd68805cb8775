"""What is bought, revived or waited for, so that every pod that needs a place gets one? The first of growth's
decisions.

    question  who needs a place, what room there is and what may be bought: put to the solver, which runs elsewhere
    plan      the solver's answer as actions; without a question, what can be decided without the solver

| the solver puts a pod | then |
| --- | --- |
| onto a node to buy | CreateNodeRequest, with the pod among its planned pods |
| onto a request on its way | the request's status names it as well |
| onto a node marked for scale-down | the mark is taken off: revive before buying |
| onto a node with room | nothing: the scheduler will; the pod holds that room for a while |
| nowhere | a note with the reasons; a miss (see `plan/nodes_up/waiting`) |

Machines that `min` keeps warm are ordered first, and the solver is asked once they are on their way.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import Action, CreateNodeRequest, UnmarkScaleDown, WriteNodeRequestStatus
from growth.model.decision import Decision, Settled
from growth.model.note import About, Note
from growth.model.outcome import Accepted
from growth.model.pod import PodShape
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.plan.nodes_up.assign import MOST_PLANNED_PODS, Dealt, Hand, deal
from growth.plan.nodes_up.buffer_demand import SpareQuestion, after_buying, buy, spare_question
from growth.plan.nodes_up.demand import Demand
from growth.plan.nodes_up.notes import notes_of
from growth.plan.nodes_up.survey import Ledger, Survey, identity, survey
from growth.plan.nodes_up.waiting import Wait, after_lodging, after_miss
from growth.plan.world.orders import Purchases, create_request, settle_order
from growth.plan.world.problem import placement_problem, with_settings
from growth.plan.world.records import seen, sooner
from growth.solver.purchase.problem import Choice, DemandClass, PlacementProblem, PlacementSolution

__all__ = ["Ledger", "Question", "plan", "question", "settle", "without_timers"]

_RETRY_SECONDS: Final = 2.0


class Question(Struct, frozen=True):
    """What is put to the solver, with the pods behind each class and what else was seen."""

    problem: PlacementProblem
    classes: tuple[Hand, ...]
    survey: Survey


class SpareTurn(Struct, frozen=True):
    """The same for buffers, which have their turn when no pod is tried."""

    problem: PlacementProblem
    asked: SpareQuestion
    survey: Survey


def question(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Question | SpareTurn | None:
    """None: nobody needs a place now, or more are about to arrive, or something must be settled first."""
    if ledger.orders.busy_until(snapshot) is not None:
        return None
    found = survey(snapshot, ledger, settings)
    if not (found.minimum or found.eligible):
        asked = spare_question(found.wanting, snapshot, settings)
        return None if asked is None else SpareTurn(asked.problem, asked, found)
    if found.minimum or (found.closes_at is not None and snapshot.now < found.closes_at):
        return None
    classes: dict[tuple[PodShape, tuple[str, ...]], list[Demand]] = {}
    for demand in sorted(found.eligible, key=lambda each: (each.pod.created_at, each.pod.key)):
        classes.setdefault((demand.shape, demand.pools), []).append(demand)
    wanted = (DemandClass(shape, len(hand), pools) for (shape, pools), hand in classes.items())
    problem = placement_problem(snapshot, wanted, found.all_rooms(snapshot), found.market, found.allowances)
    problem = with_settings(problem, settings, found.ledger.patterns)
    return Question(problem, tuple(tuple(hand) for hand in classes.values()), found)


def plan(
    snapshot: Snapshot,
    ledger: Ledger,
    settings: Settings,
    question: Question | SpareTurn | None = None,
    solution: PlacementSolution | None = None,
) -> Decision[Ledger]:
    if question is None or solution is None:
        return _without_solver(snapshot, ledger, settings)
    if isinstance(question, SpareTurn):
        return _for_spares(snapshot, settings, question, solution)
    found = question.survey
    dealt = deal(question.problem, question.classes, solution, Purchases(snapshot, found.allowances))
    waits = _waits_after(dealt, question, snapshot, settings)
    known = found.ledger.known | {identity(demand.pod) for hand in question.classes for demand in hand}
    after = _tidied(
        replace(
            found.ledger, waits=waits, known=known, batch=None, patterns=solution.patterns or found.ledger.patterns
        ),
        snapshot,
    )
    told, notes = _told(found, after)
    actions = _orders(dealt, snapshot) + _additions(dealt, snapshot) + _revivals(dealt, snapshot)
    again = [wait.until for wait in after.waits.values() if not wait.is_backed_off and wait.until > snapshot.now]
    notes += _complaints(question, solution, snapshot) + notes_of(dealt, found, after, snapshot, settings)
    return Decision(told, actions, notes, sooner(found.again_at, *again))


def _complaints(question: Question, solution: PlacementSolution, snapshot: Snapshot) -> tuple[Note, ...]:
    """A plan that the checker threw away is our mistake: every pool it was for is told."""
    if not solution.complaints:
        return ()
    message = f"a plan was wrong and is not carried out: {'; '.join(solution.complaints[:3])}"
    pools = sorted({choice.pool for choice in question.problem.choices})
    return tuple(
        Note(About("NodePool", name, uid=snapshot.pools[name].uid), "PlanWasWrong", message, "Warning")
        for name in pools
    )


# ------------------------------------------------------------------------------------------ without
# the solver


def _without_solver(snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:
    held_until = ledger.orders.busy_until(snapshot)
    if held_until is not None:
        return Decision(ledger, again_at=held_until)
    found = survey(snapshot, replace(ledger, orders=replace(ledger.orders, awaited=())), settings)
    after, notes = _told(found, _tidied(found.ledger, snapshot))
    actions = tuple(_create(choice, (), "Minimum", snapshot) for choice in found.minimum)
    return Decision(after, actions, notes, sooner(found.again_at, found.closes_at))


def _for_spares(
    snapshot: Snapshot, settings: Settings, turn: SpareTurn, solution: PlacementSolution
) -> Decision[Ledger]:
    """Room for virtual pods: what is left is told on the buffer, and has its turn again later."""
    found, bought = turn.survey, buy(turn.asked, solution, snapshot)
    spare = after_buying(turn.asked, bought, snapshot, settings)
    after, notes = _told(found, _tidied(replace(found.ledger, spare=spare), snapshot))
    again = [wait.until for wait in spare.waits.values() if not wait.is_backed_off]
    return Decision(after, bought.actions, notes + bought.notes, sooner(found.again_at, found.closes_at, *again))


def without_timers(ledger: Ledger) -> Ledger:
    """What is still true after the clock went back: which machines were bought in vain."""
    return Ledger(in_vain=ledger.in_vain)


def _tidied(ledger: Ledger, snapshot: Snapshot) -> Ledger:
    """Pods that wait no longer are forgotten."""
    here = {identity(pod) for pod in snapshot.waiting_pods}
    return replace(
        ledger, known=ledger.known & here, waits={name: wait for name, wait in ledger.waits.items() if name in here}
    )


def _told(found: Survey, ledger: Ledger) -> tuple[Ledger, tuple[Note, ...]]:
    """Each pod without a pool is told so once."""
    now = {identity(problem.pod): f"{problem.reason}: {problem.message}" for problem in found.problems}
    notes = tuple(
        problem.note()
        for problem in found.problems
        if ledger.told.get(identity(problem.pod)) != now[identity(problem.pod)]
    )
    return replace(ledger, told=now), notes


# ---------------------------------------------------------------------------------------------- the
# answer in actions


def _orders(dealt: Dealt, snapshot: Snapshot) -> tuple[Action, ...]:
    return tuple(_create(choice, hand, "Demand" if hand else "Buffer", snapshot) for choice, hand in dealt.orders)


def _create(choice: Choice, hand: Hand, reason: str, snapshot: Snapshot) -> CreateNodeRequest:
    planned = tuple(demand.pod.key for demand in hand)[:MOST_PLANNED_PODS]
    return create_request(choice, snapshot, reason, planned)


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
    """The room's node has lost its mark already; the other taints stay."""
    marked = [
        room.node for room, _ in dealt.into_rooms if room.kind == "marked" and room.node.name not in snapshot.removals
    ]  # a removal ends itself
    return tuple(
        UnmarkScaleDown(seen(snapshot.nodes[node.name]), node.taints) for node in marked if node.name in snapshot.nodes
    )


# ----------------------------------------------------------------------------------------- patience


def _waits_after(dealt: Dealt, question: Question, snapshot: Snapshot, settings: Settings) -> dict[str, Wait]:
    """Who was placed waits no longer; who was sent to a node holds its room; who was not placed has missed once more."""
    found, now = question.survey, snapshot.now
    before = found.ledger.waits
    waits = {
        name: wait for name, wait in before.items() if name not in {identity(demand.pod) for demand in found.eligible}
    }
    for room, hand in dealt.into_rooms:
        if room.kind != "in-flight":
            for demand in hand:
                name = identity(demand.pod)
                waits[name] = after_lodging(before.get(name), room.node.name, now, settings)
    outlook = found.outlook(snapshot, question.problem.rooms if dealt.unplaced else None)
    left = replace(found, allowances=dealt.allowances).outlook(snapshot, None)
    for demand, _ in dealt.unplaced:
        name = identity(demand.pod)
        waits[name] = after_miss(
            before.get(name), now, settings, outlook.of(demand), left.why_nothing(demand, snapshot.offerings)
        )
    return waits


# ----------------------------------------------------------------------------------------- outcomes


def settle(settled: Settled, snapshot: Snapshot, ledger: Ledger, settings: Settings) -> Decision[Ledger]:  # noqa: ARG001  (every row has this form)
    """An order that was accepted, or may have been, is waited for: the objects will show it. Anything else is planned
    again.
    """
    action, outcome, now = settled.action, settled.outcome, snapshot.now
    again_at = None if isinstance(outcome, Accepted) else now + _RETRY_SECONDS
    if not isinstance(action, CreateNodeRequest):
        return Decision(ledger, again_at=again_at)
    orders, notes, again_at = settle_order(action, outcome, snapshot, ledger.orders)
    return Decision(replace(ledger, orders=orders), notes=notes, again_at=again_at)
