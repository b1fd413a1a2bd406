"""Text of char, varchar and text columns: code page 1252, as SQL_Latin1_General_CP1_CI_AS has it.

The five bytes that Windows leaves undefined map to the control characters of the same number, as SQL Server maps them;
a character outside the page becomes "?".
"""

from __future__ import annotations

import codecs

COLLATION = bytes.fromhex("0904d00034")
"""SQL_Latin1_General_CP1_CI_AS: LCID 0x0409, ignore case, kana and width, sort id 52."""

_DECODING = "".join(bytes([n]).decode("cp1252", "ignore") or chr(n) for n in range(256))
_ENCODING = codecs.charmap_build(_DECODING)


def encode(text: str) -> bytes:
    return codecs.charmap_encode(text, "replace", _ENCODING)[0]


def decode(data: bytes) -> str:
    return codecs.charmap_decode(data, "strict", _DECODING)[0]
