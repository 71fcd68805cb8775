"""What happened so far that a law needs to know? Watches every write and every call, judges nothing.

Asked by all laws. Everything here is the world's own truth: objects as stored, servers as they are, calls as they
arrived."""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

from growth.kube.api.transport import Request
from growth.kube.codec import Codec
from growth.model.instant import parse_instant
from growth.model.node import POOL_LABEL, SCALE_DOWN_TAINT, TEMPLATE, Node
from growth.model.nodepool import PAUSED
from growth.model.offering import CLUSTER_LABEL
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.providers.simulated import Server
from growth.sim.agents.kubelet import ready_status
from growth.sim.apiserver.kinds import BY_NAME, CLAIMED, NAMESPACE, NODE, POD, Json
from growth.sim.apiserver.routes import Route, split
from growth.sim.apiserver.store import Key, Write
from growth.sim.clock import START_OF_TIME, after
from growth.sim.cluster import Cluster
from growth.sim.laws.memory import Brakes, Call, Drain, Emptied, Lately, Patience, Said, Scaled, must_stay
from growth.solver.rules.taints import tolerates

Complaint = str | None

IN_VAIN_SECONDS: Final = 300.0  # a machine that is Ready for so long, and took none of its pods, is in vain
SETTLED_SECONDS: Final = 30.0
REMARKED_SECONDS: Final = 30.0  # by then growth has put a mark back that a user took off

GROWTH: Final = "growth"
REQUEST, REMOVAL, POOL = (BY_NAME[name] for name in ("NodeRequest", "NodeRemovalRequest", "NodePool"))
EVENT, BUFFER = BY_NAME["Event"], BY_NAME["CapacityBuffer"]


