"""What a requirement means, when it cannot be read, and which nodes selectors, terms, fields and names ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.model.labels import ZONE, Labels, LabelSelector, NodeSelectorTerm, Requirement
from growth.model.node import Node
from growth.solver.rules import Kind, Neighbours
from growth.solver.rules.selectors import (
    ON_LABELS,
    ON_NODES,
    holds,
    integer,
    is_label_key,
    is_label_value,
    read_selector,
    why_malformed,
    why_term_malformed,
)
from tests.solver.rules.scenes import fits, node, pod, refusal, term


@pytest.mark.parametrize(
    ("operator", "values", "value", "expected"),
    [
        ("In", ("a", "b"), "b", True),
        ("In", ("a",), None, False),
        ("NotIn", ("a",), "b", True),
        ("NotIn", ("a",), None, True),
        ("NotIn", ("a",), "a", False),
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("DoesNotExist", (), None, True),
        ("DoesNotExist", (), "a", False),
        ("Gt", ("5",), "6", True),
        ("Gt", ("5",), "5", False),
        ("Gt", ("5",), "abc", False),
        ("Gt", ("5",), None, False),
        ("Lt", ("5",), "4", True),
        ("Lt", ("5",), "-4", True),
        ("Lt", ("5",), "9223372036854775808", False),
    ],
)
def test_a_requirement_holds_as_kubernetes_says(
    operator: str, values: tuple[str, ...], value: str | None, expected: bool
) -> None:
    assert holds(Requirement("key", operator, values), value) is expected


@pytest.mark.parametrize(
    ("requirement", "problem"),
    [
        (Requirement("k", "Near", ("a",)), "unknown operator"),
        (Requirement("k", "In"), "needs values"),
        (Requirement("k", "Exists", ("a",)), "takes no values"),
        (Requirement("k", "Gt", ("5", "6")), "needs one integer"),
        (Requirement("k", "Gt", ("five",)), "needs one integer"),
        (Requirement("k", "Gt", ("-5",)), "'-5' is not a label value"),
        (Requirement("a/b/c", "Exists"), "not a label key"),
        (Requirement("k", "In", ("-",)), "'-' is not a label value"),
    ],
)
def test_a_malformed_requirement_says_what_is_wrong(requirement: Requirement, problem: str) -> None:
    assert why_malformed(requirement, ON_NODES).endswith(problem)


def test_gt_is_for_node_selectors_only() -> None:
    comparing = Requirement("k", "Gt", ("5",))
    assert why_malformed(comparing, ON_NODES) == ""
    assert why_malformed(comparing, ON_LABELS).endswith("unknown operator")


@pytest.mark.parametrize("key", ["a", "A-b_c.d", "example.com/name", "x" * 63, f"{'a' * 253}/x"])
def test_such_a_key_is_a_label_key(key: str) -> None:
    assert is_label_key(key)


@pytest.mark.parametrize(
    "key", ["", "/", "/a", "a/", "-a", "a-", "Upper.Case/x", "x" * 64, f"{'a' * 254}/x", "é", "a b", "a\n"]
)
def test_such_a_key_is_none(key: str) -> None:
    assert not is_label_key(key)


def test_label_values_may_be_empty_and_are_at_most_63_long() -> None:
    assert is_label_value("")
    assert is_label_value("x" * 63)
    assert not is_label_value("x" * 64)
    assert not is_label_value("a__")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("+7", 7),
        ("-7", -7),
        ("007", 7),
        ("", None),
        ("7 ", None),
        ("1_0", None),
        ("٣", None),
        (str(2**63), None),
    ],
)
def test_integers_are_64_bit_decimals(text: str, number: int | None) -> None:
    assert integer(text) == number


def test_an_absent_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert not read_selector(None).matches({})
    assert read_selector(LabelSelector()).matches({})
    assert read_selector(LabelSelector()).is_empty


def test_a_malformed_selector_matches_nothing_and_says_why() -> None:
    read = read_selector(LabelSelector((Requirement("a", "Exists"), Requirement("b", "In"))))
    assert not read.matches({"a": "1", "b": "2"})
    assert "needs values" in read.malformed


def test_a_field_takes_in_or_not_in_with_one_value() -> None:
    assert why_term_malformed(NodeSelectorTerm(fields=(Requirement("metadata.name", "Exists"),)))
    assert why_term_malformed(NodeSelectorTerm(fields=(Requirement("metadata.name", "In", ("a", "b")),)))
    assert why_term_malformed(NodeSelectorTerm(fields=(Requirement("metadata.name", "NotIn", ("a",)),))) == ""


@given(
    st.text(max_size=80),
    st.sampled_from([*ON_NODES, "", "Nonsense"]),
    st.lists(st.text(max_size=80), max_size=3),
    st.none() | st.text(max_size=20),
)
def test_no_text_makes_a_selector_raise_and_a_malformed_one_matches_nothing(
    key: str, operator: str, values: list[str], value: str | None
) -> None:
    requirement = Requirement(key, operator, tuple(values))
    selector = read_selector(LabelSelector((requirement,)))
    labels = {} if value is None else {key: value}
    if why_malformed(requirement, ON_LABELS):
        assert not selector.matches(labels)
    else:
        assert selector.matches(labels) is holds(requirement, value)
    assert bool(why_term_malformed(NodeSelectorTerm((requirement,)))) is bool(why_malformed(requirement, ON_NODES))


IN_Z1 = Requirement(ZONE, "In", ("z1",))
NAME = "metadata.name"


def test_every_pair_of_a_node_selector_must_be_there() -> None:
    picky = pod(node_selector=Labels({"disktype": "ssd", ZONE: "z1"}))
    assert fits(picky, node(labels={"disktype": "ssd"}))
    refused = refusal(picky, node())
    assert refused is not None
    assert (refused.kind, refused.constraint) == (Kind.NODESELECTOR, "disktype=ssd")


def test_terms_are_alternatives_and_their_parts_are_not() -> None:
    either = pod(node_affinity=(term(IN_Z1, Requirement("disktype", "Exists")), term(Requirement("size", "Exists"))))
    assert fits(either, node(labels={"disktype": "hdd"}))
    assert fits(either, node(zone="z2", labels={"size": "1"}))
    assert not fits(either, node())


def test_of_each_term_only_what_does_not_hold_is_named() -> None:
    either = pod(node_affinity=(term(IN_Z1, Requirement("disktype", "Exists")), term(Requirement("size", "Exists"))))
    assert str(refusal(either, node())) == "didn't match node affinity disktype Exists or size Exists"


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
