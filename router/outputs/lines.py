"""A message as one line of JSON, for outputs that write lines. Pure; refuses what is not JSON, and changes no value.

The body is passed on as its bytes are. Only line ends between its tokens become spaces, because a line must not end there.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, Literal, NoReturn

from common.config.settings import Location
from common.message import Message, Opaque, PropertyValue

_BEGIN, _END = set(b"{"), set(b"}")

Line = Literal["body", "message"]
"""What a line holds: the body alone, or the message with its id, session and properties."""


class NotALine(ValueError):
    """The message cannot be a line; the text says why, and quotes nothing of it."""


def line(message: Message, form: Line) -> bytes:
    """With its line end. Raises NotALine."""
    return (document(message.body) if form == "body" else _whole(message)) + b"\n"


def plain_lines(messages: Sequence[Message]) -> list[bytes] | None:
    """`line` of each body, looked at all at once; None where one of them is not an object that already is on one line, in UTF-8."""
    bodies = [message.body for message in messages]
    if not all(bodies) or {body[0] for body in bodies} != _BEGIN or {body[-1] for body in bodies} != _END:
        return None
    whole = b"".join(bodies)
    if b"\n" in whole or b"\r" in whole:
        return None
    try:
        _text(whole)  # each ends in ASCII, so what is text together is text alone
    except NotALine:
        return None
    return [body + b"\n" for body in bodies]


def binary_without_message(given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    """Where the attributes of CloudEvents would be lost, which are properties in binary mode."""
    if (
        given.get("envelope") == "cloudevents"
        and given.get("cloudevents_mode") == "binary"
        and given.get("line", "body") == "body"
    ):
        yield (
            ("cloudevents_mode",),
            '"binary" needs line = "message": the attributes are properties, which a body does not have',
        )


def document(body: bytes) -> bytes:
    """A body as JSON on one line; `null` for a tombstone, which has none. Raises NotALine."""
    if body[:1] == b"{" and body[-1:] == b"}" and b"\n" not in body and b"\r" not in body:
        _text(body)
        return body
    if not body:
        return b"null"
    try:
        json.loads(_text(body), parse_int=str, parse_float=str, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise NotALine("has a body that is not JSON") from error
    return body.replace(b"\r", b" ").replace(b"\n", b" ")


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise NotALine("has a body that is not text in UTF-8") from error


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _whole(message: Message) -> bytes:
    """A body that is not JSON stands as base64 under another key, so nothing is refused."""
    members = [
        f'"id":{_quoted(message.message_id)}',
        f'"session":{_quoted(message.session_id)}',
        f'"subject":{_quoted(message.subject)}',
        f'"content_type":{_quoted(message.content_type)}',
        f'"properties":{_properties(message.application_properties)}',
    ]
    try:
        body, key = document(message.body), "body"
    except NotALine:
        body, key = b'"' + b64encode(message.body) + b'"', "body_base64"
    return b"{" + ",".join(members).encode() + f',"{key}":'.encode() + body + b"}"


def _quoted(text: str | None) -> str:
    return "null" if text is None else quoted(text)


def _properties(held: Mapping[str, PropertyValue]) -> str:
    return json.dumps({name: _plain(value) for name, value in held.items()}, separators=(",", ":"))


def _plain(value: PropertyValue) -> str | int | float | bool | None:
    """As JSON has it: bytes, and values of a type of the broker's own, in base64; a number that JSON does not have, as text."""
    if isinstance(value, bytes | Opaque):
        return b64encode(value if isinstance(value, bytes) else value.octets).decode("ascii")
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value
