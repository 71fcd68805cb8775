"""Imports point one way. The contracts stand in pyproject.toml; here they are run, and run again on a copy with a
planted offence.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.rows import imports_of_rows, row_modules
from tests.house.tree import ROOT, python_files, text_of

OFFENCES = (
    ("model", "growth.solver"),
    ("kube", "growth.plan"),
    ("plan", "growth.kube"),
    ("solver", "growth.runtime"),
    ("plan", "asyncio"),
    ("model", "numpy"),
    ("controllers", "growth.sim"),
    ("solver.rules", "growth.solver.purchase"),
    ("solver.patterns", "growth.solver.flow"),
    ("solver.flow", "growth.solver.existing"),
)


def run_import_linter(source_folder: Path) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(config_filename=sys.argv[1], "
        "no_cache=True))"
    )
    command = [sys.executable, "-c", code, str(ROOT / "pyproject.toml")]
    environment = {**os.environ, "PYTHONPATH": str(source_folder)}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd=source_folder)


def plan_sources() -> dict[str, str]:
    return {".".join(path.with_suffix("").parts[1:]): text_of(path) for path in python_files("src/growth/plan")}


def test_no_import_breaks_the_layers() -> None:
    finished = run_import_linter(ROOT / "src")
    assert finished.returncode == 0, finished.stdout


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the linter says of a copy into which every offence below was planted."""
    folder = tmp_path_factory.mktemp("planted")
    shutil.copytree(ROOT / "src/growth", folder / "growth", ignore=shutil.ignore_patterns("__pycache__"))
    for package, imported in OFFENCES:
        with (folder / "growth" / package.replace(".", "/") / "__init__.py").open("a") as opened:
            opened.write(f"\nimport {imported}\n")
    (folder / "growth" / "attic.py").write_text('"""Belongs nowhere."""\n')
    finished = run_import_linter(folder)
    assert finished.returncode == 1
    return finished.stdout


@pytest.mark.parametrize(("package", "imported"), OFFENCES)
def test_a_planted_import_against_the_layers_is_noticed(complaints: str, package: str, imported: str) -> None:
    assert f"growth.{package} -> {imported} " in complaints


def test_a_package_without_a_layer_is_noticed(complaints: str) -> None:
    assert "attic" in complaints


def test_no_module_of_the_plan_imports_a_row() -> None:
    assert imports_of_rows(plan_sources()) == []


def test_a_row_that_imports_another_is_noticed() -> None:
    sources = {
        "growth.plan.nodes_up.demand": "def demands(): ...",
        "growth.plan.nodes_up.scale_up": "from growth.plan.nodes_up.demand import demands\ndef plan(): ...",
        "growth.plan.nodes_down.removal": "from growth.plan.nodes_up import scale_up\ndef plan(): ...",
    }
    assert row_modules(sources) == {"growth.plan.nodes_up.scale_up", "growth.plan.nodes_down.removal"}
    assert imports_of_rows(sources) == ["growth.plan.nodes_down.removal imports the row growth.plan.nodes_up.scale_up"]
