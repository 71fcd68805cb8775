"""Where is the API server, and as whom do we speak to it? Asked once, by the command line.

    a path was given ...... that kubeconfig
    KUBECONFIG is set ..... those files
    inside a cluster ...... the pod's service account
    otherwise ............. ~/.kube/config

Several files are merged as kubectl does it: for each name, and for the current context, the first file that has it
wins; paths are relative to their file. Refuses what would be unsafe or misleading to ignore: skipped TLS
verification, passwords, impersonation, auth providers. Every error names the file and the field."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml
from msgspec import Struct, field

from growth.kube.auth.credentials import (
    ConfigError,
    Connection,
    Credential,
    Credentials,
    Plugin,
    PluginCredentials,
    ReadCredentials,
    file_bytes,
    file_token,
)
from growth.runtime import Runtime

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class _Variable(Struct):
    name: str
    value: str = ""


class _Exec(Struct, rename="camel"):
    command: str
    api_version: str
    args: list[str] = []
    env: list[_Variable] = []
    interactive_mode: str = ""
    provide_cluster_info: bool = False
    install_hint: str = ""


class _Cluster(Struct, rename="kebab"):
    server: str
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _User(Struct, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = field(default="", name="tokenFile")
    exec: _Exec | None = None
    username: str = ""
    password: str = ""
    auth_provider: Any = None
    impersonate: str = field(default="", name="as")
    impersonate_uid: str = field(default="", name="as-uid")
    impersonate_groups: list[str] = field(default_factory=list, name="as-groups")


class _Context(Struct):
    cluster: str
    user: str = ""
    namespace: str = "default"


class _Entry(Struct):
    """One named thing of any of the three kinds, and the file it came from."""

    name: str
    cluster: _Cluster | None = None
    user: _User | None = None
    context: _Context | None = None


class _File(Struct, rename="kebab"):
    current_context: str = ""
    clusters: list[_Entry] = []
    users: list[_Entry] = []
    contexts: list[_Entry] = []


_Content = TypeVar("_Content", _Cluster, _User, _Context)


class _Section(Struct, frozen=True):
    """A place in a file, to name it in errors and to resolve its paths."""

    path: Path
    kind: str
    name: str

    def at(self, key: str) -> str:
        return f"{self.path}: {self.kind}[{self.name}].{key}"

    def error(self, key: str, what: str) -> ConfigError:
        return ConfigError(f"{self.at(key)}: {what}")

    def file(self, value: str) -> Path:
        return self.path.parent / value

    def inline(self, key: str, value: str) -> bytes:
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise self.error(key, "is not base64") from None


def load_connection(
    runtime: Runtime, path: Path | None = None, context: str = "", environment: Mapping[str, str] = os.environ
) -> Connection:
    """The connection that this process should use; a context is looked for in kubeconfig files only."""
    if path is not None:
        return from_kubeconfig(runtime, [path], context)
    if environment.get("KUBECONFIG"):
        paths = [Path(each) for each in environment["KUBECONFIG"].split(os.pathsep) if each]
        return from_kubeconfig(runtime, paths, context)
    if environment.get("KUBERNETES_SERVICE_HOST") and not context:
        return in_cluster(runtime, environment)
    return from_kubeconfig(runtime, [Path.home() / ".kube" / "config"], context)


def in_cluster(
    runtime: Runtime, environment: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT
) -> Connection:
    """The connection of a pod. The kubelet renews the token, so it is read again each minute."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigError("not inside a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set")
    token = partial(file_token, folder / "token", "service account token (is automountServiceAccountToken off?)")
    authority = partial(file_bytes, folder / "ca.crt", "service account authority")
    for read in (token, authority):
        read()  # a missing file is better said now than at the first request
    namespace = folder / "namespace"
    return Connection(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        authority=authority,
        credentials=ReadCredentials(lambda: Credential(token=token()), runtime),
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
    )


def from_kubeconfig(runtime: Runtime, paths: list[Path], context: str = "") -> Connection:
    """The connection of a context (or the current one) in these files."""
    files = [(path, _parsed(path)) for path in paths if path.is_file()]
    if not files:
        raise ConfigError(f"no kubeconfig: {', '.join(map(str, paths))} not found")
    wanted = context or next((file.current_context for _, file in files if file.current_context), "")
    if not wanted:
        raise ConfigError(f"{files[0][0]}: current-context: not set, and no context was named")
    _, chosen = _find(files, "contexts", wanted, lambda entry: entry.context)
    cluster_section, cluster = _find(files, "clusters", chosen.cluster, lambda entry: entry.cluster)
    user_section, user = cluster_section, _User()
    if chosen.user:
        user_section, user = _find(files, "users", chosen.user, lambda entry: entry.user)
    _refuse_cluster(cluster_section, cluster)
    _refuse_user(user_section, user)
    file, inline = cluster.certificate_authority, cluster.certificate_authority_data
    authority = _reader(cluster_section, "certificate-authority", file, inline)
    return Connection(
        server=cluster.server.rstrip("/"),
        authority=authority,
        credentials=_credentials(runtime, user_section, user, _cluster_info(cluster, authority())),
        namespace=chosen.namespace,
        tls_server_name=cluster.tls_server_name,
        proxy_url=cluster.proxy_url,
    )


