"""The id of a row's document from its key. Pure: one key has one id for ever, and two keys never share one."""

from __future__ import annotations

import hashlib
import json
from typing import Final

from router.outputs.rows.change import Key
from router.outputs.rows.values import Number, Value

LIMIT: Final = 512
"""Bytes of an id, the limit of both products."""


def id_of(key: Key) -> str:
    """A key of one column is its value as text; anything else is a JSON array: `180`, `Prague`, `["A",7]`.

    An array is also what has no plain text: NULL, an empty text, half a surrogate pair, and what begins with `[`. An id that would be longer than
    the limit is `[#` and the SHA-256 of what it would be.
    """
    if len(key) == 1 and isinstance(text := key[0], str) and text and text[0] != "[" and _written(text):
        made = text
    else:
        made = "[" + ",".join(map(_json, key)) + "]"
    if len(made.encode()) <= LIMIT:
        return made
    return "[#" + hashlib.sha256(made.encode()).hexdigest()


def _json(value: Value) -> str:
    if isinstance(value, Number):
        return str(value)
    return json.dumps(value, ensure_ascii=not (isinstance(value, str) and _written(value)))


def _written(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
