"""`__$update_mask`: one bit for each captured column, the lowest ordinals in the LAST byte. Pure.

Source: https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql and the generated
functions' own reading of it, SUBSTRING(mask, DATALENGTH(mask) - (ordinal - 1) / 8, 1).
"""

from __future__ import annotations

from collections.abc import Iterable


def update_mask(ordinals: Iterable[int], columns: int) -> bytes:
    """The mask of a change table with `columns` captured columns, with the bits of `ordinals` (from 1) set."""
    bits = 0
    for ordinal in ordinals:
        bits |= 1 << (ordinal - 1)
    return bits.to_bytes((columns + 7) // 8, "big")


def is_bit_set(ordinal: int, mask: bytes) -> bool:
    """Whether the captured column with this ordinal is marked; an ordinal outside the mask is not."""
    return ordinal > 0 and bool(int.from_bytes(mask, "big") >> (ordinal - 1) & 1)
