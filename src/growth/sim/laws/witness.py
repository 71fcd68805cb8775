"""What happened so far that a law needs to know? Watches every write and every call, judges nothing.

Asked by all laws. Everything here is the world's own truth: objects as stored, servers as they are, calls as they
arrived."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from growth.kube.api.transport import Request
from growth.kube.codec import Codec
from growth.model.node import POOL_LABEL, Node
from growth.model.nodepool import PAUSED
from growth.model.offering import CLUSTER_LABEL, REQUEST_UID_LABEL
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.providers.simulated import Server
from growth.sim.apiserver.kinds import BY_NAME, NAMESPACE, NODE, POD, Json
from growth.sim.apiserver.routes import Route, split
from growth.sim.apiserver.store import Key, Write
from growth.sim.cluster import Cluster

Complaint = str | None

GROWTH: Final = "growth"
REQUEST, REMOVAL, POOL = (BY_NAME[name] for name in ("NodeRequest", "NodeRemovalRequest", "NodePool"))


class Emptied(Struct, frozen=True):
    """A node that a pod was evicted from: its pool, what its removal says, and when that last happened."""

    pool: str
    reason: str
    at: float


class Call(Struct, frozen=True):
    """Something that a growth sent off, or that took effect: whether it leads, another does, and it stood still."""

    text: str
    leads: bool
    another_leads: bool
    stood_still: bool


class Witness:
    """The memory of one simulation."""

    def __init__(self, cluster: Cluster, installation: str = "growth", settings: Settings | None = None) -> None:
        self.cluster = cluster
        self.settings = settings or Settings()
        namespace = cluster.store.read(NAMESPACE, "kube-system")
        self.cluster_id = f"{namespace['metadata']['uid']}-{installation}" if namespace else ""
        self.pods: dict[Key, Pod] = {}
        self.bound: dict[str, dict[Key, Pod]] = {}  # by node
        self.bound_at: dict[str, float] = {}  # by pod UID
        self.waited_at: dict[Key, float] = {}  # when the pod was last seen without a node
        self.evicted: dict[str, None] = {}  # UIDs of pods whose eviction growth asked for
        self.owners_evicted: dict[str, dict[str, float]] = {}  # by node: owners of those pods, and when that began
        self.emptied: dict[str, Emptied] = {}  # nodes that growth evicted a pod from
        self.sizes: dict[str, list[tuple[float, int]]] = {}  # of pools in nodes, each time that changed
        self.requests: dict[str, Json] = {}  # NodeRequests by name, also those that are gone
        self.pools: dict[str, Json] = {}
        self.paused_since: dict[str, float] = {}
        self.served_since: dict[str, float] = {}  # NodeRequests, by name: when growth wrote that they are Ready
        self.served: dict[str, dict[str, None]] = {}  # node → owners of pods that were bound to it
        self.owner_of: dict[Key, str] = {}  # pods, also those that are gone → UID of their controller
        self.meddled_at: dict[str, float] = {}  # nodes: when a user last changed them
        self.erased: dict[str, None] = {}  # NodeRequests that a user deleted: what growth could know after a restart
        self.abandoned: dict[str, None] = {}  # machines that served and whose node a user deleted by hand
        self.is_catalogue_wrong = False  # machines are smaller than it says: what was planned onto one may not fit
        self.is_clock_off = False  # growth's own clock has been stepped
        self.live_reads: dict[str, float] = {}  # what growth read live, and when
        self._codec = Codec()
        cluster.store.on_write(self._see)
        cluster.api.on_request(self._hear)
        cluster.shop.on_change.append(self._see_server)

    @property
    def now(self) -> float:
        return self.cluster.runtime.monotonic()

    # --------------------------------------------------------------------------------- what it sees

    def _see(self, write: Write) -> None:
        if write.kind is POD:
            self._see_pod(write)
        elif write.kind is REQUEST:
            self.requests[write.key[1]] = write.item
            self.erased |= {write.key[1]: None} if write.actor == "user" else {}
            if (write.item.get("status") or {}).get("phase") == "Ready":
                self.served_since.setdefault(write.key[1], self.now)
        elif write.kind is POOL:
            self._see_pool(write)
        elif write.kind is NODE:
            self._see_node(write)

    def _see_server(self, what: str, server: Server) -> None:
        self.is_catalogue_wrong |= what == "create" and not self.cluster.shop.is_as_sold(server)

    def _see_node(self, write: Write) -> None:
        if write.type == "DELETED" and write.actor == "user":
            request = self.cluster.store.read(REQUEST, write.key[1])
            if request is None or (request.get("status") or {}).get("phase") == "Ready":  # else its request says more
                self.abandoned[write.key[1]] = None
        elif write.actor == "user":
            self.meddled_at[write.key[1]] = self.now
        pool = (write.item["metadata"].get("labels") or {}).get(POOL_LABEL)
        if pool is not None and write.type != "MODIFIED":
            sizes = self.sizes.setdefault(pool, [(self.now, 0)])
            sizes.append((self.now, sizes[-1][1] + (1 if write.type == "ADDED" else -1)))

    def _see_pool(self, write: Write) -> None:
        self.pools[write.key[1]] = write.item
        if (write.item["metadata"].get("annotations") or {}).get(PAUSED) == "true" and write.type != "DELETED":
            self.paused_since.setdefault(write.key[1], self.now)
        else:
            self.paused_since.pop(write.key[1], None)

    def _see_pod(self, write: Write) -> None:
        before = self.pods.pop(write.key, None)
        if before is not None:
            self.bound.get(before.node_name, {}).pop(write.key, None)
        stored = self.cluster.store.get(POD, write.key[1], write.key[0])
        ends = write.type == "DELETED" or "deletionTimestamp" in write.item["metadata"]
        if write.actor == GROWTH and before is not None and before.deleted_at is None and ends:
            removal = self.cluster.store.read(REMOVAL, before.node_name)
            spec = {} if removal is None else removal["spec"]
            self.emptied[before.node_name] = Emptied(spec.get("pool", ""), spec.get("reason", ""), self.now)
        if write.type == "DELETED" or stored is None:
            if before is not None and not before.node_name:
                self.waited_at[write.key] = self.now
            return
        pod = self._codec.decode_pod(stored.data)
        self.pods[write.key] = pod
        self.owner_of[write.key] = pod.owner.uid if pod.owner else pod.uid
        if pod.node_name:
            self.bound.setdefault(pod.node_name, {})[write.key] = pod
            self.bound_at.setdefault(pod.uid, self.now)
            self.served.setdefault(pod.node_name, {})[self.owner_of[write.key]] = None
        if before is None or (before.node_name == "" and pod.node_name):
            self.waited_at[write.key] = self.now

    def _hear(self, request: Request, route: Route) -> None:
        if route.subresource == "eviction" and request.headers.get("user-agent", "").startswith(GROWTH):
            pod = self.pods.get((route.namespace, route.name))
            if pod is not None:
                self.evicted[pod.uid] = None
                owners = self.owners_evicted.setdefault(pod.node_name, {})
                owners.setdefault(self.owner_of[route.namespace, route.name], self.now)

    def hear_read(self, request: Request) -> None:
        """A read by growth that the API server answered."""
        parts, query = split(request.path)
        self.live_reads["/".join(parts) + (f"?{query['fieldSelector']}" if "fieldSelector" in query else "")] = self.now

    # -------------------------------------------------------------------------------- what it knows

    def waited_within(self, key: Key, seconds: float) -> bool:
        """Was there such a pod without a node lately?"""
        pod = self.pods.get(key)
        return (pod is not None and not pod.node_name) or self.now - self.waited_at.get(key, -1e9) <= seconds

    def our_servers(self) -> list[Server]:
        """Servers that carry our cluster id and are not going."""
        servers = self.cluster.shop.servers.values()
        ours = [server for server in servers if server.labels.get(CLUSTER_LABEL) == self.cluster_id]
        return [server for server in ours if server.status != "deleting"]

    def is_foreign(self, server: Server) -> bool:
        """Neither marked as ours nor for a pool."""
        return server.labels.get(CLUSTER_LABEL) != self.cluster_id and POOL_LABEL not in server.template.labels

    def servers_of(self, pool: str) -> list[Server]:
        return [server for server in self.our_servers() if server.template.labels.get(POOL_LABEL) == pool]

    def most_nodes(self, pool: str, seconds: float) -> int:
        """How many nodes the pool had at most within so long."""
        sizes = self.sizes.get(pool, [])
        recent = [size for at, size in sizes if at > self.now - seconds]
        return max([*recent, *(size for _, size in sizes[: len(sizes) - len(recent)][-1:])], default=0)

    def request_uid(self, server: Server) -> str:
        return server.labels.get(REQUEST_UID_LABEL, "")

    def node(self, name: str) -> Node | None:
        stored = self.cluster.store.get(NODE, name)
        return None if stored is None else self._codec.decode_node(stored.data)

    def removal_of(self, server: Server) -> Json | None:
        """The removal that records this machine, by id or, where the id was not known yet, by name."""
        removal = self.cluster.store.read(REMOVAL, server.name)
        is_of_server = removal is not None and removal["spec"].get("machineID", "") in ("", server.server_id)
        return removal if is_of_server else None
