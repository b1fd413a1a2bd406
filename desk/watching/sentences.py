"""Words from which titles of troubles are made. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_NAMED = 3


def listed(parts: Sequence[str]) -> str:
    """`offsets, tables and capture`; of many the first ones, and how many more there are."""
    named = list(dict.fromkeys(parts))
    if len(named) > _NAMED + 1:
        named = [*named[:_NAMED], f"{len(named) - _NAMED} more"]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def begun(text: str) -> str:
    """As a sentence begins. A name with a dot in it stays as it is."""
    first = text.split(" ", 1)[0]
    return text if "." in first else text[:1].upper() + text[1:]
