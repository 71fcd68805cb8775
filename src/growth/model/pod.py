"""A pod, as far as growth cares: what scheduling can see of it (its shape, shared by all pods of a template), and how
far it has come.

Asked by every plan. Many pods share one `PodShape` object: the codec interns it, so 100,000 pods of 1,200 templates
stay small."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from growth.model.labels import NO_LABELS, Labels, LabelSelector, NodeSelectorTerm
from growth.model.resources import NOTHING, Resources

FINISHED: Final = ("Succeeded", "Failed")  # phases

_DIGITS: Final = 12
WAITING_FOR_VOLUMES: Final = "WaitingForVolumes"  # of PodScheduled=False: it has a node, and is not bound yet
_RULE: Final = "v1-"  # of the checksum of classes


class Toleration(Struct, frozen=True, gc=False):
    """Permits a taint. An empty key with Exists means all keys, an empty effect all effects."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None


class PodAffinityTerm(Struct, frozen=True, gc=False):
    """Pods the selector matches in `namespaces` ∪ those the namespace selector matches (neither: the pod's own)."""

    topology_key: str
    selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class PreferredNodes(Struct, frozen=True, gc=False):
    weight: int
    term: NodeSelectorTerm


class PreferredPods(Struct, frozen=True, gc=False):
    weight: int
    term: PodAffinityTerm


class TopologySpread(Struct, frozen=True, gc=False):
    """No domain may hold over `max_skew` more matching pods than the emptiest eligible one."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str = "DoNotSchedule"
    selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class HostPort(Struct, frozen=True, gc=False):
    port: int
    protocol: str = "TCP"
    host_ip: str = "0.0.0.0"  # noqa: S104  (the wildcard of the API, nothing is bound here)


class VolumeUse(Struct, frozen=True, gc=False):
    """A volume that binds a pod to places: a claim by name, or an inline CSI or legacy disk."""

    claim: str = ""
    is_ephemeral: bool = False  # the claim is made from the pod's own template and is named after the pod
    storage_class: str = ""  # of an ephemeral claim's template
    driver: str = ""  # of an inline volume
    disk: str = ""  # of a legacy in-tree volume: what two pods must not share
    read_only: bool = False


class PodShape(Struct, frozen=True, gc=False, cache_hash=True):
    """Everything of a pod that scheduling can see. Two pods with equal shapes are interchangeable to every rule."""

    namespace: str = "default"
    labels: Labels = NO_LABELS
    requests: Resources = NOTHING  # as the scheduler counts them, without the pod itself (`pods`)
    tolerations: tuple[Toleration, ...] = ()
    node_selector: Labels = NO_LABELS
    node_affinity: tuple[NodeSelectorTerm, ...] | None = (
        None  # terms are alternatives; None: no rule; (): matches nothing
    )
    preferred_nodes: tuple[PreferredNodes, ...] = ()
    affinity: tuple[PodAffinityTerm, ...] = ()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_affinity: tuple[PreferredPods, ...] = ()
    preferred_anti_affinity: tuple[PreferredPods, ...] = ()
    spread: tuple[TopologySpread, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    volumes: tuple[VolumeUse, ...] = ()
    priority: int = 0
    scheduler_name: str = "default-scheduler"
    never_preempts: bool = False  # by its preemptionPolicy
    required_node: str = ""  # spec.nodeName asked for before binding
    uses_resource_claims: bool = False
    malformed: str = ""  # what could not be read; such a pod fits nowhere and says why


class Owner(Struct, frozen=True, gc=False):
    """The controller behind a pod."""

    kind: str
    name: str
    uid: str = ""
    api_version: str = ""


class Pod(Struct, frozen=True, gc=False):
    """One pod, as its last version says."""

    name: str
    shape: PodShape
    uid: str = ""
    owner: Owner | None = None
    node_name: str = ""
    nominated_node: str = ""
    phase: str = "Pending"
    created_at: float = 0.0
    deleted_at: float | None = None  # deletion was requested
    unschedulable_at: float | None = None  # the scheduler said PodScheduled=False, Unschedulable
    is_gated: bool = False
    is_mirror: bool = False
    annotations: Labels = NO_LABELS  # only those growth reads
    grace_seconds: int = 30
    has_local_data: bool = False  # emptyDir or hostPath
    resource_version: str = ""
    is_ready: bool = False  # by its Ready condition
    ready_at: float | None = None  # since when, where that is said
    group: str = ""  # the object that says how many start together: its kind and name (`model/gang`)
    volumes_asked_at: float | None = None  # growth's scheduler said PodScheduled=False, WaitingForVolumes

    @property
    def namespace(self) -> str:
        return self.shape.namespace

    @property
    def key(self) -> str:
        return f"{self.shape.namespace}/{self.name}"

    @property
    def is_finished(self) -> bool:
        return self.phase in FINISHED

    @property
    def is_daemon(self) -> bool:
        return self.owner is not None and self.owner.kind == "DaemonSet"

    @property
    def counts_as_work(self) -> bool:
        """Does this pod keep a node from being idle? DaemonSet, mirror and finished pods do not."""
        return not (self.is_daemon or self.is_mirror or self.is_finished)


def class_checksum(shape: PodShape) -> str:
    """Of what pods made anew from one template have in common, by a rule that is spelt out: it is written in statuses,
    and must be the same in a later version, where shapes may have more to say. What a shape leaves at its default, and
    what is empty further down, is left out. Where the rule itself changes, its name does.
    """
    volumes = tuple(replace(each, claim="", disk="") for each in shape.volumes)
    plain = _plain(replace(shape, labels=NO_LABELS, volumes=volumes))
    said = {name: _without_empty(value) for name, value in plain.items() if value != _DEFAULTS.get(name)}
    return f"{_RULE}{hashlib.sha256(msgspec.json.encode(said, order='sorted')).hexdigest()[:_DIGITS]}"


def _plain(shape: PodShape) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(shape, enc_hook=dict)
    return found


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _without_empty(each) for name, each in value.items()}
        return {name: each for name, each in kept.items() if each or (each == 0 and each is not False)}
    return [_without_empty(each) for each in value] if isinstance(value, list | tuple) else value


_DEFAULTS: Final = _plain(PodShape())
