"""Addresses (URLs) as a person may see them: scheme, host and port. Pure.

Who logs in, and what follows `?` or `#`, is masked in each; of the address of a webhook the path as well, because many receivers have their key
there. Refuses to guess which words of a path are harmless, and what an expression gives that it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from common.observability.logs import MASK
from desk.configuring.hcl.literals import PLACEHOLDER
from desk.configuring.hcl.original import expression_end, without_expressions

ENDS: Final = (
    "type",
    "url",
    "urls",
    "servers",
    "bootstrap_servers",
    "host",
    "database",
    "namespace",
    "connection_string",
    "account_url",
    "container_name",
    "root",
)
"""Settings of outputs that say which server, and where on it."""
WHOLE: Final = frozenset({"url"})
"""Settings of which the path is masked, too."""
_PLACE: Final = "topic"
"""Of a route to a webhook: an address, or the part of one behind the host."""

_LOGIN = re.compile(r"://([^\s\"]+)@")
"""To the last @ of a word: a password may have @, / and ? too."""
_END = r"(?=\\?[\"']?[ \t]*$)"
_QUERY = re.compile(rf"(?:://|{PLACEHOLDER})[^?#\n\"]*[?#]([^\n]*?){_END}", re.MULTILINE)
_PATH = re.compile(rf"://[^/?#\s\"]*[/?#]([^\n]*?){_END}", re.MULTILINE)
_IS_ADDRESS = re.compile(rf"(?:<<-?\w+|\")?\s*(?:/|https?://|{PLACEHOLDER}[^\n]*/)", re.IGNORECASE)
_TEXT = r"""(?:\\"(?:(?!\\").)*\\"|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
_VARIABLE = re.compile(rf"\{{\{{-?\s*env\s*\(?\s*{_TEXT}\s*(?:,\s*(?P<default>{_TEXT})\s*)?\)?\s*-?\}}\}}", re.DOTALL)
_LITERAL = re.compile(rf"(?P<variable>\benv\s*\(?\s*)?(?P<literal>{_TEXT})", re.DOTALL)
_OF_ADDRESS = re.compile(r"[/?#@]")
_VALUE = re.compile(r"\s*(?:<<-?\w+[^\n]*\n(?P<lines>.*)\n[^\n]*|\"(?P<quoted>.*)\"|(?P<bare>.*?))\s*", re.DOTALL)

Span = tuple[int, int]


def united(spans: Iterable[Span]) -> list[Span]:
    """The same characters in spans that do not overlap, in their order."""
    found = list[Span]()
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif start < end:
            found.append((start, end))
    return found


def hidden_parts(text: str, name: str) -> list[Span]:
    """Where a value of the setting `name` must be masked. `text`: with U+E000 in the place of what an expression gives."""
    whole = name in WHOLE or (name == _PLACE and _IS_ADDRESS.match(text) is not None)
    patterns = (_LOGIN, _PATH if whole else _QUERY)
    found = [each.span(1) for pattern in patterns for each in pattern.finditer(text)]
    if whole and "://" not in text:  # where the host stands is not seen
        found = [each.span() for each in re.finditer(rf"[^{PLACEHOLDER}\s\"]+", text)]
    return united(found)


def hidden_in_file(piece: str, name: str) -> list[Span]:
    """The same of a value as the file writes it, with the texts in its expressions."""
    marked = without_expressions(piece, PLACEHOLDER)
    found = hidden_parts(marked, name)
    for expression in re.finditer(f"{PLACEHOLDER}+", marked):
        for start, end in _expressions(piece, *expression.span()):
            known = _VARIABLE.fullmatch(piece, start, end)
            if known is not None:
                found += _of_default(piece, known, name)
            elif name in WHOLE or name == _PLACE:
                value = _VALUE.fullmatch(piece)
                assert value is not None
                return [value.span(value.lastgroup or 0)]
            elif _OF_ADDRESS.search(piece):
                found += _of_literals(piece, start, end)
    return united(found)


def _expressions(piece: str, start: int, end: int) -> Iterator[Span]:
    """Each of several that stand side by side."""
    while start < end:
        stop = expression_end(piece, start + 2)
        yield start, stop
        start = stop


def _of_default(piece: str, expression: re.Match[str], name: str) -> Iterator[Span]:
    """What a variable that is not set stands for."""
    if expression["default"] is None:
        return
    start, end = _inside(piece, *expression.span("default"))
    default = piece[start:end]
    parts = hidden_parts(default, name)
    marks = "/?#@" if name in WHOLE or name == _PLACE else "?#@"
    if not parts and "://" not in default and any(each in default for each in marks):
        parts = [(0, len(default))]
    yield from ((start + one, start + other) for one, other in parts)


def _of_literals(piece: str, start: int, end: int) -> Iterator[Span]:
    """All texts of an expression but names of variables: which of them hold a key is not seen."""
    for each in _LITERAL.finditer(piece, start, end):
        if each["variable"] is None:
            yield _inside(piece, *each.span("literal"))


def _inside(piece: str, start: int, end: int) -> Span:
    quote = 2 if piece[start] == "\\" else 1
    return start + quote, end - quote


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
