"""Built-in functions over text and bytes beyond the plainest ones: STUFF, PATINDEX, TRANSLATE, CONCAT_WS, HASHBYTES.

HASHBYTES has the real digests; MD2 and MD4 are refused. Sources: the functions' pages under
https://learn.microsoft.com/sql/t-sql/functions/string-functions-transact-sql and .../hashbytes-transact-sql
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

from emulators.sqlserver.codepages import encode
from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.functions.functions import Made, builtin, like_type, text_of, text_order, whole_of
from emulators.sqlserver.tsql.functions.patterns import like_pattern
from emulators.sqlserver.tsql.values.text_order import Order, folding
from emulators.sqlserver.tsql.values.types import BIGINT, INT, code_page, family, is_unicode

_HASHES = {"md5": "md5", "sha": "sha1", "sha1": "sha1", "sha2_256": "sha256", "sha2_512": "sha512"}


@builtin("STUFF", 4, nulls=True)
def _stuff(types: Sequence[SqlType]) -> Made:
    """A NULL replacement removes only; a start outside the text gives NULL."""
    read, start_of, size_of, insert_of = text_of(types[0]), whole_of(types[1]), whole_of(types[2]), text_of(types[3])
    unicode = next((kind for kind in (types[0], types[3]) if is_unicode(kind)), types[0])

    def run(value: Value, start: Value, size: Value, insert: Value) -> Value:
        if value is None or start is None or size is None:
            return None
        text, first, length = read(value), start_of(start), size_of(size)
        if not 1 <= first <= len(text) or length < 0:
            return None
        return text[: first - 1] + (insert_of(insert) if insert is not None else "") + text[first - 1 + length :]

    return like_type(unicode, 4000 if is_unicode(unicode) else 8000), run


def _searched(pattern: str, order: Order) -> re.Pattern[str]:
    """The expression whose leftmost match in folded text starts where PATINDEX finds the pattern."""
    anchored = not pattern.startswith("%")
    inner = like_pattern(pattern if anchored else pattern.lstrip("%"), "", order)
    return re.compile(rf"{chr(92) + 'A' if anchored else ''}{inner.pattern}\Z", inner.flags)


@builtin("PATINDEX", 2)
def _patindex(types: Sequence[SqlType]) -> Made:
    pattern_of, read = text_of(types[0]), text_of(types[1])
    order = text_order(types)
    fold = folding(order)
    compiled = lru_cache(maxsize=256)(lambda pattern: _searched(pattern, order))

    def run(pattern: Value, value: Value) -> Value:
        found = compiled(pattern_of(pattern)).search(fold(read(value)))
        return found.start() + 1 if found else 0

    return (BIGINT if types[1].length == MAX else INT), run


@builtin("TRANSLATE", 3)
def _translate(types: Sequence[SqlType]) -> Made:
    readers = [text_of(kind) for kind in types]
    fold = folding(text_order(types))

    def run(*values: Value) -> Value:
        text, old, new = (read(value) for read, value in zip(readers, values, strict=True))
        if len(old) != len(new):
            message = "The second and third arguments of the TRANSLATE built-in function must contain an equal number of characters."
            raise SqlError(9828, message, 16)
        table: dict[str, str] = {}
        for before, after in zip(old, new, strict=True):
            table.setdefault(fold(before), after)
        return "".join(table.get(form, character) for form, character in zip(fold(text), text, strict=True))

    return like_type(types[0]), run


@builtin("CONCAT_WS", 3, -1, nulls=True)
def _concat_ws(types: Sequence[SqlType]) -> Made:
    """NULLs are left out together with their separator; a NULL separator is an empty one."""
    readers = [text_of(kind) for kind in types]
    unicode = any(is_unicode(kind) for kind in types)
    wide = any(kind.length == MAX for kind in types)

    def run(separator: Value, *values: Value) -> Value:
        pieces = [read(v) for read, v in zip(readers[1:], values, strict=True) if v is not None]
        return (readers[0](separator) if separator is not None else "").join(pieces)

    return SqlType("nvarchar" if unicode else "varchar", MAX if wide else 4000 if unicode else 8000), run


@builtin("HASHBYTES", 2)
def _hashbytes(types: Sequence[SqlType]) -> Made:
    """An unknown algorithm gives NULL. Text is hashed as it is stored: UTF-16 for nvarchar, in its code page for varchar."""
    name_of, kind = text_of(types[0]), types[1]
    if family(kind) not in ("string", "binary"):
        raise SqlError(8116, f"Argument data type {kind.name} is invalid for argument 2 of hashbytes function.", 16)

    def run(name: Value, value: Value) -> Value:
        word = name_of(name).strip().lower()
        if word in ("md2", "md4"):
            raise unsupported(f"HASHBYTES with {word.upper()}")
        if word not in _HASHES:
            return None
        if isinstance(value, bytes):
            data = value
        else:
            text = str(value)
            data = text.encode("utf-16-le", "surrogatepass") if is_unicode(kind) else encode(text, code_page(kind))
        return hashlib.new(_HASHES[word], data, usedforsecurity=False).digest()

    return SqlType("varbinary", 8000), run
