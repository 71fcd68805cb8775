"""How one piece of JSON is read, and what is said when it cannot be. Used by every decoder of the codec.

UnreadableError is the one error inside the codec; it never leaves it: the noun carries the sentence instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from growth.kube.codec.wire import WireMeta, WireOwner
from growth.model.instant import InstantError, parse_instant
from growth.model.labels import NO_LABELS, Labels
from growth.model.quantity import QuantityError, whole_value

Json = dict[str, Any]
Part = TypeVar("Part")

BROKEN: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)
NULL: Final = b"null"

_READ = ("growth.dev/", "karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/")
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}")
_VALUE = re.compile(rf"({_NAME})?")
_SHOWN = 80

_anything = msgspec.json.Decoder()
_texts = msgspec.json.Decoder(dict[str, str] | None)
_owners = msgspec.json.Decoder(tuple[WireOwner, ...] | None)


class UnreadableError(ValueError):
    """One sentence on what could not be read."""


def read(decoder: msgspec.json.Decoder[Part], raw: Raw | bytes, where: str) -> Part:
    """Decode one part; UnreadableError says where in the object it is."""
    try:
        return decoder.decode(raw)
    except BROKEN as error:
        raise UnreadableError(f"{where}: {describe_error(error)}") from None


def describe_error(error: Exception) -> str:
    """One short sentence, without the decoder's own punctuation for paths."""
    text = str(error) or type(error).__name__
    return " ".join(text.replace(" - at `$", " at `").split())[:400]


def read_labels(items: Mapping[str, str] | None, where: str) -> Labels:
    """Labels as Kubernetes allows them; a longer or stranger one makes the object malformed."""
    for key, value in (items or {}).items():
        if _KEY.fullmatch(key) is None:
            raise UnreadableError(f"{where}: {shown(key)} is not a label key")
        if _VALUE.fullmatch(value) is None:
            allowed = "(at most 63 letters, digits, '-', '_' and '.')"
            raise UnreadableError(f"{where}: {shown(value)} is not a value for the label {key} {allowed}")
    return Labels(items) if items else NO_LABELS


def all_annotations(meta: WireMeta) -> dict[str, str]:
    return read(_texts, meta.annotations, "metadata.annotations") or {}


def read_annotations(meta: WireMeta) -> Labels:
    """The annotations that growth reads."""
    found = all_annotations(meta)
    return Labels({key: value for key, value in found.items() if key.startswith(_READ)}) or NO_LABELS


def read_owners(raw: Raw) -> tuple[WireOwner, ...]:
    return read(_owners, raw, "metadata.ownerReferences") or ()


def controller_uid(meta: WireMeta) -> str:
    return next((owner.uid for owner in read_owners(meta.owner_references) if owner.controller), "")


def created_at(meta: WireMeta) -> float:
    return read_optional_instant(meta.creation_timestamp, "metadata.creationTimestamp") or 0.0


def deleted_at(meta: WireMeta) -> float | None:
    return read_optional_instant(meta.deletion_timestamp, "metadata.deletionTimestamp")


def read_raw_labels(raw: Raw, where: str = "metadata.labels") -> Labels:
    return read_labels(read(_texts, raw, where), where)


def read_instant(text: str, where: str) -> float:
    try:
        return parse_instant(text)
    except InstantError as error:
        raise UnreadableError(f"{where}: {error}") from None


def read_optional_instant(text: str | None, where: str) -> float | None:
    return read_instant(text, where) if text else None


def read_amount(text: str | int | float, where: str) -> int:
    """A quantity in whole units."""
    try:
        return whole_value(text)
    except QuantityError as error:
        raise UnreadableError(f"{where}: {error}") from None


def shown(text: str) -> str:
    """A foreign text, cut short, for a message."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}… ({len(text)} characters)"


def salvage(raw: Raw | bytes) -> dict[str, Any]:
    """The object as plain JSON; empty if that is not possible."""
    try:
        found = _anything.decode(raw)
    except BROKEN:
        return {}
    return found if isinstance(found, dict) else {}


def salvage_text(found: Any, *path: str) -> str:
    """The text at that path; "" if there is none or it is something else."""
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""


def salvage_instant(found: Any, *path: str) -> float | None:
    try:
        return parse_instant(salvage_text(found, *path))
    except InstantError:
        return None
