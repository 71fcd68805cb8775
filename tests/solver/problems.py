"""Small random problems for the properties of the solver: every kind of rule, limit and room, few pods."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from growth.model.labels import HOSTNAME, ZONE, Labels
from growth.model.pod import PodShape
from growth.solver.purchase.problem import Choice, DemandClass, Limit, PlacementProblem, Room
from tests.solver.worlds import at_most, choice, room, shape, spread, term

ZONES = ("a", "b", "c")
APPS = ("web", "db", "job")


@st.composite
def shapes(draw: st.DrawFn, with_rules: bool = True) -> PodShape:
    app = draw(st.sampled_from(APPS))
    plain = shape(draw(st.sampled_from((0.5, 1, 2, 3))), draw(st.sampled_from((256, 1024, 3072))), labels={"app": app})
    if draw(st.booleans()):
        plain = replace(plain, node_selector=Labels({ZONE: draw(st.sampled_from(ZONES))}))
    if not with_rules:
        return plain
    other = draw(st.sampled_from(APPS))
    rule = draw(st.sampled_from(("none", "none", "apart", "zones apart", "near", "spread", "spread over nodes")))
    rules: dict[str, dict[str, Any]] = {
        "apart": {"anti_affinity": (term(HOSTNAME, app=other),)},
        "zones apart": {"anti_affinity": (term(ZONE, app=other),)},
        "near": {"affinity": (term(ZONE, app=app),)},
        "spread": {"spread": (spread(ZONE, app=app),)},
        "spread over nodes": {"spread": (spread(HOSTNAME, app=app),)},
    }
    return replace(plain, priority=draw(st.sampled_from((0, 0, 0, 10))), **rules.get(rule, {}))


@st.composite
def demands(draw: st.DrawFn, most_pods: int, with_rules: bool = True) -> tuple[DemandClass, ...]:
    wanted = draw(st.lists(st.tuples(shapes(with_rules), st.integers(1, 4)), min_size=1, max_size=4))
    found, left = [], most_pods
    for one, count in wanted:
        if left:
            found.append(DemandClass(one, min(count, left), ("default",)))
            left -= found[-1].count
    return tuple(found)


@st.composite
def choices(draw: st.DrawFn, most: int = 4) -> tuple[Choice, ...]:
    sizes = st.sampled_from(((2, 2048, 1.0), (4, 4096, 1.7), (4, 8192, 2.1), (8, 8192, 3.0)))
    drawn = draw(
        st.lists(
            st.tuples(sizes, st.sampled_from(ZONES), st.sampled_from((0, 0, 1))), min_size=1, max_size=most, unique=True
        )
    )
    return tuple(
        choice(f"m{cpu}-{memory}", cpu, memory, price, zone, type_priority=priority)
        for (cpu, memory, price), zone, priority in drawn
    )


@st.composite
def limits(draw: st.DrawFn, number_of_choices: int) -> tuple[Limit, ...]:
    subsets = st.lists(st.integers(0, number_of_choices - 1), min_size=1, max_size=number_of_choices, unique=True)
    drawn = draw(st.lists(st.tuples(subsets, st.integers(0, 3)), max_size=2))
    return tuple(
        at_most(nodes, *sorted(chosen), name=f"limit {number}") for number, (chosen, nodes) in enumerate(drawn)
    )


@st.composite
def rooms(draw: st.DrawFn) -> tuple[Room, ...]:
    kinds = st.sampled_from(("node", "node", "marked", "in-flight"))
    drawn = draw(
        st.lists(
            st.tuples(st.sampled_from((1, 2, 4)), st.sampled_from(ZONES), kinds, st.booleans(), shapes()), max_size=2
        )
    )
    return tuple(
        room(f"room-{number}", cpu, 4096, zone, kind=kind, contents=((resident, 1),) if has_resident else ())
        for number, (cpu, zone, kind, has_resident, resident) in enumerate(drawn)
    )


@st.composite
def problems(
    draw: st.DrawFn, most_pods: int = 12, with_rules: bool = True, with_rooms: bool = True
) -> PlacementProblem:
    offered = draw(choices())
    return PlacementProblem(
        demands=draw(demands(most_pods, with_rules)),
        rooms=draw(rooms()) if with_rooms else (),
        choices=offered,
        limits=draw(limits(len(offered))),
        node_price_per_hour=draw(st.sampled_from((0.0, 0.0, 0.25))),
    )
