"""`growth orphans`: machines of this cluster that nothing in it speaks of. Lists them; deletes those a person names."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from growth.controllers.ask.orphans import find_orphans, give_back
from growth.controllers.configuration import Configuration, load_configuration
from growth.controllers.identity import cluster_id
from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.client import Client
from growth.kube.api.http import HttpTransport
from growth.kube.auth.kubeconfig import load_connection
from growth.model.offering import Machine
from growth.model.outcome import Accepted
from growth.providers.registry import open_provider


def orphans(
    *,
    settings: Annotated[Path | None, Parameter(help="The settings file that growth runs with.")] = None,
    kubeconfig: Annotated[
        Path | None, Parameter(help="Default: KUBECONFIG, the pod's service account, or ~/.kube/config.")
    ] = None,
    context: Annotated[str, Parameter(help="Context of the kubeconfig.")] = "",
    delete: Annotated[
        list[str] | None, Parameter(negative="", help="Names of orphaned machines to give back; may be repeated.")
    ] = None,
) -> int:
    """List machines without a NodeRequest, Node or NodeRemovalRequest, or give back those named with --delete."""
    configuration = load_configuration(settings, os.environ, {})
    return asyncio.run(_orphans(configuration, kubeconfig, context, delete or []))


async def _orphans(configuration: Configuration, kubeconfig: Path | None, context: str, names: list[str]) -> int:
    runtime = SystemRuntime()
    async with HttpTransport(load_connection(runtime, kubeconfig, context)) as transport:
        client = Client(transport, runtime)
        provider = open_provider(configuration.provider, client, runtime, configuration.catalogue)
        cluster = await cluster_id(client, configuration.installation)
        found = {machine.name: machine for machine in await find_orphans(client, provider, cluster)}
        if not names:
            Console().print(_table(list(found.values())) if found else "no orphaned machines")
            return 0
        unknown = [name for name in names if name not in found]
        if unknown:
            print(f"not an orphaned machine of this cluster: {', '.join(unknown)}. Nothing was deleted.")
            return 1
        outcomes = [(name, await give_back(client, provider, cluster, found[name])) for name in names]
    for name, outcome in outcomes:
        print(f"{name}: {'given back' if isinstance(outcome, Accepted) else outcome.reason}")
    return 0 if all(isinstance(outcome, Accepted) for _, outcome in outcomes) else 1


def _table(machines: list[Machine]) -> Table:
    table = Table("machine", "id", "offering", "location", "state", box=None)
    for machine in machines:
        table.add_row(machine.name, machine.machine_id, machine.offering, machine.location, machine.state)
    return table
