"""Which words must nobody ever read? Secrets are made known here once; whatever is shown passes through `redact`.

Asked by providers and by the HTTP transport for every text that came from outside (a provider's own error may quote
part of a token, a proxy's the address with its password), and by the logs for every line. A part of a secret is a
secret too: any run of `SHORTEST_PART` characters of a token, or of `SHORTEST_QUOTE` of a longer text, is struck out;
the user part of any URL is, without being made known. Secrets that were replaced stay secret; those that are surely
worthless can be forgotten."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import unquote, urlsplit

SHORTEST_PART: Final = 8
SHORTEST_QUOTE: Final = 24  # of user data: short runs of it are ordinary words
STRUCK_OUT: Final = "[redacted]"
_LATEST_TEXTS: Final = 8
_USER_OF_URL: Final = re.compile(r"(?<=://)[^\s/?#\"'<>]+(?=@)")  # user and password


class Secrets:
    """What is secret in this process."""

    def __init__(self) -> None:
        self._parts: dict[str, int] = {}  # run of characters → its length, for tokens
        self._quotes: dict[int, frozenset[str]] = {}  # by hash of the text, the latest few

    def add_token(self, secret: str) -> None:
        """Make a token known: every part of it is secret."""
        self._parts |= {part: len(part) for part in _parts_of(secret)}

    def add_url(self, url: str) -> None:
        """Make the password in an address known: by itself, and as it is sent. A short one would strike out words."""
        parts = urlsplit(url)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if password:
            self.add_token(base64.b64encode(f"{user}:{password}".encode()).decode())
            self.add_long_token(password)

    def add_long_token(self, secret: str) -> None:
        """Make it known unless it is so short that it may be an ordinary word."""
        if len(secret) >= SHORTEST_PART:
            self.add_token(secret)

    def forget_token(self, secret: str) -> None:
        """Forget a token that is worthless now."""
        for part in _parts_of(secret):
            self._parts.pop(part, None)

    def add_text(self, text: str, public: Iterable[str] = ()) -> None:
        """A long text, such as user data: only longer quotes of it are struck out, only the latest texts are kept.
        `public`: what stands in it and everybody may read, such as a node's name.
        """
        key = hash(text)
        self._quotes.pop(key, None)
        for word in public:
            text = text.replace(word, "\n")
        lines = (line.strip() for line in text.splitlines())
        self._quotes[key] = frozenset(
            line[start : start + SHORTEST_QUOTE] for line in lines for start in range(len(line) - SHORTEST_QUOTE + 1)
        )
        while len(self._quotes) > _LATEST_TEXTS:
            del self._quotes[next(iter(self._quotes))]

    def redact(self, text: str) -> str:
        text = _USER_OF_URL.sub(STRUCK_OUT, text)
        covered = [False] * len(text)
        for length in sorted({*self._parts.values()}):
            self._cover(text, covered, length, self._parts)
        for quotes in self._quotes.values():
            self._cover(text, covered, SHORTEST_QUOTE, quotes)
        return _struck_out(text, covered) if any(covered) else text

    def redact_value(self, value: Any) -> Any:
        """The same for any value of a log line."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            return {self.redact_value(key): self.redact_value(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact_value(each) for each in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        shown = repr(value)
        clean = self.redact(shown)
        return value if clean == shown else clean

    @staticmethod
    def _cover(text: str, covered: list[bool], length: int, runs: dict[str, int] | frozenset[str]) -> None:
        for start in range(len(text) - length + 1):
            if text[start : start + length] in runs:
                covered[start : start + length] = [True] * length


def _parts_of(secret: str) -> list[str]:
    parts = (secret[start : start + SHORTEST_PART] for start in range(max(1, len(secret) - SHORTEST_PART + 1)))
    return [part for part in parts if part]


def _struck_out(text: str, covered: list[bool]) -> str:
    """Each covered run becomes one mark."""
    pieces, place = [], 0
    while place < len(text):
        if not covered[place]:
            pieces.append(text[place])
            place += 1
            continue
        while place < len(text) and covered[place]:
            place += 1
        pieces.append(STRUCK_OUT)
    return "".join(pieces)


SECRETS: Final = Secrets()


def redact(text: str) -> str:
    """The text without anything that was made known as secret."""
    return SECRETS.redact(text)
