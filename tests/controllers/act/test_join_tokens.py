"""A bootstrap token for each NodeRequest: minted once, found again by its name, never shown, and taken back."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from growth.controllers.act.join_tokens import JoinTokens, Mint, secret_name, token_id, why_not_minted
from growth.controllers.growth import Installation
from growth.kube.api.errors import Forbidden, NotFound, Status
from growth.kube.api.resources import SECRETS
from growth.kube.redaction import redact
from growth.model.instant import parse_instant
from growth.model.node import REQUEST_LABEL
from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.cloud.hetzner.project import FakeTrouble
from tests.providers.hetzner.embedded import Town, in_town
from tests.sim.embedded import Bench, on_api_server

REQUEST = "default-pool-0123456789ab"
SETTINGS = JoinTokens(mint=True, lifetime_seconds=1000)


def with_mint(test: Callable[[Bench, Mint], Awaitable[None]]) -> None:
    on_api_server(lambda bench: test(bench, Mint(bench.client, bench.runtime, SETTINGS)))


async def stored(bench: Bench, request: str = REQUEST) -> Any:
    return await bench.read(SECRETS, secret_name(request), "kube-system")


async def is_gone(bench: Bench) -> bool:
    with pytest.raises(NotFound):
        await stored(bench)
    return True


def test_a_token_is_a_secret_that_the_api_server_takes_for_a_bootstrap_token() -> None:
    async def test(bench: Bench, mint: Mint) -> None:
        token = await mint.token_for(REQUEST)
        assert re.fullmatch(r"[a-z0-9]{6}\.[a-z0-9]{16}", token)
        secret = await stored(bench)
        public, _, private = token.partition(".")
        assert (secret["type"], secret["metadata"]["name"]) == (
            "bootstrap.kubernetes.io/token",
            f"bootstrap-token-{public}",
        )
        assert secret["metadata"]["labels"] == {REQUEST_LABEL: REQUEST}
        assert (secret["stringData"]["token-id"], secret["stringData"]["token-secret"]) == (public, private)
        assert secret["stringData"]["auth-extra-groups"] == "system:bootstrappers:kubeadm:default-node-token"
        assert parse_instant(secret["stringData"]["expiration"]) == pytest.approx(bench.runtime.now() + 1000, abs=1)

    with_mint(test)


def test_asked_again_for_the_same_request_it_is_the_same_token_until_half_its_life_is_over() -> None:
    async def test(bench: Bench, mint: Mint) -> None:
        first = await mint.token_for(REQUEST)
        await bench.runtime.sleep(499)
        assert await mint.token_for(REQUEST) == first
        await bench.runtime.sleep(2)
        second = await mint.token_for(REQUEST)
        assert (second == first, second[:6] == first[:6]) == (False, True)
        assert (await stored(bench))["stringData"]["token-secret"] == second[7:]

    with_mint(test)


def test_a_growth_that_began_anew_finds_its_own_by_name_and_replaces_it() -> None:
    async def test(bench: Bench, mint: Mint) -> None:
        before = await mint.token_for(REQUEST)
        after = await Mint(bench.client, bench.runtime, SETTINGS).token_for(REQUEST)
        assert (after == before, after[:6] == before[:6]) == (False, True)
        items, _ = await bench.client.list(SECRETS, "kube-system")
        assert len(items) == 1
        assert (await stored(bench))["stringData"]["token-secret"] == after[7:]

    with_mint(test)


def test_a_token_is_taken_back_also_by_one_who_did_not_make_it_and_twice_does_no_harm() -> None:
    async def test(bench: Bench, mint: Mint) -> None:
        await mint.token_for(REQUEST)
        another = Mint(bench.client, bench.runtime, SETTINGS)
        await another.take_back(REQUEST)
        assert await is_gone(bench)
        await another.take_back(REQUEST)

    with_mint(test)


def test_the_secret_part_is_struck_out_of_every_text_while_it_is_good_for_anything() -> None:
    async def test(_bench: Bench, mint: Mint) -> None:
        token = await mint.token_for(REQUEST)
        assert redact(f"with {token} in it") == f"with {token[:7]}[redacted] in it"
        await mint.take_back(REQUEST)
        assert redact(token) == token

    with_mint(test)


def test_ids_follow_from_names_alone_and_differ() -> None:
    names = [f"default-pool-{number:012x}" for number in range(2000)]
    assert len({token_id(name) for name in names}) == len(names)
    assert token_id(REQUEST) == token_id(REQUEST)


def test_a_missing_right_is_told_with_what_to_do() -> None:
    words = why_not_minted(Forbidden(Status(403, "Forbidden", "secrets is forbidden")))
    assert words.startswith("no join token could be minted: apply the role and policy for join tokens")


# --------------------------------------------------------------------------- a machine's whole life

TEMPLATE = (
    '{"labels": {{ growth.labels_json }}, "taints": {{ growth.taints_json }}, "token": "{{ growth.join_token }}"}'
)


def in_minting_town(test: Callable[[Town], Awaitable[None]]) -> None:
    in_town(test, installation=Installation(join_tokens=SETTINGS), template=TEMPLATE)


def minted(town: Town) -> dict[str, str]:
    """The token that the API server knows for each request."""
    found = [(item["metadata"]["labels"][REQUEST_LABEL], item["stringData"]) for item in town.cluster.objects("Secret")]
    return {request: f"{data['token-id']}.{data['token-secret']}" for request, data in found}


def carried(town: Town) -> dict[str, str]:
    """The token that each server was ordered with."""
    return {server.name: json.loads(server.user_data)["token"] for server in town.project.servers.values()}


def test_a_machine_carries_the_token_that_is_known_and_once_its_node_has_joined_there_is_none() -> None:
    async def test(town: Town) -> None:
        town.cluster.create(node_pool("default", "CX33"), deployment("web", 3, cpu="3", memory="2Gi"))
        await town.wait_for(lambda: len(town.project.servers) == 3, 60)
        assert carried(town) == minted(town)
        await town.wait_for(lambda: len(town.cluster.objects("Node")) == 3, 120)
        await town.cluster.runtime.sleep(5)
        assert minted(town) == {}

    in_minting_town(test)


def test_a_machine_that_never_joins_and_an_order_that_cannot_be_had_leave_no_token_behind() -> None:
    async def test(town: Town) -> None:
        town.project.trouble = FakeTrouble(never_boots=1.0)
        town.project.stock = {("cx33", "fsn1"): 1}
        town.cluster.create(
            node_pool("default", "CX33", locations=["fsn1"]), deployment("web", 2, cpu="3", memory="2Gi")
        )
        await town.wait_for(lambda: set(town.phases()) == {"Provisioning", "Unmet"}, 120)
        [waiting] = [
            item["metadata"]["name"]
            for item in town.cluster.objects("NodeRequest")
            if item["status"]["phase"] == "Provisioning"
        ]
        assert list(minted(town)) == [waiting]
        town.cluster.scale("Deployment", "web", 0)
        await town.wait_for(lambda: not town.project.servers, 1200)
        assert minted(town) == {}

    in_minting_town(test)


def test_a_growth_that_is_killed_between_token_and_order_uses_one_that_works() -> None:
    async def test(town: Town) -> None:
        town.cluster.create(node_pool("default", "CX33"), deployment("web", 4, cpu="3", memory="2Gi"))
        await town.wait_for(lambda: bool(minted(town)), 60)
        town.growth.kill()
        town.start()
        await town.wait_for(lambda: len(town.project.servers) == 4, 120)
        assert carried(town) == minted(town) | carried(town)
        assert len(set(carried(town).values())) == 4
        await town.wait_for(lambda: town.running() == 4, 200)
        await town.cluster.runtime.sleep(60)
        assert (minted(town), len(town.project.meter.bills)) == ({}, 4)

    in_minting_town(test)
