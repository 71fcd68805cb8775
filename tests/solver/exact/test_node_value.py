"""The most value of one node, beside a list of everything that fits."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.model.labels import HOSTNAME, Labels
from growth.model.pod import HostPort, PodShape
from growth.solver.exact.node_value import ValuedPods, may_share_node, valued_pods
from tests.solver.worlds import shape, term

A, B = {"app": "a"}, {"app": "b"}
NAMESPACES: dict[str, Labels] = {}


@st.composite
def shapes(draw: st.DrawFn) -> PodShape:
    fields: dict[str, object] = {}
    if draw(st.booleans()):
        fields["anti_affinity"] = (term(HOSTNAME, app=draw(st.sampled_from("abc"))),)
    if draw(st.integers(0, 3)) == 0:
        fields["host_ports"] = (HostPort(80),)
    return shape(draw(st.integers(1, 4)), draw(st.integers(1, 6)), {"app": draw(st.sampled_from("abc"))}, **fields)


def best_by_listing(pods: list[PodShape], count: np.ndarray, value: np.ndarray, offer: np.ndarray) -> float:
    """Every number of every kind is looked at."""
    need = amounts(pods)
    best = 0.0
    for numbers in product(*(range(int(most) + 1) for most in count)):
        held = [pod for pod, number in zip(pods, numbers, strict=True) for _ in range(number)]
        fits = (np.array(numbers) @ need <= offer).all()
        pairs = ((one, other) for first, one in enumerate(held) for other in held[first + 1 :])
        if fits and all(may_share_node(one, other, NAMESPACES) for one, other in pairs):
            best = max(best, float(np.array(numbers) @ value))
    return best


def amounts(pods: list[PodShape]) -> np.ndarray:
    return np.array([[pod.requests["cpu"] / 1000, pod.requests["memory"] / (1 << 20)] for pod in pods])


@given(st.lists(shapes(), min_size=1, max_size=4), st.data())
def test_no_content_of_a_node_is_worth_more_and_one_is_worth_as_much(pods: list[PodShape], data: st.DataObject) -> None:
    count = np.array([float(data.draw(st.integers(1, 3))) for _ in pods])
    value = np.array([float(data.draw(st.integers(1, 9))) for _ in pods])
    offer = np.array([6.0, 9.0])
    valued = valued_pods(amounts(pods), value, pods, NAMESPACES)
    best = best_by_listing(pods, count, value, offer)
    everywhere = np.ones(len(pods), dtype=np.bool_)
    assert valued.most_on_node(offer, everywhere, count) >= best - 1e-6
    assert valued.most_on_node(offer, everywhere, count, 0.0) == pytest.approx(best, rel=1e-5)


def test_what_does_not_fit_beside_the_pods_worth_most_is_not_cut_into_the_rest() -> None:
    many = np.arange(300) % 7
    need = np.vstack([[[6.0, 6.0]], np.stack([4.5 + many / 10, 4.2 + many / 8], axis=1)])
    value = np.concatenate([[6.0], need[1:].sum(axis=1) / 3])
    nobody = np.full(301, np.inf)
    pods = ValuedPods(need, value, nobody, (), {}, np.arange(301))
    offer, count = np.array([10.0, 10.0]), np.full(301, 2.0)
    everywhere = np.ones(301, dtype=np.bool_)
    assert pods.most_on_node(offer, everywhere, count) > 8
    assert pods.most_on_node(offer, everywhere, count, 7.0) == 7.0


def test_many_nodes_hold_what_they_have_in_sum() -> None:
    pods = ValuedPods(np.array([[2.0]]), np.array([3.0]), np.array([1.0]), (), {}, np.zeros(1, dtype=np.int64))
    assert pods.most_on_many(np.array([5.0]), np.array([9.0])) == pytest.approx(7.5)
    assert pods.most_on_many(np.array([5.0]), np.array([1.0])) == pytest.approx(3.0)


def test_pods_share_a_node_unless_one_of_them_minds() -> None:
    apart = shape(1, 1, A, anti_affinity=(term(HOSTNAME, app="b"),))
    assert not may_share_node(apart, shape(1, 1, B), NAMESPACES)
    assert not may_share_node(shape(1, 1, B), apart, NAMESPACES)
    assert may_share_node(apart, apart, NAMESPACES)
