"""How do we reach the API server, and who are we to it right now? A Connection is address, trust and identity, as data;
credentials are asked by the HTTP transport before each request, and again after a 401.

Three sources: what a kubeconfig holds, files that are rewritten while we run (service account tokens, certificates),
and exec plugins. Secrets never appear in an error or a repr; what a plugin says for people goes to standard error, as
with kubectl, and without the secrets it was given or gives, unless it speaks with a person.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from growth.kube.redaction import Secrets, redact
from growth.model.instant import InstantError, parse_instant
from growth.runtime import Runtime

KEEP_FILES_SECONDS = 60.0
_PLUGIN_SECONDS = 120.0  # a person may have to log in
_EXPIRY_MARGIN_SECONDS = 10.0
_PLUGIN_PAUSE_SECONDS = 10.0  # between runs after refusals: a 401 of another cause must not start one each time


class ReadCredentials:
    """What a kubeconfig or files hold, read again each minute; an unreadable file leaves the last credential in use."""

    def __init__(self, read: Callable[[], Credential], runtime: Runtime) -> None:
        self._read = read
        self._runtime = runtime
        self._last: Credential | None = None
        self._read_at = -math.inf

    async def current(self) -> Credential:
        if self._last is None or self._runtime.monotonic() >= self._read_at + KEEP_FILES_SECONDS:
            try:
                self._last = self._read()
                self._read_at = self._runtime.monotonic()
            except ConfigError:
                if self._last is None:
                    raise
        return self._last

    def refused(self, credential: Credential) -> None:
        if credential == self._last:
            self._read_at = -math.inf


class Plugin(Struct, frozen=True):
    """An exec plugin as a kubeconfig describes it."""

    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    api_version: str
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None  # handed to the plugin where it asks for it


class _PluginStatus(Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""


class _PluginAnswer(Struct, rename="camel"):
    kind: str
    api_version: str
    status: _PluginStatus


class PluginCredentials:
    """Runs a plugin when its last answer has expired or was refused, once at a time."""

    def __init__(self, plugin: Plugin, runtime: Runtime) -> None:
        self._plugin = plugin
        self._runtime = runtime
        self._last: Credential | None = None
        self._ran_at = -math.inf  # monotonic
        self._expires_at = -math.inf  # by the wall clock, as plugins say it
        self._lock = asyncio.Lock()

    async def current(self) -> Credential:
        async with self._lock:
            if self._last is None or self._runtime.now() >= self._expires_at - _EXPIRY_MARGIN_SECONDS:
                answer = self._understood(await self._run())
                self._ran_at = self._runtime.monotonic()
                pair = (answer.client_certificate_data.encode(), answer.client_key_data.encode())
                self._last = Credential(answer.token, *pair)
                self._expires_at = self._expiry(answer.expiration_timestamp)
            return self._last

    def refused(self, credential: Credential) -> None:
        if credential == self._last and self._runtime.monotonic() >= self._ran_at + _PLUGIN_PAUSE_SECONDS:
            self._last = None

    async def _run(self) -> bytes:
        plugin = self._plugin
        interactive = self._may_ask()
        spec = {"interactive": interactive, **({"cluster": plugin.cluster} if plugin.cluster else {})}
        info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
        environment = {**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        stdin, stderr = (None, None) if interactive else (asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE)
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.arguments,
                env=environment,
                stdin=stdin,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
            )
        except OSError as error:
            raise self._failed(f"cannot be started: {error.strerror}. {plugin.install_hint}".strip()) from error
        try:
            output, said = await self._runtime.within(_PLUGIN_SECONDS, process.communicate())
            self._pass_on(said, output)
        except TimeoutError:
            raise self._failed(f"did not answer within {_PLUGIN_SECONDS:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode:
            raise self._failed(f"ended with code {process.returncode}; see standard error for what it said")
        return output

    def _pass_on(self, said: bytes | None, output: bytes) -> None:
        """What it said for people, without what only it and we know."""
        secrets = Secrets()
        answered = re.findall(r'"(?:token|clientKeyData)"\s*:\s*"([^"]+)"', output.decode(errors="replace"))
        for secret in (*self._plugin.environment.values(), *answered):
            secrets.add_long_token(secret)
        sys.stderr.write(redact(secrets.redact((said or b"").decode(errors="replace"))))

    def _may_ask(self) -> bool:
        mode = self._plugin.interactive_mode
        available = mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if mode == "Always" and not available:
            raise self._failed("wants to ask a person (interactiveMode: Always), but standard input is not a terminal")
        return available

    def _understood(self, output: bytes) -> _PluginStatus:
        try:
            answer = msgspec.json.decode(output, type=_PluginAnswer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._failed(f"wrote no ExecCredential: {error}") from None
        wanted = self._plugin.api_version
        if (answer.kind, answer.api_version) != ("ExecCredential", wanted):
            raise self._failed(f"answered with {answer.api_version} {answer.kind}, not with {wanted} ExecCredential")
        if bool(answer.status.client_certificate_data) != bool(answer.status.client_key_data):
            raise self._failed("must answer with clientCertificateData and clientKeyData together")
        if not answer.status.token and not answer.status.client_key_data:
            raise self._failed("answered with neither a token nor a certificate")
        return answer.status

    def _expiry(self, stamp: str) -> float:
        try:
            return parse_instant(stamp) if stamp else math.inf
        except InstantError as error:
            raise self._failed(f"answered with an expirationTimestamp that is no time: {error}") from None

    def _failed(self, what: str) -> ConfigError:
        return ConfigError(f"the exec plugin {self._plugin.command!r} {what}")


class ConfigError(Exception):
    """The configuration cannot be used; the message names the file and the field, or the plugin."""


class Credential(Struct, frozen=True):
    """A bearer token, or a client certificate with its key (PEM), or both, or neither."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""

    def __repr__(self) -> str:
        return f"Credential(token={bool(self.token)}, certificate={bool(self.certificate)})"


class Credentials(Protocol):
    """Who we are right now; raises ConfigError when that cannot be found out."""

    async def current(self) -> Credential: ...

    def refused(self, credential: Credential) -> None:
        """The server answered 401 to this credential: do not give it from memory again."""


class Connection(Struct, frozen=True):
    server: str  # https://host:port, perhaps with a path, without a slash at its end
    authority: Callable[[], bytes]  # PEM of those who may vouch for the server; empty means the system's
    credentials: Credentials
    namespace: str = "default"
    tls_server_name: str = ""
    proxy_url: str = ""


def file_bytes(path: Path, needed_for: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{needed_for}: {path} cannot be read: {error.strerror}") from error
    if not content.strip():
        raise ConfigError(f"{needed_for}: {path} is empty")
    return content


def file_token(path: Path, needed_for: str) -> str:
    try:
        return file_bytes(path, needed_for).decode("ascii").strip()
    except UnicodeDecodeError:
        raise ConfigError(f"{needed_for}: {path} holds no token") from None
