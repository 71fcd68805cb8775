"""Random small worlds for properties, one for each seed: pools, offerings, pods with rules, nodes, requests, machines,
in every mixture.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from growth.model.instant import format_instant
from growth.model.labels import ARCHITECTURE, HOSTNAME, ZONE, LabelSelector, NodeSelectorTerm, Requirement
from growth.model.node import POOL_LABEL, SCALE_DOWN_AT, SCALE_DOWN_TAINT, STARTUP_TAINT, Node, Taint
from growth.model.nodepool import NodePool, PoolLimits, PoolTaint, ServerTypeChoice
from growth.model.noderequest import NodeRemovalRequest, NodeRemovalRequestSpec, NodeRemovalRequestStatus, NodeRequest
from growth.model.offering import Offering
from growth.model.pod import Pod, PodAffinityTerm, PodShape, Toleration, TopologySpread
from growth.model.snapshot import DaemonSet, Snapshot
from tests.plan.builders import NOW, bound, daemon_pod, machine, node, offering, pod, pool, request, shape, world

TYPES = ("cx2", "cx4", "cax4", "gpu8")
POOLS = ("default", "batch", "gpu")
TAINT = Taint("dedicated", "batch", "NoSchedule")
SIZES = {"cx2": (2, 4096, 0.01), "cx4": (4, 8192, 0.019), "cax4": (4, 8192, 0.015), "gpu8": (8, 16384, 0.2)}
BROKEN = "cpu: 'x' is not a quantity"

seeds = st.integers(0, 2**32)


class WorldMaker:
    """Draws a world; `wildness` is the share of odd things in it."""

    def __init__(self, seed: int, wildness: float = 0.1) -> None:
        self.chance = Random(seed)
        self.wildness = wildness

    def is_odd(self) -> bool:
        return self.chance.random() < self.wildness

    def any_of(self, *values: Any) -> Any:
        return self.chance.choice(values)

    def world(self) -> Snapshot:
        locations = self.any_of(("fsn1",), ("fsn1", "nbg1"))
        sold = tuple(replace(each, is_available=not self.is_odd()) for each in catalogue(locations))
        pods = self.waiting_pods()
        nodes, residents = self.nodes_with_pods(sold)
        requests = self.requests(sold, pods)
        nodes += tuple(self.joined(each, sold) for each in requests if self.is_odd())
        names = [each.name for each in requests] + [each.name for each in nodes]
        machines = [self.machine(name, sold) for name in names if self.chance.random() < 0.5]
        removals = [self.removal(each) for each in nodes if self.is_odd()]
        return world(
            (*pods, *residents),
            self.pools(),
            sold,
            nodes,
            requests,
            None if self.is_odd() else machines,
            daemon_sets=(DaemonSet("kube-system/agent", shape(0.1, 64)),) if self.any_of(True, False) else (),
            removals=removals,
        )

    # ---------------------------------------------------------------------------------------- pools

    def pools(self) -> tuple[NodePool, ...]:
        return tuple(self.pool(name) for name in self.any_of(POOLS, POOLS, POOLS[:1], POOLS[1:]))

    def pool(self, name: str) -> NodePool:
        names = self.chance.sample((*TYPES, "GEX44"), self.chance.randint(1, 3))
        choices = [
            ServerTypeChoice(each.upper(), int(self.is_odd()), self.any_of(None, None, 1, 2, 5), self.any_of(0, 0, 5))
            for each in names
        ]
        return pool(
            name,
            *(replace(each, min=min(each.min, each.max or each.min)) for each in choices),
            priority=self.any_of(0, 0, 3),
            taints=(PoolTaint("dedicated", "NoSchedule", "batch"),)
            if name == "batch" and self.any_of(True, False)
            else (),
            architectures=self.any_of((), (), ("arm64",), ("amd64", "arm64")),
            allowed_namespaces=("default",) if self.is_odd() else (),
            limits=PoolLimits(
                nodes=self.any_of(None, None, 1, 3),
                cpu=self.any_of(None, None, "6", "500m", "1e1"),
                memory="nonsense" if self.is_odd() else self.any_of(None, None, "20Gi"),
                price_per_hour=self.any_of(None, None, "0.03", "0.5"),
            ),
            annotations={"growth.dev/paused": "true"} if self.is_odd() else {},
            deleted_at=NOW - 5 if self.is_odd() else None,
            bind_planned_pods=self.any_of(True, False),
        )

    # ----------------------------------------------------------------------------------------- pods

    def waiting_pods(self) -> tuple[Pod, ...]:
        found: list[Pod] = []
        for number in range(self.chance.randint(0, 5)):
            one = self.shape()
            found += [
                pod(f"w{number}-{copy}", shape=one, created_at=NOW - 60 - number)
                for copy in range(self.chance.randint(1, 5))
            ]
        return tuple(replace(each, nominated_node="n0") if self.is_odd() and self.is_odd() else each for each in found)

    def shape(self) -> PodShape:
        selector = LabelSelector((Requirement("app", "In", ("web",)),))
        key = self.any_of(HOSTNAME, ZONE)
        fields: dict[str, Any] = {}
        rule = self.any_of("none", "none", "none", "anti", "affinity", "spread")
        if rule == "anti":
            fields["anti_affinity"] = (PodAffinityTerm(key, selector),)
        elif rule == "affinity":
            fields["affinity"] = (PodAffinityTerm(key, selector),)
        elif rule == "spread":
            fields["spread"] = (TopologySpread(1, key, selector=selector),)
        return shape(
            self.any_of(0.5, 1, 2, 3, 7),
            self.any_of(128, 1024, 6000),
            labels=self.any_of({"app": "web"}, {"app": "db"}, {}),
            namespace="team" if self.is_odd() else "default",
            tolerations=self.any_of((), (Toleration("dedicated", "Exists"),), (Toleration(operator="Exists"),)),
            priority=-100 if self.is_odd() else self.any_of(0, 0, 10),
            devices={"example.com/gpu": 1} if self.is_odd() else {},
            malformed=BROKEN if self.is_odd() and self.is_odd() else "",
            **self.wishes(),
            **fields,
        )

    def wishes(self) -> dict[str, Any]:
        wish = self.any_of("none", "none", "none", "none", "pool", "in", "arch", "zone", "bad")
        if wish == "pool":
            return {"pool": "missing" if self.is_odd() else self.any_of(*POOLS)}
        if wish == "arch":
            return {"node_selector": {ARCHITECTURE: self.any_of("amd64", "arm64")}}
        if wish == "zone":
            return {"node_selector": {ZONE: self.any_of("fsn1", "nbg1", "nowhere")}}
        if wish == "none":
            return {}
        requirement = (
            Requirement(POOL_LABEL, "In", ("batch", "gpu")) if wish == "in" else Requirement(POOL_LABEL, "Strange")
        )
        return {"node_affinity": (NodeSelectorTerm((requirement,)),)}

    # --------------------------------------------------------------------------- nodes and requests

    def nodes_with_pods(self, sold: tuple[Offering, ...]) -> tuple[tuple[Node, ...], tuple[Pod, ...]]:
        nodes = tuple(self.node(f"n{number}", sold) for number in range(self.chance.randint(0, 3)))
        pods = [
            bound(pod(f"b-{each.name}", shape=self.shape()), each.name) for each in nodes if self.any_of(True, False)
        ]
        pods += [daemon_pod(f"d-{each.name}", each.name) for each in nodes if self.any_of(True, False)]
        return nodes, tuple(pods)

    def node(self, name: str, sold: tuple[Offering, ...]) -> Node:
        is_marked = self.chance.random() < 0.3
        due = self.any_of(format_instant(NOW + 30), format_instant(NOW - 30), "soon")
        return node(
            name,
            self.any_of(*POOLS, ""),
            self.any_of(*sold),
            taints=((SCALE_DOWN_TAINT,) if is_marked and not self.is_odd() else ())
            + self.any_of((), (), (TAINT,), (STARTUP_TAINT,)),
            annotations={SCALE_DOWN_AT: due} if is_marked and not self.is_odd() else {},
            is_ready=not self.is_odd(),
            is_unschedulable=self.is_odd(),
            malformed=BROKEN if self.is_odd() else "",
        )

    def requests(self, sold: tuple[Offering, ...], pods: tuple[Pod, ...]) -> tuple[NodeRequest, ...]:
        keys = [each.key for each in pods] + ["default/gone"]
        return tuple(self.request(number, sold, keys) for number in range(self.chance.randint(0, 3)))

    def request(self, number: int, sold: tuple[Offering, ...], keys: list[str]) -> NodeRequest:
        of_pool = "missing" if self.is_odd() else self.any_of(*POOLS)
        return request(
            f"{of_pool}-pool-{number:012d}",
            self.any_of(*sold),
            self.any_of("Pending", "Provisioning", "Ready", "Unmet", "Deprovisioning"),
            of_pool,
            self.chance.sample(keys, min(len(keys), self.chance.randint(0, 3))),
            machine_id=self.any_of("", f"id-{number}"),
            changed_at=self.any_of(NOW - 5, NOW - 400, NOW - 4000),
            expires_at=self.any_of(None, format_instant(NOW + 60), "never"),
            deleted_at=NOW - 30 if self.is_odd() else None,
        )

    def joined(self, one: NodeRequest, sold: tuple[Offering, ...]) -> Node:
        return replace(self.node(one.name, sold), name=one.name)

    def machine(self, name: str, sold: tuple[Offering, ...]) -> Any:
        return machine(
            name, self.any_of(*sold), "somebody-else" if self.is_odd() else None, created_at=NOW - self.any_of(5, 5000)
        )

    def removal(self, one: Node) -> NodeRemovalRequest:
        spec = NodeRemovalRequestSpec(
            one.name,
            one.pool or "default",
            "sim-cx2",
            self.any_of("", f"id-{one.name}"),
            self.any_of("Empty", "NotReady", "Expired"),
        )
        phase = self.any_of("Pending", "Deprovisioning", "CouldNotRemove", "RemovalFailed")
        attempted_at = self.any_of(None, NOW - 5, NOW - 500)
        status = NodeRemovalRequestStatus(
            phase, self.chance.randint(0, 6), None if attempted_at is None else format_instant(attempted_at)
        )
        return NodeRemovalRequest(
            one.name, spec, status, f"uid-r-{one.name}", "4", created_at=NOW - 600, attempted_at=attempted_at
        )


def catalogue(locations: tuple[str, ...]) -> tuple[Offering, ...]:
    return tuple(
        offering(
            name,
            *SIZES[name],
            location=location,
            labels={ZONE: location},
            devices={"example.com/gpu": 1} if name == "gpu8" else {},
            pods=12,
        )
        for name in TYPES
        for location in locations
    )


def random_world(seed: int, wildness: float = 0.1) -> Snapshot:
    return WorldMaker(seed, wildness).world()
