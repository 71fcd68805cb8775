"""All that a transport needs to know to speak to one API server: address, trust and identity, as data.

Made by `kube/auth/kubeconfig.py`, used by `kube/api/http.py`. No secret appears in a repr or
an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct


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
