"""`dstream check` of what a person does: whether an ingester with this login notices that a table is paused, and whether the login may move
an offset. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from common.check import Finding, by_sql, ok, warn
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.findings import Session
from ingester.sqlserver.hints import MAKE_MOVES, SEE_PAUSES, USE_PAUSES, WRITE_MOVES
from ingester.sqlserver.sql import operating, rights
from ingester.sqlserver.sql import pauses as queries

_PAUSES, _MOVES = "pauses", "moves"


def pauses(connection: Connection, session: Session) -> Iterator[Finding]:
    """Nothing where the table is certainly not there: the first pause makes it."""
    if connection.rows(queries.TABLE_MISSING)[0][0]:
        if not connection.rows(operating.SEES_ALL_TABLES)[0][0]:
            text = (
                "dbo.cdc_pauses does not exist, or this login may not see it: its ingester reads a paused table all the same, "
                "and warns of that at its start"
            )
            yield ok(_PAUSES, f"{text} ({SEE_PAUSES})")
        return
    reads, *writes = (bool(right) for right in connection.rows(queries.RIGHTS)[0])
    if not reads:
        text = "this login may not read dbo.cdc_pauses: its ingester reads a paused table on"
        yield warn(_PAUSES, text, USE_PAUSES, fix=by_sql(rights.use_pauses(session.user)))
    elif all(writes):
        yield ok(_PAUSES, "dbo.cdc_pauses may be read and written")
    else:
        yield ok(
            _PAUSES, "dbo.cdc_pauses may be read; this login may not write to it, so `dstream pause` needs another one"
        )


def moves(connection: Connection, session: Session) -> Iterator[Finding]:
    """The table is made by the first move, and a move without the rights on it is refused: nobody should find that out when changes were lost.
    Nothing where the first move can make and use it."""
    if connection.rows(operating.MOVES_MISSING)[0][0]:
        if not connection.rows(operating.SEES_ALL_TABLES)[0][0]:
            text = "does not exist, or this login may not see it: `dstream offsets set` with this login may be refused"
        elif all(connection.rows(operating.MAY_MAKE_MOVES)[0]):
            return
        else:
            text = "does not exist, and this login may not create and use it: `dstream offsets set` needs another one"
        yield ok(_MOVES, f"dbo.cdc_offset_moves {text} ({MAKE_MOVES})")
        return
    rights_there = connection.rows(operating.RIGHTS_OF_MOVES)[0]
    lacking = [name for name, has in zip(operating.NEEDED_OF_MOVES, rights_there, strict=True) if not has]
    if not lacking:
        yield ok(_MOVES, "dbo.cdc_offset_moves may be read and written")
        return
    text = f"this login lacks {', '.join(lacking)} on dbo.cdc_offset_moves: it cannot move an offset, as after lost changes"
    yield warn(_MOVES, text, WRITE_MOVES, fix=by_sql(rights.use_moves(session.user)))
