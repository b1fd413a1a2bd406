"""A query for some of the columns: only these are selected, with their key. Updated and uncaptured columns are named all the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from common.errors import PermanentError
from common.names import Origin
from ingester.change import Change, Operation
from ingester.shape.compiled import compiled
from ingester.shape.table_shape import TableShape
from ingester.source import PageQuery, Part, ProbeRequest
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.pages.meter import Enough
from ingester.task.encode import Encoder
from ingester.transform import transformed
from tests.contracts.source.conftest import Places
from tests.contracts.source.test_source import Place


@pytest.fixture
def place(places: Places) -> Place:
    found = places()
    found.execute("INSERT INTO dbo.Persons VALUES (1, N'one', N'bio')")
    found.execute("UPDATE dbo.Persons SET Name = N'two' WHERE ID = 1")
    found.execute("UPDATE dbo.Persons SET Bio = N'other' WHERE ID = 1")
    found.execute("DELETE FROM dbo.Persons WHERE ID = 1")
    found.scan()
    return found


def read(
    place: Place, columns: tuple[str, ...] | None, *, before: bool = False, part: Part | None = None
) -> list[Change]:
    instance = place.instance()
    upto = place.source.probe([ProbeRequest(instance, None)]).upto
    assert upto is not None
    return list(place.source.page(PageQuery(instance, instance.start, upto, 100, part, columns, before)).changes)


@pytest.mark.parametrize("columns", [("Name",), ("ID", "Name"), ("ID", "Bio"), ("ID",)])
def test_only_the_columns_that_are_asked_for_and_the_key_are_there(place: Place, columns: tuple[str, ...]) -> None:
    wanted = {"ID", *columns}
    everything = read(place, None)
    expected = [
        replace(
            change,
            data={name: value for name, value in change.data.items() if name in wanted},
            schema_version="",
        )
        for change in everything
    ]
    assert [replace(change, schema_version="") for change in read(place, columns)] == expected
    part = Part(1, 0, 1, ("ID",), len(everything))
    assert [replace(change, schema_version="") for change in read(place, columns, part=part)] == expected
    assert [change.operation for change in everything] == [
        *(Operation.INSERT, Operation.UPDATE, Operation.UPDATE, Operation.DELETE)
    ]
    assert [change.changed_columns for change in everything] == [(), ("Name",), ("Bio",), ()]


def test_a_query_may_ask_for_the_rows_before_as_well(place: Place) -> None:
    _, one, other, deleted = read(place, ("ID", "Name"), before=True)
    assert one.before == {"ID": 1, "Name": "one"}
    assert other.before == other.data == {"ID": 1, "Name": "two"}
    assert deleted.before == deleted.data
    assert [change.before for change in read(place, None)] == [None] * 4


def test_columns_that_are_not_asked_for_are_not_selected(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    read(place, None)  # the first page asks for the layouts of values, too
    texts: list[str] = []
    rows_until = Connection.rows_until

    def noting(self: Connection, text: str, *more: object) -> object:
        texts.append(text)
        return rows_until(self, text, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Connection, "rows_until", noting)
    for columns in (None, ("ID", "Name"), ("ID", "Name", "Bio"), None):
        read(place, columns)
    assert ["[Bio]" in text for text in texts] == [True, False, True, True]
    assert texts[0] == texts[2] == texts[3], "all columns: the statement without a shape, and one plan of the server"


def test_rows_are_counted_only_where_they_can_be_large(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[bool] = []
    rows_until = Connection.rows_until

    def noting(self: Connection, text: str, parameters: Sequence[object], enough: Enough | None) -> object:
        counted.append(enough is not None)
        return rows_until(self, text, parameters, enough)

    monkeypatch.setattr(Connection, "rows_until", noting)
    seen = [read(place, columns) for columns in (None, ("ID", "Name"))]
    assert counted == [True, False], "Bio has no limit; a hundred rows without it cannot fill a page"
    assert [change.position for change in seen[0]] == [change.position for change in seen[1]]


def test_a_column_that_cannot_be_read_stops_no_query_that_leaves_it_out(place: Place) -> None:
    instance = place.instance()
    odd = tuple(replace(one, type="sql_variant") if one.name == "Bio" else one for one in instance.columns)
    instance = replace(instance, columns=odd)
    upto = place.source.probe([ProbeRequest(instance, None)]).upto
    assert upto is not None
    query = PageQuery(instance, instance.start, upto, 100)
    with pytest.raises(PermanentError, match="'Bio' has type sql_variant"):
        place.source.page(query)
    assert len(place.source.page(replace(query, columns=("Name",))).changes) == 4


@pytest.mark.parametrize("mode", ["direct", "function"])
def test_updates_that_changed_no_sent_column_are_known_by_their_values(places: Places, mode: str) -> None:
    """Whatever the update mask says of a column that was written with the value that it had."""
    place = places(query_mode=mode)
    place.execute("INSERT INTO dbo.Persons VALUES (1, N'one', N'bio'), (2, N'two', NULL)")
    place.execute("UPDATE dbo.Persons SET Name = N'ONE' WHERE ID = 1")
    place.execute("UPDATE dbo.Persons SET Name = Name, Bio = N'other'")
    place.execute("UPDATE dbo.Persons SET Name = NULL WHERE ID = 2")
    place.execute("UPDATE dbo.Persons SET Bio = NULL, Name = N'two' WHERE ID = 2")
    place.scan()
    instance, shape = place.instance(), TableShape(excluded=("bio",), skip_unchanged=True)
    ready = compiled(shape, instance, sends_before=False)
    assert ready.columns is not None
    for rows in (1, 2, 100):
        found: list[Change] = []
        after, upto = instance.start, place.source.probe([ProbeRequest(instance, None)]).upto
        assert upto is not None
        while (page := place.source.page(PageQuery(instance, after, upto, rows, None, ready.columns, True))).end:
            found += transformed(page.changes, ready.transforms).changes
            after = page.end
        assert [(change.operation, change.data) for change in found] == [
            (Operation.INSERT, {"ID": 1, "Name": "one"}),
            (Operation.INSERT, {"ID": 2, "Name": "two"}),
            (Operation.UPDATE, {"ID": 1, "Name": "ONE"}),
            (Operation.UPDATE, {"ID": 2, "Name": None}),
            (Operation.UPDATE, {"ID": 2, "Name": "two"}),
        ]
        assert {change.before for change in found} == {None}


def test_a_filter_may_ask_whether_a_column_was_updated_that_is_not_sent(place: Place) -> None:
    instance = place.instance()
    text = "metadata.OperationType != 'Update' || 'Bio' in metadata.ChangedColumns"
    metadata = Encoder(Origin("server", "database"), "queue").metadata
    ready = compiled(TableShape(excluded=("Bio",), filter=text), instance, sends_before=False, metadata=metadata)
    found = transformed(read(place, ready.columns), ready.transforms)
    assert found.failure is None
    assert [change.operation for change in found.changes] == [Operation.INSERT, Operation.UPDATE, Operation.DELETE]
    assert [(change.data, change.changed_columns) for change in found.changes[1:2]] == [({"ID": 1, "Name": "two"}, ())]
