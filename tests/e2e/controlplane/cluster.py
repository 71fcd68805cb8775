"""A real Kubernetes control plane on loopback ports: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and
kwok as every kubelet.

Asked by the e2e fixtures and by whoever wants such a cluster:

    with ControlPlane(build.obtain(), folder) as plane:
        plane.kubectl("apply", "-f", "-", input=manifest)

Nodes with the annotation `kwok.x-k8s.io/node: fake` become Ready and stay so, pods on them Running, and deleted pods
go; pods of a Job end well at once. It decides nothing: flags are in `components`, names in `identities`, cleaning in
`cleaning`."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.e2e.controlplane import kubeconfig
from tests.e2e.controlplane.admin import Connection, context_for
from tests.e2e.controlplane.audit import AuditEvent, events_in
from tests.e2e.controlplane.build import Assets
from tests.e2e.controlplane.certificates import Authority
from tests.e2e.controlplane.cleaning import Cleaner
from tests.e2e.controlplane.components import PORT_NAMES, Layout, commands
from tests.e2e.controlplane.identities import (
    ADMIN,
    CONTROLLER_MANAGER,
    HARNESS,
    KWOK,
    MASTERS,
    SCHEDULER,
    SERVICE_ACCOUNT_PREFIX,
)
from tests.e2e.controlplane.processes import Process, ProcessEndedError, free_ports

READY_TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.05
KUBECTL_TIMEOUT_SECONDS = 60.0
HEALTH_PATHS = {
    "etcd": "/health",
    "kube-apiserver": "/readyz",
    "kube-controller-manager": "/healthz",
    "kube-scheduler": "/readyz",
    "kwok": "/healthz",
}
WITHOUT_TLS = ("etcd", "kwok")
NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class KubectlError(Exception):
    """kubectl ended with an error; `stderr` is what it said."""

    def __init__(self, arguments: Sequence[str], stderr: str) -> None:
        super().__init__(f"kubectl {' '.join(arguments)}: {stderr.strip()}")
        self.stderr = stderr


class StartError(Exception):
    """The control plane did not become ready; the message carries the end of every log."""


class ControlPlane:
    """One cluster in one folder. Start it from the main thread: its processes die with the thread that started them.

    Attributes: `url` of the API server, `kubeconfig` of an administrator, `start_seconds` from the call of `start`
    until ready."""

    def __init__(self, assets: Assets, folder: Path, extra_flags: Mapping[str, Sequence[str]] | None = None) -> None:
        """`extra_flags` are appended to the command line of the program they are keyed by, such as
        `kube-controller-manager`.
        """
        self.folder = folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._assets = assets
        self._authority = Authority(self.folder / "certificates")
        self._ports = dict(zip(PORT_NAMES, free_ports(len(PORT_NAMES)), strict=True))
        self.url = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = self.kubeconfig_for(ADMIN, [MASTERS])
        self.start_seconds = 0.0
        self.processes = self._processes(extra_flags or {})
        context = context_for(self._authority.certificate, self._authority.issue_client(HARNESS, [MASTERS]))
        self._context = context
        self._api = self.connect()
        self._health = {
            name: Connection(self._ports[name], None if name in WITHOUT_TLS else context) for name in HEALTH_PATHS
        }
        self._cleaner = Cleaner(self._api)
        self._audit_offset = 0

    @property
    def port(self) -> int:
        """The loopback port of the API server; it stays the same across restarts."""
        return self._ports["kube-apiserver"]

    @property
    def certificate_authority(self) -> Path:
        """The file with the certificate that every server of this cluster can be checked against."""
        return self._authority.certificate

    # Life

    def start(self) -> None:
        """Start everything and return when it works; StartError with the logs if it does not."""
        started_at = time.monotonic()
        try:
            for name in self.processes:
                self.start_component(name)
            self.wait_until(self._namespaces_are_furnished, "the service accounts of the first namespaces")
        except (ProcessEndedError, TimeoutError) as error:
            tails = "\n".join(
                f"--- {process.log}\n{process.log_tail()}"
                for process in self.processes.values()
                if process.log.exists()
            )
            self.stop()
            raise StartError(f"{error}\n{tails}") from error
        self._cleaner.remember()
        self.start_seconds = time.monotonic() - started_at

    def stop(self) -> None:
        """End every process at once, the last started first; the logs stay, the data of etcd does not."""
        for process in reversed(self.processes.values()):
            process.stop(grace_seconds=0)
        for connection in (self._api, *self._health.values()):
            connection.close()
        shutil.rmtree(self.folder / "etcd-data", ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start_apiserver(self) -> None:
        """Start the API server and return when it is ready."""
        self.start_component("kube-apiserver")

    def stop_apiserver(self, *, kill: bool = False) -> None:
        """End the API server in order, or with `kill` as a crash would; its connections break and its port refuses."""
        self.stop_component("kube-apiserver", kill=kill)

    def restart_apiserver(self, *, kill: bool = False) -> None:
        self.stop_apiserver(kill=kill)
        self.start_apiserver()

    def start_component(self, name: str) -> None:
        """Start any of `processes` by name and return when it is healthy."""
        self.processes[name].start()
        self.wait_until(lambda: self._health[name].healthy(HEALTH_PATHS[name]), f"{name} to be healthy")

    def stop_component(self, name: str, *, kill: bool = False) -> None:
        self.processes[name].stop(grace_seconds=0 if kill else 15)

    def clean(self) -> None:
        """Give the next test an empty cluster: start what a test stopped or what ended by itself (that test has failed
        of it, or did not need it), delete every object the cluster did not begin with, forget the audit log so far.

        kwok begins anew each time: when a node goes while its lease is renewed, and another of its name comes within
        seconds, kwok 0.8 holds the name twice, cannot take the second one off its heap, and renews no lease of any node
        from then on."""
        for name, process in self.processes.items():
            if not process.alive:
                self.start_component(name)
        self.stop_component("kwok", kill=True)
        self._cleaner.clean()
        self.start_component("kwok")
        self.forget_audit_events()

    # Use

    # `input` as subprocess names it
    def kubectl(self, *arguments: str, input: str | None = None, kubeconfig: Path | None = None) -> str:  # noqa: A002
        """Run kubectl as administrator, or with another kubeconfig, and return what it printed; KubectlError if it
        failed.
        """
        command = [
            str(self.kubectl_binary),
            f"--kubeconfig={kubeconfig or self.kubeconfig}",
            f"--cache-dir={self.folder / 'kubectl-cache'}",
            *arguments,
        ]
        environment = {**os.environ, "KUBERC": "off"}  # no preferences of the person who tests
        done = subprocess.run(
            command,
            input=input,
            capture_output=True,
            text=True,
            timeout=KUBECTL_TIMEOUT_SECONDS,
            check=False,
            env=environment,
        )
        if done.returncode != 0:
            raise KubectlError(arguments, done.stderr)
        return done.stdout

    @property
    def kubectl_binary(self) -> Path:
        return self._assets.binaries["kubectl"]

    def objects(self, kind: str, *arguments: str) -> list[dict[str, Any]]:
        """The objects of a kind as kubectl sees them now: `objects("pods", "--all-namespaces")`."""
        items: list[dict[str, Any]] = json.loads(self.kubectl("get", kind, "-o", "json", *arguments))["items"]
        return items

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        """Apply objects given as data, through kubectl and on the server's side."""
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        self.kubectl("apply", "--server-side", "-f", "-", input=document)

    def kubeconfig_for(self, name: str, groups: Sequence[str] = (), *, server: str | None = None) -> Path:
        """A kubeconfig for somebody.

        `system:serviceaccount:NAMESPACE:NAME` gets a token of that service account, which must exist, valid for an
        hour. Any other name is a user with a client certificate, in these groups. `server` leads elsewhere than to the
        API server itself: to a proxy before it."""
        if name.startswith(SERVICE_ACCOUNT_PREFIX):
            user = kubeconfig.with_token(self.token_for(name))
        else:
            user = kubeconfig.with_certificate(self._authority.issue_client(name, groups))
        file_name = re.sub(r"[^a-zA-Z0-9.]+", "-", f"{name}-{server or 'direct'}") + ".kubeconfig"
        return kubeconfig.write(
            self.folder / "kubeconfigs" / file_name, server or self.url, self._authority.certificate, user
        )

    def token_for(self, name: str) -> str:
        """A token of a service account, which must exist, valid for an hour."""
        namespace, account = name.removeprefix(SERVICE_ACCOUNT_PREFIX).split(":")
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        answer = self._api.post(
            path,
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}},
        )
        token: str = answer["status"]["token"]
        return token

    def connect(self, timeout_seconds: float = 30.0) -> Connection:
        """Another connection of the harness, which no audit log shows; one for each thread."""
        return Connection(self.port, self._context, timeout_seconds)

    @property
    def server_context(self) -> ssl.SSLContext:
        """For a server on loopback that clients of this cluster trust."""
        pair = self._authority.issue_server("gateway")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair.certificate, pair.key)
        return context

    def kubeconfig_with_token(self, token: str) -> Path:
        """A kubeconfig for the bearer of a token, whoever that is."""
        user, file_name = kubeconfig.with_token(token), f"bearer-of-{token.partition('.')[0]}.kubeconfig"
        return kubeconfig.write(self.folder / "kubeconfigs" / file_name, self.url, self._authority.certificate, user)

    def audit_events(self) -> Iterator[AuditEvent]:
        """Every request since the cluster was last cleaned; a line appears shortly after its request was answered, so
        wait for what you expect.
        """
        return events_in(self.folder / "audit.log", self._audit_offset)

    def forget_audit_events(self) -> None:
        self._audit_offset = (self.folder / "audit.log").stat().st_size

    def forget_history(self) -> None:
        """Make every resourceVersion and every continue token given out so far too old, so that their next use gets
        410.

        etcd is compacted, and the API server crashes and comes back: while it runs it answers from its own caches and
        would not notice."""
        etcd = self._health["etcd"]
        revision = etcd.post("/v3/kv/put", {"key": base64.b64encode(b"history-forgotten").decode()})["header"][
            "revision"
        ]
        etcd.post("/v3/kv/compaction", {"revision": revision, "physical": True})
        self.restart_apiserver(kill=True)

    def wait_until(
        self, condition: Callable[[], object], what: str, timeout_seconds: float = READY_TIMEOUT_SECONDS
    ) -> None:
        """Poll until the condition holds; TimeoutError naming `what` if it never does, ProcessEndedError if a program
        of the control plane dies meanwhile.
        """
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            for process in self.processes.values():
                process.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {timeout_seconds:.0f} s for {what}")
            time.sleep(POLL_SECONDS)

    # Steps

    def _processes(self, extra_flags: Mapping[str, Sequence[str]]) -> dict[str, Process]:
        programs = {"kube-controller-manager": CONTROLLER_MANAGER, "kube-scheduler": SCHEDULER, "kwok": KWOK}
        layout = Layout(
            folder=self.folder,
            assets=self._assets,
            ports=self._ports,
            authority=self._authority,
            serving=self._authority.issue_server("server"),
            token_signing=self._authority.issue_signing_key("service-accounts"),
            kubeconfigs={program: self.kubeconfig_for(user, [MASTERS]) for program, user in programs.items()},
        )
        return {
            name: Process(name, [*command, *extra_flags.get(name, ())], self.folder)
            for name, command in commands(layout).items()
        }

    def _namespaces_are_furnished(self) -> bool:
        """Pods can be made once the default service account exists; the configuration map comes last."""
        wanted = [
            path
            for namespace in NAMESPACES
            for path in (
                f"/api/v1/namespaces/{namespace}/serviceaccounts/default",
                f"/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt",
            )
        ]
        return all(self._api.ask("GET", path).good for path in wanted)
