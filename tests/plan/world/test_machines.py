"""Machines are trusted, not labels: whose is a node?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from growth.model.labels import Labels
from growth.model.node import OFFERING_LABEL, POOL_LABEL, REQUEST_LABEL, STARTUP_TAINT, Node
from growth.model.noderequest import NodeRequest
from growth.model.offering import Machine
from growth.plan.world.machines import (
    Owner,
    is_node_of,
    machine_of,
    named_after_nodes,
    owner_of,
    strangers_on,
    why_strange,
)
from tests.plan.builders import machine, offering, request, world

SMALL = offering("small", 2, 4096, 0.01)
NAME = "default-pool-0123456789ab"
OURS = Owner("default", "sim-small")


def bought(name: str = NAME, **fields: Any) -> Machine:
    fields.setdefault("provider_id", "sim://id-" + name)
    return machine(name, SMALL, **fields)


def seen(name: str = NAME, labels: dict[str, str] | None = None, **fields: Any) -> Node:
    """A Node as it is read: nobody has said yet whose it is."""
    return Node(name, Labels(labels or {}), **fields)


def claims(name: str = NAME, pool: str = "default") -> dict[str, str]:
    return {POOL_LABEL: pool, OFFERING_LABEL: "sim-small", REQUEST_LABEL: name}


def owner(of_node: Node, machines: tuple[Machine, ...] = (), requests: tuple[NodeRequest, ...] = ()) -> Owner | None:
    return owner_of(of_node, {each.name: each for each in machines}, {each.name: each for each in requests})


def test_a_node_is_growths_by_its_machine_whatever_its_labels_say() -> None:
    for labels in ({}, claims(), {POOL_LABEL: "another"}, claims(pool="another")):
        assert owner(seen(labels=labels), (bought(),)) == OURS


def test_labels_alone_make_no_node_growths() -> None:
    assert owner(seen("control-1", claims("control-1"))) is None
    assert owner(seen(NAME, claims())) is None
    assert owner(seen("control-1", claims("control-1"), is_ready=False)) is None


def test_a_node_that_growth_never_got_to_register_is_growths_by_the_taint_it_booted_with_once_it_is_not_ready() -> None:
    booted = {POOL_LABEL: "default", OFFERING_LABEL: "sim-small"}
    left = seen(NAME, booted, is_ready=False, taints=(STARTUP_TAINT,))
    assert owner(left) == OURS
    assert owner(replace(left, is_ready=True)) is None
    assert owner(replace(left, taints=())) is None
    assert owner(seen("control-1", booted, is_ready=False, taints=(STARTUP_TAINT,))) is None


@pytest.mark.parametrize("provider_id", ["", f"sim://id-{NAME}", f"k3s://{NAME}", f"other:///zone/id-{NAME}"])
def test_a_provider_id_that_names_this_machine_or_none_takes_nothing_away(provider_id: str) -> None:
    assert owner(seen(provider_id=provider_id), (bought(),)) == OURS


@pytest.mark.parametrize("provider_id", ["sim://id-another", "hcloud://42", "aws:///eu-central-1a/i-0f00"])
def test_a_node_of_our_name_that_names_another_machine_is_a_stranger(provider_id: str) -> None:
    record = request(NAME, SMALL, "Ready", machine_id=f"id-{NAME}")
    assert owner(seen(labels=claims(), provider_id=provider_id), (bought(),), (record,)) is None
    assert owner(seen(labels=claims(), provider_id=provider_id), (), (record,)) is None


def test_a_forged_node_does_not_become_growths_by_the_provider_id_of_a_machine_of_ours() -> None:
    assert owner(seen("forged", claims("forged"), provider_id=f"sim://id-{NAME}"), (bought(),)) is None


@pytest.mark.parametrize("phase", ["Provisioning", "Ready"])
def test_our_record_of_a_machine_is_enough(phase: Any) -> None:
    assert owner(seen(), (), (request(NAME, SMALL, phase, machine_id=f"id-{NAME}"),)) == OURS


@pytest.mark.parametrize("phase", ["Pending", "Unmet"])
def test_a_stranger_with_the_name_of_a_request_without_a_machine_stays_a_stranger(phase: Any) -> None:
    assert owner(seen(labels=claims()), (), (request(NAME, SMALL, phase),)) is None
    assert owner(seen(labels=claims()), (bought(),), (request(NAME, SMALL, phase),)) == OURS


def test_what_is_left_of_a_machine_that_is_gone_can_be_given_back() -> None:
    assert owner(seen(labels=claims(), is_ready=False)) == OURS
    assert owner(seen(labels=claims(pool="other"), is_ready=False)) is None
    assert owner(seen(labels=claims(NAME), is_ready=True)) is None


def test_a_long_name_of_a_pool_is_read_off_the_label_that_agrees_with_the_machine() -> None:
    pool = "p" * 50
    name = f"{'p' * 40}-pool-0123456789ab"
    assert owner(seen(name, claims(name, pool)), (bought(name),)) == Owner(pool, "sim-small")


def test_where_nodes_choose_their_names_the_provider_id_finds_the_machine() -> None:
    found = bought("request-1", provider_id="capi://ns/m1", is_found_by_provider_id=True)
    real = seen("worker-a", provider_id="capi://ns/m1", created_at=5.0)
    copy = seen("worker-b", provider_id="capi://ns/m1", created_at=9.0)
    named = named_after_nodes({found.name: found}, {each.name: each for each in (copy, real)})
    assert list(named) == ["worker-a"]
    assert owner_of(real, named, {}) is not None
    assert owner_of(copy, named, {}) is None
    assert machine_of(real, named) == replace(found, name="worker-a")
    assert owner_of(seen("request-1"), {found.name: found}, {}) is None


def test_a_node_that_may_run_on_a_machine_of_ours_under_another_name_or_id_is_told_of() -> None:
    renamed, forged = seen("ip-10-0-0-1", provider_id=f"sim://id-{NAME}"), seen(NAME, provider_id="metal:///rack-7")
    listed = world(machines=[bought()])
    for node, why in (
        (renamed, f"its machine calls its node ip-10-0-0-1, and must call it {NAME}"),
        (forged, f"the node says that it is metal:///rack-7, and its machine is sim://id-{NAME}"),
    ):
        strange = replace(listed, nodes={node.name: node})
        assert (strangers_on(NAME, strange), why_strange(NAME, strange)) == ((node,), why)
    for node in (seen("ip-10-0-0-2", provider_id="sim://id-another"), seen("plain"), replace(forged, pool="default")):
        assert strangers_on(NAME, replace(listed, nodes={node.name: node})) == ()
    both = {"ip-10-0-0-1": renamed, NAME: replace(seen(), pool="default")}
    assert strangers_on(NAME, replace(listed, nodes=both)) == ()  # it has its node: whoever else says so is a liar


names = st.sampled_from([NAME, "forged", "control-1", "default-pool-ffffffffffff"])
provider_ids = st.sampled_from(["", "sim://x", f"sim://id-{NAME}", f"k3s://{NAME}", "sim://id-forged"])
labels = st.dictionaries(st.sampled_from([POOL_LABEL, OFFERING_LABEL, REQUEST_LABEL]), names, max_size=3)


@given(names, provider_ids, labels)
def test_no_label_changes_whose_a_ready_node_is(name: str, provider_id: str, some: dict[str, str]) -> None:
    machines = (bought(), bought("default-pool-ffffffffffff"))
    plain, labelled = seen(name, provider_id=provider_id), seen(name, some, provider_id=provider_id)
    assert (owner(plain, machines) is None) == (owner(labelled, machines) is None)
    assert owner(labelled, ()) is None
    assert (owner(labelled, machines) is not None) == any(is_node_of(labelled, each) for each in machines)
