"""A small town to look at: every kind of thing that the page shows, and changes when a test says so."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from growth.model.capacitybuffer import BufferWorld, CapacityBuffer
from growth.model.decision import About, Note
from growth.model.node import SCALE_DOWN_TAINT
from growth.model.noderequest import (
    NodeRemovalRequest,
    NodeRemovalRequestSpec,
    NodeRequest,
    NodeRequestSpec,
    NodeRequestStatus,
)
from growth.model.pod import Pod, PodShape
from growth.model.poolautoscaler import (
    CapacityPolicy,
    CapacityStatus,
    PoolAutoscaler,
    PoolAutoscalerSpec,
    PoolAutoscalerStatus,
    ScaleTarget,
)
from growth.model.resources import Resources
from growth.model.settings import Settings
from growth.plan.buffers.placement import place_buffers
from growth.web.notes import Notes
from growth.web.state import Look
from tests.web.moments import pod, world

API = PodShape(requests=Resources.parse({"cpu": "1", "memory": "2Gi"}))
WEB_PODS = tuple(f"web-{number}" for number in range(5))


class Town:
    """Three nodes with pods, one on its way, one going; a waiting pod, a buffer, a warm pool, and notes."""

    def __init__(self) -> None:
        self.notes = Notes(lambda: 100.0)
        self.version = 0
        self.bound = 0.03
        self.snapshot = world(
            {
                "alpha": (*(pod(name, "alpha") for name in WEB_PODS), pod("api-1", "alpha", "api", API)),
                "beta": (pod("api-2", "beta", "api", API),),
                "gamma": (),
            },
            (self.waiting("web-9"),),
            requests={"delta": self._request()},
            removals={"gamma": NodeRemovalRequest("gamma", NodeRemovalRequestSpec("gamma", "default", reason="Empty"))},
            buffers=BufferWorld({"default/spare": CapacityBuffer("default", "spare")}),
            autoscalers={"default/agents": self._autoscaler()},
        )
        marked = replace(self.snapshot.nodes["beta"], taints=(SCALE_DOWN_TAINT,))
        self.snapshot = replace(self.snapshot, nodes={**self.snapshot.nodes, "beta": marked})
        self.note("Pod", "default/web-9", "Planned", "a machine is on its way: delta")
        self.note("Node", "beta", "ScaleDown", "not needed; goes in 60 s unless pods come", "Warning")

    @staticmethod
    def waiting(name: str) -> Pod:
        return replace(pod(name), unschedulable_at=40.0)

    @staticmethod
    def _request() -> NodeRequest:
        spec = NodeRequestSpec("default", "sim-cx32", "fsn1", planned_pods=("default/web-9",))
        return NodeRequest("delta", spec, NodeRequestStatus("Provisioning"), created_at=60.0)

    @staticmethod
    def _autoscaler() -> PoolAutoscaler:
        spec = PoolAutoscalerSpec(ScaleTarget("SandboxSet", "agents"), 40, 4, capacity_policy=CapacityPolicy(6, 1))
        status = PoolAutoscalerStatus(
            current_replicas=9, desired_replicas=9, current_capacity=CapacityStatus(6, 2, 1), last_decision="9 stay"
        )
        return PoolAutoscaler("agents", "default", spec, status)

    def note(self, kind: str, name: str, reason: str, message: str, severity: Any = "Normal") -> None:
        namespace, _, last = name.rpartition("/")
        self.notes.hear(Note(About(kind, last, namespace), reason, message, severity), is_new=True)
        self.version += 1

    def move_in(self) -> None:
        """The waiting pod gets its node, and another one comes."""
        pods = {**self.snapshot.pods_by_node, "beta": (pod("web-9", "beta"), *self.snapshot.pods_by_node["beta"])}
        others = (self.waiting("web-10"), self.waiting("web-11"))
        self.snapshot = replace(self.snapshot, pods_by_node=pods, waiting_pods=others, now=130.0)
        self.version += 1

    def look(self, is_watched: bool) -> Look | None:
        settings = Settings()
        placement = place_buffers(self.snapshot, settings)
        return Look(self.snapshot, settings, self.notes, self.version, placement, self.bound)

    async def find_bound(self, look: Look) -> None:
        return
