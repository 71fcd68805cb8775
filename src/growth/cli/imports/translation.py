"""What has been taken over from another tool so far: pools, settings, and what has no like in growth. Used by both
readers, and by the command that prints it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")


class Translation(Struct, frozen=True):
    """NodePools by name, as their specs; `notes` are for all of them, `of_pool` for one."""

    pools: Mapping[str, Mapping[str, Any]] = {}
    plans: Mapping[str, Any] = {}  # settings under `plans`
    notes: tuple[str, ...] = ()
    of_pool: Mapping[str, tuple[str, ...]] = {}


def seconds_of(text: str) -> int | None:
    """720h, 1h30m, 90s as Go writes them; None if it is no such text."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return round(sum(float(number) * _UNITS[unit] for number, unit in parts))


def chosen_types(types: Sequence[str], instead: Sequence[str], notes: list[str]) -> list[dict[str, Any]]:
    """The server types of a pool: its own, or those that the person named instead."""
    if instead and list(instead) != list(types):
        notes.append(f"server types {', '.join(types) or 'of any kind'} became {', '.join(instead)}, as you said")
    elif not types:
        notes.append("it names no server types: write what it may buy, or name them with --server-types")
    return [{"name": name} for name in (instead or types)]
