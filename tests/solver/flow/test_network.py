"""The network's optimum against a second opinion: shortest paths, one unit after the other, machine by machine."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from growth.model.labels import Labels
from growth.model.node import Taint
from growth.solver.flow.network import Network, cheapest_flow
from tests.solver.flow.worlds import counts, group, machine, placed_by, soft
from tests.solver.worlds import shape

INFINITE = 10**12


@dataclass
class Graph:
    """Arcs with capacity and cost, and the way back along each."""

    heads: list[int] = field(default_factory=list)
    room: list[int] = field(default_factory=list)
    cost: list[int] = field(default_factory=list)
    out: dict[int, list[int]] = field(default_factory=dict)

    def arc(self, tail: int, head: int, room: int, cost: int) -> None:
        for begin, end, left, price in ((tail, head, room, cost), (head, tail, 0, -cost)):
            self.out.setdefault(begin, []).append(len(self.heads))
            self.heads.append(end)
            self.room.append(left)
            self.cost.append(price)

    def cheapest(self, source: int, sink: int) -> int:
        """Successive shortest paths (Bellman and Ford), one unit at a time."""
        total = 0
        while True:
            distance, by = {source: 0}, dict[int, int]()
            changed = True
            while changed:
                changed = False
                for tail in list(distance):
                    for arc in self.out.get(tail, ()):
                        if self.room[arc] and distance[tail] + self.cost[arc] < distance.get(self.heads[arc], INFINITE):
                            distance[self.heads[arc]], by[self.heads[arc]] = distance[tail] + self.cost[arc], arc
                            changed = True
            if sink not in distance:
                return total
            total += distance[sink]
            at = sink
            while at != source:
                self.room[by[at]] -= 1
                self.room[by[at] ^ 1] += 1
                at = self.heads[by[at] ^ 1]


def reference_cost(network: Network) -> int:
    graph, groups = Graph(), len(network.pods)
    source, sink = -1, -2
    for number in range(groups):
        graph.arc(source, number, int(network.pods[number]), 0)
        graph.arc(number, sink, int(network.pods[number]), int(network.price[number]))
    for tail, head, room, cost in zip(
        network.arc_group, network.arc_class, network.arc_room, network.arc_cost, strict=True
    ):
        graph.arc(int(tail), groups + int(head), int(room), int(cost))
    for owner, width, cost in zip(network.step_class, network.step_width, network.step_cost, strict=True):
        graph.arc(groups + int(owner), sink, int(width), int(cost))
    return graph.cheapest(source, sink)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    groups, classes = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    arcs = [(tail, head) for tail in range(groups) for head in range(classes) if draw(st.booleans())]
    steps = [draw(st.integers(0, classes - 1)) for _ in range(draw(st.integers(0, 8)))]

    def numbers(size: int, least: int, most: int) -> list[int]:
        return draw(st.lists(st.integers(least, most), min_size=size, max_size=size))

    def array(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(values, np.int64)

    return Network(
        pods=array(numbers(groups, 0, 6)),
        price=array(numbers(groups, 0, 1500)),
        arc_group=array([tail for tail, _ in arcs]),
        arc_class=array([head for _, head in arcs]),
        arc_room=array(numbers(len(arcs), 1, 6)),
        arc_cost=array(numbers(len(arcs), 0, 5)),
        step_class=array(steps),
        step_width=array(numbers(len(steps), 1, 3)),
        step_cost=array(numbers(len(steps), 0, 900)),
        classes=classes,
    )


@given(networks())
@settings(max_examples=80, deadline=None)
def test_the_total_cost_equals_that_of_the_reference(network: Network) -> None:
    flow = cheapest_flow(network)
    assert flow.cost == reference_cost(network)
    assert (flow.sent >= 0).all()
    assert (flow.sent <= network.arc_room).all()
    assert (flow.waiting >= 0).all()


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["", "soft", "hard"]), st.booleans()), min_size=1, max_size=5
    ),
    st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.booleans()), min_size=1, max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_a_placement_costs_what_the_reference_costs_machine_by_machine(
    kinds: list[tuple[int, str, bool]], wishes: list[tuple[int, bool, bool]]
) -> None:
    """Pods of one size on machines of one size: classes of machines then lose nothing against single machines."""
    taint = {"": (), "soft": (soft("t"),), "hard": (Taint("t"),)}
    nodes = [
        machine(f"m{number}", cpu=4, taints=taint[kind], disk="ssd" if has_disk else "hdd")
        for number, (_, kind, has_disk) in enumerate(kinds)
    ]
    bound = {f"m{number}": [shape(1, 1)] * used for number, (used, _, _) in enumerate(kinds)}
    groups = [
        group(count, node_selector=Labels({"disk": "ssd"} if picks else {}), priority=0, labels={"g": str(number)})
        for number, (count, picks, _) in enumerate(wishes)
    ]
    answer = placed_by(nodes, *groups, bound=bound)
    graph = Graph()
    for number, (count, picks, _) in enumerate(wishes):
        graph.arc(-1, number, count, 0)
        graph.arc(number, -2, count, 10_000)
        for place, (used, kind, has_disk) in enumerate(kinds):
            if kind != "hard" and (has_disk or not picks):
                graph.arc(number, 100 + place, 4 - used, int(kind == "soft"))
    for place, (used, _, _) in enumerate(kinds):
        for step in range(used + 1, 5):
            graph.arc(100 + place, -2, 1, 100 * step)
    unplaced = sum(one.count for one in answer.left)
    assert graph.cheapest(-1, -2) - 10_000 * unplaced == realised(answer_counts(answer, len(wishes)), kinds)


def answer_counts(answer: object, groups: int) -> dict[str, int]:
    total: dict[str, int] = {}
    for number in range(groups):
        for node, count in counts(answer, number).items():  # type: ignore[arg-type]
            total[node] = total.get(node, 0) + count
    return total


def realised(placed: dict[str, int], kinds: list[tuple[int, str, bool]]) -> int:
    """What the placement costs, added up place by place."""
    cost = 0
    for number, (used, kind, _) in enumerate(kinds):
        for step in range(used + 1, used + placed.get(f"m{number}", 0) + 1):
            cost += 100 * step + int(kind == "soft")
    return cost
