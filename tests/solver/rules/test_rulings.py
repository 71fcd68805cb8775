"""The rulings on what scheduling means, each by its name."""

from __future__ import annotations

import pytest

from growth.model.labels import HOSTNAME, ZONE, Labels, LabelSelector, Requirement
from growth.model.node import SCALE_DOWN_TAINT, Taint
from growth.model.pod import HostPort, TopologySpread
from growth.solver.existing.cluster import is_target
from growth.solver.reasons import no_nodes
from growth.solver.rules import Kind, Neighbours
from tests.solver.rules.scenes import GPU, apps, fits, near, node, pod, refusal, term, tolerates

# ---------------------------------------------------------------------------------- safe scale-down


def test_safe_scale_down_1_tolerations_permit_and_never_require() -> None:
    tolerant = pod(tolerations=(tolerates("gpu", "true", "NoSchedule"),))
    assert fits(tolerant, node(taints=(GPU,)))
    assert fits(tolerant, node())
    blocked = refusal(tolerant, node(taints=(Taint("gpu", "false"),)))
    assert blocked is not None
    assert (blocked.kind, blocked.constraint) == (Kind.TOLERATION, "gpu=false:NoSchedule")


def test_safe_scale_down_2_effect_is_compared_before_the_wildcard() -> None:
    only_no_execute = pod(tolerations=(tolerates(operator="Exists", effect="NoExecute"),))
    assert not fits(only_no_execute, node(taints=(GPU,)))
    assert fits(only_no_execute, node(taints=(Taint("gpu", "true", "NoExecute"),)))
    assert fits(pod(tolerations=(tolerates(operator="Exists"),)), node(taints=(GPU,)))


@pytest.mark.parametrize(
    ("other", "leaving"),
    [
        (node("b"), {"b"}),
        (node("b", is_unschedulable=True), set()),
        (node("b", is_ready=False), set()),
        (node("b", pool="web", taints=(SCALE_DOWN_TAINT,)), set()),
        (node("b", pool="web", annotations=Labels({"growth.dev/scale-down-at": "2026-01-01T00:00:00Z"})), set()),
        (node("b", deleted_at=1.0), set()),
        (node("b", malformed="status.allocatable: cpu"), set()),
    ],
    ids=[
        "chosen in the same pass",
        "cordoned",
        "not ready",
        "marked by taint",
        "marked by annotation",
        "being deleted",
        "malformed",
    ],
)
def test_safe_scale_down_3_such_nodes_are_no_targets_whatever_a_pod_tolerates(other: object, leaving: set[str]) -> None:
    assert not is_target(node("a"), {"a", *leaving})
    assert not is_target(other, leaving)  # type: ignore[arg-type]
    assert no_nodes().message == "no available nodes for rescheduling"


def test_safe_scale_down_3_any_other_node_is_a_target() -> None:
    assert all(is_target(one, {"a"}) for one in (node("b"), node("c", taints=(GPU,))))


def test_safe_scale_down_4_all_resources_and_the_pod_count_are_checked() -> None:
    short = refusal(pod(cpu=5), node(cpu=4))
    assert short is not None
    assert str(short) == "insufficient cpu (needs 5, has 4)"
    full = refusal(pod(), node(pods=1), pod("other", "a"))
    assert full is not None
    assert (full.kind, full.phrases) == (Kind.RESOURCES, ("too many pods",))


def test_safe_scale_down_4_simulated_placements_count_for_resources() -> None:
    index = Neighbours([node("a"), node("b")])
    three_cpu = index.class_of_pod(pod(cpu=3))
    assert index.fits(three_cpu).tolist() == [True, True]
    index.add(three_cpu, 0)
    assert index.fits(three_cpu).tolist() == [False, True]


def test_safe_scale_down_4_simulated_placements_count_for_host_ports() -> None:
    index = Neighbours([node("a"), node("b")])
    with_port = index.class_of_pod(pod(host_ports=(HostPort(80),)))
    index.add(with_port, 0)
    assert index.fits(with_port).tolist() == [False, True]


def test_safe_scale_down_4_simulated_placements_count_for_affinity() -> None:
    index = Neighbours([node("a"), node("b")])
    follower = index.class_of_pod(pod(app="web", affinity=(near("db"),)))
    assert not index.fits(follower).any()
    index.add(index.class_of_pod(pod(app="db")), 1)
    assert index.fits(follower).tolist() == [False, True]


