"""The examples that people copy: templates fill in to what k3s, kubeadm and Talos read, and the settings and the pool
are ones that growth takes.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from growth.controllers.configuration import Configuration
from growth.kube.codec import Codec
from growth.model.labels import Labels
from growth.model.node import STARTUP_TAINT, Taint
from growth.model.nodepool import NodePool
from growth.providers.hetzner.settings import Launch
from growth.providers.hetzner.userdata import user_data_for
from tests.providers.hetzner.worlds import JOIN_TOKEN, order

EXAMPLES = Path(__file__).parents[3] / "deploy/examples/hetzner"
VALUES = {
    "server": "https://10.0.0.2:6443",
    "k3s_version": "v1.33.5+k3s1",
    "api_server": "10.0.0.2:6443",
    "ca_cert_hash": "sha256:00",
}
ORDER = order(
    labels=Labels({"growth.dev/pool": "default", "team": "a"}), taints=(STARTUP_TAINT, Taint("gpu", "yes", "NoExecute"))
)


def filled_in(name: str, folder: Path) -> Any:
    (folder / "join-token").write_text(JOIN_TOKEN)
    launch = Launch(user_data_file=str(EXAMPLES / name), join_token_file=str(folder / "join-token"), values=VALUES)
    return yaml.safe_load(user_data_for(ORDER, launch, "amd64"))


def files(cloud_config: Any) -> dict[str, str]:
    return {each["path"]: each["content"] for each in cloud_config["write_files"]}


def test_k3s_reads_server_token_name_labels_and_taints(tmp_path: Path) -> None:
    written = files(filled_in("k3s.yaml", tmp_path))
    assert yaml.safe_load(written["/etc/rancher/k3s/config.yaml"]) == {
        "server": "https://10.0.0.2:6443",
        "token": JOIN_TOKEN,
        "node-name": ORDER.name,
        "node-label": ["growth.dev/pool=default", "team=a"],
        "node-taint": ["growth.dev/unregistered=:NoSchedule", "gpu=yes:NoExecute"],
    }
    assert "provider-id=hcloud://$(curl " in written["/usr/local/sbin/join"]


def test_kubeadm_reads_a_join_configuration(tmp_path: Path) -> None:
    join = yaml.safe_load(files(filled_in("kubeadm.yaml", tmp_path))["/etc/kubernetes/join.yaml"])
    assert join["nodeRegistration"]["name"] == ORDER.name
    assert join["nodeRegistration"]["taints"][1] == {"key": "gpu", "value": "yes", "effect": "NoExecute"}
    assert {"name": "node-labels", "value": "growth.dev/pool=default,team=a"} in join["nodeRegistration"][
        "kubeletExtraArgs"
    ]
    assert join["discovery"]["bootstrapToken"]["token"] == JOIN_TOKEN


def test_talos_reads_a_machine_configuration(tmp_path: Path) -> None:
    machine = filled_in("talos.yaml", tmp_path)["machine"]
    assert (machine["network"]["hostname"], machine["nodeLabels"]) == (
        ORDER.name,
        {"growth.dev/pool": "default", "team": "a"},
    )
    assert [taint["key"] for taint in machine["kubelet"]["extraConfig"]["registerWithTaints"]] == [
        "growth.dev/unregistered",
        "gpu",
    ]


@pytest.mark.parametrize("name", ["k3s.yaml", "kubeadm.yaml", "talos.yaml"])
def test_nothing_is_left_to_fill_in(name: str, tmp_path: Path) -> None:
    assert "{{" not in json.dumps(filled_in(name, tmp_path))


def test_the_settings_of_the_example_are_taken() -> None:
    values = yaml.safe_load((EXAMPLES / "values.yaml").read_text())
    assert msgspec.convert(values["settings"], Configuration).hetzner.launch.networks == ("kube",)


def test_the_pool_of_the_example_is_taken() -> None:
    pool = Codec().decode("NodePool", json.dumps(yaml.safe_load((EXAMPLES / "pool.yaml").read_text())).encode()).noun
    assert isinstance(pool, NodePool)


# -------------------------------------------------------------------------------- the script of k3s

STUBS = {
    "curl": """#!/bin/sh
for word; do last=$word; done
case "$last" in
  */instance-id) echo 42 ;;
  */private-networks) cat "$STAGE/networks" ;;
  *) echo 'echo "$INSTALL_K3S_EXEC $INSTALL_K3S_VERSION" > "$STAGE/installed"' ;;
esac
""",
    "ip": '#!/bin/sh\necho . >> "$STAGE/looks"\n[ "$(wc -l < "$STAGE/looks")" -lt 3 ] || cat "$STAGE/addresses"\n',
    "sleep": "#!/bin/sh\n",
}
IN_NETWORKS = (
    "- ip: 10.0.0.3\n  alias_ips: []\n  interface_num: 1\n  network_id: 7001\n- ip: 10.9.0.3\n  alias_ips: []\n"
)
ADDRESSES = (
    "2: eth0    inet 203.0.113.7/32 scope global eth0\n"
    "3: enp7s0    inet 10.0.0.3/32 brd 10.0.0.3 scope global dynamic enp7s0\n"
)


def joined(folder: Path, networks: str) -> tuple[Any, str]:
    """What the script writes for k3s, and what it installs, on a machine whose network comes up late."""
    for name, text in STUBS.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "networks").write_text(networks)
    (folder / "addresses").write_text(ADDRESSES)
    script = files(filled_in("k3s.yaml", folder))["/usr/local/sbin/join"].replace("/etc/rancher", f"{folder}/rancher")
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "STAGE": str(folder)}
    subprocess.run(["sh", "-c", script], env=environment, check=True, timeout=30)
    return yaml.safe_load((folder / "rancher/k3s/config.yaml.d/machine.yaml").read_text()), (
        folder / "installed"
    ).read_text()


def test_a_k3s_node_in_a_private_network_uses_its_address_there(tmp_path: Path) -> None:
    machine, installed = joined(tmp_path, IN_NETWORKS)
    assert machine == {"kubelet-arg": ["provider-id=hcloud://42"], "node-ip": "10.0.0.3", "flannel-iface": "enp7s0"}
    assert installed == f"agent {VALUES['k3s_version']}\n"


def test_a_k3s_node_without_a_private_network_leaves_that_to_k3s(tmp_path: Path) -> None:
    assert joined(tmp_path, "[]\n")[0] == {"kubelet-arg": ["provider-id=hcloud://42"]}
