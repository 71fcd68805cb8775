"""Is there a Chromium? If not, it is installed, or it is said how."""

from __future__ import annotations

import sys

from tests.browser.chromium import find_chromium
from tests.packages import obtain

if __name__ == "__main__":
    sys.exit(obtain("chromium", find_chromium))
