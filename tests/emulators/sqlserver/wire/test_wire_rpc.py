"""RPC over the wire: typed parameters, sp_executesql and the sp_prepare family, procedures with OUTPUT parameters."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pymssql
import pytds
import pytest
from pytds import tds_base

from emulators.sqlserver.results import Event, Parameter, ReturnStatus, ReturnValue, RowCount, SqlError
from emulators.sqlserver.server import SqlServerEmulator
from emulators.sqlserver.sqltypes import MAX, SqlType
from tests.fakes.sql_engine import ScriptedEngine, rows_of

_GUID = "6F9619FF-8B86-D011-B42D-00C04FC964FF"
_OFFSET = dt.timezone(dt.timedelta(hours=5, minutes=30))


class Echo:
    """An engine that remembers the parameters it was given and gives them back as one row."""

    def __init__(self) -> None:
        self.engine = ScriptedEngine()
        self.bound: Mapping[str, Parameter] = {}
        self.given: Sequence[Parameter] = ()
        self.engine.script("echo", self._batch)
        for count in range(1, 5):
            self.engine.script("echo " + ", ".join(f"@P{n}" for n in range(1, count + 1)), self._batch)
        self.engine.procedures["echo"] = self._procedure
        self.engine.procedures["outputs"] = lambda s, p, c: iter(
            [RowCount(1), ReturnValue("", SqlType("int"), 42), ReturnStatus(3)]
        )

    def _batch(self, session: Any, parameters: Mapping[str, Parameter], cancelled: Any) -> Iterator[Event]:
        self.bound = parameters
        yield self._row(list(parameters.values()))

    def _procedure(self, session: Any, parameters: Sequence[Parameter], cancelled: Any) -> Iterator[Event]:
        self.given = parameters
        yield self._row(parameters)
        for parameter in parameters:
            if parameter.output:
                yield ReturnValue(parameter.name, SqlType("int"), 42)
        yield ReturnStatus(3)

    def _row(self, parameters: Sequence[Parameter]) -> Event:
        columns = {f"p{n}": p.type for n, p in enumerate(parameters)} or {"p": SqlType("int")}
        return rows_of(columns, [[p.value for p in parameters] or [None]])


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def connection(echo: Echo) -> Iterator[Any]:
    with (
        SqlServerEmulator(echo.engine) as server,
        pytds.connect("127.0.0.1", port=server.port, user="sa", password="secret", autocommit=True) as opened,
    ):
        yield opened


@pytest.mark.parametrize(
    ("sent", "name", "stored", "back"),
    [
        (5, "int", 5, 5),
        (-(2**40), "bigint", -(2**40), -(2**40)),
        (True, "bit", 1, True),
        (0.1, "float", 0.1, 0.1),
        (Decimal("-12.34"), "decimal", "-12.34", Decimal("-12.34")),
        (Decimal("9" * 38), "decimal", "9" * 38, Decimal("9" * 38)),
        ("na\u00efve \u4e2d", "nvarchar", "na\u00efve \u4e2d", "na\u00efve \u4e2d"),
        ("", "nvarchar", "", ""),
        ("x" * 70000, "nvarchar", "x" * 70000, "x" * 70000),
        (pytds.Binary(b"\0\x01"), "varbinary", b"\0\x01", b"\0\x01"),
        (pytds.Binary(b"\xff" * 70000), "varbinary", b"\xff" * 70000, b"\xff" * 70000),
        (uuid.UUID(_GUID), "uniqueidentifier", _GUID, uuid.UUID(_GUID)),
        (dt.date(1, 1, 1), "date", "0001-01-01", dt.date(1, 1, 1)),
        (dt.time(1, 2, 3, 456789), "time", "01:02:03.456789", dt.time(1, 2, 3, 456789)),
        (
            dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
            "datetime2",
            "9999-12-31 23:59:59.999999",
            dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
        ),
        (
            dt.datetime(2018, 7, 13, 1, 0, 0, 5, _OFFSET),
            "datetimeoffset",
            "2018-07-13 01:00:00.000005 +05:30",
            dt.datetime(2018, 7, 13, 1, 0, 0, 5, _OFFSET),
        ),
    ],
)
def test_a_parameter_of_each_type_is_bound_in_its_storage_form(
    echo: Echo, connection: Any, sent: Any, name: str, stored: Any, back: Any
) -> None:
    cursor = connection.cursor()
    cursor.execute("echo %s", (sent,))
    (bound,) = echo.bound.values()
    assert (bound.name, bound.type.name) == ("@P1", name)
    assert _rounded(bound.value) == stored
    assert cursor.fetchall() == [(back,)]


def _rounded(value: Any) -> Any:
    """Drop the 7th digit, always 0 from Python, where the driver declares a scale of 7."""
    if isinstance(value, str) and ":" in value:
        body, space, zone = value.partition(" +")
        return (body[:-1] if len(body.rpartition(".")[2]) == 7 else body) + space + zone
    return value


def test_max_and_precision_of_a_parameter_come_through(echo: Echo, connection: Any) -> None:
    connection.cursor().execute("echo %s, %s, %s", ("x" * 5000, Decimal("1.25"), pytds.Binary(bytes(9000))))
    text, number, data = echo.bound.values()
    assert text.type == SqlType("nvarchar", MAX)
    assert data.type == SqlType("varbinary", MAX)
    assert (number.type.scale, number.value) == (2, "1.25")


def test_a_procedure_gets_named_and_output_parameters_and_gives_status_and_values_back(
    echo: Echo, connection: Any
) -> None:
    cursor = connection.cursor()
    results = cursor.callproc("echo", (1, pytds.output(param_type="int"), pytds.default, pytds.output(value=7)))
    assert [p.output for p in echo.given] == [False, True, False, True]
    assert [p.default for p in echo.given] == [False, False, True, False]
    assert cursor.fetchall() == [(1, None, None, 7)]
    assert cursor.get_proc_return_status() == 3
    assert len(results) == 4


def test_an_output_value_lands_on_its_own_parameter(echo: Echo, connection: Any) -> None:
    def outputs(session: Any, parameters: Sequence[Parameter], cancelled: Any) -> Iterator[Event]:
        yield RowCount(1)
        yield ReturnValue("", SqlType("int"), 10)
        yield ReturnValue("", SqlType("nvarchar", 10), "twenty")

    echo.engine.procedures["outputs"] = outputs
    sent = (1, pytds.output(param_type="int"), 2, pytds.output(param_type="nvarchar(10)"))
    assert connection.cursor().callproc("outputs", sent) == [1, 10, 2, "twenty"]


def test_pymssql_calls_a_procedure(echo: Echo) -> None:
    with (
        SqlServerEmulator(echo.engine) as server,
        pymssql.connect(
            server="127.0.0.1", port=str(server.port), user="sa", password="secret", autocommit=True
        ) as connection,
    ):
        cursor = connection.cursor()
        cursor.callproc("echo", (5, "text"))
        assert [p.value for p in echo.given] == [5, "text"]
        assert cursor.fetchall() == [(5, "text")]
        out = cursor.callproc("outputs", (pymssql.output(int),))
        assert out[0] == 42
        assert cursor.returnvalue == 3


@pytest.mark.parametrize("name", ["sp_nothing", "sp_prepexecrpc"])
def test_an_unknown_procedure_is_2812(connection: Any, name: str) -> None:
    with pytest.raises(pytds.Error, match=f"Could not find stored procedure '{name}'"):
        connection.cursor().callproc(name, ())


def test_an_error_inside_an_rpc_leaves_the_session_usable(echo: Echo, connection: Any) -> None:
    def fail(session: Any, parameters: Any, cancelled: Any) -> Iterator[Event]:
        yield RowCount(1)
        raise SqlError(50000, "no")

    echo.engine.script("echo @P1", fail)
    cursor = connection.cursor()
    cursor.execute("echo %s", (1,))
    assert cursor.rowcount == 1
    with pytest.raises(pytds.Error, match="no"):
        cursor.nextset()
    connection.cursor().execute("echo %s, %s", (1, 2))
    assert [p.value for p in echo.bound.values()] == [1, 2]


def _rpc(connection: Any, procedure: tds_base.InternalProc | str, *values: Any) -> Any:
    """Call by number, as drivers with prepared statements do; python-tds has no public way to it."""
    session = connection._tds_socket.main_session
    session.submit_rpc(procedure, session._convert_params(values), 0)
    session.begin_response()
    session.process_rpc()
    return session


def _number(number: int) -> tds_base.InternalProc:
    return tds_base.InternalProc(number, "by number")


def test_a_statement_is_prepared_executed_and_forgotten(echo: Echo, connection: Any) -> None:
    handle = pytds.output(param_type="int")
    session = _rpc(connection, _number(11), handle, "@P1 int, @P2 decimal(10, 2)", "echo @P1, @P2", 1)
    number = session.output_params[0].value
    assert isinstance(number, int)
    for value in (1, 2):
        session = _rpc(connection, _number(12), number, value, Decimal("2.5"))
        assert [p.value for p in echo.bound.values()] == [value, "2.5"]
        assert session.next_row()
    session.cancel_if_pending()
    _rpc(connection, _number(15), number)
    with pytest.raises(pytds.Error, match=f"prepared statement with handle {number}"):
        _rpc(connection, _number(12), number, 1, Decimal(2))


def test_prepare_and_execute_in_one_call_returns_rows_and_handle(echo: Echo, connection: Any) -> None:
    handle = pytds.output(param_type="int")
    session = _rpc(connection, _number(13), handle, "@P1 nvarchar(10)", "echo @P1", "x")
    assert echo.bound["@P1"].value == "x"
    session.complete_rpc()
    assert session.output_params[0].value == 1


def test_named_values_bind_whatever_their_order(echo: Echo, connection: Any) -> None:
    session = connection._tds_socket.main_session
    values = [session.make_param(*pair) for pair in (("", "echo"), ("", "@a int, @B int"), ("@b", 2), ("@A", 1))]
    session.submit_rpc("sys.sp_executesql", values, 0)
    session.begin_response()
    session.process_rpc()
    assert {name: p.value for name, p in echo.bound.items()} == {"@a": 1, "@B": 2}
    session.cancel_if_pending()


@pytest.mark.parametrize(
    ("declaration", "values", "text"),
    [
        ("@a int", (), "expects the parameter '@a', which was not supplied"),
        ("@a int", (1, 2), "too many arguments"),
        ("a int", (1,), "Incorrect syntax near 'a int'"),
    ],
)
def test_values_that_do_not_fit_the_declaration_are_refused(
    connection: Any, declaration: str, values: tuple[Any, ...], text: str
) -> None:
    with pytest.raises(pytds.Error, match=text):
        _rpc(connection, "sp_executesql", "echo", declaration, *values)
