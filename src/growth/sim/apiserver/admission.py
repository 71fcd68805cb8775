"""What does the API server add to an object, and what does it refuse, before it is stored? Asked by the verbs.

Pods get the defaults that scheduling sees (tolerations for not-ready and unreachable nodes, priority, scheduler,
grace). Built-in kinds are checked for what growth could trip over: names, labels, quantities, operators. Kinds of ours
are checked by the schema of their CRD."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from growth.model.quantity import QuantityError, parse_quantity
from growth.sim.apiserver.kinds import BY_NAME, Json, Kind
from growth.sim.apiserver.refusal import invalid
from growth.sim.apiserver.schema import Cause, Schemas
from growth.sim.apiserver.store import Store

DEFAULT_TOLERATION_SECONDS: Final = 300
UNREACHABLE_TAINT: Final = "node.kubernetes.io/unreachable"
NOT_READY_TAINT: Final = "node.kubernetes.io/not-ready"

_PRIORITIES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_TOLERATION_OPERATORS = (None, "", "Exists", "Equal", "Lt", "Gt")
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class Admission:
    """Defaults and validation; looks into the store for priority classes only."""

    def __init__(self, store: Store, schemas: Schemas) -> None:
        self._store = store
        self._schemas = schemas

    def complete(self, kind: Kind, item: Json) -> None:
        """Fill in defaults, in place."""
        if kind.name == "Pod":
            self._complete_pod(item)
        elif kind.name == "Namespace":
            item.setdefault("status", {}).setdefault("phase", "Active")
            item["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = item["metadata"]["name"]
        elif kind.name in ("Deployment", "ReplicaSet", "StatefulSet"):
            item.setdefault("spec", {}).setdefault("replicas", 1)
        elif kind.name == "Job":
            spec = item.setdefault("spec", {})
            spec.setdefault("parallelism", 1)
            spec.setdefault("completions", spec["parallelism"])
        if kind.is_custom:
            self._schemas.complete(kind, item)

    def check(self, kind: Kind, item: Json) -> None:
        """Refuse what a real API server refuses, with 422 and the fields at fault."""
        causes = list(_metadata_causes(item["metadata"]))
        if kind.name in _CHECKS:
            causes += _CHECKS[kind.name](item)
        if kind.is_custom:
            causes += self._schemas.causes(kind, item)
        if causes:
            raise invalid(kind, item["metadata"].get("name", ""), causes)

    def _complete_pod(self, pod: Json) -> None:
        spec = pod.setdefault("spec", {})
        spec.setdefault("schedulerName", "default-scheduler")
        spec.setdefault("restartPolicy", "Always")
        spec.setdefault("terminationGracePeriodSeconds", 30)
        priority_class = self._store.read(BY_NAME["PriorityClass"], spec.get("priorityClassName", ""))
        built_in = _PRIORITIES.get(spec.get("priorityClassName", ""), 0)
        spec.setdefault("priority", int(priority_class.get("value", 0)) if priority_class else built_in)
        runtime_class = self._store.read(BY_NAME["RuntimeClass"], spec.get("runtimeClassName", ""))
        if runtime_class and runtime_class.get("overhead"):
            spec["overhead"] = runtime_class["overhead"]["podFixed"]
        tolerations = spec.get("tolerations") or []
        spec["tolerations"] = [*tolerations, *_missing_tolerations(tolerations)]


def _missing_tolerations(tolerations: list[Json]) -> Iterator[Json]:
    for key in (NOT_READY_TAINT, UNREACHABLE_TAINT):
        of_key = [toleration for toleration in tolerations if toleration.get("key") in (key, None, "")]
        if not any(toleration.get("effect") in ("NoExecute", None, "") for toleration in of_key):
            missing = {"key": key, "operator": "Exists", "effect": "NoExecute"}
            yield {**missing, "tolerationSeconds": DEFAULT_TOLERATION_SECONDS}


# --------------------------------------------------------------------------------------- validation


def _metadata_causes(metadata: Json) -> Iterator[Cause]:
    name = metadata.get("name", "")
    if not _NAME.fullmatch(name) or len(name) > 253:
        rule = 'a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "-" or "."'
        yield "metadata.name", f'Invalid value: "{name[:64]}": {rule}'
    for key, value in (metadata.get("labels") or {}).items():
        if not _LABEL_KEY.fullmatch(key) or not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            rule = "must be no more than 63 characters and a valid label"
            yield "metadata.labels", f'Invalid value: "{str(value)[:80]}": {rule}'


def _pod_causes(pod: Json) -> Iterator[Cause]:
    spec = pod.get("spec") or {}
    containers = spec.get("containers") or []
    if not containers:
        yield "spec.containers", "Required value"
    for field, listed in (("containers", containers), ("initContainers", spec.get("initContainers") or [])):
        for place, container in enumerate(listed):
            requests = (container.get("resources") or {}).get("requests") or {}
            yield from _request_causes(f"spec.{field}[{place}].resources.requests", requests)
    for place, toleration in enumerate(spec.get("tolerations") or []):
        if toleration.get("operator") not in _TOLERATION_OPERATORS:
            yield f"spec.tolerations[{place}].operator", f'Unsupported value: "{toleration.get("operator")}"'


def _request_causes(field: str, requests: Json) -> Iterator[Cause]:
    for name, text in requests.items():
        try:
            if parse_quantity(text) < 0:
                yield f"{field}[{name}]", f'Invalid value: "{text}": must be greater than or equal to 0'
        except QuantityError as error:
            yield f"{field}[{name}]", str(error)


def _node_causes(node: Json) -> Iterator[Cause]:
    for place, taint in enumerate((node.get("spec") or {}).get("taints") or []):
        if taint.get("effect") not in _TAINT_EFFECTS:
            yield f"spec.taints[{place}].effect", f'Unsupported value: "{taint.get("effect")}"'
        if not taint.get("key"):
            yield f"spec.taints[{place}].key", "Required value"
    yield from _request_causes("status.allocatable", (node.get("status") or {}).get("allocatable") or {})


_CHECKS: Final[dict[str, Callable[[Json], Iterator[Cause]]]] = {"Pod": _pod_causes, "Node": _node_causes}


def pod_status_at_create(pod: Json) -> Json:
    """What the API server writes into a new pod's status."""
    status: Json = {"phase": "Pending", "qosClass": "Burstable"}
    if pod["spec"].get("schedulingGates"):
        gated: dict[str, Any] = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
        status["conditions"] = [{**gated, "message": "Scheduling is blocked due to non-empty scheduling gates"}]
    return status


def taint_as_not_ready(node: Json) -> None:
    """A new node takes no pods until it is Ready."""
    taints = node.setdefault("spec", {}).get("taints") or []
    if not any(taint["key"] == NOT_READY_TAINT for taint in taints):
        node["spec"]["taints"] = [*taints, {"key": NOT_READY_TAINT, "effect": "NoSchedule"}]
