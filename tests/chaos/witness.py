"""What must never happen, whatever else does? Asked at the provider, where it costs money or kills: of every order and
every deletion that has an effect there, at that moment.

| law | at each | it is broken by |
| --- | --- | --- |
| twice | order | two machines of one request; more machines than there were pods, each of which fills one |
| killed | deletion | a pod that is bound to the node and was not asked to go |
| blind | deletion | the API server, or the line of every replica, has been dead for longer than a write may take |

Whether a machine was forgotten is seen at rest: see `world.py`."""

from __future__ import annotations

import http.client
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from growth.sim.cloud.hetzner.inventory import FakeServer
from growth.sim.cloud.hetzner.project import Project
from tests.e2e.controlplane.cluster import ControlPlane

ANSWER_SECONDS = 4.0  # then it counts as dead: without etcd an API server holds a request for a minute
BLIND_SECONDS = 2.5  # a third of the lease, in which what has left may still arrive, and a moment


class Witness:
    """Looks on at one project; calls `on_effect` with what has just been done, before the answer leaves."""

    def __init__(self, cluster: ControlPlane, project: Project) -> None:
        self._api = cluster.connect(ANSWER_SECONDS)
        self._project = project
        self.broken: list[str] = []
        self.seen: Counter[str] = Counter()
        self.most_machines = math.inf  # in this round
        self.blind_since = math.inf
        self.on_effect: Callable[[str], None] = lambda _what: None
        project.on_create = self._ordered
        project.on_delete = self._deleted

    def _ordered(self, server: FakeServer) -> None:
        self.seen["bought"] += 1
        running = len(self._project.meter.running())
        if running > self.most_machines:
            self.broken.append(f"twice: {server.name} is machine {running} for at most {self.most_machines} pods")
        self.on_effect("order")

    def _deleted(self, server: FakeServer) -> None:
        self.seen["given back"] += 1
        blind_seconds = time.monotonic() - self.blind_since
        if blind_seconds > BLIND_SECONDS:
            self.broken.append(f"blind: {server.name} was deleted {blind_seconds:.1f} s after all lines were dead")
        killed = [pod["metadata"]["name"] for pod in self._pods_on(server.name) if _is_at_work(pod)]
        if killed:
            self.broken.append(f"killed: {server.name} was deleted under {', '.join(killed)}")
        self.on_effect("deletion")

    def _pods_on(self, node: str) -> list[dict[str, Any]]:
        selector = quote(f"spec.nodeName={node}")
        try:
            return list(self._api.get(f"/api/v1/pods?fieldSelector={selector}")["items"])
        except (OSError, http.client.HTTPException):
            return []  # the API server is dead, and that is the other law

    def look_at_bills(self) -> None:
        for request in self._project.meter.duplicates():
            sentence = f"twice: request {request} paid for two machines at once"
            if sentence not in self.broken:
                self.broken.append(sentence)


def _is_at_work(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in ("Succeeded", "Failed")
