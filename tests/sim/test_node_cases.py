"""The table of node cases, row by row, in the embedded cluster: what is bought. What is given back:
`test_node_cases_end`.
"""

from __future__ import annotations

import pytest

from growth.providers.catalogue import ServerType
from growth.sim.apiserver.kinds import Json
from growth.sim.apiserver.objects import deployment
from tests.sim.cases import HETZNER, SMALL, Town, machine_type, played


def apart(kind: str, app: str) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "topology.kubernetes.io/zone"}
    if kind == "required":
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
        }
    }


def test_no_demands() -> None:
    async def story(town: Town) -> None:
        town.pool("small")
        await town.passes(120)
        assert (town.requests, town.nodes) == ([], [])

    played(story)


def test_one_demand_no_offerings() -> None:
    async def story(town: Town) -> None:
        town.pool("not-sold-here")
        town.cluster.create(deployment("web", 1, "1", "512Mi"))
        await town.passes(120)
        assert town.requests == []
        assert set(town.said("Unplaced")) == set(town.waiting()) != set()

    played(story)


def test_three_that_fill_a_machine_each_and_max_2() -> None:
    async def story(town: Town) -> None:
        town.pool({"name": "small", "max": 2})
        town.cluster.create(deployment("web", 3, "2", "4096Mi"))
        await town.passes(180)
        assert (len(town.nodes), town.running(), len(town.waiting())) == (2, 2, 1)
        assert set(town.waiting()) <= set(town.said("Unplaced"))

    played(story)


def test_a_small_pod_joins_the_machine_that_a_big_one_needs_anyway() -> None:
    async def story(town: Town) -> None:
        town.pool("big", "tiny")
        town.cluster.create(deployment("four", 1, "4", "1Gi"), deployment("two", 1, "2", "1Gi"))
        await town.until(lambda: town.running() == 2)
        assert town.bought == {"big": 1}

    played(story, machine_type("big", 48, 98304, 0.50), machine_type("tiny", 2, 4096, 0.01))


def test_ten_of_3_cpu_and_ten_of_1_cpu_make_ten_full_machines() -> None:
    async def story(town: Town) -> None:
        town.pool("four")
        town.cluster.create(deployment("three", 10, "3", "1Gi"), deployment("one", 10, "1", "1Gi"))
        await town.until(lambda: town.running() == 20)
        assert [asked["cpu"] for asked, _ in town.filling()] == [4000] * 10

    played(story, machine_type("four", 4, 8192, 0.01))


@pytest.mark.parametrize(
    ("count", "cpu", "memory", "types", "most"),
    [
        (100, "1", "512Mi", HETZNER, 7 * 0.0314),
        (50, "1", "8192Mi", tuple(each for each in HETZNER if each.name.startswith("cx")), 13 * 0.0314),
        (500, "2", "1024Mi", HETZNER, 0.7 * 500 * 0.0060),
    ],
)
def test_the_price_of_many_equal_pods(
    count: int, cpu: str, memory: str, types: tuple[ServerType, ...], most: float
) -> None:
    async def story(town: Town) -> None:
        town.pool(*({"name": each.name, "max": 100} for each in types))
        town.cluster.create(deployment("web", count, cpu, memory))
        await town.until(lambda: town.running() == count)
        assert town.price <= most + 1e-9
        assert all(asked.fits_in(room) for asked, room in town.filling())

    played(story, *types)


@pytest.mark.parametrize(("zones", "placed"), [(("a", "b", "c"), 3), (("a", "b"), 2)])
def test_three_pods_that_must_be_in_different_zones(zones: tuple[str, ...], placed: int) -> None:
    async def story(town: Town) -> None:
        town.pool("small")
        town.cluster.create(deployment("web", 3, "1", "512Mi", affinity=apart("required", "web")))
        await town.passes(180)
        assert (town.running(), len(town.waiting())) == (placed, 3 - placed)
        assert {node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in town.nodes} == set(zones)

    played(story, zones=zones)


