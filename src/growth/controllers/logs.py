"""How growth logs: one JSON object a line on standard error, or coloured text where a person watches. Set up once, by
the command line.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from growth.providers.redaction import SECRETS


def set_up_logs(level: str) -> None:
    is_watched = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            redact,
            structlog.dev.ConsoleRenderer() if is_watched else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """No line leaves with a secret in it, traces included."""
    return {name: SECRETS.redacted_value(value) for name, value in event.items()}
