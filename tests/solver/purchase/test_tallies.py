"""How the rules between pods bound what one node holds."""

from __future__ import annotations

from msgspec.structs import replace

from growth.model.labels import HOSTNAME, ZONE, Labels
from growth.model.pod import HostPort, PodShape
from growth.solver.purchase.layout import Layout, lay_out
from growth.solver.purchase.problem import Choice, DemandClass, PlacementProblem, Room
from growth.solver.purchase.tallies import (
    NodeTally,
    even_nodes,
    kinds_on_node,
    looks_beyond_node,
    node_limits,
    proven_spreads,
)
from tests.solver.worlds import choice, room, shape, spread, term

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


def test_what_leaves_a_node_takes_its_counts_and_its_limits_along() -> None:
    web, shy = shape(labels=WEB), shape(labels={"app": "shy"}, anti_affinity=(term(HOSTNAME, app="web"),))
    layout = laid_out(web, shy)
    of_web, of_shy = class_of(layout, web), class_of(layout, shy)
    node = NodeTally(layout, 0, {of_shy: 2})
    node.add(of_shy, -1)
    assert node.space(of_web) == 0  # the other one still asks for it
    node.add(of_shy, -1)
    assert node.space(of_web) > 0
    node.add(of_web, 1)
    assert node.space(of_shy) == 0
    node.add(of_web, -1)
    assert node.space(of_shy) > 0


def test_classes_of_other_sizes_with_the_same_rules_are_of_one_kind() -> None:
    rule = (term(HOSTNAME, app="web"),)
    large, small = shape(2.0, labels=WEB, anti_affinity=rule), shape(1.0, labels=WEB, anti_affinity=rule)
    plain = shape(labels=WEB)
    layout = laid_out(large, small, plain)
    one, other, third = (kinds_on_node(layout)[class_of(layout, each)] for each in (large, small, plain))
    assert one == other != third


def test_only_rules_of_the_node_limit_it() -> None:
    layout = laid_out(shape(labels=WEB, anti_affinity=(term(ZONE, app="web"),)))
    assert node_limits(layout, 0) == []
    assert looks_beyond_node(layout, 0)


SPREAD = shape(labels=WEB, spread=(spread(HOSTNAME, 1, app="web"),))


LARGE = choice(cpu=64)


def proven(*demands: DemandClass, rooms: tuple[Room, ...] = (), bought: Choice = LARGE) -> list[float]:
    """What is proven of all spreads over nodes where these pods are placed."""
    layout = lay_out(PlacementProblem(demands=demands, rooms=rooms, choices=(bought,)))
    return list(proven_spreads(layout, layout.count).values())


def of(pods: PodShape, count: int) -> DemandClass:
    return DemandClass(pods, count, ("default",))


def full(name: str, held: int) -> Room:
    """A node without room for more, with so many of the pods that are spread."""
    return room(name, held, contents=((SPREAD, held),) if held else ())


def test_nothing_is_proven_of_a_spread_that_may_be_on_one_node_alone() -> None:
    assert proven(of(SPREAD, 9)) == []


def test_beside_a_full_node_a_new_one_takes_the_skew_above_it() -> None:
    assert proven(of(SPREAD, 9), rooms=(full("empty", 0),)) == [1.0]
    assert proven(of(SPREAD, 9), rooms=(full("two", 2), full("three", 3))) == [3.0]


def test_a_node_with_room_may_be_filled_as_far_as_pods_last() -> None:
    assert proven(of(SPREAD, 9), rooms=(room("large", 64),)) == [5.0]
    assert proven(of(SPREAD, 9), rooms=(room("for two", 2),)) == [3.0]


def test_closed_nodes_are_domains_that_take_nothing() -> None:
    assert proven(of(SPREAD, 9), rooms=(room("closed", 64, is_open=False),)) == [1.0]


def test_nodes_that_others_need_are_domains() -> None:
    apart = shape(labels={"app": "db"}, anti_affinity=(term(HOSTNAME, app="db"),))
    large = shape(40)
    assert proven(of(SPREAD, 9), of(apart, 4)) == [3.0]
    assert proven(of(SPREAD, 9), of(large, 10)) == [1.0]


def test_nodes_that_one_spread_needs_are_domains_of_another() -> None:
    """Five nodes at least for nine pods, two on each; so seven others are at most two on each."""
    other = shape(labels={"app": "other"}, spread=(spread(HOSTNAME, 1, app="other"),))
    asks_for_nodes = replace(SPREAD, spread=(replace(SPREAD.spread[0], min_domains=5),))
    assert sorted(proven(of(asks_for_nodes, 9), of(other, 7))) == [2.0, 2.0]


def test_nodes_where_the_pods_may_not_go_are_no_domains() -> None:
    elsewhere = replace(SPREAD, node_selector=Labels({ZONE: "z2"}))
    assert proven(of(elsewhere, 9), rooms=(full("here", 0),), bought=choice(cpu=64, zone="z2")) == []
    assert proven(of(SPREAD, 9), rooms=(full("here", 0),), bought=choice(cpu=64, zone="z2")) == [1.0]


def test_of_pods_that_count_but_are_not_spread_nothing_is_proven() -> None:
    layout = lay_out(
        PlacementProblem(
            demands=(of(SPREAD, 5), of(shape(labels=WEB), 5)), rooms=(full("full", 0),), choices=(choice(),)
        )
    )
    found = proven_spreads(layout, layout.count)
    spread_out = class_of(layout, SPREAD)
    assert [limit for _, limit in node_limits(layout, spread_out, found)] == [1.0]
    assert node_limits(layout, 1 - spread_out, found) == []


def test_where_daemons_count_nothing_is_proven() -> None:
    assert proven(of(SPREAD, 9), rooms=(full("full", 0),), bought=choice(daemons=(shape(0.1, 64, labels=WEB),))) == []


def test_nodes_with_the_same_name_for_spreads_are_one_domain_of_which_nothing_is_known() -> None:
    twice = [
        replace(each, node=replace(each.node, labels=room("same").node.labels)) for each in (full("a", 0), full("b", 0))
    ]
    assert proven(of(SPREAD, 9), rooms=tuple(twice)) == []


def test_on_even_nodes_every_node_begins_with_the_same_share() -> None:
    layout = lay_out(PlacementProblem(demands=(of(SPREAD, 9),), choices=(choice(cpu=4),)))
    four = next(even for even in even_nodes(layout, 100.0) if even.nodes == 4)
    assert (four.share, four.rest.count.tolist(), four.estimate) == ({0: 2}, [1], 4.0)


def test_no_number_of_even_nodes_is_smaller_than_a_spread_asks_for() -> None:
    asks = replace(SPREAD, spread=(replace(SPREAD.spread[0], min_domains=5),))
    layout = lay_out(PlacementProblem(demands=(of(asks, 9),), choices=(LARGE,)))
    assert min(even.nodes for even in even_nodes(layout, 100.0)) == 5
