"""What happens, in numbers? Watches every write and every machine while a scenario runs; made into a Result at the end.

Asked by `run`. It is the world's own truth: objects as stored, machines as they are, and it judges nothing.

| figure | counted |
| --- | --- |
| pods | those of workloads and bare ones; not those of DaemonSets |
| evicted | pods whose end growth asked for |
| returned | made after their owner's pod was evicted, and bound to the node it was evicted from |
| killed | bound and alive when growth had their machine deleted, those returned apart |
| in vain | a machine none of whose planned pods ever ran there; without planned pods, one that never was Ready |
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from growth.kube.api.transport import Request
from growth.model.node import OFFERING_LABEL
from growth.model.offering import CLUSTER_LABEL, REQUEST_UID_LABEL
from growth.model.resources import Resources, sum_resources
from growth.plan.buffers.virtual_pods import planned_entries
from growth.providers.simulated import Server
from growth.sim.agents.kubelet import ready_status
from growth.sim.apiserver.kinds import BY_NAME, NODE, POD, Json
from growth.sim.apiserver.store import Key, Write
from growth.sim.cluster import Cluster
from growth.sim.laws.witness import GROWTH
from growth.sim.scenarios.result import Claims, Cost, Machines, Nodes, Pods, Requests, Result, WaitingSeconds

QUIET_SECONDS: Final = 300.0
REQUEST, REMOVAL = BY_NAME["NodeRequest"], BY_NAME["NodeRemovalRequest"]
_SCALED: Final = ("Deployment", "StatefulSet", "ReplicaSet", "SandboxSet", "SandboxWarmPool", "CapacityBuffer")
_TOLD: Final = ("NodePool", "CapacityBuffer", "PoolAutoscaler", "NodeRequest", "NodeRemovalRequest")


class PodLife(Struct):
    """One pod, from its creation to its end."""

    uid: str
    owner: str
    made_at: float
    requests: Resources
    node: str = ""
    bound_at: float | None = None
    phase: str = "Pending"
    is_going: bool = False
    has_returned: bool = False


class Sample(Struct, frozen=True):
    """The cluster at one moment, for the report."""

    at: float
    price_per_hour: float
    bound_per_hour: float | None  # no set of machines for the pods of the moment costs less; None: not asked
    nodes: int
    ready: int
    pending: int
    running: int
    fill: float  # of what Ready nodes offer, the part that pods on them ask for, of the scarcest resource


class Measure:
    """Hears of everything in one embedded cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.writes = self.refused = 0  # of growth, without events and leases
        self.provider_calls = 0
        self.claims_wanted = self.claims_missed = 0
        self.last_write_at = 0.0
        self.pods: dict[Key, PodLife] = {}
        self.made = self.evicted = self.returned = self.killed = 0
        self.waits: list[float] = []
        self.most_machines = 0
        self.samples: list[Sample] = []
        self._evicted_of: Counter[str] = Counter()
        self._evicted_from: dict[str, set[str]] = {}  # node: owners
        self._bound: dict[str, dict[Key, PodLife]] = {}
        self._was_ready: set[str] = set()
        self._ran_on: dict[str, set[str]] = {}  # node: keys of pods that ran there
        self._planned: dict[str, tuple[str, ...]] = {}  # by NodeRequest
        self._events: dict[Key, tuple[str, int]] = {}
        cluster.store.on_write(self._see)
        cluster.shop.on_change.append(self._see_server)

    @property
    def now(self) -> float:
        return self.cluster.runtime.monotonic()

    # --------------------------------------------------------------------------------- what it sees

    def _see(self, write: Write) -> None:
        if write.kind is POD:
            self._see_pod(write)
        elif write.kind is NODE:
            self._see_node(write)
        elif write.kind is REQUEST:
            spec, status = write.item["spec"], write.item.get("status") or {}
            self._planned[write.key[1]] = (*spec.get("plannedPods", ()), *status.get("addedPods", ()))
        elif write.kind.name == "Event" and write.type != "DELETED":
            count = (write.item.get("series") or {}).get("count", 1)
            self._events[write.key] = (str(write.item.get("reason")), int(count))
        if write.actor == GROWTH and write.kind.name not in ("Event", "Lease"):
            self.writes += 1
            self.last_write_at = self.now

    def see_refused(self, request: Request) -> None:
        self.refused += not any(f"/{plural}" in request.path for plural in ("events", "leases"))

    def _see_node(self, write: Write) -> None:
        if ready_status(write.item) == "True":
            self._was_ready.add(write.key[1])

    def _see_pod(self, write: Write) -> None:
        metadata, key = write.item["metadata"], write.key
        life = self.pods.get(key)
        if life is not None and life.uid != metadata["uid"]:
            self._forget(key)
            life = None
        if life is None:
            if write.type == "DELETED" or _is_daemon(metadata):
                return
            requests = _requests(write.item["spec"])
            life = self.pods[key] = PodLife(metadata["uid"], _owner(metadata), self.now, requests)
            self.made += 1
        self._follow(write, life)
        if write.type == "DELETED":
            self._forget(key)

    def _follow(self, write: Write, life: PodLife) -> None:
        metadata, key = write.item["metadata"], write.key
        node = write.item["spec"].get("nodeName") or ""
        if node and not life.node:
            life.node, life.bound_at = node, self.now
            self.waits.append(self.now - life.made_at)
            self._bound.setdefault(node, {})[key] = life
            life.has_returned = life.owner in self._evicted_from.get(node, ())
            self.returned += life.has_returned
        life.phase = (write.item.get("status") or {}).get("phase") or life.phase
        if life.phase == "Running":
            self._ran_on.setdefault(node, set()).add("/".join(key))
        ends = write.type == "DELETED" or "deletionTimestamp" in metadata
        if ends and not life.is_going:
            life.is_going = True
            if write.actor == GROWTH and life.node:
                self._count_eviction(life)

    def _count_eviction(self, life: PodLife) -> None:
        self.evicted += 1
        self._evicted_of[life.owner] += 1
        if self.cluster.store.get(REMOVAL, life.node) is not None:
            self._evicted_from.setdefault(life.node, set()).add(life.owner)

    def _forget(self, key: Key) -> None:
        life = self.pods.pop(key)
        if life.node:
            self._bound.get(life.node, {}).pop(key, None)
        elif not life.bound_at:
            self.waits.append(self.now - life.made_at)

    def _see_server(self, what: str, server: Server) -> None:
        self.most_machines = max(self.most_machines, len(self._ours()))
        if what == "delete":
            alive = self._bound.get(server.name, {}).values()
            self.killed += sum(
                not life.is_going and not life.has_returned and life.phase in ("Pending", "Running") for life in alive
            )
            self._evicted_from.pop(server.name, None)

    def _ours(self) -> list[Server]:
        servers = self.cluster.shop.servers.values()
        ours = [each for each in servers if CLUSTER_LABEL in each.labels and each.status != "deleting"]
        return [each for each in ours if each.server_id not in self.cluster.shop.foreign]

    # ------------------------------------------------------------------------------------- the report

    def sample(self, bound_per_hour: float | None = None) -> None:
        """Take down how the cluster looks now."""
        nodes = self.cluster.objects("Node")
        ready = [node for node in nodes if ready_status(node) == "True"]
        bound = [life for life in self.pods.values() if life.node]
        offered = sum_resources(Resources.parse(node["status"].get("allocatable") or {}) for node in ready)
        asked = sum_resources(life.requests for life in bound)
        self.samples.append(
            Sample(
                at=self.now,
                price_per_hour=self.cluster.shop.price_per_hour(),
                bound_per_hour=bound_per_hour,
                nodes=len(nodes),
                ready=len(ready),
                pending=len(self.pods) - len(bound),
                running=sum(life.phase == "Running" for life in bound),
                fill=max((asked[name] / amount for name, amount in offered.items()), default=0.0),
            )
        )

    # -------------------------------------------------------------------------------------- the end

    def result(self, name: str, seed: int, *, bound: float = 0.0, laws_broken: Iterable[str] = ()) -> Result:
        shop, waiting = self.cluster.shop, [life for life in self.pods.values() if not life.node]
        return Result(
            scenario=name,
            seed=seed,
            virtual_seconds=round(self.now, 3),
            settled=self.is_settled(),
            cost=Cost(
                total=round(shop.amount_due(), 6),
                per_hour_at_end=round(shop.price_per_hour(), 6),
                bound_at_end=round(bound, 6),
                billing=shop.billing,
            ),
            machines=self._machines(),
            nodes=self._nodes(),
            pods=Pods(
                made=self.made,
                running=sum(life.phase == "Running" for life in self.pods.values()),
                pending=len(waiting),
                evicted=self.evicted,
                most_evicted_of_one_owner=max(self._evicted_of.values(), default=0),
                returned=self.returned,
                killed=self.killed,
            ),
            waiting_seconds=_percentiles([*self.waits, *(self.now - life.made_at for life in waiting)]),
            requests=Requests(writes=self.writes, refused=self.refused, provider=self.provider_calls),
            claims=Claims(wanted=self.claims_wanted, missed=self.claims_missed),
            targets=self._targets(),
            events=_sums(self._events.values()),
            conditions=self._conditions("status"),
            reasons=self._conditions("reason"),
            laws_broken=tuple(laws_broken),
        )

    def is_settled(self) -> bool:
        """Nothing is on its way, and growth has written nothing for five minutes."""
        requests = self.cluster.store.read_all(REQUEST)
        in_flight = any(
            (each.get("status") or {}).get("phase") in (None, "Pending", "Provisioning") for each in requests
        )
        is_quiet = self.now - self.last_write_at >= QUIET_SECONDS
        return is_quiet and not in_flight and not self.cluster.store.all(REMOVAL)

    def _machines(self) -> Machines:
        shop = self.cluster.shop
        bought = [server for server in shop.creates if CLUSTER_LABEL in server.labels]
        of_request = Counter(
            server.labels.get(REQUEST_UID_LABEL, "") for server in bought if server.server_id not in shop.late
        )
        return Machines(
            bought=len(bought),
            given_back=sum(CLUSTER_LABEL in server.labels for server in shop.deletes),
            at_end=len(self._ours()),
            never_ready=sum(server.name not in self._was_ready for server in bought),
            in_vain=sum(self._is_in_vain(server.name) for server in bought),
            most=self.most_machines,
            leaked=sum(not self._is_known(server.name) for server in self._ours()),
            foreign=sum(server_id in shop.servers for server_id in shop.foreign),
            twice=sum(count > 1 for uid, count in of_request.items() if uid),
        )

    def _is_in_vain(self, name: str) -> bool:
        entries = self._planned.get(name, ())
        planned = [entry for entry in entries if not planned_entries((entry,))]  # those of buffers are no pods
        if not planned:
            return name not in self._was_ready
        return not any(entry in self._ran_on.get(name, ()) for entry in planned)

    def _is_known(self, name: str) -> bool:
        return any(self.cluster.store.get(kind, name) is not None for kind in (REQUEST, REMOVAL, NODE))

    def _nodes(self) -> Nodes:
        nodes = self.cluster.objects("Node")
        offerings = Counter((node["metadata"].get("labels") or {}).get(OFFERING_LABEL, "") for node in nodes)
        return Nodes(
            at_end=len(nodes),
            ready=sum(ready_status(node) == "True" for node in nodes),
            by_offering={name: offerings[name] for name in sorted(offerings) if name},
        )

    def _targets(self) -> dict[str, int]:
        return {
            f"{kind}/{item['metadata'].get('namespace', '')}/{item['metadata']['name']}": int(item["spec"]["replicas"])
            for kind in _SCALED
            for item in self.cluster.objects(kind)
            if "replicas" in item["spec"] and not _owner_kind(item["metadata"])
        }

    def _conditions(self, part: str) -> dict[str, dict[str, str]]:
        found = {}
        for kind in _TOLD:
            for item in self.cluster.objects(kind):
                metadata = item["metadata"]
                name = "/".join(part for part in (kind, metadata.get("namespace", ""), metadata["name"]) if part)
                found[name] = {
                    each["type"]: each.get(part, "") for each in (item.get("status") or {}).get("conditions", ())
                }
        return found


