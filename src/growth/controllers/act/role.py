"""Which rights does growth need? Generated from what it watches and from the table of actions, so it is never more than
is used.

Asked by `growth role` and the Helm chart. The answer is one ClusterRole for what is cluster-wide, one Role for the
Lease, and where join tokens are minted one Role in kube-system, which is only as wide as the admission policy beside
it. The ClusterRole shrinks with what is turned off:

| part | granted |
| --- | --- |
| watch | always; PodGroups are asked for only where pods name one |
| watchBuffers, watchWarmPools | unless `featureGates` turns them off |
| act | unless growth only observes; what a provider needs is in it |
| watchKubeScheduler | where growth stands in for it (`plans.scheduler.servesDefault`): its Lease |
| actBuffers, actWarmPools, actScheduler | unless growth only observes, and where that is turned on |
| page | where the page is exposed: it has tokens reviewed |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from growth.controllers.act.apply import BUFFERS, EFFECTS, SCHEDULER, WARM_POOLS
from growth.controllers.act.join_tokens import RIGHTS as TOKEN_RIGHTS
from growth.controllers.act.join_tokens import JoinTokens
from growth.controllers.act.pods import scale_rights
from growth.controllers.configuration import Configuration
from growth.controllers.observe.buffers import BUFFER_KINDS
from growth.controllers.observe.kube_scheduler import RIGHTS as LEASE_OF_KUBE_SCHEDULER
from growth.controllers.observe.observer import WATCHED
from growth.controllers.observe.pod_groups import GROUP_KINDS
from growth.kube.api.resources import (
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    POOL_AUTOSCALERS,
    TOKEN_REVIEWS,
    USER_REVIEWS,
    Resource,
    Right,
)
from growth.kube.cache.pods import resource_of
from growth.kube.crds.policies import NAMESPACE as TOKEN_NAMESPACE
from growth.kube.crds.policies import token_policies
from growth.model.warmpool import KNOWN_KINDS, REPLICA_SET, WarmPoolKind

_RBAC: Final = "rbac.authorization.k8s.io"
_PROVIDER_RIGHTS: Final[dict[str, tuple[Right, ...]]] = {
    "kwok": (Right(NODES, ("create", "delete", "get", "list")),),  # there a machine is a Node object
}


class Features(Struct, frozen=True):
    """What growth is to do, as far as its rights depend on it; `kinds` are the user's own that it may scale."""

    provider: str = "kwok"
    acts: bool = True
    serves_buffers: bool = True
    serves_warm_pools: bool = True
    schedules: bool = True
    kinds: tuple[WarmPoolKind, ...] = ()
    exposes_page: bool = False  # others than its own machine may reach the page, with tokens that are reviewed
    stands_in: bool = True  # for kube-scheduler, whose Lease it looks at


def features_of(configuration: Configuration) -> Features:
    plans = configuration.plans
    served = (configuration.serves_buffers, configuration.serves_warm_pools, plans.scheduler.enabled)
    page = configuration.page.enabled and configuration.page.is_exposed
    acts, stands_in = not configuration.observe, plans.scheduler.stands_in
    return Features(configuration.provider, acts, *served, plans.warm_pools.kinds, page, stands_in)


def parts(provider: str, kinds: tuple[WarmPoolKind, ...] = ()) -> dict[str, tuple[Right, ...]]:
    """All that a running growth may use outside its own namespace, by the table above."""
    told = (Right(NAMESPACES, ("get",)), Right(EVENTS, ("create", "patch")))  # kube-system's UID names the cluster
    return {
        "watch": (*_watched((*WATCHED, *GROUP_KINDS.values())), *told),
        "watchBuffers": _watched(BUFFER_KINDS),
        "watchKubeScheduler": LEASE_OF_KUBE_SCHEDULER,
        "watchWarmPools": (*_watched([POOL_AUTOSCALERS]), *_followed((*KNOWN_KINDS, REPLICA_SET, *kinds))),
        "act": (*_acted(""), *_PROVIDER_RIGHTS.get(provider, ())),
        "actBuffers": _acted(BUFFERS),
        "actWarmPools": (*_acted(WARM_POOLS), *scale_rights(kinds)),
        "actScheduler": _acted(SCHEDULER),
        "page": tuple(Right(review, ("create",)) for review in (TOKEN_REVIEWS, USER_REVIEWS)),
    }


