"""How strings compare under a collation: as keys for =, < and ORDER BY, and character by character for LIKE, REPLACE and CHARINDEX.

Trailing spaces do not count in comparisons, under binary collations either. Letters are ordered by Unicode, an accented one behind
its base letter, a lower-case one before its capital where case counts; Windows' tables of other languages are not here: a Turkish
order differs by its two kinds of i alone, the one without a dot between h and the one with.

Sources: https://learn.microsoft.com/sql/relational-databases/collations/collation-and-unicode-support (binary collations, sensitivity)
and .../sql/t-sql/language-elements/string-comparison-assignment for the padding.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from emulators.sqlserver import codepages
from emulators.sqlserver.collation import Collation, known

Compare = Callable[[str, str], int]
Fold = Callable[[str], str]
_DOTTED = str.maketrans({"I": "ı", "İ": "i"})
_BEHIND_H = "h\uffff"
_TO_HIRAGANA = {code: code - 0x60 for code in range(0x30A1, 0x30F7)}


@dataclass(frozen=True, slots=True)
class Order:
    """What counts in a comparison. `page`: of varchar under a binary collation, 0 for Unicode."""

    binary: str = ""
    case: bool = False
    accent: bool = True
    kana: bool = False
    width: bool = False
    turkish: bool = False
    page: int = 0

    @property
    def name(self) -> str:
        """SQLite's name for it."""
        if self.binary:
            return f"BYTES{self.page}" if self.page else self.binary
        flags = ("CS" * self.case, "AI" * (not self.accent), "KS" * self.kana, "WS" * self.width, "TR" * self.turkish)
        return "_".join(["TEXTCI" if not self.case else "TEXT", *(flag for flag in flags if flag)])


@lru_cache(maxsize=512)
def order_of(collation: str, unicode: bool) -> Order:
    """The order of a collation's name ("": the server's default), for nvarchar or for varchar."""
    found = known(collation)
    if found.binary:
        if unicode:
            return Order(found.binary)
        return Order("BIN2", page=found.code_page)
    return Order("", found.case, found.accent, found.kana, found.width, found.turkish)


@lru_cache(maxsize=512)
def order_name(collation: str, unicode: bool) -> str:
    """SQLite's name for that order."""
    return order_of(collation, unicode).name


# -- comparison


@lru_cache(maxsize=256)
def comparison(order: Order) -> Compare:
    if order.binary:
        return _bytes_of(order.page) if order.page else _code_points if order.binary == "BIN2" else _old_binary
    key = _key(order)
    plain = not order.case and not order.turkish

    def compare(left: str, right: str) -> int:
        if left == right:
            return 0
        if plain and left.isascii() and right.isascii():
            x, y = left.rstrip(" ").lower(), right.rstrip(" ").lower()
            return (x > y) - (x < y)
        a, b = key(left), key(right)
        return (a > b) - (a < b)

    return compare


def equality_key(collation: str, unicode: bool) -> Callable[[str], object]:
    """Equal for strings that compare equal."""
    order = order_of(collation, unicode)
    return (lambda text: text.rstrip(" ")) if order.binary else _key(order)


def _key(order: Order) -> Callable[[str], tuple[str, ...]]:
    """Base letters first, then accents, then case."""

    def key(text: str) -> tuple[str, ...]:
        text = text.rstrip(" ")
        if text.isascii() and not order.turkish:
            low = text.lower()
            return (low, low, text.swapcase()) if order.case else (low,)
        text = _narrowed(unicodedata.normalize("NFC", text), order)
        low = (text.translate(_DOTTED) if order.turkish else text).casefold()
        base = low if low.isascii() else _without_accents(low)
        base = base.replace("ı", _BEHIND_H) if order.turkish else base
        if order.case:
            return base, low if order.accent else base, (text if order.accent else _without_accents(text)).swapcase()
        return (base, low) if order.accent and base != low else (base,)

    return key


def _narrowed(text: str, order: Order) -> str:
    """Without what the order ignores of kana and width."""
    if text.isascii():
        return text
    if not order.width:
        text = "".join(_standard_width(character) for character in text)
    return text if order.kana else text.translate(_TO_HIRAGANA)