class Witness:
    """The memory of one simulation."""

    def __init__(self, cluster: Cluster, installation: str = "growth", settings: Settings | None = None) -> None:
        self.cluster, self.sold = cluster, cluster.world.catalogue.offerings()
        self.settings = settings or Settings()
        namespace = cluster.store.read(NAMESPACE, "kube-system")
        self.cluster_id = f"{namespace['metadata']['uid']}-{installation}" if namespace else ""
        self.pods: dict[Key, Pod] = {}
        self.bound: dict[str, dict[Key, Pod]] = {}  # by node
        self.bound_at: dict[str, float] = {}  # by pod UID
        self.bound_by_growth: dict[str, None] = {}  # pod UIDs
        self.waited_at: dict[Key, float] = {}  # when the pod was last seen without a node
        self.evicted: dict[str, None] = {}  # UIDs of pods whose eviction growth asked for
        self.granted: dict[str, None] = {}  # UIDs of pods that ended by it
        self.drains: dict[str, Drain] = {}  # by node
        self.emptied: dict[str, Emptied] = {}  # nodes that growth evicted a pod from
        self.bought_at: dict[str, float] = {}  # machines, by name
        self.in_vain_at: dict[str, float] = {}  # machines, by name: when it was plain that they help nobody
        self.readiness: dict[str, bool] = {}  # of nodes that have been Ready
        self.once_ready: dict[str, None] = {}  # nodes that have been, also those that are gone
        self._brakes = Brakes(self._is_closed)
        self.braked_since = self._brakes.since  # pools; "" is the cluster
        self.protected_since: dict[str, float] = {}  # nodes that must not be disturbed
        self.sent_at: dict[str, float] = {}  # calls that left growth, by their text: the latest of each
        self.remembers: tuple[float, object] = (0.0, None)  # since when the growth that leads does, and which one it is
        self.heard_at: dict[str, float] = {}  # kinds, by their plural: when growth last heard of them
        self.sizes: dict[str, list[tuple[float, int]]] = {}  # of pools in nodes, each time that changed
        self.requests: dict[str, Json] = {}  # NodeRequests by name, also those that are gone
        self.pools: dict[str, Json] = {}
        self.paused_since: dict[str, float] = {}
        self.served_since: dict[str, float] = {}  # NodeRequests, by name: when growth wrote that they are Ready
        self.served: dict[str, dict[str, None]] = {}  # node → owners of pods that were bound to it
        self.owner_of: dict[Key, str] = {}  # pods, also those that are gone → UID of their controller
        self.meddled_at: dict[str, float] = {}  # nodes: when a user last changed them
        self.erased: dict[str, None] = {}  # NodeRequests that a user deleted: what growth could know after a restart
        self.abandoned: dict[str, float] = {}  # machines that served and whose node a user deleted by hand, and when
        self.is_catalogue_wrong = False  # machines are smaller than it says: what was planned onto one may not fit
        self.live_reads: dict[str, float] = {}  # what growth read live, and when
        self.scaled, self.patience, self.lately = Scaled(), Patience(), Lately()
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
        elif write.kind is EVENT:
            self._see_event(write)
        elif write.kind is BUFFER:
            self.lately.buffers_at[write.key] = self.now if write.type == "DELETED" else math.inf
        elif write.kind in (REQUEST, REMOVAL):
            path = f"apis/growth.dev/v1alpha1/{write.kind.resource.plural}/{write.key[1]}"
            self.lately.written_at.setdefault(path, []).append(self.now)
        if write.kind is REQUEST:
            self.requests[write.key[1]] = write.item
            self.erased |= {write.key[1]: None} if write.actor == "user" else {}
            if (write.item.get("status") or {}).get("phase") == "Ready":
                self.served_since.setdefault(write.key[1], self.now)
        elif write.kind is POOL:
            self._see_pool(write)
        elif write.kind is NODE:
            self._see_node(write)
        elif write.kind.has_scale:
            self._see_scale(write)

    def _see_scale(self, write: Write) -> None:
        was = None if write.before is None else write.before.decoded()["spec"].get("replicas")
        replicas = write.item["spec"].get("replicas")
        if write.actor == GROWTH and was is not None and replicas < was:
            self.scaled.down_at[write.key] = self.now
        elif replicas != was and write.actor != "deployment-controller":  # which hands its Deployment's count on
            self.scaled.down_at.pop(write.key, None)

    def _see_event(self, write: Write) -> None:
        about, reason = write.item.get("regarding") or {}, str(write.item.get("reason"))
        if write.actor == GROWTH and about.get("kind") == "Pod" and write.type != "DELETED":
            said = Said(about["namespace"], about["name"], str(about.get("uid")), reason, str(write.item.get("note")))
            self.patience.told[said.uid] = said
            self.patience.unproven += [(self.now, said)] if reason == "Unplaced" else []

    def _see_server(self, what: str, server: Server) -> None:
        if what == "delete" and not self.is_foreign(server):
            self.lately.given_back[server.name] = (self.now, server)
        self.is_catalogue_wrong |= what == "create" and not self.cluster.shop.is_as_sold(server)
        if what == "create" and not self.is_foreign(server):
            self.bought_at[server.name] = self.now
            seconds = self.settings.readiness_wait_seconds
            after(seconds + SETTLED_SECONDS, lambda: self._judge_readiness(server.name))

    def _judge_readiness(self, name: str) -> None:
        if name not in self.once_ready:
            self.in_vain_at.setdefault(name, self.now)

    def _judge_use(self, name: str) -> None:
        """A machine that is Ready for long: did any of its planned pods come, and if none did, does one still wait?"""
        request = self.requests.get(name)
        planned = planned_pods(request) if request is not None else []
        still_wait = [key for key in planned if (pod := self.pods.get(key)) is not None and not pod.node_name]
        owners = {self.owner_of.get(key, "") for key in planned}
        if still_wait and not owners & {*self.served.get(name, {})}:
            self.in_vain_at.setdefault(name, self.now)

    def _see_node(self, write: Write) -> None:
        if write.type == "DELETED":
            self.lately.nodes_gone_at[write.key[1]] = self.now
        if write.type == "DELETED" and write.actor == "user":
            request = self.cluster.store.read(REQUEST, write.key[1])
            if request is None or (request.get("status") or {}).get("phase") == "Ready":  # else its request says more
                self.abandoned[write.key[1]] = self.now
        elif write.actor == "user":
            self.meddled_at[write.key[1]] = self.now
        elif write.type == "ADDED":  # its kubelet registered it again
            self.abandoned.pop(write.key[1], None)
        self._see_readiness(write)
        if must_stay(write.item["metadata"].get("annotations")) and write.type != "DELETED":
            self.protected_since.setdefault(write.key[1], self.now)
        else:
            self.protected_since.pop(write.key[1], None)
        pool = (write.item["metadata"].get("labels") or {}).get(POOL_LABEL)
        if pool is not None and write.type != "MODIFIED":
            sizes = self.sizes.setdefault(pool, [(self.now, 0)])
            sizes.append((self.now, sizes[-1][1] + (1 if write.type == "ADDED" else -1)))

    def _see_readiness(self, write: Write) -> None:
        name, is_ready = write.key[1], ready_status(write.item) == "True"
        was_known, was_ready = name in self.readiness, self.readiness.get(name, False)
        if write.type == "DELETED":
            self.readiness.pop(name, None)
        elif is_ready or was_known:
            self.readiness[name] = is_ready
            self.once_ready[name] = None
            if not was_known:
                after(IN_VAIN_SECONDS + SETTLED_SECONDS, lambda: self._judge_use(name))
        if not (is_ready and was_ready) or write.type == "DELETED":
            self._see_brake()

    def _see_brake(self) -> None:
        pools = {server.name: server.template.labels.get(POOL_LABEL, "") for server in self.our_servers()}
        self._brakes.look(self.now, self.readiness, pools)

    def _see_pool(self, write: Write) -> None:
        name, metadata = write.key[1], write.item["metadata"]
        self.pools[name] = write.item
        if write.actor == "user":
            self.lately.touched_at.setdefault(name, []).append((self.now, "deletionTimestamp" in metadata))
        if (metadata.get("annotations") or {}).get(PAUSED) == "true" and write.type != "DELETED":
            self.paused_since.setdefault(name, self.now)
        else:
            self.paused_since.pop(name, None)

    def _see_pod(self, write: Write) -> None:
        before = self.pods.pop(write.key, None)
        if before is not None:
            self.bound.get(before.node_name, {}).pop(write.key, None)
        stored = self.cluster.store.get(POD, write.key[1], write.key[0])
        ends = write.type == "DELETED" or "deletionTimestamp" in write.item["metadata"]
        if write.actor == GROWTH and before is not None and before.deleted_at is None and ends:
            removal = self.cluster.store.read(REMOVAL, before.node_name)
            spec = {} if removal is None else removal["spec"]
            if removal is None or not self._came_later(before, removal):
                self.emptied[before.node_name] = Emptied(spec.get("pool", ""), spec.get("reason", ""), self.now)
            self.granted[before.uid] = None
            self._count_eviction(before, "" if removal is None else removal["metadata"]["uid"])
        if write.type == "DELETED" or stored is None:
            if before is not None and not before.node_name:
                self.waited_at[write.key] = self.now
            return
        pod = self._codec.decode_pod(stored.data)
        self.pods[write.key] = pod
        if CLAIMED in pod.shape.labels:
            self.scaled.claimed_at.setdefault(pod.uid, self.now)
        else:
            self.scaled.claimed_at.pop(pod.uid, None)
        self.owner_of[write.key] = pod.owner.uid if pod.owner else pod.uid
        if pod.node_name:
            self.bound.setdefault(pod.node_name, {})[write.key] = pod
            if pod.uid not in self.bound_at:
                self._see_guest(pod)
                self.bound_by_growth |= {pod.uid: None} if write.actor == GROWTH else {}
            self.bound_at.setdefault(pod.uid, self.now)
            self.served.setdefault(pod.node_name, {})[self.owner_of[write.key]] = None
        if before is None or (before.node_name == "" and pod.node_name):
            self.waited_at[write.key] = self.now

    def _came_later(self, pod: Pod, removal: Json) -> bool:
        """By tolerating the mark, onto a node that was handed over: it disrupted itself."""
        began_at = parse_instant(removal["metadata"]["creationTimestamp"]) - START_OF_TIME
        return self.tolerates_mark(pod) and self.bound_at[pod.uid] > began_at

    def _see_guest(self, pod: Pod) -> None:
        """Who comes just after a user changed a node, such as its mark, counts as if it had been there."""
        drain, meddled_at = self.drains.get(pod.node_name), self.meddled_at.get(pod.node_name, -1e9)
        if drain is not None and self.now - meddled_at <= REMARKED_SECONDS:
            owner = self.owner_of[pod.namespace, pod.name]
            drain.pods[owner] = drain.pods.get(owner, 0) + 1

    def _count_eviction(self, pod: Pod, removal: str) -> None:
        drain, owner = self.drains.get(pod.node_name), self.owner_of[pod.namespace, pod.name]
        if drain is None or drain.removal != removal or not removal:  # a single move is no drain
            there = [key for key, each in self.bound.get(pod.node_name, {}).items() if each.counts_as_work]
            counted = Counter(self.owner_of[key] for key in [*there, (pod.namespace, pod.name)])
            drain = self.drains[pod.node_name] = Drain(removal, self.now, dict(counted), {})
        drain.evicted[owner] = drain.evicted.get(owner, 0) + 1

    def hear_sent(self, call: Call) -> None:
        """growth sent this off."""
        self.sent_at[call.text], who = self.now, (call.life, call.memory)
        if call.leads and who != self.remembers[1]:
            self.remembers = self.now, who

    def hear_kind(self, plural: str) -> None:
        """growth got a list, or news, of a kind."""
        self.heard_at[plural] = self.now

    def _hear(self, request: Request, route: Route) -> None:
        if route.subresource == "eviction" and request.headers.get("user-agent", "").startswith(GROWTH):
            pod = self.pods.get((route.namespace, route.name))
            if pod is not None:
                self.evicted[pod.uid] = None

    def hear_read(self, request: Request) -> None:
        """A read by growth that the API server answered."""
        parts, query = split(request.path)
        self.live_reads["/".join(parts) + (f"?{query['fieldSelector']}" if "fieldSelector" in query else "")] = self.now

    # -------------------------------------------------------------------------------- what it knows

    def has_returned(self, pod: Pod) -> bool:
        """Its owner was evicted from its node in this removal before it came, and it tolerates the mark."""
        drain = self.drains.get(pod.node_name)
        if drain is None or self.bound_at[pod.uid] <= drain.began_at or not self.tolerates_mark(pod):
            return False
        return bool(drain.evicted.get(self.owner_of[pod.namespace, pod.name]))

    def tolerates_mark(self, pod: Pod) -> bool:
        return any(tolerates(each, SCALE_DOWN_TAINT) for each in pod.shape.tolerations)

    def waited_within(self, key: Key, seconds: float) -> bool:
        """Was there such a pod without a node lately?"""
        pod = self.pods.get(key)
        return (pod is not None and not pod.node_name) or self.now - self.waited_at.get(key, -1e9) <= seconds

    def our_servers(self) -> list[Server]:
        """Servers that carry our cluster id and are not going."""
        known = [server for server in self.cluster.shop.servers.values() if server.status != "deleting"]
        return [server for server in known if server.labels.get(CLUSTER_LABEL) == self.cluster_id]

    def is_foreign(self, server: Server) -> bool:
        """Neither marked as ours nor for a pool."""
        return server.labels.get(CLUSTER_LABEL) != self.cluster_id and POOL_LABEL not in server.template.labels

    def _is_closed(self, name: str) -> bool:
        """Was it never opened to pods? Who registers a node closes it, and writes the digest of its template. Where a
        user erased the record, the start-up taint tells.
        """
        request, node = self.cluster.store.read(REQUEST, name), self.node(name)
        if node is None or (request is not None and (request.get("status") or {}).get("phase") == "Ready"):
            return False
        return node.is_starting or (request is not None and TEMPLATE not in node.annotations)

    def servers_of(self, pool: str) -> list[Server]:
        return [server for server in self.our_servers() if server.template.labels.get(POOL_LABEL) == pool]

    def most_nodes(self, pool: str, seconds: float) -> int:
        """How many nodes the pool had at most within so long."""
        sizes = self.sizes.get(pool, [])
        recent = [size for at, size in sizes if at > self.now - seconds]
        return max([*recent, *(size for _, size in sizes[: len(sizes) - len(recent)][-1:])], default=0)

    def node(self, name: str) -> Node | None:
        stored = self.cluster.store.get(NODE, name)
        return None if stored is None else self._codec.decode_node(stored.data)

    def removal_of(self, server: Server) -> Json | None:
        """The removal that records this machine, by id or, where the id was not known yet, by name."""
        removal = self.cluster.store.read(REMOVAL, server.name)
        is_of_server = removal is not None and removal["spec"].get("machineID", "") in ("", server.server_id)
        return removal if is_of_server else None


def planned_pods(request: Json) -> list[Key]:
    """Those that a NodeRequest was made for, and those that were added later."""
    keys = [*(request["spec"].get("plannedPods") or ()), *((request.get("status") or {}).get("addedPods") or ())]
    return [(namespace, name) for namespace, _, name in (key.partition("/") for key in keys)]
