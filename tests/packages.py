"""Is a program there that tests need, and if not, can it be installed from the packages of the system? Asked by
`python -m tests.browser` and `python -m tests.prometheus`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable


def obtain(package: str, is_there: Callable[[], object]) -> int:
    """0 if it is there in the end; else 1, and it is said how to get it."""
    if not is_there() and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (("update", "-qq"), ("install", "-y", "-qq", "--no-install-recommends", package)):
            unattended = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(("apt-get", *command), check=False, env=unattended)
    if is_there():
        return 0
    print(f"The package {package} is missing: apt-get install {package}, as root.", file=sys.stderr)
    return 1
