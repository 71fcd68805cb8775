"""Why, for people. The core never logs: a Note becomes event, condition, metric, log line, explain answer and page
text.

Asked by the journal, which knows for each reason where it goes.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class About(Struct, frozen=True, gc=False):
    """The object a note is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Note(Struct, frozen=True, gc=False):
    """One sentence about one object. `reason` is stable and in CamelCase, as Kubernetes events have it."""

    about: About
    reason: str
    message: str
    severity: Literal["Normal", "Warning"] = "Normal"
    fields: tuple[tuple[str, str | int | float], ...] = ()  # for logs and metrics
