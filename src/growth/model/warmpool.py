"""A warm pool: whatever a PoolAutoscaler may scale, and how its members are counted. Asked by the warm-pool plan and by
its caches.

| members | when one is claimed | used | available |
| --- | --- | --- | --- |
| Pods | it stays; a label of its pod says so | pods that match the declared selector | ready pods that do not |
| Stay | it stays | those that have started and are not available | what the object's status says |
| Leave | it leaves, and is replaced | those missing that no raise asked for | what the object's status says |
| Spare | nobody claims one | none | what the object's status says |

Replicas that are neither used nor available are starting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from growth.model.api import GroupText, Word

Members = Literal["Pods", "Stay", "Leave", "Spare"]
FieldPath = Annotated[str, Meta(max_length=200, pattern=r"^([A-Za-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)*)?\Z")]


class WarmPoolKind(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A kind of object that may be scaled, and where its status says how many members are available."""

    group: Annotated[GroupText, Meta(description="API group.")]
    version: Annotated[Word, Meta(description="The version that is watched, whichever the autoscaler names.")]
    plural: Annotated[Word, Meta(description="The resource, as in a URL.")]
    kind: Annotated[Word, Meta(description="The kind, as in a manifest.")]
    members: Annotated[
        Members, Meta(description="What becomes of a member that is claimed: Pods, Stay, Leave or Spare.")
    ] = "Leave"
    available_path: Annotated[
        FieldPath, Meta(description="Where the object says how many members are available (Pods: ready).")
    ] = "status.readyReplicas"
    started_path: Annotated[
        FieldPath, Meta(description="Where it says how many have started, claimed or not (Stay only).")
    ] = "status.replicas"
    reads_scale: Annotated[
        bool,
        Meta(
            description=(
                "Do not watch the kind, read each target's /scale instead, a few at a time; all that has started is "
                "available."
            )
        ),
    ] = False

    @property
    def name(self) -> str:
        """How settings and reasons name it."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


DEPLOYMENT: Final = WarmPoolKind("apps", "v1", "deployments", "Deployment", "Pods")
REPLICA_SET: Final = WarmPoolKind("apps", "v1", "replicasets", "ReplicaSet", "Pods")
STATEFUL_SET: Final = WarmPoolKind("apps", "v1", "statefulsets", "StatefulSet", "Pods")
SANDBOX_SET: Final = WarmPoolKind(
    "agents.kruise.io", "v1alpha1", "sandboxsets", "SandboxSet", "Leave", "status.availableReplicas"
)
SANDBOX_WARM_POOL: Final = WarmPoolKind(
    "extensions.agents.x-k8s.io", "v1alpha1", "sandboxwarmpools", "SandboxWarmPool", "Leave"
)
CAPACITY_BUFFER: Final = WarmPoolKind(
    "autoscaling.x-k8s.io", "v1beta1", "capacitybuffers", "CapacityBuffer", "Spare", "status.replicas"
)

KNOWN_KINDS: Final = (DEPLOYMENT, STATEFUL_SET, REPLICA_SET, SANDBOX_SET, SANDBOX_WARM_POOL, CAPACITY_BUFFER)


class WarmPool(Struct, frozen=True, gc=False):
    """One object that can be scaled, as far as scaling cares."""

    name: str
    namespace: str
    replicas: int = 1  # wanted
    available: int = 0  # as its status says; of Pods: ready
    started: int = 0
    uid: str = ""
    owner_uid: str = ""  # a ReplicaSet's Deployment
    resource_version: str = ""
    generation: int = 0  # of its spec: it moves with the template too
    first_ordinal: int = 0  # of a StatefulSet's members

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class WarmPoolView(Struct, frozen=True):
    """All objects of one kind, by namespace/name. `problem` says why they are not known, if they are not."""

    pools: Mapping[str, WarmPool]
    is_known: bool = True  # a whole listing has been taken in
    problem: str = ""


def value_at(item: Any, path: str) -> Any:
    """What is at a dotted path; None if nothing is."""
    for part in path.split("."):
        item = item.get(part) if isinstance(item, dict) else None
    return item
