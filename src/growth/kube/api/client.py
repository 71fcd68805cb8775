"""The verbs of the Kubernetes API, over any transport.

Asked by reflectors, the lease, the event recorder and `controllers/act/apply`. Answers are the bytes the server sent,
for the codec to read; failures are the typed errors of `kube/api/errors.py`. Never caches, never decides."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Raw, Struct

from growth.kube.api.errors import Expired, UnreadableAnswer
from growth.kube.api.pace import Lane
from growth.kube.api.request import ClientSettings, Exchange
from growth.kube.api.resources import ACCESS_REVIEWS, PODS, Resource
from growth.kube.api.transport import Request, Response, Transport
from growth.runtime import Runtime

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

_LARGE_PAGE_BYTES = 4_000_000  # one decode holds the event loop: ask for fewer objects when a page grows beyond this
_SMALLEST_PAGE = 20

Object = Mapping[str, Any]
Answer = TypeVar("Answer")


class Page(Struct, frozen=True):
    """Part of a listing. `first` means: forget the pages before, the listing starts (again) here."""

    items: list[Raw]
    version: str
    first: bool
    last: bool


class ServedResource(Struct, frozen=True):
    """One line of a group's discovery document."""

    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ()


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


class _Group(Struct):
    versions: list[_GroupVersion]
    preferredVersion: _GroupVersion  # noqa: N815 - the name on the wire


class _Version(Struct):
    gitVersion: str  # noqa: N815 - the name on the wire


class _ReviewStatus(Struct):
    allowed: bool = False


class _Review(Struct):
    status: _ReviewStatus


def _always() -> bool:
    return True


