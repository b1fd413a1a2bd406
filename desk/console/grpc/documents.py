"""Documents to messages of protobuf and back, by their descriptors: no document has a converter of its own.

An absent field is null in a document, or its default. What a client sends is judged by the document, as with HTTP.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from google.protobuf import descriptor
from pydantic import ValidationError

from common.errors import ConfigurationError
from desk.documents.shape import Document

D = TypeVar("D", bound=Document)

_STRUCT, _TIMESTAMP = "google.protobuf.Struct", "google.protobuf.Timestamp"
_WRAPPERS = ("dstream.v1.Key", "dstream.v1.Routes", "dstream.v1.Sequences")
"""Lists and maps that may be null: their `values` in a message of their own, so that an empty list is not taken for none given."""

_EXACT = 2**53
"""Numbers of a Struct are doubles: larger whole numbers would be another number. They are sent as text."""


def fill(into: Any, document: Document) -> Any:
    """`into`, a new message, with what the document says. Returns it."""
    for field in into.DESCRIPTOR.fields:
        value = getattr(document, field.name)
        if value is not None:
            _put(into, field, value)
    return into


def fill_all(into: Any, documents: Iterable[Document]) -> None:
    """`into`: a repeated field."""
    for document in documents:
        fill(into.add(), document)


def _put(into: Any, field: Any, value: Any) -> None:
    if _is_map(field):
        getattr(into, field.name).update({_text(key): _scalar(each) for key, each in value.items()})
    elif field.is_repeated and field.message_type is not None:
        for each in value:
            _put_message(getattr(into, field.name).add(), each)
    elif field.is_repeated:
        getattr(into, field.name).extend(_scalar(each) for each in value)
    elif field.message_type is not None:
        getattr(into, field.name).SetInParent()
        _put_message(getattr(into, field.name), value)
    else:
        setattr(into, field.name, _scalar(value))


def _put_message(into: Any, value: Any) -> None:
    kind = into.DESCRIPTOR.full_name
    if kind == _STRUCT:
        _put_struct(into, value)
    elif kind == _TIMESTAMP:
        into.FromDatetime(value if value.tzinfo else value.replace(tzinfo=UTC))
    elif kind in _WRAPPERS:
        _put(into, into.DESCRIPTOR.fields_by_name["values"], value)
    else:
        fill(into, value)


def _put_struct(into: Any, value: Mapping[str, Any]) -> None:
    for key, each in value.items():
        _put_value(into.fields[_text(str(key))], each)


def _put_value(into: Any, value: Any) -> None:
    if value is None:
        into.null_value = 0
    elif isinstance(value, bool):
        into.bool_value = value
    elif (isinstance(value, int) and abs(value) <= _EXACT) or (isinstance(value, float) and math.isfinite(value)):
        into.number_value = value
    elif isinstance(value, Mapping):
        into.struct_value.SetInParent()
        _put_struct(into.struct_value, value)
    elif isinstance(value, bytes | bytearray):
        into.string_value = bytes(value).decode("utf-8", "replace")
    elif isinstance(value, Sequence) and not isinstance(value, str):
        into.list_value.SetInParent()
        for each in value:
            _put_value(into.list_value.values.add(), each)
    else:
        into.string_value = _text(value.isoformat() if isinstance(value, datetime) else str(value))


def _scalar(value: Any) -> Any:
    return _text(value) if isinstance(value, str) else value


def _text(value: str) -> str:
    """Protobuf's strings are UTF-8: a lone half of a surrogate pair, which JSON can hold, is replaced."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def read(document: type[D], message: Any, where: str = "") -> D:
    """The document that a message means. Raises ConfigurationError with each problem and its place, and never a value."""
    try:
        return document.model_validate(_fields(message))
    except ValidationError as error:
        problems = [
            ".".join([*filter(None, [where]), *map(str, problem["loc"])]) + f": {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise ConfigurationError(problems, hint="api/dstream.proto describes each message") from None


def _fields(message: Any) -> dict[str, Any]:
    """What is set."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            found[field.name] = dict(value)
        elif field.is_repeated:
            found[field.name] = [_value(field, each) for each in value]
        elif not field.has_presence or message.HasField(field.name):
            found[field.name] = _value(field, value)
    return found


def _value(field: Any, value: Any) -> Any:
    if field.type != descriptor.FieldDescriptor.TYPE_MESSAGE:
        return value
    read_as: Callable[[Any], Any] = _READ_AS.get(field.message_type.full_name, _fields)
    return read_as(value)


def _moment(value: Any) -> Any:
    try:
        return value.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ConfigurationError(["a Timestamp is outside the years 1 to 9999"]) from None


def _struct(value: Any) -> dict[str, Any]:
    return {key: _any(each) for key, each in value.fields.items()}


def _any(value: Any) -> Any:
    """A double without a fraction is a whole number, as in JSON: `page_rows = 500` is one."""
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        number = value.number_value
        if not math.isfinite(number):
            raise ConfigurationError(["a Struct holds a number that is none (NaN or infinite)"])
        return int(number) if number.is_integer() and abs(number) <= _EXACT else number
    if kind == "struct_value":
        return _struct(value.struct_value)
    if kind == "list_value":
        return [_any(each) for each in value.list_value.values]
    return None if kind in (None, "null_value") else getattr(value, kind)


_READ_AS: Mapping[str, Callable[[Any], Any]] = {
    _STRUCT: _struct,
    _TIMESTAMP: _moment,
    **dict.fromkeys(_WRAPPERS, lambda value: _fields(value)["values"]),
}
