"""The Hetzner provider keeps the contract: machines are bought once, adopted, described, listed and given back, and
nobody else's are touched.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from growth.model.outcome import Accepted, Refused, TryLater, Unknown
from growth.providers.contract import Gone, ProviderError
from growth.sim.cloud.hetzner.api import FakeRequest
from growth.sim.cloud.hetzner.inventory import FakeServer
from growth.sim.cloud.hetzner.project import FakeRefusal, FakeTrouble
from tests.providers.hetzner.worlds import CLUSTER, Bench, at_hetzner, order


def test_a_launch_is_accepted_listed_described_and_deleted() -> None:
    async def test(bench: Bench) -> None:
        accepted = await bench.provider.launch(order())
        assert isinstance(accepted, Accepted)
        [machine] = await bench.provider.list(CLUSTER)
        assert (machine.machine_id, machine.name, machine.offering, machine.location) == (
            accepted.machine_id, "default-pool-0123456789ab", "hetzner-cx33", "fsn1")  # fmt: skip
        assert (machine.cluster, machine.request_uid, machine.provider_id) == (
            CLUSTER,
            order().request_uid,
            f"hcloud://{accepted.machine_id}",
        )
        assert await bench.provider.describe(machine.machine_id) == machine
        assert isinstance(await bench.provider.delete(machine.machine_id), Accepted)
        await bench.runtime.sleep(10)
        assert await bench.provider.describe(machine.machine_id) == Gone()
        assert await bench.provider.list(CLUSTER) == ()
        assert isinstance(await bench.provider.delete(machine.machine_id), Accepted)

    at_hetzner(test)


def test_the_same_request_never_gets_two_machines_and_a_strangers_name_is_left_alone() -> None:
    async def test(bench: Bench) -> None:
        first = await bench.provider.launch(order())
        assert await bench.provider.launch(order()) == first
        assert len(bench.project.servers) == 1
        assert isinstance(await bench.provider.launch(order(uid="4c1f7a10-0000-4000-8000-000000000000")), Refused)
        assert isinstance(await bench.provider.launch(order(cluster="another")), Refused)

    at_hetzner(test)


def test_an_answer_lost_after_the_effect_is_unknown_sent_once_and_adopted_later() -> None:
    async def test(bench: Bench) -> None:
        await bench.provider.offerings()
        await bench.provider.launch(order("warm-up-1", "uid-0"))
        posts = bench.requests("POST")
        bench.project.trouble = FakeTrouble(lost_after_effect=1.0)
        assert isinstance(await bench.provider.launch(order()), Unknown)
        assert bench.requests("POST") == posts + 1
        bench.project.trouble = FakeTrouble()
        [lost] = [server for server in bench.project.servers.values() if server.name == order().name]
        assert await bench.provider.launch(order()) == Accepted(str(lost.id))
        assert await bench.new_provider().launch(order()) == Accepted(str(lost.id))
        assert bench.project.meter.duplicates() == []

    at_hetzner(test)


def test_a_name_whose_server_is_just_going_is_tried_again_later() -> None:
    async def test(bench: Bench) -> None:
        server = bench.server(await bench.provider.launch(order()))
        bench.project.delete(server)
        assert isinstance(await bench.provider.launch(order()), TryLater)

    at_hetzner(test)


def test_a_server_that_is_powered_off_is_present_not_gone() -> None:
    async def test(bench: Bench) -> None:
        server = bench.server(await bench.provider.launch(order()))
        bench.project.power_off(server.id)
        await bench.runtime.sleep(400)
        [machine] = await bench.provider.list(CLUSTER)
        assert machine.state == "stopped"
        found = await bench.provider.describe(machine.machine_id)
        assert not isinstance(found, Gone)
        assert found.state == "stopped"

    at_hetzner(test)


def test_servers_of_others_are_not_seen_and_not_deleted() -> None:
    async def test(bench: Bench) -> None:
        ours = bench.server(await bench.provider.launch(order()))
        bench.project.create(replace(ours, id=0, name="web-1", labels={}))
        bench.project.create(
            replace(ours, id=0, name="theirs", labels={**ours.labels, "growth.dev/cluster": "another-growth"})
        )
        assert [machine.name for machine in await bench.provider.list(CLUSTER)] == [order().name]
        for name in ("web-1", "theirs"):
            stranger: FakeServer = next(server for server in bench.project.servers.values() if server.name == name)
            refused = await bench.provider.delete(str(stranger.id))
            assert refused == Refused(f"server {stranger.id} is not ours")
            assert stranger.status != "deleting"
        assert bench.requests("DELETE") == 0

    at_hetzner(test)


def test_delete_protection_is_honoured_and_told() -> None:
    async def test(bench: Bench) -> None:
        server = bench.server(await bench.provider.launch(order()))
        server.is_protected = True
        refused = await bench.provider.delete(str(server.id))
        assert isinstance(refused, Refused)
        assert "delete protection" in refused.reason
        assert bench.requests("DELETE") == 0

    at_hetzner(test)


def test_a_machine_that_lost_our_label_is_shown_without_it_so_that_nobody_deletes_it() -> None:
    async def test(bench: Bench) -> None:
        server = bench.server(await bench.provider.launch(order()))
        server.labels.clear()
        found = await bench.provider.describe(str(server.id))
        assert not isinstance(found, Gone)
        assert found.cluster == ""
        assert isinstance(await bench.provider.delete(str(server.id)), Refused)

    at_hetzner(test)


def test_not_found_counts_as_gone_only_while_hetzner_otherwise_answers_about_our_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(bench: Bench) -> None:
        def failing(_request: FakeRequest) -> tuple[dict[str, Any], int]:
            raise FakeRefusal(500, "server_error", "the list is not available")

        monkeypatch.setattr(bench.api, "_servers", failing)
        with pytest.raises(ProviderError):
            await bench.provider.describe("4242")
        monkeypatch.undo()
        assert await bench.provider.describe("4242") == Gone()
        with pytest.raises(ProviderError, match="no id"):
            await bench.provider.describe("not-a-number")

    at_hetzner(test)
