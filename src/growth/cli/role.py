"""`growth role`: the rights growth runs under, as manifests for `kubectl apply -f -`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import yaml
from cyclopts import Parameter
from msgspec.structs import replace

from growth.controllers.act.role import features_of, manifests
from growth.controllers.configuration import load_configuration


def role(
    *,
    provider: Annotated[
        str | None, Parameter(help="The provider growth will use, if not that of the settings: some need rights.")
    ] = None,
    namespace: Annotated[str | None, Parameter(help="Where growth runs, if not where the settings say.")] = None,
    settings: Annotated[
        Path | None,
        Parameter(
            help="The settings file: what is off in it (observe, featureGates, scheduler) needs no rights; kinds of "
            "warm pools named in it need some, and so do join tokens and an exposed page."
        ),
    ] = None,
) -> None:
    """Print ServiceAccount, roles and bindings: the least that growth needs."""
    found = load_configuration(settings, {}, {"provider": provider, "namespace": namespace})
    features = features_of(found)
    if settings is None:  # a flag may turn it on
        features = replace(features, schedules=True)
    items = manifests(features, found.namespace, found.installation, found.join_tokens)
    yaml.safe_dump_all(items, sys.stdout, sort_keys=False)
