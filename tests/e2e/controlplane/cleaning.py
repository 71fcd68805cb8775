"""How does one test get a cluster without the remains of another? Asked by `ControlPlane.clean`.

When the control plane has become ready, the names of all objects are remembered. Cleaning deletes every object of every
kind that is not among them, nodes and custom resource definitions included, without grace and past finalizers, until a
look at everything finds nothing more. It does not undo what a test changed in or deleted from the remembered objects:
tests leave those alone."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec

from tests.e2e.controlplane.admin import ALL_RESOURCES, MERGE_PATCH, METADATA_ONLY, Connection

TIMEOUT_SECONDS = 60.0
PAUSE_SECONDS = 0.05

# Made and taken away by the API server itself for each group of a custom resource definition.
LEFT_ALONE = frozenset({"apiservices"})

# Owners before what they would make again, content before its namespace, objects before their definition.
DEFINITIONS = "customresourcedefinitions"
LATER = {"pods": 1, "nodes": 2, "leases": 3, "events": 4, "namespaces": 5, DEFINITIONS: 6}


class Kind(msgspec.Struct, frozen=True, order=True):
    """A kind that can be listed and deleted: its API root (`/apis/apps/v1`), plural name, and what it can do."""

    root: str
    plural: str
    namespaced: bool
    collection: bool

    def path(self, namespace: str = "", name: str = "") -> str:
        middle = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.root}{middle}/{self.plural}" + (f"/{name}" if name else "")


Key = tuple[Kind, str, str]


class Found(msgspec.Struct, frozen=True):
    """An object by its name, and whether it is being deleted and whether finalizers hold it."""

    kind: Kind
    namespace: str
    name: str
    deleting: bool
    held: bool

    @property
    def key(self) -> Key:
        return (self.kind, self.namespace, self.name)

    @property
    def place(self) -> tuple[int, Kind, str]:
        return (LATER.get(self.kind.plural, 0), self.kind, self.namespace)


class NotCleanError(Exception):
    """Objects stayed in spite of all; the message names them."""


class Cleaner:
    """Remembers what belongs to the empty cluster and takes away all else."""

    def __init__(self, api: Connection) -> None:
        self._api = api
        self._remembered: frozenset[Key] = frozenset()

    def remember(self) -> None:
        self._remembered = frozenset(found.key for found in self._everything())

    def clean(self) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while left := [found for found in self._everything() if found.key not in self._remembered]:
            if time.monotonic() > deadline:
                names = ", ".join(sorted(found.kind.path(found.namespace, found.name) for found in left))
                raise NotCleanError(f"still there after {TIMEOUT_SECONDS:.0f} s: {names}")
            # A definition that goes first takes its kind out of discovery and leaves its objects behind, to appear
            # again with the next one.
            self._delete([found for found in left if found.kind.plural != DEFINITIONS] or left)
            time.sleep(PAUSE_SECONDS)

    def _everything(self) -> Iterator[Found]:
        for kind in self._kinds():
            answer = self._api.ask("GET", kind.path(), accept=METADATA_ONLY)
            if not answer.good:
                continue  # a kind whose definition is going away
            for item in answer.json()["items"] or ():
                metadata = item["metadata"]
                yield Found(
                    kind,
                    metadata.get("namespace", ""),
                    metadata["name"],
                    "deletionTimestamp" in metadata,
                    bool(metadata.get("finalizers")),
                )

    def _kinds(self) -> list[Kind]:
        """Each kind once, in the version its group prefers (events live in two groups: one is enough)."""
        groups = [group for root in ("/api", "/apis") for group in self._api.get(root, accept=ALL_RESOURCES)["items"]]
        kinds: dict[tuple[str, str], Kind] = {}
        for group in groups:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                root = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
                for kind in _deletable(root, version.get("resources", [])):
                    kinds.setdefault((name, kind.plural), kind)
        return [kind for (name, plural), kind in kinds.items() if plural not in LEFT_ALONE and name != "events.k8s.io"]

    def _delete(self, left: list[Found]) -> None:
        for (_, kind, namespace), group in groupby(
            sorted(left, key=lambda found: found.place), key=lambda found: found.place
        ):
            found_here = list(group)
            for found in found_here:
                if found.deleting and found.held:
                    self._api.ask(
                        "PATCH",
                        kind.path(namespace, found.name),
                        {"metadata": {"finalizers": None}},
                        content_type=MERGE_PATCH,
                    )
            if kind.collection and not self._keeps_some(kind, namespace):
                self._api.ask("DELETE", kind.path(namespace) + "?gracePeriodSeconds=0")
            else:
                for found in found_here:
                    self._api.ask("DELETE", kind.path(namespace, found.name) + "?gracePeriodSeconds=0")
        self._finish_namespaces(left)

    def _finish_namespaces(self, left: list[Found]) -> None:
        """The namespace controller waits five seconds before it looks. A namespace that was closed and found empty
        after that may go at once.
        """
        occupied = {found.namespace for found in left}
        for found in left:
            if found.kind.plural == "namespaces" and found.deleting and found.name not in occupied:
                body = {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {"name": found.name},
                    "spec": {"finalizers": []},
                }
                self._api.ask("PUT", found.kind.path(name=found.name) + "/finalize", body)

    def _keeps_some(self, kind: Kind, namespace: str) -> bool:
        return any(kept == kind and where == namespace for kept, where, _ in self._remembered)


def _deletable(root: str, resources: Iterable[dict[str, object]]) -> Iterator[Kind]:
    for resource in resources:
        verbs = resource["verbs"]
        if isinstance(verbs, list) and {"list", "delete"} <= set(verbs):
            yield Kind(root, str(resource["resource"]), resource["scope"] == "Namespaced", "deletecollection" in verbs)
