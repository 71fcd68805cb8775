"""A pool that does not let growth bind: nobody is stranded and it costs next to nothing more, however machines arrive
and whoever competes.
"""

from __future__ import annotations

import random

import pytest
from msgspec import Struct

from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess

SHAPES = (("200m", "256Mi"), ("900m", "1Gi"), ("1700m", "3Gi"), ("400m", "2Gi"))


class Ending(Struct, frozen=True):
    pods: int
    running: int
    machines: int
    price_per_hour: float


def lived(seed: int, *, binds: bool, competes: bool) -> Ending:
    """Pods of four shapes at once for a pool that has shown that its machines work, so that they all come in one wave;
    machines boot in any order. The competitors' pods come while they do.
    """

    async def play() -> Ending:
        cluster, chance = Cluster(f"binding off {seed}"), random.Random(seed)
        cluster.create(node_pool("default", "CX33", "CX32", "CX31", bindPlannedPods=binds))
        cluster.create(deployment("first", 1, "200m", "256Mi"))
        process = GrowthProcess(cluster).start()
        await cluster.runtime.sleep(90)
        counts = [chance.randint(20, 60) for _ in SHAPES]
        for number, (count, (cpu, memory)) in enumerate(zip(counts, SHAPES, strict=True)):
            cluster.create(deployment(f"shape-{number}", count, cpu, memory))
        await cluster.runtime.sleep(chance.uniform(15, 30))
        if competes:
            cluster.create(deployment("competitor", 12, "700m", "1Gi"))
        await cluster.runtime.sleep(600)
        assert process.failures == []
        prices = [cluster.cloud.bills[server.server_id].price_per_hour for server in cluster.cloud.servers.values()]
        running = sum(pod["status"].get("phase") == "Running" for pod in cluster.objects("Pod"))
        return Ending(1 + sum(counts) + 12 * competes, running, len(prices), sum(prices))

    return run_virtual(play())


@pytest.mark.parametrize("competes", [False, True])
def test_without_binding_nobody_is_stranded_and_it_costs_at_most_one_per_cent_more(
    competes: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    bound = [lived(seed, binds=True, competes=competes) for seed in range(4)]
    nominated = [lived(seed, binds=False, competes=competes) for seed in range(4)]
    extra = sum(each.price_per_hour for each in nominated) / sum(each.price_per_hour for each in bound) - 1
    with capsys.disabled():
        print(
            f"\nwithout binding{', with competitors' if competes else ''}: {100 * extra:+.1f} % of the price per hour",
            end=" ",
        )
    assert [each.running for each in nominated] == [each.pods for each in nominated]
    assert extra <= 0.01
