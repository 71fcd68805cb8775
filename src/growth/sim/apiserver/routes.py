"""Which object does a path name? Asked by `apiserver` for every request; knows addresses, not verbs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from growth.sim.apiserver.kinds import BY_PLURAL, OTHER_VERSIONS, Kind
from growth.sim.apiserver.refusal import unknown_path

_CODED: Final = re.compile(r"[?%#]|^//|^[^/]|[^\x21-\x7e]")  # most paths say what they mean


class Route(Struct, frozen=True):
    """A collection, an object or a part of one. `api_version` is the one asked for, of several that are served."""

    kind: Kind
    api_version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@lru_cache(maxsize=64)  # who watches the traffic, faults and the server ask in turn
def split(path: str) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Path parts and query, decoded."""
    if not _CODED.search(path):
        return tuple(part for part in path.split("/") if part), {}
    parts = urlsplit(path)
    return tuple(unquote(part) for part in parts.path.split("/") if part), dict(parse_qsl(parts.query))


def find_route(parts: tuple[str, ...]) -> Route:
    """The route of a path below /api or /apis; raises the 404 of a server that does not serve it."""
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    kind = BY_PLURAL.get((group, rest[0]))
    if kind is None or not _serves(kind, group, version) or (namespace and not kind.resource.namespaced):
        raise unknown_path()
    name, subresource = [*rest[1:], "", ""][:2]
    return Route(kind, f"{group}/{version}" if group else version, namespace, name, subresource)


def _serves(kind: Kind, group: str, version: str) -> bool:
    return version == kind.resource.version or (group, version, kind.resource.plural) in OTHER_VERSIONS
