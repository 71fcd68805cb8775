"""What would the API server make of pods from this template? growth may not create pods to find out.

In the order of the API server: limits that have no request become requests; LimitRanges fill in what is missing and
refuse what is out of their bounds; a priority class becomes a number; a runtime class adds its overhead, and where its
pods can run. What belongs to one pod alone (its node, claims) is left out. Used by the codec of buffers."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from growth.kube.codec.pod import PodDecoder
from growth.kube.codec.text import Json
from growth.model.capacitybuffer import VIRTUAL_PRIORITY, BufferTemplate
from growth.model.disruption import PriorityClass
from growth.model.pod_requests import Asked, PodAsked, effective_requests
from growth.model.quantity import QuantityError, parse_quantity
from growth.model.resources import Resources

_OF_ONE_POD: Final = ("nodeName", "ephemeralContainers", "hostname")
_ACCESS_VOLUME: Final = "kube-api-access-"  # admission adds it to each pod, under a name of its own
_LABELS_OF_ONE_POD: Final = (
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
)
_OUR_ANNOTATIONS: Final = "growth.dev/"  # others are notes of networks, tools and people on one pod
_RANGE_PARTS: Final = ("default", "defaultRequest", "min", "max")


class ContainerRange(Struct, frozen=True):
    """The part of a LimitRange that is about containers."""

    namespace: str
    name: str
    default: Mapping[str, str | int | float] = {}
    default_request: Mapping[str, str | int | float] = {}
    min: Mapping[str, str | int | float] = {}
    max: Mapping[str, str | int | float] = {}


class RuntimeClass(Struct, frozen=True):
    """What a pod of this class costs beside its containers, and on which nodes it can run."""

    name: str
    overhead: Mapping[str, str | int | float] = {}
    node_selector: Mapping[str, str] = {}
    tolerations: tuple[Json, ...] = ()


class Admission(Struct, frozen=True):
    """What the API server would look at beside the template."""

    ranges: tuple[ContainerRange, ...] = ()
    priority_classes: Mapping[str, PriorityClass] = {}
    runtime_classes: Mapping[str, RuntimeClass] = {}


def read_template(text: str, namespace: str, admission: Admission, pods: PodDecoder) -> BufferTemplate:
    """What the API server would make of the template; `text` comes from `clean_template`."""
    template: Json = msgspec.json.decode(text)
    spec = template.get("spec") or {}
    refusal = ""
    try:
        _run_by(spec, admission.runtime_classes)
        _fill_in(spec, [each for each in admission.ranges if each.namespace == namespace])
        limits = _limits(spec)
    except (QuantityError, TypeError, AttributeError) as error:
        limits, refusal = Resources(), f"its pod template cannot be read: {error}"
    except RefusedError as error:
        limits, refusal = Resources(), str(error)
    shape = pods.decode_template(msgspec.json.encode(template), namespace)
    name = spec.get("priorityClassName") or ""
    if name and name not in admission.priority_classes and spec.get("priority") is None:
        refusal = refusal or f"PriorityClass {name} of its pods does not exist"
    priority = _priority(spec, name, admission)
    return BufferTemplate(
        shape=replace(shape, priority=priority),
        text=text,
        digest=sha256(text.encode()).hexdigest()[:16],
        limits=limits,
        priority_class=name,
        has_deadline=spec.get("activeDeadlineSeconds") is not None,
        refusal=refusal,
    )


class RefusedError(ValueError):
    """The API server would refuse such a pod."""


def _priority(spec: Json, name: str, admission: Admission) -> int:
    if name in admission.priority_classes:
        return admission.priority_classes[name].value
    given = spec.get("priority")
    return given if isinstance(given, int) else VIRTUAL_PRIORITY


# ----------------------------------------------------------------------------------------- cleaning


def clean_template(template: Json) -> str:
    """A template as JSON, without what belongs to one pod: its node, claims, and mounts of missing volumes."""
    spec = copy.deepcopy(template.get("spec") or {})
    meta = template.get("metadata") or {}
    for name in _OF_ONE_POD:
        spec.pop(name, None)
    volumes = [volume for volume in spec.get("volumes") or () if "persistentVolumeClaim" not in volume]
    if "volumes" in spec:
        spec["volumes"] = volumes
    known = {volume.get("name") for volume in volumes}
    for container in _containers(spec):
        container.pop("volumeDevices", None)
        if "volumeMounts" in container:
            mounts = container["volumeMounts"] or ()
            container["volumeMounts"] = [mount for mount in mounts if mount.get("name") in known]
    kept = {name: meta[name] for name in ("labels", "annotations") if meta.get(name)}
    return msgspec.json.encode({"metadata": kept, "spec": spec}, order="sorted").decode()


def template_of(pod: Json) -> str:
    """The template that a pod was made from, as far as it can be told: two pods of one template give the same text, so
    that a new pod changes nothing.
    """
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    volumes = [each for each in spec.get("volumes") or () if not str(each.get("name")).startswith(_ACCESS_VOLUME)]
    labels = {key: text for key, text in (meta.get("labels") or {}).items() if key not in _LABELS_OF_ONE_POD}
    notes = meta.get("annotations") or {}
    kept = {key: text for key, text in notes.items() if key.startswith(_OUR_ANNOTATIONS)}
    return clean_template({"metadata": {"labels": labels, "annotations": kept}, "spec": {**spec, "volumes": volumes}})


def _containers(spec: Json) -> list[Json]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


# ---------------------------------------------------------------------------------------- admission


def _run_by(spec: Json, classes: Mapping[str, RuntimeClass]) -> None:
    name = spec.get("runtimeClassName") or ""
    if not name:
        return
    if name not in classes:
        raise RefusedError(f"RuntimeClass {name} of its pods does not exist")
    chosen, own = classes[name], spec.get("nodeSelector") or {}
    apart = [key for key, value in chosen.node_selector.items() if own.get(key, value) != value]
    if apart:
        raise RefusedError(f"RuntimeClass {name} and the template select different nodes by {', '.join(apart)}")
    if chosen.overhead:
        spec["overhead"] = dict(chosen.overhead)
    spec["nodeSelector"] = {**own, **chosen.node_selector}
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *chosen.tolerations]


def _fill_in(spec: Json, ranges: Iterable[ContainerRange]) -> None:
    found = sorted(ranges, key=lambda each: each.name)
    for container in _containers(spec):
        resources = container.setdefault("resources", {}) or {}
        limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
        requests = {**limits, **requests}
        for each in found:
            limits = {**each.default, **limits}
            requests = {**each.default_request, **requests}
        container["resources"] = {"limits": limits, "requests": requests}
        for each in found:
            _check(container.get("name", ""), each, limits, requests)


def _check(container: str, within: ContainerRange, limits: Mapping[str, Any], requests: Mapping[str, Any]) -> None:
    rule = f"LimitRange {within.name}"
    for name, most in within.max.items():
        for asked in (limits.get(name), requests.get(name)):
            if asked is not None and parse_quantity(asked) > parse_quantity(most):
                bound = f"allows at most {name} {most} for each container"
                raise RefusedError(f"{rule} {bound}; {container} has {asked}")
    for name, least in within.min.items():
        asked = requests.get(name)
        if asked is not None and parse_quantity(asked) < parse_quantity(least):
            bound = f"wants at least {name} {least} for each container"
            raise RefusedError(f"{rule} {bound}; {container} asks for {asked}")


def _limits(spec: Json) -> Resources:
    """Limits of a pod, counted as requests are; overhead is added only to resources that are limited."""

    def asked(container: Json) -> Asked:
        limits = (container.get("resources") or {}).get("limits") or {}
        return Asked(container.get("name", ""), requests=limits, is_sidecar=container.get("restartPolicy") == "Always")

    containers = [asked(container) for container in spec.get("containers") or ()]
    first = [asked(container) for container in spec.get("initContainers") or ()]
    limited = effective_requests(PodAsked(containers, first))
    overhead = {name: each for name, each in (spec.get("overhead") or {}).items() if name in limited}
    return effective_requests(PodAsked(containers, first, overhead=overhead))


def container_range(namespace: str, name: str, limits: Iterable[Json]) -> ContainerRange:
    """Merge the items of a LimitRange that are about containers."""
    merged: dict[str, dict[str, Any]] = {part: {} for part in _RANGE_PARTS}
    for item in limits:
        if item.get("type") == "Container":
            for part in _RANGE_PARTS:
                merged[part].update(item.get(part) or {})
    return ContainerRange(namespace, name, merged["default"], merged["defaultRequest"], merged["min"], merged["max"])
