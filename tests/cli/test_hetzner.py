"""`growth hetzner check`, over HTTP against the fake: says what is wrong in words, what pools cost, and only asks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from growth.cli.app import main
from growth.sim.cloud.hetzner.api import FakeApi
from growth.sim.cloud.hetzner.project import Project
from tests.fakes.hetzner.server import FakeServing, serving

TOKEN = "Tk7mZq2wXc9vBn4LpR8sYd1fGh6jKa3uEo5iWtQxCzVbNmMlPkOjHgFdSaQwErTy"
POOLS = """
apiVersion: growth.dev/v1alpha1
kind: NodePool
metadata: {name: default}
spec:
  locations: [fsn1, hel1]
  serverTypes: [{name: CX33, min: 1, max: 10}, {name: CX31}, {name: CAX21, max: 2}]
---
apiVersion: growth.dev/v1alpha1
kind: NodePool
metadata: {name: open}
spec: {serverTypes: [{name: CX43}]}
---
apiVersion: growth.dev/v1alpha1
kind: NodePool
metadata: {name: gone}
spec: {serverTypes: [{name: GEX44}]}
---
apiVersion: growth.dev/v1alpha1
kind: NodePool
metadata: {name: other}
spec: {serverTypes: [{name: CX33, max: 1}], providerSettings: nowhere}
"""


@pytest.fixture
def fake() -> Iterator[FakeServing]:
    with serving(FakeApi(Project(time.time), TOKEN)) as running:
        yield running


def findings(
    fake: FakeServing, folder: Path, capsys: pytest.CaptureFixture[str], **launch: Any
) -> tuple[int, list[dict[str, str]]]:
    (folder / "token").write_text(launch.pop("token", TOKEN))
    (folder / "pools.yaml").write_text(POOLS)
    (folder / "user-data").write_text("#cloud-config\nhostname: {{ growth.name }}\n")
    tokens = launch.pop("joinTokens", {})
    hetzner = {
        "tokenFile": str(folder / "token"),
        "endpoint": fake.endpoint,
        "launch": {"userDataFile": str(folder / "user-data"), **launch},
    }
    (folder / "growth.yaml").write_text(
        yaml.safe_dump({"provider": "hetzner", "hetzner": hetzner, "joinTokens": tokens})
    )
    code = main(
        [
            "hetzner",
            "check",
            "--settings",
            str(folder / "growth.yaml"),
            "--pools",
            str(folder / "pools.yaml"),
            "--output",
            "json",
        ]
    )
    return code, json.loads(capsys.readouterr().out)


def what(found: list[dict[str, str]], check: str, state: str) -> list[str]:
    return [one["what"] for one in found if (one["check"], one["state"]) == (check, state)]


def test_every_pool_is_told_its_price_at_min_and_max_and_nothing_is_changed(
    fake: FakeServing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = findings(fake, tmp_path, capsys, networks=["kube"], sshKeys=["ops"])
    assert code == 1
    assert what(found, "token", "ok") == ["Hetzner accepts the token"]
    [partly] = what(found, "pools", "warning")
    assert partly.startswith(
        "default works without: unknown server type CX31; costs 0.0088 EUR an hour (6.42 a month at most) at min, "
    )
    [unbounded] = what(found, "pools", "ok")
    assert "without bound at max: set max or limits.pricePerHour" in unbounded
    assert [text.partition(":")[0] for text in what(found, "pools", "failed")] == [
        "gone can buy nothing", "other asks for the profile nowhere, which is not in hetzner.profiles"]  # fmt: skip
    assert {one.method for one in fake.api.log} == {"GET"}


def test_names_that_mean_nothing_in_the_project_are_told(
    fake: FakeServing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = findings(
        fake, tmp_path, capsys, networks=["nowhere"], firewalls=["none"], sshKeys=["nobody"], image="plan9"
    )
    failed = [one["what"] for one in found if one["state"] == "failed" and one["check"] != "pools"]
    assert failed == [
        "launch: an image for amd64: there is no image plan9 for amd64",
        "launch: an image for arm64: there is no image plan9 for arm64",
        "launch: 1 network: there is no network nowhere in this project",
        "launch: 1 firewall: there is no firewall none in this project",
        "launch: 1 SSH key: there is no SSH key nobody in this project",
    ]


def test_a_token_that_hetzner_does_not_take_is_told_without_quoting_it(
    fake: FakeServing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = "Wr0ngT0kenWr0ngT0kenWr0ngT0kenWr0ngT0kenWr0ngT0kenWr0ngT0ken0000"
    code, [finding] = findings(fake, tmp_path, capsys, token=wrong)
    assert (code, finding["check"], finding["state"]) == (1, "token", "failed")
    assert "the token is not valid" in finding["what"]
    assert wrong[:8] not in finding["what"]


def test_a_template_that_asks_for_too_much_is_told(
    fake: FakeServing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").write_text("{{ growth.join_token }}")
    _, found = findings(fake, tmp_path, capsys, userDataFile=str(tmp_path / "other"))
    [failed] = what(found, "user data", "failed")
    assert "growth.join_token, which there is not; set joinTokenFile" in failed


def test_a_token_minted_for_each_machine_needs_no_file_and_is_asked_about(
    fake: FakeServing, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    (tmp_path / "other").write_text("token: {{ growth.join_token }}")
    _, found = findings(fake, tmp_path, capsys, userDataFile=str(tmp_path / "other"), joinTokens={"mint": True})
    assert what(found, "user data", "ok") == ["launch: 30 bytes when filled in, before a pool's labels and taints"]
    [unknown] = what(found, "join tokens", "warning")
    assert unknown.startswith("whether they may be minted is unknown")


def test_subnets_are_looked_for_in_every_location_that_the_pools_buy_in(
    fake: FakeServing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = findings(fake, tmp_path, capsys, networks=["kube"], subnets={"kube": "10.1.0.0/22"})
    assert what(found, "subnet", "ok") == [
        f"launch: 10.1.0.0/22 for {location} found" for location in ("fsn1", "hel1", "nbg1")
    ]
    _, found = findings(fake, tmp_path, capsys, networks=["kube"], subnets={"kube": "10.2.0.0/24"})
    assert len(what(found, "subnet", "failed")) == 3
