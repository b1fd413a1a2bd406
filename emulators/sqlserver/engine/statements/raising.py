"""THROW, RAISERROR and PRINT. RAISERROR's substitution follows
https://learn.microsoft.com/sql/t-sql/language-elements/raiserror-transact-sql ; messages of sys.messages are not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.results import Event, Info, SqlError, StatementDone, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.values.convert import converter

_PRINTED = SqlType("nvarchar", 4000)
_LONGEST = 2047
_RETHROW = (
    "To rethrow an error, a THROW statement must be used inside a CATCH block. Insert the THROW statement inside a CATCH block, "
    "or add error parameters to the THROW statement."
)
_SPECIFICATION = re.compile(r"%(?:%|([-+0# ]*)(\*|\d+)?(?:\.(\*|\d+))?(?:h|l|I64)?([diuoxXs])?)")


class Thrown(SqlError):
    """THROW always ends the batch, whatever the number."""

    def __init__(self, error: SqlError) -> None:
        super().__init__(error.number, error.message, error.severity, error.state, error.procedure, error.line)


def throw(session: StatementSession, statement: st.Throw) -> Iterator[Event]:
    """Raises Thrown always; SqlError 10704 and 35100 for a THROW that cannot be."""
    if statement.arguments is None:
        if session.caught is None:
            raise SqlError(10704, _RETHROW, 15)
        raise Thrown(session.caught)
    _, row = session.runner.row(statement.arguments)
    if len(row) != 3:
        raise errors.syntax("THROW")
    number = int(str(row[0]))
    if number < 50000:
        text = (
            f"Error number {number} in the THROW statement is outside the valid range. Specify an error number in the valid "
            "range of 50000 to 2147483647."
        )
        raise SqlError(35100, text, 16, 10)
    raise Thrown(SqlError(number, "" if row[1] is None else str(row[1]), 16, int(str(row[2])), "", statement.line))
    yield  # a generator, as every statement is


def refuse(statement: st.Refused) -> Iterator[Event]:
    """A statement that is not supported is reached. Raises 50001."""
    raise SqlError(errors.UNSUPPORTED, statement.message, 16)


def raise_error(session: StatementSession, statement: st.RaiseError) -> Iterator[Event]:
    plan, row = session.runner.row(statement.arguments)
    if len(row) < 3:
        raise errors.syntax(")")
    severity, state = max(int(str(row[1])), 0), int(str(row[2]))
    if severity > 18 and not statement.logged:
        text = (
            "Error severity levels greater than 18 can only be specified by members of the sysadmin role, using the WITH LOG "
            "option."
        )
        raise SqlError(2754, text, 16)
    if severity > 19:
        raise errors.unsupported(f"RAISERROR with severity {severity}, which ends the connection,")
    text = _text(row, [column.type for column in plan.columns], severity, state)
    state = 1 if state < 0 else state
    if severity <= 10:
        yield Info(50000, text, severity, state, "", statement.line)
        yield StatementDone()
        return
    raise SqlError(50000, text, severity, state, "", statement.line)


def _text(row: Sequence[Value], types: Sequence[SqlType], severity: int, state: int) -> str:
    text = row[0]
    if isinstance(text, int):
        missing = (
            f"Error {text}, severity {severity}, state {state} was raised, but no message with that error number was found in "
            "sys.messages. If error is larger than 50000, make sure the user-defined message is added using sp_addmessage."
        )
        raise SqlError(18054, missing, 16)
    shown = formatted("" if text is None else str(text), list(zip(row[3:], types[3:], strict=True)))
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 3] + "..."


def formatted(text: str, arguments: Sequence[tuple[Value, SqlType]]) -> str:
    """printf's substitution as RAISERROR has it. Raises SqlError 2786, 2787."""
    given = iter(enumerate(arguments, 1))

    def argument(wanted: type) -> Value:
        number, (value, kind) = next(given, (0, (None, SqlType("int"))))
        if value is not None and (not isinstance(value, wanted) or kind.name in ("bigint", "decimal", "numeric")):
            mismatch = (
                f"The data type of substitution parameter {number} does not match the expected type of the format "
                "specification."
            )
            raise SqlError(2786, mismatch, 16)
        return value

    def replaced(match: re.Match[str]) -> str:
        if match.group() == "%%":
            return "%"
        flags, width, precision, kind = match.groups()
        if kind is None:
            raise SqlError(2787, f"Invalid format specification: '{text[match.start() :][:20]}'.", 16)
        width = str(argument(int) or "") if width == "*" else width or ""
        precision = (
            "." + str(argument(int) or 0) if precision == "*" else f".{precision}" if precision is not None else ""
        )
        value = argument(str if kind == "s" else int)
        if value is None:
            return f"%{width}s" % "(null)"
        if kind in "uoxX" and isinstance(value, int) and value < 0:
            value += 2**32
        return f"%{flags}{width}{precision}{'d' if kind == 'u' else kind}" % value

    return _SPECIFICATION.sub(replaced, text)


def print_text(session: StatementSession, statement: st.Print) -> Iterator[Event]:
    kind, value = session.runner.value(statement.value)
    text = "" if value is None else str(converter(kind, _PRINTED)(value))
    yield Info(0, text, 0, 1, "", statement.line)
