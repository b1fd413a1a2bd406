"""A row's changes by its key: values of every type as text, both images of an update, both capture instances, and bounds that are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from common.errors import ConfigurationError
from common.names import TableName
from emulators.sqlserver.cdc.injection import InjectedTransaction
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.operating import finding as module
from ingester.sqlserver.operating.desk import SqlServerDesk
from ingester.sqlserver.operating.finding import SqlServerFinder, position_of_place
from ingester.sqlserver.source import SqlServerSource
from tests.contracts.source import log_shapes
from tests.contracts.source.conftest import Log, Places
from tests.contracts.source.test_source import PERSONS, Place

Finders = Callable[[Place], SqlServerFinder]


@pytest.fixture
def finders() -> Iterator[Finders]:
    made: list[SqlServerFinder] = []

    def make(place: Place) -> SqlServerFinder:
        connection = Connection(place.address_of(place.login))
        made.append(SqlServerFinder(connection, SqlServerSource(connection), SqlServerDesk(connection)))
        place.execute(
            "IF OBJECT_ID(N'dbo.cdc_offsets') IS NULL CREATE TABLE dbo.cdc_offsets (table_name NVARCHAR(255) PRIMARY KEY, last_lsn VARBINARY(10),"
            " last_seq VARBINARY(10), last_command_id INT, last_operation INT, epoch BIGINT, updated_at DATETIME, source_object NVARCHAR(60))"
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


def operations(finder: SqlServerFinder, key: dict[str, str], table: TableName = PERSONS, most: int = 50) -> list[int]:
    _, instances = finder.look(table)
    return [position.operation for _, position in finder.of_key(instances, key, most).found]


TYPES = {
    "n": ("decimal(9,2)", "12.50", "12.5"),
    "g": ("uniqueidentifier", "6F9619FF-8B86-D011-B42D-00C04FC964FF", "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
    "s": ("nvarchar(10)", "O'Hara", "O'Hara"),
    "c": ("varchar(10)", "x", "x"),
    "d": ("datetime", "2026-11-21T10:23:45.457", "2026-11-21T10:23:45.457"),
    "e": ("date", "2026-11-21", "2026-11-21"),
    "t": ("datetime2(3)", "2026-11-21T10:23:45.457", "2026-11-21T10:23:45.457"),
    "l": ("bigint", "-9", "-9"),
}


def test_a_key_of_many_types_is_given_as_text(places: Places, finders: Finders) -> None:
    place = places()
    columns = ", ".join(f"{name} {kind} NOT NULL" for name, (kind, _, _) in TYPES.items())
    place.execute(f"CREATE TABLE dbo.Typed ({columns}, CONSTRAINT PK_T PRIMARY KEY ({', '.join(TYPES)}))")
    place.enable(table="Typed")
    written = ", ".join("'" + text.replace("'", "''") + "'" for _, text, _ in TYPES.values())
    place.execute(f"INSERT INTO dbo.Typed VALUES ({written})")
    place.scan()
    finder, table = finders(place), TableName("dbo", "Typed")
    asked = {name: text for name, (_, _, text) in TYPES.items()}
    assert operations(finder, asked, table) == [2]
    assert operations(finder, {**asked, "s": "other"}, table) == []
    for name in ("n", "g", "d", "e", "t", "l"):
        with pytest.raises(ConfigurationError, match=f"for {name} is no value of type") as caught:
            operations(finder, {**asked, name: "no-such-value"}, table)
        assert "no-such-value" not in str(caught.value)


@pytest.mark.parametrize("command_ids", [True, False], ids=["with command ids", "without"])
def test_an_update_of_the_key_is_a_change_of_both_rows(
    places: Places, finders: Finders, log: Log, command_ids: bool
) -> None:
    place = places(command_ids=command_ids)
    transaction = InjectedTransaction(log(place))
    seqval = transaction.change("Persons", 3, log_shapes.person(1), changed=["ID"])
    transaction.change("Persons", 4, log_shapes.person(5), changed=["ID"], seqval=seqval)
    transaction.change("Persons", 1, log_shapes.person(5))
    transaction.commit()
    place.scan()
    finder = finders(place)
    assert operations(finder, {"ID": "1"}) == [4]
    assert operations(finder, {"id": "5"}) == [1, 4]
    _, instances = finder.look(PERSONS)
    [(_, position)] = finder.of_key(instances, {"ID": "1"}, 5).found
    found = finder.read(instances, position, lambda instance: None)
    assert found is not None
    assert (found[1].data["ID"], (found[1].before or {})["ID"]) == (5, 1)
    assert position_of_place(position.place()[0]) == position


def test_both_capture_instances_are_searched_and_no_change_comes_twice(places: Places, finders: Finders) -> None:
    place = places()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    place.enable(capture_instance="second")
    place.execute("UPDATE dbo.Persons SET Name = N'b' WHERE ID = 1")
    place.execute("DELETE FROM dbo.Persons WHERE ID = 1")
    place.scan()
    finder = finders(place)
    assert operations(finder, {"ID": "1"}) == [1, 4, 2]


def test_it_looks_back_in_windows_and_says_how_far(
    places: Places, finders: Finders, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = places()
    for number in range(1, 12):
        place.execute(f"INSERT INTO dbo.Persons (ID) VALUES ({number})")
    place.scan()
    finder = finders(place)
    monkeypatch.setattr(module, "WINDOW", 3)
    _, instances = finder.look(PERSONS)
    found = finder.of_key(instances, {"ID": "1"}, 5)
    assert (len(found.found), found.rows, found.back_to) == (1, 11, None)
    monkeypatch.setattr(module, "MOST_ROWS", 6)
    found = finder.of_key(instances, {"ID": "1"}, 5)
    assert (len(found.found), found.rows, found.back_to is None) == (0, 6, False)
