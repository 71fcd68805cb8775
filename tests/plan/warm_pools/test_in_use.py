"""Which replicas may go: none that is in use, by the order in which each kind takes its members."""

from __future__ import annotations

from functools import cmp_to_key
from math import log2

from hypothesis import given, settings
from hypothesis import strategies as st

from growth.model.labels import Labels
from growth.model.pod import Owner, Pod, PodShape
from growth.model.warmpool import DEPLOYMENT, REPLICA_SET, SANDBOX_SET, STATEFUL_SET, WarmPool
from growth.plan.warm_pools.in_use import NOTHING_KEPT, Members, kept_for

NOW = 1_800_000_000.0
COST = "controller.kubernetes.io/pod-deletion-cost"
USED, IDLE = PodShape("team", Labels({"claimed": "yes"})), PodShape("team")


def pod(
    name: str, age: float = 600.0, *, used: bool = False, owner: str = "rs", cost: int = 0, **fields: object
) -> Pod:
    known: dict[str, object] = {
        "uid": name, "node_name": f"node-{name}", "phase": "Running", "is_ready": True, "ready_at": NOW - age,
        "created_at": NOW - age, "annotations": Labels({COST: str(cost)} if cost else {}),
    }  # fmt: skip
    return Pod(name, USED if used else IDLE, owner=Owner("ReplicaSet", owner, owner), **{**known, **fields})  # type: ignore[arg-type]


def members(*pods: Pod) -> Members:
    return Members(pods, [each for each in pods if each.shape is USED])


def kept(*pods: Pod) -> int:
    return kept_for(WarmPool("web", "team", len(pods)), REPLICA_SET, members(*pods), NOW).replicas


def test_a_stateful_set_keeps_all_up_to_the_highest_ordinal_in_use() -> None:
    pods = [pod(f"db-{number}", used=number in {5, 8}) for number in range(5, 15)]
    found = kept_for(WarmPool("db", "team", 10, first_ordinal=5), STATEFUL_SET, members(*pods), NOW)
    assert found.replicas == 4
    assert "db-8 is in use" in found.why


def test_nothing_is_kept_where_nothing_is_in_use_or_another_controller_chooses() -> None:
    idle, used = members(pod("a"), pod("b")), members(pod("a", used=True))
    assert kept_for(WarmPool("web", "team", 2), DEPLOYMENT, idle, NOW) == NOTHING_KEPT
    assert kept_for(WarmPool("web", "team", 2), SANDBOX_SET, used, NOW) == NOTHING_KEPT


def test_idle_pods_that_surely_go_first_may_go() -> None:
    assert kept(pod("u", 3000, used=True), pod("a", 60), pod("b", 90)) == 1  # much younger
    assert kept(pod("u", 60, used=True), pod("a", 3000), pod("b", 9000)) == 3  # older ones go last
    assert kept(pod("u", 60, used=True, cost=100), pod("a", 3000), pod("b", 9000)) == 1  # said by its cost
    assert kept(pod("u", 60, used=True), pod("a", 3000, is_ready=False), pod("b", 3000, node_name="")) == 1
    assert kept(pod("u", 60, used=True), pod("a", 3000, phase="Pending"), pod("b", 9000)) == 2
    assert kept(pod("u", 60, used=True), pod("a", 3000, node_name="n"), pod("b", 9000, node_name="n")) == 1


def test_within_one_power_of_two_only_the_smaller_uid_is_sure() -> None:
    assert kept(pod("m", 700, used=True), pod("a", 690)) == 1
    assert kept(pod("m", 700, used=True), pod("z", 690)) == 2


def test_during_a_rollout_nothing_is_sure() -> None:
    assert kept(pod("u", 3000, used=True), pod("a", 60, owner="new"), pod("b", 60)) == 3


ages = st.sampled_from([0.5, 1.0, 30.0, 59.0, 61.0, 300.0, 549.0, 550.0, 600.0, 1099.0, 1100.0, 5000.0])
drawn = st.lists(
    st.tuples(ages, ages, st.booleans(), st.sampled_from([0, 0, 5, -3]), st.sampled_from("abc"), st.booleans()),
    min_size=1,
    max_size=12,
)


@settings(max_examples=400, deadline=None)
@given(drawn, st.sampled_from([0.0, 5.0, 50.0]), st.booleans())
def test_kubernetes_takes_no_pod_in_use(
    story: list[tuple[float, float, bool, int, str, bool]], later: float, is_logarithmic: bool
) -> None:
    """Against the order of the ReplicaSet controller, written down a second time, some seconds later."""
    pods = [
        pod(f"{number * 7919 % 13:02}", age, used=used, cost=cost, node_name=node, is_ready=ready,
            ready_at=NOW - min(age, since) if ready else None, created_at=NOW - age)
        for number, (age, since, used, cost, node, ready) in enumerate(story)
    ]  # fmt: skip
    least = kept(*pods)
    beside = {each.node_name: sum(other.node_name == each.node_name for other in pods) for each in pods}

    def by_time(one: float, other: float, names: tuple[str, str]) -> int:
        if not is_logarithmic:
            return -1 if one > other else 1
        ranks = [int(log2((NOW + later - at) * 1e9)) if NOW + later > at else -1 for at in (one, other)]
        if ranks[0] == ranks[1]:
            return -1 if names[0] < names[1] else 1
        return ranks[0] - ranks[1]

    def compare(one: Pod, other: Pod) -> int:
        for mine, theirs in (
            (one.is_ready, other.is_ready),
            (int(one.annotations.get(COST) or 0), int(other.annotations.get(COST) or 0)),
            (-beside[one.node_name], -beside[other.node_name]),
        ):
            if mine != theirs:
                return -1 if mine < theirs else 1
        if one.ready_at is not None and other.ready_at is not None and one.ready_at != other.ready_at:
            return by_time(one.ready_at, other.ready_at, (one.uid, other.uid))
        if one.created_at != other.created_at:
            return by_time(one.created_at, other.created_at, (one.uid, other.uid))
        return 0

    gone = sorted(pods, key=cmp_to_key(compare))[: len(pods) - least]
    assert not [each.name for each in gone if each.shape is USED]
