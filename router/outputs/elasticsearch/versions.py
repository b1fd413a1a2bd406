"""The external version of a document from the position of its change. Pure.

A position has more bits than the 63 of a version, so a version is only as fine as 64 blocks of the log: changes within them share a **band**
of 64 versions. The exact position stands in the document. A version that is too low is refused by the server, and then the positions decide
(`settling.py`); so an older change never replaces a newer one, whatever the bits that a version lacks.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from router.outputs.rows.position import Position

_LOW: Final = 63
_MOST_FILES: Final = 2**31 - 1
"""A virtual log file's number has 32 bits in an LSN. No database has used up half of them; if one has, its changes share one band."""
_HIGHEST: Final = 2**63 - 1


class Versioned(NamedTuple):
    """`type`: `external`: only above the document's present version. `external_gte`: also at it."""

    version: int
    type: Literal["external", "external_gte"] = "external"


def version_of(position: Position) -> int:
    """The lowest version of its band. Never falls when positions rise."""
    file, block = int(position.lsn[:8], 16), int(position.lsn[8:16], 16)
    return (file << 32 | block if file <= _MOST_FILES else _HIGHEST) & ~_LOW


def same_band(one: int, other: int) -> bool:
    return one | _LOW == other | _LOW


def above(current: int, position: Position) -> Versioned:
    """For a change that is newer than the document, which has the version `current`: one that fails if the document changes meanwhile.

    It stays in its band, so that a deleted document's version says which band deleted it. Where a band is used up, which takes 64 changes of one
    row in one transaction, each in a request of its own, the server no longer notices that the document has changed.
    """
    lowest = version_of(position)
    if current < lowest:
        return Versioned(lowest)
    if current == lowest | _LOW:
        return Versioned(current, "external_gte")
    return Versioned(current + 1)
