"""The procedures drivers use to run parameterised text: sp_executesql and the sp_prepare family, unfolded into Session.batch.

Every other name goes to Session.procedure. Values keep the type they came with: the declaration (`@p1 int, ...`) names and
orders the parameters, and drivers send what they declare. No I/O, no SQL beyond that declaration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from emulators.sqlserver.results import Cancel, Event, Parameter, ReturnValue, Session, SqlError
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.wire.rpc import Call

StatementLog = Callable[[str], None]

_NAME = re.compile(r"\s*(@[\w@#$]+)\s+\S", re.UNICODE)


class PreparedStatements:
    """The prepared statements of one connection, and the way every RPC of it is run."""

    def __init__(self, session: Session, log: StatementLog) -> None:
        self._session = session
        self._log = log
        self._statements: dict[int, tuple[str, Sequence[str]]] = {}
        self._next = 1

    def run(self, call: Call, cancelled: Cancel) -> Iterator[Event]:
        """The events of one call. Raises SqlError, at the latest while they are pulled."""
        name = call.name.rpartition(".")[2].strip("[]").lower()
        given = call.parameters
        if name == "sp_executesql":
            return self._execute(_text(name, given, 0), _declared(_text(name, given, 1, "")), given[2:], cancelled)
        if name == "sp_prepare":
            return self._prepared(given[0].name, self._remember(_text(name, given, 2), _text(name, given, 1, "")))
        if name == "sp_prepexec":
            return self._prepare_and_execute(given, cancelled)
        if name == "sp_execute":
            text, names = self._statement(_handle(name, given))
            return self._execute(text, names, given[1:], cancelled)
        if name == "sp_unprepare":
            return self._forget(_handle(name, given))
        if name == "sp_reset_connection":
            return self.reset()
        return self._session.procedure(call.name, given, cancelled)

    def reset(self) -> Iterator[Event]:
        """RESETCONNECTION: prepared statements go with the session's other state."""
        self._statements.clear()
        self._session.reset()
        return iter(())

    def _execute(
        self, text: str, names: Sequence[str], values: Sequence[Parameter], cancelled: Cancel
    ) -> Iterator[Event]:
        self._log(text)
        return self._session.batch(text, _bind(text, names, values), cancelled)

    def _prepare_and_execute(self, given: Sequence[Parameter], cancelled: Cancel) -> Iterator[Event]:
        handle = self._remember(_text("sp_prepexec", given, 2), _text("sp_prepexec", given, 1, ""))
        text, names = self._statement(handle)
        yield from self._execute(text, names, given[3:], cancelled)
        yield from self._prepared(given[0].name, handle)

    def _prepared(self, name: str, handle: int) -> Iterator[Event]:
        """The handle, as the OUTPUT parameter `name` that the client sent for it."""
        yield ReturnValue(name, SqlType("int"), handle)

    def _remember(self, text: str, declaration: str) -> int:
        handle = self._next
        self._next += 1
        self._statements[handle] = (text, _declared(declaration))
        return handle

    def _statement(self, handle: int) -> tuple[str, Sequence[str]]:
        if handle not in self._statements:
            raise SqlError(8179, f"Could not find prepared statement with handle {handle}.")
        return self._statements[handle]

    def _forget(self, handle: int) -> Iterator[Event]:
        self._statement(handle)
        del self._statements[handle]
        return iter(())


def _text(procedure: str, given: Sequence[Parameter], place: int, default: str | None = None) -> str:
    value = given[place].value if place < len(given) else None
    if isinstance(value, str):
        return value
    if value is None and default is not None:
        return default
    raise SqlError(214, f"Procedure expects parameter {place + 1} of {procedure} of type 'ntext/nchar/nvarchar'.")


def _handle(procedure: str, given: Sequence[Parameter]) -> int:
    value = given[0].value if given else None
    if isinstance(value, int):
        return value
    raise SqlError(214, f"Procedure expects parameter '@handle' of type 'int' ({procedure}).")


def _declared(declaration: str) -> Sequence[str]:
    """The names in "@p1 decimal(10, 2), @p2 nvarchar(4000) OUTPUT": commas inside brackets separate nothing."""
    names = []
    for part in re.split(r",(?![^(]*\))", declaration):
        if not part.strip():
            continue
        match = _NAME.match(part)
        if match is None:
            raise SqlError(102, f"Incorrect syntax near '{part.strip()[:30]}'.", 15)
        names.append(match.group(1))
    return names


def _bind(text: str, names: Sequence[str], values: Sequence[Parameter]) -> Mapping[str, Parameter]:
    """Give positional values the declared names; check that each declared parameter has one value and no other came."""
    if len(values) > len(names):
        raise SqlError(8144, "Procedure or function  has too many arguments specified.")
    places = {name.lower(): name for name in names}
    bound: dict[str, Parameter] = {}
    for place, value in enumerate(values):
        name = places.get(value.name.lower()) if value.name else names[place]
        if name is None:
            raise SqlError(8145, f"{value.name} is not a parameter for procedure .")
        bound[name] = Parameter(name, value.type, value.value, value.output, value.default)
    missing = next((name for name in names if name not in bound), None)
    if missing is not None:
        raise SqlError(
            8178,
            f"The parameterized query '({', '.join(names)}){text[:80]}' expects the parameter '{missing}', "
            "which was not supplied.",
        )
    return bound
