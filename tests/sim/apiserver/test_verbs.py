"""The embedded API server answers growth's own client as a real one does: create, read, update, delete."""

from __future__ import annotations

import msgspec
import pytest

from growth.kube.api.errors import AlreadyExists, BadRequest, Conflict, Invalid, NotFound
from growth.kube.api.resources import DEPLOYMENTS, LEASES, NODE_POOLS, NODES, PODS
from growth.sim.apiserver.objects import deployment, node, node_pool, pod
from tests.sim.embedded import Bench, on_api_server


def test_a_created_object_has_identity_and_version() -> None:
    async def test(bench: Bench) -> None:
        created = msgspec.json.decode(await bench.client.create(PODS, pod("a")))
        metadata = created["metadata"]
        assert len(metadata["uid"]) == 36
        assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
        assert metadata["resourceVersion"] == str(bench.api.store.version)
        assert created["status"]["phase"] == "Pending"
        with pytest.raises(AlreadyExists):
            await bench.client.create(PODS, pod("a"))

    on_api_server(test)


def test_generate_name_makes_distinct_names() -> None:
    async def test(bench: Bench) -> None:
        item = pod("x")
        item["metadata"] = {"generateName": "web-", "namespace": "default"}
        names = {msgspec.json.decode(await bench.client.create(PODS, item))["metadata"]["name"] for _ in range(20)}
        assert len(names) == 20
        assert all(name.startswith("web-") and len(name) == 9 for name in names)

    on_api_server(test)


def test_a_pod_tolerates_not_ready_and_unreachable_nodes_for_300_seconds() -> None:
    async def test(bench: Bench) -> None:
        created = msgspec.json.decode(await bench.client.create(PODS, pod("a")))
        bounds = {toleration["key"]: toleration["tolerationSeconds"] for toleration in created["spec"]["tolerations"]}
        assert bounds == {"node.kubernetes.io/not-ready": 300, "node.kubernetes.io/unreachable": 300}

    on_api_server(test)


def test_a_pod_that_tolerates_everything_gets_no_more_tolerations() -> None:
    async def test(bench: Bench) -> None:
        created = msgspec.json.decode(await bench.client.create(PODS, pod("a", tolerations=[{"operator": "Exists"}])))
        assert created["spec"]["tolerations"] == [{"operator": "Exists"}]

    on_api_server(test)


