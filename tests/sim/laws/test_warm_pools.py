"""The laws of warm pools catch what they are about: a member in use that is lost, and tries that are too close."""

from __future__ import annotations

import pytest

from growth.sim.apiserver.kinds import BY_NAME, CLAIMED, POD, Json
from growth.sim.apiserver.objects import stateful_set
from growth.sim.clock import run_virtual
from growth.sim.cluster import Cluster
from growth.sim.laws import Judge
from growth.sim.laws.memory import Call
from growth.sim.laws.witness import GROWTH, Witness

SCALE = "PATCH /apis/apps/v1/namespaces/default/deployments/web/scale"


def lost_members(scaled_by: str, in_use_seconds: float) -> list[str]:
    """What the judge says when a StatefulSet of two goes to one and its last member is in use."""

    async def run() -> list[str]:
        cluster = Cluster("lost")
        judge = Judge(Witness(cluster))
        cluster.create(stateful_set("db", 2))
        await cluster.runtime.sleep(1)

        def claim(item: Json) -> None:
            item["metadata"]["labels"][CLAIMED] = "yes"

        def shrink(item: Json) -> None:
            item["spec"]["replicas"] = 1

        cluster.verbs.modify(POD, "db-1", "default", claim, "user")
        await cluster.runtime.sleep(in_use_seconds)
        cluster.verbs.modify(BY_NAME["StatefulSet"], "db", "default", shrink, scaled_by)
        await cluster.runtime.sleep(1)
        return [each.what for each in judge.violations if each.law == "used replicas stay"]

    return run_virtual(run())


@pytest.mark.parametrize(("scaled_by", "seconds", "count"), [(GROWTH, 70, 1), (GROWTH, 5, 0), ("user", 70, 0)])
def test_a_member_in_use_that_growth_scales_away_is_noticed(scaled_by: str, seconds: float, count: int) -> None:
    found = lost_members(scaled_by, seconds)
    assert len(found) == count
    assert all("pod default/db-1, in use for" in each for each in found)


def test_two_tries_of_one_growth_are_ten_seconds_apart() -> None:
    async def run() -> list[int]:
        cluster = Cluster("tries")
        judge, counts = Judge(Witness(cluster)), list[int]()
        for seconds, life in ((0, 1), (5, 1), (11, 1), (1, 2)):
            await cluster.runtime.sleep(seconds)
            judge.hear_call(Call(SCALE, leads=True, another_leads=False, stood_still=False, life=life))
            counts.append(len(judge.violations))
        return counts

    assert run_virtual(run()) == [0, 1, 1, 1]
