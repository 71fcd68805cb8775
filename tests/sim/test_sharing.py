"""Do several growths share one cluster by pools? Decision 7 tried out in the embedded cluster."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from growth.model.nodepool import PAUSED, PoolLimits
from growth.sim.apiserver.kinds import BY_NAME
from growth.sim.apiserver.objects import capacity_buffer, deployment, pod, pool_autoscaler
from tests.sim.shares import SHARE_LABEL
from tests.sim.sharing import QUICK, Sharing, in_pools, share_pool, shared

FULL: dict[str, Any] = {"consolidation": "Full", "budgets": [{"nodes": "100%"}]}


def two_shares(sharing: Sharing, replicas: int = 1, **spec: Any) -> None:
    """Pool apples is share a's, pool pears is share b's."""
    sharing.cluster.create(share_pool("apples", "a", "cx32", **spec))
    sharing.cluster.create(share_pool("pears", "b", "cx32", **spec))
    for share in ("a", "b"):
        sharing.start(share, replicas)


def shares_of_purchases(sharing: Sharing) -> list[str]:
    return sorted(each.share for each in sharing.bought())


def test_each_growth_buys_for_its_own_pods_and_gives_back_its_own_nodes() -> None:
    async def test(sharing: Sharing) -> None:
        two_shares(sharing)
        sharing.cluster.create(deployment("red", 12, "1", "1Gi", **in_pools("apples")))
        sharing.cluster.create(deployment("green", 9, "1", "1Gi", **in_pools("pears")))
        await sharing.until(200, lambda: (sharing.running("red"), sharing.running("green")) == (12, 9), "all run")
        assert shares_of_purchases(sharing) == ["a"] * 4 + ["b"] * 3
        assert len(sharing.planned) == len({each.pod for each in sharing.planned}) == 21
        sharing.cluster.scale("Deployment", "red", 0)
        await sharing.until(300, lambda: sharing.nodes_of("apples") == 0, "the nodes of share a go")
        assert [each.share for each in sharing.given_back()] == ["a"] * 4
        assert (sharing.running("green"), sharing.nodes_of("pears")) == (9, 3)
        await sharing.rest(120)

    shared(test)


def test_pods_of_a_share_whose_growth_is_dead_wait_for_it_and_nobody_else_buys_for_them() -> None:
    async def test(sharing: Sharing) -> None:
        two_shares(sharing)
        await sharing.rest(5)
        sharing.kill("a")
        sharing.cluster.create(deployment("red", 6, "1", "1Gi", **in_pools("apples")))
        sharing.cluster.create(deployment("green", 6, "1", "1Gi", **in_pools("pears")))
        await sharing.until(200, lambda: sharing.running("green") == 6, "share b goes on")
        await sharing.rest(300)
        assert (sharing.running("red"), shares_of_purchases(sharing)) == (0, ["b", "b"])
        sharing.start("a")
        await sharing.until(200, lambda: sharing.running("red") == 6, "they are served after the restart")
        assert shares_of_purchases(sharing) == ["a", "a", "b", "b"]

    shared(test)


def test_pods_that_pools_of_both_shares_could_hold_are_bought_for_once_by_the_share_of_the_first() -> None:
    async def test(sharing: Sharing) -> None:
        two_shares(sharing)
        sharing.cluster.create(share_pool("plums", "b", "cax31", priority=5))
        sharing.cluster.create(deployment("by-name", 6, "1", "1Gi", **in_pools("pears", "apples")))
        sharing.cluster.create(deployment("by-priority", 6, "1", "1Gi", **in_pools("apples", "plums")))
        sharing.cluster.create(deployment("by-size", 1, "6", "1Gi", **in_pools("apples", "plums")))
        apps = ("by-name", "by-priority", "by-size")
        await sharing.until(200, lambda: sharing.running(*apps) == 13, "all run")
        served = {each.pod.partition("/")[2].rsplit("-", 2)[0]: each.share for each in sharing.planned}
        assert served == {"by-name": "a", "by-priority": "b", "by-size": "b"}
        assert len(sharing.planned) == 13

    shared(test)


def test_room_on_a_node_of_another_share_is_used_before_anything_is_bought() -> None:
    async def test(sharing: Sharing) -> None:
        two_shares(sharing)
        sharing.cluster.create(deployment("green", 1, "1", "1Gi", **in_pools("pears")))
        await sharing.until(200, lambda: sharing.running("green") == 1, "one node of share b, with room for two more")
        sharing.cluster.create(deployment("both", 2, "1", "1Gi", **in_pools("apples", "pears")))
        await sharing.until(200, lambda: sharing.running("both") == 2, "the others run beside it")
        assert shares_of_purchases(sharing) == ["b"]

    shared(test)


def test_consolidation_moves_pods_across_shares_and_comes_to_rest() -> None:
    async def test(sharing: Sharing) -> None:
        two_shares(sharing, **FULL)
        sharing.cluster.create(deployment("red", 6, "1", "1Gi", **in_pools("apples")))
        sharing.cluster.create(deployment("green", 6, "1", "1Gi", **in_pools("pears")))
        sharing.cluster.create(deployment("both", 3, "1", "1Gi", **in_pools("apples", "pears")))
        apps = ("red", "green", "both")
        await sharing.until(200, lambda: sharing.running(*apps) == 15, "all run")
        for app in ("red", "green"):
            sharing.cluster.scale("Deployment", app, 4)
        await sharing.until(900, lambda: len(sharing.cluster.objects("Node")) == 4, "eleven pods on four nodes")
        await sharing.until(100, lambda: sharing.running(*apps) == 11, "all run again")
        asked = len(sharing.bought()), len(sharing.given_back())
        await sharing.rest(240)
        assert (len(sharing.bought()), len(sharing.given_back())) == asked

    shared(test)


def test_a_pool_that_changes_its_share_keeps_its_nodes_and_is_served_by_the_other_growth() -> None:
    async def test(sharing: Sharing) -> None:
        two_shares(sharing)
        sharing.cluster.create(deployment("red", 3, "1", "1Gi", **in_pools("apples")))
        await sharing.until(200, lambda: sharing.running("red") == 3, "all run")
        change_pool(sharing, "labels", {SHARE_LABEL: "b"})
        await sharing.rest(200)
        sharing.cluster.scale("Deployment", "red", 6)
        await sharing.until(200, lambda: sharing.running("red") == 6, "the new ones run too")
        assert shares_of_purchases(sharing) == ["a", "b"]
        sharing.cluster.scale("Deployment", "red", 0)
        await sharing.until(300, lambda: sharing.nodes_of("apples") == 0, "both nodes go")
        assert [each.share for each in sharing.given_back()] == ["b", "b"]

    shared(test)


def test_a_pool_may_change_its_share_while_its_machines_are_on_their_way() -> None:
    async def test(sharing: Sharing) -> None:
        two_shares(sharing)
        sharing.cluster.create(deployment("red", 6, "1", "1Gi", **in_pools("apples")))
        await sharing.until(30, lambda: len(sharing.bought()) == 2, "two machines are ordered")
        change_pool(sharing, "labels", {SHARE_LABEL: "b"})
        await sharing.until(200, lambda: sharing.running("red") == 6, "all run")
        assert shares_of_purchases(sharing) == ["a", "a"]
        assert sharing.nodes_of("apples") == 2

    shared(test)


def test_a_pool_that_is_paused_while_it_moves_is_bought_for_once_even_if_one_growth_hears_late() -> None:
    async def test(sharing: Sharing) -> None:
        await move_while_a_is_deaf(sharing, is_paused=True)
        assert shares_of_purchases(sharing) == ["b", "b", "b"]

    shared(test)


def test_a_pool_that_is_not_paused_while_it_moves_is_ordered_for_by_both_and_bought_for_by_one() -> None:
    async def test(sharing: Sharing) -> None:
        await move_while_a_is_deaf(sharing, is_paused=False)
        assert shares_of_purchases(sharing) == ["b"] * 5  # two too many: what share a ordered is carried out
        sharing.asked.clear()

    shared(test)


async def move_while_a_is_deaf(sharing: Sharing, *, is_paused: bool) -> None:
    """Eight pods come that need two machines beside the one that is on its way for share b."""
    two_shares(sharing)
    sharing.cluster.create(deployment("green", 1, "1", "1Gi", **in_pools("pears")))
    await sharing.until(30, lambda: len(sharing.bought()) == 1, "a machine of share b is on its way")
    change_pool(sharing, "annotations", {PAUSED: str(is_paused).lower()})
    await sharing.rest(2)
    sharing.heard["a"].is_deaf = True
    change_pool(sharing, "labels", {SHARE_LABEL: "b"})
    sharing.cluster.create(deployment("both", 8, "1", "1Gi", **in_pools("apples", "pears")))
    await sharing.rest(5)
    sharing.heard["a"].hear_again()
    change_pool(sharing, "annotations", {PAUSED: "false"})
    await sharing.until(200, lambda: sharing.running("both") == 8, "all run")


def change_pool(sharing: Sharing, part: str, entries: dict[str, str], pool: str = "apples") -> None:
    def change(item: dict[str, Any]) -> None:
        item["metadata"].setdefault(part, {}).update(entries)

    sharing.cluster.verbs.modify(BY_NAME["NodePool"], pool, "", change, "user")


def test_each_share_has_a_lease_and_a_second_growth_that_takes_over() -> None:
    async def test(sharing: Sharing) -> None:
        two_shares(sharing, replicas=2)
        await sharing.rest(5)
        assert [sharing.leaders(share) for share in ("a", "b")] == [1, 1]
        leases = {each["metadata"]["name"]: each["spec"]["holderIdentity"] for each in sharing.cluster.objects("Lease")}
        assert {"growth-a", "growth-b"} <= set(leases)
        assert leases["growth-a"] != leases["growth-b"]
        sharing.kill("a")
        sharing.cluster.create(deployment("red", 3, "1", "1Gi", **in_pools("apples")))
        sharing.cluster.create(deployment("green", 3, "1", "1Gi", **in_pools("pears")))
        await sharing.until(200, lambda: (sharing.running("red"), sharing.running("green")) == (3, 3), "all run")
        assert shares_of_purchases(sharing) == ["a", "b"]

    shared(test)


def test_a_buffer_and_an_autoscaler_are_served_by_one_share_each() -> None:
    async def test(sharing: Sharing) -> None:
        two_shares(sharing)
        sharing.cluster.create(deployment("green", 1, "1", "1Gi", **in_pools("pears")))
        sharing.cluster.create(capacity_buffer("spare", "green", replicas=3))
        autoscaler = pool_autoscaler("warm", "green", 2, 5, targetAvailable=1)
        autoscaler["metadata"]["labels"] = {SHARE_LABEL: "b"}
        sharing.cluster.create(autoscaler)
        await sharing.until(300, lambda: sharing.running("green") == 2, "the autoscaler keeps two")
        await sharing.until(300, lambda: sharing.nodes_of("pears") == 2, "there is room for three more")
        await sharing.rest(120)
        about = [each for each in sharing.asked if "buffers" in each.text or "autoscalers" in each.text]
        assert {each.share for each in about} == {"b"}
        assert shares_of_purchases(sharing) == ["b", "b"]

    shared(test)


def test_limits_of_the_settings_hold_for_each_share_alone() -> None:
    async def test(sharing: Sharing) -> None:
        two_shares(sharing)
        for app, pool in (("red", "apples"), ("green", "pears")):
            sharing.cluster.create(deployment(app, 9, "1", "1Gi", **in_pools(pool)))
        await sharing.until(200, lambda: (sharing.running("red"), sharing.running("green")) == (6, 6), "six run each")
        await sharing.rest(120)
        assert (sharing.nodes_of("apples"), sharing.nodes_of("pears")) == (2, 2)
        assert "within limits of all" in {
            each.law for each in sharing.judge.violations
        }  # two for each are four for all
        sharing.judge.violations.clear()

    shared(test, replace(QUICK, limits=PoolLimits(nodes=2)))


def test_a_pod_that_no_pool_could_hold_is_told_why_by_one_growth() -> None:
    async def test(sharing: Sharing) -> None:
        two_shares(sharing)
        sharing.cluster.create(pod("too-large", "64", **in_pools("pears", "apples")))
        sharing.cluster.create(pod("nowhere", **in_pools("figs")))
        await sharing.rest(30)
        told = {each["regarding"]["name"]: str(each["note"]) for each in sharing.cluster.objects("Event")}
        assert len(sharing.cluster.objects("Event")) == len(told)
        assert "insufficient cpu" in told["too-large"]
        assert "no NodePool matches growth.dev/pool In [figs]" in told["nowhere"]
        assert sharing.bought() == []

    shared(test)
