"""A benchmark's catalogue as offerings."""

from __future__ import annotations

import msgspec
import pytest

from growth.cli.plan.files import CAPACITY_TYPE, parse_bench_catalogue
from growth.model.labels import ZONE
from growth.model.resources import CPU, PODS
from growth.providers.catalogue import CatalogueError

GIB = 2**30

BENCH = [
    {
        "name": "C-1x",
        "allocatable": {"cpuMillis": 900, "memoryBytes": 2 * GIB, "pods": 16},
        "labels": {
            "kubernetes.io/os": ["darwin", "linux"],
            "kubernetes.io/arch": ["amd64"],
            "size": ["small"],
            ZONE: ["a", "b"],
        },
        "offerings": [
            {"zone": "a", "capacityType": "spot", "price": 0.01, "available": True},
            {"zone": "a", "capacityType": "on-demand", "price": 0.02, "available": True},
            {"zone": "b", "capacityType": "on-demand", "price": 0.03, "available": False},
        ],
    }
]


def test_a_benchmarks_catalogue_is_read() -> None:
    offerings = parse_bench_catalogue(msgspec.json.encode(BENCH))
    assert [(one.name, one.location, one.price_per_hour, one.is_available) for one in offerings] == [
        ("bench-c-1x", "a", 0.02, True),
        ("bench-c-1x", "b", 0.03, False),
    ]
    first = offerings[0]
    assert (first.allocatable[CPU], first.allocatable[PODS]) == (900, 16)
    assert (first.labels["kubernetes.io/os"], first.labels[ZONE], first.labels[CAPACITY_TYPE]) == (
        "linux",
        "a",
        "on-demand",
    )
    spot = parse_bench_catalogue(msgspec.json.encode(BENCH), capacity_types=("spot",))
    assert [one.name for one in spot] == ["bench-c-1x-spot"]


def test_a_file_that_is_no_benchmark_catalogue_is_refused() -> None:
    with pytest.raises(CatalogueError):
        parse_bench_catalogue(b'{"no": "list"}')
