"""A row as a document. Pure. Values stay as the message has them, and the name of a column is changed only where no field can have it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from common.names import escaped
from router.outputs.rows.change import Key, RowChange
from router.outputs.rows.values import Number, Value

OWN: Final = "_dstream"
"""The field that DStream adds: `position`, and `deleted` in the mark of a deleted row. No column's field begins with `_`."""
POSITION: Final = f"{OWN}.position"
DELETED: Final = f"{OWN}.deleted"

_REFUSED = re.compile(r"_(?=x)|^_|^\s|\.")
"""`_id` and its like belong to the server, a dot would make an object, and a blank name is refused."""


def row_document(change: RowChange) -> str:
    """In one line. A column that capture lacks is not in it."""
    own = f'{{"{OWN}":{{"position":"{change.position.text}"}}'
    row = change.text
    if not _plain(tuple(change.shown)) or "\n" in row or "\r" in row:
        return _joined(own, _members(change.row.items()))
    return _joined(own, row.strip()[1:-1])


def mark_document(change: RowChange, columns: Sequence[str], key: Key) -> str:
    """What stands for a deleted row: its key alone."""
    own = f'{{"{OWN}":{{"position":"{change.position.text}","deleted":true}}'
    return _joined(own, _members(zip(columns, key, strict=True)))


@lru_cache(maxsize=4096)
def field_of(column: str) -> str:
    """The field of a column: its name, with `_xHHHH_` for characters that no field can have there."""
    return escaped(column, _REFUSED)


@lru_cache(maxsize=1024)
def _plain(columns: tuple[str, ...]) -> bool:
    return all(field_of(column) == column for column in columns)


def _members(row: Iterable[tuple[str, Value]]) -> str:
    return ",".join(f"{_text(field_of(name))}:{_text(value)}" for name, value in row)


def _text(value: Value) -> str:
    return str(value) if isinstance(value, Number) else json.dumps(value)


def _joined(own: str, members: str) -> str:
    return f"{own},{members}}}" if members.strip() else f"{own}}}"
