"""What do the bytes of a watch mean for a cache? Asked by the reflector, chunk by chunk.

Pure: reads no clock and waits for nothing, so that any cutting of the same bytes gives the same calls.

    the watch was opened      events until the end of the listing      events afterwards
    without a version         ADDED, MODIFIED -> listed                changed, bookmarked
    from a version            (there is no listing)                    changed, bookmarked

A cache is a `Sink`. Its calls come one at a time, from one task, and must return quickly; a sink that raises makes the
reflector list everything again. An object handed over is a view into a larger buffer: decode it or copy it, but do not
keep it.

    relisting -> listed* -> relisted(version)        a whole listing; may begin again before it ended
    changed | bookmarked(version)                    one change after another, from then on"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from growth.kube.api.errors import error_from_event

LONGEST_LINE_BYTES = 64 << 20
_LISTING_ENDS = "k8s.io/initial-events-end"  # annotates the bookmark behind the last object of a streamed listing


class ChangeType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Sink(Protocol):
    def relisting(self) -> None:
        """A whole listing begins (again): forget an unfinished one, keep the objects you hold."""

    def listed(self, objects: Sequence[Raw]) -> None:
        """Some objects of the listing. If one comes twice the later one counts, whatever its resourceVersion."""

    def relisted(self, version: str) -> None:
        """The listing is complete: what was not in it is gone, even if its versions are lower (a restored etcd)."""

    def changed(self, change: ChangeType, item: Raw) -> None:
        """One object has changed. During a listing only DELETED comes: the object is no longer part of it."""

    def bookmarked(self, version: str) -> None:
        """Nothing is missing up to this version."""


class TroubleKind(StrEnum):
    """What keeps a cache from being up to date."""

    MISSING = "Missing"  # the kind is not installed
    FORBIDDEN = "Forbidden"
    UNREACHABLE = "Unreachable"
    MALFORMED = "Malformed"
    WENT_BACK = "WentBack"
    FAILED = "Failed"  # a fault of our own


class StreamError(Exception):
    """The stream cannot be trusted any more: everything must be listed again."""

    def __init__(self, kind: TroubleKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Lines:
    """Cuts chunks into lines; an unfinished line waits for its end."""

    def __init__(self, longest_bytes: int = LONGEST_LINE_BYTES) -> None:
        self._longest = longest_bytes
        self._begun: list[bytes] = []  # pieces of the unfinished line, joined once: cost must not be quadratic
        self._begun_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk; blank ones are left out."""
        *ended, rest = chunk.split(b"\n")
        if ended:
            ended[0] = b"".join((*self._begun, ended[0]))
            self._begun, self._begun_bytes = [], 0
        self._begun.append(rest)
        self._begun_bytes += len(rest)
        if self._begun_bytes > self._longest:
            raise StreamError(TroubleKind.MALFORMED, f"a line of more than {self._longest} bytes")
        return [line for line in ended if line.strip()]


class _Event(Struct):
    type: str
    object: Raw


class _Metadata(Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Object(Struct):
    metadata: _Metadata


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_object = msgspec.json.Decoder(_Object).decode


class WatchStream:
    """Turns the events of one watch into calls of the sink, and remembers how far it came."""

    def __init__(self, sink: Sink, version: str) -> None:
        self.version = version  # everything up to here has reached the sink
        self.listing = not version
        self._sink = sink
        self._lines = Lines()
        self._listed: list[Raw] = []
        self._latest: Raw | None = None
        if self.listing:
            sink.relisting()

    def feed(self, chunk: bytes) -> int:
        """Take the next bytes; returns the number of events in them."""
        lines = self._lines.feed(chunk)
        for line in lines:
            self._hear(line)
        self._advance_to_latest()
        return len(lines)

    def _hear(self, line: bytes) -> None:
        try:
            event = _decode_event(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = f"an event of {len(line)} bytes cannot be read: {error}"
            raise StreamError(TroubleKind.MALFORMED, what) from error
        match event.type:
            case ChangeType.ADDED | ChangeType.MODIFIED if self.listing:
                self._listed.append(event.object)
            case ChangeType.ADDED | ChangeType.MODIFIED | ChangeType.DELETED:
                self._flush()
                self._sink.changed(ChangeType(event.type), event.object)
                self._latest = event.object
            case "BOOKMARK":
                self._bookmark(event.object)
            case "ERROR":
                self._advance_to_latest()
                raise error_from_event(event.object)
            case _:
                raise StreamError(TroubleKind.MALFORMED, f"an event of unknown type {event.type[:40]!r}")

    def _bookmark(self, item: Raw) -> None:
        metadata = _metadata(item)
        if self.listing and (metadata.annotations or {}).get(_LISTING_ENDS) == "true":
            self._flush()
            self.listing, self.version, self._latest = False, metadata.resource_version, None
            self._sink.relisted(self.version)
        elif not self.listing and metadata.resource_version:
            self._advance(metadata.resource_version)
            self._latest = None
            self._sink.bookmarked(self.version)

    def _advance_to_latest(self) -> None:
        """Only the last event's version counts, so only that object is looked into."""
        self._flush()
        if self._latest is not None and not self.listing:
            self._advance(_metadata(self._latest).resource_version)
        self._latest = None

    def _flush(self) -> None:
        if self._listed:
            self._sink.listed(self._listed)
            self._listed = []

    def _advance(self, version: str) -> None:
        if version.isdecimal() and self.version.isdecimal() and int(version) < int(self.version):
            what = f"resourceVersion {version} came after {self.version}: an older state of the cluster"
            raise StreamError(TroubleKind.WENT_BACK, what)
        self.version = version or self.version


def _metadata(item: Raw) -> _Metadata:
    """An object without readable metadata has no version here; the sink reports it."""
    try:
        return _decode_object(item).metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Metadata()
