"""The page says what the snapshot says, and a change of it says only what changed."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from growth.model.decision import About, Note
from growth.model.node import SCALE_DOWN_TAINT
from growth.model.noderequest import (
    NodeRemovalRequest,
    NodeRemovalRequestSpec,
    NodeRequest,
    NodeRequestSpec,
)
from growth.model.pod import Pod, PodShape
from growth.model.resources import Resources
from growth.web.notes import Notes
from growth.web.state import WAITING_SHOWN, Page, changes, page_of
from tests.web.moments import look, pod, world


def with_changes(before: Page, after: Page) -> object:
    """What a viewer has who had the page before and was told what changed."""
    held = {table: dict(rows) for table, rows in before.whole().items()}
    for table, change in changes(before, after).items():
        held.setdefault(table, {}).update(change.get("set", {}))
        for key in change.get("gone", []):
            del held[table][key]
    return held


def test_a_node_is_shown_with_its_pods_by_class_its_price_and_what_is_used() -> None:
    batch = PodShape(requests=Resources.parse({"cpu": "1"}))
    pods = (pod("web-1", "a"), pod("web-2", "a", phase="Pending"), pod("job", "a", "batch", batch))
    row = page_of(look(world({"a": pods}))).rows("nodes")["a"]
    assert row["pods"] == {
        "default/batch|cpu 1": [["job"], [], []],
        "default/web|cpu 500m, memory 1Gi": [["web-1"], ["web-2"], []],
    }
    assert (row["pool"], row["state"], row["price"], row["usedCpu"], row["cpu"]) == (
        "default",
        "ready",
        0.02,
        2000,
        4000,
    )


def test_a_marked_node_and_one_in_removal_are_told_apart() -> None:
    removal = NodeRemovalRequest("b", NodeRemovalRequestSpec("b", "default", reason="Empty"))
    snapshot = world({"a": (), "b": ()}, removals={"b": removal})
    marked = replace(snapshot.nodes["a"], taints=(SCALE_DOWN_TAINT,))
    rows = page_of(look(replace(snapshot, nodes={**snapshot.nodes, "a": marked}))).rows("nodes")
    assert (rows["a"]["state"], rows["b"]["state"]) == ("marked", "going")
    assert rows["b"]["why"] == "Empty: Pending"


def test_a_stranger_has_no_pool_and_costs_nothing_of_ours() -> None:
    snapshot = world({"a": ()})
    page = page_of(look(replace(snapshot, nodes={"a": replace(snapshot.nodes["a"], pool="")})))
    assert page.rows("nodes")["a"]["pool"] == ""
    assert page.rows("cluster")[""]["pricePerHour"] == 0.0


def test_a_waiting_pod_is_shown_with_the_last_word_on_it() -> None:
    notes, waits = Notes(lambda: 100.0), pod("web-1")
    assert page_of(look(world({}, (waits,)))).rows("waiting")["default/web-1"]["message"].startswith("the scheduler")
    about = About("Pod", "web-1", "default", "web-1")
    notes.hear(Note(about, "Planned", "a machine is on its way"), is_new=True)
    notes.hear(Note(about, "Unplaced", "no offering is large enough", "Warning"), is_new=False)
    row = page_of(look(world({}, (waits,)), notes)).rows("waiting")["default/web-1"]
    assert (row["reason"], row["message"], row["warning"]) == ("Unplaced", "no offering is large enough", True)


def test_more_waiting_pods_than_are_shown_are_counted() -> None:
    page = page_of(look(world({}, tuple(pod(f"web-{number}") for number in range(WAITING_SHOWN + 7)))))
    assert len(page.rows("waiting")) == WAITING_SHOWN
    assert page.rows("cluster")[""]["waiting"] == WAITING_SHOWN + 7


def test_a_request_that_is_over_stays_as_past() -> None:
    request = NodeRequest("r", NodeRequestSpec("default", "sim-cx32", planned_pods=("default/web-1",)))
    before = page_of(look(world({}, requests={"r": request})))
    after = page_of(look(world({})), before)
    assert before.rows("requests")["r"]["pods"] == 1
    assert not after.rows("requests")
    assert after.rows("past")["NodeRequest/r"]["ended"] == 100.0


def test_costs_are_sampled_once_in_a_while_and_kept_within_bounds() -> None:
    page = page_of(look(world({"a": ()}), bound=0.01))
    assert list(page.rows("costs").values()) == [[100.0, 0.02, 0.01, 1, 0, 0]]
    assert page_of(look(replace(world({"a": ()}), now=159.0)), page).rows("costs") == page.rows("costs")
    assert len(page_of(look(replace(world({"a": ()}), now=161.0)), page).rows("costs")) == 2


def test_notes_become_the_journal() -> None:
    notes = Notes(lambda: 7.0)
    notes.hear(Note(About("Pod", "web-1", "default"), "Planned", "soon"), is_new=True)
    row = page_of(look(world({}), notes)).rows("journal")["1"]
    assert (row["at"], row["kind"], row["name"], row["message"]) == (7.0, "Pod", "default/web-1", "soon")
    assert [entry.number for entry in notes.about("Pod", "default/web-1")] == [1]


def test_what_did_not_change_is_not_told_again() -> None:
    snapshot = world({"a": (pod("web-1", "a"),), "b": ()})
    before = page_of(look(snapshot))
    assert changes(before, page_of(look(snapshot), before)) == {}
    after = page_of(look(replace(snapshot, pods_by_node={**snapshot.pods_by_node, "b": (pod("web-2", "b"),)})), before)
    delta = changes(before, after)
    assert list(delta["nodes"]["set"]) == ["b"]
    assert set(delta) == {"nodes", "cluster"}


def test_an_object_made_anew_that_says_the_same_is_no_change() -> None:
    before = page_of(look(world({"a": (pod("web-1", "a"),)})))
    assert changes(before, page_of(look(world({"a": (pod("web-1", "a"),)})), before)) == {}


PODS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["web", "api", "batch"])), max_size=8)


@given(PODS, PODS, st.sets(st.sampled_from("abc")), st.sets(st.sampled_from("abc")))
@settings(max_examples=60, deadline=None)
def test_the_page_before_with_what_changed_is_the_page_after(
    first: list[tuple[str, str]], second: list[tuple[str, str]], some: set[str], others: set[str]
) -> None:
    pages = []
    before = Page(0.0, {})
    for names, placed in ((some, first), (others, second)):
        on_node: dict[str, tuple[Pod, ...]] = dict.fromkeys(sorted(names), ())
        waiting = []
        for number, (name, workload) in enumerate(placed):
            if name in on_node:
                on_node[name] += (pod(f"{workload}-{number}", name, workload),)
            else:
                waiting.append(pod(f"{workload}-{number}", workload=workload))
        before = page_of(look(world(on_node, tuple(waiting))), before)
        pages.append(before)
    assert with_changes(pages[0], pages[1]) == pages[1].whole()
    assert msgspec.json.encode(pages[1].whole())
