"""Who makes volumes for claims, and binds the two? A provisioner for every class that names one, and the volume
controller.

| it sees | it does |
| --- | --- |
| a new volume | Available |
| a volume that is reserved for a claim, by its UID | both are bound, a moment later |
| a claim that was promised to a node, of a class with a provisioner | after some seconds a volume in the node's zone |
| – and the node does not exist | the promise (`volume.kubernetes.io/selected-node`) goes |
| a claim that is gone | its volume goes, if it was made for it |

A class says by annotations how its provisioner is:

| annotation | means |
| --- | --- |
| `sim.growth.dev/provision-seconds: "30"` | so long it takes; else a few seconds |
| `sim.growth.dev/provision-fails: "2"` | so often it fails for each claim, and takes the annotation off |
| `sim.growth.dev/provision-never: "true"` | it does not answer |
"""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import Final

from growth.model.labels import ZONE
from growth.model.volumes import SELECTED_NODE
from growth.sim.apiserver.kinds import BY_NAME, NODE, Json
from growth.sim.apiserver.refusal import attempt
from growth.sim.apiserver.store import Key, Write
from growth.sim.apiserver.verbs import Verbs
from growth.sim.clock import after

CLAIM, VOLUME, STORAGE_CLASS = (BY_NAME[name] for name in ("PersistentVolumeClaim", "PersistentVolume", "StorageClass"))
PROVISION_SECONDS: Final = "sim.growth.dev/provision-seconds"
PROVISION_FAILS: Final = "sim.growth.dev/provision-fails"
PROVISION_NEVER: Final = "sim.growth.dev/provision-never"
BIND_SECONDS: Final = 0.5
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_MADE_BY: Final = "pv.kubernetes.io/provisioned-by"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


class VolumeControllers:
    """All provisioners, and the volume controller."""

    def __init__(self, verbs: Verbs, seed: str = "0") -> None:
        self._verbs = verbs
        self._chance = random.Random(f"{seed}/volumes")
        self._failures: Counter[str] = Counter()  # by the UID of a claim
        self._at_work: set[tuple[str, str]] = set()  # UID of a claim, and the node it is made for
        verbs.store.on_write(self._hear)

    def _hear(self, write: Write) -> None:
        if write.kind is VOLUME and write.type != "DELETED":
            after(BIND_SECONDS, partial(self._look_at_volume, write.key[1]))
        elif write.kind is CLAIM and write.type == "DELETED":
            after(BIND_SECONDS, partial(self._clean_up, write.item))
        elif write.kind is CLAIM:
            self._look_at_claim(write.item)

    # ---------------------------------------------------------------------------------- provisioners

    def _look_at_claim(self, claim: Json) -> None:
        node, wanted = _annotations(claim).get(SELECTED_NODE), self._class_of(claim)
        marks, uid = _annotations(wanted), claim["metadata"]["uid"]
        is_made = wanted.get("provisioner", _NO_PROVISIONER) != _NO_PROVISIONER and marks.get(PROVISION_NEVER) is None
        if node is None or not is_made or claim["spec"].get("volumeName") or (uid, node) in self._at_work:
            return
        self._at_work.add((uid, node))
        seconds = float(marks.get(PROVISION_SECONDS) or self._chance.uniform(1.0, 5.0))
        after(seconds, partial(self._provision, (claim["metadata"]["namespace"], claim["metadata"]["name"]), uid, node))

    def _class_of(self, claim: Json) -> Json:
        return self._verbs.store.read(STORAGE_CLASS, claim["spec"].get("storageClassName") or "") or {"metadata": {}}

    def _provision(self, key: Key, uid: str, node: str) -> None:
        """For the node it was asked for, whatever the claim says by now, as real ones do."""
        self._at_work.discard((uid, node))
        claim = self._verbs.store.read(CLAIM, key[1], key[0])
        if claim is None or claim["metadata"]["uid"] != uid or claim["spec"].get("volumeName"):
            return
        wanted, place = self._class_of(claim), self._verbs.store.read(NODE, node)
        self._failures[uid] += 1
        if place is None or self._failures[uid] <= int(_annotations(wanted).get(PROVISION_FAILS) or 0):
            attempt(self._verbs.modify, CLAIM, key[1], key[0], _take_off, "provisioner")
        else:
            attempt(self._verbs.create, VOLUME, _volume_for(claim, wanted, place), "provisioner")

    def _clean_up(self, claim: Json) -> None:
        name = claim["spec"].get("volumeName", "")
        volume = self._verbs.store.read(VOLUME, name)
        if volume is not None and _MADE_BY in _annotations(volume):
            attempt(self._verbs.delete, VOLUME, name, "", "provisioner")

    # ------------------------------------------------------------------------------ volume controller

    def _look_at_volume(self, name: str) -> None:
        volume = self._verbs.store.read(VOLUME, name)
        if volume is None or volume.get("status", {}).get("phase") == "Bound":
            return
        held = volume["spec"].get("claimRef") or {}
        claim = self._verbs.store.read(CLAIM, held.get("name", ""), held.get("namespace", "")) if held else None
        is_its_own = claim is not None and claim["metadata"]["uid"] == held.get("uid")
        if claim is not None and is_its_own and claim["spec"].get("volumeName", name) == name:
            bound = {"phase": "Bound"}
            self._set_status(volume, bound)
            attempt(self._verbs.modify, CLAIM, held["name"], held["namespace"], partial(_bind, name), "volumes")
            attempt(self._verbs.modify, CLAIM, held["name"], held["namespace"], _bound_status, "volumes", "status")
        elif not held:
            self._set_status(volume, {"phase": "Available"})

    def _set_status(self, volume: Json, status: Json) -> None:
        def write(item: Json) -> None:
            item["status"] = status

        attempt(self._verbs.modify, VOLUME, volume["metadata"]["name"], "", write, "volumes", "status")


def _annotations(item: Json) -> Json:
    found: Json = item["metadata"].get("annotations") or {}
    return found


def _take_off(claim: Json) -> None:
    claim["metadata"]["annotations"].pop(SELECTED_NODE, None)


def _bind(volume: str, claim: Json) -> None:
    claim["spec"]["volumeName"] = volume
    claim["metadata"]["annotations"] = {**_annotations(claim), BIND_COMPLETED: "yes"}


def _bound_status(claim: Json) -> None:
    claim["status"] = {"phase": "Bound", "accessModes": claim["spec"].get("accessModes") or []}


def _volume_for(claim: Json, wanted: Json, node: Json) -> Json:
    metadata, spec = claim["metadata"], claim["spec"]
    reference = {"apiVersion": "v1", "kind": CLAIM.name}
    reference |= {name: metadata[name] for name in ("namespace", "name", "uid")}
    zone = (node["metadata"].get("labels") or {}).get(ZONE)
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    return {
        "apiVersion": "v1",
        "kind": VOLUME.name,
        "metadata": {"name": f"pvc-{metadata['uid']}", "annotations": {_MADE_BY: wanted["provisioner"]}},
        "spec": {
            "capacity": (spec.get("resources") or {}).get("requests") or {},
            "accessModes": spec.get("accessModes") or [],
            "storageClassName": wanted["metadata"]["name"],
            "claimRef": reference,
            "csi": {"driver": wanted["provisioner"], "volumeHandle": metadata["uid"]},
            **({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if zone else {}),
        },
    }
