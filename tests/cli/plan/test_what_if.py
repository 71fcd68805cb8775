"""`--what-if`: what people type, and the copy of the cluster that comes of it."""

from __future__ import annotations

import asyncio
import json

import pytest

from growth.cli.plan.what_if import MorePods, WithoutNode, changed, read_changes
from growth.model.nodepool import PoolLimits
from growth.model.pod import Owner
from growth.model.snapshot import Snapshot
from tests.plan.builders import bound, daemon_pod, limited, machine, node, offering, pod, pool, request, world

SMALL = offering("small", 2, 4096, 0.01)
HERE = world(
    [bound(pod("web", owner=Owner("ReplicaSet", "web")), "one"), daemon_pod("agent", "one")],
    [pool("default", limited("small", 3), "large", limits=PoolLimits(nodes=5))],
    [SMALL],
    [node("one", of=SMALL), node("two", of=SMALL)],
    [request("one", SMALL, "Ready")],
    [machine("one", SMALL), machine("two", SMALL)],
)
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "template": {
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}], "priority": 7},
        }
    },
}


async def template(change: MorePods) -> str:
    return json.dumps({**WEB, "spec": {**WEB["spec"], "replicas": change.count}})  # type: ignore[dict-item]


def after(*typed: str) -> Snapshot:
    return asyncio.run(changed(HERE, read_changes(typed, "shop"), template))


def test_the_most_nodes_of_a_pool_hold_for_it_and_for_types_with_a_bound() -> None:
    spec = after("pool.default.max=20").pools["default"].spec
    assert spec.limits.nodes == 20
    assert [each.max for each in spec.server_types] == [20, None]


@pytest.mark.parametrize(
    ("typed", "field", "value"),
    [
        ("pool.default.consolidation=Full", "consolidation", "Full"),
        ("pool.default.limits.pricePerHour=2.5", "limits", PoolLimits(nodes=5, price_per_hour="2.5")),
        ("pool.default.limits.nodes=9", "limits", PoolLimits(nodes=9)),
        ("pool.default.expireAfterSeconds=60", "expire_after_seconds", 60),
    ],
)
def test_any_field_of_a_pools_spec_can_be_different(typed: str, field: str, value: object) -> None:
    assert getattr(after(typed).pools["default"].spec, field) == value


def test_a_place_in_a_list_is_a_number() -> None:
    assert after("pool.default.serverTypes.0.min=2").pools["default"].spec.server_types[0].min == 2


@pytest.mark.parametrize("typed", [("add deployment/web=3",), ("add", "deployment/web=3"), ("add deploy/shop/web=3",)])
def test_more_pods_of_a_workload_wait_quoted_or_not(typed: tuple[str, ...]) -> None:
    waiting = after(*typed).waiting_pods
    assert [each.key for each in waiting] == [f"shop/web-what-if-{number}" for number in range(3)]
    assert {each.shape.priority for each in waiting} == {7}
    assert all(each.unschedulable_at == HERE.now for each in waiting)
    assert len({each.uid for each in waiting}) == 3


@pytest.mark.parametrize("typed", [("without node one",), ("without", "node", "one"), ("without node/one",)])
def test_without_a_node_its_work_waits_and_nothing_of_it_is_left(typed: tuple[str, ...]) -> None:
    gone = after(*typed)
    assert [each.key for each in gone.waiting_pods] == ["default/web"]
    assert [each.node_name for each in gone.waiting_pods] == [""]
    assert [set(part) for part in (gone.nodes, gone.machines, gone.requests, gone.pods_by_node)] == [
        {"two"},
        {"two"},
        set(),
        set(),
    ]


def test_several_changes_come_one_after_the_other() -> None:
    many = after("pool.default.max=20", "without node one", "add deployment/web=2")
    assert len(many.waiting_pods) == 3
    assert many.pools["default"].spec.limits.nodes == 20


def test_what_was_seen_is_left_as_it_is() -> None:
    after("without node one", "pool.default.max=1")
    assert set(HERE.nodes) == {"one", "two"}
    assert HERE.pools["default"].spec.limits.nodes == 5


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        ("pool.defalt.max=3", "there is no NodePool defalt; did you mean default?"),
        ("pool.default.most=3", "has no field most; choose from max, serverTypes"),
        ("pool.default.limits.nodes.deep=3", "has no field limits.nodes.deep"),
        ("pool.default.max=many", "a number"),
        ("pool.default.consolidation=full", "pool.default.consolidation=full: Invalid enum value 'full'"),
        ("pool.default", "say pool.NAME.FIELD=VALUE"),
        ("without node on", "there is no node on; did you mean one?"),
        ("add daemonset/web=3", "KIND is one of deployment, job, replicaset, statefulset"),
        ("add deployment/web=few", "say KIND/NAME=COUNT"),
        ("remove everything", "choose from pool.NAME.max=20"),
    ],
)
def test_what_makes_no_sense_is_said_with_what_would(typed: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r"say|no |number|enum") as raised:
        after(typed)
    assert complaint in str(raised.value)


def test_a_node_may_be_named_like_a_flag_of_ours() -> None:
    assert read_changes(["without node add"]) == (WithoutNode("add"),)