@lru_cache(maxsize=4096)
def _standard_width(character: str) -> str:
    decomposed = unicodedata.decomposition(character)
    return unicodedata.normalize("NFKC", character) if decomposed.startswith(("<wide>", "<narrow>")) else character


def _without_accents(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def _padded(left: str, right: str) -> tuple[str, str]:
    size = max(len(left), len(right))
    return left.ljust(size), right.ljust(size)


def _code_points(left: str, right: str) -> int:
    """BIN2 of Unicode: by UTF-16 code units, as they are stored."""
    if left == right:
        return 0
    a, b = _padded(left, right)
    if not (a.isascii() or b.isascii()):
        x, y = a.encode("utf-16-be", "surrogatepass"), b.encode("utf-16-be", "surrogatepass")
        return (x > y) - (x < y)
    return (a > b) - (a < b)


def _old_binary(left: str, right: str) -> int:
    """BIN of Unicode: the first character as a code unit, the rest byte by byte."""
    if left == right:
        return 0
    a, b = (text.encode("utf-16-le", "surrogatepass") for text in (left.rstrip(" "), right.rstrip(" ")))
    size = max(len(a), len(b))
    a, b = a + b" \0" * ((size - len(a)) // 2), b + b" \0" * ((size - len(b)) // 2)
    x, y = (a[1::-1], a[2:]), (b[1::-1], b[2:])
    return (x > y) - (x < y)


def _bytes_of(page: int) -> Compare:
    """BIN and BIN2 of varchar: by the bytes of the code page."""

    def compare(left: str, right: str) -> int:
        if left == right:
            return 0
        a, b = codepages.encode(left, page), codepages.encode(right, page)
        size = max(len(a), len(b))
        a, b = a.ljust(size), b.ljust(size)
        return (a > b) - (a < b)

    return compare


_FLAGS = (False, True)
_PAGES = (437, 850, 874, 932, 936, 949, 950, *range(1250, 1259), codepages.UTF8)
ORDERS = (
    Order("BIN"),
    Order("BIN2"),
    *(Order("BIN2", page=page) for page in _PAGES),
    *(Order("", c, a, k, w, t) for c in _FLAGS for a in _FLAGS for k in _FLAGS for w in _FLAGS for t in _FLAGS),
)
"""Every order that a collation may have; each is a collation of SQLite."""


# -- character by character


@lru_cache(maxsize=256)
def folding(order: Order) -> Fold:
    """Text whose characters are equal where the order has them equal; as long as the text given, so that places in it stay."""
    if order.binary:
        return _same
    character = lru_cache(maxsize=4096)(lambda c: _folded(c, order))

    def fold(text: str) -> str:
        if text.isascii() and not order.turkish:
            return text if order.case else text.lower()
        return "".join(character(c) for c in text)

    return fold


def _folded(character: str, order: Order) -> str:
    found = _narrowed(character, order)
    if not order.case:
        found = (found.translate(_DOTTED) if order.turkish else found).lower()
    if not order.accent:
        found = _without_accents(found) or found
    return found if len(found) == 1 else character


def _same(text: str) -> str:
    return text


def name_folding(collation: Collation) -> Fold:
    """How a database compares names of tables, columns and the like."""
    if collation.binary:
        return _same
    if not collation.turkish and not collation.case and collation.accent:
        return str.lower
    return folding(order_of(collation.name, True))


@lru_cache(maxsize=256)
def letters_between(low: str, high: str, order: Order) -> str:
    """The characters of Latin that a range of LIKE holds beside those of the code points between its ends."""
    compare = comparison(order)
    candidates = (chr(code) for code in (*range(0x21, 0x7F), *range(0xA1, 0x250)))
    return "".join(c for c in candidates if compare(low, c) <= 0 <= compare(high, c))


# -- case


def upper(text: str, turkish: bool = False) -> str:
    """A capital for each letter that has one of a single character."""
    return _recased(text.replace("i", "İ").replace("ı", "I") if turkish else text, str.upper)


def lower(text: str, turkish: bool = False) -> str:
    return _recased(text.translate(_DOTTED) if turkish else text, str.lower)


def _recased(text: str, change: Fold) -> str:
    if text.isascii():
        return change(text)
    return "".join(c if len(change(c)) != 1 else change(c) for c in text)
