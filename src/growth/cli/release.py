"""`growth release`: after growth has been taken away, let its objects go. Nodes and machines stay as they are."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from growth.controllers.ask.release import Released, why_not_release
from growth.controllers.ask.release import release as let_go
from growth.controllers.configuration import Configuration, load_configuration
from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.client import Client
from growth.kube.api.http import HttpTransport
from growth.kube.auth.kubeconfig import load_connection
from growth.kube.election import LeaseSettings


def release(
    *,
    settings: Annotated[
        Path | None,
        Parameter(help="The settings file that growth ran with: its installation and namespace name the Lease."),
    ] = None,
    kubeconfig: Annotated[
        Path | None, Parameter(help="Default: KUBECONFIG, the pod's service account, or ~/.kube/config.")
    ] = None,
    context: Annotated[str, Parameter(help="Context of the kubeconfig.")] = "",
    namespace: Annotated[str | None, Parameter(help="Where growth ran.")] = None,
) -> int:
    """Take growth's finalizer off NodeRequests, NodeRemovalRequests and NodePools. Stop growth first."""
    configuration = load_configuration(settings, os.environ, {"namespace": namespace})
    return asyncio.run(_release(configuration, kubeconfig, context))


async def _release(configuration: Configuration, kubeconfig: Path | None, context: str) -> int:
    runtime = SystemRuntime()
    async with HttpTransport(load_connection(runtime, kubeconfig, context)) as transport:
        client = Client(transport, runtime)
        why = await why_not_release(
            client, runtime, LeaseSettings(name=configuration.installation, namespace=configuration.namespace)
        )
        if why:
            print(f"{why}. Stop it first: helm uninstall, or scale its Deployment to 0.")
            return 1
        released = await let_go(client)
    print(as_text(released))
    return 1 if released.failures else 0


def as_text(released: Released) -> str:
    lines = [f"released {each}" for each in released.let_go]
    lines += [f"failed   {each}" for each in released.failures]
    lines += [f"tainted  {each}" for each in released.tainted]
    if released.tainted:
        lines.append(
            "Those nodes take no new pods while growth's taints are on them: `kubectl taint node NAME KEY:NoSchedule-` takes one off."
        )
    lines.append(
        f"{len(released.let_go)} released, {len(released.failures)} failed. Nodes and machines were left as they are."
    )
    return "\n".join(lines)
