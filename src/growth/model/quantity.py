"""What number does a Kubernetes quantity mean? Asked by everything that reads resources; exact, never by way of floats.

All forms of the API are read ("0.5", "1.5Gi", "1e3", "100m", "2k", "1Ei"). As in Kubernetes, magnitudes are capped at
2^63 - 1 and whole or milli values are rounded up (away from zero)."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

LARGEST = 2**63 - 1

_FORM = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
_LONGEST_TEXT = 64
_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{suffix + "i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}


class QuantityError(ValueError):
    """The text is not a quantity."""


@lru_cache(maxsize=16_384, typed=True)  # a cluster writes few different amounts; typed, because True is not 1 here
def parse_quantity(text: str | int | float) -> Fraction:
    """The exact number; raises QuantityError with the text in its message."""
    written = text if isinstance(text, str) else repr(text)
    match = _FORM.fullmatch(written) if len(written) <= _LONGEST_TEXT else None
    if match is None or isinstance(text, bool):
        raise QuantityError(f"{written[:_LONGEST_TEXT]!r} is not a quantity (examples: 250m, 1.5Gi, 2)")
    sign, digits, suffix = match.group(1), match.group(2), match.group(3) or ""
    magnitude = min(Fraction(digits) * _multiplier(suffix), Fraction(LARGEST))
    return -magnitude if sign == "-" else magnitude


def _multiplier(suffix: str) -> Fraction:
    known = _SUFFIXES.get(suffix)
    if known is not None:
        return known
    exponent = max(
        -_LONGEST_TEXT, min(_LONGEST_TEXT, int(suffix[1:]))
    )  # beyond that the cap or the rounding decides anyway
    return Fraction(10) ** exponent


def whole_value(text: str | int | float) -> int:
    """In units, rounded up: bytes, pods, GPUs."""
    return _away_from_zero(parse_quantity(text))


def milli_value(text: str | int | float) -> int:
    """In thousandths, rounded up: cpu."""
    return max(-LARGEST, min(LARGEST, _away_from_zero(parse_quantity(text) * 1000)))


def _away_from_zero(number: Fraction) -> int:
    return -(-number.numerator // number.denominator) if number >= 0 else number.numerator // number.denominator


def format_milli(milli: int) -> str:
    """A cpu amount as people write it: 2, 1500m."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def format_bytes(count: int) -> str:
    """A byte amount as people write it: exact where a binary suffix divides it, else rounded to one decimal."""
    if abs(count) < 1024:
        return str(count)
    power = min(6, (abs(count).bit_length() - 1) // 10)
    unit = 1024**power
    suffix = "KMGTPE"[power - 1] + "i"
    return f"{count // unit}{suffix}" if count % unit == 0 else f"{count / unit:.1f}{suffix}"
