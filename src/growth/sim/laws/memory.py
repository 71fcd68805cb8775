"""What does the witness keep of each matter? The nouns of `sim/laws/witness`, and what a law asks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from growth.model.node import DO_NOT_DISRUPT
from growth.providers.simulated import Server
from growth.sim.apiserver.store import Key

BRAKE_SHARE: Final = 0.2


class Emptied(Struct, frozen=True):
    """A node that a pod was evicted from: its pool, what its removal says, and when that last happened."""

    pool: str
    reason: str
    at: float


class Drain(Struct):
    """How many pods each owner had on a node when the first of them was evicted there, and how many were since. Those
    count that came when a user had just changed the node.
    """

    removal: str  # its UID
    began_at: float
    pods: dict[str, int]
    evicted: dict[str, int]


_WISHES: Final = (DO_NOT_DISRUPT, "karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/scale-down-disabled")


def must_stay(annotations: Mapping[str, str] | None) -> bool:
    """Do the annotations of a node or pod say that it must not be disturbed, in whoever's words?"""
    said = annotations or {}
    refuses = said.get("cluster-autoscaler.kubernetes.io/safe-to-evict") == "false"
    return refuses or any(said.get(key) == "true" for key in _WISHES)


class Call(Struct, frozen=True):
    """Something that a growth sent off, or that took effect: whether it leads, another does, and it stood still."""

    text: str
    leads: bool
    another_leads: bool
    stood_still: bool
    was_given_up: bool = False  # its sender had closed the connection by then, and could do no more
    life: int = 0  # the how many-th process sent it
    memory: tuple[int, int] = (0, 0)  # its term, and how often its clock went back in it: each time it begins anew


class Lately(Struct):
    """What was written, and what is gone since a while."""

    written_at: dict[str, list[float]] = {}  # our records, by their path: when each was written
    buffers_at: dict[tuple[str, ...], float] = {}  # CapacityBuffers: when each was last there; inf: it is
    nodes_gone_at: dict[str, float] = {}
    given_back: dict[str, tuple[float, Server]] = {}  # machines of ours that were deleted, by name, and when
    touched_at: dict[str, list[tuple[float, bool]]] = {}  # pools: when users made, changed or (True) deleted them


class Said(Struct, frozen=True):
    """An event that growth wrote about a pod."""

    namespace: str
    name: str
    uid: str
    reason: str
    note: str


class Patience(Struct):
    """Who waits for nothing, as far as anybody can see, and since when; what growth last said to a pod that waits."""

    told: dict[str, Said] = {}  # by UID
    unproven: list[tuple[float, Said]] = []  # reasons of which nobody knows yet whether they are true
    idle_since: dict[Key, float] = {}
    calm_since: float | None = None  # since when nothing is broken


class Scaled(Struct):
    """What happened to warm pools."""

    at: dict[str, float] = {}  # targets whose replicas growth wrote or asked to write, and when it last did
    down_at: dict[Key, float] = {}  # those that it scaled down, and nobody scaled since
    claimed_at: dict[str, float] = {}  # UIDs of pods in use: since when


class Brakes:
    """For which pools the brake holds, and since when, by the nodes' own truth.

    A node counts while it is Ready, and after that if it was ever opened to pods. One that was Ready for a moment only,
    still behind growth's start-up taint, has served nobody: it is given up in time like one that never was Ready. If
    such nodes held the brake, an image that fails a little later would hold it, and be paid for, without end.
    """

    def __init__(self, is_closed: Callable[[str], bool]) -> None:
        self.since: dict[str, float] = {}  # pools; "" is the cluster
        self._is_closed = is_closed

    def look(self, now: float, readiness: Mapping[str, bool], pools: Mapping[str, str]) -> None:
        """`pools`: of nodes that are growth's."""
        ill: dict[str, list[bool]] = {"": []}
        for name, is_ready in readiness.items():
            if not is_ready and self._is_closed(name):
                continue
            for pool in ("", pools[name]) if name in pools else ("",):
                ill.setdefault(pool, []).append(not is_ready)
        for pool in {*ill, *self.since}:
            nodes = ill.get(pool, [])
            if sum(nodes) > BRAKE_SHARE * len(nodes) and sum(nodes) >= (2 if pool else 3):
                self.since.setdefault(pool, now)
            else:
                self.since.pop(pool, None)
