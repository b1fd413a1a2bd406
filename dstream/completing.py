"""Completion of a command line, which a shell asks for by a variable: options and commands by typer, tables from the configuration.

Connects to nothing, and loads nothing that a press of TAB would have to wait for: neither stage, no SDK.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import typer
from typer.models import ParameterInfo

from common.errors import ConfigurationError
from common.names import TableName
from common.table_selection import is_pattern
from dstream.options import DEFAULT

VARIABLE = "_DSTREAM_COMPLETE"
"""Set by the script of `dstream completion`."""

TABLE = "TABLE"
"""The metavar of a parameter that is a table's name."""


def asked() -> bool:
    return VARIABLE in os.environ


def prepare(app: typer.Typer) -> None:
    """Before `app` runs to answer the shell."""
    from typer._completion_classes import completion_init

    completion_init()
    for each in (app, *(group.typer_instance for group in app.registered_groups if group.typer_instance)):
        for command in each.registered_commands:
            if command.callback is not None:
                _complete_tables(command.callback)


def _complete_tables(command: Callable[..., Any]) -> None:
    """Annotations that are text would be read again by typer, so the ones that were changed here take their place."""
    hints = get_type_hints(command, include_extras=True)
    for hint in hints.values():
        for info in getattr(hint, "__metadata__", ()):
            if isinstance(info, ParameterInfo) and TABLE in (info.metavar or "") and info.autocompletion is None:
                info.autocompletion = tables
    command.__annotations__ = inspect.unwrap(command).__annotations__ = hints


def tables(context: typer.Context, incomplete: str) -> list[str]:
    """The configured tables that begin with `incomplete`, in any case. None when the configuration cannot be read."""
    path = context.params.get("config") or Path(os.environ.get("DSTREAM_CONFIG") or DEFAULT)
    begin = incomplete.lower()
    return [name for name in _configured(Path(path)) if name.lower().startswith(begin)]


def _configured(path: Path) -> list[str]:
    from common.config.bind import read
    from common.config.values import Value

    try:
        block = read(path, os.environ).block("ingester")
    except ConfigurationError:
        return []
    entries = () if block is None else (entry for key, _, entry in block.entries if key == "tables")
    texts = (each for entry in entries if isinstance(entry, Value) for each in _texts(entry.data))
    return [name for text in texts if (name := _key(text)) is not None]


def _texts(data: Any) -> list[str]:
    """`data`: a list of values, as far as it could be read."""
    found = (getattr(each, "data", each) for each in data) if isinstance(data, list | tuple) else ()
    return [each for each in found if isinstance(each, str)]


def _key(text: str) -> str | None:
    try:
        return None if is_pattern(text) else TableName.parse(text).key
    except ValueError:
        return None