def _requests(spec: Json) -> Resources:
    asked = ((each.get("resources") or {}).get("requests") or {} for each in spec["containers"])
    return sum_resources(Resources.parse(requests) for requests in asked)


def _owner(metadata: Json) -> str:
    """The controller of a pod; of a ReplicaSet's pod, the name without the template's hash is what it belongs to."""
    owner = next(iter(metadata.get("ownerReferences") or ()), None)
    return f"{owner['kind']}/{metadata.get('namespace', '')}/{owner['name']}" if owner else str(metadata["uid"])


def _owner_kind(metadata: Json) -> str:
    owner = next(iter(metadata.get("ownerReferences") or ()), None)
    return str(owner["kind"]) if owner else ""


def _is_daemon(metadata: Json) -> bool:
    return _owner_kind(metadata) in ("DaemonSet", "Node")


def _percentiles(waits: list[float]) -> WaitingSeconds:
    """By nearest rank: a value that was really waited."""
    if not waits:
        return WaitingSeconds()
    ordered = sorted(waits)

    def at(share: float) -> float:
        return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 3)

    return WaitingSeconds(p50=at(0.5), p95=at(0.95), p99=at(0.99), max=round(ordered[-1], 3))


def _sums(events: Iterable[tuple[str, int]]) -> Mapping[str, int]:
    counted: Counter[str] = Counter()
    for reason, count in events:
        counted[reason] += count
    return {reason: counted[reason] for reason in sorted(counted)}
