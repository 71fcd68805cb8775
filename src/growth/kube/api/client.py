"""The verbs of the Kubernetes API, over any transport.

Used by reflectors, the election, the event recorder and `controllers/act/apply`. Answers are the bytes the server sent,
for the codec to read; failures are the typed errors of `kube/api/errors.py`. Never caches, never decides."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Raw, Struct

from growth.kube.api.errors import Expired, UnreadableAnswer
from growth.kube.api.pace import Lane, Throttle
from growth.kube.api.request import ClientSettings, Sender
from growth.kube.api.resources import (
    ACCESS_REVIEWS,
    PODS,
    RULES_REVIEWS,
    TOKEN_REVIEWS,
    USER_REVIEWS,
    Resource,
    path_of,
)
from growth.kube.api.server_time import ServerTime
from growth.kube.api.transport import Request, Response, Transport
from growth.runtime import Runtime

JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"

_LARGE_PAGE_BYTES = 4_000_000  # one decode holds the event loop: ask for fewer objects when a page grows beyond this
_SMALLEST_PAGE = 20

Object = Mapping[str, Any]
Answer = TypeVar("Answer")


class Page(Struct, frozen=True):
    """Part of a listing. `first` means: forget the pages before, the listing starts (again) here."""

    items: list[Raw]
    version: str
    first: bool


class ServedResource(Struct, frozen=True):
    """One line of a group's discovery document."""

    name: str
    kind: str
    namespaced: bool


class _ListMetadata(Struct, rename={"version": "resourceVersion", "token": "continue"}):
    version: str = ""
    token: str = ""


class _List(Struct):
    metadata: _ListMetadata
    items: list[Raw] | None = None


class _ResourceList(Struct):
    resources: list[ServedResource] | None = None


class _GroupVersion(Struct):
    version: str


class _Group(Struct, rename="camel"):
    name: str
    versions: list[_GroupVersion]
    preferred_version: _GroupVersion


class _Groups(Struct):
    groups: list[_Group] | None = None


class _Version(Struct, rename="camel"):
    git_version: str


class _ReviewStatus(Struct):
    allowed: bool = False


class _Review(Struct):
    status: _ReviewStatus


class Rule(Struct, frozen=True, rename="camel"):
    """What these credentials may do, as the server words it: every verb on every resource of every group in it; `*` is
    all of them.
    """

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()

    def covers(self, verb: str, group: str, resource: str, name: str = "") -> bool:
        """Whether it allows this on the object of that name, or on any; `resource` is a plural, or a plural and its
        subresource.
        """
        is_of_resource = resource in self.resources or "*" in self.resources
        is_of_group = group in self.api_groups or "*" in self.api_groups
        is_named = not self.resource_names or name in self.resource_names
        return is_of_resource and is_of_group and is_named and (verb in self.verbs or "*" in self.verbs)


class _RulesStatus(Struct, rename="camel"):
    resource_rules: tuple[Rule, ...] | None = None


class _RulesReview(Struct):
    status: _RulesStatus


