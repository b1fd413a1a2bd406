"""Server configuration options: sp_configure, RECONFIGURE and sys.configurations. Two can be set: "max text repl size (B)", which Change
Data Capture heeds, and "show advanced options"; the others show their defaults, and setting them is refused by name.

Errors: 574, 15123, 15124, 15129, 15247. Source: https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-configure-transact-sql
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulators.sqlserver.engine.extension import CallContext, ProcedureSpec
from emulators.sqlserver.results import Column, Event, Info, ResultSet, RowCount, SqlError, StatementDone, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql import statements as st

if TYPE_CHECKING:
    from emulators.sqlserver.engine.session import SqlSession

MAX_TEXT_REPL_SIZE = "max text repl size (B)"
_SHOW_ADVANCED = "show advanced options"
_SETTABLE = (MAX_TEXT_REPL_SIZE, _SHOW_ADVANCED)
_INT = SqlType("int")
_COLUMNS = (
    Column("name", SqlType("nvarchar", 35)),
    *(Column(name, _INT) for name in ("minimum", "maximum", "config_value", "run_value")),
)


@dataclass(slots=True)
class Option:
    """`value` as it was set, `running` as it has been since the last RECONFIGURE."""

    number: int
    name: str
    least: int
    most: int
    value: int
    advanced: bool = False
    dynamic: bool = True
    running: int = 0


def _options() -> list[Option]:
    found = [
        Option(16384, "Agent XPs", 0, 1, 1, advanced=True),
        Option(124, "default language", 0, 9999, 0),
        Option(1544, "max server memory (MB)", 128, 2147483647, 2147483647, advanced=True),
        Option(1536, MAX_TEXT_REPL_SIZE, -1, 2147483647, 65536),
        Option(115, "nested triggers", 0, 1, 1),
        Option(518, _SHOW_ADVANCED, 0, 1, 0),
        Option(1127, "two digit year cutoff", 1753, 9999, 2049, advanced=True),
        Option(103, "user connections", 0, 32767, 0, advanced=True, dynamic=False),
    ]
    for option in found:
        option.running = option.value
    return found


class Configuration:
    """The options of a server. `changed` is told the name and the new value of an option that RECONFIGURE changes."""

    def __init__(self) -> None:
        self.options = _options()
        self.saved: Callable[[], None] = lambda: None
        """Called after every change, before it is answered."""
        self._kept: Mapping[str, int] = {}
        self.changed: Callable[[str, int], None] = lambda name, value: None
        self._guard = threading.Lock()

    def start_with(self, name: str, value: int) -> None:
        """What the server was installed with; what was set since then stays."""
        if name not in self._kept:
            option = self._named(name)
            option.value = option.running = value

    def restore(self, kept: Mapping[str, int]) -> None:
        """Options as they were set in an earlier run: a start installs them all."""
        self._kept = kept
        for name, value in kept.items():
            option = self._named(name)
            option.value = option.running = value

    def state(self) -> dict[str, int]:
        """What can be set, as it was set."""
        return {option.name: option.value for option in self.options if option.name in _SETTABLE}

    def running(self, name: str) -> int:
        return self._named(name).running

    def _named(self, name: str) -> Option:
        return next(option for option in self.options if option.name == name)

    def find(self, written: str) -> Option:
        """By any unambiguous part of its name. Raises 15123, 15124."""
        wanted = written.lower()
        shown = [option for option in self.options if self._visible(option)]
        found = [o for o in shown if o.name.lower() == wanted] or [o for o in shown if wanted in o.name.lower()]
        if not found:
            text = f"The configuration option '{written}' does not exist, or it may be an advanced option."
            raise SqlError(15123, text, 16)
        if len(found) > 1:
            raise SqlError(15124, f"The configuration option '{written}' is not unique.", 16)
        return found[0]

    def listed(self) -> list[Option]:
        return [option for option in self.options if self._visible(option)]

    def put(self, option: Option, value: int) -> int:
        """The former value. Raises 15129."""
        if option.name not in _SETTABLE:
            raise errors.unsupported(f"sp_configure '{option.name}'")
        if not option.least <= value <= option.most:
            raise SqlError(15129, f"'{value}' is not a valid value for configuration option '{option.name}'.", 16)
        with self._guard:
            before, option.value = option.value, value
            self.saved()
        return before

    def reconfigure(self) -> None:
        with self._guard:
            for option in self.options:
                if option.running != option.value:
                    option.running = option.value
                    self.changed(option.name, option.value)

    def _visible(self, option: Option) -> bool:
        showing = next(o.running for o in self.options if o.name == _SHOW_ADVANCED)
        return bool(showing) or not option.advanced


def procedures(session: SqlSession) -> dict[str, ProcedureSpec]:
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
        before = configuration.put(option, int(str(value)))
        text = f"Configuration option '{option.name}' changed from {before} to {value!s}. Run the RECONFIGURE statement to install."
        # of severity 10, which reaches a client as 0: "Database Engine error severities" on learn.microsoft.com
        yield Info(15457, text, 0, 1, "sp_configure")

    return {"sys.sp_configure": ProcedureSpec(("@configname", "@configvalue"), (), run)}


def reconfigure(session: SqlSession, statement: st.Reconfigure) -> Iterator[Event]:
    """https://learn.microsoft.com/sql/t-sql/language-elements/reconfigure-transact-sql"""
    if session.transactions:
        raise SqlError(574, "RECONFIGURE statement not allowed within multi-statement transaction.", 16)
    _require_settings(session)
    session.engine.configuration.reconfigure()
    yield StatementDone()


def _require_settings(session: SqlSession) -> None:
    if not session.engine.security.server_allows(session.login_request.user, "ALTER SETTINGS"):
        raise SqlError(15247, "User does not have permission to perform this action.", 16)
