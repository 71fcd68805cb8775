"""`growth doctor` speaks to people and to scripts, and ends with 1 when something fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from growth.cli.app import FAILURE, main
from growth.cli.doctor import as_text
from growth.controllers.ask.doctor import Finding

FINDINGS = [
    Finding("API server", "ok", "it answers, version v1.36.3"),
    Finding("rights", "failed", "these credentials may not: patch nodes", "apply the role"),
    Finding("pools", "warning", "there is no NodePool", "growth buys nothing until there is one"),
]


def test_each_finding_is_a_line_with_its_advice_below() -> None:
    assert as_text(FINDINGS).splitlines() == [
        "ok       API server  it answers, version v1.36.3",
        "failed   rights      these credentials may not: patch nodes",
        "                     -> apply the role",
        "warning  pools       there is no NodePool",
        "                     -> growth buys nothing until there is one",
        "3 findings: 1 failed, 1 warnings",
    ]


def test_without_a_kubeconfig_the_doctor_says_so_and_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--kubeconfig", str(tmp_path / "none"), "--output", "json"]) == FAILURE
    (finding,) = json.loads(capsys.readouterr().out)
    assert (finding["check"], finding["state"]) == ("API server", "failed")
    assert "--kubeconfig" in finding["advice"]


def test_an_api_server_that_is_not_there_is_a_finding_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    server = {"cluster": {"server": "https://127.0.0.1:1"}, "name": "a"}
    context = {"context": {"cluster": "a", "user": "a"}, "name": "a"}
    user = {"user": {"token": "secret-token"}, "name": "a"}
    kubeconfig.write_text(
        json.dumps({"clusters": [server], "contexts": [context], "users": [user], "current-context": "a"})
    )
    assert main(["doctor", "--kubeconfig", str(kubeconfig)]) == FAILURE
    printed = capsys.readouterr().out
    assert printed.startswith("failed   API server  it does not answer: no connection to https://127.0.0.1:1")
    assert "secret-token" not in printed


def test_wrong_settings_are_told_before_anything_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "settings.yaml").write_text("provider: acme")
    assert main(["doctor", "--settings", str(tmp_path / "settings.yaml")]) == FAILURE
    assert "provider" in capsys.readouterr().err
