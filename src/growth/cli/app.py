r"""Which command did they type, and how does it end? Asked by the `growth` script; it never decides anything about a
cluster.

A command is a function in `growth/cli/<name>.py` with the command's own name. It is imported only when it is used, so
`growth --help` stays quick. To add one, write the module and its row below.

| the command | exit code | on stderr |
| --- | --- | --- |
| returns None or 0 | 0 | |
| returns another number | that number | whatever it wrote itself |
| was typed wrongly | 2 | one line |
| raises | 1 | one line; the trace as well with --debug |
| is interrupted | 130 | |
| loses its reader (`growth crds \| head`) | 0 | |
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import version
from typing import Annotated, Any, Final, Literal, NamedTuple

from cyclopts import App, CycloptsError, Parameter, UnknownCommandError

SUCCESS: Final = 0
FAILURE: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130

Tokens = Annotated[str, Parameter(show=False, allow_leading_hyphen=True)]
Debug = Annotated[bool, Parameter(negative="", show_default=False, help="Show the whole trace when a command fails.")]


class Command(NamedTuple):
    """A row of the table: the name that is typed, the module and the function, and one line of help."""

    name: str
    help: str
    path: str = ""  # of its function, where that is not the command's name in the module of that name

    @property
    def import_path(self) -> str:
        return f"growth.cli.{self.path or f'{self.name}:{self.name}'}"


COMMANDS: Final[tuple[Command, ...]] = (
    Command("run", "Run growth against a cluster until it is told to stop."),
    Command("demo", "Watch pending pods become machines, in a cluster that is embedded in this process."),
    Command("sim", "Run growth in the embedded cluster under random faults and check what must never happen."),
    Command("simulate", "Run scenario files: what would this cost, how long would pods wait, what if."),
    Command(
        "plan",
        "Plan what to buy for pods, with its price and a proven lower bound: offline, or --live in a cluster.",
    ),
    Command("fits", "Say for cases in JSON lines which nodes a pod may go to, and why not to the others."),
    Command(
        "explain",
        "Say why: where a pod would go, why a node stays, whether a pool can buy, "
        "how large a warm pool or a buffer is.",
    ),
    Command("top", "Watch nodes fill and empty in the terminal, with what each costs and what is on its way."),
    Command("crds", "Print the CustomResourceDefinitions, for kubectl apply."),
    Command("role", "Print ServiceAccount, roles and bindings: the least that growth needs."),
    Command(
        "import",
        "Print NodePools made from Karpenter's, or from Cluster Autoscaler's flags.",
        "imports:import_objects",
    ),
    Command("doctor", "Check API server, clock, kinds, namespace, rights, provider and pools, and say what to do."),
    Command("orphans", "List machines that nothing in the cluster speaks of; give back those that are named."),
    Command("hetzner", "check: say whether buying at Hetzner would work, and what each pool would cost."),
    Command("release", "After growth is stopped, take its finalizers off; nodes and machines stay."),
    Command("completion", "Print what makes bash, zsh or fish complete growth's commands and flags.", "app:completion"),
)
_HABITS: Final = {"help": "--help", "version": "--version"}  # as other tools have them


def build_app(commands: Sequence[Command] = COMMANDS) -> App:
    """The command line, with nothing imported yet."""
    app = App(
        name="growth",
        help="A capacity manager for Kubernetes.",
        version=lambda: version("growth"),
        suppress_keyboard_interrupt=False,
    )
    for command in commands:
        app.command(command.import_path, name=command.name, help=command.help)
    return app


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell.")], /) -> None:
    """Print what makes bash, zsh or fish complete growth's commands and flags: `source <(growth completion bash)`."""
    sys.stdout.write(build_app().generate_completion(shell=shell))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and say how it ended; the `growth` script exits with the result."""
    return run_command(build_app(), _as_typed(sys.argv[1:] if arguments is None else arguments))


def _as_typed(arguments: Sequence[str]) -> list[str]:
    """`growth help run` means `growth run --help`."""
    first, rest = arguments[:1], list(arguments[1:])
    return [*rest, _HABITS[first[0]]] if first and first[0] in _HABITS else [*first, *rest]


def run_command(app: App, arguments: Sequence[str]) -> int:
    """Run the command that `arguments` name; however it ends, it ends as the table above says."""
    shows_trace = False

    def launch(*tokens: Tokens, debug: Debug = False) -> Any:
        nonlocal shows_trace
        shows_trace = debug
        return _call(app, tokens)

    app.meta.suppress_keyboard_interrupt = False
    app.meta.default(launch)
    try:
        result = _call(app.meta, arguments)
    except UnknownCommandError as error:  # cyclopts' own words for it would import every command
        return _complain(_describe_unknown((error.unused_tokens or [""])[0]), USAGE)
    except CycloptsError as error:
        return _complain(str(error), USAGE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _close_stdout()
    except Exception as error:
        if shows_trace:
            traceback.print_exc()
        return _complain(_describe(error), FAILURE)
    return result if isinstance(result, int) else SUCCESS


def _call(app: App, tokens: Sequence[str]) -> Any:
    return app(list(tokens), exit_on_error=False, print_error=False, result_action="return_value")


def _describe(error: Exception) -> str:
    """Our own errors are sentences already, and the API server's get what to do about them; a foreign one without words
    is at least named.
    """
    from growth.kube.api.errors import with_advice

    return with_advice(error) or type(error).__name__


def _describe_unknown(name: str) -> str:
    similar = get_close_matches(name, [command.name for command in COMMANDS], n=1)
    return f'there is no command "{name}"; ' + (
        f"did you mean {similar[0]}?" if similar else "growth --help lists them"
    )


def _complain(text: str, exit_code: int) -> int:
    print(f"growth: {' '.join(text.split())}", file=sys.stderr)
    return exit_code


def _close_stdout() -> int:
    """The reader has gone (`growth crds | head`): keep the interpreter from complaining about it while it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return SUCCESS
