"""Where faults get in: the hooks of a Fault, the set of those in force, and a Session that lets them act first.

It knows no fault by name (see faults/catalogue.py) and no socket. A fault that is not in force costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from emulators.sqlserver.results import Cancel, Column, Engine, Event, LoginRequest, Parameter, Session, Value


class Stage(StrEnum):
    """Where in its life a connection may fall silent."""

    ACCEPT = "accept"
    """TCP is connected; nothing was read."""
    PRELOGIN = "prelogin"
    """PRELOGIN is read."""
    TLS = "tls"
    """A part of the TLS handshake is read."""
    LOGIN = "login"
    """LOGIN7 is read; there is no session yet."""
    READING = "reading"
    """The next request is due; nothing of it was read."""
    QUERY = "query"
    """A batch, statement or procedure is read, and has not run."""
    ANSWER = "answer"
    """It is about to run, and then to be answered."""
    ATTENTION = "attention"
    """An attention is read, and has ended what ran."""


@dataclass(frozen=True, slots=True)
class Silence:
    """From here on a connection says `octets` more of what it has to say (None: half of it), then nothing until its client leaves.

    `over` is set when the fault has ended: a connection that stopped reading reads again then, so that it sees its client leave.
    """

    octets: int | None
    over: threading.Event


class SentOn(Exception):
    """Whoever logs in is to do so at another address."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"{host}:{port}")
        self.host, self.port = host, port


class BrokenOff(Exception):
    """The session was killed while its answer was under way: no error tells of it, only the answer's last token."""


class Server(Protocol):
    """What a fault may do to a server beyond its hooks."""

    @property
    def engine(self) -> Engine: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Fault:
    """One thing that goes wrong while it is in force. Hooks are called on the connections' threads; these do nothing."""

    def begin(self, server: Server) -> None:
        """It comes into force on this server."""

    def end(self) -> None:
        """It is over: whoever waits in it goes on."""

    def login(self, request: LoginRequest) -> None:
        """Somebody logs in with a valid packet. Raises SqlError to refuse, SentOn to send on."""

    def statement(self, text: str, session: Session, cancelled: Cancel) -> Iterator[Event]:
        """A batch, statement or procedure (then its name) is about to run: wait, say something, or raise SqlError instead."""
        return iter(())

    def answer(self, text: str, events: Iterator[Event]) -> Iterator[Event]:
        """What a batch, statement or procedure answers, or less of it. Raises BrokenOff, also from a row."""
        return events

    def finished(self) -> None:
        """A batch, statement or procedure ended without an error."""

    def sending(self, count: int) -> int:
        """How many of `count` bytes of an answer may still go out; with fewer the connection is cut after them."""
        return count

    def silent(self, stage: Stage, text: str = "") -> Silence | None:
        """A connection has come to this stage: whether it falls silent. `text`: of the statement, for QUERY and ANSWER."""
        return None


class Faults:
    """The faults in force on a server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: tuple[Fault, ...] = ()

    @property
    def active(self) -> tuple[Fault, ...]:
        return self._active

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._active = (*self._active, fault)

    def remove(self, fault: Fault) -> None:
        with self._lock:
            self._active = tuple(other for other in self._active if other is not fault)

    def login(self, request: LoginRequest) -> None:
        """Raises SqlError when a fault refuses, SentOn when one sends on."""
        for fault in self._active:
            fault.login(request)

    def sending(self, count: int) -> int:
        return min((fault.sending(count) for fault in self._active), default=count)

    def silent(self, stage: Stage, text: str = "") -> Silence | None:
        """The first fault's that has one."""
        for fault in self._active:
            if (silence := fault.silent(stage, text)) is not None:
                return silence
        return None


class FaultySession:
    """A results.Session whose statements meet the faults in force before they run.

    `about_to_run`: called with the text of each, or a procedure's name, after the faults have let it pass.
    """

    def __init__(
        self, session: Session, faults: Faults, about_to_run: Callable[[str], None] = lambda text: None
    ) -> None:
        self._session = session
        self._faults = faults
        self._about_to_run = about_to_run

    @property
    def session_id(self) -> int:
        return self._session.session_id

    @property
    def database(self) -> str:
        return self._session.database

    @property
    def collation(self) -> str:
        return self._session.collation

    @property
    def in_transaction(self) -> bool:
        return self._session.in_transaction

    def batch(self, sql: str, parameters: Mapping[str, Parameter], cancelled: Cancel) -> Iterator[Event]:
        if not self._faults.active:
            return self._session.batch(sql, parameters, cancelled)
        return self._met(sql, self._session.batch(sql, parameters, cancelled), cancelled)

    def procedure(self, name: str, parameters: Sequence[Parameter], cancelled: Cancel) -> Iterator[Event]:
        if not self._faults.active:
            return self._session.procedure(name, parameters, cancelled)
        return self._met(name, self._session.procedure(name, parameters, cancelled), cancelled)

    def bulk_load(
        self, columns: Sequence[Column], rows: Sequence[Sequence[Value]], cancelled: Cancel
    ) -> Iterator[Event]:
        if not self._faults.active:
            return self._session.bulk_load(columns, rows, cancelled)
        return self._met("bulk load", self._session.bulk_load(columns, rows, cancelled), cancelled)

    def begin(self, isolation: str | None = None, name: str = "") -> Iterator[Event]:
        return self._session.begin(isolation, name)

    def commit(self, name: str = "") -> Iterator[Event]:
        return self._session.commit(name)

    def rollback(self, name: str = "") -> Iterator[Event]:
        return self._session.rollback(name)

    def save(self, name: str) -> Iterator[Event]:
        return self._session.save(name)

    def reset(self) -> None:
        self._session.reset()

    def close(self) -> None:
        self._session.close()

    def _met(self, text: str, events: Iterator[Event], cancelled: Cancel) -> Iterator[Event]:
        for fault in self._faults.active:
            yield from fault.statement(text, self._session, cancelled)
            if cancelled():
                return
        self._about_to_run(text)
        for fault in self._faults.active:
            events = fault.answer(text, events)
        yield from events
        for fault in self._faults.active:
            fault.finished()
