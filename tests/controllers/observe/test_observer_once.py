"""One look at a cluster, without writing to it: what explain answers from."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from growth.cli.explain import answer_for
from growth.controllers.observe.observer import CannotLookError, look_once, looking
from growth.kube.api.client import Client
from growth.kube.api.transport import NeverSent, Request, Response
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.providers.simulated import SimulatedProvider
from growth.runtime import Runtime
from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.apiserver.streams import Answer
from growth.sim.cluster import Cluster
from tests.sim.embedded import in_cluster


class OnlyReading:
    """Fails a test that writes."""

    def __init__(self, cluster: Cluster, deaf_to: str = " ", answers: Mapping[str, int] | None = None) -> None:
        self._cluster, self._deaf_to, self._answers = cluster, deaf_to, answers or {}

    async def send(self, request: Request) -> Response:
        assert request.method == "GET"
        if self._deaf_to in request.path:
            raise NeverSent("nobody answers")
        status = next((code for part, code in self._answers.items() if part in request.path), 0)
        return Answer(status, b'{"message": "no"}') if status else await self._cluster.api.send(request)


async def looked(cluster: Cluster, deaf_to: str = " ", answers: Mapping[str, int] | None = None) -> Snapshot:
    runtime: Runtime = cluster.runtime
    client = Client(OnlyReading(cluster, deaf_to, answers), runtime)
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
        with pytest.raises(CannotLookError, match="no answer within 30 s about: nodepools"):
            await looked(cluster, deaf_to="/nodepools")

    in_cluster(test)


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (404, "nodepools.growth.dev, noderequests.growth.dev: the API server does not know this kind; install it"),
        (403, "nodepools.growth.dev, noderequests.growth.dev: the right to list and watch it is missing"),
    ],
)
def test_what_only_a_person_can_repair_is_said_within_seconds_with_what_to_do(status: int, hint: str) -> None:
    async def test(cluster: Cluster) -> None:
        began_at = cluster.runtime.monotonic()
        with pytest.raises(CannotLookError, match=hint):
            await looked(cluster, answers={"/nodepools": status, "/noderequests": status})
        assert cluster.runtime.monotonic() - began_at < 3

    in_cluster(test)


def test_who_goes_on_looking_sees_what_changes() -> None:
    async def test(cluster: Cluster) -> None:
        client = Client(OnlyReading(cluster), cluster.runtime)
        provider = SimulatedProvider(cluster.cloud, cluster.runtime)
        async with looking(client, provider, "growth", Settings()) as observer:
            assert observer.snapshot().pools == {}
            cluster.create(node_pool("default", "cx32"))
            await cluster.runtime.sleep(1)
            assert set(observer.snapshot().pools) == {"default"}

    in_cluster(test)
