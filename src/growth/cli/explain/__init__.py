"""`growth explain`: what would growth make of this object, and why? With the code that decides in a cluster; it changes
nothing.

| subject | from | answered by |
| --- | --- | --- |
| pod, node, nodepool (pool) | the cluster | `cli/explain/cluster`: where a pod would go, why a node stays, whether a
  pool can buy |
| poolautoscaler, pa | a file and the numbers of a pool, or the cluster | `cli/explain/autoscaler`: how many replicas a
  PoolAutoscaler wants |
| buffer | a file | `cli/explain/buffer`: how large each CapacityBuffer is |
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from growth.cli.explain.autoscaler import NOTHING_GIVEN, GivenCounts, explain_file, explain_live
from growth.cli.explain.buffer import explain_buffers
from growth.cli.explain.cluster import explain_in_cluster
from growth.cli.session import THE_CLUSTER, ClusterAccess, SettingsFile
from growth.controllers.configuration import load_configuration

Subject = Literal["pod", "node", "nodepool", "pool", "poolautoscaler", "pa", "autoscaler", "buffer"]


def explain(  # noqa: PLR0913 - every flag is an argument
    subject: Annotated[
        Subject,
        Parameter(
            help="pod, node, nodepool (pool), poolautoscaler (pa): one of them; buffer: the CapacityBuffers of a file."
        ),
    ],
    name: Annotated[str, Parameter(help="Of the object in the cluster, where no file is given.")] = "",
    /,
    *,
    file: Annotated[
        Path | None,
        Parameter(name=("--file", "-f"), help="Manifests, with what they refer to; - reads standard input."),
    ] = None,
    namespace: Annotated[
        str, Parameter(name=("--namespace", "-n"), help="Of the pod or autoscaler in the cluster.")
    ] = "default",
    given: GivenCounts = NOTHING_GIVEN,
    sizing: Annotated[
        Literal["capped", "upstream"] | None, Parameter(help="buffer: default: the setting plans.bufferSizing.")
    ] = None,
    settings: SettingsFile = None,
    access: ClusterAccess = THE_CLUSTER,
    output: Annotated[Literal["text", "json"], Parameter(help="Lines for people, or JSON.")] = "text",
) -> int:
    """Say what growth would make of an object, and why; end with 1 if it cannot work as it is."""
    configuration = load_configuration(settings, os.environ, {})
    plans = configuration.plans
    match subject:
        case "buffer":
            if file is None:
                raise ValueError("say which --file the buffers are in")
            return explain_buffers(file, sizing or plans.buffer_sizing, output)
        case "pod" | "node" | "nodepool" | "pool":
            if not name:
                raise ValueError(f"say which {subject}")
            key = f"{namespace}/{name}" if subject == "pod" and "/" not in name else name
            asked = "nodepool" if subject == "pool" else subject
            return explain_in_cluster(asked, key, configuration, access, output)
        case "poolautoscaler" | "pa" | "autoscaler":
            if file is not None:
                return explain_file(file, given, plans.warm_pools, output)
            if not name:
                raise ValueError("say which autoscaler, or which --file it is in")
            return explain_live(f"{namespace}/{name}", access, given.around, plans.warm_pools, output)
