"""Which files belong to the project? Asked by every house rule. A file git ignores does not count; one not yet
committed does.
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = (".venv", ".git", ".build", ".cache", "site", "dist", "__pycache__")
TEXT_SUFFIXES = {
    ".py",
    ".md",
    ".toml",
    ".txt",
    ".lock",
    ".yaml",
    ".yml",
    ".json",
    ".sh",
    ".mod",
    ".sum",
    ".go",
    ".ambr",
    ".css",
    ".js",
    ".html",
    "",
}


@cache
def project_files() -> tuple[Path, ...]:
    """All files, relative to the root, in order; without git (an unpacked archive) whatever is not generated."""
    names = _from_git() or (path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if not _is_generated(path))
    return tuple(path for path in map(Path, sorted(set(names))) if (ROOT / path).is_file())


def python_files(*folders: str) -> tuple[Path, ...]:
    """The Python files under `folders` (all of them when none is named)."""
    wanted = tuple(f"{folder}/" for folder in folders)
    return tuple(
        path for path in project_files() if path.suffix == ".py" and (not wanted or path.as_posix().startswith(wanted))
    )


def text_files() -> tuple[Path, ...]:
    return tuple(path for path in project_files() if path.suffix in TEXT_SUFFIXES)


@cache
def text_of(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


def _from_git() -> list[str]:
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        return []
    return [name for name in listed.stdout.split("\0") if name] if listed.returncode == 0 else []


def _is_generated(path: Path) -> bool:
    return any(part in GENERATED or part.endswith((".egg-info", "_cache")) for part in path.relative_to(ROOT).parts)
