"""What went wrong with a request, so that a caller can tell "refused" from "unknown".

Raised by the client, matched by its callers, which decide what to do about it.

    answered with a 4xx ........................ a kind of Refused: nothing was done
    no answer, read or never sent .............. Unreachable: nothing was done
    no answer or a 5xx to a write .............. EffectUnknown: read again before acting again
    a 5xx to a read ............................ ServerError
    leadership is gone before the write left ... NotLeader: nothing was done
"""

# ruff: noqa: N818 - these are the server's own words: NotFound, Conflict, Forbidden
from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from growth.kube.redaction import redact

LONGEST_RETRY_SECONDS = 60.0  # whoever asks for more is asked again after this: an answer may be a mistake


class KubeError(Exception):
    """Anything a request to the API server can end with, other than an answer."""


class Unreachable(KubeError):
    """No answer, and nothing was done: the request was only a question, or never left."""


class EffectUnknown(KubeError):
    """A write was sent, and its answer was lost or a server error. It may have happened, or may still happen."""


class NotLeader(KubeError):
    """The write was not begun because leadership is not certain."""


class UnreadableAnswer(KubeError):
    """The server's answer cannot be read."""


class Cause(Struct, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class _Details(Struct, frozen=True):
    causes: list[Cause] | None = None
    retryAfterSeconds: float = 0  # noqa: N815 - the name on the wire


class Status(Struct, frozen=True):
    """The API server's own description of a failure."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


class ApiError(KubeError):
    """The server answered, and said no. A webhook or a proxy may quote what it was sent, so its words pass the
    redaction.
    """

    def __init__(self, status: Status, retry_after_seconds: float | None = None) -> None:
        self.message = redact(status.message)
        super().__init__(f"{status.reason or 'HTTP error'} ({status.code}): {self.message}")
        self.code = status.code
        self.reason = status.reason
        self.causes = tuple((status.details and status.details.causes) or ())
        asked = retry_after_seconds or (status.details and status.details.retryAfterSeconds) or None
        self.retry_after_seconds = None if asked is None else min(asked, LONGEST_RETRY_SECONDS)


class Refused(ApiError):
    """A 4xx: the server did nothing, and said why."""


class ServerError(ApiError):
    """A 5xx. To a write it comes wrapped in EffectUnknown."""


class BadRequest(Refused): ...


class Unauthorized(Refused): ...


class Forbidden(Refused): ...


class NotFound(Refused): ...


class AlreadyExists(Refused): ...


class Conflict(Refused):
    """The object changed since it was read, or is not in a state for this."""


class Expired(Refused):
    """410: the resourceVersion or the continue token is older than what the server still knows."""


class Invalid(Refused):
    """422: the object breaks a rule; `causes` names the fields."""


class TooManyRequests(Refused): ...


class BlockedByBudget(TooManyRequests):
    """An eviction that a PodDisruptionBudget does not allow now."""


class InternalError(ServerError): ...


_BY_CODE: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
    500: InternalError,
}

_decode_status = msgspec.json.Decoder(Status).decode


def error_from_answer(code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The typed error of an HTTP answer; a body that is no Status (a proxy's page) becomes the message, cut short."""
    try:
        status = _decode_status(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = Status(message=body[:200].decode(errors="replace").strip())
    return _typed(msgspec.structs.replace(status, code=code), _seconds(headers.get("retry-after")))


def error_from_event(raw: bytes | msgspec.Raw) -> ApiError:
    """The typed error of an ERROR event in a watch stream."""
    try:
        status = _decode_status(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = Status(message="an ERROR event that is no Status")
    return _typed(status if status.code else msgspec.structs.replace(status, code=500), None)


def _typed(status: Status, retry_after_seconds: float | None) -> ApiError:
    if status.reason == "AlreadyExists":
        return AlreadyExists(status, retry_after_seconds)
    if _budget_blocks(status):
        return BlockedByBudget(status, retry_after_seconds)
    kind = _BY_CODE.get(status.code) or (Refused if status.code < 500 else ServerError)
    return kind(status, retry_after_seconds)


def _budget_blocks(status: Status) -> bool:
    causes = (status.details and status.details.causes) or ()
    names_budget = any(cause.reason == "DisruptionBudget" for cause in causes)
    return names_budget or "more than one PodDisruptionBudget" in status.message


def _seconds(value: str | None) -> float | None:
    return float(value) if value is not None and value.isascii() and value.isdigit() else None


def what_to_do(error: BaseException) -> str:
    """Where the API server said no to who asks, or does not know the kind: what helps. Empty: nothing is known."""
    match error:
        case Unauthorized():
            return "it does not accept the credentials: they are wrong or have expired (kubectl auth whoami)"
        case Forbidden():
            return "a right is missing: growth role | kubectl apply -f - grants growth's; growth doctor names each"
        case NotFound() if not error.reason or "could not find the requested resource" in error.message:
            return "the kind is not installed: growth crds | kubectl apply --server-side -f - installs growth's"
    return ""


def with_advice(error: BaseException) -> str:
    """The error, and what to do about it where that is known."""
    advice = what_to_do(error)
    return f"{error}; {advice}" if advice else str(error)
