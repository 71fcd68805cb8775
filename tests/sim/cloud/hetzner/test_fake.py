"""The fake Hetzner is a fair stand-in: selectors, pages, limits, bills and servers' lives are as the real one's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from growth.sim.apiserver.selectors import SelectorError, label_test
from growth.sim.cloud.hetzner.api import FakeAnswer, FakeApi, FakeRequest
from growth.sim.cloud.hetzner.project import FakeBill, FakePace, Meter, Project

TOKEN = "t" * 64
LABELS = {"a": "1", "b": "2"}


class Clock:
    def __init__(self) -> None:
        self.at = 1_767_225_600.0

    def __call__(self) -> float:
        return self.at


class Shop:
    """A fake with a clock that a test moves."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.project = Project(self.clock, pace=FakePace((5, 5), (10, 10), (2, 2)))
        self.api = FakeApi(self.project, TOKEN)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None, **query: str) -> FakeAnswer:
        sent = json.dumps(body).encode() if body is not None else b""
        return self.api.handle(FakeRequest(method, path, {name: [value] for name, value in query.items()}, TOKEN, sent))

    def buy(self, name: str, **changes: Any) -> FakeAnswer:
        return self.ask(
            "POST",
            "/servers",
            {"name": name, "server_type": "cx33", "image": "ubuntu-24.04", "location": "fsn1", **changes},
        )

    def wait(self, seconds: float) -> None:
        self.clock.at += seconds
        self.project.advance()


@pytest.mark.parametrize(("selector", "matched"), [
    ("", True), ("a=1", True), ("a==1", True), ("a=2", False), ("a!=2", True), ("c!=2", True), ("a", True),
    ("c", False), ("!c", True), ("!a", False),
    ("a in (1, 3)", True), ("a in (2,3)", False), ("a notin (2,3)", True), ("c notin (2)", True), ("a=1,b=2", True),
    ("a=1, b=3", False), ("a in (1),!c", True),
])  # fmt: skip
def test_label_selectors_mean_what_they_mean_at_hetzner(selector: str, matched: bool) -> None:
    assert label_test(selector)(LABELS) is matched


def test_nonsense_is_no_selector() -> None:
    with pytest.raises(SelectorError):
        label_test(",,")


def test_started_hours_are_billed_whole_and_a_month_at_most_once() -> None:
    bill = FakeBill(1, "n", "uid", 0.01, began_at=0.0)
    assert [round(bill.amount(seconds), 6) for seconds in (1.0, 3600.0, 3601.0, 700 * 3600.0)] == [
        0.01,
        0.01,
        0.02,
        6.24,
    ]
    assert bill.amount(731 * 3600.0) == pytest.approx(6.25)


def test_two_servers_for_one_request_at_the_same_time_are_duplicates_one_after_the_other_are_not() -> None:
    meter = Meter()
    meter.begin(FakeBill(1, "a", "uid", 1.0, 0.0))
    meter.end(1, 10.0)
    meter.begin(FakeBill(2, "a", "uid", 1.0, 10.0))
    assert meter.duplicates() == []
    meter.begin(FakeBill(3, "b", "uid", 1.0, 11.0))
    assert meter.duplicates() == ["uid"]


def test_a_server_is_made_starts_runs_and_goes_in_its_time_and_costs_until_it_is_deleted() -> None:
    shop = Shop()
    booted: list[str] = []
    shop.project.on_boot = lambda server: booted.append(server.name)
    made = shop.buy("one")
    server_id, action_id = made.body["server"]["id"], made.body["action"]["id"]
    assert (made.status, made.body["server"]["status"], made.body["action"]["status"]) == (
        201,
        "initializing",
        "running",
    )
    shop.wait(5)
    assert shop.ask("GET", "/actions", id=str(action_id)).body["actions"][0]["status"] == "success"
    assert (shop.ask("GET", f"/servers/{server_id}").body["server"]["status"], booted) == ("starting", [])
    shop.wait(10)
    assert (shop.ask("GET", f"/servers/{server_id}").body["server"]["status"], booted) == ("running", ["one"])
    shop.project.power_off(server_id)
    assert shop.project.meter.price_per_hour() == pytest.approx(0.0088)
    assert shop.ask("DELETE", f"/servers/{server_id}").body["action"]["command"] == "delete_server"
    assert shop.project.meter.price_per_hour() == 0
    shop.wait(2)
    assert shop.ask("GET", f"/servers/{server_id}").status == 404


