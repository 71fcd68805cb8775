"""A hostile tenant on a real control plane: hundreds of buffers and autoscalers that name whatever can be named. The
pods of others are bound as before.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import deployment, namespace
from tests.e2e.running import USER, node_pool, running_growth
from tests.e2e.test_buffers import with_buffers
from tests.sim.test_tenants import MANY, MOST_WATCHES, autoscaler, buffer

BUSY_SECONDS = 20.0  # a machine that also runs a control plane is not always quick


def bound_after(cluster: ControlPlane, name: str) -> float:
    """How long eight pods of a quiet tenant take until they have nodes."""
    web = deployment(name, 8, cpu="2", memory="1Gi")
    web["metadata"]["namespace"] = "quiet"
    cluster.apply(web)
    began_at = time.monotonic()

    def bound() -> int:
        pods = cluster.objects("pods", "--namespace=quiet", f"--selector=app={name}")
        return sum(bool(pod["spec"].get("nodeName")) for pod in pods)

    cluster.wait_until(lambda: bound() == 8, f"all pods of {name} have nodes", 180)
    return time.monotonic() - began_at


def open_watches(cluster: ControlPlane) -> int:
    """Streams that growth has opened and not ended, by the audit log."""
    counted: Counter[str] = Counter()
    for event in cluster.audit_events():
        if event.user_name == USER and event.verb == "watch":
            counted[event.stage] += 1
    return counted["ResponseStarted"] - counted["ResponseComplete"]


@pytest.mark.refused("get capacitybuffers/scale")
@pytest.mark.timeout(600)
def test_pods_of_others_are_bound_as_before_and_the_watches_stay_few(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_buffers(cluster)
    with running_growth(cluster, tmp_path) as growth:
        cluster.apply(namespace("hostile"), namespace("quiet"), node_pool("default", "CX32"))
        alone = bound_after(cluster, "alone")
        cluster.apply(*(buffer(number) for number in range(MANY)))
        cluster.apply(*(autoscaler(number) for number in range(MANY)))
        beside = bound_after(cluster, "beside")
        time.sleep(20)
        watches = open_watches(cluster)
        assert growth.is_running
        told = [each for each in cluster.objects("capacitybuffers", "--namespace=hostile") if each.get("status")]
    with capsys.disabled():
        print(f"\n  bound after {alone:.1f} s alone, {beside:.1f} s beside {2 * MANY} objects; {watches} watches")
    assert beside <= 1.2 * alone + BUSY_SECONDS
    assert watches <= MOST_WATCHES
    assert len(told) > MANY / 2, "the hostile tenant is served too, in its turn"
    asked = {event.request_uri for event in cluster.audit_events() if event.user_name == USER}
    assert not any("example.com" in path or "secrets" in path for path in asked)
