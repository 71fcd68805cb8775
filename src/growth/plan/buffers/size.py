"""How many chunks does a buffer hold, of which shape? Asked for each buffer by `plan/buffers/virtual_pods`, and offline
by `growth explain buffer`.

| replicas | percentage | size by `bufferSizing: capped` (default) | by `bufferSizing: upstream` |
| --- | --- | --- | --- |
| r | – | r | r |
| – | p | ⌊p·n/100⌋ | ⌈p·n/100⌉ |
| r | p | the smaller of both | the larger of both |
| – | – | as many as fit the limits | the same |

An error in reading what a buffer refers to is no answer: the size in its status and the template in its PodTemplate
stay. Without them it has no size, and nothing is bought; a quota that cannot be read grants nothing more.

n is what the workload asks for now. `limits` then caps the size at as many whole chunks as fit; nothing is rounded up
into them.

Room kept for pods that could never be created would be money for nothing, so a namespace's ResourceQuotas admit fewer:
`Quotas` grants to the oldest buffer first. A quota counts only pods that all its scopes match; each buffer is charged
before the next one is asked, so that two buffers are never promised the same quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from growth.model.capacitybuffer import (
    BufferTemplate,
    BufferWorld,
    CapacityBuffer,
    CapacityBufferSpec,
    QuotaScope,
    ResourceQuota,
    reference_key,
)
from growth.model.quantity import QuantityError, parse_quantity
from growth.model.resources import CPU, PODS, Resources, format_amount

MOST_CHUNKS: Final = 10_000  # in one buffer: more is a slip of the pen, and is said so

Sizing = Literal["capped", "upstream"]


class BufferSize(Struct, frozen=True):
    """How many chunks a buffer holds and of which shape, or the reason why it has none."""

    count: int = 0
    template: BufferTemplate | None = None
    reason: str = "AttributesSetSuccessfully"
    message: str = ""
    is_remembered: bool = False  # what it refers to cannot be read: the size and template that were known stay
    is_awaited: bool = False  # nobody has looked at it yet

    @property
    def is_resolved(self) -> bool:
        return self.reason == "AttributesSetSuccessfully"

    @property
    def is_ready(self) -> bool:
        return self.is_resolved or self.is_remembered


def size_buffer(buffer: CapacityBuffer, world: BufferWorld, sizing: Sizing) -> BufferSize:
    """Before quotas."""
    problem = why_not_valid(buffer.spec)
    if problem:
        return _unresolved(problem)
    found = _resolve(buffer, world)
    if isinstance(found, BufferSize):
        return found
    replicas, template = found
    requests = template.shape.requests
    if template.refusal or template.shape.malformed:
        return _unresolved(template.refusal or f"its pod template cannot be read: {template.shape.malformed}")
    try:
        count = chunks(buffer.spec, replicas, requests, sizing)
    except QuantityError as error:
        return _unresolved(f"spec.limits: {error}")
    if count is None:
        return _unresolved("nothing bounds its size: its pods ask for none of the resources in spec.limits")
    if count > MOST_CHUNKS:
        return _unresolved(f"it would hold {count} chunks; growth keeps at most {MOST_CHUNKS} in one buffer")
    if count == 0:
        return BufferSize(0, template, "BufferEmpty", _why_empty(buffer.spec, requests))
    return BufferSize(count, template, message=f"{count} chunks of {requests or 'pods that ask for nothing'}")


def _unresolved(message: str, reason: str = "ResolutionFailed") -> BufferSize:
    return BufferSize(reason=reason, message=message)


def why_not_valid(spec: CapacityBufferSpec) -> str:
    """What the API server checks as well, where the definition in the cluster does so."""
    if spec.pod_template_ref is not None and spec.scalable_ref is not None:
        return "podTemplateRef and scalableRef are both set: a buffer has exactly one of them"
    if spec.pod_template_ref is None and spec.scalable_ref is None:
        return "neither podTemplateRef nor scalableRef is set: a buffer has exactly one of them"
    if (spec.replicas or 0) < 0 or (spec.percentage or 0) < 0:
        return "replicas and percentage must not be negative"
    if spec.pod_template_ref is not None and spec.replicas is None and spec.limits is None:
        return "with podTemplateRef, replicas or limits must be set"
    return ""


def _resolve(buffer: CapacityBuffer, world: BufferWorld) -> tuple[int, BufferTemplate] | BufferSize:
    """How many replicas the workload asks for now, and the template of its pods."""
    spec = buffer.spec
    if spec.pod_template_ref is not None:
        name = spec.pod_template_ref.name
        stored = world.templates.get(f"{buffer.namespace}/{name}")
        if stored is None and world.unread_templates:
            return _remembered(buffer, world, world.unread_templates)
        if stored is None:
            return _unresolved(f"PodTemplate {name} is not in namespace {buffer.namespace}", "PodTemplateNotFound")
        return 0, stored.template
    if spec.scalable_ref is None:
        raise AssertionError("checked before")
    scalable = world.scalables.get(reference_key(buffer.namespace, spec.scalable_ref))
    told = f"{spec.scalable_ref.kind} {spec.scalable_ref.name}"
    if scalable is not None and scalable.is_unread:
        found = _remembered(buffer, world, f"{told} cannot be read: {scalable.why}")
        return replace(found, is_awaited=scalable.is_awaited)
    if scalable is None or scalable.is_missing:
        return _unresolved(f"{told} is not in namespace {buffer.namespace}", "ScalableRefNotFound")
    if scalable.template is None:
        return _unresolved(scalable.why or f"{told} has no pod template")
    return scalable.replicas, scalable.template


def _remembered(buffer: CapacityBuffer, world: BufferWorld, why: str) -> BufferSize:
    """What its status and its PodTemplate know of it."""
    stored, count = world.templates.get(f"{buffer.namespace}/{buffer.template_name}"), buffer.status.replicas or 0
    if stored is None or stored.owner_uid != buffer.uid or not count:
        return _unresolved(why)
    message = f"{why}; its last size, {count} chunks, stays"
    return BufferSize(count, stored.template, "ResolutionFailed", message, is_remembered=True)


# --------------------------------------------------------------------------------------- arithmetic


def chunks(spec: CapacityBufferSpec, workload: int, requests: Resources, sizing: Sizing) -> int | None:
    """By the table above; None if nothing bounds it. Raises QuantityError for limits that cannot be read."""
    wanted = _wanted(spec, workload, sizing)
    most = chunks_within(spec.limits, requests) if spec.limits is not None else None
    if wanted is None:
        return most if spec.limits is not None else 0
    return wanted if most is None else min(wanted, most)


def _wanted(spec: CapacityBufferSpec, workload: int, sizing: Sizing) -> int | None:
    percentage = spec.percentage if spec.scalable_ref is not None else None
    if percentage is None:
        return spec.replicas
    share = _share(percentage, workload, sizing)
    if spec.replicas is None:
        return share
    return min(spec.replicas, share) if sizing == "capped" else max(spec.replicas, share)


def _share(percentage: int, workload: int, sizing: Sizing) -> int:
    return percentage * workload // 100 if sizing == "capped" else -(-percentage * workload // 100)


def chunks_within(limits: dict[str, str | int | float], requests: Resources) -> int | None:
    """How many whole chunks the limits hold; None if they say nothing about what a chunk asks for."""
    return min((count for _, count in _within(limits, requests)), default=None)


def _within(limits: dict[str, str | int | float], requests: Resources) -> Iterator[tuple[str, int]]:
    """How many whole chunks each limit holds that concerns them."""
    for name, text in sorted(limits.items()):
        amount = parse_quantity(text)
        if amount < 0:
            raise QuantityError(f"{name}: {text!r} is negative")
        asked = 1 if name == PODS else requests[name]
        if asked > 0:
            yield name, int((amount * 1000 if name == CPU else Fraction(amount)) // asked)


def calculation(spec: CapacityBufferSpec, workload: int, requests: Resources, sizing: Sizing) -> list[str]:
    """How `chunks` comes to its number, one step in a line."""
    lines, is_capped = list[str](), sizing == "capped"
    if spec.replicas is not None:
        lines.append(f"replicas = {spec.replicas}")
    if spec.percentage is not None and spec.scalable_ref is not None:
        share = f"{spec.percentage} % of {workload} replicas, rounded {'down' if is_capped else 'up'}"
        lines.append(f"percentage = {share} = {_share(spec.percentage, workload, sizing)}")
    if len(lines) > 1:
        lines.append(f"the {'smaller' if is_capped else 'larger'} of both = {_wanted(spec, workload, sizing)}")
    for name, count in _within(spec.limits or {}, requests):
        asked = "1" if name == PODS else format_amount(name, requests[name])
        lines.append(f"limits = whole chunks of {asked} in {name} {(spec.limits or {})[name]} = {count}")
    return [*lines, f"size = {chunks(spec, workload, requests, sizing)}"]


def _why_empty(spec: CapacityBufferSpec, requests: Resources) -> str:
    if spec.replicas is None and spec.percentage is None and spec.limits is None:
        return "the buffer holds nothing: neither replicas, percentage nor limits are set"
    if spec.limits and chunks_within(spec.limits, requests) == 0:
        told = ", ".join(
            f"{name} {format_amount(name, requests[name])}" for name in sorted(spec.limits) if requests[name]
        )
        return f"the buffer holds nothing: its limits are smaller than one chunk ({told})"
    return "the buffer holds nothing: replicas or percentage make no whole chunk"


_COMPUTE = ("cpu", "memory", "ephemeral-storage")


class Grant(Struct, frozen=True):
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

    def grant(self, namespace: str, template: BufferTemplate, wanted: int) -> Grant:
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
        return Grant(count, limited_by)


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
    return name.removeprefix("requests.").removeprefix("limits.") in ("cpu", "memory")


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
