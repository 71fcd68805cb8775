"""Why pods found no place: the very constraint, for every kind of it, and never another than the rules say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from growth.model.labels import HOSTNAME, ZONE, Labels, NodeSelectorTerm, Requirement
from growth.model.node import Taint
from growth.model.pod import HostPort, PodShape, Toleration, VolumeUse
from growth.model.resources import NOTHING
from growth.model.snapshot import VolumeWorld
from growth.model.volumes import Claim, StorageClass, Volume
from growth.solver.purchase.check import check
from growth.solver.purchase.problem import (
    Choice,
    DemandClass,
    Limit,
    PlacementProblem,
    PlacementSolution,
    Room,
    planned_node,
)
from growth.solver.purchase.solve import solve, solve_greedily
from growth.solver.reasons import in_brief
from growth.solver.rules import Neighbours
from tests.solver.worlds import at_most, choice, demand, room, shape, spread, term

WEB = shape(0.1, labels={"app": "web"})
GPU = Taint("gpu", "true")
PORT = HostPort(80)
IN_MARS = NodeSelectorTerm((Requirement(ZONE, "In", ("mars",)), Requirement(HOSTNAME, "Exists")))
DATA = (VolumeUse("data"),)


def told(problem: PlacementProblem) -> tuple[str, ...]:
    """The one answer, whatever way it was found."""
    found = [one.reasons for way in (solve, solve_greedily) for one in way(problem).unplaced]
    assert found[1:] == found[:-1]
    return found[0] if found else ()


def why(*choices: Choice, rooms: tuple[Room, ...] = (), world: VolumeWorld | None = None, **fields: Any) -> str:
    problem = PlacementProblem((demand(1, **fields),), rooms, choices or (choice(),), volumes=world or VolumeWorld())
    return "; ".join(told(problem))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"node_selector": Labels({"disk": "ssd", ZONE: "z1"})}, "didn't match node selector disk=ssd"),
        ({"node_affinity": (IN_MARS,)}, f"didn't match node affinity {ZONE} In [mars]"),
        (
            {"node_affinity": (IN_MARS, NodeSelectorTerm((Requirement("disk", "Exists"),)))},
            f"didn't match node affinity {ZONE} In [mars] or disk Exists",
        ),
        ({"node_affinity": (NodeSelectorTerm(),)}, "didn't match node affinity an empty term, which matches no node"),
        ({"required_node": "old"}, "not the requested node old"),
        ({"affinity": (term(ZONE, app="db"),)}, f"no pod anywhere matches pod affinity app In [db] on {ZONE}"),
        ({"affinity": (term("rack", app="db"),)}, "no label rack for pod affinity app In [db] on rack"),
        ({"spread": (spread("rack", app="web"),)}, "no label rack to spread over"),
        ({"cpu": 5}, "insufficient cpu (needs 5, has 4)"),
        (
            {"cpu": 5, "mebibytes": 9216},
            "insufficient cpu, insufficient memory (cpu needs 5, has 4; memory needs 9Gi, has 8Gi)",
        ),
    ],
)  # fmt: skip
def test_the_constraint_that_stands_in_the_way_is_named(fields: dict[str, Any], words: str) -> None:
    assert why(**fields) == f"1 of 1 offerings: {words}"


def test_a_taint_is_named_and_counted_beside_other_reasons() -> None:
    choices = (choice("a", taints=(GPU,)), choice("b", taints=(GPU,)), choice("c", 0.5))
    taint = "2 of 3 offerings: untolerated taint gpu=true:NoSchedule"
    assert why(*choices) == f"{taint}; 1: insufficient cpu (needs 1, has 500m)"


def test_what_daemon_sets_take_of_the_machine_is_said() -> None:
    two = choice("two", 2, daemons=(shape(0.25),))
    told = "insufficient cpu (needs 1900m, has 1750m; DaemonSets take 250m of 2 cpu)"
    assert why(two, cpu=1.9) == f"1 of 1 offerings: {told}"
    assert "DaemonSets" not in why(two, mebibytes=9000, cpu=0.1).replace("DaemonSets take 512Mi of 8Gi memory", "")


def test_a_host_port_that_a_daemon_takes_is_named() -> None:
    busy = choice(daemons=(shape(0.1, host_ports=(PORT,)),))
    assert why(busy, host_ports=(PORT,)) == "1 of 1 offerings: host port 80/TCP taken"


def test_rules_between_pods_name_the_pods_and_the_topology_key() -> None:
    full = (room("full", 0.2, contents=((WEB, 2),)),)
    apart = f"didn't match pod anti-affinity app In [web] on {ZONE}"
    found = why(rooms=full, anti_affinity=(term(ZONE, app="web"),))
    assert found == f"1 of 1 nodes: insufficient cpu (needs 1, has 0); 1 of 1 offerings: {apart}"
    guarded = (room("g", contents=((replace(WEB, anti_affinity=(term(ZONE, app="new"),)), 1),)),)
    repelled = f"anti-affinity of running pods: app In [new] on {ZONE}"
    found = why(rooms=guarded, labels={"app": "new"})
    assert found == f"1 of 1 nodes: {repelled}; 1 of 1 offerings: {repelled}"
    both = (*full, room("other", 0.1, zone="z2"))
    found = why(rooms=both, labels={"app": "web"}, spread=(spread(ZONE, app="web"),))
    assert found.endswith(f"didn't satisfy topology spread over {ZONE} (max skew 1 of app In [web])")


NOW_CLASS = StorageClass("now", "x")


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (VolumeWorld(), "claim default/data not found"),
        (
            VolumeWorld(claims={"default/data": Claim("default", "data", storage_class="now")},
                        classes={"now": NOW_CLASS}),
            "unbound immediate claims default/data",
        ),
        (
            VolumeWorld(claims={"default/data": Claim("default", "data", volume="pv", is_bound=True)},
                        volumes={"pv": Volume("pv", labels=Labels({ZONE: "mars"}))}),
            f"1 of 1 offerings: volume pv is in {ZONE} mars",
        ),
    ],
)  # fmt: skip
def test_the_claim_or_the_zone_of_its_volume_is_named(world: VolumeWorld, words: str) -> None:
    assert why(world=world, volumes=DATA) == words


def test_a_limit_is_named_with_its_number() -> None:
    limit = Limit("limits of NodePool default", (0,), nodes=0, stated={"nodes": "NodePool default: at most 3 nodes"})
    problem = PlacementProblem((demand(1),), choices=(choice(),), limits=(limit,))
    assert told(problem) == ("1 of 1 offerings: limit reached: NodePool default: at most 3 nodes",)


def test_rooms_say_why_they_are_closed() -> None:
    node = room("cordoned").node
    rooms = (
        Room(replace(node, is_unschedulable=True), is_open=False),
        Room(replace(node, name="sick", is_ready=False), is_open=False),
        Room(replace(node, name="other", pool="other"), kind="in-flight"),
    )
    found = why(choice(taints=(GPU,)), rooms=rooms)
    assert found.startswith(
        "1 of 3 nodes: cordoned (spec.unschedulable); 1: kept for pods of NodePool other; 1: not ready; "
    )


def test_pods_that_go_nowhere_alike_are_told_each_its_own_reason() -> None:
    demands = (demand(1, node_selector=Labels({"disk": "ssd"})), demand(1, node_selector=Labels({"gpu": "yes"})))
    found = solve(PlacementProblem(demands, choices=(choice(),))).unplaced
    assert [one.reasons[0].split()[-1] for one in found] == ["disk=ssd", "gpu=yes"]


def test_choices_in_different_zones_are_told_apart_by_rules_about_other_pods() -> None:
    choices = tuple(choice(f"{size}-{zone}", size, zone=zone) for size in (2, 4) for zone in ("z1", "z2"))
    rooms = (room("r", 0.1, contents=((WEB, 1),)),)
    problem = PlacementProblem(
        (demand(1, anti_affinity=(term(ZONE, app="web"),)),), rooms, choices, (Limit("none left", (1, 3), nodes=0),)
    )
    apart = f"didn't match pod anti-affinity app In [web] on {ZONE}"
    assert told(problem)[-1] == f"2 of 4 offerings: {apart}; 2: limit reached: none left"


def test_reasons_not_asked_for_are_not_looked_for() -> None:
    problem = PlacementProblem((demand(1, 99),), choices=(choice(),), is_explained=False)
    assert told(problem) == ("why was not asked",)


def test_a_sentence_is_short_enough_for_an_event() -> None:
    found = in_brief({f"{number} " + "x" * 300: 1 for number in range(50)}, 50, "offerings")
    assert len(found) < 600
    assert found.endswith("; 49 for other reasons")


# ------------------------------------------------------------------- as the rules themselves say it

KEYS = st.sampled_from([ZONE, HOSTNAME, "rack"])
TERMS = st.builds(lambda key, app: (term(key, app=app),), KEYS, st.sampled_from(["web", "db"]))
CHOICES = st.builds(
    lambda name, cpu, zone, taints, daemons: choice(name, cpu, zone=zone, taints=taints, daemons=daemons),
    st.sampled_from("abc"), st.sampled_from([0.5, 1, 4]), st.sampled_from(["z1", "z2"]),
    st.sampled_from([(), (), (GPU,)]), st.sampled_from([(), (shape(0.25, host_ports=(PORT,)),), (WEB,)]),
)  # fmt: skip
PODS = st.fixed_dictionaries(
    {"cpu": st.sampled_from([0.5, 1, 3.9])},
    optional={
        "labels": st.just({"app": "web"}),
        "node_selector": st.just(Labels({ZONE: "z1"})),
        "node_affinity": st.just((IN_MARS, NodeSelectorTerm((Requirement(ZONE, "In", ("z2",)),)))),
        "host_ports": st.just((PORT,)),
        "affinity": TERMS,
        "anti_affinity": TERMS,
        "spread": st.builds(lambda key: (spread(key, app="web"),), KEYS),
        "volumes": st.just(DATA),
    },
)
NEAR, FAR = room("r", 0.3, contents=((WEB, 2),)), room("r", 0.3, zone="z2", contents=((WEB, 1),))
ROOMS = st.sampled_from([(), (NEAR,), (FAR,)])
WITHOUT: dict[str, dict[str, Any]] = {
    "node selector": {"node_selector": Labels()},
    "node affinity": {"node_affinity": None},
    "untolerated taint": {"tolerations": (Toleration(operator="Exists"),)},
    "host port": {"host_ports": ()},
    "insufficient": {"requests": NOTHING},
    "claim": {"volumes": ()},
    "pod affinity": {"affinity": ()},
    "pod anti-affinity": {"anti_affinity": ()},
    "spread": {"spread": ()},
}


def first_reason(asked: PodShape, one: Choice, rooms: tuple[Room, ...]) -> str:
    """What the rules say of a new node of the choice, beside the rooms."""
    index = Neighbours([each.node for each in rooms], shapes=[asked, WEB, *one.daemons])
    for number, each in enumerate(rooms):
        for content, count in each.contents:
            index.add(index.class_of(content), number, count)
    number = index.add_nodes([planned_node(one, 99)])[0]
    for daemon in one.daemons:
        index.add(index.class_of(daemon), number)
    return ", ".join(phrase for each in index.every_reason(index.class_of(asked), number) for phrase in each.phrases)


@given(PODS, st.lists(CHOICES, min_size=1, max_size=3), ROOMS)
def test_every_reason_is_one_that_the_rules_give_and_goes_with_its_constraint(
    fields: dict[str, Any], choices: list[Choice], rooms: tuple[Room, ...]
) -> None:
    asked = shape(**fields)
    problem = PlacementProblem((DemandClass(asked, 1, ("default",)),), rooms, tuple(choices))
    for reason in solve(problem).unplaced[0].reasons[-1:] if solve(problem).unplaced else ():
        for part in reason.split("; "):
            phrase = part.split(": ", 1)[-1].split(" (needs")[0].split(" (cpu needs")[0]
            if part.startswith(("DaemonSets", "memory needs", "cpu needs")):
                continue
            assert any(phrase in first_reason(asked, one, rooms) for one in choices), phrase
            changed = next(change for words, change in WITHOUT.items() if words in phrase)
            other = replace(problem, demands=(DemandClass(replace(asked, **changed), 1, ("default",)),))
            assert not any(phrase in said for left in solve(other).unplaced for said in left.reasons)


def test_pods_that_fit_no_room_are_in_the_bound_however_much_the_rooms_have_in_sum() -> None:
    rooms = tuple(room(f"small-{number}", 1, 1024) for number in range(40))
    problem = PlacementProblem(demands=(demand(6, 2, 2048),), rooms=rooms, choices=(choice("four", 4, 4096, 1.0),))
    solution = solve(problem)
    assert solution.price_per_hour == pytest.approx(3.0)
    assert solution.lower_bound == pytest.approx(3.0, rel=1e-3)
    assert check(problem, solution) == ()


@pytest.mark.parametrize("way", [solve, solve_greedily])
def test_of_pods_that_are_alike_to_the_solver_those_that_were_named_first_get_the_places(
    way: Callable[[PlacementProblem], PlacementSolution],
) -> None:
    """The asker names the oldest first: nobody overtakes them."""
    queue = tuple(demand(2, cpu=2, labels={"job": name}) for name in "cadb")
    answer = way(PlacementProblem(queue, (room("there", 2, 8192),), (choice("four"),), (at_most(1, 0),)))
    assert [(one.demand, one.count) for one in answer.placements] == [(0, 1)]
    assert [node.contents for node in answer.nodes] == [((0, 1), (1, 1))]
    assert [(one.demand, one.count) for one in answer.unplaced] == [(1, 1), (2, 2), (3, 2)]
