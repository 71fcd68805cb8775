"""The fake Hetzner API: a request in, an answer out. The part that growth uses, as the real one's description says it.

Asked in-process (`embedded.py`), or over HTTP by tests. Every request counts against the limit, 3,600 at once and one a
second after, and every answer says how much is left. Answers can be lost, and the API can fail: see `FakeTrouble`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final
from wsgiref.handlers import format_date_time

from msgspec import Struct

from growth.sim.apiserver.selectors import SelectorError, label_test
from growth.sim.cloud.hetzner import assortment, bodies
from growth.sim.cloud.hetzner.assortment import Json
from growth.sim.cloud.hetzner.inventory import FakeServer
from growth.sim.cloud.hetzner.project import FakeRefusal, Project, offering_name
from growth.sim.cloud.shop import as_listed, code_of
from growth.sim.faults.kinds import LateEffect, LaunchError, ListError, ListGarbage

LIMIT: Final = 3600
LARGEST_PAGE: Final = 50

Query = Mapping[str, Sequence[str]]


class FakeRequest(Struct, frozen=True):
    method: str
    path: str  # without the prefix /v1
    query: dict[str, list[str]] = {}
    token: str = ""
    body: bytes = b""


class FakeAnswer(Struct, frozen=True):
    status: int
    body: Json
    headers: dict[str, str] = {}


class Lost(Exception):  # noqa: N818  (says what happened)
    """No answer is sent."""


class LoggedCall(Struct, frozen=True):
    """One line of the API's own log."""

    at: float
    method: str
    path: str
    status: int


