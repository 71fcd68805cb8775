from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
import pytest

from growth.kube.api.client import Client
from growth.kube.api.errors import (
    AlreadyExists,
    BlockedByBudget,
    Conflict,
    EffectUnknown,
    Expired,
    InternalError,
    Invalid,
    KubeError,
    NotFound,
    NotLeader,
    TooManyRequests,
    Unreachable,
    UnreadableAnswer,
    error_from_answer,
)
from growth.kube.api.request import ClientSettings
from growth.kube.api.resources import CONFIG_MAPS, DEPLOYMENTS, NODES, PODS, Resource
from growth.kube.api.transport import NeverSent, TransportError
from growth.sim.clock import SimRuntime, run_virtual
from tests.kube.scripted import Answer, Hung, Json, ScriptedTransport, Step, json_answer, page, query_of, status_answer

Use = Callable[[Client], Awaitable[Any]]
BUDGET = {"reason": "DisruptionBudget", "message": "needs 2 healthy pods and has 2 currently"}


def talk(
    use: Use, *steps: Step, settings: ClientSettings | None = None, may_write: bool = True
) -> tuple[Any, ScriptedTransport]:
    transport = ScriptedTransport(*steps)

    async def scene() -> Any:
        return await use(Client(transport, SimRuntime("client"), settings, may_write=lambda: may_write))

    return run_virtual(scene()), transport


def failure(use: Use, *steps: Step, settings: ClientSettings | None = None) -> tuple[KubeError, ScriptedTransport]:
    transport = ScriptedTransport(*steps)

    async def scene() -> KubeError:
        with pytest.raises(KubeError) as caught:
            await use(Client(transport, SimRuntime("client"), settings))
        return caught.value

    return run_virtual(scene()), transport


def body_of(transport: ScriptedTransport) -> Json:
    content: Json = msgspec.json.decode(transport.requests[-1].body)
    return content


def test_addresses_name_group_namespace_object_and_part() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("a", "b", "status") == "/api/v1/namespaces/b/pods/a/status"
    assert DEPLOYMENTS.path(namespace="b") == "/apis/apps/v1/namespaces/b/deployments"
    assert NODES.path("x/../y") == "/api/v1/nodes/x%2F..%2Fy"
    assert Resource("../api", "v1?watch=true", "a/b", "A").path() == "/apis/..%2Fapi/v1%3Fwatch%3Dtrue/a%2Fb"
    with pytest.raises(ValueError, match="cannot be part of a path"):
        PODS.path("..", "b")


def test_an_address_needs_a_namespace_exactly_where_the_kind_has_one() -> None:
    with pytest.raises(ValueError, match="pods 'a' needs a namespace"):
        PODS.path("a")
    with pytest.raises(ValueError, match="nodes have no namespace"):
        NODES.path("a", "default")


def test_get_hands_back_the_bytes_of_the_server() -> None:
    answer, transport = talk(lambda client: client.get(PODS, "web", "shop"), Answer(200, b'{"kind"', b':"Pod"}'))
    assert answer == b'{"kind":"Pod"}'
    assert (transport.requests[0].method, transport.requests[0].path) == ("GET", "/api/v1/namespaces/shop/pods/web")


def test_a_list_is_read_in_pages_of_one_moment() -> None:
    (items, version), transport = talk(
        lambda client: client.list(PODS, labels="app=web"),
        json_answer(page("a", "b", version="7", token="next")),
        json_answer(page("c", version="7")),
    )
    assert [msgspec.json.decode(item)["metadata"]["name"] for item in items] == ["a", "b", "c"]
    assert version == "7"
    assert transport.query(0) == {"limit": "500", "labelSelector": "app=web"}
    assert transport.query(1) == {"limit": "500", "labelSelector": "app=web", "continue": "next"}


def test_a_list_that_expires_half_way_starts_again_and_at_last_is_taken_whole() -> None:
    first, gone = json_answer(page("old", token="next")), status_answer(410, "Expired")
    (items, _), transport = talk(
        lambda client: client.list(PODS), first, gone, first, gone, json_answer(page("a", "b"))
    )
    assert len(items) == 2
    assert [query_of(request).get("limit") for request in transport.requests] == ["500", "500", "500", "500", None]
    assert "continue" not in transport.query()


