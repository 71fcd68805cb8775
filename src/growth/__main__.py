"""Lets `python -m growth` do what `growth` does."""

import sys

from growth.cli import main

sys.exit(main())
