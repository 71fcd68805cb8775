"""What the cluster must give growth: its namespace and its rights, asked in few requests and again and again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from growth.controllers.ask.premises import Installed, installed_by, needed_rights, why_not_rights
from growth.controllers.configuration import Configuration
from growth.controllers.health import Premises
from growth.kube.api.client import Client, Rule
from growth.sim.clock import run_virtual
from tests.controllers.ask.clinic import Clinic

HERE = Installed("kwok", "growth", "growth-system")


def looking(test: Callable[[Clinic, Premises], Awaitable[None]], installed: Installed = HERE) -> None:
    async def run() -> None:
        clinic = Clinic()
        await clinic.install()
        await test(clinic, Premises(Client(clinic, clinic.runtime), clinic.runtime, installed))

    run_virtual(run())


def test_where_all_is_well_few_requests_say_so() -> None:
    async def test(clinic: Clinic, premises: Premises) -> None:
        await premises.look()
        assert premises.missing == ()
        assert len(clinic.paths) == 3  # the namespace, and what may be done there and everywhere

    looking(test)


def test_what_the_list_of_rights_lacks_is_asked_for_before_it_is_said_to_be_denied() -> None:
    async def test(clinic: Clinic, premises: Premises) -> None:
        clinic.denied = {("delete", "nodes")}
        await premises.look()
        assert premises.missing == ("these credentials may not: delete nodes",)

    looking(test)


def test_an_api_server_that_does_not_answer_changes_nothing() -> None:
    async def test(clinic: Clinic, premises: Premises) -> None:
        clinic.denied = {("delete", "nodes")}
        await premises.look()
        clinic.is_down = True
        await premises.look()
        assert premises.missing == ("these credentials may not: delete nodes",)

    looking(test)


def test_without_an_election_neither_namespace_nor_lease_is_needed() -> None:
    async def test(clinic: Clinic, premises: Premises) -> None:
        clinic.denied = {("get", "leases"), ("create", "leases")}
        await premises.look()
        assert premises.missing == ()

    looking(test, Installed("kwok", "growth", "nowhere", elects=False))


def test_a_growth_that_only_observes_needs_no_right_to_change_anything_but_events_and_its_lease() -> None:
    needed = needed_rights(Installed("kwok", "growth", "growth-system", acts=False))
    changing = {words for words in needed if words.split()[0] not in ("get", "list", "watch")}
    assert {words.split()[1] for words in changing} == {"events.events.k8s.io", "leases.coordination.k8s.io"}


def test_a_lease_is_asked_for_by_its_name() -> None:
    """A role that allows one Lease only is enough."""
    needed = needed_rights(Installed("kwok", "mine", "here"))
    lease = {words: right.name for words, right in needed.items() if "leases" in words}
    assert lease == {
        "create leases.coordination.k8s.io in here": "",
        "get leases.coordination.k8s.io in here": "mine",
        "update leases.coordination.k8s.io in here": "mine",
    }
    rule = Rule(("get",), ("coordination.k8s.io",), ("leases",), ("mine",))
    assert rule.covers("get", "coordination.k8s.io", "leases", "mine")
    assert not rule.covers("get", "coordination.k8s.io", "leases", "another")
    assert not rule.covers("get", "coordination.k8s.io", "leases")


def test_many_rights_are_counted() -> None:
    assert why_not_rights([f"get {number}" for number in range(10)]).endswith("get 7 and 2 more")
    assert why_not_rights([]) == ""


def test_a_rule_covers_what_it_names_and_stars_cover_all() -> None:
    rule = Rule(("get", "list"), ("", "apps"), ("pods", "pods/eviction"))
    assert rule.covers("list", "", "pods/eviction")
    assert not rule.covers("list", "", "nodes")
    assert not rule.covers("watch", "", "pods")
    assert not rule.covers("get", "batch", "pods")
    assert Rule(("*",), ("*",), ("*",)).covers("get", "batch", "jobs")
    assert not Rule(("get",), ("",), ("pods",), ("only-this",)).covers("get", "", "pods")


def test_settings_say_what_is_asked_of_the_cluster() -> None:
    assert installed_by(Configuration()) == HERE
    assert installed_by(Configuration(observe=True, leader_election=False)) == Installed(
        "kwok", "growth", "growth-system", elects=False, acts=False
    )
