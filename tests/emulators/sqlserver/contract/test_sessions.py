"""Items 1 to 10: connecting, transactions, locks, time-outs and errors."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pymssql
import pytest

from tests.emulators.sqlserver.contract.client import Connection, Database, Refused, Server
from tests.emulators.sqlserver.contract.labels import item

AT_CONNECT = (
    "SET ARITHABORT ON;SET CONCAT_NULL_YIELDS_NULL ON;SET ANSI_NULLS ON;SET ANSI_NULL_DFLT_ON ON;SET ANSI_PADDING ON;"
    "SET ANSI_WARNINGS ON;SET ANSI_NULL_DFLT_ON ON;SET CURSOR_CLOSE_ON_COMMIT ON;SET QUOTED_IDENTIFIER ON;"
    "SET TEXTSIZE 2147483647;"
)


@item(1, "measured")
def test_the_batch_of_sets_that_pymssql_sends_is_taken(database: Database) -> None:
    """Every option of the batch is known, and USE changes the database.

    Source: pymssql 2.4, _mssql.pyx.
    """
    database.run(AT_CONNECT)
    database.run(f"use [{database.database}]")
    assert database.value("SELECT DB_NAME()") == database.database


@item(1, "documented")
@pytest.mark.parametrize(
    "option", ["ANSI_NULLS", "ANSI_WARNINGS", "ARITHABORT", "CONCAT_NULL_YIELDS_NULL", "QUOTED_IDENTIFIER"]
)
def test_an_option_that_was_set_is_on(connection: Connection, option: str) -> None:
    """SESSIONPROPERTY tells.

    Source: Microsoft, "SESSIONPROPERTY (Transact-SQL)".
    """
    connection.run(AT_CONNECT)
    assert connection.value(f"SELECT CONVERT(int, SESSIONPROPERTY('{option}'))") == 1


@item(2, "documented")
def test_using_an_unknown_database_is_911(connection: Connection) -> None:
    """The session stays where it is.

    Source: Microsoft, "Database engine events and errors", 911.
    """
    refused = connection.error("USE no_such_database")
    assert refused.number == 911
    assert "no_such_database" in refused.text
    assert connection.value("SELECT DB_NAME()") == "master"


@item(2, "documented")
def test_a_wrong_password_is_18456(server: Server, driver: str) -> None:
    """The login fails with the user's name in the text.

    Source: Microsoft, "MSSQLSERVER_18456". Asked in a process of its own: pymssql 2.4 keeps number and text of the first failed
    login for all that follow.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        number, text = fresh.submit(_refusal, server, driver).result(timeout=60)
    assert number == 18456
    assert f"Login failed for user '{server.address.user}'" in text


def _refusal(server: Server, driver: str) -> tuple[int, str]:
    with pytest.raises(Refused) as refused:
        Connection(server, driver, "master", password="not-the-Password-1")
    return refused.value.number, refused.value.text


@item(3, "documented")
def test_without_autocommit_a_connection_is_in_a_transaction(database: Database) -> None:
    """What was rolled back is gone, what was committed stays, and the next transaction is open at once.

    Source: PEP 249, pymssql 2.4 (BEGIN TRAN by batch), python-tds 1.17 (transaction-manager requests).
    """
    database.run("CREATE TABLE dbo.t (n int NOT NULL)")
    other = database.another(autocommit=False)
    assert other.value("SELECT @@TRANCOUNT") == 1
    other.run("INSERT INTO dbo.t VALUES (1)")
    other.raw.rollback()
    other.run("INSERT INTO dbo.t VALUES (2)")
    other.raw.commit()
    assert other.value("SELECT @@TRANCOUNT") == 1
    assert database.column("SELECT n FROM dbo.t") == [2]


@item(3, "documented")
def test_trancount_counts_nested_transactions_and_rollback_ends_them_all(connection: Connection) -> None:
    """BEGIN adds one, COMMIT takes one, ROLLBACK takes all.

    Source: Microsoft, "@@TRANCOUNT (Transact-SQL)".
    """
    seen = connection.sets(
        "BEGIN TRAN BEGIN TRAN SELECT @@TRANCOUNT COMMIT SELECT @@TRANCOUNT BEGIN TRAN ROLLBACK SELECT @@TRANCOUNT"
    )
    assert [rows[0][0] for _, rows in seen] == [2, 1, 0]


