"""What will a node of this pool and offering look like: labels, taints, annotations, the DaemonSet pods that land on
it?

Asked by scale-up (for the solver), provisioning (what the machine boots with) and realising (what is written on the
node). Names of growth win over the provider's, the provider's over the pool's own labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from growth.model.labels import ARCHITECTURE, HOSTNAME, INSTANCE_TYPE, OPERATING_SYSTEM, ZONE, Labels
from growth.model.node import OFFERING_LABEL, POOL_LABEL, REQUEST_LABEL, STARTUP_TAINT, Taint
from growth.model.nodepool import NodePool, PoolTaint
from growth.model.offering import Offering
from growth.model.pod import PodShape
from growth.model.snapshot import DaemonSet
from growth.plan.world.fitting import stands

_TRANSIENT_PREFIXES: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


def choice_labels(pool: NodePool, offering: Offering) -> Labels:
    """Of any such node, without what names one of them."""
    well_known = {
        INSTANCE_TYPE: offering.server_type.lower(),
        ZONE: offering.zone,
        ARCHITECTURE: offering.architecture,
        OPERATING_SYSTEM: "linux",
    }
    ours = {POOL_LABEL: pool.name, OFFERING_LABEL: offering.name}
    return Labels({**pool.spec.labels, **well_known, **offering.labels, **ours})


def node_labels(pool: NodePool, offering: Offering, name: str) -> Labels:
    return choice_labels(pool, offering).with_items({HOSTNAME: name, REQUEST_LABEL: name})


def serving_taints(pool: NodePool) -> tuple[Taint, ...]:
    """Those that stay while the node serves."""
    return _taints(pool.spec.taints)


def boot_taints(pool: NodePool) -> tuple[Taint, ...]:
    """Those a node begins with: ours keeps the scheduler off, start-up taints wait for their own remover."""
    return (STARTUP_TAINT, *_taints(pool.spec.taints), *_taints(pool.spec.startup_taints))


def _taints(given: Iterable[PoolTaint]) -> tuple[Taint, ...]:
    return tuple(Taint(taint.key, taint.value, taint.effect) for taint in given)


def is_transient(taint: Taint, pool: NodePool | None) -> bool:
    """Does this taint go by itself while a node starts? Ours, the kubelet's, the cloud's, and the pool's start-up
    taints.
    """
    if taint.key == STARTUP_TAINT.key or taint.key.startswith(_TRANSIENT_PREFIXES):
        return True
    return pool is not None and any(taint.key == startup.key for startup in pool.spec.startup_taints)


def landing_daemons(
    daemon_sets: Iterable[DaemonSet], labels: Labels, taints: tuple[Taint, ...]
) -> tuple[DaemonSet, ...]:
    """DaemonSets whose pods will come to such a node."""
    return tuple(each for each in daemon_sets if stands(each.shape, labels, taints))


def daemon_shapes(daemon_sets: Iterable[DaemonSet], labels: Labels, taints: tuple[Taint, ...]) -> tuple[PodShape, ...]:
    return tuple(each.shape for each in landing_daemons(daemon_sets, labels, taints))
