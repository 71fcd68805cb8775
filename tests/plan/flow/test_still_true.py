"""While a round was worked out the cluster went on: what is no longer true of the answer is not done."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.decision import Decision
from growth.model.labels import HOSTNAME, LabelSelector, Requirement
from growth.model.node import Taint
from growth.model.noderequest import NodeRemovalRequest
from growth.model.pod import HostPort, Pod, PodAffinityTerm
from growth.model.snapshot import Snapshot
from growth.plan.flow import scheduling
from growth.plan.flow.keeper import Keeper
from tests.plan.builders import NOW, bound, node, world
from tests.plan.builders import pod as any_pod
from tests.plan.flow.test_scheduling import ON, pod, sent

ONE = (node("n1"),)  # four cores


def late(before: Snapshot, after: Snapshot) -> Decision[scheduling.Ledger]:
    """The plan of `after`, with the answer to a question that was asked of `before`."""
    asked = scheduling.question(before, scheduling.Ledger(), ON)
    assert asked is not None
    assert asked.problem is not None
    return scheduling.plan(after, scheduling.Ledger(), ON, asked, Keeper()(asked.problem))


def going(name: str) -> Any:
    return replace(world([pod("a", 2)], nodes=ONE), removals={name: NodeRemovalRequest(name, None, None)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "after",
    [
        world([], nodes=ONE),
        world([pod("a", 2, deleted_at=NOW)], nodes=ONE),
        world([bound(pod("a", 2), "n1")], nodes=ONE),
        world([pod("a", 2)]),
        going("n1"),
        world([pod("a", 2)], nodes=[replace(ONE[0], is_unschedulable=True)]),
        world([pod("a", 2)], nodes=[replace(ONE[0], taints=(Taint("new"),))]),
        world([pod("a", 2), bound(pod("b", 3), "n1")], nodes=ONE),
    ],
    ids=["gone", "being deleted", "bound", "node gone", "node in removal", "cordoned", "tainted", "fuller"],
)
def test_what_is_no_longer_true_is_not_done(after: Snapshot) -> None:
    assert sent(late(world([pod("a", 2)], nodes=ONE), after)) == {}


def test_what_still_fits_is_done_by_the_latest_version_of_the_pod() -> None:
    before = world([pod("a", 2), pod("b", 2)], nodes=ONE)
    newer = [replace(each, resource_version="9") for each in before.waiting_pods]
    decision = late(before, world([*newer, bound(pod("c", 1), "n1")], nodes=ONE))
    assert sent(decision) == {"a": "n1"}
    assert [one.pod.resource_version for one in decision.actions[0].assignments] == ["9"]  # type: ignore[union-attr]
    assert decision.ledger.backoffs == {}


def test_who_is_placed_again_has_the_next_round_at_once() -> None:
    decision = late(world([pod("a", 2)], nodes=ONE), world([pod("a", 2)]))
    assert decision.again_at == NOW
    assert decision.actions == ()


def test_a_pod_that_wants_a_port_of_a_node_that_has_changed_is_placed_again() -> None:
    wanting = pod("a", host_ports=(HostPort(80),))
    after = world([wanting, bound(any_pod("b"), "n1")], nodes=ONE)
    assert sent(late(world([wanting], nodes=ONE), after)) == {}


APART = PodAffinityTerm(HOSTNAME, LabelSelector((Requirement("app", "In", ("web",)),)))


@pytest.mark.parametrize(
    ("wanting", "came", "is_bound"),
    [
        ({"anti_affinity": (APART,)}, {"labels": {"app": "web"}}, False),
        ({"anti_affinity": (APART,)}, {"labels": {"app": "db"}}, True),
        ({"labels": {"app": "web"}}, {"anti_affinity": (APART,)}, False),
        ({"labels": {"app": "db"}}, {"anti_affinity": (APART,)}, True),
    ],
)
def test_a_pod_whose_rules_look_at_one_that_came_is_placed_again(
    wanting: dict[str, Any], came: dict[str, Any], is_bound: bool
) -> None:
    nodes = (*ONE, node("n2"))
    before = world([pod("a", **wanting)], nodes=nodes)
    after = world([pod("a", **wanting), *(bound(any_pod(name, **came), name) for name in ("n1", "n2"))], nodes=nodes)
    assert bool(sent(late(before, after))) is is_bound


def test_a_gang_goes_whole_or_not_at_all() -> None:
    members: list[Pod] = [pod(f"p{number}", 3, annotations={"growth.dev/gang": "g:2"}) for number in range(2)]
    before = world([*members, pod("other", 1)], nodes=(*ONE, node("n2")))
    after = world([*members, pod("other", 1), bound(any_pod("x", 3), "n2")], nodes=(*ONE, node("n2")))
    assert set(sent(late(before, before))) == {"p0", "p1", "other"}
    assert set(sent(late(before, after))) == {"other"}
