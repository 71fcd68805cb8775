"""The API server of the embedded cluster: bytes in, bytes out, behind the same one-method transport as the real one.

Asked by growth's own client, unchanged. Requests are answered at the moment they arrive; delay, loss and wrong answers
come from a faulty transport in front (`sim/faults/network`). Requests that write are counted, and `on_request`
listeners hear of them. Patches are merge patches, or strategic ones, which know the lists of pods and nodes that merge
by key; every other list is replaced.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial
from typing import Any, Final
from wsgiref.handlers import format_date_time

import msgspec

from growth.kube.api.transport import Request, Response
from growth.kube.crds import definitions
from growth.kube.crds.buffer import buffer_definition
from growth.runtime import Runtime
from growth.sim.apiserver import subresources
from growth.sim.apiserver.admission import Admission
from growth.sim.apiserver.kinds import BY_PLURAL, KINDS, NAMESPACE, POD, Json, Kind
from growth.sim.apiserver.refusal import Refusal, bad_request, not_allowed, unknown_path
from growth.sim.apiserver.routes import Route, find_route, split
from growth.sim.apiserver.schema import Schemas
from growth.sim.apiserver.store import Store, Stored
from growth.sim.apiserver.streams import Answer, Pages, Selection, Watch, WatchQuery, refuse
from growth.sim.apiserver.verbs import Verbs

KUBERNETES_VERSION: Final = {"major": "1", "minor": "36", "gitVersion": "v1.36.3", "platform": "embedded"}
_FIRST_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_READS: Final = ("GET", "HEAD")


@cache
def _own_schemas() -> Schemas:
    return Schemas.from_crds([*definitions(), buffer_definition()])


@lru_cache(maxsize=8)
def _date(seconds: int) -> str:
    return format_date_time(seconds)


class ApiServer:
    """The store, its rules, and the transport that reaches them."""

    def __init__(
        self, runtime: Runtime, seed: str = "0", schemas: Schemas | None = None, history_length: int = 20_000
    ) -> None:
        self.store = Store(KINDS, history_length)
        schemas = schemas or _own_schemas()
        self.verbs = Verbs(self.store, Admission(self.store, schemas), runtime.now, seed)
        self.pages = Pages(self.store)
        self.watches: dict[Watch, None] = {}
        self.writes_asked = 0  # requests that could write, Leases apart
        self._runtime = runtime
        self._listeners: list[Callable[[Request, Route], None]] = []
        for name in _FIRST_NAMESPACES:
            self.verbs.create(NAMESPACE, {"metadata": {"name": name}}, "apiserver")

    def on_request(self, listener: Callable[[Request, Route], None]) -> None:
        """Called with every request that could write, before it is performed."""
        self._listeners.append(listener)

    async def send(self, request: Request) -> Response:
        """Transport.send."""
        try:
            response = self._answer(request)
        except Refusal as refusal:
            response = refuse(refusal)
        response.headers = {**response.headers, "date": _date(int(self._runtime.now()))}
        return response

    def _answer(self, request: Request) -> Response:
        parts, query = split(request.path)
        if len(parts) < 3 or parts[0] not in ("api", "apis") or (parts[0] == "apis" and len(parts) < 4):
            return _about_the_server(parts)
        if parts[1] == "authorization.k8s.io":
            return _encoded(201, {**_decoded(request.body), "status": {"allowed": True}})
        route = find_route(parts)
        if request.method in _READS:
            return self._read(route, query)
        for listener in self._listeners:
            listener(request, route)
        self.writes_asked += route.kind.name != "Lease"
        actor = query.get("fieldManager") or request.headers.get("user-agent", "unknown").partition("/")[0]
        return self._write(request, route, query, actor)

    # -------------------------------------------------------------------------------------- reading

    def _read(self, route: Route, query: Mapping[str, str]) -> Response:
        if route.name:
            return self._one(route)
        selection = _selection(route, query)
        if query.get("watch") in ("true", "1"):
            return self._watch(selection, query)
        return Answer(200, self.pages.answer(selection, int(query.get("limit", "0")), query.get("continue", "")))

    def _one(self, route: Route) -> Response:
        live = self.verbs.live(route.kind, route.name, route.namespace)
        if route.subresource == "scale" and route.kind.has_scale:
            return _encoded(200, subresources.read_scale(route.kind, live))
        if route.subresource not in ("", "status"):
            raise unknown_path()
        return _stored_answer(200, route, self.store.get(route.kind, route.name, route.namespace))

    def _watch(self, selection: Selection, query: Mapping[str, str]) -> Watch:
        wanted = WatchQuery(
            version=query.get("resourceVersion", ""),
            sends_initial_events=query.get("sendInitialEvents") == "true",
            bookmarks=query.get("allowWatchBookmarks") == "true",
            timeout_seconds=float(query.get("timeoutSeconds", "3600")),
        )
        watch = Watch(self.store, self._runtime, selection, wanted)
        self.watches = {open_one: None for open_one in self.watches if not open_one.is_over}
        self.watches[watch] = None
        return watch

    # -------------------------------------------------------------------------------------- writing

    def _write(self, request: Request, route: Route, query: Mapping[str, str], actor: str) -> Response:
        if request.method == "POST":
            return self._post(route, _decoded(request.body), actor)
        if request.method == "PUT":
            return self._put(route, _decoded(request.body), actor)
        if request.method == "PATCH":
            return self._patch(request, route, actor)
        if request.method == "DELETE":
            return self._delete(route, _decoded(request.body) if request.body else {}, query, actor)
        raise not_allowed(request.method)

    def _post(self, route: Route, item: Json, actor: str) -> Response:
        if route.kind is POD and route.subresource == "binding":
            subresources.bind(self.verbs, route.name, route.namespace, item, actor)
            return _success(201)
        if route.kind is POD and route.subresource == "eviction":
            subresources.evict(self.verbs, route.name, route.namespace, item, actor)
            return _success(201)
        if route.name:
            raise not_allowed("POST")
        metadata = item.setdefault("metadata", {})
        if route.kind.resource.namespaced and metadata.setdefault("namespace", route.namespace) != route.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        return _stored_answer(201, route, self.verbs.create(route.kind, item, actor))

    def _put(self, route: Route, item: Json, actor: str) -> Response:
        if route.subresource == "scale":
            return self._scaled(route, item, actor)
        metadata = item.setdefault("metadata", {})
        if metadata.get("name", route.name) != route.name:
            raise bad_request("the name of the object does not match the name on the URL")
        metadata |= {"name": route.name, **({"namespace": route.namespace} if route.namespace else {})}
        return _stored_answer(200, route, self.verbs.update(route.kind, item, actor, _writable(route)))

    def _patch(self, request: Request, route: Route, actor: str) -> Response:
        media = request.headers.get("content-type", "").partition(";")[0]
        patch = msgspec.json.decode(request.body)
        if route.subresource == "scale":
            scale = subresources.read_scale(route.kind, self.verbs.live(route.kind, route.name, route.namespace))
            return self._scaled(route, _patched(media, patch, scale), actor)
        change = partial(_patched, media, patch)
        stored = self.verbs.modify(route.kind, route.name, route.namespace, change, actor, _writable(route))
        return _stored_answer(200, route, stored)

    def _scaled(self, route: Route, scale: Json, actor: str) -> Response:
        if not route.kind.has_scale:
            raise unknown_path()
        stored = subresources.write_scale(self.verbs, route.kind, route.name, route.namespace, scale, actor)
        return _encoded(200, subresources.read_scale(route.kind, stored.decoded()))

    def _delete(self, route: Route, options: Json, query: Mapping[str, str], actor: str) -> Response:
        if route.subresource:
            raise not_allowed("DELETE")
        if route.name:
            return _encoded(200, self.verbs.delete(route.kind, route.name, route.namespace, actor, options))
        selection = _selection(route, query)
        for stored in selection.of(self.store):
            self.verbs.delete(route.kind, stored.name, stored.namespace, actor, options)
        return _success(200)


def _selection(route: Route, query: Mapping[str, str]) -> Selection:
    return Selection(route.kind, route.namespace, query.get("labelSelector", ""), query.get("fieldSelector", ""))


def _about_the_server(parts: tuple[str, ...]) -> Answer:
    if parts == ("version",):
        return _encoded(200, KUBERNETES_VERSION)
    if parts and parts[0] in ("healthz", "livez", "readyz"):
        return Answer(200, b"ok", {"content-type": "text/plain"})
    if parts == ("apis",):
        names = dict.fromkeys(name for name, _ in BY_PLURAL if name)
        return _encoded(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in names]})
    if len(parts) == 2 and parts[0] == "apis":
        return _encoded(200, {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1])})
    version = "/".join(parts[1:])
    of_version = [kind for kind in KINDS if kind.api_version == version]
    served = [kind for kind in of_version if parts[0] == ("apis" if kind.resource.group else "api")]
    if not served:
        raise unknown_path()
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    resources = [
        {"name": kind.resource.plural, "kind": kind.name, "namespaced": kind.resource.namespaced, "verbs": verbs}
        for kind in served
    ]
    resources += [
        {**one, "name": f"{one['name']}/scale"} for one, kind in zip(resources, served, strict=True) if kind.has_scale
    ]
    listed = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}
    return _encoded(200, listed)


def _group(group: str) -> Json:
    versions = sorted({kind.resource.version for (name, _), kind in BY_PLURAL.items() if name == group}, reverse=True)
    if not versions:
        raise unknown_path()
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _writable(route: Route) -> str:
    """The subresource an update goes to; one that the kind does not have is not found."""
    if route.subresource and not (route.subresource == "status" and route.kind.has_status):
        raise unknown_path()
    return route.subresource


def _patched(media: str, patch: Any, item: Json) -> Json:
    if media == "application/merge-patch+json":
        return dict(merge_patch(item, patch))
    if media == "application/strategic-merge-patch+json":
        return dict(strategic_merge_patch(item, patch))
    raise Refusal(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {media}")


def _decoded(body: bytes) -> Json:
    try:
        return msgspec.json.decode(body, type=Json)
    except msgspec.DecodeError as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from None


def _encoded(status: int, content: Json) -> Answer:
    return Answer(status, msgspec.json.encode(content))


def _success(status: int) -> Answer:
    return _encoded(status, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": status})


def _stored_answer(status: int, route: Route, stored: Stored | None) -> Answer:
    if stored is None:
        raise unknown_path()
    if route.api_version == route.kind.api_version:
        return Answer(status, stored.data)
    return _encoded(status, {**stored.decoded(), "apiVersion": route.api_version})


def kind_of(item: Json) -> Kind:
    """The row of the table for an object that says what it is."""
    group, _, _version = item["apiVersion"].rpartition("/")
    return next(kind for kind in KINDS if kind.name == item["kind"] and kind.resource.group == group)


MERGE_KEYS: Final[dict[tuple[str, ...], str]] = {  # lists of objects that merge, by the path's last names
    ("status", "conditions"): "type",
    ("status", "addresses"): "type",
    ("metadata", "ownerReferences"): "uid",
    ("spec", "containers"): "name",
    ("spec", "initContainers"): "name",
    ("spec", "volumes"): "name",
    ("status", "containerStatuses"): "name",
}
MERGE_SETS: Final = {("metadata", "finalizers")}  # lists of plain values that merge


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def strategic_merge_patch(target: Any, patch: Any, path: tuple[str, ...] = ()) -> Any:
    """As merge patch, but lists with a merge key merge element by element and `$patch: delete` removes one."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        here = (*path, name)
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, list):
            merged[name] = _merged_list(merged.get(name) or [], value, here)
        else:
            merged[name] = strategic_merge_patch(merged.get(name), value, here)
    for name, value in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            field = name.partition("/")[2]
            merged[field] = [kept for kept in merged.get(field) or [] if kept not in value]
    return merged


def _merged_list(old: list[Any], new: list[Any], path: tuple[str, ...]) -> list[Any]:
    if path[-2:] in MERGE_SETS:
        return [*old, *(value for value in new if value not in old)]
    key = MERGE_KEYS.get(path[-2:])
    if key is None or any(part.get("$patch") == "replace" for part in new if isinstance(part, dict)):
        return [copy.deepcopy(part) for part in new if not (isinstance(part, dict) and part.get("$patch") == "replace")]
    merged = {part[key]: part for part in old}
    for part in new:
        if part.get("$patch") == "delete":
            merged.pop(part[key], None)
        else:
            merged[part[key]] = strategic_merge_patch(merged.get(part[key], {}), part, path)
    return list(merged.values())
