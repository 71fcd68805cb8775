"""One look at a cluster, without writing to it: what explain answers from."""

from __future__ import annotations

import pytest

from growth.cli.explain import answer_for
from growth.controllers.observe.observer import look_once
from growth.kube.api.client import Client
from growth.kube.api.transport import NeverSent, Request, Response
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.providers.simulated import SimulatedProvider
from growth.runtime import Runtime
from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.cluster import Cluster
from tests.sim.embedded import in_cluster


class OnlyReading:
    """Fails a test that writes."""

    def __init__(self, cluster: Cluster, deaf_to: str = " ") -> None:
        self._cluster, self._deaf_to = cluster, deaf_to

    async def send(self, request: Request) -> Response:
        assert request.method == "GET"
        if self._deaf_to in request.path:
            raise NeverSent("nobody answers")
        return await self._cluster.api.send(request)


async def looked(cluster: Cluster, deaf_to: str = " ") -> Snapshot:
    runtime: Runtime = cluster.runtime
    client = Client(OnlyReading(cluster, deaf_to), runtime)
    return await look_once(client, SimulatedProvider(cluster.cloud, runtime), "growth", Settings())


def test_what_is_seen_answers_for_pods_and_pools() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.create(node_pool("default", "cx32"), deployment("web", 1, cpu="500m", memory="512Mi"))
        await cluster.runtime.sleep(3)
        [pod] = cluster.objects("Pod")
        snapshot = await looked(cluster)
        of_pod = answer_for("pod", f"default/{pod['metadata']['name']}", snapshot, Settings())
        assert of_pod.answer.startswith("planned onto a new sim-cx32")
        assert answer_for("nodepool", "default", snapshot, Settings()).answer.startswith("it can buy")
        for subject in ("pod", "node", "nodepool", "noderequest", "noderemovalrequest"):
            with pytest.raises(ValueError, match=f"there is no {subject} default/none"):
                answer_for(subject, "default/none", snapshot, Settings())

    in_cluster(test)


def test_a_kind_that_nobody_answers_for_is_named() -> None:
    async def test(cluster: Cluster) -> None:
        with pytest.raises(TimeoutError, match="no answer within 30 s about: nodepools"):
            await looked(cluster, deaf_to="/nodepools")

    in_cluster(test)
