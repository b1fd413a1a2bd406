"""Random values of every type for dbo.Everything: the T-SQL literal that is written, and the JSON value that must arrive.

Both are generated here, neither from the other, and without code of the product.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from decimal import Decimal
from random import Random
from uuid import UUID

from dstream.demo.ledger import Anything

Pair = tuple[str, object]
"""(T-SQL literal, JSON value)"""

_NULL_SHARE = 0.15
_WESTERN = "abc XYZ 0123 äöüß éè ñ ' \" \\ % _ [ ] -- €"
_ANY = _WESTERN + " žluťoučký Ελληνικά русский 中文 日本語 🐎"


def _text(alphabet: str, longest: int, prefix: str) -> Callable[[Random], Pair]:
    def pair(random: Random) -> Pair:
        text = "".join(random.choice(alphabet) for _ in range(random.randint(0, longest)))
        while len(text.encode("utf-16-le")) // 2 > longest:
            text = text[:-1]
        return f"{prefix}'" + text.replace("'", "''") + "'", text

    return pair


def _padded(alphabet: str, length: int, prefix: str) -> Callable[[Random], Pair]:
    inner = _text(alphabet, length, prefix)

    def pair(random: Random) -> Pair:
        literal, text = inner(random)
        assert isinstance(text, str)
        return literal, text + " " * (length - len(text.encode("utf-16-le")) // 2)

    return pair


def _integer(low: int, high: int) -> Callable[[Random], Pair]:
    def pair(random: Random) -> Pair:
        number = random.choice([low, high, random.randint(low, high)])
        return str(number), number

    return pair


def _digits(precision: int, scale: int) -> Callable[[Random], Pair]:
    def pair(random: Random) -> Pair:
        number = random.randint(-(10**precision) + 1, 10**precision - 1)
        text = f"{Decimal(number).scaleb(-scale):.{scale}f}"
        return text, text

    return pair


def _float(random: Random) -> Pair:
    number = random.choice([random.uniform(-1, 1), random.uniform(-1e300, 1e300), 0.1, 1e-300, 2.0**53])
    return f"{number:.17e}", number


def _real(random: Random) -> Pair:
    """32 bits keep six significant digits, so the shortest form is the one that was written."""
    text = f"{random.uniform(-9.9, 9.9):.5f}e{random.randint(-30, 30)}"
    return text, float(text)


def _bytes(longest: int, shortest: int = 0) -> Callable[[Random], Pair]:
    def pair(random: Random) -> Pair:
        data = random.randbytes(random.randint(shortest, longest))
        return "0x" + data.hex(), base64.b64encode(data).decode()

    return pair


def _date(random: Random) -> str:
    return f"{random.randint(1, 9999):04d}-{random.randint(1, 12):02d}-{random.randint(1, 28):02d}"


def _recent(random: Random) -> str:
    return f"{random.randint(1901, 2078):04d}-{random.randint(1, 12):02d}-{random.randint(1, 28):02d}"


def _clock(random: Random) -> str:
    return f"{random.randint(0, 23):02d}:{random.randint(0, 59):02d}:{random.randint(0, 59):02d}"


def _quoted(text: str) -> str:
    return f"'{text}'"


def _a_date(random: Random) -> Pair:
    text = _date(random)
    return _quoted(text), text


def _a_time(random: Random) -> Pair:
    text = f"{_clock(random)}.{random.randint(0, 9_999_999):07d}"
    return _quoted(text), text


def _a_short_time(random: Random) -> Pair:
    text = _clock(random)
    return _quoted(text), text


def _a_datetime(random: Random) -> Pair:
    """A datetime counts 300ths of a second: .000, .003 and .007."""
    text = f"{_recent(random)}T{_clock(random)}.{random.randint(0, 99):02d}{random.choice('037')}"
    return _quoted(text), text


def _a_smalldatetime(random: Random) -> Pair:
    text = f"{_recent(random)}T{_clock(random)[:5]}:00"
    return _quoted(text), text


def _a_datetime2(random: Random) -> Pair:
    text = f"{_date(random)}T{_clock(random)}.{random.randint(0, 9_999_999):07d}"
    return _quoted(text), text


def _an_offset(random: Random) -> Pair:
    zone = random.choice(["+00:00", "+05:30", "-08:00", "+13:45", "-13:30", "+01:00"])
    text = f"{_recent(random)}T{_clock(random)}.{random.randint(0, 999):03d}{zone}"
    return _quoted(text), text


def _a_guid(random: Random) -> Pair:
    text = str(UUID(int=random.getrandbits(128))).upper()
    return _quoted(text), text


def _an_xml(random: Random) -> Pair:
    text = f'<row n="{random.randint(0, 999)}"><v>Ελληνικά {random.randint(0, 9)}</v></row>'
    return f"N'{text}'", text


_MAKERS: dict[str, Callable[[Random], Pair]] = {
    "ABit": lambda random: (lambda bit: (str(bit), bool(bit)))(random.randint(0, 1)),
    "ATinyint": _integer(0, 255),
    "ASmallint": _integer(-(2**15), 2**15 - 1),
    "AnInt": _integer(-(2**31), 2**31 - 1),
    "ABigint": _integer(-(2**63) + 1, 2**63 - 1),
    "ADecimal": _digits(38, 10),
    "ANumeric": _digits(9, 4),
    "AMoney": _digits(18, 4),
    "ASmallmoney": _digits(9, 4),
    "AFloat": _float,
    "AReal": _real,
    "AChar": _padded(_WESTERN, 10, ""),
    "AVarchar": _text(_WESTERN, 50, ""),
    "AVarcharMax": _text(_WESTERN, 300, ""),
    "AText": _text(_WESTERN, 100, ""),
    "ANchar": _padded(_ANY, 10, "N"),
    "ANvarchar": _text(_ANY, 50, "N"),
    "ANvarcharMax": _text(_ANY, 300, "N"),
    "AnNtext": _text(_ANY, 100, "N"),
    "AnXml": _an_xml,
    "ADate": _a_date,
    "ATime": _a_time,
    "AShortTime": _a_short_time,
    "ADatetime": _a_datetime,
    "ASmalldatetime": _a_smalldatetime,
    "ADatetime2": _a_datetime2,
    "AnOffset": _an_offset,
    "ABinary": _bytes(8, 8),
    "AVarbinary": _bytes(50),
    "AVarbinaryMax": _bytes(300),
    "AnImage": _bytes(100),
    "AGuid": _a_guid,
}

COLUMNS = tuple(_MAKERS)
NOT_IN_DELETES = ("AText", "AnNtext", "AnImage")
"""text, ntext and image: a captured delete does not hold them."""
ROWVERSION = {"ARowversion": Anything()}


def value(column: str, random: Random) -> Pair:
    """A value for one column, sometimes NULL."""
    return ("NULL", None) if random.random() < _NULL_SHARE else _MAKERS[column](random)
