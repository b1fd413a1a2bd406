"""What a message is as a record of Kafka: key, value, headers. Pure. Refuses what cannot be written; looks at no broker.

The key of a row is a JSON object of its key's columns, `{"ID":180}`, as Debezium writes it with `JsonConverter` and `schemas.enable=false`. Numbers
stay as they are written, so equal keys have equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from json.encoder import encode_basestring as quoted
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol

from common.bus.settings import EnvelopeName
from common.message import Message, Opaque, PropertyValue
from router.envelopes.cloudevents import PREFIX
from router.envelopes.port import NotNative
from router.envelopes.tombstones import tombstone
from router.outputs.rows.keys import NoSuchColumn
from router.outputs.rows.values import Number

ID: Final = "message_id"
"""The header that identifies a message: copies have the same."""

_usual: Final = attrgetter("message_id", "content_type", "session_id", "subject")
_RARE: Final = ("correlation_id", "reply_to", "to")

_OVERHEAD: Final = 70
"""Bytes of a batch's own header, and of a record's."""

_OF_HEADER: Final = 6
"""Bytes of the lengths before a header's name and value, at most."""

Headers = list[tuple[str, str | bytes | None]]


class Record(NamedTuple):
    """`value`: None in a tombstone. `least`, `most`: how many bytes a batch of it alone has without compression, at least and at most."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    least: int
    most: int


class KeyOf(Protocol):
    """The key of a message. `before`: the message before it in the same send."""

    def __call__(self, message: Message, before: Message | None) -> bytes | None: ...


def record(message: Message, key: bytes | None) -> Record:
    """Raises ValueError for text that is not Unicode."""
    value = None if not message.body and message.content_type is None else message.body
    headers, size = _plain(message) or _any(message)
    least = len(key or b"") + len(value or b"") + size
    return Record(key, value, headers, least, least + _OVERHEAD + _OF_HEADER * len(headers))


def _plain(message: Message) -> tuple[Headers, int] | None:
    """The headers of a message whose values are all text in ASCII, as nearly all are, and their bytes. The library writes such text as it is."""
    if not (message.correlation_id is None and message.reply_to is None and message.to is None):
        return None
    properties = message.application_properties
    texts = [*_usual(message), *properties.values()]
    try:
        size = len(whole) if (whole := "".join(texts)).isascii() else None
    except TypeError:  # one is not text, or not there
        return None
    if size is None:
        return None
    names, of_names = _names(tuple(properties))
    return list(zip(names, texts, strict=True)), size + of_names


def _any(message: Message) -> tuple[Headers, int]:
    """The id, what else the message says of itself, and its application properties. Attributes of CloudEvents have the names of its binding to Kafka
    (`ce_id`)."""
    names, _ = _names(tuple(message.application_properties))
    values = (*_usual(message), *message.application_properties.values())
    written = [(name, _octets(value)) for name, value in zip(names, values, strict=True) if value is not None]
    written += [(name, text.encode()) for name in _RARE if (text := getattr(message, name)) is not None]
    return [*written], sum(len(name) + len(octets) for name, octets in written)


@lru_cache(maxsize=256)
def _names(properties: tuple[str, ...]) -> tuple[Sequence[str], int]:
    """What the headers of `_usual` and of these properties are called, and the bytes of that. Messages of a stream have the same ones."""
    found = [ID, "content-type", "session_id", "subject"]
    found += ["ce_" + name.removeprefix(PREFIX) if name.startswith(PREFIX) else name for name in properties]
    return found, sum(len(name.encode()) for name in found)


def _octets(value: PropertyValue) -> bytes:
    if isinstance(value, str):  # nearly all are
        return value.encode()
    match value:
        case bytes():
            return value
        case Opaque():
            return value.octets
        case bool():
            return b"true" if value else b"false"
        case _:
            return repr(value).encode()


def by_session(message: Message, before: Message | None) -> bytes | None:
    """None without a session: the record goes to any partition."""
    return None if message.session_id is None else message.session_id.encode()


class ByRow:
    """The key of the row that a message is about; of the session where it is about none."""

    def __init__(self, columns: Sequence[str], envelope: EnvelopeName, *, wrapped: bool) -> None:
        """`wrapped`: CloudEvents in one JSON object."""
        self._columns = columns
        self._row = _row_in(envelope, wrapped=wrapped)

    def __call__(self, message: Message, before: Message | None) -> bytes | None:
        """Raises NoSuchColumn when a row lacks a column of the key, and NotNative for a body that the envelope did not write."""
        if not message.body:
            if before is None or tombstone(before).message_id != message.message_id:
                raise NotNative("a message without a body does not follow its delete")
            return self(before, None)
        try:
            row = self._row(_load(message.body.decode()))
        except (ValueError, RecursionError, KeyError, IndexError, TypeError) as error:
            raise NotNative(f"the row cannot be found: {type(error).__name__}") from error
        if not row:
            return by_session(message, None)
        if not isinstance(row, dict):
            raise NotNative("the row is not an object")
        return row_key(row, self._columns)


def row_key(row: dict[str, Any], columns: Sequence[str]) -> bytes:
    """Raises NoSuchColumn."""
    if missing := [name for name in columns if name not in row]:
        raise NoSuchColumn(missing[0], sorted(row))
    return b"{" + b",".join(f"{quoted(name)}:{_written(row[name])}".encode() for name in columns) + b"}"


def _written(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    return quoted(value) if isinstance(value, str) else json.dumps(value)


_load: Final = json.JSONDecoder(parse_int=Number, parse_float=Number).decode


def _row_in(envelope: EnvelopeName, *, wrapped: bool) -> Callable[[Any], dict[str, Any] | None]:
    """Finds the row in a body: the row after a change, or the deleted one. None, or an empty one, in what is about no row."""
    match envelope:
        case "debezium":
            return lambda body: body.get("after") or body.get("before")
        case "changes":
            return lambda body: _of_change(body["changes"][0])
        case "cloudevents" if wrapped:
            return lambda body: _of_native(body["data"])
        case _:
            return _of_native


def _of_native(body: Any) -> dict[str, Any] | None:
    row: dict[str, Any] = body["data"]
    return row


def _of_change(change: Any) -> dict[str, Any] | None:
    """What is about no row has its metadata there."""
    row: dict[str, Any] = change["data"]
    return None if change["change_type"] not in ("insert", "update", "delete", "read") else row