def rights(features: Features) -> tuple[Right, ...]:
    """What these features use outside growth's own namespace."""
    served = {
        "": True,
        "Buffers": features.serves_buffers,
        "WarmPools": features.serves_warm_pools,
        "Scheduler": features.schedules,
        "KubeScheduler": features.stands_in,
    }
    ways = ("watch", "act") if features.acts else ("watch",)
    found = parts(features.provider, features.kinds)
    granted = [f"{way}{feature}" for way in ways for feature, is_served in served.items() if is_served]
    granted += ["page"] if features.exposes_page else []
    return tuple(right for part in granted for right in found.get(part, ()))


def _watched(resources: Iterable[Resource]) -> tuple[Right, ...]:
    return tuple(Right(resource, ("list", "watch")) for resource in resources)


def _followed(kinds: Iterable[WarmPoolKind]) -> tuple[Right, ...]:
    return tuple(
        Right(resource_of(kind), ("get",), "scale") if kind.reads_scale else Right(resource_of(kind), ("list", "watch"))
        for kind in kinds
    )


def _acted(feature: str) -> tuple[Right, ...]:
    return tuple(right for effect in EFFECTS.values() if effect.feature == feature for right in effect.rights)


def lease_rights(namespace: str, name: str) -> tuple[Right, ...]:
    """What leader election uses, in our own namespace. Who creates an object cannot be bound to its name."""
    return (
        Right(LEASES, ("create",), namespace=namespace),
        Right(LEASES, ("get", "update"), namespace=namespace, name=name),
    )


def manifests(
    features: Features, namespace: str = "growth-system", name: str = "growth", tokens: JoinTokens | None = None
) -> list[dict[str, Any]]:
    """Namespace, ServiceAccount, roles and bindings, ready for `kubectl apply`; `name` is the installation's."""
    role, everywhere = {"apiGroup": _RBAC, "name": name}, {"name": name, "labels": _labels(name)}
    local = {"name": name, "namespace": namespace, "labels": _labels(name)}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": local},
        *_bound_role({**role, "kind": "ClusterRole"}, everywhere, rights(features), name, namespace),
        *_bound_role({**role, "kind": "Role"}, local, lease_rights(namespace, name), name, namespace),
        *(token_manifests(name, name, namespace, tokens.group) if tokens is not None and tokens.mint else ()),
    ]


def token_manifests(name: str, account: str, namespace: str, group: str) -> list[dict[str, Any]]:
    """What minting join tokens needs: the right to create and delete Secrets in kube-system, and the policy that leaves
    only such tokens of it.
    """
    metadata = {"name": f"{name}-join-tokens", "namespace": TOKEN_NAMESPACE, "labels": _labels(name)}
    user = f"system:serviceaccount:{namespace}:{account}"
    policies = token_policies(f"{name}-join-tokens.growth.dev", user, group)
    role = {"apiGroup": _RBAC, "kind": "Role", "name": f"{name}-join-tokens"}
    return [*policies, *_bound_role(role, metadata, TOKEN_RIGHTS, account, namespace)]


def _bound_role(
    role: dict[str, str], metadata: dict[str, Any], needed: Iterable[Right], account: str, namespace: str
) -> list[dict[str, Any]]:
    """A role, and the binding that gives it to a service account."""
    version, kind = f"{_RBAC}/v1", role["kind"]
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]
    binding = {"metadata": metadata, "roleRef": role, "subjects": subjects}
    return [
        {"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules(needed)},
        {"apiVersion": version, "kind": f"{kind}Binding", **binding},
    ]


def rules(needed: Iterable[Right]) -> list[dict[str, list[str]]]:
    """Policy rules, one for each resource, verbs merged and sorted."""
    merged: dict[tuple[str, str, str], set[str]] = {}
    for right in needed:
        plural = f"{right.resource.plural}/{right.subresource}" if right.subresource else right.resource.plural
        merged.setdefault((right.resource.group, plural, right.name), set()).update(right.verbs)
    return [
        {"apiGroups": [group], "resources": [plural], **_named(name), "verbs": sorted(verbs)}
        for (group, plural, name), verbs in sorted(merged.items())
    ]


def _named(name: str) -> dict[str, list[str]]:
    return {"resourceNames": [name]} if name else {}


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "growth", "app.kubernetes.io/instance": name}
