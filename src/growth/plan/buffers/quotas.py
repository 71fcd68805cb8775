"""How many chunks of a buffer would a namespace's ResourceQuotas admit? Asked by `plan/buffers/virtual_pods`, for the
oldest buffer first.

Room kept for pods that could never be created would be money for nothing. A quota counts only pods that all its scopes
match; each buffer is charged before the next one is asked, so that two buffers are never promised the same quota."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from growth.model.capacitybuffer import BufferTemplate, QuotaScope, ResourceQuota
from growth.model.resources import PODS

_COMPUTE = ("cpu", "memory", "ephemeral-storage")


class Granted(Struct, frozen=True):
    """How many of the chunks asked for, and which quota allows no more."""

    count: int
    limited_by: str = ""


class Quotas:
    """What is left in each quota while buffers are charged one after the other."""

    def __init__(self, quotas: Mapping[str, ResourceQuota]) -> None:
        self._by_namespace: dict[str, list[ResourceQuota]] = {}
        self._left: dict[tuple[str, str], dict[str, int]] = {}
        for key in sorted(quotas):
            quota = quotas[key]
            self._by_namespace.setdefault(quota.namespace, []).append(quota)
            self._left[quota.namespace, quota.name] = {
                name: hard - quota.used.get(name, 0) for name, hard in quota.hard.items()
            }

    def grant(self, namespace: str, template: BufferTemplate, wanted: int) -> Granted:
        usage = usage_of(template)
        counting = [quota for quota in self._by_namespace.get(namespace, ()) if counts_pod(quota.scopes, template)]
        count, limited_by = wanted, ""
        for quota in counting:
            most, name = _chunks_left(self._left[namespace, quota.name], usage)
            if most < count:
                count, limited_by = most, f"ResourceQuota {quota.name} ({name})"
        for quota in counting:
            left = self._left[namespace, quota.name]
            for name in left:
                left[name] -= usage.get(name, 0) * count
        return Granted(count, limited_by)


def _chunks_left(left: Mapping[str, int], usage: Mapping[str, int]) -> tuple[int, str]:
    """Of the tightest resource; a quota on something that every pod must state, and these do not, admits none."""
    found = [(_times(left[name], usage.get(name), name), name) for name in sorted(left)]
    known = [(count, name) for count, name in found if count is not None]
    return min(known, default=(1 << 31, ""))


def _times(left: int, used: int | None, name: str) -> int | None:
    if used:
        return max(0, left) // used
    return 0 if used is None and _must_be_stated(name) else None


def _must_be_stated(name: str) -> bool:
    plain = name.removeprefix("requests.").removeprefix("limits.")
    return plain in _COMPUTE and name not in (
        "ephemeral-storage",
        "requests.ephemeral-storage",
        "limits.ephemeral-storage",
    )


def usage_of(template: BufferTemplate) -> dict[str, int]:
    """What one pod counts, under every name that a quota may use."""
    found = {PODS: 1, "count/pods": 1}
    for name, amount in template.shape.requests.items():
        found[f"requests.{name}"] = amount
        if name in _COMPUTE or name.startswith("hugepages-"):
            found[name] = amount
    return {**found, **{f"limits.{name}": amount for name, amount in template.limits.items()}}


# ------------------------------------------------------------------------------------------- scopes


def counts_pod(scopes: Iterable[QuotaScope], template: BufferTemplate) -> bool:
    return all(_matches(scope, template) for scope in scopes)


def _matches(scope: QuotaScope, template: BufferTemplate) -> bool:
    is_best_effort = not template.shape.requests and not template.limits
    answers = {
        "Terminating": template.has_deadline,
        "NotTerminating": not template.has_deadline,
        "BestEffort": is_best_effort,
        "NotBestEffort": not is_best_effort,
        "CrossNamespacePodAffinity": any(
            term.namespaces or term.namespace_selector
            for term in template.shape.affinity + template.shape.anti_affinity
        ),
    }
    if scope.name == "PriorityClass":
        return _matches_class(scope, template.priority_class)
    return answers.get(scope.name, False)


def _matches_class(scope: QuotaScope, name: str) -> bool:
    if scope.operator in ("In", "NotIn"):
        return (name in scope.values) == (scope.operator == "In")
    return bool(name) == (scope.operator == "Exists")
