"""Which command did they type, and how does it end? Asked by the `growth` script; it never decides anything about a cluster.

A command is a function in `growth/cli/<name>.py` with the command's own name. It is imported only when it is used, so `growth --help`
stays quick. To add one, write the module and its row below.

| the command | exit code | on stderr |
| --- | --- | --- |
| returns None or 0 | 0 | |
| returns another number | that number | whatever it wrote itself |
| was typed wrongly | 2 | one line |
| raises | 1 | one line; the trace as well with --debug |
| is interrupted | 130 | |
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any, Final, NamedTuple

from cyclopts import App, CycloptsError, Parameter

SUCCESS: Final = 0
FAILURE: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130


class Command(NamedTuple):
    """A row of the table: the name that is typed, the module and the function, and one line of help."""

    name: str
    help: str

    @property
    def import_path(self) -> str:
        return f"growth.cli.{self.name}:{self.name}"


COMMANDS: Final[tuple[Command, ...]] = ()


def build_app(commands: Sequence[Command] = COMMANDS) -> App:
    """The command line, with nothing imported yet."""
    app = App(name="growth", help="A capacity manager for Kubernetes.", version=lambda: version("growth"))
    for command in commands:
        app.command(command.import_path, name=command.name, help=command.help)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and say how it ended. The `growth` script exits with the result."""
    return run_command(build_app(), sys.argv[1:] if arguments is None else arguments)


def run_command(app: App, arguments: Sequence[str]) -> int:
    """Run what `arguments` name; every ending becomes an exit code and at most one line, unless --debug asks for the trace."""
    debug = False

    @app.meta.default
    def launch(*tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)], debug_: Annotated[bool, Parameter("--debug", negative="")] = False) -> Any:
        """Show the whole trace when a command fails."""
        nonlocal debug
        debug = debug_
        return app(tokens, exit_on_error=False, print_error=False, result_action="return_value")

    try:
        result = app.meta(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return _complain(str(error), USAGE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _complain(_sentence(error), FAILURE)
    return result if isinstance(result, int) else SUCCESS
