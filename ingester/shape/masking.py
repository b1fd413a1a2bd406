"""What a mask makes of values. A hash is that of Debezium's `column.mask.hash.v2`: of the salt and the value's text, in hexadecimal digits.

Values are those of docs/values.md, never None: NULL stays NULL. Where Debezium leaves a column as it is because it is not text, its value as
it would be sent is hashed.
https://debezium.io/documentation/reference/stable/connectors/sqlserver.html#sqlserver-property-column-mask-hash
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Final

import orjson

from common.config.values import Problem, complain
from ingester.shape.mask import ALGORITHMS, Mask
from ingester.source import CapturedColumn

Masking = Callable[[object], object]

REDACTED: Final = "***"
_BYTES_A_CHARACTER = {"char": 1, "varchar": 1, "nchar": 2, "nvarchar": 2, "sysname": 2}


def masking(mask: Mask, column: CapturedColumn) -> Masking:
    """Raises ConfigurationError for a salt whose environment variable is not set."""
    if mask.unset is not None:
        raise complain(mask.unset.path, [Problem(mask.unset.line, mask.unset.complaint())])
    if mask.kind == "hash":
        return _hashing(mask, characters(column))
    if mask.kind == "truncate":
        return _truncating(mask.length)
    return _redacted if mask.kind == "redact" else _nothing


def characters(column: CapturedColumn) -> int | None:
    """How many characters fit into a column of text; None without a limit, and for other types."""
    each = _BYTES_A_CHARACTER.get(column.type.lower())
    return column.length // each if each is not None and column.length is not None and column.length > 0 else None


def _hashing(mask: Mask, most: int | None) -> Masking:
    begun = hashlib.new(ALGORITHMS[mask.algorithm], mask.salt.encode("utf-8"), usedforsecurity=False)

    def hashed(value: object) -> object:
        digest = begun.copy()
        # Java writes a question mark for half a surrogate pair as well.
        digest.update(_text(value).encode("utf-8", "replace"))
        return digest.hexdigest()[:most]

    return hashed


def _truncating(length: int) -> Masking:
    def truncated(value: object) -> object:
        if isinstance(value, str):
            return value[:length]
        text = _text(value)[:length]
        half = any("\ud800" <= one <= "\udfff" for one in text)
        return orjson.Fragment(json.dumps(text)) if half else text

    return truncated


def _redacted(value: object) -> object:
    return REDACTED


def _nothing(value: object) -> object:
    return None


def _text(value: object) -> str:
    """A value as text; of a JSON text its characters, of anything else what JSON has."""
    if isinstance(value, str):
        return value
    text = orjson.dumps(value).decode("ascii")
    return str(json.loads(text)) if text.startswith('"') else text
