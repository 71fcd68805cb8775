"""The index: however it came to be, it answers like a fresh one, and all its forms answer the same."""

from __future__ import annotations

import itertools
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from growth.cli.fits import Case, World, read_case
from growth.kube.codec import Codec
from growth.model.node import Node
from growth.model.pod import Pod
from growth.solver.reasons import count_phrases
from growth.solver.rules import Kind, Neighbours, why_not
from growth.solver.rules.pod_class import PodClass
from tests.oracle.batches import make_cases
from tests.solver.rules.scenes import GPU, near, node, pod

CODEC = Codec()
SEEDS = st.integers(0, 10_000)


class Scene:
    """The parts of a random case, to build an index from in any way."""

    def __init__(self, seed: int) -> None:
        case = msgspec.json.decode(msgspec.json.encode(make_cases(f"index-{seed}", 8)[seed % 8]), type=Case)
        world: World = read_case(case, CODEC)
        self.waiting = world.pod
        self.nodes: list[Node] = list(world.neighbours.table.nodes)
        self.pods: list[Pod] = [CODEC.decode_pod(raw) for raw in case.pods]
        self._fresh = world.neighbours
        self.random = Random(seed)

    def index(self, nodes: list[Node], pods: list[Pod]) -> Neighbours:
        return Neighbours(nodes, pods, self._fresh.static_volumes.world, self._fresh.namespaces)

    def answers(self, index: Neighbours) -> dict[str, list[str]]:
        """Every reason of every pod of the scene for every node that is here."""
        return {
            f"{asked.key} {one.name}": [str(reason) for reason in index.every_reason(index.class_of_pod(asked), number)]
            for asked in (self.waiting, *self.pods)
            for number, one in enumerate(index.table.nodes)
            if index.table.is_here[number]
        }


def disturb(scene: Scene, index: Neighbours) -> None:
    """Changes of every kind, all of them undone."""
    with index.trial():
        extra = index.add_nodes([node("extra-1", "a", labels={"rack": "9"}), node("extra-2", "b")])
        for _ in range(6):
            asked = index.class_of_pod(scene.random.choice([scene.waiting, *scene.pods]))
            index.add(asked, scene.random.choice([*extra, *range(len(scene.nodes))]), scene.random.randint(1, 3))
            index.fits(asked)
        with index.trial():
            index.take_out(scene.random.randrange(len(scene.nodes)))
            index.change_node(structs.replace(scene.nodes[0], taints=(GPU,), labels=node("x", "c").labels))
            index.fits(index.class_of_pod(scene.waiting))


@given(SEEDS)
def test_an_index_grown_step_by_step_answers_like_a_fresh_one(seed: int) -> None:
    scene = Scene(seed)
    grown = scene.index(scene.nodes[:1], scene.pods[:2])
    grown.fits(grown.class_of_pod(scene.waiting))
    grown.add_nodes(scene.nodes[1:])
    for late in scene.pods[:2]:
        if late.node_name != scene.nodes[0].name:
            grown.add_pod(late)
    for one in scene.pods[2:]:
        grown.add_pod(one)
    assert scene.answers(grown) == scene.answers(scene.index(scene.nodes, scene.pods))


@given(SEEDS)
def test_a_trial_leaves_no_trace(seed: int) -> None:
    scene = Scene(seed)
    index = scene.index(scene.nodes, scene.pods)
    before = scene.answers(index)
    disturb(scene, index)
    assert scene.answers(index) == before


@given(SEEDS)
def test_taking_a_node_out_is_as_if_it_and_its_pods_had_never_been(seed: int) -> None:
    scene = Scene(seed)
    index = scene.index(scene.nodes, scene.pods)
    scene.answers(index)
    gone = scene.nodes[0].name
    without = scene.index(scene.nodes[1:], [one for one in scene.pods if one.node_name != gone])
    with index.trial():
        index.take_out(0)
        assert scene.answers(index) == scene.answers(without)
    assert scene.answers(index) == scene.answers(scene.index(scene.nodes, scene.pods))


@given(SEEDS)
def test_a_changed_node_is_seen_as_it_is_now(seed: int) -> None:
    scene = Scene(seed)
    index = scene.index(scene.nodes, scene.pods)
    scene.answers(index)
    changed = structs.replace(
        scene.nodes[0], labels=scene.nodes[-1].labels, taints=(GPU,), allocatable=node(cpu=2).allocatable
    )
    index.change_node(changed)
    assert scene.answers(index) == scene.answers(scene.index([changed, *scene.nodes[1:]], scene.pods))


@given(SEEDS)
def test_all_forms_of_the_question_agree(seed: int) -> None:
    scene = Scene(seed)
    index = scene.index(scene.nodes, scene.pods)
    for asked in (scene.waiting, *scene.pods):
        pod_class = index.class_of_pod(asked)
        at_once = index.fits(pod_class).tolist()
        numbers = range(len(scene.nodes))
        assert [index.fits_on(pod_class, number) for number in numbers] == at_once
        assert [index.why_not(pod_class, number) is None for number in numbers] == at_once
        assert [not index.every_reason(pod_class, number) for number in numbers] == at_once
        first = [reason for number in numbers if (reason := index.why_not(pod_class, number))]
        assert index.why_nowhere(pod_class) == count_phrases(first)
        assert [bool(room) for room in index.room_for(pod_class)] == at_once
        assert [why_not(asked, one, index) is None for one in scene.nodes] == at_once


