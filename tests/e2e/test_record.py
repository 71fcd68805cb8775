"""`growth simulate --record` on a real cluster: with no more rights than reading, a scenario that runs, and not one
write.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import deployment
from tests.e2e.running import install, node_pool
from tests.e2e.test_explain import MAY_READ, READER


def simulated(*arguments: str) -> str:
    command = [sys.executable, "-m", "growth", "simulate", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_reader_records_a_cluster_and_the_recording_runs(cluster: ControlPlane, tmp_path: Path) -> None:
    install(cluster)
    secretive: dict[str, Any] = deployment("web", 2, cpu="500m", memory="512Mi")
    [container] = secretive["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "PASSWORD", "value": "hunter2"}]
    cluster.apply(*MAY_READ, node_pool("default", "CX33"), secretive)
    cluster.wait_until(lambda: len(cluster.objects("pods")) == 2, "the Deployment has made its pods")
    recorded = tmp_path / "recorded.yaml"
    access = ["--kubeconfig", str(cluster.kubeconfig_for(READER))]
    simulated("--record", "--anonymise", "--output", str(recorded), *access)
    text = recorded.read_text()
    assert "hunter2" not in text
    assert "PASSWORD" not in text
    assert "name: web" not in text
    result = json.loads(simulated(str(recorded), "--output", "json"))
    assert (result["pods"]["made"], result["pods"]["running"], result["machines"]["bought"]) == (2, 2, 1)
    written = [event.verb for event in cluster.audit_events() if event.user_name == READER]
    assert set(written) <= {"get", "list", "watch"}
