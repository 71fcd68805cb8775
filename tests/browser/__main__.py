"""Is there a Chromium? If not, it is installed from the packages of the system, or it is said how."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests.browser.chromium import find_chromium

COMMANDS = (("apt-get", "update", "-qq"), ("apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"))


def main() -> int:
    if not find_chromium() and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in COMMANDS:
            subprocess.run(command, check=False, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    if find_chromium():
        return 0
    print("There is no Chromium: install the package chromium (apt-get install chromium), as root.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
