"""Every class of error at Hetzner, through the real client, and what growth makes of it; what phase, event and retry
follow stands in test_lifecycle.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from growth.model.outcome import Accepted, NoCapacity, Outcome, Refused, TryLater, Unknown
from growth.providers.contract import ProviderError
from growth.sim.cloud.hetzner.api import FakeAnswer, FakeApi, FakeRequest
from growth.sim.cloud.hetzner.project import FakeRefusal, FakeTrouble, Project
from tests.providers.hetzner.worlds import CLUSTER, TOKEN, Bench, at_hetzner, order

LAUNCHES: list[tuple[int, str, type[Outcome]]] = [
    (412, "resource_unavailable", NoCapacity),
    (503, "placement_error", NoCapacity),
    (403, "resource_limit_exceeded", Refused),
    (422, "invalid_input", Refused),
    (403, "forbidden", Refused),
    (401, "unauthorized", Refused),
    (403, "token_readonly", Refused),
    (404, "not_found", Refused),
    (409, "conflict", TryLater),
    (423, "locked", TryLater),
    (503, "maintenance", TryLater),
    (429, "rate_limit_exceeded", TryLater),
    (500, "server_error", Unknown),
    (503, "unavailable", Unknown),
    (504, "timeout", Unknown),
]
DELETES: list[tuple[int, str, type[Outcome]]] = [
    (403, "protected", Refused),
    (403, "forbidden", Refused),
    (401, "unauthorized", Refused),
    (404, "not_found", Accepted),
    (409, "conflict", TryLater),
    (423, "locked", TryLater),
    (429, "rate_limit_exceeded", TryLater),
    (500, "server_error", Unknown),
]


def refuse(api: FakeApi, method: str, status: int, code: str) -> None:
    """From now on calls of this method are answered with that error."""
    answered: Callable[[FakeRequest], tuple[dict[str, object], int]] = api._route

    def route(request: FakeRequest) -> tuple[dict[str, object], int]:
        if request.method == method:
            raise FakeRefusal(status, code, f"no, because of {code}")
        return answered(request)

    api._route = route  # type: ignore[method-assign]


@pytest.mark.parametrize(("status", "code", "kind"), LAUNCHES)
def test_what_hetzner_says_to_an_order(status: int, code: str, kind: type[Outcome]) -> None:
    async def test(bench: Bench) -> None:
        refuse(bench.api, "POST", status, code)
        outcome = await bench.provider.launch(order())
        assert isinstance(outcome, kind)
        assert not isinstance(outcome, Accepted)
        assert code in outcome.reason or code == "rate_limit_exceeded"

    at_hetzner(test)


@pytest.mark.parametrize(("status", "code", "kind"), DELETES)
def test_what_hetzner_says_to_a_deletion(status: int, code: str, kind: type[Outcome]) -> None:
    async def test(bench: Bench) -> None:
        server = bench.server(await bench.provider.launch(order()))
        refuse(bench.api, "DELETE", status, code)
        assert isinstance(await bench.provider.delete(str(server.id)), kind)

    at_hetzner(test)


@pytest.mark.parametrize(
    "status_code",
    [(401, "unauthorized"), (403, "forbidden"), (429, "rate_limit_exceeded"), (500, "server_error"), (409, "conflict")],
)
def test_questions_that_are_not_answered_conclude_nothing(status_code: tuple[int, str]) -> None:
    async def test(bench: Bench) -> None:
        server = bench.server(await bench.provider.launch(order()))
        refuse(bench.api, "GET", *status_code)
        for question in (
            bench.provider.list(CLUSTER),
            bench.provider.describe(str(server.id)),
            bench.new_provider().offerings(),
        ):
            with pytest.raises(ProviderError):
                await question

    at_hetzner(test)


@pytest.mark.parametrize("code", ["resource_limit_exceeded", "forbidden", "unauthorized"])
def test_what_holds_for_the_whole_project_is_not_asked_again_for_every_type(code: str) -> None:
    async def test(bench: Bench) -> None:
        refuse(bench.api, "POST", 403, code)
        first = await bench.provider.launch(order())
        posts = bench.requests("POST")
        assert await bench.provider.launch(order("default-pool-2", "uid-2", offering="hetzner-cx43")) == first
        assert bench.requests("POST") == posts
        await bench.runtime.sleep(121)
        await bench.provider.launch(order("default-pool-2", "uid-2"))
        assert bench.requests("POST") == posts + 1

    at_hetzner(test)


def test_a_deletion_opens_the_way_again_after_the_projects_limit() -> None:
    async def test(bench: Bench) -> None:
        bench.project.server_limit = 1
        server = bench.server(await bench.provider.launch(order()))
        refused = await bench.provider.launch(order("default-pool-2", "uid-2"))
        assert isinstance(refused, Refused)
        assert "ask Hetzner to raise it" in refused.reason
        await bench.provider.delete(str(server.id))
        await bench.runtime.sleep(10)
        assert isinstance(await bench.provider.launch(order("default-pool-2", "uid-2")), Accepted)

    at_hetzner(test)


def test_sold_out_types_are_no_capacity_and_an_order_that_fails_later_too() -> None:
    async def test(bench: Bench) -> None:
        bench.project.stock = {("cx33", "fsn1"): 0}
        assert isinstance(await bench.provider.launch(order()), NoCapacity)
        assert isinstance(await bench.provider.launch(order(location="nbg1")), Accepted)
        bench.project.trouble = FakeTrouble(creation_fails=1.0)
        late = await bench.provider.launch(order("default-pool-2", "uid-2", location="hel1"))
        assert isinstance(late, NoCapacity)
        assert [bill.ended_at is None for bill in bench.project.meter.bills.values()] == [True, False]

    at_hetzner(test)


def test_answers_that_are_no_api_answers_are_unknown() -> None:
    async def test(bench: Bench) -> None:
        await bench.provider.launch(order())
        handle = bench.api.handle
        broken = FakeAnswer(502, {"html": "bad gateway"})
        bench.api.handle = lambda request: broken if request.method == "POST" else handle(request)  # type: ignore[method-assign]
        assert isinstance(await bench.provider.launch(order("default-pool-2", "uid-2")), Unknown)
        bench.api.handle = lambda request: FakeAnswer(200, {"servers": "none"})  # type: ignore[method-assign]
        with pytest.raises(ProviderError):
            await bench.provider.list(CLUSTER)

    at_hetzner(test)


def test_a_part_of_the_token_in_hetzners_own_words_is_struck_out() -> None:
    async def test(bench: Bench) -> None:
        bench.api.token = "another"
        with pytest.raises(ProviderError) as caught:
            await bench.provider.offerings()
        assert "unauthorized" in str(caught.value)
        assert TOKEN[:8] not in str(caught.value)

    at_hetzner(test)


def test_the_fake_has_no_answer_for_what_growth_does_not_use() -> None:
    api = FakeApi(Project(lambda: 0.0), TOKEN)
    assert api.handle(FakeRequest("GET", "/volumes", token=TOKEN)).status == 404
