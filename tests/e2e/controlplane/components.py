"""With which command lines does the control plane run? Asked by `cluster`; the only place with flags.

Defaults stay wherever behaviour could differ from a real cluster: admission, feature gates, the scheduler's profile,
grace periods. What differs is speed (client rate limits, no fsync, no leader election) and the controllers that have
nothing to do where no kubelet, cloud or network exists."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import yaml

from tests.e2e.controlplane.audit import POLICY
from tests.e2e.controlplane.build import Assets
from tests.e2e.controlplane.certificates import Authority, KeyPair

REQUESTS_PER_SECOND = 1000
BURST = 2000
SCHEDULER_REQUESTS = 10_000  # each second, and at once: at its default of 50 nothing can be compared with it

PORT_NAMES = ("etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

# As far as this version has them. Everything else of kube-controller-manager runs, also what a later version adds.
CONTROLLERS_OFF = (
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "horizontal-pod-autoscaler-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "node-ipam-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-expander-controller",
    "podcertificaterequest-cleaner-controller",
    "service-cidr-controller",
    "storage-version-migrator-controller",
    "storageversion-garbage-collector-controller",
)


class Layout(msgspec.Struct, frozen=True):
    """What the command lines are made from: the folder of the run, its ports by name, its keys, and one kubeconfig for
    each program.
    """

    folder: Path
    assets: Assets
    ports: Mapping[str, int]
    authority: Authority
    serving: KeyPair
    token_signing: KeyPair
    kubeconfigs: Mapping[str, Path]

    def url(self, name: str, scheme: str = "https") -> str:
        return f"{scheme}://127.0.0.1:{self.ports[name]}"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    @property
    def etcd_data(self) -> Path:
        return self.folder / "etcd-data"


def commands(layout: Layout) -> dict[str, list[str]]:
    """The command line of each program, by name, in the order in which they are started."""
    return {name: [str(layout.assets.binaries[name]), *flags(layout)] for name, flags in COMPONENTS.items()}


def _etcd(layout: Layout) -> list[str]:
    client, peer = layout.url("etcd", "http"), layout.url("etcd-peer", "http")
    return [
        "--name=test",
        f"--data-dir={layout.etcd_data}",
        "--watch-progress-notify-interval=5s",  # as kubeadm sets it: without it quiet watches get no bookmarks
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=test={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _api_server(layout: Layout) -> list[str]:
    policy = _written(layout.folder / "audit-policy.yaml", POLICY)
    return [
        f"--etcd-servers={layout.url('etcd', 'http')}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # endpoints may not be loopback addresses
        f"--secure-port={layout.ports['kube-apiserver']}",
        f"--tls-cert-file={layout.serving.certificate}",
        f"--tls-private-key-file={layout.serving.key}",
        f"--client-ca-file={layout.authority.certificate}",
        "--authorization-mode=Node,RBAC",
        "--enable-bootstrap-token-auth",  # as kubeadm sets it
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.token_signing.certificate}",
        f"--service-account-signing-key-file={layout.token_signing.key}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--allow-privileged=true",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-maxsize=100000",  # megabytes: one file for the whole run
        "--delete-collection-workers=8",
        "--shutdown-watch-termination-grace-period=2s",  # without it open watches keep a stopping server for a minute
    ]


def _controller_manager(layout: Layout) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfigs['kube-controller-manager']}",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports['kube-controller-manager']}",
        f"--tls-cert-file={layout.serving.certificate}",
        f"--tls-private-key-file={layout.serving.key}",
        f"--root-ca-file={layout.authority.certificate}",
        f"--service-account-private-key-file={layout.token_signing.key}",
        "--leader-elect=false",
        f"--kube-api-qps={REQUESTS_PER_SECOND}",
        f"--kube-api-burst={BURST}",
        f"--controllers=*,{','.join(f'-{name}' for name in _known_controllers_off(layout))}",
    ]


def _known_controllers_off(layout: Layout) -> list[str]:
    """An older version does not start if it is told of a controller that it has not."""
    command = [str(layout.assets.binaries["kube-controller-manager"]), "--help"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [name for name in CONTROLLERS_OFF if name in told]


def _scheduler(layout: Layout) -> list[str]:
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(layout.kubeconfigs["kube-scheduler"]),
            "qps": SCHEDULER_REQUESTS,
            "burst": SCHEDULER_REQUESTS,
        },
        "leaderElection": {"leaderElect": False},
    }
    return [
        f"--config={_written(layout.folder / 'scheduler.yaml', configuration)}",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports['kube-scheduler']}",
        f"--tls-cert-file={layout.serving.certificate}",
        f"--tls-private-key-file={layout.serving.key}",
    ]


def _kwok(layout: Layout) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfigs['kwok']}",
        f"--config={layout.assets.stages}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",
        "--node-ip=10.0.0.1",
        "--cidr=10.0.0.0/16",
        f"--server-address=127.0.0.1:{layout.ports['kwok']}",
    ]


COMPONENTS: Mapping[str, Callable[[Layout], list[str]]] = {
    "etcd": _etcd,
    "kube-apiserver": _api_server,
    "kube-controller-manager": _controller_manager,
    "kube-scheduler": _scheduler,
    "kwok": _kwok,
}


def _written(path: Path, content: object) -> Path:
    path.write_text(yaml.safe_dump(content))
    return path