def test_a_list_refused_as_expired_at_once_is_an_error() -> None:
    error, _ = failure(lambda client: client.list(PODS), status_answer(410, "Expired"))
    assert isinstance(error, Expired)


def test_pages_shrink_when_objects_are_large() -> None:
    large = page("a", token="next")
    large["items"][0]["data"] = "x" * 4_100_000
    _, transport = talk(lambda client: client.list(CONFIG_MAPS), json_answer(large), json_answer(page("b")))
    assert transport.query(1)["limit"] == "250"


def test_a_list_that_is_no_list_is_malformed() -> None:
    error, _ = failure(lambda client: client.list(PODS), Answer(200, b"<html>"))
    assert isinstance(error, UnreadableAnswer)


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (status_answer(404, "NotFound", "no such pod"), NotFound, 404),
        (status_answer(409, "Conflict"), Conflict, 409),
        (status_answer(409, "AlreadyExists"), AlreadyExists, 409),
        (status_answer(422, "Invalid", causes=[{"reason": "FieldValueInvalid", "field": "spec.max"}]), Invalid, 422),
        (Answer(429, b"Too many requests, please try again later."), TooManyRequests, 429),
    ],
)
def test_a_refusal_is_typed_and_tells_that_nothing_was_done(answer: Answer, kind: type[KubeError], code: int) -> None:
    error, transport = failure(lambda client: client.create(NODES, {"metadata": {"name": "a"}}), answer)
    assert type(error) is kind
    assert getattr(error, "code") == code  # noqa: B009 - not every KubeError has one
    assert len(transport.requests) == 1


def test_the_fields_of_an_invalid_object_are_named() -> None:
    cause = {"reason": "FieldValueInvalid", "message": "must be positive", "field": "spec.max"}
    error, _ = failure(
        lambda client: client.replace(NODES, {"metadata": {"name": "a"}}),
        status_answer(422, "Invalid", "bad node", [cause]),
    )
    assert isinstance(error, Invalid)
    assert [each.field for each in error.causes] == ["spec.max"]
    assert str(error) == "Invalid (422): bad node"


@pytest.mark.parametrize(
    "lost",
    [
        TransportError("cut off"),
        status_answer(500, "InternalError"),
        status_answer(503, ""),
        Answer(200, b"{", ending="cut"),
    ],
)
def test_a_write_whose_answer_is_lost_is_unknown_and_never_repeated(lost: Step) -> None:
    error, transport = failure(lambda client: client.delete(PODS, "a", "b"), lost)
    assert isinstance(error, EffectUnknown)
    assert len(transport.requests) == 1


def test_a_write_that_never_left_is_not_unknown() -> None:
    error, transport = failure(lambda client: client.delete(NODES, "a"), NeverSent("connection refused"))
    assert isinstance(error, Unreachable)
    assert len(transport.requests) == 1


def test_a_write_that_hangs_is_unknown_after_its_time() -> None:
    async def scene() -> float:
        client = Client(Hung(), SimRuntime("client"), ClientSettings(timeout_seconds=7.0))
        with pytest.raises(EffectUnknown):
            await client.delete(NODES, "a")
        return asyncio.get_running_loop().time()

    assert run_virtual(scene()) == 7.0


def test_a_refusal_whose_words_never_end_does_not_hold_up_a_watch() -> None:
    error, transport = failure(
        lambda client: client.watch(NODES),
        Answer(500, b"{", ending="silent"),
        settings=ClientSettings(timeout_seconds=7.0),
    )
    assert isinstance(error, Unreachable)
    assert len(transport.requests) == 1


def test_a_read_is_tried_again_with_growing_waits() -> None:
    answer, transport = talk(
        lambda client: client.get(NODES, "a"),
        TransportError("cut"),
        status_answer(500, "InternalError"),
        status_answer(503, ""),
        Answer(200, b"{}"),
    )
    waits = [later - earlier for earlier, later in zip(transport.at, transport.at[1:], strict=False)]
    assert answer == b"{}"
    assert 0.125 <= waits[0] <= 0.25 <= waits[1] <= 0.5 <= waits[2] <= 1.0