class User(Struct, frozen=True):
    """Somebody else, as the API server knows them by their token."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class _TokenStatus(Struct):
    authenticated: bool = False
    user: User | None = None


class _TokenReview(Struct):
    status: _TokenStatus


class Client:
    """All requests of one client share one pace. Before each write, and again when it leaves, it asks `may_write`, the
    fence of the lease; `write_seconds` is how long a write may take at most.
    """

    def __init__(
        self,
        transport: Transport,
        runtime: Runtime,
        settings: ClientSettings | None = None,
        may_write: Callable[[], bool] = lambda: True,
        write_seconds: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self.settings = settings or ClientSettings()
        self.may_write = may_write
        self.runtime = ServerTime(runtime)
        self._sender = Sender(transport, self.runtime, self.settings, may_write, write_seconds)
        self._lane = Lane.NORMAL
        self._own_pace: Throttle | None = None

    def in_background(self, per_second: float) -> Client:
        """The same client for what can wait: its reads go behind all others, and no faster than that."""
        other = copy(self)
        other._lane, other._own_pace = Lane.BACKGROUND, Throttle(self.runtime, per_second, max(1, round(per_second)))
        return other

    # -------------------------------------------------------------------------------------- reading

    async def get(self, resource: Resource, name: str, namespace: str = "", subresource: str = "") -> bytes:
        return await self._read(resource.path(name, namespace, subresource))

    async def list(
        self, resource: Resource, namespace: str = "", labels: str = "", fields: str = ""
    ) -> tuple[list[Raw], str]:
        """Every object of a kind as of one moment, and the resourceVersion of that moment."""
        items: list[Raw] = []
        version = ""
        async for page in self.pages(resource, namespace, labels, fields):
            if page.first:
                items.clear()
            items += page.items
            version = page.version
        return items, version

    async def pages(
        self, resource: Resource, namespace: str = "", labels: str = "", fields: str = "", size: int = 0
    ) -> AsyncIterator[Page]:
        """A consistent listing, page by page. When it expires it starts again: first in pages, then as one answer."""
        limit, token, expired = size or self.settings.page_size, "", 0
        while True:
            query = {"limit": limit, "continue": token, "labelSelector": labels, "fieldSelector": fields}
            try:
                body = await self._read(_with_query(resource.path(namespace=namespace), query))
            except Expired:
                if not token:
                    raise
                expired += 1
                limit, token = (limit if expired == 1 else 0), ""
                continue
            listing = _decoded(body, _List)
            first, token = not token, listing.metadata.token
            yield Page(listing.items or [], listing.metadata.version, first)
            if not token:
                return
            if len(body) > _LARGE_PAGE_BYTES:
                limit = max(_SMALLEST_PAGE, limit // 2)

    async def watch(self, resource: Resource, namespace: str = "", **query: str | int) -> Response:
        """An open stream of events; the caller reads and closes it."""
        path = _with_query(resource.path(namespace=namespace), {"watch": "true"} | query)
        await self._keep_own_pace()
        return await self._sender.stream(self._request("GET", path), self._lane)

    async def server_version(self) -> str:
        return _decoded(await self._read("/version"), _Version).git_version

    async def served(self, group: str, version: str) -> Sequence[ServedResource]:
        """The resources of one group and version; raises NotFound where the server does not have it."""
        path = path_of("apis", group, version) if group else path_of("api", version)
        return _decoded(await self._read(path), _ResourceList).resources or []

    async def groups(self) -> Mapping[str, Sequence[str]]:
        """The named groups that are served, each with its versions, the preferred one first."""
        found = _decoded(await self._read("/apis"), _Groups).groups or []
        return {
            each.name: list(dict.fromkeys([each.preferred_version.version, *(one.version for one in each.versions)]))
            for each in found
        }

    async def may(
        self, verb: str, resource: Resource, namespace: str = "", subresource: str = "", name: str = ""
    ) -> bool:
        """Whether these credentials are allowed this (a SelfSubjectAccessReview)."""
        attributes = {"verb": verb, "group": resource.group, "version": resource.version, "resource": resource.plural}
        attributes |= {"subresource": subresource, "namespace": namespace, **({"name": name} if name else {})}
        review = _of_kind("authorization.k8s.io/v1", "SelfSubjectAccessReview", spec={"resourceAttributes": attributes})
        body = await self._sender.answer(self._request("POST", ACCESS_REVIEWS.path(), review), writes=False)
        return _decoded(body, _Review).status.allowed

    async def rules(self, namespace: str) -> tuple[Rule, ...]:
        """What these credentials may do in a namespace, and everywhere, in one answer. It may lack what the server's
        authorizers cannot list: only `may` tells for certain that something is denied.
        """
        review = _of_kind("authorization.k8s.io/v1", "SelfSubjectRulesReview", spec={"namespace": namespace})
        body = await self._sender.answer(self._request("POST", RULES_REVIEWS.path(), review), writes=False)
        return _decoded(body, _RulesReview).status.resource_rules or ()

    async def user_of(self, token: str) -> User | None:
        """Whose token this is (a TokenReview); None: nobody's."""
        review = _of_kind("authentication.k8s.io/v1", "TokenReview", spec={"token": token})
        body = await self._sender.answer(self._request("POST", TOKEN_REVIEWS.path(), review), writes=False)
        status = _decoded(body, _TokenReview).status
        return status.user if status.authenticated else None

    async def may_user_get(self, user: User, path: str) -> bool:
        """Whether somebody else may `get` a non-resource URL (a SubjectAccessReview)."""
        named = {"user": user.username, "uid": user.uid, "groups": user.groups or (), "extra": user.extra or {}}
        spec = {**named, "nonResourceAttributes": {"path": path, "verb": "get"}}
        review = _of_kind("authorization.k8s.io/v1", "SubjectAccessReview", spec=spec)
        body = await self._sender.answer(self._request("POST", USER_REVIEWS.path(), review), writes=False)
        return _decoded(body, _Review).status.allowed

    # -------------------------------------------------------------------------------------- writing

    async def create(self, resource: Resource, item: Object, lane: Lane = Lane.NORMAL) -> bytes:
        path = resource.path(namespace=item.get("metadata", {}).get("namespace", ""))
        return await self._write("POST", path, item, lane=lane)

    async def replace(self, resource: Resource, item: Object) -> bytes:
        """Replace the stored object; if the new one has a resourceVersion, only if it is still the stored one."""
        metadata = item["metadata"]
        return await self._write("PUT", resource.path(metadata["name"], metadata.get("namespace", "")), item)

    async def merge_patch(
        self,
        resource: Resource,
        name: str,
        patch: Object,
        namespace: str = "",
        subresource: str = "",
        lane: Lane = Lane.NORMAL,
    ) -> bytes:
        return await self._write("PATCH", resource.path(name, namespace, subresource), patch, _MERGE_PATCH, lane)

    async def strategic_patch(
        self, resource: Resource, name: str, patch: Object, namespace: str = "", subresource: str = ""
    ) -> bytes:
        """Lists of built-in kinds merge by their key: one condition is written and the others stay."""
        return await self._write("PATCH", resource.path(name, namespace, subresource), patch, _STRATEGIC_PATCH)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", version: str = ""
    ) -> bytes:
        """Delete one object; with a uid or a resourceVersion only if it is still that one (Conflict otherwise)."""
        options = _delete_options(uid, version)
        return await self._write("DELETE", resource.path(name, namespace), options, lane=Lane.URGENT)

    # --------------------------------------------------------------------------------- subresources

    async def scale(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        return await self.get(resource, name, namespace, "scale")

    async def set_scale(self, resource: Resource, name: str, namespace: str, replicas: int, version: str = "") -> bytes:
        """Set the replica count; with a resourceVersion only if the object is still at it. It is sent once, also when
        the server is busy: how often a target is written is decided with its autoscaler.
        """
        metadata = {"metadata": {"resourceVersion": version}} if version else {}
        patch, path = {**metadata, "spec": {"replicas": replicas}}, resource.path(name, namespace, "scale")
        request = self._request("PATCH", path, patch, _MERGE_PATCH)
        return await self._sender.answer(request, writes=True, lane=Lane.NORMAL, is_sent_once=True)

    async def evict(self, name: str, namespace: str, *, uid: str = "") -> None:
        """Ask for a pod to leave. BlockedByBudget: a disruption budget says not now. NotFound: it is gone already."""
        metadata, options = {"name": name, "namespace": namespace}, _delete_options(uid, "")
        eviction = _of_kind("policy/v1", "Eviction", metadata=metadata, deleteOptions=options)
        await self._write("POST", PODS.path(name, namespace, "eviction"), eviction, lane=Lane.URGENT)

    async def bind(self, name: str, namespace: str, node: str, *, uid: str = "") -> None:
        """Put a pod on a node. Conflict: it is bound already, or is another pod of the same name."""
        metadata = {"name": name, "namespace": namespace, **({"uid": uid} if uid else {})}
        binding = _of_kind("v1", "Binding", metadata=metadata, target=_of_kind("v1", "Node", name=node))
        await self._write("POST", PODS.path(name, namespace, "binding"), binding)

    # ---------------------------------------------------------------------------------------- steps

    async def _read(self, path: str) -> bytes:
        await self._keep_own_pace()
        return await self._sender.answer(self._request("GET", path), writes=False, lane=self._lane)

    async def _keep_own_pace(self) -> None:
        if self._own_pace is not None:
            await self._own_pace.take()

    async def _write(
        self, method: str, path: str, content: Object, media: str = JSON, lane: Lane = Lane.NORMAL
    ) -> bytes:
        return await self._sender.answer(self._request(method, path, content, media), writes=True, lane=lane)

    def _request(self, method: str, path: str, content: Object | None = None, media: str = JSON) -> Request:
        headers, body = {"accept": JSON, "user-agent": "growth"}, b""
        if content is not None:
            headers, body = {**headers, "content-type": media}, msgspec.json.encode(content)
        return Request(method, path, headers, body, self.settings.timeout_seconds)


def _decoded(body: bytes, kind: type[Answer]) -> Answer:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableAnswer(f"the server's answer cannot be read: {error}") from error


def _with_query(path: str, query: Mapping[str, Any]) -> str:
    given = {key: value for key, value in query.items() if value not in ("", 0)}
    return f"{path}?{urlencode(given)}" if given else path


def _of_kind(api_version: str, kind: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, **content}


def _delete_options(uid: str, version: str) -> dict[str, Any]:
    given = {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}
    return _of_kind("v1", "DeleteOptions", **({"preconditions": given} if given else {}))
