"""Does a file speak of the machine it was written on? Asked of every text file: no package hosts, no home folders,
nothing unfinished.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.tree import ROOT

# Joined here, so that this file does not name them itself.
PACKAGE_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("proxy", "golang", "org"),
        ("goproxy", "io"),
        ("sum", "golang", "org"),
        ("registry", "npmjs", "org"),
        ("deb", "debian", "org"),
        ("archive", "ubuntu", "com"),
    )
)
MACHINE_PATH = re.compile(r"(?<![\w.$}~*-])/(?:home|root|Users|work|workspace|builds)/\w")
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")


def why_not_clean(path: Path, text: str) -> list[str]:
    """A sentence for each line that names a package host or a place on this machine, or says that something is
    unfinished.
    """
    return [
        f"{path}:{number} {reason}"
        for number, line in enumerate(text.splitlines(), 1)
        for reason in _reasons(path, line)
    ]


def _reasons(path: Path, line: str) -> Iterator[str]:
    yield from (f"names the package host {host}" for host in PACKAGE_HOSTS if host in line)
    if MACHINE_PATH.search(line) or f"{ROOT}/" in line:
        yield "names a path of one machine"
    if path.suffix == ".py" and UNFINISHED.search(line):
        yield "says that something is unfinished"
