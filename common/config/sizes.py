"""Sizes of memory (`256MB`, `1GB`), read into bytes. Refuses a number without a unit, and never guesses one."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import PlainValidator

_UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_FORM = re.compile(r"([0-9]{1,9})\s*([KMG]B)", re.IGNORECASE | re.ASCII)
_WORDS = 'must be a size such as "64MB" or "1GB", in quotes'


class Size(int):
    """Bytes. As text they are in the largest whole unit."""

    def __str__(self) -> str:
        for unit in ("GB", "MB", "KB"):
            if self >= _UNITS[unit] and not self % _UNITS[unit]:
                return f"{int(self) // _UNITS[unit]}{unit}"
        return f"{int(self)} bytes"


def parse_size(text: str) -> Size:
    """Units are powers of 1024. Raises ValueError (without the text: it may come from the environment)."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(_WORDS)
    return Size(int(found[1]) * _UNITS[found[2].upper()])


def _read(value: Any) -> Size:
    if isinstance(value, Size):
        return value
    if not isinstance(value, str):
        raise ValueError(_WORDS)
    return parse_size(value)


MemorySize = Annotated[Size, PlainValidator(_read)]
