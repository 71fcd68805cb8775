"""The guide "Hetzner in ten minutes": the pool it shows is the example's, and the check says what the guide says it
says.
"""

from __future__ import annotations

import re
import time
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from growth.cli.app import main
from growth.sim.cloud.hetzner.api import FakeApi
from growth.sim.cloud.hetzner.project import Project
from tests.fakes.hetzner.server import serving

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guides/hetzner.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "deploy/examples/hetzner"
TOKEN = "Gd7mZq2wXc9vBn4LpR8sYd1fGh6jKa3uEo5iWtQxCzVbNmMlPkOjHgFdSaQwErTy"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def test_the_pool_of_the_guide_is_the_one_of_the_example() -> None:
    assert yaml.safe_load(blocks("yaml")[0]) == yaml.safe_load((EXAMPLES / "pool.yaml").read_text())


def test_the_check_says_of_the_examples_what_the_guide_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = yaml.safe_load((EXAMPLES / "values.yaml").read_text())["settings"]
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "join-token").write_text(f"K10{'0' * 64}::server:{'0' * 32}")
    hetzner = settings["hetzner"]
    hetzner["tokenFile"] = str(tmp_path / "token")
    hetzner["launch"] |= {"userDataFile": str(EXAMPLES / "k3s.yaml"), "joinTokenFile": str(tmp_path / "join-token")}
    with serving(FakeApi(Project(time.time), TOKEN)) as fake:
        hetzner["endpoint"] = fake.endpoint
        (tmp_path / "growth.yaml").write_text(yaml.safe_dump(settings))
        assert (
            main(
                [
                    "hetzner",
                    "check",
                    "--settings",
                    str(tmp_path / "growth.yaml"),
                    "--pools",
                    str(EXAMPLES / "pool.yaml"),
                ]
            )
            == 0
        )
    told, (shown,) = capsys.readouterr().out.splitlines(), blocks("text")
    patterns = [line.replace("...", "*") for line in shown.splitlines()]
    assert [line for line, pattern in zip(told, patterns, strict=True) if not fnmatchcase(line, pattern)] == []
