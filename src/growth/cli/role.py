"""`growth role`: the rights growth runs under, as manifests for `kubectl apply -f -`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import yaml
from cyclopts import Parameter

from growth.controllers.configuration import load_configuration
from growth.controllers.role import manifests


def role(
    *,
    provider: Annotated[str, Parameter(help="The provider growth will use: some need rights of their own.")] = "kwok",
    namespace: Annotated[str, Parameter(help="Where growth runs.")] = "growth-system",
    settings: Annotated[Path | None, Parameter(help="The settings file: kinds of warm pools that are named in it need rights too.")] = None,
) -> None:
    """Print ServiceAccount, roles and bindings: the least that growth needs."""
    kinds = load_configuration(settings, {}, {}).plans.warm_pools.kinds
    yaml.safe_dump_all(manifests(provider, namespace, kinds=kinds), sys.stdout, sort_keys=False)
