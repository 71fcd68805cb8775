"""What people type. `growth.cli.app` holds the table of commands; each command has a module of its own name here."""

from growth.cli.app import main

__all__ = ["main"]
