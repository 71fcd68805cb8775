"""Who keeps the fleet, and works out a round on it? The row `scheduling` asks; in production the keeper lives in a
process of its own, so that no round holds up the event loop, however hard it is. In simulations, forecasts and
explanations the same keeper is asked on the spot.

    RoundProblem: what is new of the fleet, and what is to be placed → the keeper → RoundAnswer

| step of one round | |
| --- | --- |
| what is new | is taken in (`solver/flow/changes`); who has missed something says so, and is told everything |
| pods that are nominated | go to their node, if it takes them now |
| pods that others make room for | hold that room |
| all others | `solver/flow` |
| running pods, now and then, if it is so set | which of them would cost less elsewhere (`plan/flow/improvement`) |
| pods without a place that may preempt | a node, and who would have to leave it (`plan/flow/preemption`) |

It remembers nothing but the fleet; every answer leaves that as it was. What has changed since the question was asked
is the business of the asker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.pod import Pod
from growth.model.scheduler import SchedulerSettings
from growth.model.snapshot import EMPTY
from growth.plan.flow.improvement import Comparison, compare
from growth.plan.flow.preemption import NOBODY, Ways, Wishes, find_ways
from growth.solver.flow import Fleet, Group, Round, place
from growth.solver.flow.changes import FleetChange, FleetState, Told
from growth.solver.flow.savings import Move

_NOTHING: Final = FleetState()
_MOST_GROUPS: Final = 500  # in one message: about 10 ms to write it


class RoundProblem(Struct, frozen=True):
    """One round, so that it can travel."""

    change: FleetChange
    scheduler: SchedulerSettings
    groups: tuple[Group, ...] = ()
    nominated: Mapping[int, str] = {}  # by the number of a group of one pod: the node it goes to if that takes it
    expecting: tuple[Pod, ...] = ()  # pods that hold room on the node that they name
    gangs: Mapping[str, int] = EMPTY  # how many more of each must start
    closed: frozenset[str] = frozenset()  # nodes that take nobody
    prices: Mapping[str, float] = EMPTY  # by node, where they matter
    wishes: Wishes = NOBODY
    comparison: Comparison | None = None  # where running pods may be moved
    is_whole: bool = True  # False: more groups follow

    def parts(self) -> list[RoundProblem]:
        """The same in small messages; only the last one asks for a round."""
        changes = self.change.parts()
        parts = [RoundProblem(each, self.scheduler, is_whole=False) for each in changes[:-1]]
        change, groups, first = changes[-1], self.groups, 0
        while len(groups) - first > _MOST_GROUPS:
            part = groups[first : first + _MOST_GROUPS]
            parts.append(RoundProblem(change, self.scheduler, part, is_whole=False))
            change, first = FleetChange(change.revision, change.revision), first + _MOST_GROUPS
        return [*parts, replace(self, change=change, groups=groups[first:])]


class RoundAnswer(Struct, frozen=True):
    placed: Round = Round()
    nominated: frozenset[int] = frozenset()  # groups that go to the node they are nominated to
    ways: Ways = Ways()
    moves: tuple[Move, ...] = ()
    is_behind: bool = False  # it has missed something, and must be told everything


class Keeper:
    """Answers one problem after the other."""

    def __init__(self, state: FleetState = _NOTHING) -> None:
        self._told = Told(state)
        self._groups: tuple[Group, ...] = ()  # of a problem that is not whole yet

    def __call__(self, problem: RoundProblem) -> RoundAnswer:
        if problem.change.is_news:
            self._groups = ()
        if not self._told.hear(problem.change, [group.pod.shape for group in problem.groups]):
            return RoundAnswer(is_behind=True)
        self._groups += problem.groups
        if not problem.is_whole:
            return RoundAnswer()
        groups, self._groups = self._groups, ()
        return self._answer(replace(problem, groups=groups))

    def _answer(self, problem: RoundProblem) -> RoundAnswer:
        fleet = self._told.fleet
        sent = _to_their_nominations(fleet, problem)
        went = {pod.uid for pod in sent.values()}
        expecting = [pod for pod in problem.expecting if pod.uid not in went]
        for pod in expecting:
            fleet.index.add_pod(pod)
        try:
            answer = _place(fleet, problem, sent)
        finally:
            for pod in (*sent.values(), *expecting):
                fleet.index.remove_pod(pod)
        moves = () if problem.comparison is None else compare(self._told, problem.comparison)
        return RoundAnswer(answer, frozenset(sent), self._ways(problem, answer, sent), moves)

    def _ways(self, problem: RoundProblem, answer: Round, sent: Mapping[int, Pod]) -> Ways:
        left = {one.group: one.count for one in answer.left}
        wishes = problem.wishes.of_those_without_a_place(
            {number: group.count - left.get(number, 0) for number, group in enumerate(problem.groups)}
        )
        if not wishes.wanting:
            return Ways()
        taken = {one.node for one in answer.placed} | {pod.node_name for pod in sent.values()}
        return find_ways(self._told, wishes, taken)


def _to_their_nominations(fleet: Fleet, problem: RoundProblem) -> dict[int, Pod]:
    """Pods that are nominated to a node which takes them now; their room is counted until the round ends. A gang goes
    whole, or is placed anew.
    """
    sent: dict[int, Pod] = {}
    torn: set[str] = set()
    for number, name in problem.nominated.items():
        pod = problem.groups[number].pod
        at = fleet.index.table.index.get(name)
        if at is not None and fleet.index.fits_on(fleet.index.class_of_pod(pod), at):
            sent[number] = replace(pod, node_name=name)
            fleet.index.add_pod(sent[number])
        else:
            torn.add(problem.groups[number].gang)
    for number in [number for number in sent if problem.groups[number].gang in torn - {""}]:
        fleet.index.remove_pod(sent.pop(number))
    return sent


def _place(fleet: Fleet, problem: RoundProblem, sent: Collection[int]) -> Round:
    """The groups in the answer are numbered as in the problem."""
    numbers = [number for number in range(len(problem.groups)) if number not in sent]
    gone = Counter(problem.groups[number].gang for number in sent)
    answer = place(
        fleet,
        [problem.groups[number] for number in numbers],
        problem.scheduler,
        {name: max(0, needed - gone[name]) for name, needed in problem.gangs.items()},
        is_target=lambda node: node.name not in problem.closed,
        price_of=lambda node: problem.prices.get(node.name, 0.0),
    )
    return replace(
        answer,
        placed=tuple(replace(one, group=numbers[one.group]) for one in answer.placed),
        left=tuple(replace(one, group=numbers[one.group]) for one in answer.left),
    )


def answer_anew(problem: RoundProblem | None) -> RoundAnswer | None:
    """Of a keeper that has heard nothing before; the problem must tell everything."""
    return None if problem is None else Keeper()(problem)