@item(3, "documented")
@pytest.mark.parametrize(
    ("sql", "number", "text"),
    [
        ("COMMIT TRAN", 3902, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION."),
        ("ROLLBACK TRAN", 3903, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION."),
    ],
)
def test_ending_what_was_not_begun(connection: Connection, sql: str, number: int, text: str) -> None:
    """pymssql knows the second by its text.

    Source: Microsoft, "Database engine events and errors", 3902 and 3903.
    """
    refused = connection.error(sql)
    assert refused.number == number
    assert text in refused.text


@item(4, "documented")
@pytest.mark.parametrize("opened", ["", "BEGIN TRAN", "BEGIN TRAN BEGIN TRAN"])
def test_a_conditional_rollback(connection: Connection, opened: str) -> None:
    """Whatever is open, nothing is open afterwards.

    Source: Microsoft, "@@TRANCOUNT (Transact-SQL)", "ROLLBACK TRANSACTION (Transact-SQL)".
    """
    if opened:
        connection.run(opened)
    connection.run("IF @@TRANCOUNT > 0 ROLLBACK TRAN")
    assert connection.value("SELECT @@TRANCOUNT") == 0


@item(5, "documented")
def test_snapshot_where_it_is_not_allowed_is_3952(database: Database) -> None:
    """The first access to the database fails, not the SET.

    Source: Microsoft, "SET TRANSACTION ISOLATION LEVEL (Transact-SQL)"; errors, 3952.
    """
    database.run("CREATE TABLE dbo.t (n int NOT NULL)")
    database.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
    assert database.error("BEGIN TRAN SELECT n FROM dbo.t COMMIT").number == 3952


@item(5, "documented")
def test_a_snapshot_sees_what_was_committed_when_it_began(database: Database) -> None:
    """Another's later commit shows only after the transaction.

    Source: Microsoft, "SET TRANSACTION ISOLATION LEVEL (Transact-SQL)"; Debezium TestHelper.
    """
    database.run(f"ALTER DATABASE {database.database} SET ALLOW_SNAPSHOT_ISOLATION ON")
    database.run("CREATE TABLE dbo.t (n int NOT NULL)")
    reader = database.another()
    reader.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
    reader.run("BEGIN TRAN")
    assert reader.value("SELECT COUNT(*) FROM dbo.t") == 0
    database.run("INSERT INTO dbo.t VALUES (1)")
    assert reader.value("SELECT COUNT(*) FROM dbo.t") == 0
    reader.run("COMMIT")
    assert reader.value("SELECT COUNT(*) FROM dbo.t") == 1


@item(5, "documented")
def test_read_committed_sees_others_commits_within_a_transaction(database: Database) -> None:
    """Each statement sees what is committed by then.

    Source: Microsoft, "SET TRANSACTION ISOLATION LEVEL (Transact-SQL)".
    """
    database.run("CREATE TABLE dbo.t (n int NOT NULL)")
    reader = database.another()
    reader.run("BEGIN TRAN")
    assert reader.value("SELECT COUNT(*) FROM dbo.t") == 0
    database.run("INSERT INTO dbo.t VALUES (1)")
    assert reader.value("SELECT COUNT(*) FROM dbo.t") == 1
    reader.run("COMMIT")


def locked(database: Database, hint: str) -> Connection:
    """Another connection that holds dbo.t, in a transaction of its own."""
    database.run("CREATE TABLE dbo.t (n int NOT NULL)")
    holder = database.another()
    holder.run("BEGIN TRAN")
    holder.run(f"SELECT * FROM dbo.t WITH ({hint})")
    database.run("SET LOCK_TIMEOUT 100")
    return holder


@item(6, "documented")
@pytest.mark.parametrize("sql", ["INSERT INTO dbo.t VALUES (1)", "SELECT n FROM dbo.t"], ids=["writing", "reading"])
def test_waiting_longer_than_the_lock_timeout_is_1222(database: Database, sql: str) -> None:
    """An exclusive lock on the table stops writers and, under READ COMMITTED, readers.

    Source: Microsoft, "SET LOCK_TIMEOUT (Transact-SQL)"; Debezium's snapshot.
    """
    locked(database, "TABLOCKX")
    refused = database.error(sql)
    assert refused.number == 1222
    assert "Lock request time out period exceeded." in refused.text


@item(6, "documented")
def test_lock_timeout_says_what_was_set(connection: Connection) -> None:
    """-1 waits for ever and is the default.

    Source: Microsoft, "@@LOCK_TIMEOUT (Transact-SQL)".
    """
    assert connection.value("SELECT @@LOCK_TIMEOUT") == -1
    connection.run("SET LOCK_TIMEOUT 1800")
    assert connection.value("SELECT @@LOCK_TIMEOUT") == 1800


@item(7, "documented")
@pytest.mark.parametrize("hint", ["TABLOCKX", "TABLOCK, HOLDLOCK"])
def test_a_locked_table_takes_writes_again_when_the_transaction_ends(database: Database, hint: str) -> None:
    """Both hints hold their lock to the end of the transaction.

    Source: Microsoft, "Table hints (Transact-SQL)"; Debezium LOCK_TABLE.
    """
    holder = locked(database, hint)
    assert database.error("INSERT INTO dbo.t VALUES (1)").number == 1222
    holder.run("COMMIT")
    database.run("INSERT INTO dbo.t VALUES (1)")
    assert database.column("SELECT n FROM dbo.t") == [1]


@item(7, "documented")
def test_a_shared_table_lock_lets_readers_in(database: Database) -> None:
    """TABLOCK with HOLDLOCK is a shared lock.

    Source: Microsoft, "Table hints (Transact-SQL)".
    """
    locked(database, "TABLOCK, HOLDLOCK")
    assert database.rows("SELECT n FROM dbo.t") == []


@item(8, "measured")
@pytest.mark.one_driver("pymssql", "FreeTDS ends the connection; python-tds sends an attention and keeps it")
def test_a_query_timeout_ends_the_connection_and_a_new_one_works(server: Server, driver: str) -> None:
    """FreeTDS answers a time-out by declaring the connection dead (20003, 20047).

    Source: pymssql 2.4 with FreeTDS 1.5, measured.
    """
    raw = server.connect(driver, "master", timeout=1)
    started = time.monotonic()
    with pytest.raises(pymssql.Error), raw.cursor() as cursor:
        cursor.execute("WAITFOR DELAY '00:01:00'")
    assert time.monotonic() - started < 50
    with pytest.raises(pymssql.Error), raw.cursor() as cursor:
        cursor.execute("SELECT 1")
    raw.close()
    with Connection(server, driver, "master") as fresh:
        assert fresh.value("SELECT 1") == 1


@item(9, "measured")
def test_an_abandoned_result_does_not_harm_the_next_query(database: Database) -> None:
    """The driver sends an attention, or reads the rest away.

    Source: MS-TDS 2.2.1.7 (Attention); pymssql and python-tds, measured.
    """
    database.run("CREATE TABLE dbo.t (n int NOT NULL, filler char(200) NOT NULL)")
    for start in range(0, 3000, 500):
        values = ", ".join(f"({n}, 'x')" for n in range(start, start + 500))
        database.run(f"INSERT INTO dbo.t VALUES {values}")
    with database.raw.cursor() as cursor:
        cursor.execute("SELECT n, filler FROM dbo.t ORDER BY n")
        assert cursor.fetchone()[0] == 0
    assert database.value("SELECT COUNT(*) FROM dbo.t") == 3000


@item(10, "documented")
@pytest.mark.parametrize(
    ("sql", "number", "severity", "text"),
    [
        ("SELECT 1 FROM dbo.nothing", 208, 16, "Invalid object name 'dbo.nothing'."),
        ("SELECT nothing FROM dbo.child", 207, 16, "Invalid column name 'nothing'."),
        ("SELECT n FROM WHERE n = 1", 156, 15, "Incorrect syntax near the keyword 'WHERE'."),
        ("SELECT FROM dbo.child", 156, 15, "Incorrect syntax near the keyword 'FROM'."),
        ("SELECT (1", 102, 15, "Incorrect syntax near '1'."),
        ("INSERT INTO dbo.parent VALUES (1)", 2627, 14, "Violation of PRIMARY KEY constraint 'PK_parent'."),
        ("INSERT INTO dbo.child VALUES (NULL)", 515, 16, "Cannot insert the value NULL into column 'n'"),
        ("SELECT 1 / 0", 8134, 16, "Divide by zero error encountered."),
        ("SELECT 1e400", 168, 15, "The floating point value '1e400' is out of the range of computer representation"),
        ("SET LOCK_TIMEOUT SOON", 102, 15, "Incorrect syntax near 'SOON'."),
        ("SELECT CONVERT(int)", 102, 15, "Incorrect syntax near ')'."),
        (
            "SELECT CAST('x' AS int)",
            245,
            16,
            "Conversion failed when converting the varchar value 'x' to data type int.",
        ),
        ("EXEC dbo.nothing", 2812, 16, "Could not find stored procedure 'dbo.nothing'."),
        ("RAISERROR(N'said %d', 16, 3, 7)", 50000, 16, "said 7"),
    ],
    ids=[
        "208",
        "207",
        "156",
        "156 no columns",
        "102",
        "2627",
        "515",
        "8134",
        "168",
        "102 option",
        "102 type",
        "245",
        "2812",
        "50000",
    ],
)
def test_an_error_has_its_number_severity_and_text(
    database: Database, sql: str, number: int, severity: int, text: str
) -> None:
    """The severity shows through python-tds only.

    Source: Microsoft, "Database engine events and errors".
    """
    database.run("CREATE TABLE dbo.parent (id int NOT NULL CONSTRAINT PK_parent PRIMARY KEY)")
    database.run("CREATE TABLE dbo.child (n int NOT NULL)")
    database.run("INSERT INTO dbo.parent VALUES (1)")
    refused = database.error(sql)
    assert (refused.number, refused.severity or severity) == (number, severity)
    assert text in refused.text


@item(10, "documented")
@pytest.mark.parametrize(
    ("sql", "text"),
    [
        (
            "INSERT INTO dbo.child VALUES (9, 1)",
            'The INSERT statement conflicted with the FOREIGN KEY constraint "FK_child".',
        ),
        (
            "INSERT INTO dbo.child VALUES (1, -1)",
            'The INSERT statement conflicted with the CHECK constraint "CK_child".',
        ),
        ("DELETE FROM dbo.parent", 'The DELETE statement conflicted with the REFERENCE constraint "FK_child".'),
    ],
    ids=["foreign key", "check", "referenced"],
)
def test_a_conflict_with_a_constraint_is_547(database: Database, sql: str, text: str) -> None:
    """The constraint is named, and nothing is changed.

    Source: Microsoft, "Database engine events and errors", 547.
    """
    database.run("CREATE TABLE dbo.parent (id int NOT NULL PRIMARY KEY)")
    database.run(
        "CREATE TABLE dbo.child (parent int NOT NULL CONSTRAINT FK_child REFERENCES dbo.parent (id), "
        "n int NOT NULL CONSTRAINT CK_child CHECK (n > 0))"
    )
    database.run("INSERT INTO dbo.parent VALUES (1)")
    database.run("INSERT INTO dbo.child VALUES (1, 1)")
    refused = database.error(sql)
    assert refused.number == 547
    assert text in refused.text
    assert database.value("SELECT COUNT(*) FROM dbo.parent") == database.value("SELECT COUNT(*) FROM dbo.child") == 1


@item(10, "documented")
def test_a_caught_error_tells_everything(connection: Connection) -> None:
    """The ERROR_ functions inside CATCH, through either driver.

    Source: Microsoft, "TRY...CATCH (Transact-SQL)".
    """
    sets = connection.sets(
        "BEGIN TRY SELECT 1 / 0 END TRY BEGIN CATCH "
        "SELECT ERROR_NUMBER(), ERROR_SEVERITY(), ERROR_STATE(), ERROR_MESSAGE() END CATCH"
    )
    assert sets[-1][1] == [(8134, 16, 1, "Divide by zero error encountered.")]  # the failed SELECT's empty set is first
