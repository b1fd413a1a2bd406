"""The code pages of char, varchar and text: from characters to the bytes that SQL Server stores and sends, and back.

A character outside the page becomes "?". Bytes that Windows leaves undefined in a page of one byte a character map to the control
characters of the same number, as SQL Server maps them. Best-fit mappings (an accent that the page lacks left out) are not made.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import lru_cache

UTF8 = 65001
LATIN1 = 1252
_NAMES = {932: "cp932", 936: "gbk", 949: "cp949", 950: "cp950", UTF8: "utf-8"}
_WIDE = frozenset((932, 936, 949, 950, UTF8))
"""Pages with more than one byte for some characters."""


@lru_cache(maxsize=64)
def _decoding(page: int) -> str:
    return "".join(bytes([n]).decode(f"cp{page}", "ignore") or chr(n) for n in range(256))


@lru_cache(maxsize=64)
def encoder(page: int) -> Callable[[str], bytes]:
    """`encode` for one page."""
    if page in _WIDE:
        return lambda text: text.encode(_NAMES[page], "replace")
    table = codecs.charmap_build(_decoding(page))
    return lambda text: codecs.charmap_encode(text, "replace", table)[0]


def encode(text: str, page: int = LATIN1) -> bytes:
    return encoder(page)(text)


def decode(data: bytes, page: int = LATIN1) -> str:
    if page in _WIDE:
        return data.decode(_NAMES[page], "replace")
    return codecs.charmap_decode(data, "strict", _decoding(page))[0]


def kept(text: str, page: int) -> str:
    """What is left of a text when it is stored in the page."""
    return text if text.isascii() else decode(encode(text, page), page)


def byte_count(text: str, page: int) -> int:
    """Bytes of a text in the page."""
    return len(text) if page not in _WIDE or text.isascii() else len(encode(text, page))
