"""A right that something growth does needs. Declared beside the thing that needs it; collected into the role by
`controllers/act/role.py`.
"""

from __future__ import annotations

from msgspec import Struct

from growth.kube.api.resources import Resource


class Right(Struct, frozen=True):
    """Verbs on a resource or a subresource; `namespace` is set where a namespaced Role is enough."""

    resource: Resource
    verbs: tuple[str, ...]
    subresource: str = ""
    namespace: str = ""
