"""How does a command begin? The flags that many commands share, the way to the cluster and to the provider, and where
log lines go. Used by the commands; it decides nothing.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import structlog
from cyclopts import Parameter
from rich.console import Console

from growth.controllers.configuration import Configuration
from growth.controllers.loop.runtime import SystemRuntime
from growth.controllers.observe.observer import look_once
from growth.kube.api.client import Client
from growth.kube.api.http import HttpTransport
from growth.kube.auth.kubeconfig import load_connection
from growth.kube.redaction import SECRETS
from growth.model.snapshot import Snapshot
from growth.providers.contract import Provider
from growth.providers.registry import open_provider
from growth.runtime import Runtime

SettingsFile = Annotated[Path | None, Parameter(help="The settings file that growth runs with.")]
ProviderName = Annotated[Literal["kwok", "hetzner"] | None, Parameter(help="Where machines come from.")]
CatalogueFile = Annotated[str | None, Parameter(help="File with the machines to offer.")]
FindingsOutput = Annotated[
    Literal["text", "json"], Parameter(name=("--output", "-o"), help="Lines for people, or one JSON list.")
]
TextOrJson = Annotated[Literal["text", "json"], Parameter(name=("--output", "-o"), help="Lines for people, or JSON.")]


@Parameter(name="*")
@dataclass(frozen=True)
class ClusterAccess:
    """Which cluster a command speaks to, and as whom: the flags that say so."""

    kubeconfig: Annotated[
        Path | None, Parameter(help="Default: KUBECONFIG, the pod's service account, or ~/.kube/config.")
    ] = None
    context: Annotated[str, Parameter(help="Context of the kubeconfig.")] = ""

    @asynccontextmanager
    async def connect(
        self, may_write: Callable[[], bool] = lambda: True
    ) -> AsyncIterator[tuple[Client, SystemRuntime]]:
        """Raises ConfigError where no kubeconfig says how."""
        runtime = SystemRuntime()
        try:
            async with HttpTransport(load_connection(runtime, self.kubeconfig, self.context)) as transport:
                yield Client(transport, runtime, may_write=may_write), runtime
        finally:
            runtime.close()


_WIDTH: Final = 240  # where nobody looks at a terminal
THE_CLUSTER: Final = ClusterAccess()  # the one that the environment names


def provider_of(configuration: Configuration) -> Callable[[Client, Runtime], Provider]:
    """How the provider of these settings is opened."""
    return lambda client, runtime: open_provider(
        configuration.provider, client, runtime, configuration.catalogue, configuration.hetzner
    )


async def look(client: Client, runtime: Runtime, configuration: Configuration) -> Snapshot:
    """One look at the cluster and the provider, as a running growth sees them."""
    provider = provider_of(configuration)(client, runtime)
    with busy("looking at the cluster"):
        return await look_once(client, provider, configuration.installation, configuration.plans)


def busy(with_what: str) -> AbstractContextManager[object]:
    """A sign of life on a terminal while something takes longer than a moment; nothing is written elsewhere."""
    console = Console(stderr=True)
    return console.status(with_what) if console.is_terminal else nullcontext()


def console_for_people() -> Console:
    """Colours and the terminal's width where a person watches; elsewhere lines as long as they are, for `grep`."""
    return Console(highlight=False, markup=False, soft_wrap=True, width=None if sys.stdout.isatty() else _WIDTH)


def read_text(file: Path) -> str:
    """What a file says; - is standard input."""
    return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")


def set_up_logs(level: str) -> None:
    """Log one JSON object a line on standard error, or coloured text where a person watches."""
    for_people = structlog.dev.ConsoleRenderer(colors="NO_COLOR" not in os.environ)
    for_programs = structlog.processors.JSONRenderer(ensure_ascii=False)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            redact,
            for_people if sys.stderr.isatty() else for_programs,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """No line leaves with a secret in it, traces included."""
    return {name: SECRETS.redact_value(value) for name, value in event.items()}
