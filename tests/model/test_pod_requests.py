"""Requests as kube-scheduler counts them: each rule of its PodRequests, and their meeting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.model.pod_requests import Asked, PodAsked, effective_requests
from growth.model.quantity import QuantityError
from growth.model.resources import NOTHING, Resources


def asks(cpu: str = "0", memory: str = "0", **more: str) -> Asked:
    return Asked("c", {"cpu": cpu, "memory": memory, **more})


def sidecar(cpu: str) -> Asked:
    return Asked("s", {"cpu": cpu}, is_sidecar=True)


def cpu_of(pod: PodAsked) -> int:
    return effective_requests(pod)["cpu"]


def test_containers_are_summed() -> None:
    pod = PodAsked(containers=[asks("100m", "1Gi"), asks("200m", "1Gi", **{"example.com/gpu": "1"})])
    assert effective_requests(pod) == Resources({"cpu": 300, "memory": 2 * 2**30, "example.com/gpu": 1})


def test_nothing_asked_is_nothing() -> None:
    assert effective_requests(PodAsked(containers=[Asked("a")])) == NOTHING


def test_the_largest_init_container_counts_if_it_is_more_than_the_sum() -> None:
    assert cpu_of(PodAsked([asks("1")], [asks("4"), asks("3")])) == 4000
    assert cpu_of(PodAsked([asks("5")], [asks("4")])) == 5000


def test_each_resource_is_compared_by_itself() -> None:
    pod = PodAsked([asks("2", "1Gi")], [asks("1", "4Gi")])
    assert effective_requests(pod) == Resources({"cpu": 2000, "memory": 4 * 2**30})


def test_a_sidecar_counts_beside_the_containers() -> None:
    assert cpu_of(PodAsked([asks("1")], [sidecar("500m")])) == 1500


def test_an_init_container_runs_beside_the_sidecars_started_before_it_only() -> None:
    assert cpu_of(PodAsked([asks("1")], [sidecar("2"), asks("3")])) == 5000
    assert cpu_of(PodAsked([asks("1")], [asks("3"), sidecar("2")])) == 3000
    assert cpu_of(PodAsked([asks("1")], [sidecar("1"), asks("3"), sidecar("2"), asks("2")])) == 5000


def test_overhead_is_added_at_the_end() -> None:
    assert effective_requests(
        PodAsked([asks("1")], [asks("4")], overhead={"cpu": "250m", "memory": "64Mi"})
    ) == Resources({"cpu": 4250, "memory": 64 * 2**20})


def test_a_limit_without_a_request_is_a_request() -> None:
    assert effective_requests(PodAsked([Asked("c", {"cpu": "1"}, {"cpu": "2", "memory": "1Gi"})])) == Resources(
        {"cpu": 1000, "memory": 2**30}
    )


def test_pod_level_amounts_replace_the_sum_where_they_are_set() -> None:
    pod = PodAsked(
        [asks("1", "1Gi", **{"example.com/gpu": "1"})], pod_level=Asked(requests={"cpu": "3"}), overhead={"cpu": "1"}
    )
    assert effective_requests(pod) == Resources({"cpu": 4000, "memory": 2**30, "example.com/gpu": 1})


def test_pod_level_amounts_may_be_smaller_than_the_sum_and_know_only_some_names() -> None:
    pod = PodAsked(
        [asks("2")],
        pod_level=Asked(
            requests={"cpu": "1", "hugepages-2Mi": "4Mi", "example.com/gpu": "5", "ephemeral-storage": "1Gi"}
        ),
    )
    assert effective_requests(pod) == Resources({"cpu": 1000, "hugepages-2Mi": 4 * 2**20})


def test_a_pod_level_limit_is_a_request_only_where_containers_ask_for_nothing() -> None:
    pod = PodAsked([Asked("c", {"cpu": "1"})], pod_level=Asked(limits={"cpu": "3", "memory": "2Gi"}))
    assert effective_requests(pod) == Resources({"cpu": 1000, "memory": 2 * 2**30})


def resized(actual: str, allocated: str, *, infeasible: bool = False) -> PodAsked:
    return PodAsked(
        [Asked("c", {"cpu": "2"}, actual={"cpu": actual}, allocated={"cpu": allocated})],
        is_resize_infeasible=infeasible,
    )


def test_a_resize_counts_the_largest_of_asked_allocated_and_actual() -> None:
    assert cpu_of(resized("1", "1")) == 2000
    assert cpu_of(resized("3", "1")) == 3000
    assert cpu_of(resized("1", "4")) == 4000


def test_an_infeasible_resize_counts_what_the_container_has() -> None:
    assert cpu_of(resized("1", "1500m", infeasible=True)) == 1500


def test_a_container_without_a_status_counts_as_asked_even_if_the_resize_is_infeasible() -> None:
    assert cpu_of(PodAsked([asks("2")], is_resize_infeasible=True)) == 2000


def test_the_status_of_a_sidecar_counts_and_that_of_an_init_container_does_not() -> None:
    status = {"cpu": "5"}
    assert cpu_of(PodAsked([asks("1")], [Asked("s", {"cpu": "1"}, actual=status, is_sidecar=True)])) == 6000
    assert cpu_of(PodAsked([asks("1")], [Asked("i", {"cpu": "1"}, actual=status)])) == 1000


def test_huge_pages_of_a_container_make_the_pods_other_requests_its_own() -> None:
    container = Asked("c", {"memory": "64Mi"}, {"hugepages-2Mi": "2Mi"}, actual={}, allocated={"memory": "6Gi"})
    pod = PodAsked([container], pod_level=Asked(requests={"cpu": "4"}))
    assert effective_requests(pod) == Resources({"cpu": 4000, "memory": 64 * 2**20, "hugepages-2Mi": 2 * 2**20})


def test_a_resize_at_pod_level_counts_the_largest_too() -> None:
    level = Asked(requests={"cpu": "2"}, actual={"cpu": "3"}, allocated={"cpu": "1"})
    assert cpu_of(PodAsked([asks("1")], pod_level=level)) == 3000


def test_only_names_that_the_scheduler_counts_are_kept() -> None:
    names = {
        "storage": "1Gi",
        "pods": "3",
        "hugepages-1Gi": "1Gi",
        "attachable-volumes-aws-ebs": "1",
        "example.com/gpu": "1",
        "requests.example.com/gpu": "1",
        "gpu": "1",
    }
    kept = effective_requests(PodAsked([Asked("c", names)]))
    assert set(kept) == {"hugepages-1Gi", "attachable-volumes-aws-ebs", "example.com/gpu"}


def test_the_sum_is_exact_and_only_the_result_is_rounded_up() -> None:
    assert effective_requests(PodAsked([asks("0.0004", "0.4")] * 5)) == Resources({"cpu": 2, "memory": 2})


def test_a_bad_or_negative_amount_names_container_and_resource() -> None:
    with pytest.raises(QuantityError, match=r"^container c: cpu: 'much' is not a quantity"):
        effective_requests(PodAsked([asks("much")]))
    with pytest.raises(QuantityError, match=r"^overhead: memory: '-1' is negative"):
        effective_requests(PodAsked(overhead={"memory": "-1"}))


cores = st.integers(0, 8).map(str)
containers = st.lists(cores.map(asks), max_size=3)
starters = st.lists(st.one_of(cores.map(asks), cores.map(sidecar)), max_size=4)


@given(containers, starters)
def test_the_request_covers_every_moment_of_the_pods_life(running: list[Asked], starting: list[Asked]) -> None:
    total = cpu_of(PodAsked(running, starting))
    moments = [sum(_milli(one) for one in running) + sum(_milli(one) for one in starting if one.is_sidecar)]
    for place, one in enumerate(starting):
        moments.append(_milli(one) + sum(_milli(before) for before in starting[:place] if before.is_sidecar))
    assert total == max(moments)


def _milli(asked: Asked) -> int:
    return 1000 * int(asked.requests["cpu"])
