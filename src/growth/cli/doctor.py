"""`growth doctor`: can growth work on this cluster, with these settings and these credentials? Asks, and says what to
do.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import structlog
from cyclopts import Parameter

from growth.controllers.ask.doctor import Doctor, Finding, Installed
from growth.controllers.configuration import Configuration, load_configuration
from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.client import Client
from growth.kube.api.http import HttpTransport
from growth.kube.auth.connection import ConfigError
from growth.kube.auth.kubeconfig import load_connection
from growth.providers.contract import Provider
from growth.providers.registry import open_provider
from growth.runtime import Runtime


def doctor(
    *,
    settings: Annotated[Path | None, Parameter(help="The settings file that growth runs with.")] = None,
    kubeconfig: Annotated[
        Path | None, Parameter(help="Default: KUBECONFIG, the pod's service account, or ~/.kube/config.")
    ] = None,
    context: Annotated[str, Parameter(help="Context of the kubeconfig.")] = "",
    provider: Annotated[str | None, Parameter(help="Where machines come from.")] = None,
    catalogue: Annotated[str | None, Parameter(help="File with the machines to offer.")] = None,
    output: Annotated[Literal["text", "json"], Parameter(help="Lines for people, or one JSON list.")] = "text",
) -> int:
    """Check API server, clock, kinds, rights, provider and pools; end with 1 if anything fails."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))  # findings say it all
    configuration = load_configuration(settings, os.environ, {"provider": provider, "catalogue": catalogue})
    findings = asyncio.run(_examine(configuration, kubeconfig, context))
    print(msgspec.json.encode(findings).decode() if output == "json" else as_text(findings))
    return 1 if any(finding.state == "failed" for finding in findings) else 0


async def _examine(configuration: Configuration, kubeconfig: Path | None, context: str) -> list[Finding]:
    runtime = SystemRuntime()
    try:
        connection = load_connection(runtime, kubeconfig, context)
    except ConfigError as error:
        return [Finding("API server", "failed", str(error), "name a kubeconfig with --kubeconfig or KUBECONFIG")]
    installed = Installed(
        configuration.provider, configuration.installation, configuration.namespace, configuration.join_tokens.mint
    )
    async with HttpTransport(connection) as transport:
        examiner = Doctor(transport, runtime, partial(_open_provider, configuration), installed)
        return await examiner.examine()


def _open_provider(configuration: Configuration, client: Client, runtime: Runtime) -> Provider:
    return open_provider(configuration.provider, client, runtime, configuration.catalogue, configuration.hetzner)


def as_text(findings: Sequence[Finding]) -> str:
    """One line for each finding, what to do about it below, and a last line that counts."""
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{finding.state:8} {finding.check:11} {finding.what}")
        if finding.advice:
            lines.append(f"{'':20} -> {finding.advice}")
    counts = {state: sum(finding.state == state for finding in findings) for state in ("failed", "warning")}
    return "\n".join([*lines, f"{len(findings)} findings: {counts['failed']} failed, {counts['warning']} warnings"])
