"""A bootstrap token for each NodeRequest: minted once, found again by its name, never shown, and taken back."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from growth.controllers.jointokens import JoinTokens, Mint, secret_name, token_id, why_not_minted
from growth.kube.errors import Forbidden, NotFound, Status
from growth.kube.resources import SECRETS
from growth.model.instant import parse_instant
from growth.model.node import REQUEST_LABEL
from growth.providers.redaction import redacted
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
        assert (secret["type"], secret["metadata"]["name"]) == ("bootstrap.kubernetes.io/token", f"bootstrap-token-{public}")
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
        assert redacted(f"with {token} in it") == f"with {token[:7]}[redacted] in it"
        await mint.take_back(REQUEST)
        assert redacted(token) == token

    with_mint(test)


def test_ids_follow_from_names_alone_and_differ() -> None:
    names = [f"default-pool-{number:012x}" for number in range(2000)]
    assert len({token_id(name) for name in names}) == len(names)
    assert token_id(REQUEST) == token_id(REQUEST)


def test_a_missing_right_is_told_with_what_to_do() -> None:
    words = why_not_minted(Forbidden(Status(403, "Forbidden", "secrets is forbidden")))
    assert words.startswith("no join token could be minted: apply the role and policy for join tokens")
