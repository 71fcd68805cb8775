"""Pods by node and waiting: always what a walk over all pods would give, at the price of what changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from growth.kube.cache.pods import PodCache
from growth.kube.codec import Codec
from growth.kube.watch.stream import ChangeType
from growth.model.pod import Pod
from tests.kube.objects import Json, pod, raw

ADDED, MODIFIED, DELETED = ChangeType.ADDED, ChangeType.MODIFIED, ChangeType.DELETED


def item(found: Json) -> Raw:
    return Raw(raw(found))


def filled(*objects: Json) -> PodCache:
    cache = PodCache(Codec())
    cache.relisting()
    cache.listed([item(one) for one in objects])
    cache.relisted("10")
    return cache


def on_node(cache: PodCache, node: str) -> tuple[Pod, ...]:
    return cache.by_node().get(node, ())


def names(pods: tuple[Pod, ...]) -> list[str]:
    return [one.name for one in pods]


def test_pods_are_found_on_their_node_in_the_order_of_their_keys() -> None:
    cache = filled(pod("c", "node-1"), pod("a", "node-1"), pod("b", "node-2"), pod("waits"))
    assert {node: names(pods) for node, pods in cache.by_node().items()} == {"node-1": ["a", "c"], "node-2": ["b"]}
    assert (names(on_node(cache, "node-1")), on_node(cache, "unknown")) == (["a", "c"], ())


def test_finished_pods_stay_on_their_node_but_do_not_wait() -> None:
    cache = filled(pod("done", "node-1", phase="Succeeded"), pod("failed", phase="Failed"), pod("runs", "node-1"))
    assert names(on_node(cache, "node-1")) == ["done", "runs"]
    assert cache.waiting() == ()


def test_waiting_pods_come_oldest_first() -> None:
    old = pod("z")
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert names(filled(pod("b"), pod("a"), old).waiting()) == ["z", "a", "b"]


def test_only_those_the_scheduler_gave_up_are_unschedulable() -> None:
    stuck = pod("stuck")
    stuck["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    assert names(filled(pod("new"), stuck).unschedulable()) == ["stuck"]


def test_a_pod_we_bound_stays_bound_whatever_older_news_comes() -> None:
    cache = filled(pod("a", version="3"))
    cache.bound("web/a", "uid-a", "node-1")
    assert names(on_node(cache, "node-1")) == ["a"]
    cache.changed(MODIFIED, item(pod("a", version="4")))  # the scheduler's condition, written before our bind
    cache.relisting()  # a list that was made before our bind
    cache.listed([item(pod("a", version="4"))])
    cache.relisted("11")
    assert (names(on_node(cache, "node-1")), cache.waiting()) == (["a"], ())
    cache.changed(MODIFIED, item(pod("a", "node-1", version="12")))
    cache.changed(DELETED, item(pod("a", "node-1", version="13")))
    cache.changed(ADDED, item(pod("a", version="14")))
    assert names(cache.waiting()) == ["a"]  # the pod of the same name that comes after it is another one


def test_what_we_have_heard_up_to_is_said_by_our_own_bindings_that_came_back() -> None:
    cache = filled(pod("a", version="3"), pod("b", version="4"), pod("c", version="5"), pod("d", version="6"))
    cache.bound("web/a", "uid-a", "node-1", asked_at=100.0)
    assert cache.heard_at < 0
    cache.changed(MODIFIED, item(pod("a", "node-1", version="12")))
    assert cache.heard_at == 100.0
    cache.changed(MODIFIED, item(pod("b", "node-1", version="13")))  # before the answer to our request
    cache.bound("web/b", "uid-b", "node-1", asked_at=101.0)
    assert cache.heard_at == 101.0
    cache.bound("web/c", "uid-c", "node-1", asked_at=102.0)
    cache.learned(raw(pod("c", "node-1", version=20)))  # an answer to ourselves
    cache.bound("web/d", "uid-d", "node-1", asked_at=103.0)
    cache.relisting()
    cache.listed([item(pod("d", "node-1", version="21"))])  # a part of a listing: others are missing yet
    assert cache.heard_at == 101.0


def test_a_restored_etcd_may_have_lost_our_binding() -> None:
    cache = filled(pod("a", version="3"))
    cache.bound("web/a", "uid-a", "node-1")
    cache.relisting()
    cache.listed([item(pod("a", version="3"))])
    cache.relisted("5")
    assert (names(cache.waiting()), on_node(cache, "node-1")) == (["a"], ())


def test_a_pod_that_is_bound_no_longer_waits() -> None:
    cache = filled(pod("a"))
    cache.changed(MODIFIED, item(pod("a", "node-1", version=11)))
    assert (cache.waiting(), names(on_node(cache, "node-1"))) == ((), ["a"])


def test_our_own_binding_is_seen_at_once() -> None:
    cache = filled(pod("a"))
    cache.learned(raw(pod("a", "node-1", version=7)))
    assert (cache.waiting(), names(on_node(cache, "node-1"))) == ((), ["a"])


def test_only_the_nodes_that_were_touched_are_made_again() -> None:
    cache = filled(pod("a", "node-1"), pod("b", "node-2"))
    before = cache.by_node()
    assert cache.by_node() is before
    cache.changed(ADDED, item(pod("c", "node-2", version=11)))
    after = cache.by_node()
    assert after["node-1"] is before["node-1"]
    assert (names(before["node-2"]), names(after["node-2"])) == (["b"], ["b", "c"])


def test_a_node_without_pods_is_not_listed() -> None:
    cache = filled(pod("a", "node-1"))
    cache.by_node()
    cache.changed(DELETED, item(pod("a", "node-1", version=11)))
    assert dict(cache.by_node()) == {}
    cache.changed(ADDED, item(pod("b", "node-1", version=12)))
    assert names(cache.by_node()["node-1"]) == ["b"]


def test_a_status_that_changes_nothing_we_read_wakes_nobody_and_keeps_the_waiting() -> None:
    cache = filled(pod("a"))
    version, calls = cache.version, []
    cache.subscribe(lambda: calls.append(1))
    noisy = pod("a", version=11)
    noisy["status"]["message"] = "pulling"
    cache.changed(MODIFIED, item(noisy))
    assert (cache.version, calls, cache.waiting()[0].resource_version) == (version, [], "11")


def test_what_was_handed_out_cannot_be_changed() -> None:
    cache = filled(pod("a", "node-1"))
    with pytest.raises(TypeError):
        cache.by_node()["node-2"] = ()  # type: ignore[index]


changes = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from(["", "node-1", "node-2"]),
        st.sampled_from(["", "Succeeded"]),
        st.sampled_from(["1", "2"]),
        st.booleans(),
    ),
    max_size=30,
)


@given(changes, st.integers(0, 5))
def test_after_any_changes_the_orders_are_those_of_a_walk_over_all_pods(
    steps: list[tuple[str, str, str, str, bool]], look_every: int
) -> None:
    cache = filled()
    for number, (name, node, phase, cpu, is_deleted) in enumerate(steps):
        change = DELETED if is_deleted else MODIFIED if cache.get(f"web/{name}") else ADDED
        cache.changed(change, item(pod(name, node, phase=phase, cpu=cpu, version=11 + number)))
        if look_every and number % look_every == 0:
            cache.by_node()
            cache.waiting()
    everyone = sorted(cache.view().values(), key=lambda one: one.key)
    bound = [one for one in everyone if one.node_name]
    waiting = tuple(one for one in everyone if not one.node_name and not one.is_finished)
    assert dict(cache.by_node()) == {
        node: tuple(one for one in bound if one.node_name == node) for node in {one.node_name for one in bound}
    }
    assert cache.waiting() == waiting


def test_the_lowest_priority_of_bound_pods_follows_them() -> None:
    low, high = pod("low", "node-1"), pod("high", "node-1")
    low["spec"]["priority"], high["spec"]["priority"] = -5, 100
    cache = filled(low, high, pod("waits"))
    assert cache.lowest_priority() == -5
    cache.changed(DELETED, item(low))
    assert cache.lowest_priority() == 100
    high["status"] = {"phase": "Succeeded"}
    cache.changed(MODIFIED, item(high))
    assert cache.lowest_priority() == float("inf")