def test_a_read_that_keeps_failing_says_how() -> None:
    error, transport = failure(
        lambda client: client.get(NODES, "a"), status_answer(500, "InternalError", "etcd is away")
    )
    assert isinstance(error, InternalError)
    assert error.message == "etcd is away"
    assert len(transport.requests) == 4


@pytest.mark.parametrize("use", [lambda client: client.get(NODES, "a"), lambda client: client.delete(NODES, "a")])
def test_a_server_that_is_busy_is_asked_again_when_it_says(use: Use) -> None:
    _, transport = talk(use, Answer(429, headers={"retry-after": "5"}), Answer(200, b"{}"))
    assert transport.at[1] - transport.at[0] == 5.0


def test_a_busy_server_gets_no_other_request_meanwhile() -> None:
    async def use(client: Client) -> bytes:
        first = asyncio.create_task(client.get(NODES, "a"))
        await asyncio.sleep(1)
        await client.get(NODES, "b")
        return await first

    _, transport = talk(use, Answer(429, headers={"retry-after": "4"}), Answer(200, b"{}"), Answer(200, b"{}"))
    assert [round(at - transport.at[0]) for at in transport.at] == [0, 4, 4]


def test_a_scale_is_sent_once_also_to_a_busy_server_since_its_autoscaler_decides_when_again() -> None:
    busy = Answer(429, headers={"retry-after": "1"})
    error, transport = failure(lambda client: client.set_scale(DEPLOYMENTS, "web", "team", 3), busy, Answer(200, b"{}"))
    assert isinstance(error, TooManyRequests)
    assert error.retry_after_seconds == 1
    assert len(transport.requests) == 1


def test_a_budget_that_blocks_an_eviction_is_told_apart_from_a_busy_server() -> None:
    blocked = status_answer(429, "TooManyRequests", "Cannot evict pod", [BUDGET], retry_after="10")
    error, transport = failure(lambda client: client.evict("web", "shop", uid="u1"), blocked)
    assert isinstance(error, BlockedByBudget)
    assert error.causes[0].message == "needs 2 healthy pods and has 2 currently"
    assert len(transport.requests) == 1


def test_two_budgets_over_one_pod_block_its_eviction() -> None:
    message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    error, _ = failure(lambda client: client.evict("web", "shop"), status_answer(500, "InternalError", message))
    assert isinstance(error, BlockedByBudget)


def test_no_write_begins_without_leadership_but_reads_do() -> None:
    async def use(client: Client) -> bytes:
        with pytest.raises(NotLeader):
            await client.delete(NODES, "a")
        return await client.get(NODES, "a")

    _, transport = talk(use, Answer(200, b"{}"), may_write=False)
    assert [request.method for request in transport.requests] == ["GET"]


def test_leadership_lost_while_waiting_to_try_again_stops_the_write() -> None:
    transport = ScriptedTransport(Answer(429, headers={"retry-after": "20"}), Answer(200, b"{}"))

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        client = Client(transport, SimRuntime("client"), may_write=lambda: loop.time() < 10)
        with pytest.raises(NotLeader):
            await client.delete(NODES, "a")

    run_virtual(scene())
    assert len(transport.requests) == 1


VERBS: list[tuple[Callable[[Client], Coroutine[Any, Any, Any]], str, str, str, Json | list[Json]]] = [
    (
        lambda client: client.create(PODS, {"metadata": {"namespace": "shop"}}),
        "POST",
        "/api/v1/namespaces/shop/pods",
        "application/json",
        {"metadata": {"namespace": "shop"}},
    ),
    (
        lambda client: client.set_scale(DEPLOYMENTS, "web", "shop", 3, version="9"),
        "PATCH",
        "/apis/apps/v1/namespaces/shop/deployments/web/scale",
        "application/merge-patch+json",
        {"metadata": {"resourceVersion": "9"}, "spec": {"replicas": 3}},
    ),
    (
        lambda client: client.delete(PODS, "web", "shop", uid="u1", version="9"),
        "DELETE",
        "/api/v1/namespaces/shop/pods/web",
        "application/json",
        {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u1", "resourceVersion": "9"}},
    ),
    (
        lambda client: client.bind("web", "shop", "node-1", uid="u1"),
        "POST",
        "/api/v1/namespaces/shop/pods/web/binding",
        "application/json",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
        },
    ),
]