class FakeApi:
    """Answers for one project. `look_on` sees every exchange, for those who compare it with the API's description."""

    def __init__(self, project: Project, token: str, limit: int = LIMIT) -> None:
        self.project = project
        self.token = token
        self.limit = limit
        self.log: list[LoggedCall] = []
        self.look_on: Callable[[FakeRequest, FakeAnswer], None] = lambda _request, _answer: None
        self.hear: Callable[[FakeRequest], None] = lambda _request: None  # also of those that are lost
        self._earlier: tuple[FakeServer, ...] = ()
        self._left = float(limit)
        self._filled_at = project.now()

    def handle(self, request: FakeRequest) -> FakeAnswer:
        """Raises Lost where the answer does not arrive, before or after it had its effect."""
        project = self.project
        project.advance()
        self.hear(request)
        try:
            body, status = self._answered(request)
        except FakeRefusal as refusal:
            error = {"code": refusal.code, "message": refusal.message, "details": refusal.details}
            body, status = {"error": error}, refusal.status
        answer = FakeAnswer(status, body, self._headers())
        self.log.append(LoggedCall(project.now(), request.method, request.path, status))
        self.look_on(request, answer)
        if status < 300 and project.happens(project.trouble.lost_after_effect):
            raise Lost
        return answer

    def _answered(self, request: FakeRequest) -> tuple[Json, int]:
        trouble, project = self.project.trouble, self.project
        if not self._take() or project.happens(trouble.rate_limited) or project.now() < trouble.refused_until:
            raise FakeRefusal(429, "rate_limit_exceeded", "limit of 3600 requests per hour reached")
        if request.token != self.token:
            raise FakeRefusal(401, "unauthorized", f"unable to authenticate: token {request.token[:12]}... is invalid")
        if project.happens(trouble.lost_before_effect):
            raise Lost
        if project.happens(trouble.server_error):
            raise FakeRefusal(500, "server_error", "internal server error")
        if request.method != "GET" and project.happens(trouble.locked):
            if request.method == "POST":
                raise FakeRefusal(409, "conflict", "resource changed during the request")
            raise FakeRefusal(423, "locked", "server is locked")
        return self._route(request)

    def _route(self, request: FakeRequest) -> tuple[Json, int]:
        match (request.method, *request.path.strip("/").split("/")):
            case ("GET", "servers"):
                return self._servers(request)
            case ("POST", "servers"):
                return self._create_server(request)
            case ("GET" | "DELETE", "servers", number):
                return self._one_server(request.method, number)
            case ("POST", "servers", number, "actions", what):
                return self._act_on_server(self._server(number), what, request.body)
            case ("GET", "actions"):
                return self._actions(request)
            case ("POST", "placement_groups"):
                return self._create_group(request)
            case ("GET", "pricing"):
                return {"pricing": assortment.pricing_json()}, 200
            case ("GET", name) if name in _LISTS:
                return _page(name, _LISTS[name](self.project), request.query)
        raise FakeRefusal(404, "not_found", f"{request.method} {request.path} is not part of this fake")

    # -------------------------------------------------------------------------------------- servers

    def _servers(self, request: FakeRequest) -> tuple[Json, int]:
        project = self.project
        if project.faults.hit(ListError):
            raise FakeRefusal(503, "unavailable", "the list is not available")
        if project.faults.hit(ListGarbage):
            return {"servers": "<html>"}, 200
        servers, earlier = list(project.servers.values()), self._earlier
        self._earlier = tuple(servers)
        if "name" not in request.query:
            if project.happens(project.trouble.empty_lists):
                servers = []
            elif project.happens(project.trouble.stale_lists):
                servers = [server for server in servers if project.now() - server.created_at > 20]
        shown = {each.id: each for each in as_listed(project.faults, servers, earlier)}
        brief = [
            {"id": each.id, "name": each.name, "labels": each.labels, "status": each.status, "created": each.created_at}
            for each in shown.values()
        ]
        return _page("servers", brief, request.query, lambda item: bodies.server_json(shown[item["id"]], project))

    def _create_server(self, request: FakeRequest) -> tuple[Json, int]:
        server, faults = bodies.ordered_server(_decoded(request.body), self.project), self.project.faults
        if (late := faults.hit(LateEffect)) is not None:
            self.project.create_later(server, late.seconds)
            raise Lost
        error = faults.hit(LaunchError, offering=offering_name(server.kind.name), location=server.location)
        if error is not None and not error.effect:
            raise _answer(error)
        making, *starting = self.project.create(server)
        if error is not None:
            raise _answer(error)
        return {
            "server": bodies.server_json(server, self.project),
            "action": bodies.action_json(making),
            "next_actions": [bodies.action_json(each) for each in starting],
            "root_password": None if server.image.type == "snapshot" else "YItygq1v3GYjjMomLaKc",
        }, 201

    def _one_server(self, method: str, text: str) -> tuple[Json, int]:
        server = self._server(text)
        if method == "DELETE":
            return {"action": bodies.action_json(self.project.delete(server))}, 200
        return {"server": bodies.server_json(server, self.project)}, 200

    def _server(self, text: str) -> FakeServer:
        server = self.project.servers.get(int(text)) if text.isdecimal() else None
        if server is None:
            raise FakeRefusal(404, "not_found", f"server with ID '{text}' not found")
        return server

    def _act_on_server(self, server: FakeServer, what: str, body: bytes) -> tuple[Json, int]:
        if what == "poweron":
            bodies.check_reachable(server)
            return {"action": bodies.action_json(self.project.power_on(server))}, 201
        if what == "attach_to_network":
            wanted = _decoded(body)
            action = self.project.attach(server, int(wanted["network"]), str(wanted.get("ip_range", "")))
            return {"action": bodies.action_json(action)}, 201
        raise FakeRefusal(404, "not_found", f"{what} is not part of this fake")

    def _actions(self, request: FakeRequest) -> tuple[Json, int]:
        if not request.query.get("id"):
            raise FakeRefusal(422, "invalid_input", "id is required")
        known, wanted = self.project.actions, [int(each) for each in request.query["id"]]
        return {"actions": [bodies.action_json(known[each]) for each in wanted if each in known]}, 200

    def _create_group(self, request: FakeRequest) -> tuple[Json, int]:
        body = _decoded(request.body)
        group = self.project.create_group(str(body["name"]), dict(body.get("labels") or {}))
        return {"placement_group": bodies.group_json(group, self.project), "action": None}, 201

    # --------------------------------------------------------------------------------------- limits

    def _take(self) -> bool:
        now = self.project.now()
        self._left = min(float(self.limit), self._left + (now - self._filled_at))
        self._filled_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def _headers(self) -> dict[str, str]:
        now, storm = self.project.now(), self.project.trouble.refused_until
        full_at = max(now + (self.limit - self._left), storm)
        left = 0 if now < storm else int(self._left)
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(left),
            "RateLimit-Reset": str(int(min(full_at, storm) if now < storm else full_at) + 1),
            "Date": format_date_time(now),
            "X-Correlation-Id": f"{len(self.log):016x}",
        }


