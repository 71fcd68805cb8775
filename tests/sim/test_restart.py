"""What growth has learned of an offering is in the objects: a process that dies again and again still doubles, counts
to three and stops buying.
"""

from __future__ import annotations

from itertools import pairwise

from growth.model.instant import parse_instant
from growth.sim.apiserver.kinds import BY_NAME
from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.apiserver.store import Write
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.process import GrowthProcess

LIFE_SECONDS = 70.0


async def live_and_die(cluster: Cluster, seconds: float) -> None:
    """Growth runs for so long, and is killed and started anew all the time."""
    until, life = cluster.runtime.monotonic() + seconds, 1
    while cluster.runtime.monotonic() < until:
        process = GrowthProcess(cluster, life=life).start()
        await cluster.runtime.sleep(LIFE_SECONDS)
        process.kill()
        assert process.failures == []
        life += 1


def phases_written(cluster: Cluster) -> list[tuple[str, float]]:
    """Every phase a NodeRequest came to, and how long it strikes its offering out."""
    seen: list[tuple[str, float]] = []

    def look(write: Write) -> None:
        status = write.item.get("status") or {}
        before = (write.before.decoded().get("status") or {}) if write.before else {}
        if write.kind is BY_NAME["NodeRequest"] and status.get("phase") != before.get("phase"):
            expires_at = status.get("expiresAt")
            seen.append(
                (
                    status.get("phase", "Pending"),
                    parse_instant(expires_at) - cluster.runtime.now() if expires_at else 0.0,
                )
            )

    cluster.store.on_write(look)
    return seen


def test_ruling_19_the_time_of_unmet_doubles_across_restarts() -> None:
    async def story() -> list[int]:
        cluster = Cluster("restarts")
        seen = phases_written(cluster)
        cluster.cloud.sold_out["sim-cx33", "fsn1"] = None
        cluster.create(node_pool("default", "CX33", locations=["fsn1"]), deployment("web", 1, "1", "1Gi"))
        await live_and_die(cluster, 1300)
        return [round(seconds / 120) for phase, seconds in seen if phase == "Unmet"]

    assert run_virtual(story()) == [1, 2, 4, 5]


def test_three_machines_that_never_become_ready_pause_their_pool_for_longer_each_time_across_restarts() -> None:
    async def story() -> tuple[list[str], list[float]]:
        cluster = Cluster("restarts")
        seen, created_at = phases_written(cluster), []

        def look(write: Write) -> None:
            if write.kind is BY_NAME["NodeRequest"] and write.before is None:
                created_at.append(cluster.runtime.monotonic())

        cluster.store.on_write(look)
        cluster.cloud.trouble.never_boots = 1.0
        cluster.create(
            node_pool("default", "CX33", locations=["fsn1"], readinessWaitSeconds=60), deployment("web", 1, "1", "1Gi")
        )
        await live_and_die(cluster, 1500)
        assert len(cluster.cloud.creates) == len(created_at)
        return [phase for phase, _ in seen if phase in ("Deprovisioning", "Unmet")], created_at

    ends, created_at = run_virtual(story())
    assert ends == ["Deprovisioning"] * 5  # the offering can be had: none of them strikes it out
    apart = [round((later - earlier) / 60) for earlier, later in pairwise(created_at)]
    assert apart == [1, 1, 6, 11]  # a minute each, then one after five minutes, then after ten
