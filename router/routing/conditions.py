"""The `when` of a route, asked for a message. The properties answer where they have what it names; else the body is read, once for all routes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NoReturn

from common.cel.filters import BEFORE, DATA, METADATA, Filter, FilterFailed
from common.message import Message, Property

OF_PROPERTIES: Final = {
    "OperationType": Property.OPERATION,
    "TableName": Property.TABLE,
    "Schema": Property.SCHEMA,
    "Database": Property.DATABASE,
    "LSN": Property.LSN,
    "Destination": Property.DESTINATION,
    "SchemaVersion": Property.SCHEMA_VERSION,
}
"""What of `metadata` a message has as application properties as well."""

_Row = Mapping[str, object]
_NOTHING: Final[_Row] = {}


class Asked:
    """One message, and the answers of its routes."""

    __slots__ = ("_body", "_message")

    def __init__(self, message: Message) -> None:
        self._message = message
        self._body: tuple[_Row, _Row | None, _Row] | None = None

    def fits(self, when: Filter) -> bool:
        """Raises FilterFailed, also for a body that cannot be read."""
        held = self._message.application_properties
        named = when.fields[METADATA]
        if named is not None and not when.fields[DATA] and when.fields[DATA] is not None and not when.uses_before:
            found = {name: held[OF_PROPERTIES[name]] for name in named if OF_PROPERTIES.get(name) in held}
            if len(found) == len(named):
                return when(_NOTHING, None, found)
        if self._body is None:
            self._body = _read(self._message.body)
        return when(*self._body)


def _read(body: bytes) -> tuple[_Row, _Row | None, _Row]:
    """`data`, `before` and `metadata` of a native message."""
    try:
        found = json.loads(body, parse_int=_whole, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise FilterFailed(f"the body is not JSON: {type(error).__name__}") from None
    if not isinstance(found, dict) or not isinstance(found.get("metadata"), dict):
        raise FilterFailed("the body is not a change: it has no metadata")
    data, before = found.get("data", {}), found.get("before")
    if not isinstance(data, dict) or not isinstance(before, dict | None):
        raise FilterFailed("the body is not a change: its data is not an object")
    return _readable(data), None if before is None else _readable(before), _readable(found["metadata"])


def _readable(row: Mapping[str, object]) -> dict[str, object]:
    """Half a surrogate pair is no text for the library: it stands as U+FFFD."""
    return {name: _paired(value) for name, value in row.items()}


def _paired(value: object) -> object:
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def _whole(text: str) -> int | float:
    """An int of CEL has 64 bits; a longer number is a double."""
    if len(text) > 20:
        return float(text)
    number = int(text)
    return number if -(2**63) <= number < 2**63 else float(number)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def cheap(when: Filter) -> bool:
    """Whether the properties suffice, for a log line and `dstream check`."""
    named = when.fields[METADATA]
    return (
        named is not None
        and named <= OF_PROPERTIES.keys()
        and when.fields[DATA] is not None
        and not when.fields[DATA]
        and when.fields[BEFORE] is not None
        and not when.uses_before
    )
