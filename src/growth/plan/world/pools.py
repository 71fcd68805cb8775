"""Which pools may a pod use, what does a pool buy, and what will its nodes look like? Asked by nearly every plan.

| a pod says | it may use |
| --- | --- |
| nodeSelector growth.dev/pool: x | x |
| required affinity growth.dev/pool In or Exists | every pool that matches, by priority |
| nothing of the kind | the pool named default, where there is one |

A pod without an architecture goes to those its pool lists; to the only one the pool has; of a mixed pool to amd64.

A node's labels: names of growth win over the provider's, the provider's over the pool's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from growth.model.labels import (
    ARCHITECTURE,
    HOSTNAME,
    INSTANCE_TYPE,
    OPERATING_SYSTEM,
    ZONE,
    Labels,
    NodeSelectorTerm,
    Requirement,
)
from growth.model.node import OFFERING_LABEL, POOL_LABEL, REQUEST_LABEL, STARTUP_TAINT, Node, Taint
from growth.model.nodepool import DEFAULT_POOL, DisruptionBudget, NodePool, PoolTaint, ServerTypeChoice
from growth.model.offering import Offering
from growth.model.pod import PodShape
from growth.model.settings import Settings
from growth.model.snapshot import DaemonSet, Snapshot
from growth.solver.rules.fit import may_run_on
from growth.solver.rules.selectors import any_term_matches_labels

_NAMES_A_MACHINE = (ARCHITECTURE, INSTANCE_TYPE, OFFERING_LABEL)
Alternative = tuple[Requirement, ...]
OfferingKey = tuple[str, str]  # an offering's name and its location

_TRANSIENT_PREFIXES: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
NO_POOL, MISSING_POOL, NAMESPACE_NOT_ALLOWED = REASONS = ("NoPool", "MissingPool", "NamespaceNotAllowed")


class PoolMatch(Struct, frozen=True):
    """The pools of a pod, the preferred first; or why there is none."""

    names: tuple[str, ...] = ()
    is_implicit: bool = False
    reason: str = ""
    message: str = ""


def pools_for(shape: PodShape, pools: Mapping[str, NodePool]) -> PoolMatch:
    named = shape.node_selector.get(POOL_LABEL)
    if named is not None:
        return _allowed(shape, (named,) if named in pools else (), pools, f"NodePool {named} does not exist")
    terms = shape.node_affinity or ()
    if any(_asks_for_pool(term) for term in terms):
        found = tuple(name for name in pools if any(_term_allows(term, name) for term in terms))
        return _allowed(shape, found, pools, f"no NodePool matches {_pool_wishes(terms)}")
    if DEFAULT_POOL not in pools:
        return PoolMatch(reason=NO_POOL, message="the pod names no NodePool and there is none called default")
    return replace(_allowed(shape, (DEFAULT_POOL,), pools, ""), is_implicit=True)


def _allowed(shape: PodShape, names: tuple[str, ...], pools: Mapping[str, NodePool], missing: str) -> PoolMatch:
    if not names:
        return PoolMatch(reason=MISSING_POOL, message=missing)
    open_to = [
        name
        for name in names
        if not pools[name].spec.allowed_namespaces or shape.namespace in pools[name].spec.allowed_namespaces
    ]
    if not open_to:
        told = ", ".join(sorted(names))
        return PoolMatch(
            reason=NAMESPACE_NOT_ALLOWED, message=f"NodePool {told} does not serve namespace {shape.namespace}"
        )
    return PoolMatch(tuple(sorted(open_to, key=lambda name: (-pools[name].spec.priority, name))))


def _asks_for_pool(term: NodeSelectorTerm) -> bool:
    return any(one.key == POOL_LABEL and one.operator in ("In", "Exists") for one in term.expressions)


def _term_allows(term: NodeSelectorTerm, pool: str) -> bool:
    """By what it says of pools alone; a term that says nothing means the default pool."""
    if not _asks_for_pool(term):
        return pool == DEFAULT_POOL
    on_pools = NodeSelectorTerm(tuple(one for one in term.expressions if one.key == POOL_LABEL))
    return any_term_matches_labels((on_pools,), {POOL_LABEL: pool})


def _pool_wishes(terms: Iterable[NodeSelectorTerm]) -> str:
    return " or ".join(str(one) for term in terms for one in term.expressions if one.key == POOL_LABEL)


def nodes_by_pool(snapshot: Snapshot) -> Mapping[str, tuple[Node, ...]]:
    """By the NodePool they belong to; those of none under the empty name."""

    def group() -> dict[str, tuple[Node, ...]]:
        found: dict[str, list[Node]] = {}
        for node in snapshot.nodes.values():
            found.setdefault(node.pool, []).append(node)
        return {pool: tuple(nodes) for pool, nodes in found.items()}

    return snapshot.memo.recall("nodes by pool", (snapshot.nodes,), group)


# -------------------------------------------------------------------------------- what a pool sells


def by_key(offerings: Iterable[Offering]) -> dict[OfferingKey, Offering]:
    return {(offering.name, offering.location): offering for offering in offerings}


def server_type_of(offering: str) -> str:
    """An offering is called <provider>-<server type in lower case>."""
    return offering.partition("-")[2]


def choice_of_type(pool: NodePool, offering: str) -> ServerTypeChoice | None:
    """The entry of the pool that this offering belongs to, if any."""
    wanted = server_type_of(offering)
    return next((choice for choice in pool.spec.server_types if choice.name.lower() == wanted), None)


def offerings_of(pool: NodePool, offerings: Iterable[Offering]) -> tuple[Offering, ...]:
    """Everything in the catalogue that the pool lists, in its locations, in stock or not."""
    types = {choice.name.lower() for choice in pool.spec.server_types}
    places = {location.lower() for location in pool.spec.locations}
    return tuple(
        each
        for each in offerings
        if each.server_type.lower() in types and (not places or each.location.lower() in places)
    )


def window_seconds(budget: DisruptionBudget, settings: Settings) -> float:
    """How long a node that went uses the budget up."""
    return settings.disruption_window_seconds if budget.window_seconds is None else float(budget.window_seconds)


def longest_window_seconds(pool: NodePool, settings: Settings) -> float:
    """Of all its budgets."""
    windows = (window_seconds(budget, settings) for budget in pool.spec.budgets)
    return max(windows, default=settings.disruption_window_seconds)


def why_not_buying(pool: NodePool, is_paused: bool) -> str:
    """Why nothing is bought for this pool now, whatever the demand. Empty: it may buy."""
    if pool.deleted_at is not None:
        return f"NodePool {pool.name} is being deleted"
    if is_paused:
        return "growth is paused"
    return f"NodePool {pool.name} is paused" if pool.is_paused else ""


def architectures_of(pool: NodePool, offerings: Iterable[Offering]) -> tuple[str, ...]:
    """Where pods without an architecture of their own go; empty: the pool leaves nothing to choose."""
    sold = sorted({offering.architecture for offering in offerings_of(pool, offerings)})
    if pool.spec.architectures:
        return tuple(sorted(pool.spec.architectures)) if set(sold) - set(pool.spec.architectures) else ()
    return ("amd64",) if len(sold) > 1 else ()


# ---------------------------------------------------------- a pod's wishes, as the solver sees them


def with_pool_rules(shape: PodShape, match: PoolMatch, architectures: Mapping[str, tuple[str, ...]]) -> PodShape:
    """The pod with what its pools add: the architectures it may go to."""
    terms: Iterable[NodeSelectorTerm] = (
        shape.node_affinity if shape.node_affinity is not None else (NodeSelectorTerm(),)
    )
    if shape.node_affinity == () or any(key in shape.node_selector for key in _NAMES_A_MACHINE):
        alternatives: tuple[Alternative, ...] = ((),)
    else:
        alternatives = _alternatives(match, architectures)
    combined = tuple(one for term in terms for one in _combined(term, alternatives, shape.node_affinity is None))
    return (
        shape if combined == (shape.node_affinity or (NodeSelectorTerm(),)) else replace(shape, node_affinity=combined)
    )


def _alternatives(match: PoolMatch, architectures: Mapping[str, tuple[str, ...]]) -> tuple[Alternative, ...]:
    """One for each pool; where the pod names none, nodes outside its pool stay as they are."""
    if not any(architectures.get(name) for name in match.names):
        return ((),)
    found = [_of_pool(name, architectures.get(name, ())) for name in match.names]
    if match.is_implicit:
        found.append((Requirement(POOL_LABEL, "NotIn", match.names),))
    return tuple(found)


def _of_pool(name: str, architectures: tuple[str, ...]) -> Alternative:
    on_pool = Requirement(POOL_LABEL, "In", (name,))
    return (on_pool, Requirement(ARCHITECTURE, "In", architectures)) if architectures else (on_pool,)


def _combined(
    term: NodeSelectorTerm, alternatives: tuple[Alternative, ...], is_free: bool
) -> Iterable[NodeSelectorTerm]:
    """A term that names a machine itself, or matches nothing anyway, is left as it is."""
    is_empty = not (term.expressions or term.fields) and not is_free
    if is_empty or any(one.key in _NAMES_A_MACHINE for one in term.expressions):
        return (term,)
    return tuple(replace(term, expressions=term.expressions + alternative) for alternative in alternatives)


# --------------------------------------------------------------------- what a node of it looks like


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
    return tuple(each for each in daemon_sets if may_run_on(each.shape, labels, taints))


def daemon_shapes(daemon_sets: Iterable[DaemonSet], labels: Labels, taints: tuple[Taint, ...]) -> tuple[PodShape, ...]:
    return tuple(each.shape for each in landing_daemons(daemon_sets, labels, taints))
