from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from growth.kube.auth.credentials import ConfigError, Connection, Credential
from growth.kube.auth.kubeconfig import from_kubeconfig, in_cluster, load_connection
from growth.sim.clock import SimRuntime, run_virtual

Json = dict[str, Any]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kubeconfig(cluster: Json | None = None, user: Json | None = None, **more: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "home", "user": "me", "namespace": "shop"}}],
        "clusters": [{"name": "home", "cluster": {"server": "https://api.example:6443/", **(cluster or {})}}],
        "users": [{"name": "me", "user": user or {}}],
        **more,
    }


def written(path: Path, content: Json) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return path


def load(*paths: Path, context: str = "") -> Connection:
    async def scene() -> Connection:
        return from_kubeconfig(SimRuntime("config"), list(paths), context)

    return run_virtual(scene())


def credential(*paths: Path, context: str = "") -> Credential:
    async def scene() -> Credential:
        return await from_kubeconfig(SimRuntime("config"), list(paths), context).credentials.current()

    return run_virtual(scene())


def refusal(path: Path, content: Json) -> str:
    with pytest.raises(ConfigError) as caught:
        load(written(path, content))
    return str(caught.value).replace(str(path), "FILE")


def test_inline_data_gives_trust_and_identity(tmp_path: Path) -> None:
    path = written(
        tmp_path / "config",
        kubeconfig(
            {"certificate-authority-data": encoded("AUTHORITY")},
            {"client-certificate-data": encoded("CERT"), "client-key-data": encoded("KEY")},
        ),
    )
    connection = load(path)
    assert (connection.server, connection.authority(), connection.namespace) == (
        "https://api.example:6443",
        b"AUTHORITY",
        "shop",
    )
    assert credential(path) == Credential("", b"CERT", b"KEY")