@pytest.mark.parametrize(("use", "method", "path", "media", "body"), VERBS)
def test_verbs_speak_as_the_server_expects(
    use: Use, method: str, path: str, media: str, body: Json | list[Json]
) -> None:
    _, transport = talk(use, Answer(201, b"{}"))
    request = transport.requests[0]
    assert (request.method, request.path, request.headers["content-type"]) == (method, path, media)
    assert body_of(transport) == body


def test_rights_are_asked_for_and_are_only_a_question() -> None:
    allowed, transport = talk(
        lambda client: client.may("patch", DEPLOYMENTS, "shop", subresource="scale"),
        json_answer({"status": {"allowed": True}}),
        may_write=False,
    )
    assert allowed is True
    assert body_of(transport)["spec"]["resourceAttributes"]["subresource"] == "scale"


def test_discovery_lists_what_a_group_serves() -> None:
    document = {
        "resources": [{"name": "capacitybuffers", "kind": "CapacityBuffer", "namespaced": True, "verbs": ["get"]}]
    }
    served, _ = talk(lambda client: client.served("autoscaling.x-k8s.io", "v1beta1"), json_answer(document))
    assert [(each.name, each.namespaced) for each in served] == [("capacitybuffers", True)]


def test_discovery_lists_the_groups_with_their_preferred_version_first() -> None:
    versions = [{"version": "v1beta1"}, {"version": "v1"}]
    document = {"groups": [{"name": "apps", "versions": versions, "preferredVersion": {"version": "v1"}}]}
    groups, transport = talk(lambda client: client.groups(), json_answer(document))
    assert (groups, transport.requests[0].path) == ({"apps": ["v1", "v1beta1"]}, "/apis")


def test_reads_in_the_background_keep_to_their_own_pace_and_leave_the_rest_alone() -> None:
    async def use(client: Client) -> tuple[float, float]:
        runtime = client.runtime
        began_at = runtime.monotonic()
        background = client.in_background(per_second=2.0)
        for _ in range(12):
            await background.get(NODES, "a")
        slow, began_at = runtime.monotonic() - began_at, runtime.monotonic()
        for _ in range(12):
            await client.get(NODES, "a")
        return slow, runtime.monotonic() - began_at

    (slow, quick), _ = talk(use, Answer(200, b"{}"))
    assert (slow, quick) == (pytest.approx(5.0), 0.0)


def test_a_server_that_says_wait_a_day_is_asked_again_after_a_minute() -> None:
    told = error_from_answer(429, {"retry-after": "86400"}, b"")
    assert told.retry_after_seconds == 60
    assert error_from_answer(429, {}, b'{"details": {"retryAfterSeconds": 1e300}}').retry_after_seconds == 60
    assert error_from_answer(429, {"retry-after": "9" * 5000}, b"").retry_after_seconds == 60
    assert error_from_answer(429, {"retry-after": "30"}, b"").retry_after_seconds == 30


@pytest.mark.parametrize(("status", "is_heard"), [(200, True), (404, False), (502, False), (403, False)])
def test_a_refusal_says_nothing_about_the_time_since_a_gateway_may_have_written_it(status: int, is_heard: bool) -> None:
    in_2030 = {"date": "Tue, 01 Jan 2030 00:00:00 GMT"}

    async def scene() -> float:
        client = Client(ScriptedTransport(Answer(status, b"{}", headers=in_2030)), SimRuntime("client"))
        with contextlib.suppress(KubeError):
            await client.get(NODES, "a")
        return client.runtime.now() - SimRuntime("another").now()

    assert (run_virtual(scene()) > 86_400) == is_heard
