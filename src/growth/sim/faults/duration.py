"""How long is `1h30m`? Asked wherever a scenario file speaks of time."""

from __future__ import annotations

import re
from typing import Any, Final, cast

_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART: Final = r"\d+(?:\.\d+)?[smhd]"
_WHOLE: Final = re.compile(rf"-?(?:{_PART})+")
PATTERN: Final = rf"^-?({_PART})+$"


class Duration(float):
    """Seconds, written as `30s`, `10m`, `1h30m` or `2d`; a bare number is seconds."""

    @classmethod
    def read(cls, value: Any) -> Duration:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return cls(value)
        if not isinstance(value, str) or not _WHOLE.fullmatch(value):
            raise ValueError(f"{value!r} is not a duration such as 30s, 10m, 1h30m or 2d")
        total = sum(float(part[:-1]) * _SECONDS[part[-1]] for part in re.findall(_PART, value))
        return cls(-total if value.startswith("-") else total)


NOTHING: Final = cast("Duration", 0.0)  # a plain number: a default that a schema can show