def test_names_are_unique_and_stock_and_limits_end() -> None:
    shop = Shop()
    shop.project.stock = {("cx33", "fsn1"): 1}
    assert shop.buy("one").status == 201
    assert shop.buy("one").body["error"]["code"] == "uniqueness_error"
    assert shop.buy("two").body["error"]["code"] == "resource_unavailable"
    shop.project.server_limit = 1
    assert shop.buy("two", location="nbg1").body["error"]["code"] == "resource_limit_exceeded"


@pytest.mark.parametrize(("changes", "code"), [
    ({"name": "not a host name"}, "invalid_input"),
    ({"name": "x", "server_type": "cx31"}, "invalid_input"),
    ({"name": "x", "server_type": "cx32"}, "invalid_input"),
    ({"name": "x", "server_type": "cax11", "image": "161"}, "invalid_input"),
    ({"name": "x", "image": "nothing"}, "not_found"),
    ({"name": "x", "networks": [1]}, "not_found"),
    ({"name": "x", "user_data": "x" * 32769}, "invalid_input"),
    ({"name": "x", "labels": {"a": "not allowed!"}}, "invalid_input"),
    ({"name": "x", "placement_group": 5}, "not_found"),
])  # fmt: skip
def test_orders_that_hetzner_would_not_take_are_not_taken(changes: dict[str, Any], code: str) -> None:
    shop = Shop()
    assert shop.buy(**changes).body["error"]["code"] == code
    assert shop.project.servers == {}


def test_lists_come_in_pages_of_at_most_fifty() -> None:
    shop = Shop()
    for number in range(60):
        shop.buy(f"s{number}", labels={"odd": str(number % 2)})
    first = shop.ask("GET", "/servers", per_page="100", label_selector="odd in (0,1)")
    assert (
        len(first.body["servers"]),
        first.body["meta"]["pagination"]["next_page"],
        first.body["meta"]["pagination"]["total_entries"],
    ) == (50, 2, 60)
    assert len(shop.ask("GET", "/servers", per_page="50", page="2").body["servers"]) == 10
    assert (
        shop.ask("GET", "/servers", label_selector="odd=1", per_page="1").body["meta"]["pagination"]["total_entries"]
        == 30
    )


def test_requests_run_out_come_back_one_a_second_and_every_answer_says_how_many_are_left() -> None:
    shop = Shop()
    shop.api.limit, shop.api._left = 10, 10.0
    answers = [shop.ask("GET", "/pricing") for _ in range(12)]
    assert [answer.status for answer in answers] == [200] * 10 + [429] * 2
    assert [answer.headers["RateLimit-Remaining"] for answer in answers[:3]] == ["9", "8", "7"]
    assert int(answers[-1].headers["RateLimit-Reset"]) == int(shop.clock.at) + 11
    shop.wait(1)
    assert shop.ask("GET", "/pricing").status == 200


def test_a_wrong_token_is_not_taken_and_protected_servers_stay() -> None:
    shop = Shop()
    assert shop.api.handle(FakeRequest("GET", "/servers", token="wrong")).body["error"]["code"] == "unauthorized"
    server_id = shop.buy("one").body["server"]["id"]
    shop.project.servers[server_id].is_protected = True
    assert shop.ask("DELETE", f"/servers/{server_id}").body["error"]["code"] == "protected"
