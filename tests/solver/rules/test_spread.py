"""Topology spread: domains, skew, policies and their odd corners."""

from __future__ import annotations

from typing import Any

from growth.model.labels import HOSTNAME, ZONE, Labels, LabelSelector, Requirement
from growth.model.node import Node
from growth.model.pod import Pod, TopologySpread
from growth.solver.rules import Kind, Neighbours, why_not
from tests.solver.rules.scenes import GPU, apps, node, pod, shape, term, tolerates

NODES = (node("a", "z1"), node("b", "z2"), node("c", "z3"))


def level(key: str = ZONE, skew: int = 1, app: str = "web", **fields: Any) -> TopologySpread:
    return TopologySpread(skew, key, **{"selector": apps(app), **fields})


def fitting(waiting: Pod, nodes: tuple[Node, ...], *bound: Pod) -> str:
    """The names of the nodes that fit, in one word."""
    index = Neighbours(nodes, bound)
    return "".join(one.name for one in nodes if why_not(waiting, one, index) is None)


def test_a_domain_may_hold_max_skew_more_than_the_emptiest() -> None:
    spread = pod(spread=(level(),))
    assert fitting(spread, NODES) == "abc"
    assert fitting(spread, NODES, pod("p", "a")) == "bc"
    assert fitting(spread, NODES, pod("p", "a"), pod("q", "b"), pod("r", "c")) == "abc"
    assert fitting(pod(spread=(level(skew=2),)), NODES, pod("p", "a")) == "abc"


def test_the_reason_names_key_and_skew() -> None:
    refused = why_not(pod(spread=(level(),)), NODES[0], Neighbours(NODES, [pod("p", "a")]))
    assert refused is not None
    assert (refused.kind, refused.constraint) == (Kind.SPREAD, f"{ZONE} (max skew 1 of app In [web])")
    assert refused.detail == "1 there, 0 in the emptiest"


def test_a_node_without_the_key_is_refused() -> None:
    bare = Node("d", allocatable=node().allocatable)
    refused = why_not(pod(spread=(level(),)), bare, Neighbours([*NODES, bare]))
    assert refused is not None
    assert refused.phrases == (f"no label {ZONE} to spread over",)


def test_schedule_anyway_keeps_nobody_away() -> None:
    assert fitting(pod(spread=(level(when_unsatisfiable="ScheduleAnyway"),)), NODES, pod("p", "a")) == "abc"


def test_pods_of_other_namespaces_and_pods_being_deleted_are_not_counted() -> None:
    elsewhere = Pod("p", shape(namespace="other"), node_name="a")
    leaving = Pod("q", shape(), node_name="a", deleted_at=1.0)
    assert fitting(pod(spread=(level(),)), NODES, elsewhere, leaving) == "abc"


def test_a_pod_that_does_not_match_its_own_selector_does_not_count_itself() -> None:
    assert fitting(pod(app="other", spread=(level(),)), NODES, pod("p", "a")) == "abc"
    assert fitting(pod(app="other", spread=(level(),)), NODES, pod("p", "a"), pod("q", "a")) == "bc"


def test_fewer_domains_than_wanted_count_as_an_empty_one() -> None:
    both = (pod("p", "a"), pod("q", "b"))
    assert fitting(pod(spread=(level(),)), NODES[:2], *both) == "ab"
    assert fitting(pod(spread=(level(min_domains=3),)), NODES[:2], *both) == ""
    assert fitting(pod(spread=(level(min_domains=2),)), NODES[:2], *both) == "ab"


def test_a_selector_that_matches_everything_counts_only_the_pod_itself() -> None:
    everything = level(selector=LabelSelector())
    assert fitting(pod(spread=(everything,)), NODES, pod("p", "a"), pod("q", "a")) == "abc"


def test_an_absent_selector_counts_nothing() -> None:
    assert fitting(pod(spread=(level(selector=None),)), NODES, pod("p", "a"), pod("q", "a")) == "abc"


def test_only_nodes_that_have_all_keys_count() -> None:
    bare = Node("d", Labels({ZONE: "z4"}), allocatable=node().allocatable)
    two = pod(spread=(level(), level(HOSTNAME, skew=5)))
    assert fitting(two, (*NODES[:1], bare), pod("p", "a")) == "a"


def test_nodes_the_pod_may_not_use_count_only_if_the_policy_ignores_affinity() -> None:
    wants: dict[str, Any] = {"node_affinity": (term(Requirement(ZONE, "In", ("z1", "z2"))),)}
    bound = (pod("p", "a"), pod("q", "b"))
    assert fitting(pod(spread=(level(),), **wants), NODES, *bound) == "ab"
    assert fitting(pod(spread=(level(node_affinity_policy="Ignore"),), **wants), NODES, *bound) == ""


def test_tainted_nodes_count_unless_the_policy_honours_taints() -> None:
    nodes = (*NODES[:2], node("c", "z3", taints=(GPU,)))
    bound = (pod("p", "a"), pod("q", "b"))
    assert fitting(pod(spread=(level(),)), nodes, *bound) == ""
    assert fitting(pod(spread=(level(node_taints_policy="Honor"),)), nodes, *bound) == "ab"
    tolerant = pod(spread=(level(node_taints_policy="Honor"),), tolerations=(tolerates(operator="Exists"),))
    assert fitting(tolerant, nodes, *bound) == "c"


def test_match_label_keys_count_only_pods_of_the_same_revision() -> None:
    def revision(name: str, node_name: str, hashed: str, **fields: Any) -> Pod:
        made = shape(**fields)
        return Pod(
            name,
            type(made)(labels=Labels({"app": "web", "pod-template-hash": hashed}), spread=made.spread),
            node_name=node_name,
        )

    keyed = (level(match_label_keys=("pod-template-hash",)),)
    waiting = revision("new", "", "2", spread=keyed)
    assert fitting(waiting, NODES, revision("p", "a", "1"), revision("q", "a", "1")) == "abc"
    assert fitting(waiting, NODES, revision("p", "a", "2")) == "bc"


def test_a_malformed_selector_stops_the_pod_everywhere_and_says_so() -> None:
    broken = pod(spread=(level(selector=LabelSelector((Requirement("app", "In"),))),))
    refused = why_not(broken, NODES[0], Neighbours(NODES))
    assert refused is not None
    assert refused.kind is Kind.MALFORMED
    assert "needs values" in str(refused)
