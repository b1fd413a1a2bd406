"""`dstream provider`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dstream.options import Format, Level, LogFormat, LogLevel
from dstream.starting import announced, logged, started

if TYPE_CHECKING:
    from ingester.stdio.settings import ProviderSettings

_STOP_SECONDS = 8.5
"""From a signal to the end: the original's host waits 10 s before it kills."""

_LEFT_SECONDS = 1.0
"""For what is left after that: threads that wait for a server that says nothing are not waited for."""


def provider(log_level: LogLevel = Level.INFO, log_format: LogFormat = Format.TEXT) -> int:
    """Write changes as lines of JSON to standard output.

    The configuration is read as JSON from standard input. It runs until stopped.
    Everything else goes to standard error. An offset moves after its line was written. See docs/provider.md.
    """
    from ingester.stdio.output import taken_standard_output

    # Before anything that could print: lines must be all that the host ever reads.
    output = taken_standard_output()
    logged(log_level, log_format, waits=False)  # a host that reads no log still gets its lines
    settings = _settings()
    announced("provider", Path("standard input"), settings)
    try:
        return started("ingester.app", settings, call="provide", within=_STOP_SECONDS, descriptor=output)
    finally:
        from dstream.signals import (
            end_within,
        )  # not at the top: the completion of a command line must not wait for structlog

        end_within(_LEFT_SECONDS)


def _settings() -> ProviderSettings:
    """Of the document on standard input. Raises ConfigurationError."""
    from common.observability.logs import register_secrets
    from ingester.stdio.document import read_document
    from ingester.stdio.settings import settings_of

    settings = settings_of(read_document(0))
    register_secrets(settings)
    return settings
