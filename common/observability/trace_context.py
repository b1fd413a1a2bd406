"""W3C Trace Context as values: the names of its fields, and whether a text is one. Knows no library, makes no trace.
https://www.w3.org/TR/trace-context/"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
FIELDS: Final = (TRACEPARENT, TRACESTATE)
"""Names of application properties, and of headers where an output has them."""

_LONGEST: Final = 128
_FORM = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<more>-[0-9a-z-]*)?"
)

_STATE = re.compile(r"[\t\x20-\x7e]{1,512}")


def traceparent(value: object) -> str | None:
    """`value` if it is a traceparent, without the blanks around it, which a column of fixed width adds; None for anything else."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    found = _FORM.fullmatch(text) if len(text) <= _LONGEST and text.isascii() else None
    if found is None or (found["more"] and found["version"] == "00"):
        return None
    return text


def held(properties: Mapping[str, object]) -> dict[str, str]:
    """The context in a message's properties, by the name of the field. Any sender may have written them: an invalid value is left
    out, and so is a state without a context."""
    context = traceparent(properties.get(TRACEPARENT))
    if context is None:
        return {}
    state = properties.get(TRACESTATE)
    return {TRACEPARENT: context} | ({TRACESTATE: state} if isinstance(state, str) and _STATE.fullmatch(state) else {})
