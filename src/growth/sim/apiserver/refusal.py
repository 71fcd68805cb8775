"""How does an API server say no? Raised by the verbs of the embedded one; sent as a Status, in the real one's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from growth.sim.apiserver.kinds import Json, Kind


class Refusal(Exception):  # noqa: N818  (an answer of the server, not a mistake of ours)
    """A Status with its HTTP code. `retry_after_seconds` also becomes a header."""

    def __init__(
        self, code: int, reason: str, message: str, details: Json | None = None, retry_after_seconds: int | None = None
    ) -> None:
        super().__init__(f"{reason} ({code}): {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self.retry_after_seconds = retry_after_seconds

    def body(self) -> bytes:
        return msgspec.json.encode(self.status())

    def status(self) -> Json:
        retry = {"retryAfterSeconds": self.retry_after_seconds} if self.retry_after_seconds else {}
        details = {"details": {**self.details, **retry}} if self.details or retry else {}
        envelope: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        return {**envelope, "message": self.message, "reason": self.reason, **details, "code": self.code}

    def headers(self) -> dict[str, str]:
        return {"retry-after": str(self.retry_after_seconds)} if self.retry_after_seconds else {}


def attempt(write: Callable[..., object], *arguments: Any) -> None:
    """Write, unless it is refused: the object changed or went meanwhile, and its next version will be heard of."""
    try:
        write(*arguments)
    except Refusal:
        return


def _details(kind: Kind, name: str, **more: Any) -> Json:
    return {"name": name, "group": kind.resource.group, "kind": kind.resource.plural, **more}


def not_found(kind: Kind, name: str) -> Refusal:
    return Refusal(404, "NotFound", f'{kind.resource} "{name}" not found', _details(kind, name))


def unknown_path() -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource")


def already_exists(kind: Kind, name: str) -> Refusal:
    return Refusal(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', _details(kind, name))


def conflict(kind: Kind, name: str, why: str) -> Refusal:
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return Refusal(409, "Conflict", message, _details(kind, name))


def precondition_failed(kind: Kind, name: str, label: str, wanted: str, found: str) -> Refusal:
    why = f"Precondition failed: {label} in precondition: {wanted}, {label} in object meta: {found}"
    return conflict(kind, name, why)


def changed_meanwhile(kind: Kind, name: str) -> Refusal:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def invalid(kind: Kind, name: str, causes: list[tuple[str, str]]) -> Refusal:
    """422; each cause is a field and what is wrong with it."""
    listed = [{"reason": "FieldValueInvalid", "message": why, "field": field} for field, why in causes]
    together = ", ".join(f"{field}: {why}" for field, why in causes)
    shown = together if len(causes) == 1 else f"[{together}]"
    message = f'{kind.name}.{kind.resource.group} "{name}" is invalid: {shown}'
    return Refusal(422, "Invalid", message, _details(kind, name, causes=listed))


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def not_allowed(verb: str) -> Refusal:
    return Refusal(405, "MethodNotAllowed", f"the server does not allow this method on the requested resource: {verb}")


def expired(what: str) -> Refusal:
    return Refusal(410, "Expired", what)


def too_many(message: str, retry_after_seconds: int = 1, causes: list[Json] | None = None) -> Refusal:
    return Refusal(429, "TooManyRequests", message, {"causes": causes} if causes else None, retry_after_seconds)


def unavailable(message: str) -> Refusal:
    return Refusal(503, "ServiceUnavailable", message)


def internal(message: str) -> Refusal:
    return Refusal(500, "InternalError", message)
