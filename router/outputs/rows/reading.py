"""Reads the bytes that the ingester writes by one call of a fast parser. Pure. Anything else is left to `router.envelopes.native`.

The row's text is passed on as it stands, because the parser rounds numbers: what needs all digits takes them from the text.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson

_START: Final = b'{"data":{'
_BETWEEN: Final = b'},"metadata":{'
_ORDER: Final = ["data", "metadata"]


class Read(NamedTuple):
    """`text`: `data` as JSON. `row`, `before`: numbers may have lost digits."""

    text: str
    row: dict[str, Any]
    before: dict[str, Any] | None
    metadata: dict[str, Any]


def quickly(body: bytes) -> Read | None:
    """None for what is not written as the ingester writes it, and for a row with a value that no column has: a list, an object."""
    end = body.find(_BETWEEN)
    if end < 0 or not body.startswith(_START):
        return None
    try:
        whole = orjson.loads(body)
        text = body[len(_START) - 1 : end + 1].decode()
    except ValueError:
        return None
    row, metadata, before = whole["data"], whole["metadata"], whole.get("before")
    if (
        [*whole][:2] != _ORDER
        or not (type(row) is type(metadata) is dict)
        or not (before is None or type(before) is dict)
    ):
        return None
    if ("[" in text or "{" in text[1:]) and any(type(value) in (dict, list) for value in row.values()):
        return None  # a value may hold what looks like the end of the row
    return Read(text, row, before, metadata)
