"""Reads the native envelope (common/message.py) so that another one can be made of it. The text of each value stays as it is.

`data` and `before` are found and checked, and never parsed into numbers: a decimal of 38 digits, a float and an escaped lone surrogate pass as
the ingester wrote them. Only `metadata` is read.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple, NoReturn

from router.envelopes.port import NotNative


class Native(NamedTuple):
    """A message of the ingest queue. `data`, `before` and `described` (which is `metadata`): JSON text; the others: what `metadata` says."""

    data: str
    before: str | None
    metadata: dict[str, Any]
    described: str
    server: str
    database: str
    schema: str
    table: str
    event_id: str
    operation: str
    operation_id: int
    lsn: str
    command_id: int
    seqval: str
    commit_time: str | None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_skip: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_number).raw_decode
"""Checks a value and finds its end. Its numbers are not made: the longest that Python reads has 4,300 digits."""

_load: Final = json.JSONDecoder(parse_constant=_no_number).raw_decode
_blank: Final = re.compile(r"[ \t\n\r]*").match
_lsn: Final = re.compile(r"[0-9a-fA-F]{20}").fullmatch


def read(body: bytes) -> Native:
    """Raises NotNative."""
    try:
        return _native(body.decode())
    except NotNative:
        raise
    except (ValueError, RecursionError) as error:
        raise NotNative(f"the body cannot be read: {type(error).__name__}: {error}") from error


def _native(text: str) -> Native:
    found = _members(text)
    if "data" not in found or "metadata" not in found:
        raise NotNative("the body has no data or no metadata: it is not a change as the ingester writes it")
    metadata, start, end = found["metadata"]
    if not isinstance(metadata, dict):
        raise NotNative("metadata is not an object")
    return Native(
        _object(text, "data", found["data"]),
        _object(text, "before", found["before"]) if "before" in found else None,
        metadata,
        text[start:end],
        _name(metadata, "Server"),
        _name(metadata, "Database"),
        _name(metadata, "Schema"),
        _name(metadata, "TableName"),
        _name(metadata, "EventID"),
        _name(metadata, "OperationType"),
        _number(metadata, "OperationID"),
        _place(metadata, "LSN"),
        _number(metadata, "CommandID"),
        _place(metadata, "SeqVal"),
        None if metadata.get("CommitTime") is None else _name(metadata, "CommitTime"),
    )


def _members(text: str) -> dict[str, tuple[Any, int, int]]:
    """The value of each key of the object, and where it begins and ends; of a key that is there twice, the last. Only `metadata` has numbers."""
    found: dict[str, tuple[Any, int, int]] = {}
    at = _beyond(text, 0)
    if text[at : at + 1] != "{":
        raise NotNative("the body is not a JSON object")
    at = _beyond(text, at + 1)
    if text[at : at + 1] != "}":
        while True:
            if text[at : at + 1] != '"':
                raise NotNative(f"the body is not a JSON object: no key at character {at}")
            key, at = _skip(text, at)
            start = _colon(text, at)
            value, end = (_load if key == "metadata" else _skip)(text, start)
            found[key] = (value, start, end)
            at = _beyond(text, end)
            if text[at : at + 1] != ",":
                break
            at = _beyond(text, at + 1)
    if text[at : at + 1] != "}" or _beyond(text, at + 1) != len(text):
        raise NotNative(f"the body is not a JSON object: unexpected text at character {at}")
    return found


def _colon(text: str, at: int) -> int:
    """Where the value begins whose key ends at `at`."""
    at = _beyond(text, at)
    if text[at : at + 1] != ":":
        raise NotNative(f"the body is not a JSON object: no colon at character {at}")
    return _beyond(text, at + 1)


def _beyond(text: str, at: int) -> int:
    found = _blank(text, at)
    return at if found is None else found.end()


def _object(text: str, key: str, member: tuple[Any, int, int]) -> str:
    value, start, end = member
    if not isinstance(value, dict):
        raise NotNative(f"{key} is not an object")
    return text[start:end]


def _name(metadata: dict[str, Any], key: str) -> str:
    found = metadata.get(key)
    if not isinstance(found, str) or not found:
        raise NotNative(f"metadata.{key} is missing or is not text")
    if not found.isascii():
        found.encode()  # raises ValueError for a lone surrogate, which could not be written
    return found


def _number(metadata: dict[str, Any], key: str) -> int:
    found = metadata.get(key)
    if type(found) is not int:
        raise NotNative(f"metadata.{key} is missing or is not a whole number")
    return found


def _place(metadata: dict[str, Any], key: str) -> str:
    if _lsn(found := _name(metadata, key)) is None:
        raise NotNative(f"metadata.{key} does not have 20 hexadecimal digits")
    return found.lower()
