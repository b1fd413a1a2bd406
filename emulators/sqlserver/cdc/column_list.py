"""Reads @captured_column_list: names parted by commas, each plain, in brackets or in double quotes. Pure.

Source: https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator

from emulators.sqlserver.cdc import errors

_CLOSING = {"[": "]", '"': '"'}


def column_names(text: str) -> list[str]:
    """The names in the list, an empty one where nothing stands between two commas. Raises 22965 for an open quote."""
    return list(_names(text))


def _names(text: str) -> Iterator[str]:
    at = 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at < len(text) and text[at] in _CLOSING:
            name, at = _delimited(text, at)
            end = _comma(text, at)
            yield name if not text[at:end].strip() else ""
        else:
            end = _comma(text, at)
            yield text[at:end].strip()
        if end == len(text):
            return
        at = end + 1


def _comma(text: str, at: int) -> int:
    found = text.find(",", at)
    return len(text) if found < 0 else found


def _delimited(text: str, at: int) -> tuple[str, int]:
    """The name that begins with the quote at `at`, and where it ends; a doubled closing quote stands for itself."""
    closing = _CLOSING[text[at]]
    at += 1
    name = ""
    while True:
        end = text.find(closing, at)
        if end < 0:
            raise errors.unterminated_column()
        name += text[at:end]
        if text[end + 1 : end + 2] != closing:
            return name, end + 1
        name += closing
        at = end + 2