def _parsed(path: Path) -> _File:
    try:
        return msgspec.convert(_without_nulls(yaml.safe_load(path.read_text()) or {}), _File)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:  # its own text quotes the file, which holds secrets
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}: not YAML{line}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise ConfigError(f"{path}: not YAML") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _find(
    files: list[tuple[Path, _File]], kind: str, name: str, content: Callable[[_Entry], _Content | None]
) -> tuple[_Section, _Content]:
    for path, file in files:
        for entry in getattr(file, kind):
            if entry.name == name:
                section, found = _Section(path, kind, name), content(entry)
                if found is None:
                    raise section.error(kind.removesuffix("s"), "missing")
                return section, found
    raise ConfigError(f"{', '.join(str(path) for path, _ in files)}: {kind}: there is no {name!r}")


def _refuse_cluster(section: _Section, cluster: _Cluster) -> None:
    if cluster.insecure_skip_tls_verify:
        what = "TLS is always verified; name the authority in certificate-authority instead"
        raise section.error("insecure-skip-tls-verify", what)
    address = urlsplit(cluster.server)
    if address.scheme != "https" and not (address.scheme == "http" and address.hostname in _LOOPBACK):
        raise section.error("server", f"{cluster.server!r} is not an https address (http is for this machine only)")
    if cluster.proxy_url and urlsplit(cluster.proxy_url).scheme not in ("http", "https"):
        raise section.error("proxy-url", "only http and https proxies are supported")


def _refuse_user(section: _Section, user: _User) -> None:
    if user.username or user.password:
        what = "passwords are not supported, and Kubernetes itself has removed them; use a certificate, a token or exec"
        raise section.error("username", what)
    if user.auth_provider is not None:
        raise section.error("auth-provider", "removed from Kubernetes; use an exec plugin")
    if user.impersonate or user.impersonate_uid or user.impersonate_groups:
        raise section.error("as", "impersonation is not supported")


def _credentials(runtime: Runtime, section: _Section, user: _User, cluster_info: dict[str, Any]) -> Credentials:
    if user.exec is not None:
        return PluginCredentials(_plugin(section, user.exec, cluster_info), runtime)
    certificate = _reader(section, "client-certificate", user.client_certificate, user.client_certificate_data)
    key = _reader(section, "client-key", user.client_key, user.client_key_data)
    if bool(certificate()) != bool(key()):
        lacking = "client-key" if certificate() else "client-certificate"
        raise section.error(lacking, "missing: certificate and key belong together")
    token: Callable[[], str] = lambda: user.token  # noqa: E731 - one of two ways to get it
    if user.token_file:
        token = partial(file_token, section.file(user.token_file), section.at("tokenFile"))
    token()
    return ReadCredentials(lambda: Credential(token(), certificate(), key()), runtime)


def _reader(section: _Section, key: str, file: str, inline: str) -> Callable[[], bytes]:
    """Inline data wins over a file, which is read again each time."""
    if inline:
        return partial(bytes, section.inline(f"{key}-data", inline))
    if file:
        return partial(file_bytes, section.file(file), section.at(key))
    return bytes


def _plugin(section: _Section, given: _Exec, cluster_info: dict[str, Any]) -> Plugin:
    if given.api_version not in _EXEC_VERSIONS:
        what = f"{given.api_version!r} is not supported, only {' and '.join(_EXEC_VERSIONS)}"
        raise section.error("exec.apiVersion", what)
    mode = given.interactive_mode or ("" if given.api_version == _EXEC_VERSIONS[0] else "IfAvailable")
    if mode not in _INTERACTIVE_MODES:
        raise section.error("exec.interactiveMode", f"must be one of {', '.join(_INTERACTIVE_MODES)}, not {mode!r}")
    return Plugin(
        command=str(section.file(given.command).absolute()) if "/" in given.command else given.command,
        arguments=tuple(given.args),
        environment={each.name: each.value for each in given.env},
        api_version=given.api_version,
        interactive_mode=mode,
        install_hint=given.install_hint,
        cluster=cluster_info if given.provide_cluster_info else None,
    )


def _cluster_info(cluster: _Cluster, authority: bytes) -> dict[str, Any]:
    """The cluster, as it is described to a plugin."""
    info = {"server": cluster.server, "tls-server-name": cluster.tls_server_name, "proxy-url": cluster.proxy_url}
    info["certificate-authority-data"] = base64.b64encode(authority).decode()
    return {key: value for key, value in info.items() if value}
