"""The image is made from hashed packages and runs as nobody: read from the Dockerfile, since no engine is needed for
that.
"""

from __future__ import annotations

import re

import yaml

from deploy.generate import CHART, ROOT

TEXT = (ROOT / "deploy/Dockerfile").read_text()
LINES = [line for line in TEXT.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]


def instructions(name: str) -> list[str]:
    return [line.partition(" ")[2] for line in LINES if line.startswith(f"{name} ")]


def test_every_stage_begins_with_one_slim_python_of_a_fixed_version() -> None:
    assert {line.split()[0] for line in instructions("FROM")} == {"python:${PYTHON}"}
    (version,) = instructions("ARG")
    assert re.fullmatch(r"PYTHON=3\.\d+\.\d+-slim-[a-z]+", version)


def test_nothing_is_installed_without_a_hash_except_our_own_wheel() -> None:
    installs = [
        part for line in instructions("RUN") for part in line.split("&&") if re.search(r"\bpip\b.* install\b", part)
    ]
    assert len(installs) == 3
    for install in installs:
        from_lock = "--require-hashes" in install and install.strip().endswith(".lock")
        own_wheel = "--no-deps --no-index" in install and install.strip().endswith("/wheels/*.whl")
        assert from_lock or own_wheel, install


def test_the_last_stage_holds_no_source_and_no_installer() -> None:
    last = TEXT[TEXT.rindex("\nFROM ") :]
    assert "COPY src" not in last
    assert "pip uninstall" in last
    assert "COPY --from=packages /opt/growth" in last


def test_it_runs_as_a_numeric_user_who_is_not_root_and_the_chart_names_the_same() -> None:
    (user,) = instructions("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    deployment = (ROOT / CHART / "templates/deployment.yaml").read_text()
    assert [
        f"runAs{what}: {number}" in deployment for what, number in zip(("User", "Group"), user.split(":"), strict=True)
    ] == [True, True]


def test_everything_copied_from_the_repository_is_let_into_the_build_and_exists() -> None:
    let_in = {
        line[1:] for line in (ROOT / "deploy/Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")
    }
    copied = {part for line in instructions("COPY") if not line.startswith("--from") for part in line.split()[:-1]}
    assert copied == let_in
    assert all((ROOT / path).exists() for path in copied)


def test_the_chart_and_the_package_have_one_version() -> None:
    import tomllib

    chart = yaml.safe_load((ROOT / CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)
