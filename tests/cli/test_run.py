"""A running growth tells probes and people what it waits for, and what is wrong with it."""

from __future__ import annotations

import socket
from pathlib import Path

from growth.controllers import health
from growth.controllers.loop import loop
from growth.controllers.observe import supply
from growth.kube.api.resources import LEASES, NAMESPACES, PODS
from tests.cli.living import Living, living
from tests.controllers.ask.clinic import Json, pool

UNSCHEDULABLE: Json = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "waits", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
}
QUICK_RIGHTS = {"growth.controllers.health._ASK_SECONDS": 0.5}


def test_whatever_is_wrong_is_told_within_a_minute() -> None:
    """The others make these limits short: here is what they are in earnest."""
    for seconds in (health._ASK_SECONDS, loop.SOLVE_SECONDS, supply._SILENT_SECONDS):
        assert seconds + health._LOOK_SECONDS < 60


def test_a_growth_that_has_all_it_needs_is_alive_and_ready_and_leads(tmp_path: Path) -> None:
    with living(tmp_path, pools=(pool(),)) as growth:
        growth.wait_until_ready()
        assert growth.asked("/healthz") == (200, "ok\n")
        growth.wait_for(lambda: growth.said("growth leads"))
        growth.wait_for(lambda: growth.said("growth is ready"))
        assert "\ngrowth_ready 1.0\n" in growth.asked("/metrics")[1]


def test_a_namespace_that_is_missing_is_told_at_once_and_again_and_growth_goes_on_when_it_is_made(
    tmp_path: Path,
) -> None:
    limits = QUICK_RIGHTS | {"growth.controllers.health._AGAIN_SECONDS": 2.0}
    with living(tmp_path, {"namespace": "nowhere"}, limits) as growth:
        growth.wait_for_unready("the namespace nowhere does not exist")
        assert growth.asked("/healthz") == (200, "ok\n")
        growth.wait_for(lambda: len([why for why in growth.said("growth waits") if "nowhere does not" in why]) > 1)
        growth.wait_for_unready("the Lease nowhere/growth cannot be taken")
        growth.do(growth.clinic.client.create(NAMESPACES, {"metadata": {"name": "nowhere"}}))
        growth.wait_until_ready()
        growth.wait_for(lambda: growth.said("growth leads"))


def test_a_right_that_is_lost_is_named_though_watches_go_on(tmp_path: Path) -> None:
    with living(tmp_path, limits=QUICK_RIGHTS) as growth:
        growth.wait_until_ready()
        growth.clinic.denied.add(("create", "pods/eviction"))
        growth.wait_for_unready("these credentials may not: create pods/eviction")
        assert growth.asked("/healthz") == (200, "ok\n")
        growth.clinic.denied.clear()
        growth.wait_until_ready()


def test_a_kind_that_is_not_installed_is_named_with_what_to_do(tmp_path: Path) -> None:
    missing = {"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "no"}

    def remove(cluster: Living) -> None:
        cluster.clinic.answers["/nodepools"] = (404, missing)

    with living(tmp_path, prepare=remove) as growth:
        growth.wait_for_unready("nodepools.growth.dev: the API server does not know this kind")
        assert growth.asked("/healthz") == (200, "ok\n")


def test_an_api_server_that_is_away_makes_nobody_look_dead(tmp_path: Path) -> None:
    def cut(cluster: Living) -> None:
        cluster.clinic.silent = "/api"

    with living(tmp_path, prepare=cut) as growth:
        growth.wait_for_unready("it is not known yet which cluster this is")
        assert growth.asked("/healthz") == (200, "ok\n")


def test_a_provider_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a" * 64)
    there = {"tokenFile": str(tmp_path / "token"), "endpoint": "http://127.0.0.1:1/v1"}
    with living(tmp_path, {"provider": "hetzner", "hetzner": there}) as growth:
        growth.wait_for_unready("the provider did not answer")
        assert growth.asked("/healthz") == (200, "ok\n")


def test_a_list_of_machines_that_no_longer_comes_is_told(tmp_path: Path) -> None:
    module = "growth.controllers.observe.supply"
    limits = {f"{module}._SOONEST_SECONDS": 0.1, f"{module}._MACHINES_SECONDS": 0.1, f"{module}._SILENT_SECONDS": 2.0}
    with living(tmp_path, limits=limits) as growth:
        growth.wait_until_ready()
        growth.clinic.silent = "labelSelector=growth.dev"
        growth.wait_for_unready("the provider's list of machines is ")
        assert growth.asked("/healthz") == (200, "ok\n")
        growth.clinic.silent = ""


def test_a_solver_that_hangs_is_told_at_once_and_growth_is_not_alive_if_it_goes_on(tmp_path: Path) -> None:
    module = "growth.controllers.loop.loop"
    limits = {f"{module}.SOLVE_SECONDS": 1.0, f"{module}._FAILED_SECONDS": 0.5}
    with living(tmp_path, limits=limits, pools=(pool(),)) as growth:
        growth.wait_until_ready()
        client, waits = growth.clinic.client, {"status": {"conditions": [UNSCHEDULABLE]}}
        growth.do(client.create(PODS, POD))
        growth.do(client.merge_patch(PODS, "waits", waits, "default", subresource="status"))

        def is_told() -> bool:
            growth.stop_workers()
            return growth.asked("/healthz")[0] == 503

        growth.wait_for(is_told)
        assert "the solver did not answer the last" in growth.asked("/healthz")[1]
        assert any("the solver did not answer" in why for why in growth.told)


def test_who_leads_is_told_to_the_one_that_waits_and_it_is_ready_all_the_same(tmp_path: Path) -> None:
    lease = {"metadata": {"name": "growth", "namespace": "growth-system"}, "spec": {"holderIdentity": "another"}}
    with living(tmp_path, prepare=lambda cluster: cluster.do(cluster.clinic.client.create(LEASES, lease))) as growth:
        growth.wait_for(lambda: growth.said("growth waits for leadership"))
        assert growth.said("growth waits for leadership") == ["the Lease growth-system/growth is held by another"]
        assert not growth.said("growth leads")
        growth.wait_until_ready()


def test_a_growth_that_runs_shows_its_cluster_on_its_page(tmp_path: Path) -> None:
    with living(tmp_path, pools=(pool(),)) as growth:
        growth.do(growth.clinic.client.create(PODS, POD))
        growth.wait_for(lambda: '"default/waits"' in growth.asked_page("api/state")[1])
        assert "<!doctype html>" in growth.asked_page("")[1]
        status, answer = growth.asked_page("api/explain?kind=NodePool&name=default")
        assert (status, '"answer":' in answer) == (200, True)


def test_a_page_that_finds_its_port_taken_stops_nobody(tmp_path: Path) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    with taken, living(tmp_path, {"page": {"port": taken.getsockname()[1]}}) as growth:
        growth.wait_until_ready()
        assert len(growth.said("the page is not served")) == 1


def test_a_page_that_nobody_wants_is_not_served(tmp_path: Path) -> None:
    with living(tmp_path, {"page": {"enabled": False}}) as growth:
        growth.wait_until_ready()
        assert growth.asked_page("") == (0, "")
