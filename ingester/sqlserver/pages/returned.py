"""The columns that a statement returns, where the catalog does not say: a login that may only call the published functions sees the source
table's types, which are ahead of the change table until capture has come to an ALTER COLUMN. So the server is asked. Pure.

Refuses to guess: without an answer nothing is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from common.errors import TransientError
from ingester.source import CapturedColumn
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.errors import meaning
from ingester.sqlserver.sql.declared import declared

Answer = Sequence[Sequence[Any]]
"""Of each column its name, type, length, precision and scale; or the errors for which there is none."""

_OF_DESCRIBING: Final = range(11500, 11600)
"""Errors that say only that nothing can be described. The reason is in another row.
https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors-11000-to-12999"""


def stamp_of(answer: Answer) -> str:
    """Differs for other columns."""
    return hashlib.sha256(repr([tuple(row) for row in answer]).encode()).hexdigest()


def as_returned(instance: ChangeTable, answer: Answer) -> ChangeTable:
    """`instance` with the types that are read. Raises PermanentError, TransientError."""
    doing = f"reading {instance.table.key}"
    if errors := [(number, text or "") for *_, number, text in answer if number is not None]:
        number, text = next((each for each in errors if each[0] not in _OF_DESCRIBING), errors[0])
        raise meaning(number, text, f"{doing}: asking what {instance.name} returns")
    found = {name: kind for name, *kind, _, _ in answer}
    if missing := [column.name for column in instance.columns if column.name not in found]:
        raise TransientError(f"{doing}: capture instance {instance.name} no longer returns column {missing[0]!r}")
    columns = tuple(_as_returned(column, *found[column.name]) for column in instance.columns)
    return replace(instance, columns=columns, returned=stamp_of(answer))


_NAMELESS: Final = "unknown"
"""A type of .NET that this login may not see; none of those that DStream supports."""


def _as_returned(column: CapturedColumn, kind: str | None, length: int, precision: int, scale: int) -> CapturedColumn:
    name = (kind or _NAMELESS).lower()
    text = declared(name, length, precision, scale)
    return replace(column, type=name, length=length, large=length == -1, declared=text)
