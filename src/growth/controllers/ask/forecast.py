"""What would growth do now, in this cluster? Asked by `growth plan --live`; it changes nothing.

Every row of the loop's table decides once, in its order, from one look and an empty memory; batch windows are closed,
and what was disrupted before that look counts as far as the pools' statuses tell. A pod that the scheduler has not
refused yet is planned for as if it had been. What a row asks for is written into a copy of the world, so that the next
row sees it. Scale-up is asked until it orders nothing more: what `min` keeps warm, then pods, then buffers.

What is told of each action stands in `_WORDS`; of statuses, and of what keeps records in order, nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from growth.controllers.loop.table import ROWS, Row
from growth.model.action import (
    Action,
    BindPods,
    CancelRemoval,
    CreateNodeRemovalRequest,
    CreateNodeRequest,
    DeleteMachine,
    EvictPod,
    FillNode,
    LaunchMachine,
    MarkScaleDown,
    ScaleWarmPool,
    UnmarkScaleDown,
)
from growth.model.decision import Decision, Note
from growth.model.instant import format_instant
from growth.model.node import SCALE_DOWN_AT, Node
from growth.model.noderequest import NodeRemovalRequest, NodeRequest
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Memo, Snapshot
from growth.plan.nodes_down.budgets import Recent
from growth.plan.nodes_up import scale_up
from growth.plan.world.capacity import is_plannable
from growth.plan.world.limits import members
from growth.plan.world.nodes import Prices
from growth.plan.world.pools import by_key

_LONG_AGO: Final = 1.0
_MOST_ROUNDS: Final = 4  # of scale-up: minimum, pods, buffers, and one that finds nothing more


class Order(Struct, frozen=True, rename="camel"):
    """Equal nodes that would be bought."""

    pool: str
    offering: str
    location: str
    nodes: int
    price_per_hour: float  # of all of them
    pods: tuple[str, ...]  # planned onto them; of buffers, their names
    reason: str


class Step(Struct, frozen=True, rename="camel"):
    """One thing that would be done to something that exists."""

    does: str
    kind: str
    name: str
    why: str = ""


class WithoutPlace(Struct, frozen=True, rename="camel"):
    pod: str
    why: str


class Forecast(Struct, frozen=True, rename="camel"):
    """What growth would do now, and what that does to the bill."""

    orders: tuple[Order, ...]
    steps: tuple[Step, ...]
    unplaced: tuple[WithoutPlace, ...]
    price_per_hour: float  # of the nodes that are there or on their way
    price_per_hour_then: float  # after what is bought has come, and what is marked or removed has gone
    notes: tuple[str, ...]  # everything that would be said of other objects

    @property
    def bought(self) -> int:
        return sum(order.nodes for order in self.orders)

    @property
    def given_back(self) -> tuple[str, ...]:
        return tuple(step.name for step in self.steps if step.does in ("marks", "removes"))


def forecast(snapshot: Snapshot, settings: Settings) -> Forecast:
    at_once = replace(settings, batch_quiet_seconds=0.0, batch_longest_seconds=0.0)
    world = replace(snapshot, waiting_pods=tuple(_as_refused(snapshot)), memo=Memo())
    actions, notes = list[Action](), list[Note]()
    for row in ROWS:
        for decision in _decisions(row, world, at_once):
            actions += decision.actions
            notes += decision.notes
            world = with_actions(world, decision.actions)
    return _told(snapshot, actions, notes)


def _as_refused(snapshot: Snapshot) -> Iterator[Pod]:
    """The waiting pods, as if the scheduler had looked at all of them."""
    for pod in snapshot.waiting_pods:
        is_asked = is_plannable(pod) and pod.unschedulable_at is None
        yield replace(pod, unschedulable_at=snapshot.now) if is_asked else pod


def _decisions(row: Row, world: Snapshot, settings: Settings) -> Iterator[Decision[Any]]:
    """One, or as many as it takes until nothing more is ordered."""
    ledger = row.first_ledger()
    if hasattr(ledger, "recent"):
        ledger = replace(ledger, recent=Recent(known_since=_LONG_AGO))
    for _ in range(_MOST_ROUNDS):
        question = None if row.question is None else row.question(world, ledger, settings)
        solved = () if row.question is None else (question, None if question is None else row.answer(question.problem))
        decision: Decision[Any] = row.plan(world, ledger, settings, *solved)
        yield decision
        orders = any(isinstance(action, CreateNodeRequest) for action in decision.actions)
        if row.plan is not scale_up.plan or (question is None and not orders):
            return
        world, ledger = with_actions(world, decision.actions), decision.ledger


def with_actions(world: Snapshot, actions: Iterable[Action]) -> Snapshot:
    """The world as the next row would find it, as far as rows look at what others ask for."""
    requests, nodes, removals = dict(world.requests), dict(world.nodes), dict(world.removals)
    for action in actions:
        match action:
            case CreateNodeRequest():
                name = f"{action.spec.pool}-planned-{len(requests) + 1}"
                requests[name] = NodeRequest(name, action.spec, uid=name, created_at=world.now, changed_at=world.now)
            case MarkScaleDown() if action.node.name in nodes:
                due = {SCALE_DOWN_AT: format_instant(action.scale_down_at)}
                node = nodes[action.node.name]
                marked = replace(node, taints=action.taints, annotations=node.annotations.with_items(due))
                nodes[node.name] = marked
            case UnmarkScaleDown() if action.node.name in nodes:
                nodes[action.node.name] = _unmarked(nodes[action.node.name], action)
            case CreateNodeRemovalRequest():
                name = action.spec.node_name
                removals[name] = NodeRemovalRequest(name, action.spec, uid=name, created_at=world.now)
    return replace(world, requests=requests, nodes=nodes, removals=removals)


def _unmarked(node: Node, action: UnmarkScaleDown) -> Node:
    kept = {key: value for key, value in node.annotations.items() if key != SCALE_DOWN_AT}
    return replace(node, taints=action.taints, annotations=type(node.annotations)(kept))


# ------------------------------------------------------------------------------------------- in words


def _told(snapshot: Snapshot, actions: list[Action], notes: list[Note]) -> Forecast:
    orders, steps = _orders(snapshot, actions), tuple(_steps(actions, notes))
    found = Forecast(orders, steps, _unplaced(notes), 0.0, 0.0, _others(notes))
    prices = Prices(snapshot)
    now = sum(each.price_per_hour for each in members(snapshot))
    gone = sum(prices.price(snapshot.nodes[name]) for name in set(found.given_back) if name in snapshot.nodes)
    then = now + sum(order.price_per_hour for order in orders) - gone
    return replace(found, price_per_hour=round(now, 6), price_per_hour_then=round(max(0.0, then), 6))


def _orders(snapshot: Snapshot, actions: Iterable[Action]) -> tuple[Order, ...]:
    sold, found = by_key(snapshot.offerings), dict[tuple[str, str, str, str], Order]()
    for spec in (action.spec for action in actions if isinstance(action, CreateNodeRequest)):
        key = (spec.pool, spec.target_offering, spec.location, spec.reason)
        before = found.get(key, Order(*key[:3], 0, 0.0, (), spec.reason))
        offering = sold.get((spec.target_offering, spec.location))
        price = before.price_per_hour + (0.0 if offering is None else offering.price_per_hour)
        pods = (*before.pods, *spec.planned_pods)
        found[key] = replace(before, nodes=before.nodes + 1, price_per_hour=round(price, 6), pods=pods)
    return tuple(found.values())


def _steps(actions: Iterable[Action], notes: Iterable[Note]) -> Iterator[Step]:
    """The note on the same object says why."""
    why = {(note.about.kind, note.about.name): note.message for note in notes}
    for action in actions:
        for does, kind, name, reason in _in_words(action):
            yield Step(does, kind, name, reason or why.get((kind, name.rpartition("/")[2]), ""))


def _in_words(action: Action) -> tuple[tuple[str, str, str, str], ...]:
    """What is done, to what kind, by what name, and why where the action says it."""
    if isinstance(action, BindPods):
        return tuple(("binds", "Pod", _key(one.pod), f"to node {one.node_name}") for one in action.assignments)
    if isinstance(action, FillNode):
        return tuple(("binds", "Pod", _key(pod), f"to node {action.node.name}") for pod in action.pods)
    tell = _WORDS.get(type(action))
    return () if tell is None else (tell(action),)


def _key(seen: Any) -> str:
    return f"{seen.namespace}/{seen.name}" if seen.namespace else str(seen.name)


_WORDS: Final[Mapping[type, Callable[[Any], tuple[str, str, str, str]]]] = {
    LaunchMachine: lambda it: ("orders the machine of", "NodeRequest", it.request.name, it.spec.target_offering),
    MarkScaleDown: lambda it: ("marks", "Node", it.node.name, ""),
    UnmarkScaleDown: lambda it: ("keeps", "Node", it.node.name, ""),
    CreateNodeRemovalRequest: lambda it: ("removes", "Node", it.spec.node_name, ""),
    CancelRemoval: lambda it: ("keeps", "Node", it.removal.name, ""),
    EvictPod: lambda it: ("evicts", "Pod", _key(it.pod), ""),
    DeleteMachine: lambda it: ("deletes the machine of", "Node", it.node_name, ""),
    ScaleWarmPool: lambda it: (
        *("scales", it.kind.kind, _key(it.target)),
        f"from {it.before} to {it.replicas}, for PoolAutoscaler {it.autoscaler}",
    ),
}


def _is_of_a_pod_left(note: Note) -> bool:
    return note.about.kind == "Pod" and note.severity == "Warning"


def _unplaced(notes: Iterable[Note]) -> tuple[WithoutPlace, ...]:
    """The first word on each pod."""
    found = dict[str, WithoutPlace]()
    for note in filter(_is_of_a_pod_left, notes):
        key = f"{note.about.namespace}/{note.about.name}"
        found.setdefault(key, WithoutPlace(key, note.message))
    return tuple(found.values())


def _others(notes: Iterable[Note]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{note.about}: {note.message}" for note in notes if not _is_of_a_pod_left(note)))
