"""Whether the server's bytes of some constants are those that `values.py` reads. Pure.

Conversions to binary are not promised to be the same in all versions, and Microsoft names money among those that have changed. A length shows no
order of bytes: so a server converts a constant of each type once, in the statement that reads a table's stamp anyway. Tables without columns
of a type that differs are read as ever. A type whose values are one byte has no order. Refuses to read another layout.
https://learn.microsoft.com/sql/t-sql/data-types/binary-and-varbinary-transact-sql
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from ingester.sqlserver.sql.columns import STAMP, stamp_and
from ingester.sqlserver.values import another_layout


class Sample(NamedTuple):
    """`text`: a constant of type `declared`, whose bytes all differ where that is possible. `octets`: what it is read from."""

    declared: str
    text: str
    octets: bytes


SAMPLES: Final = {
    "smallint": Sample("smallint", "-259", bytes.fromhex("FEFD")),
    "int": Sample("int", "-16909061", bytes.fromhex("FEFDFCFB")),
    "bigint": Sample("bigint", "-72623859790382857", bytes.fromhex("FEFDFCFBFAF9F8F7")),
    "money": Sample("money", "-7262385979038.2856", bytes.fromhex("FEFDFCFBFAF9F8F8")),
    "smallmoney": Sample("smallmoney", "-1690.9060", bytes.fromhex("FEFDFCFC")),
    "uniqueidentifier": Sample(
        "uniqueidentifier",
        "00112233-4455-6677-8899-AABBCCDDEEFF",
        bytes.fromhex("33221100554477668899AABBCCDDEEFF"),
    ),
    "time": Sample("time(7)", "01:02:03.1234567", bytes.fromhex("07078E27AB08")),
    "datetime2": Sample("datetime2(7)", "2001-02-03 04:05:06.1234567", bytes.fromhex("07875B883D2296250B")),
    "datetimeoffset": Sample(
        "datetimeoffset(7)",
        "2001-02-03 04:05:06.1234567 -05:30",
        bytes.fromhex("07879740575096250BB6FE"),
    ),
}
"""By the type whose columns are read so."""

_ALL: Final = b"".join(sample.octets for sample in SAMPLES.values())
_QUESTION: Final = " + ".join(
    f"CONVERT(binary({len(sample.octets)}), CAST('{sample.text}' AS {sample.declared}))" for sample in SAMPLES.values()
)
STAMP_AND_LAYOUTS: Final = stamp_and(f"{_QUESTION} AS layouts")
"""One value with the bytes of all constants, one behind the other: a page's rows are counted, and this is none."""


class Layouts:
    """What is known of one server."""

    def __init__(self) -> None:
        self._known = False
        self.different: frozenset[str] = frozenset()
        """Types with other bytes than those that are read."""

    @property
    def question(self) -> str:
        """Which stamp to ask for: with the constants, until the server has answered once."""
        return STAMP_AND_LAYOUTS if not self._known else STAMP

    def stamp_of(self, row: Sequence[Any]) -> str | None:
        """The stamp in the answer to `question`, whose constants are remembered."""
        if len(row) > 1:
            self._known, self.different = True, _different(row[1])
        stamp: str | None = row[0]
        return stamp


def refuse(different: frozenset[str], types: Collection[str]) -> None:
    """Raises PermanentError if one of the `types` that are read is `different`."""
    if different and (unknown := sorted(different.intersection(types))):
        raise another_layout(f"{unknown[0]} value")


def _different(octets: bytes | None) -> frozenset[str]:
    if octets == _ALL:
        return frozenset()
    if octets is None or len(octets) != len(_ALL):
        return frozenset(SAMPLES)
    found, begun = set(), 0
    for name, sample in SAMPLES.items():
        ended = begun + len(sample.octets)
        if octets[begun:ended] != sample.octets:
            found.add(name)
        begun = ended
    return frozenset(found)
