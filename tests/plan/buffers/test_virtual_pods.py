"""Which virtual pods are there: quotas first to the oldest, labels, stable names, pools; never claims, never somebody
else's strategy.
"""

from __future__ import annotations

from growth.model.capacitybuffer import QuotaScope, ResourceQuota
from growth.model.pod import VolumeUse
from growth.plan.buffers.virtual_pods import ServedBuffer, planned_entries, planned_entry, served_buffers, virtual_pods
from tests.plan.buffers.worlds import buffer, buffer_world, template
from tests.plan.builders import NOW, hetzner, pool, shape

POOLS = {"default": pool("default", "cx32")}


def quota(
    name: str = "team",
    namespace: str = "default",
    used: dict[str, int] | None = None,
    scopes: tuple[QuotaScope, ...] = (),
    **hard: int,
) -> ResourceQuota:
    return ResourceQuota(
        namespace, name, {key.replace("_", "."): amount for key, amount in hard.items()}, used or {}, scopes
    )


def found(*buffers: object, **fields: object) -> dict[str, ServedBuffer]:
    world = buffer_world(buffers, **fields)  # type: ignore[arg-type]
    return {spare.buffer.name: spare for spare in served_buffers(world, POOLS, hetzner("cx32"), "capped")}


def test_virtual_pods_have_stable_names_labels_and_annotations_and_no_label_of_nodes() -> None:
    spare = found(buffer(replicas=3), of=template(of=shape(1, 512, labels={"app": "web"})))["spare"]
    pods = list(virtual_pods(spare))
    assert [pod.name for pod in pods] == ["capacitybuffer-spare-0", "capacitybuffer-spare-1", "capacitybuffer-spare-2"]
    assert dict(pods[0].shape.labels) == {
        "app": "web",
        "autoscaling.x-k8s.io/buffer": "spare",
        "autoscaling.x-k8s.io/buffer-namespace": "default",
    }
    assert dict(pods[0].annotations) == {"growth.dev/buffer": "spare", "growth.dev/buffer-namespace": "default"}
    assert list(virtual_pods(found(buffer(replicas=2))["spare"])) == list(
        virtual_pods(found(buffer(replicas=2))["spare"])
    )


def test_claims_and_a_node_of_its_own_are_left_out_of_a_virtual_pod() -> None:
    bound = shape(
        1, 512, volumes=(VolumeUse(claim="data"), VolumeUse(claim="scratch", is_ephemeral=True)), required_node="node-1"
    )
    spare = found(buffer(replicas=1), of=template(of=bound))["spare"]
    assert spare.shape.required_node == ""
    assert [use.claim for use in spare.shape.volumes] == ["scratch"]


def test_a_strategy_that_growth_does_not_know_and_a_buffer_that_goes_have_no_virtual_pods() -> None:
    listed = found(
        buffer("theirs", provisioning_strategy="example.com/cold", replicas=5),
        buffer("going", replicas=5, deleted_at=NOW),
        buffer("ours", replicas=1),
    )
    assert list(listed) == ["ours"]


def test_the_oldest_buffer_is_granted_quota_first_and_the_next_what_is_left() -> None:
    listed = found(
        buffer("young", created_at=NOW - 10, replicas=4),
        buffer("old", created_at=NOW - 99, replicas=4),
        quotas=[quota(requests_cpu=6000, used={"requests.cpu": 1000})],
    )
    assert {name: (spare.count, spare.granted.limited_by) for name, spare in listed.items()} == {
        "old": (4, ""),
        "young": (1, "ResourceQuota team (requests.cpu)"),
    }


def test_a_quota_counts_pods_memory_and_limits_under_every_name() -> None:
    assert found(buffer(replicas=9), quotas=[quota(pods=3)])["spare"].count == 3
    assert found(buffer(replicas=9), quotas=[quota(memory=2 * 1024**3)])["spare"].count == 2
    assert (
        found(buffer(replicas=9), of=template(limits={"cpu": 2000}), quotas=[quota(limits_cpu=9000)])["spare"].count
        == 4
    )
    assert found(buffer(replicas=9), quotas=[quota(limits_cpu=9000)])["spare"].count == 0, (
        "pods without a limit are refused where limits are counted"
    )
    assert found(buffer(replicas=9), quotas=[quota(services=1)])["spare"].count == 9
    assert found(buffer(replicas=9), quotas=[quota(namespace="other", pods=1)])["spare"].count == 9


def test_a_quota_with_scopes_counts_only_pods_that_match() -> None:
    high = QuotaScope("PriorityClass", "In", ("high",))
    assert (
        found(buffer(replicas=5), of=template(priority_class="low"), quotas=[quota(pods=1, scopes=(high,))])[
            "spare"
        ].count
        == 5
    )
    assert (
        found(buffer(replicas=5), of=template(priority_class="high"), quotas=[quota(pods=1, scopes=(high,))])[
            "spare"
        ].count
        == 1
    )
    for name, count in (("BestEffort", 5), ("NotBestEffort", 1), ("Terminating", 5), ("NotTerminating", 1)):
        assert found(buffer(replicas=5), quotas=[quota(pods=1, scopes=(QuotaScope(name),))])["spare"].count == count, (
            name
        )


def test_a_buffer_of_a_missing_pool_says_so_and_a_plain_one_uses_the_default() -> None:
    assert found(buffer(replicas=1))["spare"].pools == ("default",)
    lost = found(buffer(replicas=1), of=template(of=shape(1, 512, pool="gone")))["spare"]
    assert (lost.pools, lost.problem) == ((), "NodePool gone does not exist")


def test_what_an_order_remembers_is_read_back_and_real_pods_are_not_taken_for_it() -> None:
    planned = ("default/web-1", planned_entry("team/spare", 12), "default/odd*name", planned_entry("a/b", 1))
    assert planned_entries(planned) == {"team/spare": 12, "a/b": 1}
