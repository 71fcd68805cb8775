"""People are told everything once."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from growth.controllers.loop.journal import Journal
from growth.controllers.loop.metrics import Metrics
from growth.controllers.loop.runtime import SystemRuntime
from growth.model.decision import About, Note
from growth.model.pod import Owner
from growth.plan.nodes_down.consolidation import STAYING
from growth.solver.reasons import no_nodes

POD = About("Pod", "web", "shop", "uid-1")


class KeptEvents:
    """Stands where the event recorder stands."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.counts: Counter[str] = Counter()  # by name of the object

    def record(self, *event: Any, count: int = 1) -> None:
        self.events.append(event)
        self.counts[event[0].name] += count


@pytest.fixture
def events() -> KeptEvents:
    return KeptEvents()


@pytest.fixture
def journal(events: KeptEvents) -> Journal:
    return Journal(events, Metrics(SystemRuntime()), time.monotonic)  # type: ignore[arg-type]  # a double of the recorder


def test_a_note_becomes_an_event_on_its_object(journal: Journal, events: KeptEvents) -> None:
    journal.record([Note(POD, "Unplaced", "no offering is large enough", "Warning")])
    regarding, severity, reason, message = events.events[0]
    assert (regarding.api_version, regarding.kind, regarding.namespace, regarding.name, regarding.uid) == (
        "v1",
        "Pod",
        "shop",
        "web",
        "uid-1",
    )
    assert (severity, reason, message) == ("Warning", "Unplaced", "no offering is large enough")


def test_what_was_said_of_objects_that_are_gone_is_forgotten_after_a_day(events: KeptEvents) -> None:
    now = [0.0]
    journal = Journal(events, Metrics(SystemRuntime()), lambda: now[0])  # type: ignore[arg-type]  # a double
    journal.record([Note(POD, "Unplaced", "no room"), Note(About("Pod", "gone"), "Unplaced", "no room")])
    for hours in (20, 40):
        now[0] = 3600.0 * hours
        journal.record([Note(POD, "Unplaced", "no room")])
    assert [str(note.about) for note in journal.latest(9)] == ["Pod shop/web"]
    assert len(events.events) == 2


def test_the_same_words_are_not_said_twice_but_new_ones_are(journal: Journal, events: KeptEvents) -> None:
    for message in ("no room", "no room", "no stock", "no room"):
        journal.record([Note(POD, "Unplaced", message)])
    assert [event[3] for event in events.events] == ["no room", "no stock", "no room"]


def test_one_that_only_observes_says_what_would_happen_and_what_it_found_as_it_is(events: KeptEvents) -> None:
    journal = Journal(events, Metrics(SystemRuntime()), time.monotonic, only_observes=True)  # type: ignore[arg-type]  # a double
    pool = About("NodePool", "default")
    journal.record([Note(pool, "ScaleUp", "orders 2 × cx32"), Note(POD, "Unplaced", "no room", "Warning")])
    journal.record([Note(About("Node", "n"), STAYING, "the node stays: pods run there")])
    assert [event[3] for event in events.events] == [
        "would happen, but growth only observes: orders 2 × cx32",
        "no room",
        "the node stays: pods run there",
    ]


def test_the_last_word_for_each_reason_is_kept_for_explain(journal: Journal) -> None:
    journal.record([Note(POD, "Unplaced", "first"), Note(POD, "BackOff", "waits"), Note(POD, "Unplaced", "second")])
    assert [note.message for note in journal.about(POD)] == ["waits", "second"]
    assert journal.about(About("Pod", "other", "shop")) == ()


def test_a_note_about_something_without_events_is_only_kept(journal: Journal, events: KeptEvents) -> None:
    journal.record([Note(About("Resource", "pods"), "CannotWatch", "forbidden", "Warning")])
    assert events.events == []
    assert journal.latest(5)[0].message == "forbidden"


def test_every_look_is_counted_and_only_a_change_is_told() -> None:
    """Why a node stays is counted by check and pool; it is an event only when it changes."""
    events, metrics = KeptEvents(), Metrics(SystemRuntime())
    journal = Journal(events, metrics, time.monotonic)  # type: ignore[arg-type]  # a double of the recorder
    node = About("Node", "a", uid="uid-a")
    blocked = Note(node, STAYING, no_nodes().message, fields=(*no_nodes().fields(), ("nodepool", "default")))
    journal.record([blocked])
    journal.record([blocked, Note(node, STAYING, "the node stays for now: the budget is used up")])
    labels = {"check_type": "no_nodes", "nodepool": "default"}
    assert metrics.registry.get_sample_value("growth_safety_check_failures_total", labels) == 2
    assert [event[3] for event in events.events] == [
        "no available nodes for rescheduling",
        "the node stays for now: the budget is used up",
    ]


def owned(events: KeptEvents, owner: Owner | None) -> Journal:
    return Journal(events, Metrics(SystemRuntime()), time.monotonic, lambda _pod: owner)  # type: ignore[arg-type]  # a double


def test_what_is_said_of_many_pods_of_one_owner_is_said_on_the_first_hundred_and_counted_on_the_owner(
    events: KeptEvents,
) -> None:
    journal = owned(events, Owner("ReplicaSet", "web", "u", "apps/v1"))
    pods = [About("Pod", f"web-{number}", "shop", f"uid-{number}") for number in range(1500)]
    journal.record(Note(pod, "Unplaced", "no place", "Warning") for pod in pods)
    journal.record(Note(pod, "Unplaced", "no place", "Warning") for pod in pods)  # nothing new
    assert events.counts == Counter({"web": 1500} | {f"web-{number}": 1 for number in range(100)})
    regarding, *said = next(event for event in events.events if event[0].name == "web")
    assert (regarding.api_version, regarding.kind, regarding.namespace, regarding.uid) == (
        "apps/v1",
        "ReplicaSet",
        "shop",
        "u",
    )
    assert said == ["Warning", "Unplaced", "of its pods: no place"]


def test_a_pod_that_is_alone_and_good_news_stay_on_the_pod(events: KeptEvents) -> None:
    journal = owned(events, Owner("ReplicaSet", "web", "u", "apps/v1"))
    journal.record([Note(POD, "Unplaced", "no place", "Warning"), Note(POD, "Placed", "on node-1")])
    journal.record([Note(About("Pod", "other", "shop", "o"), "Placed", "on node-1")])
    assert "ReplicaSet" not in {event[0].kind for event in events.events}
    unowned = owned(events, None)
    unowned.record(
        Note(About("Pod", f"a-{number}", "shop"), "Unplaced", "no place", "Warning") for number in range(300)
    )
    assert sum(event[0].name.startswith("a-") for event in events.events) == 300