def test_an_update_on_an_old_version_is_a_conflict() -> None:
    async def test(bench: Bench) -> None:
        first = msgspec.json.decode(await bench.client.create(NODES, node("n")))
        await bench.client.merge_patch(NODES, "n", {"metadata": {"labels": {"a": "b"}}})
        with pytest.raises(Conflict, match="the object has been modified"):
            await bench.client.replace(NODES, first)
        with pytest.raises(Conflict):
            await bench.client.merge_patch(
                NODES,
                "n",
                {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"], "labels": {"a": "c"}}},
            )

    on_api_server(test)


def test_a_write_that_changes_nothing_makes_no_version() -> None:
    async def test(bench: Bench) -> None:
        await bench.client.create(NODES, node("n"))
        await bench.client.merge_patch(NODES, "n", {"metadata": {"labels": {"a": "b"}}})
        before = bench.api.store.version
        await bench.client.merge_patch(NODES, "n", {"metadata": {"labels": {"a": "b"}}})
        assert bench.api.store.version == before

    on_api_server(test)


def test_spec_and_status_are_written_apart() -> None:
    async def test(bench: Bench) -> None:
        item = {**node_pool("default", "CX33"), "status": {"nodes": 7}}
        created = msgspec.json.decode(await bench.client.create(NODE_POOLS, item))
        assert "status" not in created
        assert created["metadata"]["generation"] == 1
        await bench.client.merge_patch(
            NODE_POOLS, "default", {"spec": {"priority": 5}, "status": {"nodes": 3}}, subresource="status"
        )
        after = await bench.read(NODE_POOLS, "default")
        assert (after["status"]["nodes"], after["spec"]["priority"], after["metadata"]["generation"]) == (3, 0, 1)
        await bench.client.merge_patch(NODE_POOLS, "default", {"spec": {"priority": 5}, "status": {"nodes": 9}})
        after = await bench.read(NODE_POOLS, "default")
        assert (after["status"]["nodes"], after["spec"]["priority"], after["metadata"]["generation"]) == (3, 5, 2)

    on_api_server(test)


def test_a_finalizer_holds_a_deleted_object_until_it_is_taken_off() -> None:
    async def test(bench: Bench) -> None:
        item = node_pool("default", "CX33")
        item["metadata"]["finalizers"] = ["growth.dev/machine"]
        await bench.client.create(NODE_POOLS, item)
        await bench.client.delete(NODE_POOLS, "default")
        held = await bench.read(NODE_POOLS, "default")
        assert held["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
        await bench.client.merge_patch(NODE_POOLS, "default", {"metadata": {"finalizers": None}})
        with pytest.raises(NotFound):
            await bench.read(NODE_POOLS, "default")

    on_api_server(test)


def test_delete_preconditions_name_one_version_of_one_object() -> None:
    async def test(bench: Bench) -> None:
        created = msgspec.json.decode(await bench.client.create(NODES, node("n")))
        with pytest.raises(Conflict, match="UID in precondition"):
            await bench.client.delete(NODES, "n", uid="another")
        with pytest.raises(Conflict, match="ResourceVersion in precondition"):
            await bench.client.delete(NODES, "n", version="1")
        await bench.client.delete(
            NODES, "n", uid=created["metadata"]["uid"], version=created["metadata"]["resourceVersion"]
        )
        with pytest.raises(NotFound):
            await bench.client.delete(NODES, "n")

    on_api_server(test)


def test_an_unbound_pod_goes_at_once_and_a_bound_one_after_its_grace() -> None:
    async def test(bench: Bench) -> None:
        for name in ("free", "bound"):
            await bench.client.create(PODS, pod(name))
        await bench.client.bind("bound", "default", "somewhere")
        for name in ("free", "bound"):
            await bench.client.delete(PODS, name, "default")
        with pytest.raises(NotFound):
            await bench.read(PODS, "free", "default")
        assert (await bench.read(PODS, "bound", "default"))["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"

    on_api_server(test)


def test_a_lease_cannot_be_replaced_without_its_version() -> None:
    async def test(bench: Bench) -> None:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "growth", "namespace": "default"},
            "spec": {},
        }
        await bench.client.create(LEASES, lease)
        with pytest.raises(Invalid, match="resourceVersion"):
            await bench.client.replace(LEASES, lease)

    on_api_server(test)


def test_a_users_pod_spec_cannot_be_changed() -> None:
    async def test(bench: Bench) -> None:
        await bench.client.create(PODS, pod("a"))
        with pytest.raises(Invalid, match="nodeName"):
            await bench.client.merge_patch(PODS, "a", {"spec": {"nodeName": "n"}}, "default")

    on_api_server(test)


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (pod("a", cpu="much"), "cpu"),
        (pod("a", cpu="-1"), "cpu"),
        (pod("a", labels={"app": "x" * 300}), "labels"),
        (pod("a", tolerations=[{"key": "a", "operator": "Perhaps"}]), "tolerations"),
        (pod("A B"), "metadata.name"),
        ({**pod("a"), "spec": {}}, "spec.containers"),
    ],
)
def test_malformed_pods_are_refused_with_the_field(item: dict[str, object], field: str) -> None:
    async def test(bench: Bench) -> None:
        with pytest.raises(Invalid, match=field.replace(".", r"\.")):
            await bench.client.create(PODS, item)

    on_api_server(test)


def test_objects_need_their_namespace() -> None:
    async def test(bench: Bench) -> None:
        with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
            await bench.client.create(DEPLOYMENTS, deployment("web", 1, namespace="nowhere"))
        with pytest.raises(BadRequest):
            await bench.client.create(
                PODS, pod("a") | {"metadata": {"name": "a", "namespace": "default", "resourceVersion": "7"}}
            )

    on_api_server(test)


def test_the_server_tells_what_it_serves() -> None:
    async def test(bench: Bench) -> None:
        assert await bench.client.server_version() == "v1.36.3"
        assert {"nodepools", "noderequests", "noderemovalrequests"} <= {
            one.name for one in await bench.client.served("growth.dev", "v1alpha1")
        }
        with pytest.raises(NotFound):
            await bench.client.served("example.com", "v1")

    on_api_server(test)
