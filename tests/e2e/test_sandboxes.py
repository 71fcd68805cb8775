"""Pools whose members leave when they are claimed, on a real control plane: a SandboxSet and a SandboxWarmPool, with
the fields and subresources that their projects publish. A small controller in the test plays both.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from growth.kube.crds.policies import policies
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.manifests import (
    SANDBOX_SET,
    SANDBOX_WARM_POOL,
    autoscaler,
    sandbox_set,
    sandbox_set_definition,
    sandbox_warm_pool,
    sandbox_warm_pool_definition,
)
from tests.e2e.running import GrowthProcess, install, refused_calls

Json = dict[str, Any]
QUICK = {"plans": {"warmPools": {"samplingIntervalSeconds": 5, "observationWindowSeconds": 30}}}
POLICY = {"targetAvailable": 10, "tolerance": 2, "scaleUp": {"stabilizationWindowSeconds": 0}}
TICK_SECONDS = 1.0
FILLED_A_TICK = 6
pytestmark = pytest.mark.timeout(240)


class Sandboxes:
    """Plays the controller of one pool: members come a few at a time, and one that is claimed leaves. It speaks to the
    API server itself: a kubectl for every look would take most of the time.
    """

    def __init__(self, cluster: ControlPlane, kind: tuple[str, str], name: str, available: str) -> None:
        self.kind, self.name, self._available = kind[1], name, available
        self._path = f"/apis/{kind[0]}/namespaces/default/{kind[1].lower()}s/{name}"
        self._playing, self._looking = cluster.connect(), cluster.connect()  # one for each thread
        self.ready = 0
        self.is_claimed_at_once = False

    def has(self, least: int) -> bool:
        return int(self._looking.get(self._path)["spec"]["replicas"]) >= least

    def offers(self, available: int) -> bool:
        """So says its autoscaler."""
        return bool((self.status().get("currentCapacity") or {}).get("available") == available)

    def status(self) -> Json:
        """Of its autoscaler."""
        path = f"/apis/growth.dev/v1alpha1/namespaces/default/poolautoscalers/{self.name}"
        return dict(self._looking.get(path).get("status") or {})

    def close(self) -> None:
        self._playing.close()
        self._looking.close()

    def tick(self) -> None:
        wanted = int(self._playing.get(self._path)["spec"]["replicas"])
        self.ready = 0 if self.is_claimed_at_once else min(wanted, self.ready + FILLED_A_TICK)
        status = {"replicas": wanted, self._available: self.ready, "selector": f"pool={self.name}"}
        answer = self._playing.ask(
            "PATCH", f"{self._path}/status", {"status": status}, content_type="application/merge-patch+json"
        )
        assert answer.status == 200, answer


@pytest.fixture
def pools(cluster: ControlPlane, tmp_path: Path) -> Iterator[tuple[Sandboxes, Sandboxes]]:
    install(cluster)
    cluster.apply(*policies(), sandbox_set_definition(), sandbox_warm_pool_definition())
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    cluster.apply(sandbox_set("analysts", 2), sandbox_warm_pool("training", 2))
    played = (
        Sandboxes(cluster, SANDBOX_SET, "analysts", "availableReplicas"),
        Sandboxes(cluster, SANDBOX_WARM_POOL, "training", "readyReplicas"),
    )
    over = threading.Event()

    def play() -> None:
        while not over.wait(TICK_SECONDS):
            for each in played:
                each.tick()

    player = threading.Thread(target=play)
    player.start()
    growth = GrowthProcess(cluster, tmp_path, QUICK).start()
    try:
        yield played
        assert growth.is_running
        assert refused_calls(cluster) == []
    finally:
        growth.stop()
        over.set()
        player.join()
        for each in played:
            each.close()


def test_both_kinds_reach_their_target_and_grow_when_they_are_claimed_faster_than_they_fill(
    cluster: ControlPlane, pools: tuple[Sandboxes, Sandboxes]
) -> None:
    cluster.apply(
        autoscaler("analysts", "analysts", SANDBOX_SET, capacityPolicy=POLICY, maxReplicas=60),
        autoscaler("training", "training", SANDBOX_WARM_POOL, capacityPolicy=POLICY, maxReplicas=60),
    )
    for pool in pools:
        cluster.wait_until(partial(pool.has, 10), f"{pool.kind} has ten", 60)
        cluster.wait_until(partial(pool.offers, 10), f"{pool.kind} has ten available", 60)
    for pool in pools:
        pool.is_claimed_at_once = True
    for pool in pools:
        cluster.wait_until(partial(pool.has, 15), f"{pool.kind} grows with its claims", 90)
        assert {each["type"]: each["status"] for each in pool.status()["conditions"]}["ScalingActive"] == "True"
