"""Item 98: what the columns of a SELECT are, asked without running it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from pydantic import SecretStr

from tests.emulators.sqlserver.contract.client import Connection, Database
from tests.emulators.sqlserver.contract.labels import item

DESCRIBED = (
    "SELECT d.column_ordinal, d.name, TYPE_NAME(d.system_type_id), d.max_length, d.precision, d.scale, d.error_number "
    "FROM sys.dm_exec_describe_first_result_set(N'{}', NULL, 0) AS d ORDER BY d.column_ordinal"
)
NO_PATH = (
    *(11529, 16, 1, 1, "MISC"),
    "The metadata could not be determined because every code path results in an error; see previous errors for some of these.",
)
NOT_COMPILED = (11501, 16, 1, 2, "SYNTAX", "The batch could not be analyzed because of compile errors.")
IN_THE_CATALOG = (
    "SELECT c.column_id, c.name, TYPE_NAME(c.system_type_id), c.max_length, c.precision, c.scale, NULL "
    "FROM sys.columns AS c WHERE c.object_id = OBJECT_ID(N'{}') ORDER BY c.column_id"
)


@pytest.fixture
def caller(persons: Database) -> Iterator[Connection]:
    """A user who may read dbo.Persons and nothing else."""
    login, password = f"contract_{uuid.uuid4().hex[:8]}", "Caller-Password-1"
    persons.run(f"CREATE LOGIN {login} WITH PASSWORD = N'{password}'")
    persons.run(f"CREATE USER caller FOR LOGIN {login}; GRANT SELECT ON OBJECT::dbo.Persons TO caller")
    address = replace(persons.server.address, user=login, password=SecretStr(password))
    with Connection(replace(persons.server, address=address), persons.driver, persons.database) as made:
        yield made
    persons.run(f"DROP LOGIN {login}")


@item(98, "documented")
def test_the_columns_of_a_table_are_described_as_the_catalog_has_them(database: Database) -> None:
    """-1 is the length of (max) and xml.

    Source: Microsoft, "sys.dm_exec_describe_first_result_set (Transact-SQL)".
    """
    database.run(
        "CREATE TABLE dbo.kinds (a int NOT NULL, b bigint, c bit, d decimal(9, 4), e money, f float, g real, h char(3), "
        "i varchar(20), j nvarchar(20), k varchar(max), l nvarchar(max), m varbinary(max), n xml, o ntext, p date, "
        "q time(3), r datetime, s datetime2(7), t datetimeoffset(2), u binary(4), v uniqueidentifier, w smalldatetime)"
    )
    numbers = ("tinyint", "smallint", "int", "bigint", "bit", "decimal", "money", "float", "real")
    described = database.rows(DESCRIBED.format("SELECT * FROM dbo.kinds"))
    in_the_catalog = database.rows(IN_THE_CATALOG.format("dbo.kinds"))
    assert [row[:4] for row in described] == [row[:4] for row in in_the_catalog]
    assert [row for row in described if row[2] in numbers] == [row for row in in_the_catalog if row[2] in numbers]
    (named,) = database.named(
        "SELECT * FROM sys.dm_exec_describe_first_result_set(N'SELECT d AS [other] FROM dbo.kinds', NULL, 0)"
    )
    assert (named["name"], named["system_type_name"], named["is_hidden"]) == ("other", "decimal(9,4)", False)


@item(98, "documented")
def test_a_function_of_capture_is_described_to_who_may_call_it_and_does_not_see_its_change_table(
    persons: Database, caller: Connection
) -> None:
    """It takes the permission to run what is described.

    Source: Microsoft, "sys.dm_exec_describe_first_result_set (Transact-SQL)", Permissions;
    "cdc.fn_cdc_get_all_changes_<capture_instance> (Transact-SQL)".
    """
    text = "SELECT ct.ID, ct.FirstName FROM cdc.fn_cdc_get_all_changes_dbo_Persons(0x, 0x, N''all'') AS ct"
    described = caller.rows(DESCRIBED.format(text))
    kinds = {name: kind for _, name, *kind in persons.rows(IN_THE_CATALOG.format("cdc.dbo_Persons_CT"))}
    assert [(name, kind) for _, name, *kind in described] == [("ID", kinds["ID"]), ("FirstName", kinds["FirstName"])]
    assert caller.rows(IN_THE_CATALOG.format("cdc.dbo_Persons_CT")) == []


@item(98, "documented")
def test_what_cannot_be_described_is_an_error_in_a_row(persons: Database, caller: Connection) -> None:
    """Without the permission to run it as well. Errors 11500 to 11599 are about the describing alone.

    Source: Microsoft, "sys.dm_exec_describe_first_result_set (Transact-SQL)", error_number, and Permissions;
    "Database engine events and errors", 11501 to 11532.
    """

    def reasons(asked: Sequence[Sequence[object]]) -> list[object]:
        return [number for *_, number in asked if not (isinstance(number, int) and 11500 <= number < 11600)]

    assert reasons(persons.rows(DESCRIBED.format("SELECT * FROM dbo.nothing"))) == [208]
    persons.run("CREATE TABLE dbo.closed (n int)")
    assert reasons(caller.rows(DESCRIBED.format("SELECT * FROM dbo.closed"))) == [229]


@item(98, "measured")
@pytest.mark.parametrize(
    ("text", "reason", "behind_it"),
    [
        ("SELECT * FROM dbo.nothing", (208, 16, 1, 2, "SYNTAX", "Invalid object name 'dbo.nothing'."), NO_PATH),
        ("SELECT nothing FROM dbo.Persons", (207, 16, 1, 2, "SYNTAX", "Invalid column name 'nothing'."), NOT_COMPILED),
        ("SELECT FROM", (156, 15, 1, 2, "SYNTAX", "Incorrect syntax near the keyword 'FROM'."), NOT_COMPILED),
    ],
    ids=["no such object", "no such column", "no query"],
)
def test_an_error_has_a_row_and_what_it_means_for_the_batch_has_the_next(
    persons: Database, text: str, reason: tuple[object, ...], behind_it: tuple[object, ...]
) -> None:
    """An object that is missing is one of a statement (11529), another error of the batch as a whole (11501).

    Source: SqlServerSimulator, DescribeFirstResultSetTests, measured on SQL Server 2025; the types: Microsoft,
    "sys.dm_exec_describe_first_result_set (Transact-SQL)", Remarks.
    """
    asked = (
        "SELECT d.column_ordinal, d.name, d.error_number, d.error_severity, d.error_state, d.error_type, d.error_type_desc, "
        f"d.error_message FROM sys.dm_exec_describe_first_result_set(N'{text}', NULL, 0) AS d ORDER BY d.column_ordinal"
    )
    assert persons.rows(asked) == [(0, None, *reason), (1, None, *behind_it)]
