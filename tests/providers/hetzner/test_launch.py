"""What is asked of Hetzner for an order: image, networks, firewalls, keys, addresses, placement groups, labels and user
data.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.model.labels import Labels
from growth.model.node import Taint
from growth.model.outcome import Accepted, Refused, TryLater
from growth.providers.hetzner.errors import Unusable
from growth.providers.hetzner.settings import Launch
from growth.providers.hetzner.userdata import fingerprint, kubelet_may_set, render, user_data_for
from growth.providers.hetzner.wire import label_value
from growth.sim.cloud.hetzner import embedded
from tests.providers.hetzner.worlds import CLUSTER, JOIN_TOKEN, Bench, at_hetzner, launch_with, order

EVERYTHING = Launch(
    networks=("kube",), firewalls=("38",), ssh_keys=("ops",), public_ipv4=False, labels={"team": "infra"}
)


def test_names_become_ids_and_everything_is_attached() -> None:
    async def test(bench: Bench) -> None:
        server = bench.server(await bench.provider.launch(order()))
        assert (server.networks, server.firewalls, server.ipv4, server.ipv6, server.image.id) == (
            (7001,),
            (38,),
            False,
            True,
            161,
        )
        assert server.labels == {
            "team": "infra",
            "growth.dev/cluster": CLUSTER,
            "growth.dev/request-uid": order().request_uid,
            "growth.dev/pool": "default",
        }
        asked = bench.requests()
        await bench.provider.launch(order("default-pool-2", "uid-2"))
        assert bench.requests("GET", "/networks") == bench.requests("GET", "/images") == 1
        assert bench.requests("POST") == 2
        assert asked < bench.requests()

    at_hetzner(test, EVERYTHING)


def test_the_image_is_of_the_machines_architecture() -> None:
    async def test(bench: Bench) -> None:
        assert bench.server(await bench.provider.launch(order(offering="hetzner-cax11"))).image.id == 162

    at_hetzner(test)


def test_the_newest_snapshot_with_the_labels_is_taken_and_a_missing_one_is_told() -> None:
    async def test(bench: Bench) -> None:
        assert bench.server(await bench.provider.launch(order())).image.id == 902
        assert await bench.provider.launch(order("default-pool-2", "uid-2", offering="hetzner-cax11")) == Refused(
            "there is no snapshot with labels role=worker for arm64"
        )

    at_hetzner(test, Launch(image_selector="role=worker"))


@pytest.mark.parametrize(("launch", "why"), [
    (Launch(image="plan9"), "there is no image plan9 for amd64"),
    (Launch(networks=("nowhere",)), "there is no network nowhere in this project"),
    (Launch(firewalls=("99",)), "there is no firewall 99 in this project"),
    (Launch(ssh_keys=("nobody",)), "there is no SSH key nobody in this project"),
    (Launch(public_ipv4=False, public_ipv6=False),
     "a server needs a public address or a network: set publicIpv4, publicIpv6 or networks"),
    (Launch(user_data_file="/nowhere/user-data"), "user data file /nowhere/user-data: No such file or directory"),
])  # fmt: skip
def test_settings_that_mean_nothing_refuse_the_order_in_words(launch: Launch, why: str) -> None:
    async def test(bench: Bench) -> None:
        assert await bench.provider.launch(order()) == Refused(why)
        assert bench.requests("POST") == 0

    at_hetzner(test, launch)


def test_a_pools_profile_is_used_and_a_missing_one_is_told() -> None:
    async def test(bench: Bench) -> None:
        assert bench.server(await bench.provider.launch(order(settings="private"))).networks == (7001,)
        refused = await bench.provider.launch(order("default-pool-2", "uid-2", settings="public"))
        assert isinstance(refused, Refused)
        assert "public" in refused.reason

    at_hetzner(test, profiles={"private": Launch(networks=("kube",))})


def test_an_unknown_type_or_location_is_refused_without_asking() -> None:
    async def test(bench: Bench) -> None:
        assert await bench.provider.launch(order(offering="hetzner-gex44")) == Refused(
            "Hetzner does not sell hetzner-gex44 in fsn1"
        )

    at_hetzner(test)


def test_placement_groups_hold_ten_are_made_on_demand_and_used_again() -> None:
    async def test(bench: Bench) -> None:
        servers = [
            bench.server(await bench.provider.launch(order(f"default-pool-{number}", f"uid-{number}")))
            for number in range(12)
        ]
        groups = [server.group for server in servers]
        assert len(bench.project.groups) == 2
        assert [groups.count(group) for group in bench.project.groups] == [10, 2]
        for server in servers[:10]:
            await bench.provider.delete(str(server.id))
        await bench.runtime.sleep(61)
        assert bench.server(await bench.new_provider().launch(order("default-pool-99", "uid-99"))).group == groups[0]
        assert len(bench.project.groups) == 2

    at_hetzner(test, Launch(spread=True))


def test_a_place_in_a_group_is_given_back_when_the_order_fails() -> None:
    async def test(bench: Bench) -> None:
        bench.project.stock = {("cx33", "fsn1"): 0}
        for number in range(12):
            assert not isinstance(
                await bench.provider.launch(order(f"default-pool-{number}", f"uid-{number}")), Accepted
            )
        assert len(bench.project.groups) == 1

    at_hetzner(test, Launch(spread=True))


def test_an_order_that_took_long_to_prepare_is_not_sent_but_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(bench: Bench) -> None:
        monkeypatch.setattr(embedded, "CALL_SECONDS", (3.0, 3.0))
        assert isinstance(await bench.provider.launch(order()), TryLater)
        assert bench.requests("POST") == 0
        assert isinstance(await bench.provider.launch(order()), Accepted)

    at_hetzner(test)


# ---------------------------------------------------------------------------------------- user data


def test_the_template_is_filled_in_with_the_facts_of_the_order(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        wanted = order(
            labels=Labels({"growth.dev/pool": "default", "node-role.kubernetes.io/worker": ""}),
            taints=(Taint("a", "b"),),
        )
        read = json.loads(bench.server(await bench.provider.launch(wanted)).user_data)
        assert read == {
            "labels": {"growth.dev/pool": "default"},
            "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
            "secret": JOIN_TOKEN,
        }

    at_hetzner(test, launch_with(tmp_path))


def test_user_data_over_32_kib_when_filled_in_is_refused_with_both_numbers(tmp_path: Path) -> None:
    launch = launch_with(tmp_path, "#cloud-config\n" + "x" * (32 * 1024 - 20) + "{{ growth.name }}")
    with pytest.raises(Unusable, match="the user data is 32787 bytes when filled in, Hetzner takes at most 32768"):
        user_data_for(order(), launch, "amd64")


def test_what_is_not_ours_in_a_template_stays_as_it_is() -> None:
    template = "## template: jinja\n{{ v1.local_hostname }} ${HOME} {% if x %} {{growth.name}}"
    assert render(template, {"name": "n"}) == "## template: jinja\n{{ v1.local_hostname }} ${HOME} {% if x %} n"


def test_a_placeholder_that_means_nothing_is_told_by_name() -> None:
    with pytest.raises(Unusable, match=r"growth\.join_token, which there is not; set joinTokenFile"):
        render("{{ growth.join_token }}", {"name": "n"})


@pytest.mark.parametrize(("key", "may"), [
    ("growth.dev/pool", True),
    ("team", True),
    ("kubernetes.io/arch", True),
    ("node.kubernetes.io/instance-type", True),
    ("x.node.kubernetes.io/y", True),
    ("node-role.kubernetes.io/worker", False),
    ("node-restriction.kubernetes.io/a", False),
    ("k8s.io/b", False),
])  # fmt: skip
def test_labels_that_a_kubelet_may_not_give_itself_are_left_to_growth(key: str, may: bool) -> None:
    assert kubelet_may_set(key) is may


@given(st.text(max_size=100))
def test_every_name_becomes_a_label_value_that_hetzner_takes(text: str) -> None:
    value = label_value(text)
    assert len(value) <= 63
    assert value == "" or (value[0].isalnum() and value[-1].isalnum() and value.isascii())


def test_a_cluster_id_of_full_length_is_its_own_label_value() -> None:
    cluster = f"0b9a4c1e-3f52-4d7a-9a0e-5d0b8a8f7c11-{'g' * 26}"
    assert label_value(cluster) == cluster
    assert label_value(cluster + "x") != cluster + "x"


def test_a_cluster_id_that_had_to_be_shortened_is_found_again_under_its_own_name() -> None:
    async def test(bench: Bench) -> None:
        cluster = "a cluster id that no label could ever hold, because it is longer than sixty-three characters"
        await bench.provider.launch(order(cluster=cluster))
        [machine] = await bench.provider.list(cluster)
        assert machine.cluster == cluster

    at_hetzner(test)


# ----------------------------------------------------------------- whether credentials have changed


@pytest.mark.parametrize("changed", ["token", "user-data", "join-token"])
def test_a_change_of_any_secret_changes_the_fingerprint_and_it_tells_nothing(tmp_path: Path, changed: str) -> None:
    for name in ("token", "user-data", "join-token"):
        (tmp_path / name).write_text(f"secret {name}")
    launch = Launch(user_data_file=str(tmp_path / "user-data"), join_token_file=str(tmp_path / "join-token"))
    before = fingerprint(str(tmp_path / "token"), launch)
    assert before == fingerprint(str(tmp_path / "token"), launch)
    (tmp_path / changed).write_text("another secret")
    after = fingerprint(str(tmp_path / "token"), launch)
    assert before != after
    assert all(len(each) == 12 and "secret" not in each for each in (before, after))


def test_a_file_that_cannot_be_read_has_no_fingerprint(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="token file"):
        fingerprint(str(tmp_path / "token"), Launch())


def test_each_profile_has_its_own() -> None:
    async def test(bench: Bench) -> None:
        found = bench.provider.credentials()
        assert set(found) == {"", *bench.settings.profiles}

    at_hetzner(test)
