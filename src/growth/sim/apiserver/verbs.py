"""What does each verb do to the objects? The rules of the API server between the wire and the store.

Asked by `apiserver` for requests from outside and by the agents of the embedded cluster directly. Refuses with
`Refusal`; never waits.

| verb | writes |
| --- | --- |
| create | uid, creationTimestamp, generation 1; status only where the kind keeps it |
| update, patch | spec and metadata, or status alone through /status; generation grows with the spec |
| (an update that changes nothing) | nothing |
| delete | deletionTimestamp while finalizers or a pod's grace hold it, else the object goes |
| (last finalizer taken off a deleted object) | the object goes |
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from growth.model.instant import format_instant
from growth.sim.apiserver.admission import Admission, pod_status_at_create, taint_as_not_ready
from growth.sim.apiserver.kinds import NAMESPACE, NODE, POD, Json, Kind
from growth.sim.apiserver.refusal import (
    already_exists,
    bad_request,
    changed_meanwhile,
    conflict,
    invalid,
    not_found,
    precondition_failed,
)
from growth.sim.apiserver.store import Store, Stored

_SERVER_FIELDS: Final = (
    *("uid", "creationTimestamp", "deletionTimestamp"),
    *("deletionGracePeriodSeconds", "generation", "resourceVersion"),
)
_CHANGEABLE_IN_POD_SPECS: Final = (
    *("containers", "initContainers", "activeDeadlineSeconds"),
    *("tolerations", "terminationGracePeriodSeconds", "schedulingGates"),
)
_GENERATED: Final = "bcdfghjklmnpqrstvwxz2456789"
FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


class Verbs:
    """Create, update, patch and delete, for every kind."""

    def __init__(self, store: Store, admission: Admission, now: Callable[[], float], seed: str) -> None:
        self.store = store
        self.admission = admission
        self.now = now
        self._chance = random.Random(f"{seed}/names")

    # -------------------------------------------------------------------------------------- reading

    def live(self, kind: Kind, name: str, namespace: str = "") -> Json:
        found = self.store.read(kind, name, namespace)
        if found is None:
            raise not_found(kind, name)
        return found

    # ------------------------------------------------------------------------------------- creating

    def create(self, kind: Kind, item: Json, actor: str) -> Stored:
        """Takes the item over."""
        metadata = item.setdefault("metadata", {})
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        self._name(kind, metadata)
        self._require_namespace(kind, metadata)
        if self.store.get(kind, metadata["name"], metadata.get("namespace", "")):
            raise already_exists(kind, metadata["name"])
        self._stamp(kind, item)
        self.admission.complete(kind, item)
        self.admission.check(kind, item)
        if kind is POD:
            item["status"] = pod_status_at_create(item)
        if kind is NODE:
            taint_as_not_ready(item)
        return self.store.put(kind, item, actor)

    def _name(self, kind: Kind, metadata: Json) -> None:
        if not metadata.get("name") and metadata.get("generateName"):
            ending = "".join(self._chance.choice(_GENERATED) for _ in range(5))
            metadata["name"] = metadata["generateName"][:58] + ending
        if not metadata.get("name"):
            raise invalid(kind, "", [("metadata.name", "Required value: name or generateName is required")])

    def _require_namespace(self, kind: Kind, metadata: Json) -> None:
        if not kind.resource.namespaced:
            metadata.pop("namespace", None)
            return
        namespace = metadata.setdefault("namespace", "default")
        found = self.store.read(NAMESPACE, namespace)
        if found is None:
            raise not_found(NAMESPACE, namespace)
        if found["metadata"].get("deletionTimestamp"):
            raise conflict(NAMESPACE, namespace, "it is being terminated")

    def _stamp(self, kind: Kind, item: Json) -> None:
        metadata = item["metadata"]
        for name in _SERVER_FIELDS:
            metadata.pop(name, None)
        bits = f"{self._chance.getrandbits(128):032x}"
        metadata["uid"] = "-".join((bits[:8], bits[8:12], bits[12:16], bits[16:20], bits[20:]))
        metadata["creationTimestamp"] = format_instant(self.now())
        if kind.counts_generations:
            metadata["generation"] = 1
        if kind.has_status and not kind.keeps_status_at_create:
            item.pop("status", None)

    # ------------------------------------------------------------------------------------- updating

    def update(self, kind: Kind, item: Json, actor: str, subresource: str = "") -> Stored:
        """Replace spec and metadata, or status alone. Takes the item over."""
        metadata = item.get("metadata") or {}
        if not metadata.get("name"):
            raise invalid(kind, "", [("metadata.name", "Required value")])
        if kind.needs_version_to_update and not metadata.get("resourceVersion"):
            wrong = ("metadata.resourceVersion", "Invalid value: 0: must be specified for an update")
            raise invalid(kind, metadata["name"], [wrong])
        live = self.live(kind, metadata["name"], metadata.get("namespace", ""))
        return self._replace(kind, live, item, actor, subresource)

    def modify(
        self, kind: Kind, name: str, namespace: str, change: Callable[[Json], Any], actor: str, subresource: str = ""
    ) -> Stored:
        """Read, let `change` alter the object (or return another), write."""
        live = self.live(kind, name, namespace)
        altered = self.live(kind, name, namespace)
        result = change(altered)
        return self._replace(kind, live, altered if result is None else result, actor, subresource)

    def _replace(self, kind: Kind, live: Json, item: Json, actor: str, subresource: str) -> Stored:
        metadata, before = item.setdefault("metadata", {}), live["metadata"]
        if metadata.get("resourceVersion", before["resourceVersion"]) != before["resourceVersion"]:
            raise changed_meanwhile(kind, before["name"])
        if metadata.get("uid", before["uid"]) != before["uid"]:
            raise precondition_failed(kind, before["name"], "UID", metadata["uid"], before["uid"])
        result = _status_only(live, item) if subresource == "status" else _all_but_status(kind, live, item)
        result["metadata"] |= {name: before[name] for name in _SERVER_FIELDS if name in before}
        if not subresource or kind.is_custom:
            self.admission.complete(kind, result)
        self.admission.check(kind, result)
        _refuse_pod_spec_changes(kind, live, result)
        return self._keep(kind, live, result, actor)

    def _keep(self, kind: Kind, live: Json, result: Json, actor: str) -> Stored:
        metadata = result["metadata"]
        unchanged = self.store.get(kind, metadata["name"], metadata.get("namespace", ""))
        if result == live and unchanged is not None:
            return unchanged
        if kind.counts_generations and any(
            result.get(name) != live.get(name) for name in {*result, *live} - {"metadata", "status"}
        ):
            metadata["generation"] = live["metadata"].get("generation", 0) + 1
        stored = self.store.put(kind, result, actor)
        is_held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") and not is_held:
            self._forget(kind, result, actor)
        return stored

    # ------------------------------------------------------------------------------------- deleting

    def delete(self, kind: Kind, name: str, namespace: str, actor: str, options: Json | None = None) -> Json:
        """The object as it was last, or a copy that is still there with a deletionTimestamp."""
        options = options or {}
        item = self.live(kind, name, namespace)
        _check_preconditions(kind, item, options.get("preconditions") or {})
        metadata = item["metadata"]
        grace = self._grace_seconds(kind, item, options)
        finalizers = list(metadata.get("finalizers") or [])
        added = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(options.get("propagationPolicy", ""), "")
        finalizers += [added] if added and added not in finalizers else []
        if not finalizers and not grace:
            return self._forget(kind, item, actor)
        if metadata.get("deletionTimestamp") and metadata.get("deletionGracePeriodSeconds", 0) <= grace:
            return item
        metadata |= {"deletionTimestamp": format_instant(self.now() + grace), "deletionGracePeriodSeconds": grace}
        if finalizers:
            metadata["finalizers"] = finalizers
        if kind.counts_generations:
            metadata["generation"] = metadata.get("generation", 0) + 1
        return self.store.put(kind, item, actor).decoded()

    def _grace_seconds(self, kind: Kind, item: Json, options: Json) -> int:
        is_finished = item.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if kind is not POD or not item["spec"].get("nodeName") or is_finished:
            return 0
        asked = options.get("gracePeriodSeconds")
        return int(item["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked)

    def _forget(self, kind: Kind, item: Json, actor: str) -> Json:
        metadata = item["metadata"]
        return self.store.remove(kind, (metadata.get("namespace", ""), metadata["name"]), actor)


def _status_only(live: Json, item: Json) -> Json:
    result = dict(live)
    result["metadata"] = dict(live["metadata"])
    if "status" in item:
        result["status"] = item["status"]
    else:
        result.pop("status", None)
    return result


def _all_but_status(kind: Kind, live: Json, item: Json) -> Json:
    result = dict(item)
    if kind.has_status:
        result.pop("status", None)
        result |= {"status": live["status"]} if "status" in live else {}
    return result


def _refuse_pod_spec_changes(kind: Kind, live: Json, result: Json) -> None:
    if kind is not POD:
        return
    fixed = [
        name
        for name in {**live["spec"], **result["spec"]}
        if name not in _CHANGEABLE_IN_POD_SPECS and live["spec"].get(name) != result["spec"].get(name)
    ]
    if fixed:
        wrong = f"Forbidden: pod updates may not change fields other than a few: {', '.join(fixed)}"
        raise invalid(kind, live["metadata"]["name"], [("spec", wrong)])


def _check_preconditions(kind: Kind, item: Json, wanted: Json) -> None:
    for name, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        found = item["metadata"].get(name)
        if wanted.get(name) is not None and wanted[name] != found:
            raise precondition_failed(kind, item["metadata"]["name"], label, wanted[name], found)
