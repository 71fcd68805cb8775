"""Which taints keep a pod away, and which tolerations let it in."""

from __future__ import annotations

import pytest

from growth.model.node import Taint
from growth.model.pod import Toleration
from growth.solver.rules import Kind
from growth.solver.rules.taints import count_soft_untolerated, first_untolerated, tolerates
from tests.solver.rules.scenes import GPU, fits, node, pod, refusal
from tests.solver.rules.scenes import tolerates as toleration


@pytest.mark.parametrize(
    ("one", "taint", "expected"),
    [
        (Toleration("gpu", "Equal", "true"), GPU, True),
        (Toleration("gpu", "", "true"), GPU, True),
        (Toleration("gpu", "Equal", "false"), GPU, False),
        (Toleration("gpu", "Exists"), GPU, True),
        (Toleration("", "Exists"), GPU, True),
        (Toleration("", "Equal", "true"), GPU, True),  # an empty key with Equal still compares the value
        (Toleration("", "Equal"), GPU, False),
        (Toleration("gpu", "Exists", "", "NoExecute"), GPU, False),
        (Toleration("gpu", "Exists", "", "NoSchedule"), GPU, True),
        (Toleration("gpu", "Sometimes", "true"), GPU, False),
    ],
)
def test_a_toleration_permits_a_taint_by_effect_then_key_then_operator(
    one: Toleration, taint: Taint, expected: bool
) -> None:
    assert tolerates(one, taint) is expected


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        ("Gt", "5", "7", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "3", True),
        ("Lt", "5", "-3", True),
        ("Gt", "05", "7", False),
        ("Gt", "5", "+7", False),
        ("Lt", "5", "x", False),
    ],
)
def test_comparing_tolerations_compare_plain_integers(operator: str, bound: str, value: str, expected: bool) -> None:
    assert tolerates(Toleration("gpu", operator, bound), Taint("gpu", value)) is expected


def test_a_comparing_toleration_reaches_the_rules() -> None:
    comparing = pod(tolerations=(toleration("gpu", "5", operator="Gt"),))
    assert not fits(comparing, node(taints=(Taint("gpu", "5"),)))
    assert fits(comparing, node(taints=(Taint("gpu", "7"),)))


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_hard_taint_keeps_a_pod_without_tolerations_away(effect: str) -> None:
    refused = refusal(pod(), node(taints=(Taint("gpu", "true", effect),)))
    assert refused is not None
    assert (refused.kind, str(refused)) == (Kind.TOLERATION, f"untolerated taint gpu=true:{effect}")


def test_a_soft_taint_keeps_nobody_away_but_is_counted() -> None:
    soft = Taint("gpu", "true", "PreferNoSchedule")
    assert fits(pod(), node(taints=(soft,)))
    five = tuple(Taint(f"t{number}", "", "PreferNoSchedule") for number in range(5))
    assert count_soft_untolerated(five, tuple(Toleration(f"t{number}", "Exists") for number in range(3))) == 2


def test_the_first_untolerated_taint_is_named() -> None:
    assert first_untolerated((Taint("a"), Taint("b")), (Toleration("a", "Exists"),)) == Taint("b")
    assert first_untolerated((Taint("a", effect="PreferNoSchedule"),), ()) is None


def test_a_cordoned_node_takes_only_pods_that_tolerate_the_cordon() -> None:
    cordoned = node(is_unschedulable=True)
    refused = refusal(pod(), cordoned)
    assert refused is not None
    assert refused.kind is Kind.UNSCHEDULABLE
    assert fits(pod(tolerations=(toleration("node.kubernetes.io/unschedulable", operator="Exists"),)), cordoned)
    assert not fits(pod(tolerations=(toleration("node.kubernetes.io/unschedulable", "x"),)), cordoned)


def test_a_toleration_with_an_unknown_operator_counts_as_absent() -> None:
    assert not fits(pod(tolerations=(toleration("gpu", "true", operator="Perhaps"),)), node(taints=(GPU,)))
    assert fits(pod(tolerations=(toleration("gpu", "true", operator="Perhaps"),)), node())


def test_a_malformed_node_takes_no_pods_and_says_why() -> None:
    refused = refusal(pod(), node(malformed="status.allocatable: cpu: 'oops' is not a quantity"))
    assert refused is not None
    assert refused.kind is Kind.MALFORMED
    assert "oops" in str(refused)
