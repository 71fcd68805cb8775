"""Reasons in words that add up."""

from __future__ import annotations

from growth.model.node import Taint
from growth.solver.reasons import Kind, Reason, Rule, count_phrases, malformed, refusal, sentence
from growth.solver.rules import Neighbours
from tests.solver.rules.scenes import node, pod

TAINT = refusal(Kind.TOLERATION, Rule.TAINT_TOLERATION, "gpu=true:NoSchedule", "untolerated taint gpu=true:NoSchedule")
MEMORY = Reason(Kind.RESOURCES, Rule.NODE_RESOURCES_FIT, "memory", ("insufficient memory",), "needs 4Gi, has 1Gi")
BOTH = Reason(Kind.RESOURCES, Rule.NODE_RESOURCES_FIT, "cpu, memory", ("insufficient cpu", "insufficient memory"))


def test_a_reason_reads_as_phrase_and_detail() -> None:
    assert str(MEMORY) == "insufficient memory (needs 4Gi, has 1Gi)"
    assert str(BOTH) == "insufficient cpu, insufficient memory"
    assert str(malformed(Rule.OBJECT, "spec.nodeSelector")) == "malformed: spec.nodeSelector"


def test_reasons_add_up_into_the_sentence_people_know() -> None:
    counts = count_phrases([TAINT] * 5 + [MEMORY] * 7)
    assert (
        sentence(counts, 12)
        == "0/12 nodes are available: 7 insufficient memory, 5 untolerated taint gpu=true:NoSchedule"
    )


def test_a_node_that_lacks_two_things_counts_for_both() -> None:
    assert (
        sentence(count_phrases([BOTH, MEMORY]), 2)
        == "0/2 nodes are available: 2 insufficient memory, 1 insufficient cpu"
    )


def test_without_nodes_there_is_nothing_to_add_up() -> None:
    assert sentence({}, 0) == "0/0 nodes are available"


def test_the_index_says_the_sentence_for_a_class() -> None:
    index = Neighbours(
        [
            *(node(f"s{number}", cpu=1) for number in range(7)),
            *(node(f"g{number}", taints=(Taint("gpu", "true"),)) for number in range(5)),
        ]
    )
    assert (
        index.sentence(index.class_of_pod(pod(cpu=2)))
        == "0/12 nodes are available: 7 insufficient cpu, 5 untolerated taint gpu=true:NoSchedule"
    )


def test_nodes_taken_out_are_not_in_the_sentence() -> None:
    index = Neighbours([node("a", cpu=1), node("b", cpu=1)])
    index.take_out(0)
    assert index.sentence(index.class_of_pod(pod(cpu=2))) == "0/1 nodes are available: 1 insufficient cpu"
