"""Properties of a message as headers, for protocols whose headers are ASCII text. Pure.

Everything but printable ASCII is escaped as CloudEvents' bindings escape it (`%` and two digits for each byte of UTF-8), which a receiver undoes
as it does in a URL: https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/http-protocol-binding.md#3132-http-header-values
"""

from __future__ import annotations

import base64
import re

from common.message import Opaque, PropertyValue

ATTRIBUTE = "cloudEvents:"
"""What begins the name of a property that is an attribute of CloudEvents; as a header it begins with `ce-`."""

_ESCAPED = re.compile(r"[^!#$&-~]")


class Unwritable(ValueError):
    """The protocol cannot express the message: in words."""


def text_of(value: PropertyValue) -> str | None:
    """None for a value whose type is not known."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return None if isinstance(value, Opaque) else str(value)


def escaped(text: str) -> str:
    """Raises Unwritable for a lone surrogate, which is not Unicode."""
    try:
        return _ESCAPED.sub(_percent, text)
    except UnicodeEncodeError as error:
        raise Unwritable(f"it has text that is not Unicode: {error.reason}") from error


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())
