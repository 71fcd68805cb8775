"""`growth role`: the rights growth runs under, as manifests for `kubectl apply -f -`."""

from __future__ import annotations

import sys
from typing import Annotated

import yaml
from cyclopts import Parameter

from growth.controllers.role import manifests


def role(
    *,
    provider: Annotated[str, Parameter(help="The provider growth will use: some need rights of their own.")] = "kwok",
    namespace: Annotated[str, Parameter(help="Where growth runs.")] = "growth-system",
) -> None:
    """Print ServiceAccount, roles and bindings: the least that growth needs."""
    yaml.safe_dump_all(manifests(provider, namespace), sys.stdout, sort_keys=False)
