"""What does a growth see that serves one share of a cluster? The embedded API server and cloud, cut to that share. A
trial of decision 7: what is done here to bytes, growth's observer would do to nouns.

| of | it sees |
| --- | --- |
| NodePools, NodeRequests, NodeRemovalRequests, CapacityBuffers, PoolAutoscalers | its own |
| pods that have a node, or are finished | all |
| pods that wait | its own |
| Nodes | all; those of other shares without the marks by which growth knows its nodes |
| machines | its own; those of other shares as if they were of another cluster |
| a single NodePool, read live before a machine is bought or deleted | another share's as one that is paused |
| all else | all |

When a pool changes its share, what was another's comes into view, and what was its own goes, as if made and deleted.
A narrow view has no nodes of other shares, and no pods on them: `bench.sharing` asks what that would bring.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import process_time
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from growth.kube.api.transport import Request, Response
from growth.model.labels import Labels
from growth.model.node import POOL_LABEL, REQUEST_LABEL
from growth.model.nodepool import PAUSED
from growth.model.offering import CLUSTER_LABEL, Offering
from growth.plan.world.machines import pool_in_name
from growth.providers.simulated import CloudApi, NodeTemplate, Server
from growth.runtime import Runtime
from growth.sim.apiserver.kinds import NODE, POD, Json
from growth.sim.apiserver.routes import Route
from growth.sim.apiserver.server import ApiServer
from growth.sim.apiserver.store import Change, Store, Stored, event_line
from growth.sim.apiserver.streams import Answer, Selection, Watch, WatchQuery
from tests.sim.shares import POOL, Shares, share_in

OURS, ANOTHERS = "growth.dev/", "another-share.growth.dev/"
ANOTHER: Final = "another-share"
CUT: Final = ("NodePool", "NodeRequest", "NodeRemovalRequest", "CapacityBuffer", "PoolAutoscaler", "Pod", "Node")
WAITING: Final = "waiting Pod"  # among changes
FINISHED: Final = ("Succeeded", "Failed")


class Told(Struct):
    """What a share was told of: changes by kind, with pods that wait apart, and the CPU seconds that reading, writing
    and telling took.
    """

    changes: Counter[str] = field(default_factory=Counter)
    cpu_seconds: float = 0.0

    @contextmanager
    def counting(self) -> Iterator[None]:
        began = process_time()
        yield
        self.cpu_seconds += process_time() - began


class Sight(Struct, frozen=True):
    """Who looks."""

    shares: Shares
    share: str
    is_narrow: bool = False

    def is_anothers(self, pool: str) -> bool:
        return bool(pool) and self.shares.of_pool(pool) != self.share


class ShareSelection(Selection, frozen=True):
    """The objects of one kind that one share sees."""

    sight: Sight | None = None

    def of(self, store: Store) -> list[Stored]:
        return [shown for shown in map(self.shown, super().of(store)) if shown is not None]

    def shown(self, stored: Stored) -> Stored | None:
        """As the share sees it. None: it does not."""
        test, sight, item = self.test(), self.sight, stored.decoded()
        if sight is None or (test is not None and not test(item)):
            return None
        if self.kind is POD:
            return stored if _sees_pod(sight, stored, item) else None
        if self.kind is NODE:
            is_own = not sight.is_anothers((item["metadata"].get("labels") or {}).get(POOL_LABEL, ""))
            return stored if is_own else None if sight.is_narrow else as_a_strangers(stored)
        return stored if _share_of(item, sight.shares) == sight.share else None


def _sees_pod(sight: Sight, stored: Stored, pod: Json) -> bool:
    node = pod["spec"].get("nodeName", "")
    if node or pod["status"].get("phase") in FINISHED:
        return not (sight.is_narrow and sight.is_anothers(pool_in_name(node)))
    return sight.shares.of_waiting(stored) == sight.share


def _share_of(item: Json, shares: Shares) -> str:
    if item["kind"] == "NodePool":
        return shares.of_pool(item["metadata"]["name"])
    if item["kind"] in ("NodeRequest", "NodeRemovalRequest"):
        return shares.of_pool(item["spec"]["pool"])
    return shares.of_buffer(item) if item["kind"] == "CapacityBuffer" else shares.of_labelled(item)


def as_a_strangers(stored: Stored) -> Stored:
    """The node without what growth writes on nodes, but for the pool's name. Its taints stay, under names that growth
    does not know: who does not tolerate them finds no room there, and nobody takes them off.
    """
    node = stored.decoded()
    metadata, taints = node["metadata"], node["spec"].get("taints") or ()
    metadata["labels"].pop(REQUEST_LABEL, None)
    metadata["annotations"] = {
        key: value for key, value in (metadata.get("annotations") or {}).items() if not key.startswith(OURS)
    }
    for taint in taints:
        taint["key"] = taint["key"].replace(OURS, ANOTHERS) if taint["key"].startswith(OURS) else taint["key"]
    return replace(stored, data=msgspec.json.encode(node))


class ShareWatch(Watch):
    """A stream of what the share sees. It remembers what it has shown: an object can come into view, or go, without
    having changed.
    """

    selection: ShareSelection

    def __init__(
        self, store: Store, runtime: Runtime, selection: ShareSelection, query: WatchQuery, sight: Sight, told: Told
    ) -> None:
        super().__init__(store, runtime, selection, query)
        self._shares, self._told = sight.shares, told
        self._as_of = self._shares.version
        self._shown = {each.key: each.data for each in selection.of(store)}
        self._pools = store.shelf(POOL)
        self._pools.listeners[self._news.set] = None

    def _changes(self) -> Iterator[bytes]:
        with self._told.counting():
            lines = [line for line in super()._changes() if line]
            if self._as_of != self._shares.as_of_now():
                self._as_of = self._shares.version
                lines += self._moved()
        self._told.changes += Counter(map(self._name_of, lines))
        yield from lines

    def _name_of(self, line: bytes) -> str:
        return WAITING if self.selection.kind is POD and b'"nodeName"' not in line else self.selection.kind.name

    def _moved(self) -> Iterator[bytes]:
        """What came into view, went, or looks otherwise, because a pool has changed."""
        stored = {each.key: each for each in self._store.all(self.selection.kind, self.selection.namespace)}
        shown = {each.key: each.data for each in self.selection.of(self._store)}
        for key in sorted(set(self._shown) - set(shown)):
            yield event_line("DELETED", stored[key].data if key in stored else self._shown[key])
        for key in sorted(shown):
            if key not in self._shown:
                yield event_line("ADDED", shown[key])
            elif shown[key] != self._shown[key]:
                yield event_line("MODIFIED", shown[key])
        self._shown = shown
        yield self._bookmark({})

    def _line_of(self, change: Change) -> bytes:
        key, was_shown = change.after.key, change.after.key in self._shown
        shown = None if change.type == "DELETED" else self.selection.shown(change.after)
        if shown is None:
            self._shown.pop(key, None)
            return event_line("DELETED", change.after.data) if was_shown else b""
        self._shown[key] = shown.data
        return event_line("MODIFIED" if was_shown else "ADDED", shown.data)

    async def close(self) -> None:
        self._pools.listeners.pop(self._news.set, None)
        await super().close()


class ShareApi(ApiServer):
    """The same API server, as one share sees it."""

    def __init__(self, whole: ApiServer, sight: Sight) -> None:
        vars(self).update(vars(whole))  # store, verbs and listeners are the same
        self.watches, self.writes_asked = {}, 0
        self.told = Told()
        self._sight = sight

    async def send(self, request: Request) -> Response:
        with self.told.counting():
            return await super().send(request)  # which waits for nothing

    def _one(self, route: Route) -> Response:
        """growth looks at a pool live before it buys or deletes a machine of it: the gate is shut to other shares."""
        pool = self.store.read(POOL, route.name) if route.kind is POOL else None
        if pool is None or share_in(pool) == self._sight.share:
            return super()._one(route)
        pool["metadata"].setdefault("annotations", {})[PAUSED] = "true"
        return Answer(200, msgspec.json.encode(pool))

    def _read(self, route: Route, query: Mapping[str, str]) -> Response:
        if route.name or route.kind.name not in CUT or route.api_version != route.kind.api_version:
            return super()._read(route, query)
        chosen = (query.get("labelSelector", ""), query.get("fieldSelector", ""))
        selection = ShareSelection(route.kind, route.namespace, *chosen, self._sight)
        if query.get("watch") in ("true", "1"):
            return self._watch(selection, query)
        return Answer(200, self.pages.answer(selection, int(query.get("limit", "0")), query.get("continue", "")))

    def _watch(self, selection: Selection, query: Mapping[str, str]) -> Watch:
        if not isinstance(selection, ShareSelection):
            return super()._watch(selection, query)
        wanted = WatchQuery(
            query.get("resourceVersion", ""),
            query.get("sendInitialEvents") == "true",
            query.get("allowWatchBookmarks") == "true",
            float(query.get("timeoutSeconds", "3600")),
        )
        return ShareWatch(self.store, self._runtime, selection, wanted, self._sight, self.told)


class ShareCloud:
    """The same cloud. A machine of another share's pool is shown as one of another cluster: it counts against nothing,
    and nobody takes it for an orphan.
    """

    def __init__(self, whole: CloudApi, sight: Sight) -> None:
        self._whole, self._sight = whole, sight

    async def sold(self) -> tuple[Offering, ...]:
        return await self._whole.sold()

    async def create_server(
        self, name: str, offering: str, location: str, labels: Labels, template: NodeTemplate
    ) -> Server:
        return await self._whole.create_server(name, offering, location, labels, template)

    async def get_server(self, server_id: str) -> Server:
        return self._seen(await self._whole.get_server(server_id))

    async def list_servers(self, label: str, value: str) -> tuple[Server, ...]:
        found = map(self._seen, await self._whole.list_servers(label, value))
        return tuple(server for server in found if server.labels.get(label) == value)

    async def find_servers(self, name: str) -> tuple[Server, ...]:
        return tuple(map(self._seen, await self._whole.find_servers(name)))

    async def delete_server(self, server_id: str) -> None:
        await self._whole.delete_server(server_id)

    def _seen(self, server: Server) -> Server:
        if not self._sight.is_anothers(pool_in_name(server.name)):
            return server
        return replace(server, labels=Labels({**server.labels, CLUSTER_LABEL: ANOTHER}))
