"""Changes as HTTP requests: body and headers. Pure; knows no client."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.message import Message, Opaque
from common.observability import trace_context
from router.outputs.headers import ATTRIBUTE, Unwritable, escaped, text_of

PREFIX = "x-dstream-"
_STRUCTURED = "application/cloudevents+json"
_BATCHED = "application/cloudevents-batch+json; charset=utf-8"
_JSON = "application/json"

_NOT_IN_NAMES = re.compile(r"[^0-9a-z-]+")


@dataclass(frozen=True, slots=True)
class Request:
    """`id`: what the receiver removes duplicates by; the same whenever the same changes are sent again."""

    id: str
    headers: Mapping[str, str]
    body: bytes


def of_one(message: Message) -> Request:
    """The change as it is. Raises Unwritable."""
    found = {}
    for name, value in message.application_properties.items():
        if (text := text_of(value)) is not None:
            found[_header(name)] = escaped(text)
    if message.session_id is not None:
        found[f"{PREFIX}session"] = escaped(message.session_id)
    if message.subject is not None:
        found[f"{PREFIX}subject"] = escaped(message.subject)
    found["content-type"] = _content_type(message)
    return _request(_id(message), found, message.body)


def of_many(messages: Sequence[Message]) -> Request:
    """Changes of one session as a JSON array, in order. Raises Unwritable."""
    ids = [_id(each) for each in messages]
    found = {"content-type": _JSON}
    if all((each.content_type or "").startswith(_STRUCTURED) for each in messages):
        found["content-type"] = _BATCHED
        elements = [each.body for each in messages]
    else:
        elements = [_element(each) for each in messages]
    if messages[0].session_id is not None:
        found[f"{PREFIX}session"] = escaped(messages[0].session_id)
    digest = hashlib.sha256("\n".join(ids).encode()).hexdigest()
    return _request(digest, found, b"[" + b",".join(elements) + b"]")


def _request(id: str, headers: dict[str, str], body: bytes) -> Request:
    headers["webhook-id"] = headers["idempotency-key"] = id
    return Request(id, headers, body)


def _element(message: Message) -> bytes:
    """`body` is the change's own text where that is JSON; no number in it is read and written again."""
    described = {
        "id": message.message_id,
        "session": message.session_id,
        "properties": {
            name: value if not isinstance(value, (bytes, Opaque)) else text_of(value)
            for name, value in message.application_properties.items()
        },
    }
    try:
        head = json.dumps(described, allow_nan=False).encode("ascii")[:-1]
    except ValueError as error:
        raise Unwritable(f"a property is not a number that JSON has: {error}") from error
    if not message.body:
        return head + b', "body": null}'
    if _is_json(message.body):
        return head + b', "body": ' + message.body + b"}"
    return head + b', "body_base64": "' + base64.b64encode(message.body) + b'"}'


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body.decode(), parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(name: str) -> None:
    raise ValueError(name)


def _id(message: Message) -> str:
    if not message.message_id:
        raise Unwritable("it has no message id, by which a receiver could know a copy")
    return escaped(message.message_id)


def _content_type(message: Message) -> str:
    text = message.content_type or "application/octet-stream"
    if not re.fullmatch(r"[\x20-\x7e]+", text) or text != text.strip():
        raise Unwritable("its content type is not ASCII text without blanks at its ends")
    return text


def _header(name: str) -> str:
    """The header of an application property: `x-dstream-schema-version` for `schema_version`; `ce-` for an attribute of CloudEvents.
    Those of W3C Trace Context have their own."""
    if name in trace_context.FIELDS:
        return name
    if name.startswith(ATTRIBUTE):
        return f"ce-{name.removeprefix(ATTRIBUTE).lower()}"
    return PREFIX + _NOT_IN_NAMES.sub("-", name.lower())
