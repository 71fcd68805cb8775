"""What every offering says to a pod, and which single change would give it a place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from growth.controllers.ask.offers import TAKES, Remedy, offers_to, remedies_for
from growth.model.nodepool import NodePool, PoolTaint
from growth.model.pod import Pod
from growth.model.settings import Settings
from growth.model.snapshot import Snapshot
from tests.plan.builders import bound, limited, node, offering, pod, pool, run_scale_up, world

SMALL, BIG = offering("small", 2, 4096, 0.01), offering("big", 16, 32768, 0.08)
SOLD_OUT = replace(BIG, is_available=False)
AT_ONCE = Settings(batch_quiet_seconds=0.0, batch_longest_seconds=0.0)


def said(of: Pod, snapshot: Snapshot) -> dict[str, str]:
    return {f"{each.pool} {each.offering}": each.answer for each in offers_to(of, snapshot, AT_ONCE)}


def helped(of: Pod, *pools: NodePool, **fields: Any) -> dict[str, str]:
    snapshot = world((of,), pools, fields.pop("sold", [SMALL, BIG]), **fields)
    return {each.change: each.then for each in remedies_for(of, snapshot, AT_ONCE)}


def test_each_offering_of_each_pool_has_its_say() -> None:
    asked = pod("web", 4)
    tainted = pool("gpu", "big", taints=(PoolTaint("gpu", "NoSchedule"),))
    snapshot = world((asked,), [pool("default", "small", "big"), tainted], [SMALL, BIG])
    assert said(asked, snapshot) == {
        "default sim-big": TAKES,
        "default sim-small": "insufficient cpu",
        "gpu sim-big": "untolerated taint gpu:NoSchedule",
    }


def test_what_is_sold_out_or_at_its_limit_says_so() -> None:
    asked = pod("web")
    full = world((asked,), [pool("default", limited("small", 1))], [SMALL], [node("n", of=SMALL)])
    assert "max 1" in said(asked, full)["default sim-small"]
    empty = world((asked,), [pool("default", "big")], [SOLD_OUT])
    assert said(asked, empty) == {"default sim-big": "the provider has none to sell"}


def test_a_pool_that_the_pod_does_not_ask_for_says_what_to_ask_for() -> None:
    asked = pod("web")
    snapshot = world((asked,), [pool("default", "small"), pool("other", "big")], [SMALL, BIG])
    assert said(asked, snapshot)["other sim-big"] == "the pod does not ask for this pool (growth.dev/pool: other)"


@pytest.mark.parametrize(
    ("of", "change", "then"),
    [
        (pod("huge", 8), "big among the serverTypes of NodePool default", "sim-big in fsn1 of NodePool default"),
        (
            pod("typo", node_selector={"disk": "sdd"}),
            "no node selector disk=sdd",
            "sim-small in fsn1 of NodePool default",
        ),
        (
            pod("lost", node_selector={"growth.dev/pool": "nowhere"}),
            "the node selector growth.dev/pool: default",
            "sim-small in fsn1 of NodePool default",
        ),
    ],
)
def test_one_change_that_helps_is_named_with_what_would_be_bought(of: Pod, change: str, then: str) -> None:
    assert helped(of, pool("default", "small"))[change] == then


def test_a_limit_that_is_reached_is_named_with_its_number() -> None:
    full = bound(pod("full", 2), "n")
    snapshot = world((pod("web", 2), full), [pool("default", limited("small", 1))], [SMALL], [node("n", of=SMALL)])
    [remedy] = remedies_for(pod("web", 2), snapshot, AT_ONCE)
    assert "max 1" in remedy.change
    assert (remedy.then, remedy.price_per_hour) == ("sim-small in fsn1 of NodePool default", 0.01)


def test_a_toleration_is_named_where_only_the_taint_is_in_the_way() -> None:
    tainted = pool("default", "small", taints=(PoolTaint("gpu", "NoSchedule"),))
    assert "a toleration of gpu" in helped(pod("web"), tainted)


def test_a_pod_that_only_comes_after_others_is_told_that_nothing_need_change() -> None:
    [remedy] = remedies_for(pod("web"), world((pod("web"),), [pool()], [SMALL]), AT_ONCE)
    assert remedy.change.startswith("nothing: it waits only because")


@settings(max_examples=20)
@given(st.integers(1, 20), st.sampled_from(["small", "big"]), st.booleans(), st.booleans())
def test_a_remedy_that_is_named_works_and_an_offering_that_takes_the_pod_gets_it(
    cpu: int, kind: str, has_typo: bool, is_tainted: bool
) -> None:
    asked = pod("web", cpu, node_selector={"disk": "sdd"} if has_typo else {})
    taints = (PoolTaint("gpu", "NoSchedule"),) if is_tainted else ()
    snapshot = world((asked,), [pool("default", kind, taints=taints)], [SMALL, BIG])
    takes = any(each.answer == TAKES for each in offers_to(asked, snapshot, AT_ONCE))
    assert takes == bool(run_scale_up(snapshot).actions)
    remedies: tuple[Remedy, ...] = () if takes else remedies_for(asked, snapshot, AT_ONCE)
    assert all(each.price_per_hour in (SMALL.price_per_hour, BIG.price_per_hour) for each in remedies)
