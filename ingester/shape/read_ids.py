"""What keys the hash in the ids of rows that a snapshot reads, so that nobody finds a hidden key by hashing guesses. Pure.

A read has no place in the log, so its id is a hash of its values in the columns that the table is read in the order of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ingester.shape.columns import ShapeRefused, sent_columns
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CapturedColumn


def key_of_ids(shape: TableShape, columns: Sequence[CapturedColumn], order: Sequence[str]) -> bytes:
    """Made of the salts of the table's masks; empty where each column of `order` is sent as it is. `columns`: the captured ones.

    Not the masked value itself: a hash that is cut to the length of a short column may be that of two rows. Raises ShapeRefused.
    """
    if shape == AS_CAPTURED:
        return b""
    shown = {one.column.name for one in sent_columns(shape, columns) if one.mask is None}
    hidden = [name for name in order if name not in shown]
    if not hidden:
        return b""
    salts = [mask.salt for _, mask in shape.masks if mask.kind == "hash"]
    if not salts:
        raise ShapeRefused(
            f'snapshots read the rows in the order of "{hidden[0]}", whose values are not sent as they are, and the EventID of each row would '
            "show a hash of them without a salt",
            hint='give a column of the table the mask "hash:SHA-256:SALT", best this one: its salt goes into the ids',
        )
    return hashlib.sha256("".join([f"{len(salt)}:{salt}" for salt in salts]).encode("utf-8", "surrogatepass")).digest()
