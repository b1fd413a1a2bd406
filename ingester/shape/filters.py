"""Filters of tables: a CEL expression over a change as it was read, whose values may be written already (common/cel/filters.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache

from common.cel import filters
from common.cel.filters import Filter, Plain


def compile_filter(text: str) -> Filter:
    """As `common.cel.filters.compile_filter`."""
    return filters.compile_filter(text, _plain())


@cache
def _plain() -> Plain:
    """For values that the reader made. A router reads the same settings, and may be installed without orjson."""
    try:
        from orjson import Fragment, dumps
    except ModuleNotFoundError:
        return filters.plain

    def plain(value: object) -> object:
        if isinstance(value, Fragment):
            return _told(dumps(value))
        if isinstance(value, Mapping):
            return {str(name): plain(each) for name, each in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, str):
            return [plain(each) for each in value]
        return filters.plain(value)

    return plain


def _told(written: bytes) -> object:
    """The value of JSON as it is written: a number is a double, whatever its digits; half a surrogate pair is U+FFFD."""
    value = json.loads(written, parse_int=float)
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value
