"""What was read before need not be read or kept again. Asked by the codec, for every text and value that repeats.

A Memo forgets in two generations, so it stays bounded while pods of ever new templates come and go. Forgetting costs
time, never truth."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

GENERATION: Final = 32_768


class Memo(Generic[Key, Value]):
    """A bounded mapping: what was not asked for during one whole generation is forgotten."""

    __slots__ = ("_limit", "_older", "_recent")

    def __init__(self, limit: int = GENERATION) -> None:
        self._limit = limit
        self._recent: dict[Key, Value] = {}
        self._older: dict[Key, Value] = {}

    def __len__(self) -> int:
        return len(self._recent) + len(self._older)

    def get(self, key: Key) -> Value | None:
        value = self._recent.get(key)
        if value is None:
            value = self._older.pop(key, None)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: Key, value: Value) -> Value:
        if len(self._recent) >= self._limit:
            self._older, self._recent = self._recent, {}
        self._recent[key] = value
        return value


class Interned(Generic[Key]):
    """Equal values become one object."""

    __slots__ = ("_memo",)

    def __init__(self, limit: int = GENERATION) -> None:
        self._memo: Memo[Key, Key] = Memo(limit)

    def one(self, value: Key) -> Key:
        known = self._memo.get(value)
        return known if known is not None else self._memo.put(value, value)
