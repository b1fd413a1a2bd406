"""Structured logs on stderr, as text or JSON, from DStream and from libraries. Also the last line of defence for secrets.

A secret should never reach a log call. If one does (in a library's error text), it is masked in the finished line.
Normal operation is quiet: start, stop, locks, gaps, faults and recovery are logged; everything else is a metric.
"""

from __future__ import annotations

import json
import logging
import os
import re
import select
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

import structlog
from pydantic import BaseModel, SecretStr

from common.config.settings import UnsetSecret

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

MASK = "***"
_SHORTEST = 4  # a shorter text would mask parts of ordinary words, and no key or sensible password is that short

# These log every frame, token and retry, and each error that they also raise. What matters arrives as DStream's own errors.
_NOISY = ("azure", "psycopg", "py4j", "urllib3")

_PATIENCE_SECONDS = 1.0
"""For a standard error that is full, where nobody may ever read it."""
_PIECE = 4_096
"""Bytes that a pipe which is ready takes without a wait (pipe(7), PIPE_BUF)."""

_secrets: set[str] = set()
_configured: tuple[LogLevel, LogFormat] = ("info", "text")


def configure_logging(level: LogLevel, format: LogFormat, *, waits: bool = True) -> None:
    """Send every log record of this process to stderr. The last call counts.

    `waits`: for as long as stderr takes no more. Otherwise lines are left out, and counted once it takes lines again.
    """
    global _configured
    _configured = (level, format)
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_none,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = _Stderr() if waits else _Unread()
    handler.setFormatter(_formatter(format, shared))
    root = logging.getLogger()
    for earlier in [known for known in root.handlers if isinstance(known, _Stderr)]:
        root.removeHandler(earlier)
    if level != "debug":
        handler.addFilter(_not_py4j)
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING if level == "debug" else logging.CRITICAL)


def logging_as_configured() -> tuple[LogLevel, LogFormat]:
    """The last arguments of `configure_logging`, for a process that must log as this one does."""
    return _configured


def register_secret(value: str) -> None:
    """Mask `value` in every line logged from now on. Also mask each key or password inside it, if it is a connection string or URL."""
    parts = re.findall(r"(?:key|password|pwd|signature)\s*=\s*([^;]+)", value, re.IGNORECASE)
    parts += re.findall(r"://[^:/@]*:([^@/]+)@", value)
    for secret in (value, *parts):
        if len(secret := secret.strip()) >= _SHORTEST:
            # In the forms that renderers write: plain, in JSON, in a repr.
            _secrets.update((secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]))
            _secrets.add(repr(secret)[1:-1])


def register_secrets(settings: object) -> None:
    """Register every SecretStr inside settings: models, dataclasses, mappings and sequences."""
    if isinstance(settings, UnsetSecret):
        return
    if isinstance(settings, SecretStr):
        register_secret(settings.get_secret_value())
    elif isinstance(settings, BaseModel):
        for name in type(settings).model_fields:
            register_secrets(getattr(settings, name))
    elif is_dataclass(settings) and not isinstance(settings, type):
        for item in fields(settings):
            register_secrets(getattr(settings, item.name))
    elif isinstance(settings, Mapping):
        for value in settings.values():
            register_secrets(value)
    elif isinstance(settings, list | tuple):
        for value in settings:
            register_secrets(value)


def masked(text: str) -> str:
    """`text` with every registered secret replaced, the longest first."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


class _Stderr(logging.Handler):
    """Writes to sys.stderr as it is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(masked(self.format(record)) + "\n")
        except Exception:  # the contract of logging: a handler does not raise
            self.handleError(record)

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


class _Unread(_Stderr):
    """For a standard error that nobody may read. Called under the handler's lock, and with lines that end with a line's end."""

    _left_out = 0

    def _write(self, text: str) -> None:
        if self._left_out and self._takes(0):
            count, self._left_out = self._left_out, 0
            event = {"msg": f"{count} log lines were left out: nobody read standard error", "name": "log"}
            told = logging.makeLogRecord({**event, "levelno": logging.WARNING, "levelname": "WARNING"})
            self._write(self.format(told) + "\n")
        rest = memoryview(text.encode())
        while rest and not self._left_out and self._takes(_PATIENCE_SECONDS):
            rest = rest[os.write(sys.stderr.fileno(), rest[:_PIECE]) :]
        self._left_out += bool(rest)

    def _takes(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(sys.stderr.fileno(), select.POLLOUT)
        return bool(poll.poll(seconds * 1000))


def _formatter(format: LogFormat, shared: list[structlog.typing.Processor]) -> logging.Formatter:
    processors: list[structlog.typing.Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if format == "json":
        processors += [structlog.processors.format_exc_info, structlog.processors.EventRenamer("message")]
        processors += [structlog.processors.JSONRenderer(serializer=_to_json)]
    else:
        processors += [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback, sort_keys=False
            )
        ]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=processors)


def _not_py4j(record: logging.LogRecord) -> bool:
    """py4j logs through the root logger, whose level is DStream's."""
    return "py4j" not in Path(record.pathname).parts


def _without_none(logger: Any, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Leave out what has no value (the hint of an error that has none)."""
    return {key: value for key, value in event.items() if value is not None}


def _to_json(event: Any, **options: Any) -> str:
    return json.dumps(event, ensure_ascii=False, **options)
