"""`growth crds`: our kinds as CustomResourceDefinitions, for `kubectl apply -f -`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from growth.kube.crds import as_yaml, definitions_yaml, write_definitions
from growth.kube.crds.buffer import buffer_definition


def crds(
    *,
    directory: Annotated[
        Path | None, Parameter(help="Write one file for each kind into this directory instead of printing.")
    ] = None,
    capacity_buffers: Annotated[
        bool,
        Parameter(
            negative="",
            help="Print the standard kind CapacityBuffer instead; for kubectl create, which never overwrites.",
        ),
    ] = False,
) -> None:
    """Print the CustomResourceDefinitions of growth's own kinds."""
    if capacity_buffers:
        sys.stdout.write(as_yaml(buffer_definition()))
        return
    if directory is None:
        sys.stdout.write(definitions_yaml())
        return
    for path in write_definitions(directory):
        print(path)
