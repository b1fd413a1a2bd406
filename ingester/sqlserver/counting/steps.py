"""Counts the changes of one transaction in one change table, in steps that each read a bounded number of rows.

A transaction may have a hundred million changes, and a statement has a deadline. A step goes on where the one before it ended; what is
between the two is sought in the clustered index, not read again. It waits shortly for a lock: other tables' events wait with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from common.errors import TransientError
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.hints import HINTS
from ingester.sqlserver.literals import WAITED, unless_locked
from ingester.sqlserver.pairing import Tally
from ingester.sqlserver.position import LogPosition
from ingester.sqlserver.sql import transactions as queries
from ingester.sqlserver.sql.changes import Statement, locked
from ingester.sqlserver.sql.transactions import Countable

STEP: Final = 50_000
"""The most changes that a step counts in one range. Even with rows of 8 KB, which the index holds whole, that takes seconds."""

_LOCKED = -2


def step(connection: Connection, table: Countable, known: Tally, upto: LogPosition, rows: int = STEP) -> Tally:
    """From `known` on towards `upto`, a position in the same transaction: at `upto`, or after `rows` more changes.

    Raises TransientError while another session holds the change table.
    """
    ranges = queries.ranges(known.position, upto, has_command_id=table.has_command_id)
    asked = [queries.step(number, table, upto.lsn, each, rows) for number, each in enumerate(ranges)]
    found, _ = unlocked(connection, [table.change_table] * len(ranges), asked)
    number = known.number
    for _, changes, *place in sorted(found):
        number += changes
        if changes == rows:
            command, seqval, operation = place
            return Tally(LogPosition(upto.lsn, command, bytes(seqval), operation), number)
    return Tally(upto, number)


def unlocked(
    connection: Connection, change_tables: Sequence[str], asked: Sequence[Statement], *ends: Statement
) -> tuple[list[tuple[Any, ...]], list[list[tuple[Any, ...]]]]:
    """The rows of `asked`, each with its statement's number first, and the result sets of `ends`, in one round trip.

    Raises TransientError naming those of `change_tables`, one a statement, that another session holds.
    """
    looks = [unless_locked(one, locked(number, _LOCKED)) for number, one in enumerate(asked)]
    sets = connection.batch([WAITED, *looks, *ends])
    first = len(sets) - len(ends)
    rows = [row for found in sets[:first] for row in found]
    if held := sorted({f"cdc.{change_tables[row[0]]}" for row in rows if row[1] == _LOCKED}):
        raise TransientError(
            f"counting the changes of transactions: another session has locked {', '.join(held)}", hint=HINTS.locked
        )
    return rows, sets[first:]