class Client:
    """One client shares one pace; `may_write` is asked right before each write leaves (the fence of the leader's
    lease).
    """

    def __init__(
        self,
        transport: Transport,
        runtime: Runtime,
        settings: ClientSettings | None = None,
        may_write: Callable[[], bool] = _always,
    ) -> None:
        self.settings = settings or ClientSettings()
        self._exchange = Exchange(transport, runtime, self.settings, may_write)

    # -------------------------------------------------------------------------------------- reading

    async def get(
        self, resource: Resource, name: str, namespace: str = "", subresource: str = "", lane: Lane = Lane.NORMAL
    ) -> bytes:
        return await self._read(resource.path(name, namespace, subresource), lane)

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
        self, resource: Resource, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[Page]:
        """A consistent listing page by page. When it expires half way it starts again: first in pages, then as one
        whole answer.
        """
        limit, token, expired = self.settings.page_size, "", 0
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
            listing = _decoded(_decode_list, body)
            first, token = not token, listing.metadata.token
            yield Page(listing.items or [], listing.metadata.version, first, last=not token)
            if not token:
                return
            if len(body) > _LARGE_PAGE_BYTES:
                limit = max(_SMALLEST_PAGE, limit // 2)

    async def watch(self, resource: Resource, namespace: str = "", **query: str | int) -> Response:
        """An open stream of events; the caller reads and closes it."""
        return await self._exchange.stream(
            self._request("GET", _with_query(resource.path(namespace=namespace), {"watch": "true"} | query))
        )

    async def server_version(self) -> str:
        return _decoded(_decode_version, await self._read("/version")).gitVersion

    async def served(self, group: str, version: str) -> Sequence[ServedResource]:
        """The resources of one group and version; raises NotFound where the server does not have it."""
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        return _decoded(_decode_resources, await self._read(path)).resources or []

    async def versions(self, group: str) -> Sequence[str]:
        """The versions of a named group, the preferred one first; raises NotFound where the server does not have it."""
        found = _decoded(_decode_group, await self._read(f"/apis/{group}"))
        preferred = found.preferredVersion.version
        return [preferred, *(each.version for each in found.versions if each.version != preferred)]

    async def may(
        self, verb: str, resource: Resource, namespace: str = "", name: str = "", subresource: str = ""
    ) -> bool:
        """Whether these credentials are allowed this (a SelfSubjectAccessReview)."""
        attributes = {"verb": verb, "group": resource.group, "version": resource.version, "resource": resource.plural}
        attributes |= {"subresource": subresource, "namespace": namespace, "name": name}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        request = self._request("POST", ACCESS_REVIEWS.path(), review)
        return _decoded(_decode_review, await self._exchange.answer(request, writes=False)).status.allowed

    # -------------------------------------------------------------------------------------- writing

    async def create(self, resource: Resource, item: Object, lane: Lane = Lane.NORMAL) -> bytes:
        path = resource.path(namespace=item.get("metadata", {}).get("namespace", ""))
        return await self._write("POST", path, item, lane=lane)

    async def replace(self, resource: Resource, item: Object, subresource: str = "") -> bytes:
        """Put the object in place of the stored one; with a resourceVersion in it only if that is still the stored
        one's.
        """
        return await self._write("PUT", _path_of(resource, item, subresource), item)

    async def merge_patch(
        self,
        resource: Resource,
        name: str,
        patch: Object,
        namespace: str = "",
        subresource: str = "",
        lane: Lane = Lane.NORMAL,
    ) -> bytes:
        return await self._write("PATCH", resource.path(name, namespace, subresource), patch, MERGE_PATCH, lane)

    async def strategic_patch(
        self, resource: Resource, name: str, patch: Object, namespace: str = "", subresource: str = ""
    ) -> bytes:
        """Lists of built-in kinds merge by their key: one condition is written and the others stay."""
        return await self._write("PATCH", resource.path(name, namespace, subresource), patch, STRATEGIC_PATCH)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", version: str = ""
    ) -> bytes:
        """Delete one object; with a uid or a resourceVersion only if it is still that one (Conflict otherwise)."""
        return await self._write(
            "DELETE", resource.path(name, namespace), _delete_options(uid, version), lane=Lane.URGENT
        )

    # --------------------------------------------------------------------------------- subresources

    async def scale(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        return await self.get(resource, name, namespace, "scale")

    async def set_scale(self, resource: Resource, name: str, namespace: str, replicas: int, version: str = "") -> bytes:
        """Set the replica count; with a resourceVersion only if the object is still at it."""
        metadata = {"metadata": {"resourceVersion": version}} if version else {}
        return await self.merge_patch(resource, name, {**metadata, "spec": {"replicas": replicas}}, namespace, "scale")

    async def evict(self, name: str, namespace: str, *, uid: str = "") -> None:
        """Ask for a pod to leave. BlockedByBudget: a disruption budget says not now. NotFound: it is gone already."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(uid, ""),
        }
        await self._write("POST", PODS.path(name, namespace, "eviction"), eviction, lane=Lane.URGENT)

    async def bind(self, name: str, namespace: str, node: str, *, uid: str = "") -> None:
        """Put a pod on a node. Conflict: it is bound already, or is another pod of the same name."""
        metadata = {"name": name, "namespace": namespace, **({"uid": uid} if uid else {})}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        await self._write("POST", PODS.path(name, namespace, "binding"), binding)

    # ---------------------------------------------------------------------------------------- steps

    async def _read(self, path: str, lane: Lane = Lane.NORMAL) -> bytes:
        return await self._exchange.answer(self._request("GET", path), writes=False, lane=lane)

    async def _write(
        self, method: str, path: str, content: Object | Sequence[Object], media: str = JSON, lane: Lane = Lane.NORMAL
    ) -> bytes:
        return await self._exchange.answer(self._request(method, path, content, media), writes=True, lane=lane)

    def _request(
        self, method: str, path: str, content: Object | Sequence[Object] | None = None, media: str = JSON
    ) -> Request:
        headers = {"accept": JSON, "user-agent": "growth"}
        if content is None:
            return Request(method, path, headers, timeout_seconds=self.settings.timeout_seconds)
        return Request(
            method,
            path,
            {**headers, "content-type": media},
            msgspec.json.encode(content),
            self.settings.timeout_seconds,
        )


_decode_list = msgspec.json.Decoder(_List).decode
_decode_version = msgspec.json.Decoder(_Version).decode
_decode_group = msgspec.json.Decoder(_Group).decode
_decode_resources = msgspec.json.Decoder(_ResourceList).decode
_decode_review = msgspec.json.Decoder(_Review).decode


def _decoded(decode: Callable[[bytes], Answer], body: bytes) -> Answer:
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableAnswer(f"the server's answer cannot be read: {error}") from error


def _path_of(resource: Resource, item: Object, subresource: str) -> str:
    metadata = item["metadata"]
    return resource.path(metadata["name"], metadata.get("namespace", ""), subresource)


def _with_query(path: str, query: Mapping[str, Any]) -> str:
    given = {key: value for key, value in query.items() if value not in ("", 0)}
    return f"{path}?{urlencode(given)}" if given else path


def _delete_options(uid: str, version: str) -> dict[str, Any]:
    given = {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}
    return {"apiVersion": "v1", "kind": "DeleteOptions", **({"preconditions": given} if given else {})}
