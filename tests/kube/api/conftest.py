"""What all tests of real connections need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from growth.controllers.loop.runtime import run_loop

Play = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=[asyncio.run, run_loop], ids=["asyncio", "as in growth run"])
def play(request: pytest.FixtureRequest) -> Play:
    """On either event loop: they report broken connections in their own ways."""
    found: Play = request.param
    return found
