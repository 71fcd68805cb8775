"""Rules that can bind nobody are left out, and no others."""

from __future__ import annotations

import pytest

from growth.model.labels import HOSTNAME, ZONE
from growth.solver.purchase.layout import lay_out
from growth.solver.purchase.problem import PlacementProblem
from tests.solver.worlds import choice, demand, room, shape, spread, term

APART = (term(HOSTNAME, app="a"),)


def rules_left(problem: PlacementProblem) -> int:
    """How many tallies the layout keeps."""
    return len(lay_out(problem).tally_key)


@pytest.mark.parametrize(("pods", "left"), [(1, 0), (2, 1)])
def test_of_one_pod_a_rule_about_its_own_kind_binds_nobody(pods: int, left: int) -> None:
    for fields in ({"anti_affinity": APART}, {"spread": (spread(ZONE, app="a"),)}):
        alone = PlacementProblem(demands=(demand(pods, labels={"app": "a"}, **fields),), choices=(choice(),))
        assert rules_left(alone) == left


def test_pods_that_are_there_already_count() -> None:
    there = room("there", contents=((shape(labels={"app": "a"}), 1),))
    asked = demand(1, labels={"app": "a"}, anti_affinity=APART)
    assert rules_left(PlacementProblem(demands=(asked,), rooms=(there,), choices=(choice(),))) == 1
    assert rules_left(PlacementProblem(demands=(asked,), rooms=(room("there"),), choices=(choice(),))) == 0


def test_daemons_of_new_nodes_are_without_number() -> None:
    watched = choice(daemons=(shape(0.1, 10, labels={"app": "a"}),))
    asked = demand(1, labels={"app": "b"}, anti_affinity=APART)
    assert rules_left(PlacementProblem(demands=(asked,), choices=(watched,))) == 1


def test_a_spread_over_a_label_that_some_node_lacks_keeps_pods_from_it() -> None:
    asked = demand(1, labels={"app": "a"}, spread=(spread("rack", app="a"),))
    assert rules_left(PlacementProblem(demands=(asked,), choices=(choice(),))) == 1


def test_an_affinity_always_binds() -> None:
    asked = demand(1, labels={"app": "a"}, affinity=(term(ZONE, app="a"),))
    assert rules_left(PlacementProblem(demands=(asked,), choices=(choice(),))) == 1


def test_classes_that_differed_by_such_rules_alone_are_one() -> None:
    names = ("a", "b", "c")
    asked = tuple(demand(1, labels={"app": name}, spread=(spread(ZONE, app=name),)) for name in names)
    assert len(lay_out(PlacementProblem(demands=asked, choices=(choice(),))).count) == 1
