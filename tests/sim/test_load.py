"""What growth asks of the API server while nothing happens: as much in a large cluster as in a small one."""

from __future__ import annotations

from collections import Counter

from growth.kube.api.transport import Request
from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess
from tests.sim.embedded import in_cluster, phases


def requests_at_rest(replicas: int) -> Counter[str]:
    """By method, in the half hour after a quarter of one; each pod has a machine of its own."""

    async def story(cluster: Cluster) -> Counter[str]:
        cluster.create(node_pool("default", {"name": "cx33", "max": 50}), deployment("web", replicas, "3", "512Mi"))
        process, sent = GrowthProcess(cluster).start(), Counter[str]()
        await cluster.runtime.sleep(900.0)
        assert phases(cluster) == {"Running": replicas}
        door, before = process.door, process.door.on_send

        def count(request: Request) -> None:
            sent[request.method] += 1
            before(request)

        door.on_send = count
        await cluster.runtime.sleep(1800.0)
        return sent

    return in_cluster(story)


def test_a_cluster_at_rest_costs_the_api_server_the_same_whatever_its_size() -> None:
    small, large = requests_at_rest(2), requests_at_rest(30)
    assert large["GET"] <= small["GET"] + 10
    assert sum(large.values()) - large["GET"] <= sum(small.values()) - small["GET"] + 10
