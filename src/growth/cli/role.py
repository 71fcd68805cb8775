"""`growth role`: the rights growth runs under, as manifests for `kubectl apply -f -`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import yaml
from cyclopts import Parameter

from growth.controllers.act.role import manifests
from growth.controllers.configuration import load_configuration


def role(
    *,
    provider: Annotated[str, Parameter(help="The provider growth will use: some need rights of their own.")] = "kwok",
    namespace: Annotated[str, Parameter(help="Where growth runs.")] = "growth-system",
    settings: Annotated[
        Path | None,
        Parameter(help="The settings file: its kinds of warm pools, join tokens and an exposed page need rights too."),
    ] = None,
) -> None:
    """Print ServiceAccount, roles and bindings: the least that growth needs."""
    found = load_configuration(settings, {}, {})
    items = manifests(
        provider,
        namespace,
        kinds=found.plans.warm_pools.kinds,
        tokens=found.join_tokens,
        exposes_page=found.page.enabled and found.page.is_exposed,
    )
    yaml.safe_dump_all(items, sys.stdout, sort_keys=False)
