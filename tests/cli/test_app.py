"""The command line: which commands there are, and how each ending is told."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from cyclopts import App

import growth.cli
from growth.cli.app import COMMANDS, FAILURE, INTERRUPTED, SUCCESS, USAGE, build_app, main, run_command

NOT_COMMANDS = {"app", "session"}


def app_with(function: object) -> App:
    app = build_app(())
    app.command(function, name="work")  # type: ignore[call-overload]
    return app


def command_modules() -> list[str]:
    return sorted(
        module.name
        for module in pkgutil.iter_modules(growth.cli.__path__)
        if module.name not in NOT_COMMANDS and not module.name.startswith("_")
    )


def test_every_command_module_has_a_row_and_every_row_a_module() -> None:
    own = [command.import_path.removeprefix("growth.cli.").partition(":")[0] for command in COMMANDS]
    assert sorted(set(own) - NOT_COMMANDS) == command_modules()


def test_each_row_names_a_function_that_exists_and_has_one_sentence_of_help() -> None:
    for command in COMMANDS:
        module_name, _, function_name = command.import_path.partition(":")
        assert callable(getattr(importlib.import_module(module_name), function_name))
        assert command.help.endswith(".")
        assert "\n" not in command.help


def test_the_reference_page_has_a_row_for_every_command_with_its_help() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/command-line.md").read_text()
    assert [command.name for command in COMMANDS if f"| `growth {command.name}` | {command.help} |" not in page] == []


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == SUCCESS
    printed = capsys.readouterr().out
    assert [command.name for command in COMMANDS if command.name not in printed] == []
    assert "--debug" in printed


def test_version_is_the_packages_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == SUCCESS
    assert capsys.readouterr().out.strip() == version("growth")


def test_an_unknown_command_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fly"]) == USAGE
    assert capsys.readouterr().err == 'growth: there is no command "fly"; growth --help lists them\n'


def test_a_command_typed_almost_right_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crd", "--debug"]) == USAGE
    assert capsys.readouterr().err == 'growth: there is no command "crd"; did you mean crds?\n'


def test_a_wrong_argument_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    def work(count: int) -> None:
        raise AssertionError(count)

    assert run_command(app_with(work), ["work", "--count", "many"]) == USAGE
    error = capsys.readouterr().err
    assert "many" in error
    assert error.count("\n") == 1


def test_a_command_that_returns_nothing_has_succeeded() -> None:
    def work() -> None: ...

    assert run_command(app_with(work), ["work"]) == SUCCESS


def test_a_command_chooses_its_own_exit_code() -> None:
    def work() -> int:
        return 7

    assert run_command(app_with(work), ["work"]) == 7


def test_a_failure_is_one_line_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise OSError("no cluster at\nthat address")

    assert run_command(app_with(work), ["work"]) == FAILURE
    assert capsys.readouterr().err == "growth: no cluster at that address\n"


def test_a_failure_without_words_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise TimeoutError

    assert run_command(app_with(work), ["work"]) == FAILURE
    assert capsys.readouterr().err == "growth: TimeoutError\n"


@pytest.mark.parametrize("arguments", [["--debug", "work"], ["work", "--debug"]])
def test_debug_shows_the_trace_wherever_it_stands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise OSError("no cluster")

    assert run_command(app_with(work), arguments) == FAILURE
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert error.endswith("growth: no cluster\n")


def test_an_interrupted_command_ends_with_130_and_no_noise(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise KeyboardInterrupt

    assert run_command(app_with(work), ["work"]) == INTERRUPTED
    assert capsys.readouterr().err == ""


def test_building_the_command_line_imports_no_command() -> None:
    code = (
        "import sys; from growth.cli.app import build_app; build_app(); "
        "print(*[m for m in sys.modules if m.startswith('growth.')])"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert sorted(printed.split()) == ["growth.cli", "growth.cli.app"]


def test_the_module_form_does_the_same_as_the_script() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "growth", "--version"], check=True, capture_output=True, text=True
    ).stdout
    assert printed.strip() == version("growth")
    assert build_app().name == ("growth",)


def test_a_reader_that_leaves_early_is_no_failure() -> None:
    pipeline = (
        f'{sys.executable} -c "from cyclopts import App; from growth.cli.app import run_command; '
        "app = App(name='growth'); app.command(lambda: [print('x' * 80) for _ in range(9999)] and None, name='work'); "
        "raise SystemExit(run_command(app, ['work']))\" | head -1"
    )
    finished = subprocess.run(["bash", "-o", "pipefail", "-c", pipeline], check=False, capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.mark.parametrize(("typed", "words"), [(["help"], "Usage: growth"), (["help", "role"], "Usage: growth role")])
def test_help_may_be_asked_for_in_words(typed: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(typed) == 0
    assert words in capsys.readouterr().out


def test_version_may_be_asked_for_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == main(["--version"]) == 0
    first, second = capsys.readouterr().out.split()
    assert first == second


def test_a_provider_that_there_is_none_of_gets_choices(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--provider", "aws"]) == 2
    assert 'Choose from: "kwok", "hetzner"' in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_told_how_to_complete(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "simulate" in capsys.readouterr().out
