"""What a page costs the server: each range is sought in the index and nothing is sorted, however many rows share a key's first column.

The emulator's SQLite says how it would read the table, whose indexes are those that the table has.
"""

from __future__ import annotations

import re

import pytest

from emulators.sqlserver.engine.server_engine import SqlEngine
from ingester.history.rows import RowKey, RowsQuery
from tests.contracts.rows.conftest import RowsPlace

TABLES = {
    "Plain": "A INT NOT NULL, B INT NOT NULL, V INT, PRIMARY KEY (A, B)",
    "Text": "A VARCHAR(20) NOT NULL, B NVARCHAR(20) NOT NULL, V INT, PRIMARY KEY (A, B)",
    "Down": "A DATETIME2(7) NOT NULL, B DECIMAL(20, 2) NOT NULL, V INT, PRIMARY KEY (A DESC, B DESC)",
    "Codes": "V INT, A UNIQUEIDENTIFIER NOT NULL, B FLOAT NOT NULL, CONSTRAINT UX UNIQUE (A, B)",
}
VALUES = {
    "Plain": ("1", "5", "9"),
    "Text": ("a", "ž", "0x0d00"),
    "Down": ("2024-02-29 12:34:56.1234567", "7.00", "-1.50"),
    "Codes": ("6F9619FF-8B86-D011-B42D-00C04FC964FF", "1.0000000000000001e-001", "2.0000000000000000e+000"),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_range_is_sought_and_nothing_is_sorted(place: RowsPlace, engine: SqlEngine, name: str) -> None:
    place.make(name, TABLES[name])
    table = place.table(name)
    a, low, high = VALUES[name]
    titles = [key.title for key in table.keys]
    after, upto = (f"{titles[0]}{a}", f"{titles[1]}{low}"), (f"{titles[0]}{a}", f"{titles[1]}{high}")
    asked: dict[tuple[RowKey | None, RowKey | None], int] = {
        (None, None): 0,
        (after, None): 2,
        (after, upto): 1,
        (None, upto): 2,
    }
    for (begin, end), sought in asked.items():
        known = set(engine.plans._plans)
        query = RowsQuery(table, 5, after=begin, upto=end)
        place.rows.page(query)
        steps = _steps(engine, place.login.database, name, known)
        assert not [step for step in steps if "TEMP B-TREE" in step], steps
        assert len([step for step in steps if step.startswith("SEARCH")]) == sought, steps
        assert len(steps) == max(1, sought)
        assert all("USING" in step and "INDEX" in step for step in steps), steps


def _steps(engine: SqlEngine, database: str, table: str, known: set[tuple[object, ...]]) -> list[str]:
    """How SQLite reads `table` for each plan that is new, with its sorts."""
    stored = engine.find(database)
    assert stored is not None
    entry = stored.catalog.find("dbo", table)
    assert entry is not None
    named, link = f'"t{entry.table.object_id}"', stored.open_link()
    found: list[str] = []
    for plan in [plan for key, (plan, _) in engine.plans._plans.items() if key not in known and named in plan.sql]:
        calls = re.findall(rf"{named} AS (\w+)", plan.sql)
        steps = link.execute(f"EXPLAIN QUERY PLAN {plan.sql}", [None] * len(plan.parameters)).fetchall()
        found += [step for *_, step in steps if "TEMP B-TREE" in step or step.split()[1] in calls]
    stored.close_link(link)
    return found
