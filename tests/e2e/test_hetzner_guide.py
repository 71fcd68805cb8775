"""The commands of the guide "Hetzner in ten minutes", word for word, against a real API server. No machine boots, and
no pod of growth starts, here.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.e2e.chart import ROOT, Helm
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.running import NAMESPACE

GUIDE = ROOT / "docs/guides/hetzner.md"
ELSEWHERE = (
    "docker ",
    " exec ",
    "--watch",
    "growth demo",
)  # needs a container runtime, a running pod, a person who looks


def commands(files: dict[str, Path]) -> list[str]:
    text = GUIDE.read_text(encoding="utf-8")
    for name, path in files.items():
        text = text.replace(f"={name}", f"={path}")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if not any(word in line for word in ELSEWHERE)]


def on_the_server(cluster: ControlPlane, helm: Helm, folder: Path) -> dict[str, str]:
    """The two tools, and the kubeconfig that the guide tells to export."""
    for name, binary in (("kubectl", cluster.kubectl_binary), ("helm", helm.binary)):
        (folder / name).symlink_to(binary)
    return {
        **os.environ,
        **helm.environment,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "KUBECONFIG": str(cluster.kubeconfig),
    }


def test_every_command_works_in_the_order_of_the_guide(cluster: ControlPlane, helm: Helm, tmp_path: Path) -> None:
    files = {
        "hetzner-token.txt": tmp_path / "hetzner-token.txt",
        "/var/lib/rancher/k3s/server/node-token": tmp_path / "node-token",
    }
    for path in files.values():
        path.write_text("not-so-secret")
    environment = on_the_server(cluster, helm, tmp_path)
    for command in commands(files):
        done = subprocess.run(
            ["sh", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), f"{command}\n{done.stdout}"
    assert [pool["metadata"]["name"] for pool in cluster.objects("nodepools")] == ["default"]
    [deployment] = cluster.objects("deployments", f"--namespace={NAMESPACE}")
    [secret] = [volume["secret"] for volume in deployment["spec"]["template"]["spec"]["volumes"] if "secret" in volume]
    [mounted] = [
        item
        for item in cluster.objects("secrets", f"--namespace={NAMESPACE}")
        if item["metadata"]["name"] == secret["secretName"]
    ]
    assert sorted(mounted["data"]) == ["join-token", "token", "user-data"]
    settings = cluster.kubectl(
        "get", "configmap", "growth-settings", f"--namespace={NAMESPACE}", "-o", "jsonpath={.data.settings\\.yaml}"
    )
    assert "observe: false" in settings
    assert "/etc/growth-hetzner/join-token" in settings
