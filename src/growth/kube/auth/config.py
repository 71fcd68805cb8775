"""Where is the API server, and as whom do we speak to it? Asked once, by the command line; every error names the file
and the field.

a path was given ...... that kubeconfig
KUBECONFIG is set ..... those files; the first to name a thing wins
inside a cluster ...... the pod's service account
otherwise ............. ~/.kube/config
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from growth.kube.auth.connection import ConfigError, Connection, Credential, file_bytes, file_token
from growth.kube.auth.credentials import ReadCredentials
from growth.kube.auth.kubeconfig import from_kubeconfig
from growth.runtime import Runtime

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load_connection(
    runtime: Runtime, path: Path | None = None, context: str = "", environment: Mapping[str, str] = os.environ
) -> Connection:
    """The connection that this process should use; a context is looked for in kubeconfig files only."""
    if path is not None:
        return from_kubeconfig(runtime, [path], context)
    if environment.get("KUBECONFIG"):
        return from_kubeconfig(
            runtime, [Path(each) for each in environment["KUBECONFIG"].split(os.pathsep) if each], context
        )
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
