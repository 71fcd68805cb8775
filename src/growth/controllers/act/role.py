"""Which rights does growth need? Generated from what it watches and from the table of actions, so it is never more than
is used.

Asked by `growth role` and the Helm chart. The answer is one ClusterRole for what is cluster-wide, one Role for the
Lease, and where join tokens are minted one Role in kube-system, which is only as wide as the admission policy beside
it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from growth.controllers.act.apply import EFFECTS
from growth.controllers.act.join_tokens import RIGHTS as TOKEN_RIGHTS
from growth.controllers.act.join_tokens import JoinTokens
from growth.controllers.act.pods import scale_rights
from growth.controllers.observe.buffers import BUFFER_KINDS
from growth.controllers.observe.observer import WATCHED
from growth.kube.api.resources import EVENTS, LEASES, NAMESPACES, NODES, TOKEN_REVIEWS, USER_REVIEWS, Right
from growth.kube.crds.policies import NAMESPACE as TOKEN_NAMESPACE
from growth.kube.crds.policies import token_policies
from growth.model.warmpool import WarmPoolKind

_RBAC: Final = "rbac.authorization.k8s.io"
_PROVIDER_RIGHTS: Final[dict[str, tuple[Right, ...]]] = {
    "kwok": (Right(NODES, ("create", "delete", "get", "list")),),  # there a machine is a Node object
}

PAGE_RIGHTS: Final = tuple(Right(review, ("create",)) for review in (TOKEN_REVIEWS, USER_REVIEWS))  # if it is exposed


def rights(provider: str, kinds: tuple[WarmPoolKind, ...] = (), *, acts: bool = True) -> tuple[Right, ...]:
    """All that a running growth uses outside its own namespace; `kinds` are the user's own that it may scale. One that
    only observes uses less.
    """
    watched = tuple(Right(resource, ("list", "watch")) for resource in (*WATCHED, *BUFFER_KINDS))
    acted = tuple(right for way in EFFECTS.values() for right in way.rights)
    told = (Right(NAMESPACES, ("get",)), Right(EVENTS, ("create", "patch")))  # kube-system's UID names the cluster
    if not acts:
        return (*watched, *told)
    return (*watched, *acted, *scale_rights(kinds), *told, *_PROVIDER_RIGHTS.get(provider, ()))


def lease_rights(namespace: str) -> tuple[Right, ...]:
    """What leader election uses, in our own namespace."""
    return (Right(LEASES, ("create", "get", "update"), namespace=namespace),)


def manifests(
    provider: str,
    namespace: str = "growth-system",
    name: str = "growth",
    kinds: tuple[WarmPoolKind, ...] = (),
    tokens: JoinTokens | None = None,
    *,
    exposes_page: bool = False,
) -> list[dict[str, Any]]:
    """Namespace, ServiceAccount, roles and bindings, ready for `kubectl apply`."""
    role, everywhere = {"apiGroup": _RBAC, "name": name}, {"name": name, "labels": _labels(name)}
    everything = (*rights(provider, kinds), *(PAGE_RIGHTS if exposes_page else ()))
    local = {"name": name, "namespace": namespace, "labels": _labels(name)}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": local},
        *_bound_role({**role, "kind": "ClusterRole"}, everywhere, everything, name, namespace),
        *_bound_role({**role, "kind": "Role"}, local, lease_rights(namespace), name, namespace),
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
    merged: dict[tuple[str, str], set[str]] = {}
    for right in needed:
        plural = f"{right.resource.plural}/{right.subresource}" if right.subresource else right.resource.plural
        merged.setdefault((right.resource.group, plural), set()).update(right.verbs)
    return [
        {"apiGroups": [group], "resources": [plural], "verbs": sorted(verbs)}
        for (group, plural), verbs in sorted(merged.items())
    ]


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "growth", "app.kubernetes.io/instance": name}
