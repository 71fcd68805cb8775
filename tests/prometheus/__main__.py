"""Are Prometheus and promtool there? If not, they are installed, or it is said how."""

from __future__ import annotations

import shutil
import sys

from tests.packages import obtain


def is_there() -> bool:
    return bool(shutil.which("prometheus") and shutil.which("promtool"))


if __name__ == "__main__":
    sys.exit(obtain("prometheus", is_there))
