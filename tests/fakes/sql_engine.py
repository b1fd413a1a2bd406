"""A scripted Engine: canned events for known texts, so that the wire is tested without any SQL.

It refuses a text nobody scripted (error 102) and knows two users' worth of login rules, no more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from emulators.sqlserver.results import (
    Cancel,
    DatabaseChanged,
    Event,
    Info,
    LoginRequest,
    Parameter,
    ResultSet,
    SqlError,
    StatementDone,
    TransactionChanged,
    Value,
)
from emulators.sqlserver.results import Column as Column
from emulators.sqlserver.sqltypes import SqlType

_END = "\n;EXEC sys.sp_executesql N'SELECT 1 AS [__$end]'"
"""Behind each batch of the product's connections."""

Script = Callable[["ScriptedSession", Mapping[str, Parameter], Cancel], Iterator[Event]]
Procedure = Callable[["ScriptedSession", Sequence[Parameter], Cancel], Iterator[Event]]


def rows_of(columns: Mapping[str, SqlType], rows: Sequence[Sequence[Value]]) -> ResultSet:
    return ResultSet([Column(name, type_) for name, type_ in columns.items()], iter(rows))


class ScriptedEngine:
    """Runs the scripts it was given. User "sa" with password "secret" may enter the databases "demo" and "master"."""

    def __init__(self) -> None:
        self.on_kill: Callable[[int], None] | None = None
        self.scripts: dict[str, Script] = {}
        self.procedures: dict[str, Procedure] = {}
        self.sessions: list[ScriptedSession] = []
        self.logins: list[LoginRequest] = []
        self.tokens: set[str] = set()
        """That are taken in place of user and password."""
        self.closed = threading.Event()
        """Set whenever a session was closed."""

    def on(self, text: str, *events: Event) -> None:
        """Answer this batch with these events; for rows give a fresh iterator each time, with `script`."""
        self.scripts[text] = lambda session, parameters, cancelled: iter(events)

    def script(self, text: str, script: Script) -> None:
        self.scripts[text] = script

    def login(self, request: LoginRequest) -> ScriptedSession:
        self.logins.append(request)
        if request.token is not None and request.token not in self.tokens:
            raise SqlError(18456, "Login failed for user '<token-identified principal>'.", 14)
        if request.token is None and (request.user, request.password) != ("sa", "secret"):
            raise SqlError(18456, f"Login failed for user '{request.user}'.", 14)
        database = request.database or "demo"
        if database not in ("demo", "master"):
            raise SqlError(4060, f'Cannot open database "{database}" requested by the login. The login failed.', 11)
        session = ScriptedSession(self, len(self.sessions) + 51, database)
        self.sessions.append(session)
        return session

    def close(self) -> None:
        """Nothing to release."""


class ScriptedSession:
    def __init__(self, engine: ScriptedEngine, session_id: int, database: str) -> None:
        self._engine = engine
        self.session_id = session_id
        self.database = database
        self.collation = ""
        self.transaction = 0
        self.began_with: list[tuple[str | None, str]] = []
        self.ended: list[str] = []
        self.resets = 0
        self.is_closed = False

    @property
    def in_transaction(self) -> bool:
        return self.transaction != 0

    def batch(self, sql: str, parameters: Mapping[str, Parameter], cancelled: Cancel) -> Iterator[Event]:
        text = sql.strip()
        if text.endswith(_END):
            yield from self.batch(text.removesuffix(_END), parameters, cancelled)
            yield rows_of({"__$end": SqlType("int")}, [(1,)])
        elif text in self._engine.scripts:
            yield from self._engine.scripts[text](self, parameters, cancelled)
        elif text.upper().startswith("SET "):
            yield StatementDone()
        elif text.lower().startswith("use "):
            yield from self._use(text[4:].strip("[] ;"))
        elif text.upper() == "BEGIN TRAN":
            yield from self.begin()
        elif text.upper().startswith("COMMIT"):
            yield from self.commit()
        elif "ROLLBACK" in text.upper():
            yield from self.rollback()
        else:
            raise SqlError(102, f"Incorrect syntax near '{text[:30]}'.", 15)

    def procedure(self, name: str, parameters: Sequence[Parameter], cancelled: Cancel) -> Iterator[Event]:
        if name not in self._engine.procedures:
            raise SqlError(2812, f"Could not find stored procedure '{name}'.")
        return self._engine.procedures[name](self, parameters, cancelled)

    def bulk_load(
        self, columns: Sequence[Column], rows: Sequence[Sequence[Value]], cancelled: Cancel
    ) -> Iterator[Event]:
        raise SqlError(50001, "a scripted engine takes no rows")

    def begin(self, isolation: str | None = None, name: str = "") -> Iterator[Event]:
        self.began_with.append((isolation, name))
        self.transaction += 1
        yield TransactionChanged("begin", 7)
        yield StatementDone()

    def commit(self, name: str = "") -> Iterator[Event]:
        yield from self._end("commit")

    def rollback(self, name: str = "") -> Iterator[Event]:
        yield from self._end("rollback")

    def save(self, name: str) -> Iterator[Event]:
        self.ended.append(f"save {name}")
        yield StatementDone()

    def reset(self) -> None:
        self.resets += 1
        self.transaction = 0

    def close(self) -> None:
        self.transaction = 0
        self.is_closed = True
        self._engine.closed.set()

    def _end(self, kind: str) -> Iterator[Event]:
        if not self.transaction:
            raise SqlError(3902 if kind == "commit" else 3903, f"The {kind.upper()} TRANSACTION request has no ...")
        self.transaction = 0
        self.ended.append(kind)
        yield TransactionChanged(kind, 7)
        yield StatementDone()

    def _use(self, database: str) -> Iterator[Event]:
        old, self.database = self.database, database
        yield DatabaseChanged(database, old)
        yield Info(5701, f"Changed database context to '{database}'.", 0, 2)
        yield StatementDone()
