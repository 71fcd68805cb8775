"""Amounts: exactly full fits, one more does not; what is not asked for does not matter. Host ports: which conflict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.model.node import Node
from growth.model.pod import HostPort, Pod, PodShape
from growth.model.resources import Resources
from growth.solver.rules import Kind, Neighbours, why_not
from growth.solver.rules.resources import conflicts, is_counted
from tests.solver.rules.scenes import fits, node, pod, refusal

GIB = 2**30


def roomy(**amounts: int) -> Node:
    return Node("a", allocatable=Resources({"pods": 10, **amounts}))


def asking(node_name: str = "", **amounts: int) -> Pod:
    return asking_for(amounts, node_name)


def asking_for(amounts: dict[str, int], node_name: str = "") -> Pod:
    return Pod("new", PodShape(requests=Resources(amounts)), node_name=node_name)


def test_exactly_full_fits_and_one_unit_more_does_not() -> None:
    index = Neighbours([roomy(cpu=4000)], [asking("a", cpu=3000)])
    assert why_not(asking(cpu=1000), roomy(cpu=4000), index) is None
    refused = why_not(asking(cpu=1001), roomy(cpu=4000), index)
    assert refused is not None
    assert str(refused) == "insufficient cpu (needs 1001m, has 1)"


def test_all_that_is_short_is_named() -> None:
    refused = why_not(
        asking(cpu=5000, memory=4 * GIB), roomy(cpu=4000, memory=GIB), Neighbours([roomy(cpu=4000, memory=GIB)])
    )
    assert refused is not None
    assert refused.kind is Kind.RESOURCES
    assert refused.phrases == ("insufficient cpu", "insufficient memory")
    assert refused.detail == "cpu needs 5, has 4; memory needs 4Gi, has 1Gi"


def test_a_pod_that_asks_for_nothing_fits_an_overcommitted_node() -> None:
    assert why_not(asking(), roomy(cpu=1000), Neighbours([roomy(cpu=1000)], [asking("a", cpu=3000)])) is None


def test_a_resource_that_no_node_has_is_short_everywhere() -> None:
    refused = why_not(asking_for({"example.com/gpu": 1}), roomy(), Neighbours([roomy()]))
    assert refused is not None
    assert refused.phrases == ("insufficient example.com/gpu",)


def test_a_node_that_states_no_pod_count_takes_no_pods() -> None:
    bare = Node("a", allocatable=Resources({"cpu": 1000}))
    refused = why_not(asking(), bare, Neighbours([bare]))
    assert refused is not None
    assert refused.phrases == ("too many pods",)


@pytest.mark.parametrize(
    "name",
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "hugepages-2Mi",
        "attachable-volumes-csi",
        "example.com/gpu",
        "kubernetes.io/batch-cpu",
    ],
)
def test_the_scheduler_counts_such_a_resource(name: str) -> None:
    assert is_counted(name)


@pytest.mark.parametrize(
    "name", ["storage", "gpu", "pods", "requests.cpu", "requests.example.com/gpu", "example.com/", "Example.com/gpu!"]
)
def test_the_scheduler_passes_over_such_a_resource(name: str) -> None:
    assert not is_counted(name)
    assert why_not(asking_for({name: 5}), roomy(), Neighbours([roomy()])) is None


def test_amounts_beyond_any_machine_do_not_overflow() -> None:
    huge = roomy(memory=2**63 - 1)
    index = Neighbours([huge], [asking("a", memory=2**63 - 1)] * 3)
    assert why_not(asking(memory=2**63 - 1), huge, index) is not None
    assert why_not(asking(), huge, index) is None
    index.add(index.class_of_pod(asking(memory=2**63 - 1)), 0, 10_000)
    assert why_not(asking(memory=1), huge, index) is not None


@given(st.lists(st.integers(1, 50), max_size=6), st.integers(1, 50), st.integers(0, 200))
def test_room_is_how_often_the_pod_still_fits(bound: list[int], each: int, size: int) -> None:
    index = Neighbours(
        [Node("a", allocatable=Resources({"cpu": size, "pods": 10}))], [asking("a", cpu=amount) for amount in bound]
    )
    pod_class = index.class_of_pod(asking(cpu=each))
    room = int(index.room_for(pod_class)[0])
    assert room == max(0, min((size - sum(bound)) // each, 10 - len(bound)))
    for _ in range(room):
        assert index.fits(pod_class)[0]
        index.add(pod_class, 0)
    assert not index.fits(pod_class)[0]


ONE, OTHER = "10.0.0.1", "10.0.0.2"


@pytest.mark.parametrize(
    ("wanted", "used", "expected"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80), HostPort(80, "UDP"), False),
        (HostPort(80, host_ip=ONE), HostPort(80), True),
        (HostPort(80), HostPort(80, host_ip=ONE), True),
        (HostPort(80, host_ip=ONE), HostPort(80, host_ip=OTHER), False),
        (HostPort(80, host_ip=ONE), HostPort(80, host_ip=ONE), True),
    ],
)
def test_ports_conflict_unless_they_name_different_addresses(wanted: HostPort, used: HostPort, expected: bool) -> None:
    assert conflicts(wanted, used) is expected
    assert fits(pod(host_ports=(wanted,)), node(), pod("other", "a", host_ports=(used,))) is not expected


def test_the_port_that_is_taken_is_named() -> None:
    refused = refusal(
        pod(host_ports=(HostPort(8080), HostPort(53, "UDP", ONE))),
        node(),
        pod("other", "a", host_ports=(HostPort(53, "UDP"),)),
    )
    assert refused is not None
    assert (refused.kind, str(refused)) == (Kind.HOSTPORT, "host port 10.0.0.1:53/UDP taken")


def test_a_port_on_another_node_does_not_matter() -> None:
    assert fits(
        pod(host_ports=(HostPort(80),)), node("a"), pod("other", "b", host_ports=(HostPort(80),)), others=(node("b"),)
    )