def test_safe_scale_down_4_simulated_placements_count_for_anti_affinity_in_both_directions() -> None:
    index = Neighbours([node("a"), node("b")])
    loner, crowd = (
        index.class_of_pod(pod(app="loner", anti_affinity=(near("crowd"),))),
        index.class_of_pod(pod(app="crowd")),
    )
    with index.trial():
        index.add(crowd, 0)
        assert index.fits(loner).tolist() == [False, True]
    with index.trial():
        index.add(loner, 0)
        assert index.fits(crowd).tolist() == [False, True]
    assert index.fits(loner).all()
    assert index.fits(crowd).all()


def test_safe_scale_down_4_five_pods_apart_need_five_nodes() -> None:
    apart = pod(anti_affinity=(near("web"),))
    for nodes, placed in ((4, 4), (5, 5)):
        index = Neighbours([node(f"n{number}") for number in range(nodes)])
        pod_class = index.class_of_pod(apart)
        for _ in range(5):
            if index.fits(pod_class).any():
                index.add(pod_class, int(index.fits(pod_class).argmax()))
        assert sum(count for number in range(nodes) for _, count in index.contents(number)) == placed


def test_safe_scale_down_4_simulated_placements_count_for_spread() -> None:
    index = Neighbours([node("a", "z1"), node("b", "z2")])
    level = index.class_of_pod(pod(spread=(TopologySpread(1, ZONE, selector=apps("web")),)))
    index.add(level, 0)
    assert index.fits(level).tolist() == [False, True]
    index.add(level, 1)
    assert index.fits(level).tolist() == [True, True]


def test_safe_scale_down_5_an_empty_term_list_and_an_empty_term_match_no_node() -> None:
    for terms in ((), (term(),)):
        nowhere = refusal(pod(node_affinity=terms), node())
        assert nowhere is not None
        assert nowhere.kind is Kind.NODEAFFINITY
    assert fits(pod(node_affinity=(term(), term(Requirement(ZONE, "In", ("z1",))))), node())


@pytest.mark.parametrize(("label", "fitting"), [("10", True), ("5", False), ("abc", False), (None, False)])
def test_safe_scale_down_5_gt_compares_integers(label: str | None, fitting: bool) -> None:
    target = node(labels={} if label is None else {"size": label})
    assert fits(pod(node_affinity=(term(Requirement("size", "Gt", ("5",))),)), target) is fitting
    assert fits(pod(node_affinity=(term(Requirement("size", "Lt", ("5",))),)), node(labels={"size": "4"}))


def test_safe_scale_down_5_match_fields_see_the_name_of_the_node() -> None:
    named = pod(node_affinity=(term(fields=(Requirement("metadata.name", "In", ("a",)),)),))
    assert fits(named, node("a"))
    assert not fits(named, node("b"))


def test_safe_scale_down_5_not_in_matches_where_the_label_is_absent() -> None:
    assert fits(pod(node_affinity=(term(Requirement("disktype", "NotIn", ("hdd",))),)), node())


def test_safe_scale_down_5_namespaces_and_namespace_selector_are_a_union() -> None:
    teams = {"one": Labels({"team": "a"}), "two": Labels({"team": "b"}), "three": Labels()}
    selector = LabelSelector((Requirement("team", "In", ("a",)),))
    apart = pod(anti_affinity=(near("db", key=HOSTNAME, namespaces=("two",), namespace_selector=selector),))
    for namespace, fitting in (("one", False), ("two", False), ("three", True), ("default", True)):
        neighbour = pod("db", "a", app="db", namespace=namespace)
        assert fits(apart, node(), neighbour, namespaces=teams) is fitting


# ----------------------------------------------------------------------------------- flow placement


def test_flow_placement_1_tolerations_are_matched_as_a_list() -> None:
    both = pod(tolerations=(tolerates("dedicated", "a", "NoSchedule"), tolerates("dedicated", "b", "NoSchedule")))
    assert fits(both, node(taints=(Taint("dedicated", "a"),)))
    assert fits(both, node(taints=(Taint("dedicated", "b"),)))
    assert not fits(both, node(taints=(Taint("dedicated", "c"),)))


def test_flow_placement_1_an_empty_effect_means_all_effects() -> None:
    any_effect = pod(tolerations=(tolerates("gpu", "true"),))
    assert fits(any_effect, node(taints=(GPU, Taint("gpu", "true", "NoExecute"))))


def test_flow_placement_1_exists_with_an_empty_key_means_all_keys() -> None:
    assert fits(pod(tolerations=(tolerates(operator="Exists"),)), node(taints=(GPU, Taint("other", "x", "NoExecute"))))
    assert not fits(pod(tolerations=(tolerates("gpu", "true", "PreferNoSchedule"),)), node(taints=(GPU,)))
