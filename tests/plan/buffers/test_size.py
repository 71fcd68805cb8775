"""How large is a buffer? The tables of both sizing modes, limits in whole chunks, and every way in which a buffer has
no size.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.model.capacitybuffer import (
    BufferWorld,
    CapacityBufferSpec,
    CapacityBufferStatus,
    Scalable,
    ScalableReference,
    reference_key,
)
from growth.model.resources import Resources
from growth.plan.buffers.size import MOST_CHUNKS, Sizing, chunks, size_buffer
from growth.plan.buffers.virtual_pods import served_buffers
from tests.plan.buffers.worlds import WEB, buffer, buffer_world, from_template, stored, template

GIB = 1024**3


def spec(**fields: Any) -> CapacityBufferSpec:
    return CapacityBufferSpec(scalable_ref=WEB, **fields)


@pytest.mark.parametrize(
    ("replicas", "percentage", "workload", "capped", "upstream"),
    [
        (10, 20, 50, 10, 10),
        (10, 20, 100, 10, 20),
        (None, 10, 15, 1, 2),
        (5, 20, 10, 2, 5),
        (5, 80, 10, 5, 8),
        (None, 33, 10, 3, 4),
        (None, 10, 1, 0, 1),
        (7, None, 0, 7, 7),
        (None, 50, 4, 2, 2),
        (None, 0, 10, 0, 0),
    ],
)
def test_replicas_and_percentage_by_both_ways_of_sizing(
    replicas: int | None, percentage: int | None, workload: int, capped: int, upstream: int
) -> None:
    asked = spec(replicas=replicas, percentage=percentage)
    assert chunks(asked, workload, Resources(), "capped") == capped
    assert chunks(asked, workload, Resources(), "upstream") == upstream


@pytest.mark.parametrize(
    ("given", "limits", "requests", "size"),
    [
        ({}, {"cpu": "5"}, {"cpu": 1000}, 5),
        ({"replicas": 10}, {"cpu": 3}, {"cpu": 1000}, 3),
        ({}, {"cpu": "20", "memory": "40Gi"}, {"cpu": 2000, "memory": 4 * GIB}, 10),
        ({}, {"cpu": "1"}, {"cpu": 2000}, 0),
        ({}, {"cpu": "8"}, {"cpu": 4000}, 2),
        ({}, {"pods": "3", "cpu": "100"}, {"cpu": 1000}, 3),
        ({"replicas": 4}, {"memory": "1Gi"}, {"cpu": 1000}, 4),
        ({"replicas": 2}, {"cpu": "1e3"}, {"cpu": 1}, 2),
        ({}, {"cpu": 0}, {"cpu": 1000}, 0),
    ],
)
@pytest.mark.parametrize("sizing", ["capped", "upstream"])
def test_limits_hold_as_many_whole_chunks_as_fit(
    given: dict[str, int], limits: dict[str, Any], requests: dict[str, int], size: int, sizing: Sizing
) -> None:
    assert chunks(spec(limits=limits, **given), 0, Resources(requests), sizing) == size


@given(
    replicas=st.integers(0, 300),
    percentage=st.integers(0, 300),
    workload=st.integers(0, 2000),
    cores=st.integers(0, 50),
)
def test_limits_are_never_exceeded_and_modes_are_ordered(
    replicas: int, percentage: int, workload: int, cores: int
) -> None:
    asked = spec(replicas=replicas, percentage=percentage, limits={"cpu": cores})
    capped, upstream = (chunks(asked, workload, Resources({"cpu": 700}), mode) for mode in ("capped", "upstream"))
    assert capped is not None
    assert upstream is not None
    assert capped <= min(replicas, cores * 1000 // 700)
    assert capped <= upstream <= cores * 1000 // 700
    assert capped * 100 <= percentage * workload


def test_the_smaller_of_both_protects_the_budget_while_the_workload_grows() -> None:
    sizes = [
        size_buffer(buffer(replicas=10, percentage=20), buffer_world([buffer()], replicas=n), "capped").count
        for n in (10, 50, 100)
    ]
    assert sizes == [2, 10, 10]


@pytest.mark.parametrize(
    ("made", "reason", "said"),
    [
        (from_template(scalable_ref=WEB, replicas=1), "ResolutionFailed", "both set"),
        (buffer(scalable_ref=None, replicas=1), "ResolutionFailed", "neither podTemplateRef nor scalableRef"),
        (from_template(percentage=10), "ResolutionFailed", "replicas or limits must be set"),
        (buffer(replicas=-1), "ResolutionFailed", "must not be negative"),
        (buffer(percentage=-5), "ResolutionFailed", "must not be negative"),
        (buffer(replicas=10_000_000), "ResolutionFailed", f"at most {MOST_CHUNKS}"),
        (buffer(limits={"cpu": "much"}), "ResolutionFailed", "spec.limits"),
        (buffer(limits={"cpu": "-1"}), "ResolutionFailed", "negative"),
        (buffer(limits={"nvidia.com/gpu": "1"}), "ResolutionFailed", "nothing bounds its size"),
        (buffer(limits={"cpu": "500m"}), "BufferEmpty", "smaller than one chunk (cpu 1)"),
        (buffer(replicas=0), "BufferEmpty", "make no whole chunk"),
        (buffer(), "BufferEmpty", "neither replicas, percentage nor limits"),
        (from_template(of="other", replicas=1), "PodTemplateNotFound", "PodTemplate other is not in namespace default"),
        (
            buffer(scalable_ref=ScalableReference("Deployment", "gone", "apps"), replicas=1),
            "ScalableRefNotFound",
            "Deployment gone is not in namespace default",
        ),
    ],
)
def test_a_buffer_without_a_size_says_why(made: Any, reason: str, said: str) -> None:
    found = size_buffer(made, buffer_world([buffer()], templates=[stored()]), "capped")
    assert (found.count, found.reason, found.is_ready) == (0, reason, False)
    assert said in found.message


def test_a_workload_that_could_not_be_asked_or_whose_pods_would_be_refused_is_a_failed_resolution() -> None:
    made = buffer(scalable_ref=ScalableReference("Rollout", "web", "argoproj.io"), replicas=1)
    key = reference_key("default", made.spec.scalable_ref or WEB)
    forbidden = BufferWorld(
        {made.key: made}, {key: Scalable(3, None, why="growth may not read the scale: add the rule")}
    )
    refused = BufferWorld(
        {made.key: made}, {key: Scalable(3, template(refusal="LimitRange small allows at most cpu 1"))}
    )
    assert size_buffer(made, forbidden, "capped").message == "growth may not read the scale: add the rule"
    assert size_buffer(made, refused, "capped").reason == "ResolutionFailed"
    assert "LimitRange small" in size_buffer(made, refused, "capped").message


def test_a_template_of_its_own_ignores_a_percentage() -> None:
    assert (
        size_buffer(from_template(replicas=3, percentage=500), buffer_world([], templates=[stored()]), "upstream").count
        == 3
    )


UNREAD = {reference_key("default", WEB): Scalable(why="500", is_unread=True)}
OURS = stored("capacitybuffer-spare-pod-template", owner_uid="uid-spare")


def test_ruling_9_what_cannot_be_read_keeps_the_size_and_the_template_that_were_known() -> None:
    made = buffer(replicas=9, status=CapacityBufferStatus(replicas=5))
    found = size_buffer(made, buffer_world([made], templates=[OURS], scalables=UNREAD), "capped")
    assert (found.count, found.template, found.is_ready, found.is_resolved) == (5, OURS.template, True, False)
    assert found.message == "Deployment web cannot be read: 500; its last size, 5 chunks, stays"


@pytest.mark.parametrize(("known", "templates"), [(None, [OURS]), (5, []), (5, [stored(OURS.name)])])
def test_ruling_9_where_nothing_was_known_there_is_no_size(known: int | None, templates: list[Any]) -> None:
    made = buffer(replicas=9, status=CapacityBufferStatus(replicas=known))
    found = size_buffer(made, buffer_world([made], templates=templates, scalables=UNREAD), "capped")
    assert (found.count, found.reason, found.is_ready) == (0, "ResolutionFailed", False)


def test_ruling_9_a_template_that_cannot_be_read_is_not_said_to_be_missing() -> None:
    made = from_template(replicas=3)
    found = size_buffer(made, buffer_world([made], unread_templates="podtemplates cannot be read: 500"), "capped")
    assert (found.reason, found.message) == ("ResolutionFailed", "podtemplates cannot be read: 500")


def test_ruling_9_a_quota_that_cannot_be_read_grants_nothing_more() -> None:
    made = buffer(replicas=9, status=CapacityBufferStatus(replicas=3))
    (found,) = served_buffers(buffer_world([made], unread_quotas="500"), {}, (), "capped")
    assert (found.count, "could not be read" in found.granted.limited_by) == (3, True)
