"""Labels, and the selectors that look at them. Asked by every rule that matches; a selector that is malformed matches
nothing.

| operator | matches when |
| --- | --- |
| In / NotIn | the value is (not) among the values; NotIn also when the key is absent |
| Exists / DoesNotExist | the key is present / absent |
| Gt / Lt | both are integers and the label's is greater / smaller (node selectors only) |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar, overload

from msgspec import Struct

Default = TypeVar("Default")

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ARCHITECTURE: Final = "kubernetes.io/arch"
OPERATING_SYSTEM: Final = "kubernetes.io/os"
TEMPLATE_HASH: Final = "pod-template-hash"  # of the pods of one ReplicaSet of a Deployment


class Labels(Mapping[str, str]):
    """An immutable, hashable mapping: labels, or the annotations that growth reads."""

    __slots__ = ("_hash", "_items")
    _items: dict[str, str]
    _hash: int

    def __init__(self, items: Mapping[str, str] | None = None) -> None:
        self._items = dict(sorted((items or {}).items()))
        self._hash = hash(tuple(self._items.items()))

    def __getitem__(self, key: str) -> str:
        return self._items[key]

    @overload
    def get(self, key: str, /) -> str | None: ...

    @overload
    def get(self, key: str, /, default: str | Default) -> str | Default: ...

    def get(self, key: str, /, default: str | Default | None = None) -> str | Default | None:
        """Every rule asks this of every node; the inherited one pays for an exception where the key is absent."""
        return self._items.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labels) and self._items == other._items

    def __reduce__(self) -> tuple[type[Labels], tuple[dict[str, str]]]:
        return (Labels, (self._items,))

    def __repr__(self) -> str:
        return f"Labels({self})"

    def __str__(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self._items.items())

    def with_items(self, items: Mapping[str, str]) -> Labels:
        return Labels({**self._items, **items})


NO_LABELS: Final = Labels()


class Requirement(Struct, frozen=True, gc=False):
    """One condition on one key."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.key} {self.operator}" + (f" [{', '.join(self.values)}]" if self.values else "")


class LabelSelector(Struct, frozen=True, gc=False):
    """All requirements hold; none at all matches everything (an absent selector, None, matches nothing)."""

    requirements: tuple[Requirement, ...] = ()

    def __str__(self) -> str:
        return ", ".join(str(requirement) for requirement in self.requirements) or "everything"


class NodeSelectorTerm(Struct, frozen=True, gc=False):
    """All expressions (on labels) and fields (on metadata.name) hold; an empty term matches no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def __str__(self) -> str:
        return " and ".join(str(requirement) for requirement in self.expressions + self.fields) or "nothing"
