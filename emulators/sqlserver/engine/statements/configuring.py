"""sp_configure and RECONFIGURE, for one session; the options themselves are in configuration.py.

Errors: 574, 15247. Source: https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-configure-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from emulators.sqlserver.engine.extension import CallContext, ProcedureSpec
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.results import Column, Event, Info, ResultSet, RowCount, SqlError, StatementDone, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.reading import statements as st

_INT = SqlType("int")
_COLUMNS = (
    Column("name", SqlType("nvarchar", 35)),
    *(Column(name, _INT) for name in ("minimum", "maximum", "config_value", "run_value")),
)


def procedures(session: StatementSession) -> dict[str, ProcedureSpec]:
    """sp_configure."""
    configuration = session.engine.configuration

    def run(context: CallContext, given: Mapping[str, Value]) -> Iterator[Event]:
        name, value = given.get("@configname"), given.get("@configvalue")
        if value is None:
            found = configuration.listed() if name is None else [configuration.find(str(name))]
            rows = [(o.name, o.least, o.most, o.value, o.running) for o in found]
            yield ResultSet(_COLUMNS, iter(rows))
            yield RowCount(len(rows))
            return
        _require_settings(session)
        option = configuration.find(str(name))
        before = configuration.put(option, _whole(value))
        text = f"Configuration option '{option.name}' changed from {before} to {value!s}. Run the RECONFIGURE statement to install."
        # of severity 10, which reaches a client as 0: "Database Engine error severities" on learn.microsoft.com
        yield Info(15457, text, 0, 1, "sp_configure")

    return {"sys.sp_configure": ProcedureSpec(("@configname", "@configvalue"), (), run)}


def _whole(value: Value) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise SqlError(8114, "Error converting data type nvarchar to int.", 16, 5, "sp_configure") from None


def reconfigure(session: StatementSession, statement: st.Reconfigure) -> Iterator[Event]:
    """https://learn.microsoft.com/sql/t-sql/language-elements/reconfigure-transact-sql"""
    if session.transaction.count:
        raise SqlError(574, "RECONFIGURE statement not allowed within multi-statement transaction.", 16)
    _require_settings(session)
    session.engine.configuration.reconfigure()
    yield StatementDone()


def _require_settings(session: StatementSession) -> None:
    if not session.engine.security.server_allows(session.login_request.user, "ALTER SETTINGS"):
        raise SqlError(15247, "User does not have permission to perform this action.", 16)
