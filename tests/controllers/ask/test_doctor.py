"""The doctor finds what would keep growth from working, and says what to do about it."""

from __future__ import annotations

import pytest

from growth.controllers.ask.doctor import Finding
from growth.controllers.ask.hetzner_check import examine_join_tokens
from growth.kube.api.client import Client
from growth.kube.crds import KINDS, definitions
from growth.model.instant import format_precise_instant
from growth.model.nodepool import PoolLimits
from growth.model.scheduler import SchedulerSettings
from growth.model.settings import Settings
from growth.providers.contract import Provider, ProviderError
from growth.providers.registry import open_provider
from growth.runtime import Runtime
from growth.sim.clock import run_virtual
from tests.controllers.ask.clinic import Clinic, Json, examined, pool


def about(check: str, findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.check == check]


def only(check: str, findings: list[Finding]) -> Finding:
    (found,) = about(check, findings)
    return found


def refusal(code: int, reason: str) -> tuple[int, Json]:
    return code, {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no"}


def test_a_healthy_cluster_has_nothing_to_complain_about() -> None:
    findings = examined()
    assert [finding.state for finding in findings] == ["ok"] * (7 + len(KINDS))
    assert [finding.what for finding in findings if finding.check in ("API server", "provider", "pools")] == [
        "it answers, version v1.36.3",
        "kwok offers 8 server types in 3 locations; 0 machines are ours",
        "default can buy 3 offerings",
    ]


@pytest.mark.parametrize(("items", "state"), [([], "ok"), (["vm-1"], "warning"), ([""], "ok")])
def test_where_growth_stands_in_for_kube_scheduler_it_is_told_whether_that_is_there(
    items: list[str], state: str
) -> None:
    def hold(clinic: Clinic) -> None:
        renewed = format_precise_instant(clinic.runtime.now())
        leases = [{"spec": {"holderIdentity": each, "renewTime": renewed}} for each in items]
        clinic.answers["/namespaces/kube-system/leases"] = (
            200,
            {"metadata": {"resourceVersion": "1"}, "items": leases},
        )

    settings = Settings(scheduler=SchedulerSettings(enabled=True, serves_default=True))
    assert only("scheduler", examined(hold, settings=settings)).state == state


def test_an_api_server_that_does_not_answer_is_all_there_is_to_say() -> None:
    def cut(clinic: Clinic) -> None:
        clinic.is_down = True

    finding = only("API server", examined(cut))
    assert finding.state == "failed"
    assert "no connection to https://127.0.0.1:1" in finding.what
    assert "kubeconfig" in finding.advice
    assert len(examined(cut)) == 1


@pytest.mark.parametrize(("code", "advice"), [(401, "credentials"), (403, "growth role")])
def test_an_api_server_that_refuses_has_answered_and_the_advice_is_about_that(code: int, advice: str) -> None:
    finding = only("API server", examined(lambda clinic: clinic.answers.update({"/version": (code, {})})))
    assert finding.what.startswith("it refuses: ")
    assert advice in finding.advice


def test_an_old_api_server_is_a_warning_and_the_rest_is_still_checked() -> None:
    def age(clinic: Clinic) -> None:
        clinic.answers["/version"] = (200, {"gitVersion": "v1.27.4+k3s1"})

    findings = examined(age)
    assert only("API server", findings).state == "warning"
    assert "v1.27.4+k3s1" in only("API server", findings).what
    assert only("rights", findings).state == "ok"


@pytest.mark.parametrize(
    ("ahead_seconds", "state"), [(0.0, "ok"), (29.0, "ok"), (-29.0, "ok"), (40.0, "failed"), (-3600.0, "failed")]
)
def test_a_clock_that_is_far_away_from_the_api_servers_fails(ahead_seconds: float, state: str) -> None:
    def turn(clinic: Clinic) -> None:
        clinic.ahead_seconds = ahead_seconds

    assert only("clock", examined(turn)).state == state


def test_an_api_server_without_a_date_leaves_the_clock_unknown() -> None:
    def hide(clinic: Clinic) -> None:
        clinic.tells_time = False

    assert only("clock", examined(hide)).state == "warning"


def test_missing_kinds_are_named_with_the_command_that_installs_them() -> None:
    def remove(clinic: Clinic) -> None:
        clinic.answers["/growth.dev/v1alpha1"] = refusal(404, "NotFound")
        clinic.answers["/nodepools"] = refusal(404, "NotFound")

    findings = examined(remove)
    assert [finding.state for finding in about("kinds", findings)] == ["failed"] * len(KINDS)
    assert "nodepools.growth.dev is not served in v1alpha1" in about("kinds", findings)[0].what
    assert "growth crds | kubectl apply" in about("kinds", findings)[0].advice
    assert only("pools", findings).state == "failed"  # it could not be checked, and says so


def test_a_kind_of_another_version_of_growth_is_found_by_its_schema() -> None:
    def change(clinic: Clinic) -> None:
        older = next(each for each in definitions() if each["spec"]["names"]["plural"] == "nodepools")
        del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["priority"]
        clinic.answers["/nodepools.growth.dev"] = (200, older)

    finding = next(finding for finding in about("kinds", examined(change)) if finding.state == "failed")
    assert "nodepools.growth.dev is not the one this growth knows" in finding.what
    assert "properties.spec.properties.priority differs" in finding.what


def test_a_field_that_this_growth_does_not_know_is_a_difference_too() -> None:
    def change(clinic: Clinic) -> None:
        newer = next(each for each in definitions() if each["spec"]["names"]["plural"] == "noderequests")
        newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["colour"] = {
            "type": "string"
        }
        clinic.answers["/noderequests.growth.dev"] = (200, newer)

    assert ["colour" in finding.what for finding in about("kinds", examined(change)) if finding.state == "failed"] == [
        True
    ]


def test_under_the_least_role_kinds_are_known_by_discovery_alone() -> None:
    def forbid(clinic: Clinic) -> None:
        for definition in definitions():
            clinic.answers[f"/{definition['metadata']['name']}"] = refusal(403, "Forbidden")

    kinds = about("kinds", examined(forbid))
    assert [finding.state for finding in kinds] == ["ok"] * len(KINDS)
    assert all("was not compared" in finding.what for finding in kinds)


def test_every_right_that_is_denied_is_named() -> None:
    def deny(clinic: Clinic) -> None:
        clinic.denied = {("create", "pods/binding"), ("patch", "nodes"), ("update", "leases")}

    finding = only("rights", examined(deny))
    assert finding.state == "failed"
    for words in ("create pods/binding", "patch nodes", "update leases.coordination.k8s.io in growth-system"):
        assert words in finding.what
    assert "growth role --provider kwok --namespace growth-system | kubectl apply -f -" in finding.advice


def test_rights_that_only_another_provider_needs_are_not_asked_for() -> None:
    def deny(clinic: Clinic) -> None:
        clinic.denied = {("create", "nodes")}

    assert only("rights", examined(deny)).state == "failed"
    assert only("rights", examined(deny, name="hetzner")).state == "ok"


def test_the_right_to_mint_join_tokens_is_asked_for_where_they_are_minted() -> None:
    def deny(clinic: Clinic) -> None:
        clinic.denied = {("create", "secrets")}

    assert only("rights", examined(deny)).state == "ok"
    finding = only("rights", examined(deny, mints=True))
    assert (finding.state, "create secrets in kube-system" in finding.what, "--settings FILE" in finding.advice) == (
        "failed",
        True,
        True,
    )


def test_a_namespace_that_is_missing_or_going_is_a_finding_with_the_command_that_makes_it() -> None:
    def remove(clinic: Clinic) -> None:
        clinic.answers["/namespaces/growth-system"] = refusal(404, "NotFound")

    def delete(clinic: Clinic) -> None:
        metadata = {"name": "growth-system", "deletionTimestamp": "2026-01-01T00:00:00Z"}
        clinic.answers["/namespaces/growth-system"] = (200, {"metadata": metadata})

    finding = only("namespace", examined(remove))
    assert finding.state == "failed"
    assert "growth-system does not exist" in finding.what
    assert "kubectl create namespace growth-system" in finding.advice
    assert "is being deleted" in only("namespace", examined(delete)).what


def test_who_leads_is_told_and_a_lease_that_cannot_be_read_is_a_finding() -> None:
    lease = "/leases/growth"

    def hold(clinic: Clinic) -> None:
        held = {"holderIdentity": "vm-1", "renewTime": "2026-01-01T00:00:00.000000Z"}
        clinic.answers[lease] = (200, {"metadata": {}, "spec": held})

    def refuse(clinic: Clinic) -> None:
        clinic.answers[lease] = refusal(403, "Forbidden")

    assert only("leadership", examined()).what == "nobody leads: there is no Lease yet"
    assert "is held by vm-1, last renewed 2026-01-01" in only("leadership", examined(hold)).what
    assert only("leadership", examined(refuse)).state == "failed"


class Silent:
    """A provider that never answers."""

    name = "silent"

    async def offerings(self) -> tuple[()]:
        raise ProviderError("401: the token is not valid")


def silent(_client: Client, _runtime: Runtime) -> Provider:
    return Silent()  # type: ignore[return-value]  # the rest of the contract is never reached


def test_a_provider_that_does_not_answer_fails_and_pools_are_not_judged() -> None:
    findings = examined(provider=silent, name="silent")
    assert only("provider", findings).state == "failed"
    assert "the token is not valid" in only("provider", findings).what
    assert only("pools", findings) == Finding("pools", "warning", "default was not compared: the catalogue is unknown")


def test_a_catalogue_that_cannot_be_read_is_the_providers_failure() -> None:
    def broken(client: Client, runtime: Runtime) -> Provider:
        return open_provider("kwok", client, runtime, "/nowhere/catalogue.yaml")

    assert "/nowhere/catalogue.yaml" in only("provider", examined(provider=broken)).what


def test_without_a_pool_nothing_will_be_bought() -> None:
    finding = only("pools", examined(pools=()))
    assert (finding.state, finding.what) == ("warning", "there is no NodePool")


def test_a_pool_with_an_unknown_type_works_without_it_and_one_with_nothing_else_fails() -> None:
    pools = (
        pool("mixed", "cax11", "GEX99"),
        pool("lost", "GEX99"),
        pool("far", "CAX11", locations=["mars"]),
        pool("apart", "GEX44", locations=["hel1"]),
    )
    found = {finding.what.split()[0]: finding for finding in about("pools", examined(pools=pools))}
    assert {name: finding.state for name, finding in found.items()} == {
        "mixed": "warning",
        "lost": "failed",
        "far": "failed",
        "apart": "failed",
    }
    assert "unknown server type GEX99" in found["mixed"].what
    assert "unknown server type GEX99" in found["lost"].what
    assert "unknown location mars" in found["far"].what
    assert "none of its server types is sold in its locations" in found["apart"].what
    assert "kubectl edit nodepool lost" in found["lost"].advice


def test_a_pool_that_cannot_be_read_is_named_and_the_others_are_judged() -> None:
    def break_one(clinic: Clinic) -> None:
        broken = {**pool("broken"), "spec": {"serverTypes": "CAX11"}}
        clinic.answers["/nodepools"] = (200, {"metadata": {"resourceVersion": "1"}, "items": [broken, pool("whole")]})

    findings = about("pools", examined(break_one))
    assert [(finding.state, finding.what.startswith("NodePool broken")) for finding in findings] == [
        ("failed", True),
        ("ok", False),
    ]


@pytest.mark.parametrize(
    ("path", "check"),
    [("/namespaces/kube-system", "provider"), ("/nodepools", "pools"), ("/growth.dev/v1alpha1", "kinds")],
)
@pytest.mark.parametrize("answer", [refusal(403, "Forbidden"), refusal(500, "InternalError")])
def test_a_check_that_cannot_be_made_fails_and_does_not_stop_the_others(
    path: str, check: str, answer: tuple[int, Json]
) -> None:
    def break_one(clinic: Clinic) -> None:
        clinic.answers[path] = answer

    findings = examined(break_one)
    assert "could not be checked" in only(check, findings).what
    assert {finding.check for finding in findings if finding.state == "failed"} == {check}


@pytest.mark.parametrize(("denied", "state"), [({("delete", "secrets")}, "failed"), (set(), "ok")])
def test_the_check_of_hetzner_says_whether_join_tokens_may_be_minted(denied: set[tuple[str, str]], state: str) -> None:
    async def examine() -> Finding:
        clinic = Clinic()
        clinic.denied = denied
        return await examine_join_tokens(Client(clinic, clinic.runtime))

    finding = run_virtual(examine())
    assert (finding.state, "delete secrets in kube-system" in finding.what) == (state, state == "failed")


def test_where_machines_cost_money_a_missing_limit_of_price_is_a_warning_with_the_number_that_holds() -> None:
    finding = only("limits", examined(name="hetzner"))
    assert finding.state == "warning"
    assert "may cost 5 per hour" in finding.what
    assert about("limits", examined()) == []  # played machines are free
    said = Settings(limits=PoolLimits(price_per_hour="12"))
    assert only("limits", examined(name="hetzner", settings=said)).what == "all pools together may cost 12 per hour"
    assert about("limits", examined(name="hetzner", settings=Settings(machines_cost_money=False))) == []
