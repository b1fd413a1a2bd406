"""One client's connection: handshake, then request after request until either side ends it.

The thread that runs a request also looks for an ATTENTION: between chunks of the answer, and whenever the engine asks
`cancelled()` in a wait. So no second thread reads the socket, and nothing is shared. The octets are the channel's (channel.py).
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from functools import partial

from emulators.sqlserver import turns
from emulators.sqlserver.connections.channel import Channel, Closed
from emulators.sqlserver.connections.handshake import Handshake
from emulators.sqlserver.connections.settings import Settings
from emulators.sqlserver.injection import BrokenOff, Stage
from emulators.sqlserver.results import Cancelled, Engine, Event, ResultSet, Session, SqlError
from emulators.sqlserver.wire import bulk_load, rpc, tokens, transactions
from emulators.sqlserver.wire.errors import ProtocolError
from emulators.sqlserver.wire.packets import (
    IGNORE,
    RESET_CONNECTION,
    RESET_CONNECTION_SKIP_TRAN,
    Message,
    PacketType,
    StrictEncryption,
)
from emulators.sqlserver.wire.prepared import PreparedStatements
from emulators.sqlserver.wire.reader import after_all_headers, decode_ucs2
from emulators.sqlserver.wire.response import Response
from emulators.sqlserver.wire.tokens import Done, Environment, Status
from emulators.sqlserver.wire.transactions import Action, TransactionRequest

log = logging.getLogger(__name__)

_FATAL = 20
"""Errors of this severity and more end the connection (Database Engine error severities)."""

_KILLED = SqlError(596, "Cannot continue the execution because the session is in the kill state.", 21)


class Connection:
    """Runs one client's socket on the calling thread."""

    def __init__(self, client: socket.socket, engine: Engine, settings: Settings) -> None:
        self._channel = Channel(client, settings.faults)
        self._handshake = Handshake(self._channel, engine, settings, self._about_to_run)
        self._settings = settings
        self._fatal = False

    @property
    def session_id(self) -> int:
        """0 before the login."""
        return self._channel.session_id

    def run(self) -> None:
        """Serve until the connection ends; whatever ends it, the session is closed and with it rolled back."""
        session: Session | None = None
        try:
            self._channel.open()
            session = self._handshake.log_in()
            self._channel.let_in()
            self._serve(session)
        except (Closed, ConnectionError, TimeoutError):
            pass
        except StrictEncryption as error:
            log.warning("closing a connection: %s", error)
            self._channel.last_words(StrictEncryption.ALERT)
        except ProtocolError as error:
            log.warning("closing a connection: %s", error)
        except OSError as error:
            log.debug("closing a connection: %s", error)
        except Exception:
            log.exception("serving a connection: defect of the emulator")
        finally:
            self._channel.close()
            if session is not None:
                session.close()

    def abort(self) -> None:
        """End the connection from another thread."""
        self._channel.abort()

    def _serve(self, session: Session) -> None:
        prepared = PreparedStatements(session, self._settings.statement_log)
        while True:
            self._channel.may_fall_silent(Stage.READING)
            message = self._channel.receive()
            if message.type is PacketType.ATTENTION:
                self._channel.may_fall_silent(Stage.ATTENTION)
                self._channel.send(tokens.done(Done.DONE, Status.ATTENTION))
            elif message.status & IGNORE:
                self._channel.send(tokens.done(Done.DONE, Status.ERROR))
            else:
                with turns.mine():
                    self._request(message, session, prepared)

    def _request(self, message: Message, session: Session, prepared: PreparedStatements) -> None:
        try:
            if message.status & RESET_CONNECTION_SKIP_TRAN:
                raise SqlError(50001, "The emulator does not support RESETCONNECTIONSKIPTRAN.")
            if message.status & RESET_CONNECTION:
                prepared.reset()
                self._channel.write(tokens.environment_change(Environment.RESET_DONE))
            if message.type is PacketType.SQL_BATCH:
                self._batch(message.body, session)
            elif message.type is PacketType.RPC:
                self._calls(message.body, session, prepared)
            elif message.type is PacketType.TRANSACTION_MANAGER:
                self._transaction(message.body, session)
            elif message.type is PacketType.BULK_LOAD:
                columns, rows = bulk_load.parse(message.body)
                self._answer(
                    partial(session.bulk_load, columns, rows, self._channel.cancelled), self._response(session)
                )
            else:
                raise SqlError(50001, f"The emulator does not support {message.type.name} requests.")
        except SqlError as error:
            response = self._response(session)
            self._channel.write(response.fail(error) + response.finish())
        self._finish()

    def _batch(self, body: bytes, session: Session) -> None:
        reader = after_all_headers(body)
        text = decode_ucs2(reader.take(reader.remaining))
        self._settings.statement_log(text)
        self._answer(partial(session.batch, text, {}, self._channel.cancelled), self._response(session))

    def _calls(self, body: bytes, session: Session, prepared: PreparedStatements) -> None:
        calls = rpc.parse(body)
        for place, call in enumerate(calls):
            response = Response(
                self._settings.server_name, lambda: session.in_transaction, call=call, more=place + 1 < len(calls)
            )
            self._answer(partial(prepared.run, call, self._channel.cancelled), response)
            if self._channel.attention or self._fatal:
                return

    def _transaction(self, body: bytes, session: Session) -> None:
        request = transactions.parse(body)
        self._answer(partial(_transaction_events, request, session), self._response(session))

    def _response(self, session: Session) -> Response:
        return Response(self._settings.server_name, lambda: session.in_transaction)

    def _answer(self, run: Callable[[], Iterator[Event]], response: Response) -> None:
        """Run a request and write its answer, except for the message's end."""
        try:
            self._events(run(), response)
        except SqlError as error:
            self._fatal = error.severity >= _FATAL
            if not self._channel.attention:
                self._channel.write(response.fail(error))
        except Cancelled:
            if not self._channel.attention:  # the client has gone, or the session was killed
                self._fatal = True
                self._channel.write(response.fail(_KILLED))
        except BrokenOff:
            self._fatal = True
            self._channel.write(response.cut_short())
            return
        except (Closed, ProtocolError, OSError):
            raise
        except Exception as error:
            log.exception("running a request: defect of the emulator")
            self._channel.write(response.fail(SqlError(50001, f"Defect of the emulator: {error!r}", 16)))
        if self._channel.attention:
            self._channel.may_fall_silent(Stage.ATTENTION)
        self._channel.write(response.cut_short() if self._channel.attention else response.finish())

    def _events(self, events: Iterator[Event], response: Response) -> None:
        write, cancelled = self._channel.write, self._channel.cancelled
        try:
            for event in events:
                try:
                    for chunk in response.tokens(event):
                        write(chunk)
                        if cancelled():
                            return
                finally:
                    if isinstance(event, ResultSet):
                        _close(event.rows)
        finally:
            _close(events)

    def _finish(self) -> None:
        """End the answer; an ATTENTION is acknowledged in a message of its own (drivers wait for the first one's end)."""
        self._channel.end_message()
        if self._channel.attention:
            self._channel.attention = False
            self._channel.send(tokens.done(Done.DONE, Status.ATTENTION))
        if self._fatal:
            raise Closed

    def _about_to_run(self, text: str) -> None:
        self._channel.may_fall_silent(Stage.QUERY, text)
        self._channel.limit_answer(Stage.ANSWER, text)


def _transaction_events(request: TransactionRequest, session: Session) -> Iterator[Event]:
    if request.action is Action.SAVE:
        yield from session.save(request.name)
    elif request.action is Action.COMMIT:
        yield from session.commit(request.name)
    elif request.action is Action.ROLLBACK:
        yield from session.rollback(request.name)
    if request.begin is not None:
        yield from session.begin(request.begin.isolation, request.begin.name)


def _close(iterator: object) -> None:
    """Let a generator run its `finally` now, not when it is collected."""
    close = getattr(iterator, "close", None)
    if close is not None:
        close()
