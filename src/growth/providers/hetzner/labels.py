"""How do growth's names become labels at Hetzner? Asked by launch and listing.

Values there have at most 63 characters of A-Z, a-z, 0-9, dot, dash and underscore, and begin and end with a letter or
digit. A cluster id (a UID and an installation's name of at most 26 characters) and a request's UID fit by design;
anything that would not is shortened to a digest, and read back by the one who knows the original."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

_VALUE: Final = re.compile(r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$")


def label_value(text: str) -> str:
    """The text itself where Hetzner takes it, else a digest of it."""
    return text if _VALUE.fullmatch(text) else f"sha256-{sha256(text.encode()).hexdigest()[:48]}"


def selector(key: str, text: str) -> str:
    return f"{key}={label_value(text)}"
