"""`growth doctor`: can growth work on this cluster, with these settings and these credentials? Asks, and says what to
do.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import msgspec

from growth.cli.session import (
    THE_CLUSTER,
    CatalogueFile,
    ClusterAccess,
    FindingsOutput,
    ProviderName,
    SettingsFile,
    provider_of,
)
from growth.controllers.ask.doctor import Doctor, Finding
from growth.controllers.ask.premises import installed_by
from growth.controllers.configuration import Configuration, load_configuration
from growth.controllers.loop.journal import be_quiet
from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.http import HttpTransport
from growth.kube.auth.credentials import ConfigError
from growth.kube.auth.kubeconfig import load_connection


def doctor(
    *,
    settings: SettingsFile = None,
    access: ClusterAccess = THE_CLUSTER,
    provider: ProviderName = None,
    catalogue: CatalogueFile = None,
    output: FindingsOutput = "text",
) -> int:
    """Check API server, clock, kinds, namespace, rights, leadership, provider and pools; end with 1 if any fails."""
    be_quiet()
    configuration = load_configuration(settings, os.environ, {"provider": provider, "catalogue": catalogue})
    return show(asyncio.run(_examine(configuration, access)), output)


async def _examine(configuration: Configuration, access: ClusterAccess) -> list[Finding]:
    runtime = SystemRuntime()
    try:
        connection = load_connection(runtime, access.kubeconfig, access.context)
    except ConfigError as error:
        return [Finding("API server", "failed", str(error), "name a kubeconfig with --kubeconfig or KUBECONFIG")]
    async with HttpTransport(connection) as transport:
        return await Doctor(transport, runtime, provider_of(configuration), installed_by(configuration)).examine()


def show(findings: Sequence[Finding], output: str) -> int:
    """Print findings; 1 if any of them failed."""
    print(msgspec.json.encode(findings).decode() if output == "json" else as_text(findings))
    return 1 if any(finding.state == "failed" for finding in findings) else 0


def as_text(findings: Sequence[Finding]) -> str:
    """One line for each finding, what to do about it below, and a last line that counts."""
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{finding.state:8} {finding.check:11} {finding.what}")
        if finding.advice:
            lines.append(f"{'':20} -> {finding.advice}")
    counts = {state: sum(finding.state == state for finding in findings) for state in ("failed", "warning")}
    return "\n".join([*lines, f"{len(findings)} findings: {counts['failed']} failed, {counts['warning']} warnings"])
