"""What does the page cost growth? One server with viewers that read, while pods of a large cluster come and go.

Prints how many CPU seconds of this process one second of watching takes, without making the snapshots: the loop has
those anyway. Also how large the page is when it is first opened, and how large a change is."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time

from aiohttp import ClientSession
from msgspec.structs import replace

from bench.report import Report, main, parser
from growth.model.pod import Owner, Pod, PodShape
from growth.model.resources import Resources
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from growth.web.guard import Guard
from growth.web.notes import Notes
from growth.web.page import PageServer
from growth.web.state import Look
from tests.web.moments import node, world


class LargeCluster:
    """Every second, some pods change their phase."""

    def __init__(self, nodes: int, pods: int, seed: int = 1) -> None:
        self._chance = random.Random(seed)
        self.notes, self.version = Notes(lambda: 0.0), 0
        shapes = [PodShape(requests=Resources({"cpu": 100 * size, "memory": size << 28})) for size in range(1, 5)]
        made: dict[str, tuple[Pod, ...]] = {f"node-{number:04d}": () for number in range(nodes)}
        names = list(made)
        for number in range(pods):
            where, workload = names[number % nodes], f"app-{number % 60:02d}"
            owner = Owner("ReplicaSet", f"{workload}-5d9f7c", workload)
            name = f"{workload}-5d9f7c-{number:05d}"
            made[where] += (Pod(name, shapes[number % 4], name, owner, where, phase="Running"),)
        empty = world({})
        self.snapshot: Snapshot = replace(empty, nodes={name: node(name) for name in names}, pods_by_node=made)

    def change(self, count: int) -> None:
        on_nodes = dict(self.snapshot.pods_by_node)
        for name in self._chance.sample(list(on_nodes), count):
            first, *others = on_nodes[name]
            phase = "Pending" if first.phase == "Running" else "Running"
            on_nodes[name] = (replace(first, phase=phase), *others)
        self.snapshot = replace(self.snapshot, pods_by_node=on_nodes, now=self.snapshot.now + 0.5)
        self.version += 1

    def look(self, is_watched: bool) -> Look | None:  # noqa: ARG002 - of the protocol
        return Look(self.snapshot, Settings(), self.notes, self.version)

    async def find_bound(self, look: Look) -> None:  # noqa: ARG002 - of the protocol
        return


async def watch(url: str, read: list[int]) -> None:
    """Reads as a browser does, and throws it away."""
    async with ClientSession() as session, session.get(f"{url}/api/events") as answer:
        async for chunk in answer.content.iter_any():
            read[0] += len(chunk)


async def measure(nodes: int, pods: int, viewers: int, changes: int, seconds: float) -> dict[str, float]:
    cluster = LargeCluster(nodes, pods)
    server = PageServer(cluster, Guard(), lambda *_asked: {})
    port = await server.start("127.0.0.1", 0)
    read = [0]
    readers = [asyncio.create_task(watch(f"http://127.0.0.1:{port}", read)) for _ in range(viewers)]
    while len(server.feed.viewers) < viewers or not server.feed.has_page:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.1)
    await asyncio.sleep(2.0)
    whole, before, began = len(server.feed.whole_packed()), read[0], time.process_time()
    making = 0.0
    for _ in range(int(2 * seconds)):
        started = time.process_time()
        cluster.change(changes // 2)
        making += time.process_time() - started
        await asyncio.sleep(0.5)
    spent = time.process_time() - began - making
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    await server.stop()
    return {
        "share_of_a_core": spent / seconds,
        "first_compressed_bytes": float(whole),
        "bytes_per_second_and_viewer": (read[0] - before) / seconds / viewers,
    }


def run(arguments: argparse.Namespace) -> Report:
    report = Report("What the page costs growth")
    nodes, pods, viewers, changes = 1000, 20_000, 3, 20
    found = asyncio.run(measure(nodes, pods, viewers, changes, arguments.seconds))
    name = f"{nodes}_nodes_{pods}_pods_{viewers}_viewers_{changes}_changes_per_second"
    report.add(name, **found)
    report.limit(name, "share_of_a_core", at_most=0.05)
    return report


if __name__ == "__main__":
    flags = parser(__doc__)
    flags.add_argument("--seconds", type=float, default=20.0)
    sys.exit(main(flags, run))
