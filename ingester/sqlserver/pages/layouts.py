"""Whether the server's bytes of some constants are those that `values.py` reads. Pure.

Conversions to binary are not promised to be the same in all versions, and Microsoft names money among those that have changed. A length shows no
order of bytes: so a server converts a constant of each type once, in a statement of one row that is asked anyway. Tables without columns
of a type that differs are read as ever. A type whose values are one byte has no order. Refuses to read another layout.
https://learn.microsoft.com/sql/t-sql/data-types/binary-and-varbinary-transact-sql
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

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
_BYTES: Final = " + ".join(
    f"CONVERT(binary({len(sample.octets)}), CAST('{sample.text}' AS {sample.declared}))" for sample in SAMPLES.values()
)


class Layouts:
    """What is known of one server."""

    def __init__(self) -> None:
        self._known = False
        self.different: frozenset[str] = frozenset()
        """Types with other bytes than those that are read."""

    def question(self, selected: str) -> str:
        """Selects this, and the bytes of all constants, one behind the other, until the server has answered once."""
        return f"SELECT {selected}" if self._known else f"SELECT {selected},\n       {_BYTES} AS layouts"

    def answer(self, row: Sequence[Any], selected: int) -> Sequence[Any]:
        """The values that were `selected` in the answer to `question`, whose constants are remembered."""
        if len(row) > selected:
            self._known, self.different = True, _different(row[selected])
        return row[:selected]


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
