"""Waiting counts for everybody: who is overtaken by younger pods gets their room when the band is placed again."""

from __future__ import annotations

from typing import Any

import pytest

from growth.model.labels import HOSTNAME, ZONE, Labels
from growth.model.pod import HostPort, PreferredPods
from tests.solver.flow.worlds import counts, group, left, machine, placed_by
from tests.solver.worlds import spread, term

ONE_SLOT = [machine("m", cpu=1)]
YOUNG: dict[str, dict[str, Any]] = {
    "anti-affinity": {"anti_affinity": (term(HOSTNAME, app="x"),), "labels": {"app": "x"}},
    "port": {"host_ports": (HostPort(80),)},
    "preferred anti-affinity": {"preferred_anti_affinity": (PreferredPods(10, term(HOSTNAME, app="x")),)},
    "spread": {"spread": (spread(HOSTNAME, 1, app="x"),), "labels": {"app": "x"}},
    "nothing": {},
}


@pytest.mark.parametrize("kind", YOUNG)
@pytest.mark.parametrize("minutes", [1, 16, 60, 600])
def test_a_pod_that_waits_for_long_is_not_passed_by_a_younger_one(kind: str, minutes: int) -> None:
    young, old = group(1, 1, **YOUNG[kind]), group(1, 1, waiting_seconds=60.0 * minutes)
    assert counts(placed_by(ONE_SLOT, young, old), 1) == {"m": 1}
    assert counts(placed_by(ONE_SLOT, old, young), 0) == {"m": 1}


def test_after_an_hour_a_large_pod_goes_before_many_small_ones() -> None:
    small, large = group(4, 1), group(1, 4)
    assert counts(placed_by([machine("m", cpu=4)], small, large), 0) == {"m": 4}
    old = group(1, 4, waiting_seconds=3600.0)
    assert counts(placed_by([machine("m", cpu=4)], small, old), 1) == {"m": 1}


def test_of_those_who_have_waited_for_hours_the_oldest_goes_first() -> None:
    hours = [group(1, 4, waiting_seconds=3600.0 * number) for number in (2, 9, 4)]
    answer = placed_by([machine("m", cpu=4), machine("n", cpu=4)], *hours)
    assert [left(answer, number) for number in range(3)] == [1, 0, 0]


def test_an_old_pod_that_may_go_anywhere_leaves_a_young_one_its_only_place() -> None:
    nodes = [machine("m", cpu=1, disk="hdd"), machine("n", cpu=1)]
    young, old = group(1, 1, node_selector=Labels({"disk": "hdd"})), group(1, 1, waiting_seconds=36000.0)
    assert placed_by(nodes, young, old).left == ()


def test_pods_are_spread_over_two_kinds_of_domains_at_once() -> None:
    """Both domains hold several machines: what each pair of them may take is counted by itself."""
    nodes = [machine(f"n{number}", zone=f"z{number % 2}", rack=f"r{number // 2 % 3}") for number in range(12)]
    both = (spread(ZONE, 1, app="web"), spread("rack", 1, app="web"))
    answer = placed_by(nodes, group(6, labels={"app": "web"}, spread=both))
    placed = counts(answer)
    assert (sum(placed.values()), left(answer)) == (6, 0)
    where = {node.name: node.labels for node in nodes}
    for key, expected in ((ZONE, [3, 3]), ("rack", [2, 2, 2])):
        found: dict[str, int] = {}
        for name, count in placed.items():
            found[where[name][key]] = found.get(where[name][key], 0) + count
        assert sorted(found.values()) == expected
