"""Where a reflector puts what it hears from the API server: the smallest thing a cache must be.

Called by `kube/watch/reflector.py`, implemented by the caches. Calls come one at a time, from one task, and must return
quickly; a sink that raises makes the reflector list everything again.

    relisting -> listed* -> relisted(version)        a whole listing; may begin again before it ended
    changed | bookmarked(version)                    one change after another, from then on

An object handed over is a view into a larger buffer: decode it or copy it, but do not keep it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Raw


class ChangeType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Sink(Protocol):
    def relisting(self) -> None:
        """A whole listing begins (anew): forget an unfinished one, keep the objects you hold."""

    def listed(self, objects: Sequence[Raw]) -> None:
        """Some objects of the listing. The same object may come twice: the later one counts, whatever its
        resourceVersion.
        """

    def relisted(self, version: str) -> None:
        """The listing is complete: what was not in it is gone, even if the versions in it are lower (a restored etcd)."""

    def changed(self, change: ChangeType, item: Raw) -> None:
        """One object was added, modified or deleted. During a listing only DELETED comes: that object is no longer part
        of it.
        """

    def bookmarked(self, version: str) -> None:
        """Nothing is missing up to this version."""
