"""Definitions as text and back; and that another shape of them has another number of its format."""

from __future__ import annotations

from dataclasses import dataclass, fields
from zlib import crc32

import pytest

from emulators.sqlserver.engine.extension import KeyIndex, Table, TableColumn
from emulators.sqlserver.engine.security import Login
from emulators.sqlserver.engine.store import archive
from emulators.sqlserver.engine.store.catalog import TableEntry
from emulators.sqlserver.engine.store.data_directory import FORMAT
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.reading.fragments import Fragment


@pytest.mark.parametrize(
    "value",
    [
        None,
        (1, 2.5, "\ud83d", True, b"\0\xff", 2**90),
        {3: "a", "b": (None,), (1, 2): []},
        frozenset((3, 1)),
        {"x", "y"},
        Fragment("SELECT 1", ((SqlType("varchar", 8000), "x"), (SqlType("binary", 2), b"\1\2")), frozenset(("@a",))),
        KeyIndex("pk", (1, 2), True, descending=frozenset((2,))),
        Login("sa", "secret", 1, {"sysadmin"}, {"VIEW SERVER STATE": "GRANT"}),
    ],
)
def test_a_value_comes_back_with_its_types(value: object) -> None:
    found = archive.read(archive.written(value))
    assert found == value
    assert type(found) is type(value)


def test_a_table_gets_the_comparison_of_names_that_its_database_has() -> None:
    table = Table(7, "dbo", "t", (TableColumn(1, "Name", SqlType("int")),))
    found = archive.read(archive.written(TableEntry(table)), fold=str.upper)
    assert found.fold is str.upper
    assert found.table == table


def test_what_is_not_known_by_name_is_refused() -> None:
    @dataclass
    class Table:
        object_id: int

    for stranger in (Table(1), object(), len):
        with pytest.raises(TypeError, match="is not for a data directory"):
            archive.written(stranger)


def test_a_changed_field_needs_another_format() -> None:
    """Set FORMAT up by one, and both numbers here, when this fails: files of the version before could not be read."""
    shapes = [(name, [field.name for field in fields(kind)]) for name, kind in sorted(archive.CLASSES.items())]
    assert (FORMAT, crc32(repr(shapes).encode())) == (1, 317960488)
