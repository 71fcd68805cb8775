"""Where do the pods of a small round go at the least cost, if machines have a real capacity? An exact model of what a
flow through classes of machines only comes near: each machine by itself, with all its resources.

    minimise   Σ dislike_gm put_gm + Σ cost_mk used_mk + Σ price_g waiting_g
    where      Σ_m put_gm + waiting_g = pods_g                     every pod goes somewhere
               Σ_g need_gr put_gm <= free_mr                       a machine holds what it has, resource by resource
               load_mr + Σ_g share_gmr put_gm <= load_m + unit_m Σ_k used_mk   the fuller, the dearer
               put_gm + put_hm <= 1                                pods that want the same port of the host
               least_j start_j <= Σ_{g of j, m} put_gm <= all_j start_j        a gang is whole or not there
               put whole numbers,  0 <= used_mk <= 1,  start 0 or 1

With pods of one size and no ports this is the network itself. Asked by `solver/flow` for rounds that are small enough;
what it finds is used if it is better than what the flow found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from math import gcd
from typing import Final

import numpy as np

from growth.solver.arrays import FloatArray, IntArray, Mask
from growth.solver.flow.costs import price_of_waiting
from growth.solver.flow.fleet import LOAD
from growth.solver.flow.work import Member, Work
from growth.solver.linear import Coefficients, LinearProgram, solve_linear
from growth.solver.rules.resources import conflicts

MOST_ARCS: Final = 400  # from groups to machines: more take too long
_MOST_STEPS: Final = 40  # of one machine
_NODES: Final = 300  # of the search
_GAP: Final = 1e-4
_TINY: Final = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class SmallRound:
    """Groups, the machines they may use, and what each place costs, as everything was before any of them came."""

    members: list[Member]
    pods: IntArray  # G
    numbers: IntArray  # M: machines
    room: IntArray  # G × M: how many pods of the group fit on the machine if nobody else comes
    cost: FloatArray  # G × M: of each pod there, whatever its load
    price: FloatArray  # G: of leaving one out
    gangs: Mapping[str, int]  # how many of each must start
    height: float  # what a whole machine costs to fill; 0: how full it is costs nothing more
    load: FloatArray  # M
    loads: FloatArray  # R × M: the same by resource
    share: FloatArray  # G × R × M: what one pod takes
    unit: FloatArray  # M: the largest share that a pod of mean size takes
    amounts: tuple[tuple[IntArray, IntArray], ...]  # of each resource: what a pod needs (G), what a machine has (M)

    def cost_of(self, counts: IntArray) -> float:
        """What a placement costs, those that are left included; infinite if a gang is there in part."""
        if not self.has_whole_gangs(counts):
            return float("inf")
        total = float((self.cost * counts).sum() + self.price @ (self.pods - counts.sum(axis=1)))
        after = (self.loads + np.einsum("grm,gm->rm", self.share, counts)).max(axis=0)
        steps = np.maximum(0.0, (after - self.load) / self.unit)
        whole = np.floor(steps + _TINY)
        climbed = self.load * whole + self.unit * whole * (whole + 1) / 2
        return total + self.height * float((climbed + (steps - whole) * (self.load + self.unit * (whole + 1))).sum())

    def has_whole_gangs(self, counts: IntArray) -> bool:
        there: dict[str, int] = {}
        for member, row in zip(self.members, counts, strict=True):
            there[member.gang] = there.get(member.gang, 0) + int(row.sum())
        return all(not there.get(gang) or there[gang] >= least for gang, least in self.gangs.items())

    def counts_of(self, placed: Iterable[tuple[Member, IntArray, IntArray]]) -> IntArray:
        """These placements, as far as they are of its groups."""
        rows = {member.number: row for row, member in enumerate(self.members)}
        columns = {number: column for column, number in enumerate(self.numbers.tolist())}
        counts = np.zeros(self.room.shape, np.int64)
        for member, numbers, taken in placed:
            if member.number in rows:
                counts[rows[member.number], [columns[number] for number in numbers.tolist()]] += taken
        return counts


def small_round(work: Work, members: list[Member], gangs: Mapping[str, int]) -> SmallRound | None:
    """None: nobody waits, or it is too large."""
    members = [member for member in members if member.left]
    allowed = [_allowed(work, member) for member in members]
    if not members or sum(int(mask.sum()) for mask in allowed) > MOST_ARCS:
        return None
    fleet, settings, costs = work.fleet, work.settings, work.costs_for(members)
    numbers, pods = np.flatnonzero(np.any(allowed, axis=0)), np.array([member.left for member in members])
    pairs = list(zip(members, allowed, strict=True))
    room = np.array([np.where(mask[numbers], _room(work, member, numbers), 0) for member, mask in pairs])
    cost = np.array([fleet.dislike(member.pod_class, settings)[numbers] for member in members], np.float64)
    load, unit, is_spread = fleet.load(numbers), np.maximum(costs.unit[numbers], 1e-9), settings.cost_model == "spread"
    share = np.array([fleet.shares(member.needs, numbers) for member in members])
    if not is_spread:
        cost += np.array([costs.first(one.max(axis=0), load, numbers) for one in share])
    height = costs.height if is_spread else 0.0
    steps = (1 - load) / unit + 1
    all_full = height * float((steps * (load + unit * (steps + 1) / 2)).sum())
    dearest = all_full + int(pods.sum()) * float(cost.max(initial=0.0))  # so as many as possible are placed
    price = (dearest + 1.0 + price_of_waiting(settings, (member.minutes for member in members))).astype(np.float64)
    amounts = tuple(_amounts(work, members, numbers))
    loads = fleet.loads(numbers)
    return SmallRound(members, pods, numbers, room, cost, price, gangs, height, load, loads, share, unit, amounts)


def _amounts(work: Work, members: list[Member], numbers: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """In units that divide all needs."""
    table = work.index.table
    for name in dict.fromkeys(name for member in members for name, need in member.needs.items() if need > 0):
        needs = np.array([member.needs.get(name, 0) for member in members], np.int64)
        unit = reduce(gcd, needs.tolist())
        yield needs // unit, np.maximum(table.free[table.row(name), numbers], 0) // unit


def _allowed(work: Work, member: Member) -> Mask:
    question = work.index.question(member.pod_class)
    return question.fits() & work.is_open


def _room(work: Work, member: Member, numbers: IntArray) -> IntArray:
    most = 1 if member.pod_class.shape.host_ports else member.left
    return np.minimum(work.fleet.room_on(member.pod_class, numbers), most)


def place_exactly(asked: SmallRound) -> IntArray | None:
    """How many of each group on each machine; None: not found in time."""
    if not asked.room.any():
        return None
    model = _Model(asked)
    found = solve_linear(model.program(), presolve="on", mip_max_nodes=_NODES, mip_rel_gap=_GAP)
    if not found.is_feasible:
        return None
    counts = np.zeros(asked.room.shape, np.int64)
    counts[model.arc_group, model.arc_machine] = np.rint(found.columns[: len(model.arc_group)]).astype(np.int64)
    return counts if model.holds(counts) else None


class _Model:
    """The program: columns are put, used, waiting, start; rows as they stand above."""

    def __init__(self, asked: SmallRound) -> None:
        self._asked = asked
        self.arc_group, self.arc_machine = np.nonzero(asked.room)
        self._rows: list[tuple[list[int], list[float], float, float]] = []
        arcs, groups = len(self.arc_group), len(asked.members)
        self._cost = [asked.cost[self.arc_group, self.arc_machine]]
        self._upper = [asked.room[self.arc_group, self.arc_machine].astype(np.float64)]
        self._is_integer = [np.ones(arcs, np.bool_)]
        self._arcs_into = [np.flatnonzero(self.arc_machine == machine) for machine in range(len(asked.numbers))]
        self._arcs_of = [np.flatnonzero(self.arc_group == group) for group in range(groups)]
        self._capacity()
        if asked.height:
            self._climb()
        waiting = self._add(asked.price, asked.pods.astype(np.float64), whole=True)
        for group, pods in enumerate(asked.pods.tolist()):
            columns = [*self._arcs_of[group].tolist(), int(waiting[group])]
            self._row(columns, [1.0] * len(columns), pods, pods)
        self._keep_ports_apart()
        self._keep_gangs_whole()

    def _add(self, cost: FloatArray, upper: FloatArray, *, whole: bool = False) -> IntArray:
        begin = sum(map(len, self._cost))
        self._cost.append(np.asarray(cost, np.float64))
        self._upper.append(upper)
        self._is_integer.append(np.full(len(cost), whole))
        return np.arange(begin, begin + len(cost))

    def _row(self, columns: list[int], values: list[float], lower: float, upper: float) -> None:
        self._rows.append((columns, values, lower, upper))

    def _capacity(self) -> None:
        """Only where the pods that may come could be too many."""
        for needs, free in self._asked.amounts:
            for machine, arcs in enumerate(self._arcs_into):
                asking = arcs[needs[self.arc_group[arcs]] > 0]
                most = float(free[machine])
                if len(asking) and needs[self.arc_group[asking]] @ self._upper[0][asking] > most:
                    values = (needs[self.arc_group[asking]] / max(1.0, most)).tolist()
                    self._row(asking.tolist(), values, -np.inf, most / max(1.0, most))

    def _climb(self) -> None:
        """The steps of each machine, as many as its pods could take."""
        asked = self._asked
        for machine, arcs in enumerate(self._arcs_into):
            load, unit, shares = asked.load[machine], asked.unit[machine], asked.share[self.arc_group[arcs], :, machine]
            highest = float((asked.loads[:, machine] + self._upper[0][arcs] @ shares).max(initial=0.0))
            count = int(np.ceil((min(1.0, highest) - load) / unit - _TINY))
            if count <= 0:
                continue
            widths = np.ones(min(count, _MOST_STEPS))
            widths[-1] += count - len(widths)
            steps = self._add(asked.height * (load + unit * np.arange(1, len(widths) + 1)), widths).tolist()
            for row in range(len(LOAD)):
                taken, slack = (shares[:, row] / unit).tolist(), (load - asked.loads[row, machine]) / unit
                self._row([*arcs.tolist(), *steps], [*taken, *([-1.0] * len(steps))], -np.inf, float(slack))

    def _keep_ports_apart(self) -> None:
        """Pods with a port are never two of a group on a machine: the room of the group says so."""
        ports = [member.pod_class.shape.host_ports for member in self._asked.members]
        clashing = [
            (one, other)
            for one in range(len(ports))
            for other in range(one)
            if any(conflicts(mine, theirs) for mine in ports[one] for theirs in ports[other])
        ]
        for one, other in clashing:
            for arcs in self._arcs_into:
                both = arcs[np.isin(self.arc_group[arcs], (one, other))]
                if len(both) > 1:
                    self._row(both.tolist(), [1.0, 1.0], -np.inf, 1.0)

    def _keep_gangs_whole(self) -> None:
        for gang, least in self._asked.gangs.items():
            groups = [number for number, member in enumerate(self._asked.members) if member.gang == gang]
            if not groups or least <= 0:
                continue
            arcs = [arc for group in groups for arc in self._arcs_of[group].tolist()]
            most = int(self._asked.pods[groups].sum())
            (start,) = self._add(np.zeros(1), np.ones(1), whole=True).tolist()
            self._row([*arcs, start], [*([1.0] * len(arcs)), -float(least)], 0.0, np.inf)
            self._row([*arcs, start], [*([1.0] * len(arcs)), -float(most)], -np.inf, 0.0)

    def program(self) -> LinearProgram:
        columns = [column for row in self._rows for column in row[0]]
        return LinearProgram(
            cost=np.concatenate(self._cost),
            upper=np.concatenate(self._upper),
            row_lower=np.array([row[2] for row in self._rows]),
            row_upper=np.array([row[3] for row in self._rows]),
            coefficients=Coefficients(
                rows=np.repeat(np.arange(len(self._rows)), [len(row[0]) for row in self._rows]),
                columns=np.array(columns, np.int64),
                values=np.array([value for row in self._rows for value in row[1]]),
            ),
            is_integer=np.concatenate(self._is_integer),
        )

    def holds(self, counts: IntArray) -> bool:
        """Is no machine overcommitted, in whole numbers, and no gang in part?"""
        if any((needs @ counts > free).any() for needs, free in self._asked.amounts):
            return False
        return not (counts > self._asked.room).any() and self._asked.has_whole_gangs(counts)
