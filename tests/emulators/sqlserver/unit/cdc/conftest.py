"""A database under Change Data Capture without an engine: the extension over the fake Database, its procedures called directly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from emulators.sqlserver.cdc.extension import CdcExtension
from emulators.sqlserver.engine.extension import CallContext, Row
from emulators.sqlserver.results import Event, ResultSet, Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from tests.fakes.sql_database import FakeSqlDatabase, Named

INT = SqlType("int")
NAME = SqlType("nvarchar", 50)


class Lab:
    """Calls procedures and functions as a session would, on a database whose time stands where `time` says."""

    def __init__(self, path: Path) -> None:
        self.time = "2026-01-02 03:04:05.677"
        self.seconds = 0.0
        self.database = FakeSqlDatabase(path, clock=lambda: self.time)
        self.extension = CdcExtension(capture_interval=3600.0, clock=lambda: self.seconds)
        self.context = CallContext(self.database, "sa", 51, in_transaction=False)

    def run(self, procedure: str, **arguments: Value) -> list[Event]:
        spec = self.extension.procedures()[f"sys.{procedure}"]
        return list(spec.run(self.context, {f"@{name}": value for name, value in arguments.items()}))

    def rows_of(self, procedure: str, **arguments: Value) -> list[Named]:
        """The only result set of a procedure, as dictionaries."""
        (found,) = [event for event in self.run(procedure, **arguments) if isinstance(event, ResultSet)]
        names = [column.name for column in found.columns]
        return [dict(zip(names, row, strict=True)) for row in found.rows]

    def call(self, function: str, *arguments: Value) -> Value:
        found = self.extension.scalar_functions()[f"sys.{function}"]
        assert found.arguments == len(arguments)
        return found.call(self.context, arguments)

    def all_changes(self, instance: str, *arguments: Value) -> list[Row]:
        function = self.extension.table_function(self.database, "cdc", f"fn_cdc_get_all_changes_{instance}")
        assert function is not None
        return list(function.call(self.context, arguments))

    def enable(self, name: str = "Persons", **arguments: Value) -> None:
        """Enable a table and stop the capture job that comes with the first one: tests scan by hand."""
        self.run("sp_cdc_enable_table", source_schema="dbo", source_name=name, role_name=None, **arguments)
        state = self.extension.find(self.database)
        assert state is not None
        state.stop_job()

    def scan(self) -> None:
        self.run("sp_cdc_scan")

    def changes(self, instance: str = "dbo_Persons") -> list[Named]:
        """The change table in its clustered order."""
        return self.database.rows(
            "cdc", f"{instance}_CT", '"__$start_lsn", "__$command_id", "__$seqval", "__$operation"'
        )

    def entries(self) -> list[Named]:
        return self.database.rows("cdc", "lsn_time_mapping", "start_lsn")

    def close(self) -> None:
        self.extension.close()
        self.database.close()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """CDC is on; tables Persons (ID int key, FirstName, LastName) and Notes (ID int key, Doc max, Old ntext) exist."""
    made = Lab(tmp_path / "demo.sqlite")
    made.database.define("Persons", {"ID": INT, "FirstName": NAME, "LastName": NAME}, key=["ID"])
    made.database.define(
        "Notes", {"ID": INT, "Title": NAME, "Doc": SqlType("nvarchar", MAX), "Old": SqlType("ntext")}, key=["ID"]
    )
    made.run("sp_cdc_enable_db")
    yield made
    made.close()


def person(number: int, first: str = "Ann", last: str = "Lee") -> Named:
    return {"ID": number, "FirstName": first, "LastName": last}
