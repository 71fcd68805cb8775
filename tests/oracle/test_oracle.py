"""The same question to growth and to the kube-scheduler's plugins, with hypothesis choosing the case and shrinking what
differs.

`make oracle` asks far more cases, faster; this is the place to find the smallest one.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from growth.kube.codec import Codec
from tests.oracle.build import oracle_or_skip
from tests.oracle.cases import RULES, random_case
from tests.oracle.compare import disagreement
from tests.oracle.draws import Draws, Json
from tests.oracle.mutations import mutated
from tests.oracle.oracle import Oracle

pytestmark = pytest.mark.oracle
CODEC = Codec()


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle(oracle_or_skip()) as running:
        yield running


def check(oracle: Oracle, case: Json) -> None:
    line = msgspec.json.encode(case)
    assert disagreement(line, oracle.ask(line), CODEC) == ""


@settings(
    max_examples=400,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.randoms(use_true_random=False), st.sampled_from(RULES), st.booleans())
def test_growth_and_the_scheduler_agree(oracle: Oracle, random: Random, focus: str, with_mutation: bool) -> None:
    case = random_case(random, focus)
    check(oracle, mutated(Draws(random), case) if with_mutation else case)


def test_the_oracle_answers_in_the_schedulers_own_words(oracle: Oracle) -> None:
    nodes = [{"metadata": {"name": "a"}, "spec": {"unschedulable": True}, "status": {"allocatable": {"pods": "1"}}}]
    truth = oracle.ask(msgspec.json.encode({"id": 1, "nodes": nodes, "pods": [], "pod": {"spec": {"containers": []}}}))
    assert truth.fails == {"a": ["unschedulable", "node(s) were unschedulable"]}
    assert truth.decisive == {"NodeUnschedulable"}
