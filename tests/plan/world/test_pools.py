"""Which pools a pod may use, and which architectures it goes to (rulings 12, 18, 20)."""

from __future__ import annotations

import pytest

from growth.model.labels import ARCHITECTURE, INSTANCE_TYPE, ZONE, Labels, NodeSelectorTerm, Requirement
from growth.model.node import OFFERING_LABEL, POOL_LABEL
from growth.model.nodepool import NodePool
from growth.model.pod import PodShape
from growth.plan.world.pools import PoolMatch, architectures_of, offerings_of, pools_for, with_pool_rules
from growth.solver.rules.fit import may_run_on
from tests.plan.builders import hetzner, pool, shape


def on_pools(*terms: tuple[str, tuple[str, ...]]) -> tuple[NodeSelectorTerm, ...]:
    return tuple(NodeSelectorTerm((Requirement(POOL_LABEL, operator, values),)) for operator, values in terms)


def named(*pools: NodePool) -> dict[str, NodePool]:
    return {each.name: each for each in pools}


ALL = named(pool("default"), pool("gpu"), pool("batch", priority=5))


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (shape(pool="gpu"), ("gpu",)),
        (shape(node_affinity=on_pools(("In", ("gpu", "batch")))), ("batch", "gpu")),  # by priority of the pool
        (
            shape(node_affinity=on_pools(("In", ("gpu",)), ("In", ("default",)))),
            ("default", "gpu"),
        ),  # terms are alternatives
        (shape(node_affinity=on_pools(("Exists", ()))), ("batch", "default", "gpu")),
        (
            shape(node_affinity=(NodeSelectorTerm((Requirement(ZONE, "In", ("a",)),)),)),
            ("default",),
        ),  # says nothing of pools
        (shape(node_affinity=on_pools(("NotIn", ("gpu",)))), ("default",)),  # an exclusion is no choice
    ],
)
def test_a_pod_gets_the_pools_it_names_and_else_the_default(asked: PodShape, names: tuple[str, ...]) -> None:
    assert pools_for(asked, ALL).names == names


def test_ruling_18_the_pool_with_the_higher_priority_comes_first() -> None:
    asked = shape(node_affinity=on_pools(("In", ("gpu", "batch", "default"))))
    assert pools_for(asked, ALL).names[0] == "batch"


@pytest.mark.parametrize(
    ("asked", "pools", "reason", "message"),
    [
        (shape(pool="ghost"), ALL, "MissingPool", "NodePool ghost does not exist"),
        (
            shape(node_affinity=on_pools(("In", ("a", "b")))),
            ALL,
            "MissingPool",
            "no NodePool matches growth.dev/pool In [a, b]",
        ),
        (shape(), named(pool("gpu")), "NoPool", "the pod names no NodePool and there is none called default"),
        (
            shape(node_affinity=on_pools(("Strange", ()))),
            named(pool("gpu")),
            "NoPool",
            "the pod names no NodePool and there is none called default",
        ),
        (
            shape(pool="gpu", namespace="team"),
            named(pool("gpu", allowed_namespaces=("ml",))),
            "NamespaceNotAllowed",
            "NodePool gpu does not serve namespace team",
        ),
    ],
)
def test_ruling_12_a_pod_without_a_pool_is_told_why(
    asked: PodShape, pools: dict[str, NodePool], reason: str, message: str
) -> None:
    match = pools_for(asked, pools)
    assert (match.names, match.reason, match.message) == ((), reason, message)


def test_of_several_pools_only_those_that_serve_the_namespace_remain() -> None:
    pools = named(pool("a", allowed_namespaces=("ml",)), pool("b"))
    assert pools_for(shape(node_affinity=on_pools(("In", ("a", "b")))), pools).names == ("b",)


def test_server_types_are_matched_without_regard_to_case_and_locations_bound_them() -> None:
    sold = (*hetzner("cax11", "cx22"), *hetzner("cax11", location="nbg1"))
    assert [each.location for each in offerings_of(pool("p", "CAX11"), sold)] == ["fsn1", "nbg1"]
    assert [each.location for each in offerings_of(pool("p", "CAX11", locations=("NBG1",)), sold)] == ["nbg1"]


@pytest.mark.parametrize(
    ("types", "listed", "architectures"),
    [
        (("cax11", "cax21"), (), ()),  # all arm64: nothing to choose
        (("cx22", "cax11"), (), ("amd64",)),
        (("cx22", "cax11"), ("arm64",), ("arm64",)),
        (("cx22", "cax11"), ("amd64", "arm64"), ()),
        (("cax11",), ("amd64",), ("amd64",)),  # a pool that lists what it does not sell gets nothing
    ],
)
def test_ruling_20_where_pods_without_an_architecture_go(
    types: tuple[str, ...], listed: tuple[str, ...], architectures: tuple[str, ...]
) -> None:
    assert architectures_of(pool("p", *types, architectures=listed), hetzner("cx22", "cax11", "cax21")) == architectures


def labels(pool_name: str, architecture: str, offering: str = "sim-x") -> Labels:
    return Labels({POOL_LABEL: pool_name, ARCHITECTURE: architecture, OFFERING_LABEL: offering})


def test_ruling_20_a_pod_without_architecture_avoids_the_others_of_its_pool_but_not_nodes_outside() -> None:
    seen = with_pool_rules(shape(), PoolMatch(("default",), is_implicit=True), {"default": ("amd64",)})
    assert may_run_on(seen, labels("default", "amd64"), ())
    assert not may_run_on(seen, labels("default", "arm64"), ())
    assert may_run_on(seen, labels("other", "arm64"), ())
    assert may_run_on(seen, Labels({ARCHITECTURE: "arm64"}), ())


def test_ruling_20_each_pool_of_a_pod_has_its_own_architectures() -> None:
    asked = shape(node_affinity=on_pools(("In", ("a", "b"))))
    seen = with_pool_rules(asked, PoolMatch(("a", "b")), {"a": ("amd64",), "b": ("arm64",)})
    assert [
        may_run_on(seen, labels(name, architecture), ()) for name in "ab" for architecture in ("amd64", "arm64")
    ] == [
        True,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("wish", [{ARCHITECTURE: "arm64"}, {INSTANCE_TYPE: "cax11"}])
def test_a_pod_that_names_its_architecture_or_machine_is_left_as_it_is(wish: dict[str, str]) -> None:
    asked = shape(node_selector=wish)
    assert with_pool_rules(asked, PoolMatch(("default",), is_implicit=True), {"default": ("amd64",)}) == asked
    term = (NodeSelectorTerm((Requirement(next(iter(wish)), "In", tuple(wish.values())),)),)
    asked = shape(node_affinity=term)
    assert with_pool_rules(asked, PoolMatch(("default",), is_implicit=True), {"default": ("amd64",)}) == asked


def test_a_pod_whose_affinity_matches_nothing_still_matches_nothing() -> None:
    for terms in ((), (NodeSelectorTerm(),)):
        seen = with_pool_rules(
            shape(node_affinity=terms), PoolMatch(("default",), is_implicit=True), {"default": ("amd64",)}
        )
        assert not may_run_on(seen, labels("default", "amd64"), ())
