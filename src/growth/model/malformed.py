"""An object of ours that could not be read, and why: it is reported on that object, and nothing else stops.

Made by the codec in place of the noun; asked by the journal and by every plan that must know what it cannot see.
"""

from __future__ import annotations

from msgspec import Struct


class Malformed(Struct, frozen=True, gc=False):
    """Where the object is, and one sentence about what is wrong with it."""

    kind: str
    name: str
    why: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __str__(self) -> str:
        return f"{self.kind} {self.key}: {self.why}"
