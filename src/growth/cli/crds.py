"""`growth crds`: our kinds as CustomResourceDefinitions, for `kubectl apply -f -`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from growth.kube.crds import definitions_yaml, write_definitions


def crds(*, directory: Annotated[Path | None, Parameter(help="Write one file for each kind into this directory instead of printing.")] = None) -> None:
    """Print the CustomResourceDefinitions of NodePool, NodeRequest and NodeRemovalRequest."""
    if directory is None:
        sys.stdout.write(definitions_yaml())
        return
    for path in write_definitions(directory):
        print(path)
