"""`growth hetzner check`: would buying at Hetzner work with these settings, and what would each pool cost? Only asks;
buys nothing.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml
from cyclopts import Parameter

from growth.cli.doctor import show
from growth.cli.session import THE_CLUSTER, ClusterAccess, FindingsOutput, SettingsFile
from growth.controllers.ask.doctor import Finding
from growth.controllers.ask.hetzner_check import HetznerCheck, examine_join_tokens
from growth.controllers.configuration import Configuration, load_configuration
from growth.controllers.loop.journal import be_quiet
from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.api.errors import KubeError
from growth.kube.api.resources import NODE_POOLS
from growth.kube.auth.credentials import ConfigError
from growth.kube.codec import Codec
from growth.model.nodepool import NodePool
from growth.providers.hetzner.provider import HetznerProvider

Check = Annotated[Literal["check"], Parameter(help="check: ask Hetzner and the cluster, change nothing.")]


def hetzner(
    action: Check,  # noqa: ARG001  (the only one so far)
    /,
    *,
    settings: SettingsFile = None,
    pools: Annotated[Path | None, Parameter(help="File with NodePools, instead of those in the cluster.")] = None,
    access: ClusterAccess = THE_CLUSTER,
    output: FindingsOutput = "text",
) -> int:
    """Check token, limits, images, networks, user data and pools, with the price of each pool; end with 1 if anything
    fails.
    """
    be_quiet()
    configuration = load_configuration(settings, os.environ, {})
    return show(asyncio.run(_check(configuration, pools, access)), output)


async def _check(configuration: Configuration, pools: Path | None, access: ClusterAccess) -> list[Finding]:
    found, findings = await _pools(pools, access)
    mints, settings, runtime = configuration.join_tokens.mint, configuration.hetzner, SystemRuntime()
    if mints:
        findings.append(await _join_tokens(access))
    try:
        check = HetznerCheck(settings, HetznerProvider(settings, runtime), found, mints_join_tokens=mints)
        return findings + await check.examine()
    finally:
        runtime.close()


async def _pools(path: Path | None, access: ClusterAccess) -> tuple[list[NodePool], list[Finding]]:
    """From the file, or from the cluster; without either the rest is checked all the same."""
    try:
        items = _from_file(path) if path else await _from_cluster(access)
    except (ConfigError, KubeError, OSError) as error:
        why, advice = f"no NodePools could be read: {error}", "name a kubeconfig, or a file with --pools"
        return [], [Finding("pools", "warning", why, advice)]
    nouns = [Codec().decode(NODE_POOLS.kind, item).noun for item in items]
    pools = [noun for noun in nouns if isinstance(noun, NodePool)]
    unread = [noun for noun in nouns if not isinstance(noun, NodePool)]
    return pools, [Finding("pools", "failed", str(noun), "correct the NodePool") for noun in unread]


def _from_file(path: Path) -> list[bytes]:
    documents = (document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document)
    return [msgspec.json.encode(document) for document in documents if document.get("kind") == NODE_POOLS.kind]


async def _from_cluster(access: ClusterAccess) -> list[bytes]:
    async with access.connect() as (client, _):
        items, _ = await client.list(NODE_POOLS)
        return [bytes(item) for item in items]


async def _join_tokens(access: ClusterAccess) -> Finding:
    try:
        async with access.connect() as (client, _):
            return await examine_join_tokens(client)
    except (ConfigError, KubeError) as error:
        return Finding("join tokens", "warning", f"whether they may be minted is unknown: {error}", "name a kubeconfig")
