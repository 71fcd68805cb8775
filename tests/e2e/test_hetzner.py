"""The Hetzner provider on a real control plane: the real hcloud client speaks HTTP to a fake Hetzner, kwok plays the
kubelets.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from growth.sim.cloud.hetzner.assortment import IPV4_PER_HOUR, SERVER_TYPES
from growth.sim.cloud.hetzner.embedded import TOKEN
from growth.sim.cloud.hetzner.project import FakeTrouble
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.hetzner import growth_at_hetzner, hetzner_beside
from tests.e2e.manifests import deployment
from tests.e2e.running import node_pool, refused_calls, wait_for_running
from tests.fakes.hetzner.openapi import described

PODS = 300  # each fills a CX33
MANY = {"nodes": 1000, "pricePerHour": "20"}  # orders without an answer count for ten minutes, too
STOCK = {("cx33", "fsn1"): 150, ("cx33", "nbg1"): 120}  # the rest comes from hel1, which is dearer
QUICK: dict[str, Any] = {"readinessWaitSeconds": 60, "unmetSeconds": 30, "scaleDownDelaySeconds": 5}
LIMITED_SECONDS = 20.0  # every request refused, in the middle of buying
TROUBLE = FakeTrouble(lost_after_effect=0.03, server_error=0.02, locked=0.02, creation_fails=0.02, never_boots=0.05)


def cheapest() -> float:
    """What as many machines cost in an hour, where they are cheapest."""
    [kind] = [kind for kind in SERVER_TYPES if kind.name == "cx33"]
    places = {**{place: count for (_, place), count in STOCK.items()}, "hel1": PODS - sum(STOCK.values())}
    return sum(count * (kind.price_in(place) + IPV4_PER_HOUR) for place, count in places.items())


@pytest.mark.timeout(1500)
def test_300_machines_are_bought_and_given_back_under_faults(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        hetzner_beside(cluster) as fake,
        growth_at_hetzner(cluster, fake, tmp_path, limits=MANY, **QUICK) as growth,
    ):
        project, violations, description = fake.api.project, list[str](), described()
        if description is not None:
            fake.api.look_on = lambda request, answer: violations.extend(description.violations(request, answer))
        project.stock = STOCK
        project.trouble = TROUBLE
        cluster.apply(node_pool("default", "CX33", "CX31"), deployment("web", PODS, cpu="3", memory="2Gi"))
        cluster.wait_until(lambda: len(project.servers) >= PODS // 3, "a third is bought", 300)
        project.trouble = replace(TROUBLE, refused_until=time.time() + LIMITED_SECONDS)
        seconds = wait_for_running(cluster, PODS, 700)
        project.trouble = FakeTrouble()
        cluster.wait_until(
            lambda: len(project.meter.running()) == PODS, "the machines that never booted are given back", 300
        )
        price = project.meter.price_per_hour()
        cluster.wait_until(
            lambda: told_price(cluster) == pytest.approx(price, rel=0.02), "the pool's status knows what is gone", 60
        )
        told = told_price(cluster)
        assert project.meter.duplicates() == []
        requests_bought = len(fake.api.log)
        project.trouble = TROUBLE
        began = time.monotonic()
        cluster.kubectl("scale", "deployment/web", "--replicas=0")
        cluster.wait_until(lambda: len(project.servers) < PODS // 10, "most machines are given back", 400)
        project.trouble = FakeTrouble()
        cluster.wait_until(
            lambda: not project.servers and not cluster.objects("nodes"), "every machine is given back", 400
        )
        gone = time.monotonic() - began
    assert growth.log_path.read_text().count(TOKEN[:8]) == 0
    with capsys.disabled():
        print(
            f"\n{PODS} pods ran after {seconds:.0f} s, {len(project.meter.bills)} servers bought, {requests_bought} "
            f"requests; all gone {gone:.0f} s later"
        )
        print(
            f"{price:.4f} EUR an hour by the meter, {told:.4f} by the pool's status, {cheapest():.4f} the cheapest "
            "that was for sale"
        )
    assert price == pytest.approx(cheapest(), rel=0.02)
    refused = [one.at for one in fake.api.log if one.status == 429]
    assert refused
    assert max(refused) - min(refused) < 2, "after a 429 nothing is asked until its reset, but for what was on its way"
    assert project.meter.running() == []
    assert project.meter.duplicates() == []
    assert violations == []
    assert refused_calls(cluster) == []


def told_price(cluster: ControlPlane) -> float:
    [pool] = cluster.objects("nodepools")
    return float(pool["status"]["pricePerHour"])


def test_growth_killed_while_it_buys_at_hetzner_buys_nothing_twice(cluster: ControlPlane, tmp_path: Path) -> None:
    with hetzner_beside(cluster) as fake, growth_at_hetzner(cluster, fake, tmp_path) as growth:
        project = fake.api.project
        cluster.apply(node_pool("default", "CX33"), deployment("web", 20, cpu="3", memory="2Gi"))
        for least in (1, 10):
            cluster.wait_until(lambda least=least: len(project.servers) >= least, f"{least} servers")  # type: ignore[misc]
            growth.kill()
            growth.start()
        wait_for_running(cluster, 20)
        assert len(project.meter.bills) == 20
        assert project.meter.duplicates() == []


def test_machines_join_from_the_subnet_that_the_settings_name(cluster: ControlPlane, tmp_path: Path) -> None:
    private = {"subnets": {"kube": "10.1.0.0/22"}, "publicIpv4": False, "publicIpv6": False}
    with hetzner_beside(cluster) as fake, growth_at_hetzner(cluster, fake, tmp_path, launch=private):
        project, violations, description = fake.api.project, list[str](), described()
        if description is not None:
            fake.api.look_on = lambda request, answer: violations.extend(description.violations(request, answer))
        cluster.apply(node_pool("default", "CX33"), deployment("web", 5, cpu="3", memory="2Gi"))
        wait_for_running(cluster, 5)
        assert sorted(server.addresses[7001] for server in project.servers.values()) == [
            f"10.1.0.{number}" for number in range(2, 7)
        ]
    assert violations == []
