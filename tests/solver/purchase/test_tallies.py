"""How the rules between pods bound what one node holds."""

from __future__ import annotations

from growth.model.labels import HOSTNAME, ZONE
from growth.model.pod import HostPort, PodShape
from growth.solver.purchase.layout import Layout, lay_out
from growth.solver.purchase.problem import DemandClass, PlacementProblem
from growth.solver.purchase.tallies import NodeTally, looks_beyond_node, node_limits
from tests.solver.worlds import choice, shape, spread, term

WEB = {"app": "web"}


def laid_out(*shapes: PodShape, daemons: tuple[PodShape, ...] = ()) -> Layout:
    demands = tuple(DemandClass(one, 5, ("default",)) for one in shapes)
    return lay_out(PlacementProblem(demands=demands, choices=(choice(daemons=daemons),)))


def class_of(layout: Layout, wanted: PodShape) -> int:
    return layout.shapes.index(wanted)


def test_a_class_that_avoids_itself_fits_once() -> None:
    alone = shape(labels=WEB, anti_affinity=(term(HOSTNAME, app="web"),))
    node = NodeTally(laid_out(alone), 0)
    assert node.space(0) == 1
    node.add(0, 1)
    assert node.space(0) == 0


def test_a_spread_over_nodes_allows_its_skew_as_beside_an_empty_node() -> None:
    node = NodeTally(laid_out(shape(labels=WEB, spread=(spread(HOSTNAME, 3, app="web"),))), 0)
    node.add(0, 2)
    assert node.space(0) == 1


def test_pods_keep_away_pods_that_avoid_them_and_the_other_way_round() -> None:
    web, shy = shape(labels=WEB), shape(labels={"app": "shy"}, anti_affinity=(term(HOSTNAME, app="web"),))
    layout = laid_out(web, shy)
    of_web, of_shy = class_of(layout, web), class_of(layout, shy)
    assert NodeTally(layout, 0, {of_web: 1}).space(of_shy) == 0
    assert NodeTally(layout, 0, {of_shy: 1}).space(of_web) == 0


def test_a_daemon_that_holds_a_port_is_counted_from_the_start() -> None:
    port = (HostPort(80),)
    layout = laid_out(shape(host_ports=port), daemons=(shape(0.1, 64, host_ports=port),))
    assert NodeTally(layout, 0).space(0) == 0


def test_with_other_contents_the_node_is_counted_again() -> None:
    alone = shape(labels=WEB, anti_affinity=(term(HOSTNAME, app="web"),))
    node = NodeTally(laid_out(alone), 0, {0: 1})
    assert node.with_contents({0: 1}, less=0).space(0) == 1


def test_only_rules_of_the_node_limit_it() -> None:
    layout = laid_out(shape(labels=WEB, anti_affinity=(term(ZONE, app="web"),)))
    assert node_limits(layout, 0) == []
    assert looks_beyond_node(layout, 0)


def test_a_bound_does_without_spreads() -> None:
    layout = laid_out(shape(labels=WEB, spread=(spread(HOSTNAME, 1, app="web"),)))
    assert [limit for _, limit in node_limits(layout, 0)] == [1.0]
    assert node_limits(layout, 0, with_spreads=False) == []