def _answer(fault: LaunchError) -> Exception:
    """What the caller hears, if anything."""
    code = code_of(fault)
    status = fault.status if isinstance(fault.status, int) else 423
    return FakeRefusal(status, code, "the project is locked" if code == "locked" else "as told") if code else Lost()


def _networks(project: Project) -> Iterable[Json]:
    for network in project.networks.values():
        attached = (server.id for server in project.servers.values() if network.id in server.addresses)
        yield bodies.network_json(network, attached)


_LISTS: Final[Mapping[str, Callable[[Project], Iterable[Json]]]] = {
    "server_types": lambda project: (
        assortment.server_type_json(each, project.in_stock(each)) for each in assortment.SERVER_TYPES
    ),
    "locations": lambda _project: map(assortment.location_json, assortment.LOCATIONS),
    "images": lambda project: map(assortment.image_json, project.images),
    "networks": _networks,
    "firewalls": lambda project: (bodies.firewall_json(*each) for each in project.firewalls.items()),
    "ssh_keys": lambda project: (bodies.ssh_key_json(*each) for each in project.ssh_keys.items()),
    "placement_groups": lambda project: (bodies.group_json(each, project) for each in project.groups.values()),
}


def _decoded(body: bytes) -> Json:
    try:
        decoded = json.loads(body or b"null")
    except ValueError:
        raise FakeRefusal(400, "json_error", "invalid JSON") from None
    if not isinstance(decoded, dict):
        raise FakeRefusal(400, "json_error", "an object was expected")
    return decoded


def _page(
    name: str, items: Iterable[Json], query: Query, shown: Callable[[Json], Json] = lambda item: item
) -> tuple[Json, int]:
    """The items that the query asks for, in pages; only what is on the page is shown in full."""
    wanted = _chosen(items, query)
    field, _, direction = _first(query, "sort", "id:asc").partition(":")
    wanted.sort(key=lambda item: (item.get(field) or "", item["id"]), reverse=direction == "desc")
    size = min(LARGEST_PAGE, int(_first(query, "per_page", "25")))
    page = int(_first(query, "page", "1"))
    last = max(1, -(-len(wanted) // size))
    pagination = {
        "page": page,
        "per_page": size,
        "previous_page": page - 1 if page > 1 else None,
        "next_page": page + 1 if page < last else None,
        "last_page": last,
        "total_entries": len(wanted),
    }
    return {
        name: [shown(item) for item in wanted[(page - 1) * size : page * size]],
        "meta": {"pagination": pagination},
    }, 200


def _chosen(items: Iterable[Json], query: Query) -> list[Json]:
    try:
        matches = label_test(_first(query, "label_selector", ""))
    except SelectorError:
        raise FakeRefusal(422, "invalid_input", "invalid label selector") from None
    fields = [field for field in ("name", "status", "type", "architecture") if field in query]
    return [
        item
        for item in items
        if all(str(item.get(field)) in query[field] for field in fields) and matches(item.get("labels") or {})
    ]


def _first(query: Query, name: str, otherwise: str) -> str:
    return query[name][0] if query.get(name) else otherwise
