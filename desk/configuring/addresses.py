"""Addresses (URLs) as a person may see them: scheme, host and port. Pure.

Who logs in, and what follows `?` or `#`, is masked in each; of the address of a webhook the path as well, because many receivers have their key
there. Refuses to guess which words of a path are harmless.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from common.observability.logs import MASK
from desk.configuring.hcl.literals import PLACEHOLDER
from desk.configuring.hcl.original import without_expressions

WHOLE: Final = frozenset({"url"})
"""Settings of which the path is masked, too."""
_PLACE: Final = "topic"
"""Of a route to a webhook: an address, or the part of one behind the host."""

_LOGIN = re.compile(r"://([^/?#\s\"]+)@")
_END = r"(?=\\?[\"']?[ \t]*$)"
_QUERY = re.compile(rf"://[^?#\n\"]*[?#]([^\n]*?){_END}", re.MULTILINE)
_PATH = re.compile(rf"://[^/?#\s\"]*[/?#]([^\n]*?){_END}", re.MULTILINE)
_IS_ADDRESS = re.compile(r"\"?\s*(?:/|https?://)", re.IGNORECASE)
_DEFAULT = re.compile(r""",\s*(\\"|"|')((?:\\.|[^\\])*?)\1""", re.DOTALL)


def hidden_parts(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Where a value of the setting `name` must be masked. `text`: with U+E000 in the place of what an expression gives."""
    whole = name in WHOLE or (name == _PLACE and _IS_ADDRESS.match(text) is not None)
    patterns = (_LOGIN, _PATH if whole else _QUERY)
    found = [each.span(1) for pattern in patterns for each in pattern.finditer(text) if each[1]]
    if whole and "://" not in text:  # where the host stands is not seen
        found = [each.span() for each in re.finditer(rf"[^{PLACEHOLDER}\s\"]+", text)]
    yield from found


def hidden_in_file(piece: str, name: str) -> Iterator[tuple[int, int]]:
    """The same of a value as the file writes it, with what expressions take where their variable is not set."""
    marked = without_expressions(piece, PLACEHOLDER)
    found = list(hidden_parts(marked, name))
    yield from found
    for expression in re.finditer(f"{PLACEHOLDER}+", marked):
        if not any(start < expression.end() and expression.start() < end for start, end in found):
            for default in _DEFAULT.finditer(piece, *expression.span()):
                begin = default.start(2)
                yield from ((begin + start, begin + end) for start, end in hidden_parts(default[2], name))


def address_shown(value: Any, name: str) -> Any:
    """A value as a configuration is read, with its parts masked; lists and maps each for itself."""
    if isinstance(value, list):
        return [address_shown(each, name) for each in value]
    if not isinstance(value, str):
        return value
    alike = re.sub(f"{PLACEHOLDER}.*?{PLACEHOLDER}", lambda each: PLACEHOLDER * len(each[0]), value)
    for start, end in sorted(hidden_parts(alike, name), reverse=True):
        value = value[:start] + MASK + value[end:]
    return value


def masked_again(value: str, name: str) -> bool:
    """Whether a value of an order holds a mask: nobody means it."""
    return MASK in value and (name in WHOLE or name == _PLACE or "://" in value)


def has_hidden_part(value: Any, name: str) -> bool:
    return bool(address_shown(value, name) != value)