def test_three_pods_that_would_rather_be_in_different_zones_are_all_placed() -> None:
    async def story(town: Town) -> None:
        town.pool("small")
        town.cluster.create(deployment("web", 3, "1", "512Mi", affinity=apart("preferred", "web")))
        await town.passes(180)
        assert (town.running(), town.waiting()) == (3, [])

    played(story, zones=("a", "b"))


def test_a_max_is_shared_by_all_zones() -> None:
    async def story(town: Town) -> None:
        town.pool({"name": "small", "max": 2})
        town.cluster.create(deployment("web", 3, "2", "1Gi"))
        await town.passes(180)
        assert (len(town.nodes), town.running(), len(town.waiting())) == (2, 2, 1)

    played(story, zones=("a", "b", "c"))


@pytest.mark.parametrize(("count", "cpu", "more"), [(2, "1", 0), (3, "1", 1), (1, "4", 1)])
def test_what_is_on_its_way_takes_what_fits(count: int, cpu: str, more: int) -> None:
    async def story(town: Town) -> None:
        town.pool({"name": "small", "min": 1}, "four")
        await town.until(lambda: len(town.requests) == 1)
        town.cluster.create(deployment("web", count, cpu, "1Gi"))
        await town.until(lambda: town.running() == count)
        assert sum(town.bought.values()) == 1 + more

    played(story, SMALL, machine_type("four", 4, 8192, 0.03))


def test_what_is_on_its_way_to_another_pool_takes_nobody() -> None:
    async def story(town: Town) -> None:
        town.pool({"name": "small", "min": 1}, name="gpu")
        town.pool("small", name="cpu")
        await town.until(lambda: len(town.requests) == 1)
        town.cluster.create(deployment("web", 1, "1", "1Gi", nodeSelector={"growth.dev/pool": "cpu"}))
        await town.until(lambda: town.running() == 1)
        assert sorted(request["spec"]["pool"] for request in town.requests) == ["cpu", "gpu"]

    played(story)


def test_max_counts_the_node_that_exists() -> None:
    async def story(town: Town) -> None:
        town.pool({"name": "small", "max": 2})
        town.cluster.create(deployment("first", 1, "2", "4096Mi"))
        await town.until(lambda: town.running() == 1)
        town.cluster.create(deployment("web", 3, "2", "4096Mi"))
        await town.passes(180)
        assert (len(town.requests), len(town.nodes)) == (2, 2)  # one of them for the first

    played(story)


@pytest.mark.parametrize("creates", [3, 15, 27])
def test_growth_dies_after_some_creates_and_buys_exactly_thirty(creates: int) -> None:
    async def story(town: Town) -> None:
        town.pool("small")
        town.cluster.create(deployment("web", 60, "1", "512Mi"))

        def die(*_write: object) -> None:
            if town.lives == 1 and len(town.requests) == creates:
                town.restart()

        town.cluster.store.on_write(die)
        await town.until(lambda: town.running() == 60)
        assert (town.lives, len(town.requests), sum(town.bought.values())) == (2, 30, 30)

    played(story)


def test_no_capacity_is_unmet_and_the_offering_is_avoided_in_every_pool_until_its_time_is_over() -> None:
    async def story(town: Town) -> None:
        town.cluster.cloud.sold_out["sim-small", "a"] = None
        town.pool("small", "dear")
        town.pool("small", "dear", name="other")
        town.cluster.create(deployment("web", 1, "1", "1Gi"))
        await town.until(lambda: town.running() == 1)
        assert town.bought == {"dear": 1}
        assert [
            request["status"]["phase"] for request in town.requests if request["spec"]["targetOffering"] == "sim-small"
        ] == ["Unmet"]
        town.cluster.create(deployment("more", 1, "2", "1Gi", nodeSelector={"growth.dev/pool": "other"}))
        await town.until(lambda: town.running() == 2)
        assert town.bought == {"dear": 2}
        town.cluster.cloud.sold_out.clear()
        await town.passes(130)
        town.cluster.create(deployment("later", 1, "2", "1Gi"))
        await town.until(lambda: town.running() == 3)
        assert town.bought == {"dear": 2, "small": 1}

    played(story, SMALL, machine_type("dear", 2, 4096, 0.02))