def test_files_are_relative_to_the_kubeconfig_and_inline_data_wins(tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    for name in ("ca", "cert", "key"):
        (tmp_path / "pki" / name).write_text(name)
    user = {"client-certificate": "pki/cert", "client-key": "pki/key", "client-key-data": encoded("inline")}
    path = written(
        tmp_path / "config",
        kubeconfig(
            {"certificate-authority": "pki/ca", "tls-server-name": "api", "proxy-url": "http://proxy:3128"}, user
        ),
    )
    connection = load(path)
    assert (connection.authority(), connection.tls_server_name, connection.proxy_url) == (
        b"ca",
        "api",
        "http://proxy:3128",
    )
    assert credential(path) == Credential("", b"cert", b"inline")


def test_a_token_file_is_read_again_each_minute_and_after_a_refusal(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    path = written(tmp_path / "config", kubeconfig(user={"tokenFile": "token", "token": "fallback"}))

    async def scene() -> list[str]:
        credentials, seen = from_kubeconfig(SimRuntime("config"), [path]).credentials, []
        seen.append((await credentials.current()).token)
        token.write_text("two")
        seen.append((await credentials.current()).token)
        await asyncio.sleep(61)
        seen.append((await credentials.current()).token)
        token.write_text("three")
        credentials.refused(Credential("two"))
        seen.append((await credentials.current()).token)
        token.unlink()
        await asyncio.sleep(61)
        seen.append((await credentials.current()).token)
        return seen

    assert run_virtual(scene()) == ["one", "one", "two", "three", "three"]


def test_files_are_merged_and_the_first_to_name_a_thing_wins(tmp_path: Path) -> None:
    first = {"users": [{"name": "me", "user": {"token": "first"}}], "clusters": None}
    second = kubeconfig(user={"token": "second"})
    third = kubeconfig() | {"current-context": "elsewhere"}
    paths = [
        tmp_path / "missing",
        written(tmp_path / "1", first),
        written(tmp_path / "2", second),
        written(tmp_path / "3", third),
    ]
    assert credential(*paths).token == "first"
    assert load(*paths).server == "https://api.example:6443"


def test_a_context_can_be_named(tmp_path: Path) -> None:
    contexts = [{"name": "here", "context": {"cluster": "home"}}, {"name": "there", "context": {"cluster": "away"}}]
    clusters = [{"name": name, "cluster": {"server": f"https://{name}"}} for name in ("home", "away")]
    path = written(tmp_path / "config", kubeconfig(contexts=contexts, clusters=clusters))
    assert (load(path).server, load(path, context="there").server) == ("https://home", "https://away")
    assert credential(path) == Credential()


@pytest.mark.parametrize(
    ("cluster", "user", "said"),
    [
        (
            {"insecure-skip-tls-verify": True},
            {},
            (
                "FILE: clusters[home].insecure-skip-tls-verify: TLS is always verified; name the authority in "
                "certificate-authority instead"
            ),
        ),
        (
            {"server": "http://api.example"},
            {},
            "FILE: clusters[home].server: 'http://api.example' is not an https address (http is for this machine only)",
        ),
        (
            {"proxy-url": "socks5://proxy"},
            {},
            "FILE: clusters[home].proxy-url: only http and https proxies are supported",
        ),
        ({"certificate-authority-data": "%%%"}, {}, "FILE: clusters[home].certificate-authority-data: is not base64"),
        ({}, {"username": "a", "password": "b"}, "FILE: users[me].username: passwords are not supported"),
        (
            {},
            {"auth-provider": {"name": "gcp"}},
            "FILE: users[me].auth-provider: removed from Kubernetes; use an exec plugin",
        ),
        ({}, {"as": "root"}, "FILE: users[me].as: impersonation is not supported"),
        (
            {},
            {"client-certificate-data": encoded("C")},
            "FILE: users[me].client-key: missing: certificate and key belong together",
        ),
        (
            {},
            {"tokenFile": "/nowhere/token"},
            "FILE: users[me].tokenFile: /nowhere/token cannot be read: No such file or directory",
        ),
        ({}, {"token": 12345}, "FILE: Expected `str`, got `int` - at `$.users[0].user.token`"),
        (
            {},
            {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}},
            "FILE: users[me].exec.apiVersion:",
        ),
        (
            {},
            {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}},
            "FILE: users[me].exec.interactiveMode: must be one of",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_file_and_field(
    tmp_path: Path, cluster: Json, user: Json, said: str
) -> None:
    assert refusal(tmp_path / "config", kubeconfig(cluster, user)).startswith(said)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"current-context": ""}, "FILE: current-context: not set, and no context was named"),
        ({"current-context": "gone"}, "FILE: contexts: there is no 'gone'"),
        ({"clusters": []}, "FILE: clusters: there is no 'home'"),
        ({"users": [{"name": "me"}]}, "FILE: users[me].user: missing"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, more: Json, said: str) -> None:
    assert refusal(tmp_path / "config", kubeconfig(**more)) == said


def test_a_broken_file_is_named_without_quoting_its_secrets(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("users:\n- name: me\n  token: [very-secret\n")
    with pytest.raises(ConfigError, match="not YAML, line 4") as caught:
        load(path)
    assert "very-secret" not in str(caught.value)


def test_secrets_do_not_show_in_a_repr() -> None:
    assert "hush" not in repr(Credential("hush", b"hush", b"hush"))


def test_plain_http_is_for_this_machine_only(tmp_path: Path) -> None:
    assert (
        load(written(tmp_path / "config", kubeconfig({"server": "http://127.0.0.1:8001"}))).server
        == "http://127.0.0.1:8001"
    )


# ----------------------------------------------------------------------------------------- in a pod


def service_account(folder: Path) -> Path:
    for name, content in (("token", "t1"), ("ca.crt", "AUTHORITY"), ("namespace", "growth-system")):
        (folder / name).write_text(content)
    return folder


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_a_pod_finds_its_server_and_account(tmp_path: Path, host: str, server: str) -> None:
    async def scene() -> None:
        environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
        connection = in_cluster(SimRuntime("config"), environment, service_account(tmp_path))
        assert (connection.server, connection.namespace, connection.authority()) == (
            server,
            "growth-system",
            b"AUTHORITY",
        )
        assert (await connection.credentials.current()).token == "t1"
        (tmp_path / "token").write_text("t2")
        await asyncio.sleep(59)
        assert (await connection.credentials.current()).token == "t1"
        await asyncio.sleep(2)
        assert (await connection.credentials.current()).token == "t2"

    run_virtual(scene())


def test_a_pod_without_its_token_is_told_where_it_should_be(tmp_path: Path) -> None:
    async def scene() -> None:
        with pytest.raises(ConfigError, match=r"automountServiceAccountToken off\?\): .*/token cannot be read"):
            in_cluster(
                SimRuntime("config"),
                {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"},
                tmp_path,
            )
        with pytest.raises(ConfigError, match="not inside a cluster"):
            in_cluster(SimRuntime("config"), {}, tmp_path)

    run_virtual(scene())


def test_a_given_path_wins_over_the_environment(tmp_path: Path) -> None:
    mine = written(tmp_path / "mine", kubeconfig({"server": "https://mine"}))
    others = written(tmp_path / "others", kubeconfig({"server": "https://others"}))
    environment = {
        "KUBECONFIG": f"{tmp_path / 'missing'}:{others}",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
    }

    async def scene() -> tuple[str, str]:
        runtime = SimRuntime("config")
        return load_connection(runtime, mine, environment=environment).server, load_connection(
            runtime, environment=environment
        ).server

    assert run_virtual(scene()) == ("https://mine", "https://others")


def test_no_configuration_at_all_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    async def scene() -> None:
        with pytest.raises(ConfigError, match=r"no kubeconfig: .*/\.kube/config not found"):
            load_connection(SimRuntime("config"), environment={})

    run_virtual(scene())
