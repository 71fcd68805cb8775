"""Are Prometheus and promtool there? If not, they are installed from the packages of the system, or it is said how."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

COMMANDS = (("apt-get", "update", "-qq"), ("apt-get", "install", "-y", "-qq", "--no-install-recommends", "prometheus"))


def is_there() -> bool:
    return bool(shutil.which("prometheus") and shutil.which("promtool"))


def main() -> int:
    if not is_there() and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in COMMANDS:
            subprocess.run(command, check=False, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    if is_there():
        return 0
    print("There is no Prometheus: install the package prometheus with apt-get, as root.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
