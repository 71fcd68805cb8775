"""Affinity and anti-affinity between pods, in both directions."""

from __future__ import annotations

from typing import Any

import pytest

from growth.model.labels import HOSTNAME, ZONE, Labels, LabelSelector, Requirement
from growth.model.node import Node
from growth.model.pod import Pod, PodAffinityTerm, PreferredPods
from growth.solver.rules import Kind, Neighbours, why_not
from tests.solver.rules.scenes import apps, fits, near, node, pod, refusal, shape

BROKEN = LabelSelector((Requirement("app", "In"),))
NODES = (node("a", "z1"), node("b", "z1"), node("c", "z2"))


def fitting(waiting: Pod, *bound: Pod, nodes: tuple[Node, ...] = NODES) -> str:
    index = Neighbours(nodes, bound)
    return "".join(one.name for one in nodes if why_not(waiting, one, index) is None)


def test_affinity_follows_a_pod_into_its_domain() -> None:
    assert fitting(pod(affinity=(near("db", key=ZONE),)), pod("db", "a", app="db")) == "ab"
    assert fitting(pod(affinity=(near("db"),)), pod("db", "a", app="db")) == "a"
    assert fitting(pod(affinity=(near("db", key=ZONE),))) == ""


def test_the_first_of_its_kind_may_go_anywhere_that_has_the_keys() -> None:
    bare = Node("d", allocatable=node().allocatable)
    assert fitting(pod(affinity=(near("web", key=ZONE),)), nodes=(*NODES, bare)) == "abc"
    assert fitting(pod(affinity=(near("web", key=ZONE),)), pod("w", "c"), nodes=(*NODES, bare)) == "c"


def test_the_missing_key_is_told_apart_from_missing_pods() -> None:
    own = pod(affinity=(near("web", key=ZONE), near("web", key="rack")))
    assert str(refusal(own, node())) == "no label rack for pod affinity app In [web] on rack"
    lonely = pod(affinity=(near("db", key=ZONE),))
    assert str(refusal(lonely, node())) == f"no pod anywhere matches pod affinity app In [db] on {ZONE}"
    elsewhere = why_not(lonely, NODES[2], Neighbours(NODES, [pod("db", "a", app="db")]))
    assert str(elsewhere) == f"didn't match pod affinity app In [db] on {ZONE}"


def test_one_pod_must_match_all_terms_together() -> None:
    both = pod(affinity=(near("db"), PodAffinityTerm(ZONE, LabelSelector((Requirement("tier", "Exists"),)))))
    split = (pod("p", "a", app="db"), Pod("q", shape("x"), node_name="a"))
    assert fitting(both, *split) == ""
    whole = Pod("r", type(shape())(labels=Labels({"app": "db", "tier": "x"})), node_name="a")
    assert fitting(both, whole) == "a"


def test_anti_affinity_keeps_away_from_a_domain_and_not_from_nodes_without_the_key() -> None:
    bare = Node("d", allocatable=node().allocatable)
    assert fitting(pod(anti_affinity=(near("db", key=ZONE),)), pod("db", "a", app="db"), nodes=(*NODES, bare)) == "cd"


def test_a_running_pod_keeps_away_what_it_does_not_want_near() -> None:
    refused = refusal(pod(), node(), pod("loner", "a", app="x", anti_affinity=(near("web"),)))
    assert refused is not None
    assert refused.kind is Kind.ANTIAFFINITY
    assert str(refused) == f"anti-affinity of running pods: app In [web] on {HOSTNAME}"


def test_preferences_keep_nobody_away() -> None:
    assert fits(pod(preferred_anti_affinity=(PreferredPods(100, near("web")),)), node(), pod("w", "a"))
    assert fits(pod(), node(), pod("w", "a", preferred_anti_affinity=(PreferredPods(100, near("web")),)))


def test_without_namespaces_a_term_looks_at_the_pods_own() -> None:
    assert fits(pod(anti_affinity=(near("web"),)), node(), Pod("w", shape(namespace="other"), node_name="a"))


@pytest.mark.parametrize(
    ("selector", "fitting_pod"),
    [
        (LabelSelector(), False),  # an empty one is every namespace
        (LabelSelector((Requirement("team", "In", ("a",)),)), False),
        (LabelSelector((Requirement("team", "In", ("b",)),)), True),
        (
            LabelSelector((Requirement("team", "NotIn", ("a",)),)),
            False,
        ),  # holds without labels, so the scheduler sees every namespace
        (LabelSelector((Requirement("team", "DoesNotExist"),)), False),
    ],
)
def test_the_namespace_selector_of_a_waiting_pod_is_resolved_as_the_scheduler_does(
    selector: LabelSelector, fitting_pod: bool
) -> None:
    waiting = pod(anti_affinity=(PodAffinityTerm(HOSTNAME, apps("web"), (), selector),))
    neighbour = Pod("w", shape(namespace="other"), node_name="a")
    assert (
        fits(waiting, node(), neighbour, namespaces={"other": Labels({"team": "a"}), "default": Labels()})
        is fitting_pod
    )


def test_the_namespace_selector_of_a_running_pod_looks_at_the_labels_of_the_namespace() -> None:
    term = PodAffinityTerm(HOSTNAME, apps("web"), (), LabelSelector((Requirement("team", "NotIn", ("a",)),)))
    neighbour = Pod("w", shape("x", namespace="other", anti_affinity=(term,)), node_name="a")
    assert fits(pod(), node(), neighbour, namespaces={"default": Labels({"team": "a"})})
    assert not fits(pod(), node(), neighbour, namespaces={"default": Labels({"team": "b"})})
    assert not fits(pod(), node(), neighbour)


def test_pods_being_deleted_still_count() -> None:
    leaving = Pod("w", shape(), node_name="a", deleted_at=1.0)
    assert not fits(pod(anti_affinity=(near("web"),)), node(), leaving)


def test_an_absent_selector_matches_no_pod() -> None:
    assert fits(pod(anti_affinity=(PodAffinityTerm(HOSTNAME),)), node(), pod("w", "a"))
    assert not fits(pod(affinity=(PodAffinityTerm(HOSTNAME),)), node(), pod("w", "a"))


@pytest.mark.parametrize("part", ["affinity", "anti_affinity", "preferred_affinity"])
def test_a_waiting_pod_with_a_malformed_term_goes_nowhere_and_says_why(part: str) -> None:
    term = PodAffinityTerm(HOSTNAME, BROKEN)
    parts: dict[str, Any] = {part: (PreferredPods(1, term) if part.startswith("preferred") else term,)}
    refused = refusal(pod(**parts), node())
    assert refused is not None
    assert refused.kind is Kind.MALFORMED
    assert "needs values" in str(refused)


def test_a_running_pod_with_a_malformed_term_keeps_nobody_away() -> None:
    assert fits(pod(), node(), pod("w", "a", app="x", anti_affinity=(near("web"), PodAffinityTerm(HOSTNAME, BROKEN))))


def test_the_reason_names_the_term() -> None:
    refused = refusal(pod(anti_affinity=(near("web"),)), node(), pod("w", "a"))
    assert refused is not None
    assert (refused.kind, refused.constraint) == (Kind.ANTIAFFINITY, f"app In [web] on {HOSTNAME}")
    lonely = refusal(pod(affinity=(near("db", key=ZONE),)), node())
    assert lonely is not None
    assert (lonely.kind, lonely.constraint) == (Kind.AFFINITY, f"app In [db] on {ZONE}")