@given(SEEDS)
def test_nodes_of_one_class_are_alike_to_every_pod_now_and_after_the_same_placement(seed: int) -> None:
    scene = Scene(seed)
    index = scene.index(scene.nodes, scene.pods)
    asked = [index.class_of_pod(one) for one in (scene.waiting, *scene.pods[:3])]
    numbers = index.node_classes(asked)

    def answers(target: int, placed: PodClass | None) -> list[bool]:
        with index.trial():
            if placed is not None:
                index.add(placed, target)
            return [index.fits_on(pod_class, target) for pod_class in asked]

    for one, other in itertools.combinations(range(len(scene.nodes)), 2):
        if numbers[one] == numbers[other]:
            assert all(answers(one, placed) == answers(other, placed) for placed in (None, *asked))


def test_equal_nodes_are_one_class_until_something_tells_them_apart() -> None:
    index = Neighbours([node("a"), node("b"), node("c", zone="z2"), node("d", cpu=8)])
    plain, apart = index.class_of_pod(pod(cpu=1)), index.class_of_pod(pod(cpu=1, anti_affinity=(near("web"),)))
    assert index.node_classes([]).tolist() == [0, 0, 0, 0]
    assert len(set(index.node_classes([plain]).tolist())) == 2
    assert len(set(index.node_classes([plain, apart]).tolist())) == 2
    index.add(apart, 0)
    assert len(set(index.node_classes([plain, apart]).tolist())) == 3


@given(SEEDS)
def test_removing_what_was_added_leaves_the_rest(seed: int) -> None:
    scene = Scene(seed)
    index = scene.index(scene.nodes, scene.pods)
    scene.answers(index)
    for one in scene.pods[::2]:
        index.remove_pod(one)
    assert scene.answers(index) == scene.answers(scene.index(scene.nodes, scene.pods[1::2]))


def test_a_node_the_index_does_not_know_is_looked_at_as_a_new_one() -> None:
    index = Neighbours([node("a")], [pod("p", "a")])
    apart = pod(anti_affinity=(near("web"),))
    assert why_not(apart, node("b"), index) is None
    assert len(index.table) == 1


def test_a_node_in_another_state_is_looked_at_with_its_pods() -> None:
    index = Neighbours([node("a", taints=(GPU,))], [pod("p", "a")])
    assert why_not(pod(), node("a"), index) is None
    refused = why_not(pod(anti_affinity=(near("web"),)), node("a"), index)
    assert refused is not None
    assert refused.kind is Kind.ANTIAFFINITY
    assert index.table.nodes == [node("a", taints=(GPU,))]


def test_a_trial_inside_a_trial_is_undone_alone() -> None:
    index = Neighbours([node("a")])
    web = index.class_of_pod(pod(cpu=1))
    index.add(web, 0)
    with index.trial():
        index.add(web, 0)
        with index.trial():
            index.add(web, 0, 2)
            assert index.contents(0) == [(web, 4)]
        assert index.contents(0) == [(web, 2)]
    assert index.contents(0) == [(web, 1)]


def test_pods_that_have_finished_or_stand_elsewhere_do_not_count() -> None:
    done = structs.replace(pod("p", "a", cpu=4), phase="Succeeded")
    index = Neighbours([node("a")], [done, pod("q", "elsewhere", cpu=4)])
    assert index.contents(0) == []
    assert not index.add_pod(done)
    assert not index.add_pod(pod("q", "elsewhere"))


def test_more_pods_than_a_node_holds_cannot_be_taken_from_it() -> None:
    index = Neighbours([node("a")], [pod("p", "a")])
    with pytest.raises(ValueError, match="node a does not hold"):
        index.remove(index.class_of_pod(pod()), 0, 2)
    index.take_out(0)
    with pytest.raises(ValueError, match="node a is out already"):
        index.take_out(0)


def test_a_node_taken_out_takes_nothing_and_says_so() -> None:
    index = Neighbours([node("a"), node("b")])
    web = index.class_of_pod(pod())
    index.take_out(0)
    assert index.fits(web).tolist() == [False, True]
    assert not index.fits_on(web, 0)
    assert [str(reason) for reason in (index.why_not(web, 0), *index.every_reason(web, 0))] == [
        "taken out of the question"
    ] * 2


def test_a_class_is_entangled_when_one_pod_changes_where_the_next_may_go() -> None:
    index = Neighbours([node("a")], [pod("p", "a", app="x", anti_affinity=(near("db"),))])
    assert not index.question(index.class_of_pod(pod(cpu=1))).is_entangled
    assert index.question(index.class_of_pod(pod(anti_affinity=(near("web"),)))).is_entangled
    assert index.question(index.class_of_pod(pod(app="db"))).is_entangled
