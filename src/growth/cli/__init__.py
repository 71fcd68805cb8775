"""What people type. `growth.cli.app` holds the table of commands; each command has a module of its own name here."""

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """What the `growth` script calls. A worker process imports the script as well, and needs none of the commands."""
    from growth.cli.app import main as run

    return run(arguments)


__all__ = ["main"]
