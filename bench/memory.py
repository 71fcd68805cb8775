"""How much memory do 100,000 pods take in the cache, and how long does reading them take?

The pods come as an API server's list does: pages of 500, about 4 KB of JSON each, 1,200 templates, a fiftieth of them
waiting. Memory is what the process has grown by, from the kernel's count, once everything is read, indexed and asked
for once.

    python -m bench.memory [--pods N] [--templates N] [--nodes N] [--json]
"""

from __future__ import annotations

import argparse
import gc
import sys

import msgspec
from msgspec import Raw, Struct

from bench.manifests import TEMPLATES, pod_pages, pod_text
from bench.report import Report, cpu_seconds, main, parser, resident_mib
from growth.kube.cache.pods import PodCache
from growth.kube.codec import Codec
from growth.kube.watch.stream import ChangeType

MOST_MIB = 150.0
EVENTS = 20_000


class _Page(Struct):
    items: list[Raw]


_page = msgspec.json.Decoder(_Page)


def fill(cache: PodCache, pods: int, templates: int, nodes: int) -> dict[str, float]:
    """Take in the whole listing; the making of the JSON is not counted."""
    json_bytes, spent, longest = 0, 0.0, 0.0
    cache.relisting()
    for page in pod_pages(pods, templates, nodes):
        json_bytes += len(page)
        began_at = cpu_seconds()
        cache.listed(_page.decode(page).items)
        took = cpu_seconds() - began_at
        spent, longest = spent + took, max(longest, took)
    began_at = cpu_seconds()
    cache.relisted("1000000")
    cache.by_node()
    cache.waiting()
    return {
        "json_kib_per_pod": json_bytes / pods / 1024,
        "cpu_seconds": spent + cpu_seconds() - began_at,
        "longest_page_seconds": longest,
    }


def change(cache: PodCache, pods: int, templates: int, nodes: int) -> float:
    """CPU for a stream of status changes, each with a new version."""
    texts = [
        pod_text(number * 7 % pods, number * 7 % pods % templates, number * 7 % pods % nodes)
        for number in range(EVENTS)
    ]
    events = [Raw(text.replace('"resourceVersion":"1', '"resourceVersion":"2', 1).encode()) for text in texts]
    began_at = cpu_seconds()
    for event in events:
        cache.changed(ChangeType.MODIFIED, event)
    return cpu_seconds() - began_at


def rest(cache: PodCache) -> float:
    """CPU for one look at everything after one pod changed."""
    event = Raw(pod_text(1, 1, 1).replace('"resourceVersion":"1', '"resourceVersion":"3', 1).encode())
    began_at = cpu_seconds()
    for _ in range(100):
        cache.changed(ChangeType.MODIFIED, event)
        cache.by_node()
        cache.waiting()
    return (cpu_seconds() - began_at) / 100


def measure(chosen: argparse.Namespace) -> Report:
    report, case = Report("Pods in the cache"), f"pods_{chosen.pods}"
    cache = PodCache(Codec())
    sizes = (chosen.pods, chosen.templates, chosen.nodes)
    warm_up(chosen.templates)
    before = resident_mib()
    figures = fill(cache, *sizes)
    gc.collect()
    report.add(case, mib=resident_mib() - before, **figures, shapes=len({pod.shape for pod in cache.view().values()}))
    report.add(case, microseconds_per_event=change(cache, *sizes) / EVENTS * 1e6, look_seconds=rest(cache))
    report.limit(case, "mib", MOST_MIB * max(1.0, chosen.pods / 100_000))
    return report


def warm_up(templates: int) -> None:
    """The benchmark's own template texts are made before memory is counted."""
    for template in range(templates):
        pod_text(0, template, 0)
        pod_text(0, template, None)


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("--pods", type=int, default=100_000)
    arguments.add_argument("--templates", type=int, default=TEMPLATES)
    arguments.add_argument("--nodes", type=int, default=5_000)
    sys.exit(main(arguments, measure))
