"""Comments of a file, and which parts of the addresses in them are hidden. Pure.

A comment has no setting that says whether an address is one of a webhook. Refuses to guess: what follows the host is hidden in each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from desk.configuring.hcl.structure import Structure

_EXPRESSION = r"\{\{.*?\}\}"
_VARIABLE = r"\{\{-?\s*env\s*\(?\s*\\?[\"'][^\"'\\]*\\?[\"']\s*\)?\s*-?\}\}"

IN_COMMENTS: Final = (
    # behind the host
    re.compile(
        rf"((?:://(?:[^\s\"]*@)?+|\}}\}})(?:{_EXPRESSION}|[^/?#\s\"])*+[/?#])((?:{_EXPRESSION}|[^\s\"])++)",
    ),
    # before it
    re.compile(r"(://)([^\s\"]+)(?=@)"),
    # an expression that may give an address
    re.compile(rf"()((?!{_VARIABLE})\{{\{{(?=[^\n]*[/?#@])[^\n]*)"),
    # a path behind a host that stands elsewhere
    re.compile(r"(\b(?:url|topic)\s*[=:]\s*[\"']?)(/[^\s\"]+)", re.IGNORECASE),
)
"""The second group of each is hidden."""

_TEMPLATE = re.compile(r"(?=(\{#.*?#\}))", re.DOTALL)


def comments_of(text: str, found: Structure) -> Iterator[tuple[int, int]]:
    """Where the words of comments are, those of templates included."""
    for start, end in found.comments:
        inner = text[start:end].removesuffix("*/") if text.startswith("/*", start) else text[start:end]
        yield start, start + len(inner.rstrip())
    for each in _TEMPLATE.finditer(text):
        start, end = each.span(1)
        if not found.plain[start:end].strip():
            yield start, start + len(text[start : end - 2].rstrip())
