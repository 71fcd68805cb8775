"""Selectors, terms, fields and names: which nodes a pod asks for."""

from __future__ import annotations

from growth.model.labels import ZONE, Labels, Requirement
from growth.model.node import Node
from growth.solver.rules import Kind, Neighbours
from tests.solver.rules.scenes import fits, node, pod, refusal, term

IN_Z1 = Requirement(ZONE, "In", ("z1",))
NAME = "metadata.name"


def test_every_pair_of_a_node_selector_must_be_there() -> None:
    picky = pod(node_selector=Labels({"disktype": "ssd", ZONE: "z1"}))
    assert fits(picky, node(labels={"disktype": "ssd"}))
    refused = refusal(picky, node())
    assert refused is not None
    assert (refused.kind, refused.constraint) == (Kind.NODESELECTOR, f"disktype=ssd,{ZONE}=z1")


def test_terms_are_alternatives_and_their_parts_are_not() -> None:
    either = pod(node_affinity=(term(IN_Z1, Requirement("disktype", "Exists")), term(Requirement("size", "Exists"))))
    assert fits(either, node(labels={"disktype": "hdd"}))
    assert fits(either, node(zone="z2", labels={"size": "1"}))
    assert not fits(either, node())


def test_a_malformed_term_matches_nothing_but_leaves_the_others() -> None:
    broken = term(Requirement(ZONE, "Near", ("z1",)))
    assert fits(pod(node_affinity=(broken, term(IN_Z1))), node())
    refused = refusal(pod(node_affinity=(broken,)), node())
    assert refused is not None
    assert refused.kind is Kind.NODEAFFINITY
    assert "malformed: " in str(refused)
    assert "unknown operator" in str(refused)


def test_a_term_may_have_fields_beside_expressions() -> None:
    both = pod(node_affinity=(term(IN_Z1, fields=(Requirement(NAME, "NotIn", ("b",)),)),))
    assert fits(both, node("a"))
    assert not fits(both, node("b"))
    assert not fits(both, node("a", "z2"))


def test_a_field_that_nodes_do_not_have_reads_as_empty() -> None:
    assert not fits(pod(node_affinity=(term(fields=(Requirement("spec.podCIDR", "In", ("x",)),)),)), node())
    assert fits(pod(node_affinity=(term(fields=(Requirement("spec.podCIDR", "In", ("",)),)),)), node())
    assert fits(pod(node_affinity=(term(fields=(Requirement("spec.podCIDR", "NotIn", ("x",)),)),)), node())


def test_a_node_without_a_name_has_no_fields_that_could_fail() -> None:
    nameless = Node("", allocatable=node().allocatable)
    assert fits(pod(node_affinity=(term(fields=(Requirement(NAME, "In", ("a",)),)),)), nameless)


def test_two_names_in_one_term_contradict_each_other_for_all_nodes() -> None:
    torn = pod(node_affinity=(term(fields=(Requirement(NAME, "In", ("a",)), Requirement(NAME, "In", ("b",)))),))
    index = Neighbours([node("a"), node("b")])
    question = index.question(index.class_of_pod(torn))
    assert [reason.kind for reason in question.before] == [Kind.NODEAFFINITY]
    assert not index.fits(index.class_of_pod(torn)).any()


def test_a_pod_that_names_its_node_goes_nowhere_else() -> None:
    assert fits(pod(required_node="a"), node("a"))
    refused = refusal(pod(required_node="a"), node("b"))
    assert refused is not None
    assert (refused.kind, refused.constraint) == (Kind.NODENAME, "a")
