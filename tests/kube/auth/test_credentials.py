"""Exec plugins, as real processes."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from growth.controllers.loop.runtime import SystemRuntime
from growth.kube.auth.credentials import ConfigError, Credential, Plugin, PluginCredentials
from growth.kube.auth.kubeconfig import from_kubeconfig
from growth.model.instant import format_instant
from tests.kube.auth.test_kubeconfig import encoded, kubeconfig, written

V1 = "client.authentication.k8s.io/v1"


class SettableClock(SystemRuntime):
    """Real processes, but the clocks stand where they are put."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 1_000_000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


def script(folder: Path, body: str) -> Path:
    """A plugin in Python; `count` is how often it has run, `info` what it was told."""
    path = folder / "plugin"
    path.write_text(
        f"#!{sys.executable}\n"
        "import json, os, pathlib, sys\n"
        "runs = pathlib.Path(__file__).with_suffix('.runs')\n"
        "count = len(runs.read_text()) + 1 if runs.exists() else 1\n"
        "runs.write_text('x' * count)\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "def answer(**status):\n"
        "    print(json.dumps({'kind': 'ExecCredential', 'apiVersion': info['apiVersion'], 'status': status}))\n" + body
    )
    path.chmod(0o755)
    return path


def plugin(path: Path, **more: Any) -> Plugin:
    given: dict[str, Any] = {
        "command": str(path),
        "arguments": (),
        "environment": {},
        "api_version": V1,
        "interactive_mode": "Never",
    } | more
    return Plugin(**given)


def refusal(path: Path, **more: Any) -> str:
    async def scene() -> str:
        with pytest.raises(ConfigError) as caught:
            await PluginCredentials(plugin(path, **more), SettableClock()).current()
        return str(caught.value).replace(repr(str(path)), "PLUGIN")

    return asyncio.run(scene())


def test_a_plugin_named_in_a_kubeconfig_is_told_where_it_is_and_answers(tmp_path: Path) -> None:
    script(tmp_path, "answer(token=json.dumps([sys.argv[1:], os.environ['COLOUR'], info]))")
    given = {
        "command": "./plugin",
        "args": ["get-token"],
        "env": [{"name": "COLOUR", "value": "blue"}],
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "provideClusterInfo": True,
    }
    path = written(tmp_path / "config", kubeconfig({"certificate-authority-data": encoded("CA")}, {"exec": given}))

    async def scene() -> str:
        return (await from_kubeconfig(SettableClock(), [path]).credentials.current()).token

    arguments, colour, info = json.loads(asyncio.run(scene()))
    assert (arguments, colour) == (["get-token"], "blue")
    assert info["apiVersion"] == "client.authentication.k8s.io/v1beta1"
    assert info["spec"]["cluster"] == {
        "server": "https://api.example:6443/",
        "certificate-authority-data": encoded("CA"),
    }


def test_an_answer_is_kept_until_it_expires(tmp_path: Path) -> None:
    body = (
        f"answer(token=str(count), expirationTimestamp={format_instant(1_000_060.0)!r} if count == 1 else "
        f"{format_instant(1_009_999.0)!r})"
    )

    async def scene() -> list[str]:
        clock = SettableClock()
        credentials, seen = PluginCredentials(plugin(script(tmp_path, body)), clock), []
        for at in (1_000_000.0, 1_000_049.0, 1_000_051.0, 1_000_100.0):
            clock.at = at
            seen.append((await credentials.current()).token)
        return seen

    assert asyncio.run(scene()) == ["1", "1", "2", "2"]


def test_a_refused_answer_is_asked_for_again_but_not_in_a_frenzy(tmp_path: Path) -> None:
    async def scene() -> list[str]:
        clock = SettableClock()
        credentials = PluginCredentials(plugin(script(tmp_path, "answer(token=str(count))")), clock)
        seen = [(await credentials.current()).token]
        credentials.refused(Credential("1"))
        seen.append((await credentials.current()).token)
        clock.at += 11
        credentials.refused(Credential("an older one"))
        seen.append((await credentials.current()).token)
        credentials.refused(Credential("1"))
        seen.append((await credentials.current()).token)
        return seen

    assert asyncio.run(scene()) == ["1", "1", "1", "2"]


def test_many_requests_at_once_run_the_plugin_once(tmp_path: Path) -> None:
    async def scene() -> set[str]:
        credentials = PluginCredentials(plugin(script(tmp_path, "answer(token=str(count))")), SettableClock())
        return {each.token for each in await asyncio.gather(*(credentials.current() for _ in range(5)))}

    assert asyncio.run(scene()) == {"1"}


def test_a_plugin_may_answer_with_a_certificate(tmp_path: Path) -> None:
    async def scene() -> Credential:
        path = script(tmp_path, "answer(clientCertificateData='CERT', clientKeyData='KEY')")
        return await PluginCredentials(plugin(path), SettableClock()).current()

    assert asyncio.run(scene()) == Credential("", b"CERT", b"KEY")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit(3)", "the exec plugin PLUGIN ended with code 3; see standard error for what it said"),
        ("print('token: secret')", "the exec plugin PLUGIN wrote no ExecCredential:"),
        ("answer()", "the exec plugin PLUGIN answered with neither a token nor a certificate"),
        (
            "answer(clientCertificateData='x')",
            "the exec plugin PLUGIN must answer with clientCertificateData and clientKeyData together",
        ),
        (
            "info['apiVersion'] = 'v2'; answer(token='x')",
            "the exec plugin PLUGIN answered with v2 ExecCredential, not with client.authentication.k8s.io/v1",
        ),
        (
            "answer(token='x', expirationTimestamp='soon')",
            "the exec plugin PLUGIN answered with an expirationTimestamp that is no time",
        ),
    ],
)
def test_a_plugin_that_fails_is_named_and_its_words_are_not_repeated(tmp_path: Path, body: str, said: str) -> None:
    message = refusal(script(tmp_path, body))
    assert message.startswith(said)
    assert "secret" not in message


def test_a_plugin_that_is_not_there_comes_with_its_hint(tmp_path: Path) -> None:
    said = refusal(tmp_path / "missing", install_hint="Install it with the cloud's tool.")
    assert (
        said == "the exec plugin PLUGIN cannot be started: No such file or directory. Install it with the cloud's tool."
    )


def test_a_plugin_that_must_ask_a_person_needs_a_terminal(tmp_path: Path) -> None:
    said = refusal(script(tmp_path, "answer(token='x')"), interactive_mode="Always")
    assert "standard input is not a terminal" in said


def test_what_a_plugin_says_for_people_is_passed_on_without_what_it_was_given_or_gives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = (
        "sys.stderr.write('logged in at https://me:canary-1@host with ' + os.environ['KEY'] + ', got canary-token-3')\n"
        "answer(token='canary-token-3')\n"
    )
    credentials = PluginCredentials(
        plugin(script(tmp_path, body), environment={"KEY": "canary-2-key"}), SettableClock()
    )
    assert asyncio.run(credentials.current()).token == "canary-token-3"
    said = capsys.readouterr().err
    assert said == "logged in at https://[redacted]@host with [redacted], got [redacted]"
