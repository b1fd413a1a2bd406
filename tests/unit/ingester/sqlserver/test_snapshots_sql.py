"""The texts of dbo.cdc_snapshots: what the emulator, which has one writer at a time, cannot show."""

from __future__ import annotations

import pytest

from ingester.sqlserver.sql import snapshots as queries
from ingester.sqlserver.sql.changes import SHORT_WAIT, P, Statement

OF_AN_OWNER = {
    "add": queries.add("id", "dbo.T", 1, "gap"),
    "begin": queries.begin("id", "dbo.T", 1, "host:1"),
    "hold": queries.hold("id", "dbo.T", 1, 1, 25_000),
    "record": queries.record("id", "dbo.T", 1, 1, None, (None, 0, 0), ("running", None), lowers=True),
}
OTHERS = {
    "standings": queries.standings(["dbo.T"]),
    "recorded": queries.recorded("id", "dbo.T", 1, 1, (None, 0, 0)),
    "ask": queries.ask("id", "dbo.T", None, None),
    "change": queries.change("id", "paused", ["running"]),
    "seen": queries.seen(["dbo.T"], 10),
    "one": queries.one("id"),
    "sizes": queries.sizes(["[dbo].[T]"]),
}
ALL = OF_AN_OWNER | OTHERS


@pytest.mark.parametrize("statement", OF_AN_OWNER.values(), ids=OF_AN_OWNER)
def test_an_owners_epoch_stays_locked_until_its_change_is_committed(statement: Statement) -> None:
    """Also with row versions, where a read takes no lock: else a fence could be raised behind the back of the next owner."""
    assert "FROM dbo.cdc_offsets AS o WITH (REPEATABLEREAD)" in statement[0]


@pytest.mark.parametrize("statement", ALL.values(), ids=ALL)
def test_no_statement_waits_long_for_a_person_who_holds_the_table(statement: Statement) -> None:
    text, values = statement
    assert text.startswith(f"{SHORT_WAIT};\n")
    assert text.count(P) == len(values)


@pytest.mark.parametrize("name", ["NOLOCK", "READPAST"])
def test_nothing_is_read_before_it_is_committed_or_left_out(name: str) -> None:
    assert not any(name in text for text, _ in ALL.values())
