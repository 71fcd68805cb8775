"""What does Hetzner's answer mean for growth? Asked by the provider for every call that did not simply succeed.

| Hetzner says | launch | delete | read |
| --- | --- | --- | --- |
| resource_unavailable, placement_error | NoCapacity: the next type or location | | |
| resource_limit_exceeded, forbidden, unauthorized, token_readonly | Refused; orders pause | Refused | ProviderError |
| invalid_input, protected, any other 4xx | Refused | Refused | ProviderError |
| uniqueness_error | adopted if it is ours, else Refused | | |
| conflict, locked, maintenance | TryLater | TryLater | ProviderError |
| rate_limit_exceeded | TryLater, in 45 s at most; no call before | the same | ProviderError |
| not_found, in its own words | Refused: what the order names is gone | Accepted: gone already | Gone (control read) |
| 5xx, timeout, an answer that cannot be read | Unknown | Unknown | ProviderError |
| the connection could not be made | TryLater | TryLater | ProviderError |

Texts pass the redaction before they are shown: Hetzner's own may quote a token.
"""

# ruff: noqa: N818 - the names say what happened
from __future__ import annotations

from typing import Final

from growth.kube.redaction import redact
from growth.model.outcome import NoCapacity, Outcome, Refused, TryLater, Unknown
from growth.providers.contract import ProviderError

NO_CAPACITY: Final = ("resource_unavailable", "placement_error")
HELD: Final = ("conflict", "locked")  # of this very server
LATER: Final = (*HELD, "maintenance")
# true for every order, not for one type
OF_THE_PROJECT: Final = ("resource_limit_exceeded", "forbidden", "unauthorized", "token_readonly")
WITHOUT_RESULT: Final = ("server_error", "service_error", "unavailable", "timeout", "bad_gateway")
NAME_TAKEN: Final = "uniqueness_error"
LIMITED: Final = "rate_limit_exceeded"
NOT_FOUND: Final = "not_found"

_LATER_SECONDS: Final = 5.0
_LONGEST_TEXT: Final = 500

_ADVICE: Final = {
    "unauthorized": "the token is not valid (any more): check the token file",
    "forbidden": "the token may not do this: it must have read and write rights",
    "token_readonly": "the token may only read: make one with read and write rights",
    "resource_limit_exceeded": "the project's limit is reached: ask Hetzner to raise it, or lower the pools' max",
    "no_subnet_available": "the subnet has no address left: add one to the network, and name it under subnets",
    "protected": "delete protection is on: take it off if the server may go",
}


class CallError(ProviderError):
    """A call that failed. Its text may be shown in events."""


class Answered(CallError):
    """Hetzner refused the call; `code` is its own word."""

    def __init__(self, code: str, message: str, status: int = 0) -> None:
        words = redact(message)[:_LONGEST_TEXT]
        super().__init__(f"{code}: {words}" + (f" ({_ADVICE[code]})" if code in _ADVICE else ""))
        self.code = code
        self.status = status


class _LostError(CallError):
    def __init__(self, message: str) -> None:
        super().__init__(redact(message)[:_LONGEST_TEXT])


class NoAnswer(_LostError):
    """No answer that can be believed came back; the call may have had its effect."""


class NeverSent(_LostError):
    """No connection: the call had no effect."""


class Limited(CallError):
    """No call is made now: Hetzner's limit of requests, or our own share of it, is used up."""

    def __init__(self, seconds: float, why: str) -> None:
        super().__init__(f"{why}; again in {seconds:.0f} s")
        self.seconds = seconds


class Unusable(Exception):
    """An order that the settings do not allow; the text says what to change."""


def outcome_of(error: CallError) -> Outcome:
    """What the failure of a call that buys or deletes means."""
    text = str(error)
    if isinstance(error, Limited):
        return TryLater(text, error.seconds)
    if isinstance(error, NeverSent):
        return TryLater(text, _LATER_SECONDS)
    if not isinstance(error, Answered):
        return Unknown(text)
    if error.code in NO_CAPACITY:
        return NoCapacity(text)
    if error.code in LATER:
        return TryLater(text, _LATER_SECONDS, is_held=error.code in HELD)
    return Unknown(text) if error.code in WITHOUT_RESULT or error.status >= 500 else Refused(text)


def outcome_before(error: CallError) -> Outcome:
    """What the failure of a question before an order means: nothing was bought."""
    if isinstance(error, Answered) and error.code in OF_THE_PROJECT:
        return Refused(str(error))
    return TryLater(str(error), error.seconds if isinstance(error, Limited) else _LATER_SECONDS)
