"""A cache holds what the server holds, remembers our own writes, and is quiet when nothing changed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from growth.kube.api.resources import DAEMON_SETS, NAMESPACES, NODE_POOLS, NODE_REQUESTS, NODES
from growth.kube.cache import Cache
from growth.kube.codec import Codec
from growth.kube.watch.stream import ChangeType, Sink
from growth.model.labels import Labels
from growth.model.node import Node
from growth.model.nodepool import NodePool
from growth.model.noderequest import NodeRequest
from growth.model.snapshot import DaemonSet
from tests.kube.objects import Json, meta, node, raw
from tests.kube.samples import daemon_set, namespace, node_pool, node_request

ADDED, MODIFIED, DELETED = ChangeType.ADDED, ChangeType.MODIFIED, ChangeType.DELETED


def item(found: Json) -> Raw:
    return Raw(raw(found))


def requests() -> Cache[NodeRequest]:
    return Cache(NODE_REQUESTS, Codec())


def filled(cache: Cache[Any], version: int, *objects: Json) -> Cache[Any]:
    cache.relisting()
    cache.listed([item(one) for one in objects])
    cache.relisted(str(version))
    return cache


def phase(cache: Cache[NodeRequest], key: str = "a") -> str:
    found = cache.get(key)
    return found.phase if found is not None else "gone"


def test_a_cache_is_a_sink() -> None:
    cache = requests()
    sink: Sink = cache
    sink.relisting()
    sink.listed([item(node_request("a"))])
    sink.relisted("10")
    sink.changed(DELETED, item(node_request("a", 11)))
    sink.bookmarked("12")
    assert (len(cache), cache.synced) == (0, True)


def test_a_listing_fills_it_and_what_is_not_listed_again_goes() -> None:
    cache = filled(requests(), 10, node_request("a"), node_request("b"))
    assert (list(cache.view()), cache.synced, len(cache)) == (["a", "b"], True, 2)
    filled(cache, 20, node_request("b"), node_request("c"))
    assert sorted(cache.view()) == ["b", "c"]


def test_it_is_synced_only_after_a_whole_listing() -> None:
    cache = requests()
    cache.relisting()
    cache.listed([item(node_request("a"))])
    assert not cache.synced
    cache.relisted("10")
    assert cache.synced


def test_a_listing_that_begins_again_forgets_what_it_had_seen() -> None:
    cache = filled(requests(), 10, node_request("a"))
    cache.relisting()
    cache.listed([item(node_request("a"))])
    cache.relisting()
    cache.listed([item(node_request("b"))])
    assert sorted(cache.view()) == ["a", "b"]
    cache.relisted("20")
    assert list(cache.view()) == ["b"]


def test_an_object_deleted_while_it_is_listed_is_not_part_of_the_listing() -> None:
    cache = requests()
    cache.relisting()
    cache.listed([item(node_request("a")), item(node_request("b"))])
    cache.changed(DELETED, item(node_request("a", 8)))
    cache.relisted("10")
    assert list(cache.view()) == ["b"]


def test_changes_are_applied_one_by_one() -> None:
    cache = filled(requests(), 10, node_request("a", phase="Pending"))
    cache.changed(MODIFIED, item(node_request("a", 11, "Ready")))
    cache.changed(ADDED, item(node_request("b", 12)))
    assert (phase(cache), list(cache.view())) == ("Ready", ["a", "b"])
    cache.changed(DELETED, item(node_request("a", 13)))
    assert list(cache.view()) == ["b"]


# ------------------------------------------------------------------------------- versions and views


def test_a_heartbeat_wakes_nobody_but_the_noun_carries_the_newest_version() -> None:
    cache: Cache[Node] = Cache(NODES, Codec())
    filled(cache, 10, node())
    calls, before = [], cache.version
    cache.subscribe(lambda: calls.append(1))
    cache.changed(MODIFIED, item(node(version=11, heartbeat="2026-03-29T01:35:00Z")))
    assert (cache.version, calls) == (before, [])
    assert cache.view()["node-1"].resource_version == "11"
    cache.changed(MODIFIED, item(node(version=12, ready="False")))
    assert (cache.version, calls) == (before + 1, [1])


def test_nouns_without_a_version_of_their_own_are_quiet_too() -> None:
    cache: Cache[Labels] = Cache(NAMESPACES, Codec())
    filled(cache, 10, namespace())
    before = cache.version
    cache.changed(
        MODIFIED,
        item(
            {
                **namespace(),
                "metadata": {**namespace()["metadata"], "resourceVersion": "11"},
                "status": {"phase": "Active"},
            }
        ),
    )
    assert cache.version == before
    cache.changed(MODIFIED, item({"metadata": meta("web", None, 12)}))
    assert (cache.version, cache.view()) == (before + 1, {"web": Labels()})


def test_an_empty_noun_is_there_all_the_same() -> None:
    cache: Cache[Labels] = Cache(NAMESPACES, Codec())
    filled(cache, 10, {"metadata": meta("plain", None, 5)})
    cache.learned(raw({"metadata": meta("plain", None, 4, labels={"old": "yes"})}))
    assert cache.get("plain") == Labels()


def test_a_view_is_the_same_object_until_something_changes_and_never_changes_itself() -> None:
    cache = filled(requests(), 10, node_request("a"))
    view = cache.view()
    cache.changed(MODIFIED, item(node_request("a")))
    cache.bookmarked("11")
    assert cache.view() is view
    cache.changed(ADDED, item(node_request("b", 12)))
    assert (list(view), list(cache.view())) == (["a"], ["a", "b"])
    with pytest.raises(TypeError):
        view["c"] = view["a"]  # type: ignore[index]


def test_the_same_listing_again_changes_nothing() -> None:
    cache = filled(requests(), 10, node_request("a"), node_request("b"))
    before, view = cache.version, cache.view()
    filled(cache, 11, node_request("a"), node_request("b"))
    assert (cache.version, cache.view() is view) == (before, True)


def test_age_is_counted_from_the_last_proof() -> None:
    now = [100.0]
    cache: Cache[NodeRequest] = Cache(NODE_REQUESTS, Codec(), lambda: now[0])
    ages = [cache.age_seconds]
    filled(cache, 10)
    now[0] = 160.0
    ages.append(cache.age_seconds)
    cache.bookmarked("11")
    ages.append(cache.age_seconds)
    assert ages == [None, 60.0, 0.0]


# ---------------------------------------------------------------------------------------- malformed


def test_a_malformed_object_stands_apart_and_stops_nobody() -> None:
    cache: Cache[NodePool] = Cache(NODE_POOLS, Codec())
    filled(cache, 10, node_pool("bad", serverTypes=[]), node_pool("good"))
    assert (list(cache.view()), list(cache.malformed)) == (["good"], ["bad"])
    assert "serverTypes" in cache.malformed["bad"].why


def test_an_object_may_turn_malformed_and_back_and_go() -> None:
    cache: Cache[NodePool] = Cache(NODE_POOLS, Codec())
    filled(cache, 10, node_pool())
    versions = [cache.version]
    for change, found in [
        (MODIFIED, node_pool(version=11, serverTypes=[])),
        (MODIFIED, node_pool(version=12)),
        (MODIFIED, node_pool(version=13, serverTypes=[])),
    ]:
        cache.changed(change, item(found))
        versions.append(cache.version)
    assert (versions, list(cache.view()), list(cache.malformed)) == (sorted(set(versions)), [], ["web"])
    cache.changed(MODIFIED, item(node_pool(version=14, serverTypes=[])))
    assert cache.version == versions[-1]
    cache.changed(DELETED, item(node_pool(version=15, serverTypes=[])))
    assert (dict(cache.malformed), cache.version) == ({}, versions[-1] + 1)


def test_a_malformed_object_that_is_not_listed_again_goes() -> None:
    cache: Cache[DaemonSet] = Cache(DAEMON_SETS, Codec())
    broken = {**daemon_set(), "spec": None}
    filled(cache, 10, broken)
    assert list(cache.malformed) == ["kube-system/agent"]
    filled(cache, 11)
    assert dict(cache.malformed) == {}


def test_an_object_without_a_name_is_counted_and_passed_over() -> None:
    cache = filled(requests(), 10, {"metadata": {}}, node_request("a"))
    cache.changed(ADDED, Raw(b"[]"))
    assert (list(cache.view()), cache.unnamed) == (["a"], 2)


# --------------------------------------------------------------------------------------- our writes


def test_what_we_wrote_is_there_at_once_and_older_events_do_not_undo_it() -> None:
    cache = filled(requests(), 10, node_request("a", 5, "Pending"))
    cache.learned(raw(node_request("a", 15, "Provisioning")))
    assert phase(cache) == "Provisioning"
    cache.changed(MODIFIED, item(node_request("a", 12, "Pending")))
    assert phase(cache) == "Provisioning"
    cache.changed(MODIFIED, item(node_request("a", 15, "Provisioning")))
    cache.changed(MODIFIED, item(node_request("a", 16, "Ready")))
    assert phase(cache) == "Ready"


def test_what_we_made_is_there_at_once_and_a_listing_that_is_older_does_not_take_it_away() -> None:
    cache = filled(requests(), 10)
    cache.learned(raw(node_request("a", 15)))
    filled(cache, 14)
    assert list(cache.view()) == ["a"]
    filled(cache, 15)
    assert list(cache.view()) == []


def test_an_older_copy_in_a_listing_does_not_undo_a_write() -> None:
    cache = filled(requests(), 10, node_request("a", 5, "Pending"))
    cache.learned(raw(node_request("a", 15, "Ready")))
    filled(cache, 12, node_request("a", 5, "Pending"))
    assert phase(cache) == "Ready"


def test_what_we_deleted_is_gone_at_once_and_an_older_event_does_not_bring_it_back() -> None:
    cache = filled(requests(), 10, node_request("a", 5))
    cache.learned(raw(node_request("a", 15, "Unmet")))
    cache.forgot("a")
    assert phase(cache) == "gone"
    cache.changed(MODIFIED, item(node_request("a", 15, "Unmet")))
    assert phase(cache) == "gone"
    cache.changed(DELETED, item(node_request("a", 16)))
    cache.changed(ADDED, item(node_request("a", 17, "Pending")))
    assert phase(cache) == "Pending"


def test_an_object_that_another_holds_after_our_delete_comes_back() -> None:
    cache = filled(requests(), 10, node_request("a", 5))
    cache.forgot("a")
    cache.changed(MODIFIED, item(node_request("a", 11)))
    assert phase(cache) == "Provisioning"


def test_an_answer_that_the_watch_has_overtaken_is_not_taken() -> None:
    cache = filled(requests(), 10, node_request("a", 5, "Pending"))
    cache.changed(MODIFIED, item(node_request("a", 16, "Ready")))
    cache.learned(raw(node_request("a", 15, "Provisioning")))
    assert phase(cache) == "Ready"
    cache.changed(DELETED, item(node_request("a", 17)))
    cache.learned(raw(node_request("a", 16, "Ready")))
    assert phase(cache) == "gone"


def test_what_we_know_of_the_version_we_hold_is_taken_until_a_newer_one_comes() -> None:
    cache = filled(requests(), 10, node_request("a", 5, "Pending"))
    cache.learned(raw(node_request("a", 5, "Provisioning")))
    cache.bookmarked("11")
    assert phase(cache) == "Provisioning"
    cache.changed(MODIFIED, item(node_request("a", 12, "Ready")))
    assert phase(cache) == "Ready"


def test_something_we_made_that_the_server_never_mentions_goes_again() -> None:
    cache = filled(requests(), 10)
    cache.learned(raw(node_request("a", 15)))
    cache.bookmarked("14")
    assert phase(cache) == "Provisioning"
    cache.bookmarked("15")
    assert phase(cache) == "gone"


def test_after_etcd_was_restored_the_listing_is_right_and_our_writes_are_forgotten() -> None:
    cache = filled(requests(), 100, node_request("a", 90, "Pending"), node_request("old", 80))
    cache.learned(raw(node_request("a", 105, "Ready")))
    cache.learned(raw(node_request("new", 106)))
    filled(cache, 50, node_request("a", 40, "Pending"))
    assert (phase(cache), list(cache.view())) == ("Pending", ["a"])
    cache.changed(MODIFIED, item(node_request("a", 51, "Unmet")))
    assert phase(cache) == "Unmet"


def test_our_own_writes_wake_the_subscribers_and_their_echo_does_not() -> None:
    cache = filled(requests(), 10)
    calls: list[int] = []
    cache.subscribe(lambda: calls.append(cache.version))
    cache.learned(raw(node_request("a", 15)))
    cache.changed(ADDED, item(node_request("a", 15)))
    cache.forgot("a")
    cache.forgot("unknown")
    assert len(calls) == 2
