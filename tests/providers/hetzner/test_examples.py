"""The examples that people copy: templates fill in to what k3s, kubeadm and Talos read, and the settings and the pool are ones that growth takes."""

from __future__ import annotations

import json
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
VALUES = {"server": "https://10.0.0.2:6443", "k3s_version": "v1.33.5+k3s1", "api_server": "10.0.0.2:6443", "ca_cert_hash": "sha256:00"}
ORDER = order(labels=Labels({"growth.dev/pool": "default", "team": "a"}), taints=(STARTUP_TAINT, Taint("gpu", "yes", "NoExecute")))


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
    assert {"name": "node-labels", "value": "growth.dev/pool=default,team=a"} in join["nodeRegistration"]["kubeletExtraArgs"]
    assert join["discovery"]["bootstrapToken"]["token"] == JOIN_TOKEN


def test_talos_reads_a_machine_configuration(tmp_path: Path) -> None:
    machine = filled_in("talos.yaml", tmp_path)["machine"]
    assert (machine["network"]["hostname"], machine["nodeLabels"]) == (ORDER.name, {"growth.dev/pool": "default", "team": "a"})
    assert [taint["key"] for taint in machine["kubelet"]["extraConfig"]["registerWithTaints"]] == ["growth.dev/unregistered", "gpu"]


@pytest.mark.parametrize("name", ["k3s.yaml", "kubeadm.yaml", "talos.yaml"])
def test_nothing_is_left_to_fill_in(name: str, tmp_path: Path) -> None:
    assert "{{" not in json.dumps(filled_in(name, tmp_path))


def test_the_settings_of_the_example_are_taken() -> None:
    values = yaml.safe_load((EXAMPLES / "values.yaml").read_text())
    assert msgspec.convert(values["settings"], Configuration).hetzner.launch.networks == ("kube",)


def test_the_pool_of_the_example_is_taken() -> None:
    pool = Codec().decode("NodePool", json.dumps(yaml.safe_load((EXAMPLES / "pool.yaml").read_text())).encode()).noun
    assert isinstance(pool, NodePool)
