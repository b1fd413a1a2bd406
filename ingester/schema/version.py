"""The version of a table's columns: a hash that a message names, so that a consumer sees when they change. Pure.

It is the same in every process, for every capture instance with these columns, and for all time: consumers keep it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Final, NamedTuple

_DIGITS: Final = 12
"""Hexadecimal digits. A table has few versions, so 48 bits cannot meet."""


class SchemaColumn(NamedTuple):
    """A column as a consumer sees it: its name, its type as it is declared, and its place in the key, from 1; None outside the key."""

    name: str
    type: str
    key: int | None = None


def schema_version(columns: Sequence[SchemaColumn]) -> str:
    """The version of these columns, whatever their order: a JSON object has none."""
    text = json.dumps(sorted([name, type_, key or 0] for name, type_, key in columns), separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:_DIGITS]
