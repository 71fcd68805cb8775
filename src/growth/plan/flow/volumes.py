"""Which pods of growth's scheduler wait on their node for volumes, and what is asked for them? Asked by scheduling.

A claim whose class waits for a first consumer gets its volume when a pod has its node:

    placed → nominated to its node, WaitingForVolumes; volumes reserved or asked for → claims bound → pod bound

| a pod that was placed | then |
| --- | --- |
| its claims are bound, or it has none | it is bound |
| a claim waits, a free volume suits it there | the volume is reserved for it (`claimRef`) |
| a claim waits, and a volume can be made there | its provisioner is asked (`volume.kubernetes.io/selected-node`) |
| another pod of this round wants the same volume, or the same claim elsewhere | it is placed again in a moment |
| others of its gang have such claims | it waits for them on its node |

| a pod that waits for volumes | then |
| --- | --- |
| all its claims are bound | it is bound where it is nominated, or placed again if it may no longer go there |
| a claim lost its node: the provisioner could not | back to the queue; nominated no more, other nodes come first |
| it has waited for longer than `volumeSeconds` | the same; the provisioner is still asked for the same node |
| its node goes, a claim is gone | the same |
| one of its gang goes back, or the gang is too few | all of them go back |

While it waits nobody else gets its room. All of it is read off the objects: the pod's nomination and condition, its
claims and the volumes that are reserved for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from growth.model.action import Assignment, Seen, VolumeAsk, VolumeWait
from growth.model.gang import Gang, name_of_gang, waiting_gangs
from growth.model.pod import Pod
from growth.model.scheduler import SchedulerSettings
from growth.model.snapshot import Snapshot
from growth.model.volumes import Claim
from growth.plan.flow.queue import Unplaced, is_ours
from growth.plan.world.nodes import state_of
from growth.plan.world.turn import sooner
from growth.solver.rules.claims import VolumeNeeds, volume_needs
from growth.solver.rules.node_table import NodeTable
from growth.solver.rules.volumes import StaticVolumes


class VolumeWaits(Struct, frozen=True):
    """The pods whose volumes were asked for, as they stand now."""

    held: Mapping[str, tuple[Pod, ...]] = {}  # by node: those that go on waiting there
    ready: frozenset[str] = frozenset()  # UIDs of those that need wait no longer
    over: tuple[Unplaced, ...] = ()  # those that go back to the queue
    out: frozenset[str] = frozenset()  # keys of all that are not placed in this round
    again_at: float | None = None


# -------------------------------------------------------------------------------------- who waits


def volume_waits(snapshot: Snapshot, scheduler: SchedulerSettings) -> VolumeWaits:
    asked = [pod for pod in snapshot.waiting_pods if pod.volumes_asked_at is not None and is_ours(pod, scheduler)]
    if not asked:
        return VolumeWaits()
    look = _Look(snapshot, scheduler.volume_seconds)
    hands: dict[str, list[Pod]] = {}  # gangs, and pods without one
    for pod in asked:
        hands.setdefault(look.gang_of(pod) or pod.uid, []).append(pod)
    held, ready, over, out = dict[str, tuple[Pod, ...]](), set[str](), list[Unplaced](), set[str]()
    again_at: float | None = None
    for name, hand in hands.items():
        gang = waiting_gangs(snapshot).get(name)
        why = look.why_over(hand)
        if not why and not any(look.is_waiting(pod) for pod in hand):
            ready |= {pod.uid for pod in hand}
            continue
        out |= {pod.key for pod in (gang.waiting if gang else hand)}
        if why:
            over += [Unplaced(pod, why, is_withdrawn=True, avoided=look.given_back_by(pod)) for pod in hand]
            continue
        for pod in hand:
            again_at = sooner(again_at, look.ends_at(pod))
            held[pod.nominated_node] = (*held.get(pod.nominated_node, ()), replace(pod, node_name=pod.nominated_node))
    return VolumeWaits(held, frozenset(ready), tuple(over), frozenset(out), again_at)


class _Look:
    """The claims of waiting pods in one snapshot."""

    def __init__(self, snapshot: Snapshot, seconds: float) -> None:
        self._snapshot, self._seconds = snapshot, seconds
        self._needs: dict[str, VolumeNeeds] = {}

    def gang_of(self, pod: Pod) -> str:
        name = name_of_gang(pod, self._snapshot.pod_groups)
        return name if name in waiting_gangs(self._snapshot) else ""

    def needs(self, pod: Pod) -> VolumeNeeds:
        if pod.uid not in self._needs:
            self._needs[pod.uid] = volume_needs(pod.shape, self._snapshot.volumes, pod.name, pod.uid)
        return self._needs[pod.uid]

    def is_waiting(self, pod: Pod) -> bool:
        return bool(self.needs(pod).waiting)

    def ends_at(self, pod: Pod) -> float:
        return (pod.volumes_asked_at or 0.0) + self._seconds

    def why_over(self, hand: list[Pod]) -> str:
        """Why these do not go on waiting; empty: they do, or need not."""
        gang = waiting_gangs(self._snapshot).get(self.gang_of(hand[0]))
        if gang is not None and gang.needed > len(hand):
            return f"gang {gang.name}: {gang.needed} more must start together, and {len(hand)} have a node"
        reasons = ((pod, self._why_over(pod)) for pod in hand)
        pod, why = next(((pod, why) for pod, why in reasons if why), (hand[0], ""))
        return why if gang is None or not why else f"gang {gang.name}: of pod {pod.name} {why}"

    def _why_over(self, pod: Pod) -> str:
        name, needs, snapshot = pod.nominated_node, self.needs(pod), self._snapshot
        state = state_of(name, snapshot)
        if not name:
            return "it was taken back from the node that its volumes were asked for"
        if state.node is None or state.is_ending:
            return f"volumes were asked for on node {name}, which goes or is gone"
        unasked = next((claim for claim in needs.waiting if not self._is_asked(claim, name)), None)
        if unasked is not None and unasked.selected_node:
            return f"claim {unasked.key} was promised to node {unasked.selected_node}, not to {name}"
        if unasked is not None:
            return f"claim {unasked.key} could not get a volume on node {name}: its provisioner gave it back"
        if needs.refusals and not any(claim.volume for claim in needs.waiting):
            return "; ".join(needs.refusals[0].phrases)
        if needs.waiting and snapshot.now >= self.ends_at(pod):
            return f"claim {needs.waiting[0].key} got no volume on node {name} within {self._seconds:.0f} s"
        return ""

    def given_back_by(self, pod: Pod) -> str:
        """The node of a pod, if its provisioner could make no volume for it."""
        node = pod.nominated_node
        unasked = (claim for claim in self.needs(pod).waiting if not self._is_asked(claim, node))
        return node if any(claim.selected_node is None for claim in unasked) else ""

    def _is_asked(self, claim: Claim, node: str) -> bool:
        """Is its volume being bound, or made there, or reserved?"""
        return bool(claim.volume) or claim.selected_node == node or (claim.key, claim.uid) in self._reserved

    @cached_property
    def _reserved(self) -> frozenset[tuple[str, str]]:
        """Keys and UIDs of claims that a volume is reserved for."""
        return frozenset((each.claim, each.claim_uid) for each in self._snapshot.volumes.volumes.values())


# ---------------------------------------------------------------------------------- what is asked


def with_volumes(
    placed: Iterable[Assignment], gang_of: Mapping[str, Gang], snapshot: Snapshot
) -> tuple[tuple[Assignment, ...], list[Unplaced]]:
    """These pods have found these nodes: what is done for each of them, and who must wait for another round."""
    waiting = {pod.uid: pod for pod in snapshot.waiting_pods}
    true, now = tuple(placed), snapshot.now
    asking = _Asking(snapshot, {one.node_name for one in true})
    found = [(waiting[one.pod.uid], one, asking.wait_for(waiting[one.pod.uid], one.node_name)) for one in true]
    gangs = {gang_of[pod.uid].name for pod, _, wait in found if wait is not None and pod.uid in gang_of}
    failed = {gang_of[pod.uid].name: why for pod, _, why in found if isinstance(why, str) and pod.uid in gang_of}
    assignments, unplaced = list[Assignment](), list[Unplaced]()
    for pod, one, wait in found:
        gang = gang_of[pod.uid].name if pod.uid in gang_of else ""
        if isinstance(wait, str) or gang in failed:
            unplaced.append(Unplaced(pod, wait if isinstance(wait, str) else failed[gang]))
        elif wait is None and gang in gangs:
            others = VolumeWait(now, f"waits on node {one.node_name} for the volumes of others of gang {gang}")
            assignments.append(replace(one, wait=others))
        else:
            assignments.append(replace(one, wait=wait) if wait is not None else one)
    return tuple(assignments), unplaced


class _Asking:
    """What the pods of one round ask for."""

    def __init__(self, snapshot: Snapshot, nodes: Collection[str]) -> None:
        self._snapshot, self._names = snapshot, nodes
        self._taken: set[str] = set()  # volumes
        self._promised: dict[str, str] = {}  # by claim: the node

    @cached_property
    def _static(self) -> StaticVolumes:
        return StaticVolumes(self._table, self._snapshot.volumes)

    @cached_property
    def _table(self) -> NodeTable:
        return NodeTable(self._snapshot.nodes[name] for name in self._names)

    def wait_for(self, pod: Pod, node: str) -> VolumeWait | str | None:
        """None: it can be bound; a sentence: another pod of this round was first."""
        world = self._snapshot.volumes
        claims = volume_needs(pod.shape, world, pod.name, pod.uid).waiting if pod.shape.volumes else ()
        if not claims:
            return None
        for claim in claims:
            if self._promised.get(claim.key, node) != node:
                return f"claim {claim.key} was just promised to node {self._promised[claim.key]}"
        fresh = [claim for claim in claims if claim.key not in self._promised]
        chosen = self._static.choose(fresh, self._table.index[node], self._taken)
        if chosen is None:
            names = ", ".join(claim.key for claim in fresh)
            return f"the volume for {names} on node {node} was just taken by another pod"
        self._taken |= set(chosen.values()) - {""}
        self._promised |= dict.fromkeys(chosen, node)
        names = ", ".join(claim.key for claim in claims)
        asks = tuple(VolumeAsk(_seen(claim), chosen[claim.key]) for claim in fresh if claim.selected_node is None)
        return VolumeWait(self._snapshot.now, f"waits on node {node} for the volumes of {names}", asks)


def _seen(claim: Claim) -> Seen:
    return Seen(claim.name, claim.uid, namespace=claim.namespace)
