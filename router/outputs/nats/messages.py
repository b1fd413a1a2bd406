"""Changes as NATS messages: headers, and what they take on the wire. Pure; knows no client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from common.message import Message
from router.outputs.headers import ATTRIBUTE, Unwritable, escaped, text_of

ID, LAST_ID, EXPECTED_STREAM = "Nats-Msg-Id", "Nats-Expected-Last-Msg-Id", "Nats-Expected-Stream"
SESSION = "DStream-Session"

_REFUSED_IN_NAMES = re.compile(r"[^!#$%&'*+.^_`|~0-9A-Za-z-]")
_BEGIN_AND_END = len("NATS/1.0\r\n\r\n")
_A_LINE = len(": \r\n")

__all__ = ["Outgoing", "Unwritable", "outgoing"]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """`id`: None for a message of another sender that has none."""

    id: str | None
    headers: Mapping[str, str]
    body: bytes

    @property
    def size(self) -> int:
        """Of headers and body, as the server counts it; what a chain adds to the headers included."""
        lines = sum(len(name) + len(value) + _A_LINE for name, value in self.headers.items())
        chain = 0 if self.id is None else len(LAST_ID) + len(self.id) + _A_LINE
        return _BEGIN_AND_END + lines + chain + len(self.body)

    def after(self, previous: str | None) -> Mapping[str, str]:
        """The headers, with which the server takes it only directly after the message with this id; None: after any."""
        return self.headers if previous is None else {**self.headers, LAST_ID: previous}


def outgoing(message: Message, stream: str) -> Outgoing:
    """To be taken by `stream` and by no other. Raises Unwritable."""
    headers: dict[str, str] = {}
    for name, value in message.application_properties.items():
        if (text := text_of(value)) is not None:
            headers[_name(name)] = escaped(text)
    if message.content_type is not None:
        headers["Content-Type"] = escaped_type(message.content_type)
    if message.session_id is not None:
        headers[SESSION] = escaped(message.session_id)
    headers[EXPECTED_STREAM] = stream
    id = escaped(message.message_id) if message.message_id else None
    if id is not None:
        headers[ID] = id
    return Outgoing(id, headers, message.body)


def escaped_type(text: str) -> str:
    """A content type as it is: spaces may be in it."""
    if not re.fullmatch(r"[\x20-\x7e]+", text):
        raise Unwritable("its content type is not ASCII text")
    return text


def _name(name: str) -> str:
    """`ce-` for an attribute of CloudEvents; no property can pass for a header that the server acts on."""
    if name.startswith(ATTRIBUTE):
        return f"ce-{name.removeprefix(ATTRIBUTE).lower()}"
    text = _REFUSED_IN_NAMES.sub("-", name) or "-"
    return f"x-{text}" if text.lower().startswith("nats-") else text
