"""Amounts of what a node has and a pod asks for: cpu, memory, ephemeral storage, pods, GPUs, any extended resource.

cpu is in millicores, everything else in units (bytes, pods, devices). Asked by every rule that adds, subtracts or
compares amounts. An absent name means zero; zeros are never kept, so equal amounts are equal values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from growth.model.quantity import QuantityError, format_bytes, format_milli, milli_value, whole_value

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

_BYTE_COUNTED = (MEMORY, EPHEMERAL_STORAGE)


class Resources(Mapping[str, int]):
    """An immutable, hashable mapping of resource name to amount."""

    __slots__ = ("_amounts", "_hash")
    _amounts: dict[str, int]
    _hash: int | None  # None: nobody has asked; most sums are never a key

    def __init__(self, amounts: Mapping[str, int] | None = None) -> None:
        self._amounts = {name: amount for name, amount in sorted((amounts or {}).items()) if amount}
        self._hash = None

    @classmethod
    def _in_order(cls, amounts: dict[str, int]) -> Resources:
        """Of names in their order and no zeros: most sums and differences have the names they are made from."""
        made = cls.__new__(cls)
        made._amounts = amounts
        made._hash = None
        return made

    @classmethod
    def parse(cls, quantities: Mapping[str, str | int | float]) -> Resources:
        """Read Kubernetes quantities; raises QuantityError naming the resource."""
        return cls({name: parse_amount(name, text) for name, text in quantities.items()})

    def __getitem__(self, name: str) -> int:
        return self._amounts.get(name, 0)

    # Amounts have no other default than zero.
    def get(self, name: str, default: int = 0) -> int:  # type: ignore[override]
        return self._amounts.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._amounts.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resources) and self._amounts == other._amounts

    def __reduce__(self) -> tuple[type[Resources], tuple[dict[str, int]]]:
        return (Resources, (self._amounts,))

    def __repr__(self) -> str:
        return f"Resources({self})"

    def __str__(self) -> str:
        return ", ".join(f"{name} {format_amount(name, amount)}" for name, amount in self._amounts.items())

    def __add__(self, other: Resources) -> Resources:
        more = other._amounts
        if not more:
            return self
        if more.keys() <= self._amounts.keys():
            sums = ((name, amount + more.get(name, 0)) for name, amount in self._amounts.items())
            return Resources._in_order({name: amount for name, amount in sums if amount})
        total = dict(self._amounts)
        for name, amount in more.items():
            total[name] = total.get(name, 0) + amount
        return Resources(total)

    def __sub__(self, other: Resources) -> Resources:
        return self + other.times(-1)

    def times(self, count: int) -> Resources:
        if count == 1:
            return self
        return Resources._in_order({name: amount * count for name, amount in self._amounts.items()} if count else {})

    def at_least(self, other: Resources) -> Resources:
        """The larger amount of each resource."""
        names = {*self._amounts, *other._amounts}
        return Resources({name: max(self[name], other[name]) for name in names})

    def fits_in(self, room: Resources) -> bool:
        return all(amount <= room[name] for name, amount in self._amounts.items() if amount > 0)

    def how_often_in(self, room: Resources) -> int | None:
        """How many times these amounts fit into `room`; None if they ask for nothing."""
        asked = [(name, amount) for name, amount in self._amounts.items() if amount > 0]
        return min((max(0, room[name]) // amount for name, amount in asked), default=None)


NOTHING: Final = Resources()


@lru_cache(maxsize=16_384, typed=True)  # as of quantities: few different ones, read again and again
def parse_amount(name: str, text: str | int | float) -> int:
    """One quantity in the unit growth keeps for that resource."""
    try:
        return milli_value(text) if name == CPU else whole_value(text)
    except QuantityError as error:
        raise QuantityError(f"{name}: {error}") from None


@lru_cache(maxsize=16_384)
def format_amount(name: str, amount: int) -> str:
    """An amount as people write it in a manifest."""
    if name == CPU:
        return format_milli(amount)
    return format_bytes(amount) if name in _BYTE_COUNTED or name.startswith("hugepages-") else str(amount)


def sum_resources(parts: Iterable[Resources]) -> Resources:
    """The sum of many, in one pass."""
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part._amounts.items():
            total[name] = total.get(name, 0) + amount
    return Resources(total)
