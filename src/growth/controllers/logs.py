"""How growth logs: one JSON object a line on standard error, or coloured text where a person watches. Set up once, by the command line."""

from __future__ import annotations

import logging
import sys

import structlog


def set_up_logs(level: str) -> None:
    is_watched = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.dev.ConsoleRenderer() if is_watched else structlog.processors.format_exc_info,
            *([] if is_watched else [structlog.processors.JSONRenderer()]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
