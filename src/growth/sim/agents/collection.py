"""Which objects go because their owner went? The garbage collector of the embedded cluster, and what a namespace's end
takes with it.

Deletes dependents in the background a moment after their last owner is gone. An owner deleted with Orphan lets its
dependents go free; one deleted in the Foreground waits for those that block it. Pods of a deleted namespace, and
everything else in it, go too."""

from __future__ import annotations

from typing import Final

from growth.sim.agents.timers import Nudge
from growth.sim.apiserver.kinds import BY_NAME, KINDS, NAMESPACE, Json, Kind
from growth.sim.apiserver.refusal import Refusal
from growth.sim.apiserver.store import Key, Write
from growth.sim.apiserver.verbs import FOREGROUND, ORPHAN, Verbs

STEP_SECONDS: Final = 0.5
Place = tuple[str, Key]


class GarbageCollector:
    """Follows ownerReferences, by UID."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._uids: dict[str, Place] = {}
        self._dependents: dict[str, dict[Place, None]] = {}
        self._suspects: dict[Place, None] = {}
        self._leaving: dict[Place, None] = {}
        self._step = Nudge(STEP_SECONDS, self._collect)
        verbs.store.on_write(self._hear)

    def _hear(self, write: Write) -> None:
        place, metadata = (write.kind.name, write.key), write.item["metadata"]
        if write.type == "DELETED":
            self._uids.pop(metadata["uid"], None)
            self._suspects |= self._dependents.pop(metadata["uid"], {})
            self._suspects.pop(place, None)
        else:
            self._uids[metadata["uid"]] = place
            for owner in metadata.get("ownerReferences") or []:
                self._dependents.setdefault(owner["uid"], {})[place] = None
                if owner["uid"] not in self._uids:
                    self._suspects[place] = None
            if metadata.get("deletionTimestamp") and {FOREGROUND, ORPHAN} & set(metadata.get("finalizers") or []):
                self._leaving[place] = None
        if self._suspects or self._leaving or (write.kind is NAMESPACE and write.type == "DELETED"):
            self._step()
        if write.kind is NAMESPACE and write.type == "DELETED":
            self._empty(write.key[1])

    def _collect(self) -> None:
        suspects, self._suspects = self._suspects, {}
        for name, key in suspects:
            kind = BY_NAME[name]
            item = self._verbs.store.read(kind, key[1], key[0])
            owners = (item or {}).get("metadata", {}).get("ownerReferences") or []
            if item is not None and owners and not any(owner["uid"] in self._uids for owner in owners):
                self._delete(kind, item)
        leaving, self._leaving = self._leaving, {}
        for name, key in leaving:
            owner = self._verbs.store.read(BY_NAME[name], key[1], key[0])
            if owner is not None:
                self._let_go(BY_NAME[name], owner)

    def _let_go(self, kind: Kind, owner: Json) -> None:
        metadata, finalizers = owner["metadata"], list(owner["metadata"].get("finalizers") or [])
        dependents = list(self._dependents.get(metadata["uid"], {}))
        if ORPHAN in finalizers:
            for name, key in dependents:
                self._set_free(BY_NAME[name], key, metadata["uid"])
            finalizers.remove(ORPHAN)
        elif FOREGROUND in finalizers:
            present = [
                item
                for name, key in dependents
                if (item := self._verbs.store.read(BY_NAME[name], key[1], key[0])) is not None
            ]
            for (name, _key), item in zip(dependents, present, strict=False):
                self._delete(BY_NAME[name], item)
            if not present:
                finalizers.remove(FOREGROUND)
        owner["metadata"]["finalizers"] = finalizers
        self._verbs.update(kind, owner, "garbage-collector")
        if finalizers:
            self._leaving[kind.name, (metadata.get("namespace", ""), metadata["name"])] = None
            self._step()

    def _set_free(self, kind: Kind, key: Key, uid: str) -> None:
        def without_owner(item: Json) -> None:
            item["metadata"]["ownerReferences"] = [
                owner for owner in item["metadata"].get("ownerReferences") or [] if owner["uid"] != uid
            ]

        if self._verbs.store.get(kind, key[1], key[0]):
            self._verbs.modify(kind, key[1], key[0], without_owner, "garbage-collector")

    def _delete(self, kind: Kind, item: Json) -> None:
        metadata = item["metadata"]
        if not metadata.get("deletionTimestamp"):
            try:
                self._verbs.delete(
                    kind,
                    metadata["name"],
                    metadata.get("namespace", ""),
                    "garbage-collector",
                    {"preconditions": {"uid": metadata["uid"]}},
                )
            except Refusal:
                return  # replaced by another of the same name

    def _empty(self, namespace: str) -> None:
        for kind in KINDS:
            for item in list(self._verbs.store.read_all(kind, namespace)) if kind.resource.namespaced else ():
                self._delete(kind, item)
