"""The values of a row as outputs that apply rows have them: text stays text, and numbers stay as they are written. Rounds nothing."""

from __future__ import annotations

import json
from typing import Final, NoReturn


class Number(str):
    """A JSON number as it is written in the message: `180`, `1e+23`, `0.10`. Made to another type only by who knows which."""

    __slots__ = ()


Value = str | bool | None
"""Of a column: a `Number`, text (decimals, times and binary values too: docs/values.md), a bit, or NULL."""


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_load: Final = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_no_number).decode


def values(row: str) -> dict[str, Value]:
    """The columns of a row, which is a JSON object. Raises ValueError for one with a value that no column has: a list, an object."""
    found: dict[str, Value] = _load(row)
    for name, value in found.items():
        if isinstance(value, (dict, list)):
            raise ValueError(f"column {name} holds a list or an object")
    return found
