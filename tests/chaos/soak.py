"""`make soak`: does growth's memory follow the cluster, or the time? Ninety virtual days in the embedded cluster, with
pods that come and go, and a line of figures for each week.

Memory is what the process holds after a collection, once the first weeks have passed: pools, caches and tables are full
by then, and what still grows grows with time. It must be less than `MOST_MIB_A_WEEK`. The world itself is kept small:
it forgets events after an hour, as an API server does, and its cloud forgets servers that are gone."""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from pathlib import Path
from statistics import linear_regression

from growth.cli.session import set_up_logs
from growth.controllers.growth import Installation
from growth.model.instant import parse_instant
from growth.model.settings import Settings
from growth.sim.apiserver.kinds import Json
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster, World
from growth.sim.process import GrowthProcess

DAY_SECONDS = 86_400.0
MOST_MIB_A_WEEK = 1.0
HISTORY = 500  # changes of each kind that the world keeps for those who watch
PODS_AN_HOUR = 20
LONGEST_LIFE_SECONDS = 5400.0
SETTLED_SHARE = 0.25  # of the time, after which memory is judged


def resident_mib() -> float:
    """What the kernel says this process holds."""
    gc.collect()
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096 / 2**20


def pod(number: int, chance: random.Random) -> Json:
    requests = {"cpu": f"{chance.choice((250, 500, 1000, 2000))}m", "memory": chance.choice(("256Mi", "1Gi", "2Gi"))}
    container = {"name": "main", "image": "registry.invalid/main:1", "resources": {"requests": requests}}
    metadata = {"name": f"work-{number}", "namespace": "default", "labels": {"app": f"work-{number % 50}"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


class Soak:
    """One world and the growth in it."""

    def __init__(self, seed: str) -> None:
        self.cluster = Cluster(seed, World(history_length=HISTORY))
        self.chance = random.Random(f"{seed}/soak")
        self.made = 0

    async def run(self, days: float) -> list[tuple[float, float]]:
        """Returns (weeks, MiB) for each half day."""
        cluster, clock = self.cluster, self.cluster.runtime
        pool = {"serverTypes": [{"name": "CX33"}, {"name": "CX23"}]}
        metadata = {"name": "default"}
        cluster.create({"apiVersion": "growth.dev/v1alpha1", "kind": "NodePool", "metadata": metadata, "spec": pool})
        GrowthProcess(cluster, Installation("growth", Settings())).start()
        clock.spawn("arrivals", self._arrive())
        samples, began_at = [], time.monotonic()
        for half in range(1, int(2 * days) + 1):
            await clock.sleep(DAY_SECONDS / 2)
            self._forget()
            samples.append((half / 14, resident_mib()))
            if half % 14 == 0 or half == int(2 * days):
                nodes, objects = len(cluster.objects("Node")), len(gc.get_objects())
                spent = (time.monotonic() - began_at) / 60
                print(
                    f"week {half / 14:5.1f}: {samples[-1][1]:7.1f} MiB, {objects:8,d} objects, {nodes:3d} nodes, "
                    f"{self.made:6d} pods so far, {spent:5.1f} minutes",
                    flush=True,
                )
        return samples

    async def _arrive(self) -> None:
        clock = self.cluster.runtime
        while True:
            await clock.sleep(self.chance.expovariate(PODS_AN_HOUR / 3600))
            self.made += 1
            clock.spawn("life", self._live(pod(self.made, self.chance)))

    async def _live(self, made: Json) -> None:
        self.cluster.create(made)
        await self.cluster.runtime.sleep(self.chance.uniform(60, LONGEST_LIFE_SECONDS))
        self.cluster.delete("Pod", made["metadata"]["name"], "default")

    def _forget(self) -> None:
        """What a real cluster and a real cloud do not keep either."""
        cloud, oldest = self.cluster.cloud, self.cluster.runtime.now() - 3600
        cloud.creates.clear()
        cloud.deletes.clear()
        cloud.bills = {each: bill for each, bill in cloud.bills.items() if each in cloud.servers}
        for event in self.cluster.objects("Event"):
            if parse_instant(event["metadata"]["creationTimestamp"]) < oldest:
                self.cluster.delete("Event", event["metadata"]["name"], event["metadata"]["namespace"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--days", type=float, default=90.0, help="virtual ones")
    parser.add_argument("--seed", default="soak")
    arguments = parser.parse_args()

    async def run() -> list[tuple[float, float]]:
        return await Soak(arguments.seed).run(arguments.days)

    set_up_logs("error")
    samples = run_virtual(run())
    judged = samples[int(len(samples) * SETTLED_SHARE) :]
    slope = linear_regression([week for week, _ in judged], [mib for _, mib in judged]).slope
    print(f"{slope:+.2f} MiB a virtual week, at most {MOST_MIB_A_WEEK} allowed")
    return 0 if slope < MOST_MIB_A_WEEK else 1


if __name__ == "__main__":
    sys.exit(main())
