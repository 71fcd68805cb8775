"""Which rights does growth need? Generated from what it watches and from the table of actions, so it is never more than is used.

Asked by `growth role` and the Helm chart. The answer is one ClusterRole for what is cluster-wide, one Role for the Lease.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from growth.controllers.apply import WAYS
from growth.controllers.bufferwatch import BUFFER_KINDS
from growth.controllers.observe import WATCHED
from growth.controllers.rights import Right
from growth.controllers.warmways import scale_rights
from growth.kube.resources import EVENTS, LEASES, NAMESPACES, NODES
from growth.model.warmpool import WarmPoolKind

_PROVIDER_RIGHTS: Final[dict[str, tuple[Right, ...]]] = {
    "kwok": (Right(NODES, ("create", "delete", "get", "list")),),  # there a machine is a Node object
}


def rights(provider: str, kinds: tuple[WarmPoolKind, ...] = ()) -> tuple[Right, ...]:
    """All that a running growth uses outside its own namespace; `kinds` are those of the user's own that it may scale."""
    watched = tuple(Right(resource, ("list", "watch")) for resource in (*WATCHED, *BUFFER_KINDS))
    acted = tuple(right for way in WAYS.values() for right in way.rights)
    return (
        *watched,
        *acted,
        *scale_rights(kinds),
        Right(NAMESPACES, ("get",)),  # kube-system's UID is the cluster's identity
        Right(EVENTS, ("create", "patch")),
        *_PROVIDER_RIGHTS.get(provider, ()),
    )


def lease_rights(namespace: str) -> tuple[Right, ...]:
    """What leader election uses, in our own namespace."""
    return (Right(LEASES, ("create", "get", "update"), namespace=namespace),)


def manifests(provider: str, namespace: str = "growth-system", name: str = "growth", kinds: tuple[WarmPoolKind, ...] = ()) -> list[dict[str, Any]]:
    """Namespace, ServiceAccount, roles and bindings, ready for `kubectl apply`."""
    cluster_role = {"name": name, "labels": _labels(name)}
    local = {"name": name, "namespace": namespace, "labels": _labels(name)}
    group = "rbac.authorization.k8s.io"
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    reference = {"apiGroup": group, "name": name}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": local},
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": cluster_role, "rules": rules(rights(provider, kinds))},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": cluster_role,
            "roleRef": {**reference, "kind": "ClusterRole"},
            "subjects": subjects,
        },
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": local, "rules": rules(lease_rights(namespace))},
        {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": local, "roleRef": {**reference, "kind": "Role"}, "subjects": subjects},
    ]


def rules(needed: Iterable[Right]) -> list[dict[str, list[str]]]:
    """Policy rules, one for each resource, verbs merged and sorted."""
    merged: dict[tuple[str, str], set[str]] = {}
    for right in needed:
        plural = f"{right.resource.plural}/{right.subresource}" if right.subresource else right.resource.plural
        merged.setdefault((right.resource.group, plural), set()).update(right.verbs)
    return [{"apiGroups": [group], "resources": [plural], "verbs": sorted(verbs)} for (group, plural), verbs in sorted(merged.items())]


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "growth", "app.kubernetes.io/instance": name}
