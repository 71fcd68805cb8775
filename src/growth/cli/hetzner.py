"""`growth hetzner check`: would buying at Hetzner work with these settings, and what would each pool cost? Only asks;
buys nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import structlog
import yaml
from cyclopts import Parameter

from growth.cli.doctor import as_text
from growth.controllers.ask.doctor import Finding
from growth.controllers.ask.hetzner_check import HetznerCheck, examine_join_tokens
from growth.controllers.configuration import Configuration, load_configuration
from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.client import Client
from growth.kube.api.errors import KubeError
from growth.kube.api.http import HttpTransport
from growth.kube.api.resources import NODE_POOLS
from growth.kube.auth.connection import ConfigError
from growth.kube.auth.kubeconfig import load_connection
from growth.kube.codec import Codec
from growth.model.nodepool import NodePool
from growth.providers.hetzner.provider import HetznerProvider


def hetzner(
    action: Annotated[Literal["check"], Parameter(help="check: ask Hetzner and the cluster, change nothing.")],  # noqa: ARG001  (the only one so far)
    /,
    *,
    settings: Annotated[Path | None, Parameter(help="The settings file that growth runs with.")] = None,
    pools: Annotated[Path | None, Parameter(help="File with NodePools, instead of those in the cluster.")] = None,
    kubeconfig: Annotated[
        Path | None, Parameter(help="Default: KUBECONFIG, the pod's service account, or ~/.kube/config.")
    ] = None,
    context: Annotated[str, Parameter(help="Context of the kubeconfig.")] = "",
    output: Annotated[Literal["text", "json"], Parameter(help="Lines for people, or one JSON list.")] = "text",
) -> int:
    """Check token, limits, images, networks, user data and pools, with the price of each pool; end with 1 if anything
    fails.
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))  # findings say it all
    configuration = load_configuration(settings, os.environ, {})
    findings = asyncio.run(_check(configuration, pools, kubeconfig, context))
    print(msgspec.json.encode(findings).decode() if output == "json" else as_text(findings))
    return 1 if any(finding.state == "failed" for finding in findings) else 0


async def _check(
    configuration: Configuration, pools: Path | None, kubeconfig: Path | None, context: str
) -> list[Finding]:
    runtime = SystemRuntime()
    try:
        found, problems = await _pools(runtime, pools, kubeconfig, context)
        mints = configuration.join_tokens.mint
        if mints:
            problems.append(await _join_tokens(runtime, kubeconfig, context))
        provider = HetznerProvider(configuration.hetzner, runtime)
        return [
            *problems,
            *await HetznerCheck(configuration.hetzner, provider, found, mints_join_tokens=mints).examine(),
        ]
    finally:
        runtime.close()


async def _pools(
    runtime: SystemRuntime, path: Path | None, kubeconfig: Path | None, context: str
) -> tuple[list[NodePool], list[Finding]]:
    """From the file, or from the cluster; without either the rest is checked all the same."""
    try:
        items = _from_file(path) if path else await _from_cluster(runtime, kubeconfig, context)
    except (ConfigError, KubeError, OSError) as error:
        return [], [
            Finding(
                "pools", "warning", f"no NodePools could be read: {error}", "name a kubeconfig, or a file with --pools"
            )
        ]
    decoded = [Codec().decode(NODE_POOLS.kind, item).noun for item in items]
    bad = [
        Finding("pools", "failed", str(noun), "correct the NodePool")
        for noun in decoded
        if not isinstance(noun, NodePool)
    ]
    return [noun for noun in decoded if isinstance(noun, NodePool)], bad


async def _join_tokens(runtime: SystemRuntime, kubeconfig: Path | None, context: str) -> Finding:
    try:
        async with HttpTransport(load_connection(runtime, kubeconfig, context)) as transport:
            return await examine_join_tokens(Client(transport, runtime))
    except (ConfigError, KubeError) as error:
        return Finding("join tokens", "warning", f"whether they may be minted is unknown: {error}", "name a kubeconfig")


def _from_file(path: Path) -> list[bytes]:
    documents = (document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document)
    return [msgspec.json.encode(document) for document in documents if document.get("kind") == NODE_POOLS.kind]


async def _from_cluster(runtime: SystemRuntime, kubeconfig: Path | None, context: str) -> list[bytes]:
    async with HttpTransport(load_connection(runtime, kubeconfig, context)) as transport:
        items, _ = await Client(transport, runtime).list(NODE_POOLS)
        return [bytes(item) for item in items]
