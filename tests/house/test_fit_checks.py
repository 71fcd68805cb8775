"""One room decides whether a pod fits a node, and the rule that says so notices a second."""

from __future__ import annotations

import pytest

from tests.house.fit_checks import is_judged, why_a_second_fit_check
from tests.house.tree import python_files, text_of


def test_only_the_rules_of_the_solver_decide_whether_a_pod_fits() -> None:
    violations = [
        f"{path}: {reason}"
        for path in python_files("src/growth")
        if is_judged(path.as_posix())
        for reason in why_a_second_fit_check(text_of(path), path.as_posix())
    ]
    assert violations == []


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("ok = charge(shape).fits_in(free)", "line 1: asks fits_in"),
        ("count = shape.requests.how_often_in(free) or 0", "line 1: asks how_often_in"),
        ("check = Resources.fits_in", "line 1: asks fits_in"),
        ("from growth.solver.rules.taints import first_untolerated", "line 1: imports first_untolerated"),
        ("from growth.solver.rules.selectors import holds as agrees", "line 1: imports holds"),
        ("def _tolerates(toleration, taint):\n    return True", "line 1: defines _tolerates"),
        ("ok = shape.requests[name] <= free[name]", "line 1: compares requests"),
        ("ok = node.allocatable[name] - sum(used) >= amount", "line 1: compares allocatable"),
        ("ok = free >= sum(shape.requests[name] for shape in shapes)", "line 1: compares requests"),
    ],
)
def test_a_second_fit_check_is_noticed(source: str, reason: str) -> None:
    assert why_a_second_fit_check(source) == [reason]


@pytest.mark.parametrize(
    "source",
    [
        "from growth.solver.rules.fit import fits_alone\nok = fits_alone(shape, node, free)",
        "share = shape.requests[name] / node.allocatable[name]",
        "ok = headroom(limit, offering.allocatable) > 0",
        "ok = (needs <= left).all()",
        "same = node.allocatable == other.allocatable",
    ],
)
def test_asking_the_rules_passes(source: str) -> None:
    assert why_a_second_fit_check(source) == []


def test_the_rules_and_the_other_side_are_not_judged() -> None:
    assert is_judged("src/growth/plan/world/capacity.py")
    assert not is_judged("src/growth/solver/rules/fit.py")
    assert not is_judged("src/growth/sim/laws/writes.py")
