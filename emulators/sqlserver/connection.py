"""One client's connection: handshake, then request after request until either side ends it.

The thread that runs a request also looks for an ATTENTION: between chunks of the answer, and whenever the engine asks
`cancelled()` in a wait. So no second thread reads the socket, and nothing is shared.
"""

from __future__ import annotations

import logging
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from emulators.sqlserver import silence
from emulators.sqlserver.injection import Faults, FaultySession, SentOn, Stage
from emulators.sqlserver.results import Engine, Event, Info, ResultSet, Session, SqlError
from emulators.sqlserver.tls import TlsSettings
from emulators.sqlserver.wire import login7, prelogin, rpc, tokens, transactions
from emulators.sqlserver.wire.errors import ProtocolError
from emulators.sqlserver.wire.packets import (
    IGNORE,
    RESET_CONNECTION,
    RESET_CONNECTION_SKIP_TRAN,
    Message,
    MessageWriter,
    PacketType,
    Reassembler,
    StrictEncryption,
)
from emulators.sqlserver.wire.prelogin import Encryption
from emulators.sqlserver.wire.prepared import PreparedStatements
from emulators.sqlserver.wire.reader import after_all_headers, decode_ucs2
from emulators.sqlserver.wire.response import Response
from emulators.sqlserver.wire.tls import TlsChannel
from emulators.sqlserver.wire.tokens import Done, Environment, Status
from emulators.sqlserver.wire.transactions import Action, TransactionRequest

log = logging.getLogger(__name__)

_HANDSHAKE_SECONDS = 15.0
_HANDSHAKE_LIMIT = 128 * 1024
_MESSAGE_LIMIT = 128 * 1024 * 1024
_POLL_SECONDS = 0.01
_RECEIVE = 65536
_FATAL = 20
"""Errors of this severity and more end the connection (Database Engine error severities)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What all connections of a server share; `packet_size` None means the client's wish."""

    server_name: str
    statement_log: Callable[[str], None]
    packet_size: int | None
    tls: TlsSettings | None
    faults: Faults
    federated: bool = False
    """Whether it takes tokens."""


class _Closed(Exception):
    """The connection is over: the client went away, or was told why and let go."""


class Connection:
    """Runs one client's socket on the calling thread."""

    def __init__(self, client: socket.socket, engine: Engine, settings: Settings) -> None:
        self._socket = client
        self._engine = engine
        self._settings = settings
        self._incoming = Reassembler(_HANDSHAKE_LIMIT)
        self._outgoing = MessageWriter()
        self._attention = False
        self._gone = False
        self._polled = 0.0
        self._tls: TlsChannel | None = None
        self._login_only = False
        self._offer = prelogin.Prelogin(Encryption.NOT_SUPPORTED, mars=False)
        self._nonce: bytes | None = None
        self._logged_in = False
        self._fatal = False
        self._quota: silence.Quota | None = None
        self.session_id = 0
        """0 before the login."""

    def run(self) -> None:
        """Serve until the connection ends; whatever ends it, the session is closed and with it rolled back."""
        session: Session | None = None
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(_HANDSHAKE_SECONDS)
            session = self._log_in()
            self._socket.settimeout(None)
            self._incoming.limit = _MESSAGE_LIMIT
            self._logged_in = True
            self._serve(session)
        except (_Closed, ConnectionError, TimeoutError):
            pass
        except StrictEncryption as error:
            log.warning("closing a connection: %s", error)
            self._last_words(StrictEncryption.ALERT)
        except ProtocolError as error:
            log.warning("closing a connection: %s", error)
        except OSError as error:
            log.debug("closing a connection: %s", error)
        except Exception:
            log.exception("serving a connection: defect of the emulator")
        finally:
            self._socket.close()
            if session is not None:
                session.close()

    def abort(self) -> None:
        """End the connection from another thread: whoever reads, writes or waits in it finds the client gone."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            log.debug("aborting a connection that had ended")

    # Handshake

    def _log_in(self) -> Session:
        self._may_fall_silent(Stage.ACCEPT)
        message = self._receive()
        if message.type is PacketType.PRELOGIN:
            self._may_fall_silent(Stage.PRELOGIN)
            self._negotiate(prelogin.parse(message.body))
            message = self._receive()
        if message.type is not PacketType.LOGIN7:
            raise ProtocolError(f"{message.type.name} where LOGIN7 was due")
        login = login7.parse(message.body)
        self._may_fall_silent(Stage.LOGIN)
        if self._tls is not None and self._login_only:
            self._tls.drop()
        try:
            session = self._session(login)
        except SqlError as error:
            self._refuse(login, error)
            raise _Closed from None
        except SentOn as there:
            self._send_on(login, there)
            raise _Closed from None
        self._outgoing.session_id = self.session_id = session.session_id
        size = login.packet_size if self._settings.packet_size is None else self._settings.packet_size
        try:
            self._send(self._welcome(login, session, size))
        except BaseException:  # the client is gone before its session has begun
            session.close()
            raise
        self._outgoing.packet_size = size
        return session

    def _negotiate(self, offer: prelogin.Prelogin) -> None:
        tls = self._settings.tls
        self._offer = offer
        self._nonce = None if offer.nonce is None else secrets.token_bytes(32)
        encryption = prelogin.agreed(offer.encryption, tls=tls is not None)
        federated = self._settings.federated if offer.federated else None
        self._send(prelogin.answer(encryption, federated=federated, nonce=self._nonce))
        if tls is None or encryption is Encryption.NOT_SUPPORTED:
            if offer.demands_encryption:
                raise _Closed
            return
        self._login_only = encryption is Encryption.OFF
        channel = TlsChannel(tls.context, login_only=self._login_only)
        while not channel.established:
            message = self._receive()
            if message.type is not PacketType.PRELOGIN:
                raise ProtocolError(f"{message.type.name} where the TLS handshake was due")
            if answer := channel.handshake(message.body):
                self._limit_answer(Stage.TLS)
                self._transmit(self._outgoing.handshake(answer))
        self._tls = channel

    def _session(self, login: login7.Login7) -> Session:
        if login.integrated or (login.federated is not None and not self._settings.federated):
            raise SqlError(
                18452,
                "Login failed. The login is from an untrusted domain and cannot be used with Integrated authentication.",
                14,
            )
        if login.federated is not None:
            self._check_federated(login.federated)
        if login.tds_version < login7.TDS_7_3:
            raise SqlError(50001, f"The emulator does not support TDS before 7.3 (0x{login.tds_version:08x}).", 20)
        if not login.well_formed:
            raise SqlError(18456, f"Login failed for user '{login.request.user}'.", 14)
        self._settings.faults.login(login.request)
        return FaultySession(self._engine.login(login.request), self._settings.faults, self._about_to_run)

    def _check_federated(self, federated: login7.Federated) -> None:
        """MS-TDS 3.3.5.5: a login by token must repeat what the server said of FEDAUTHREQUIRED, and its nonce."""
        if federated.echo != self._offer.federated:
            raise ProtocolError("LOGIN7 repeats another FEDAUTHREQUIRED than PRELOGIN had")
        if federated.token is None:
            raise SqlError(50001, "The emulator takes tokens in LOGIN7 alone, and sends no FEDAUTHINFO.", 16)
        if federated.nonce != self._nonce:
            raise ProtocolError("LOGIN7 repeats another nonce than PRELOGIN had")

    def _acknowledged(self, login: login7.Login7) -> bytes:
        if not login.extended or min(login.tds_version, login7.TDS_7_4) != login7.TDS_7_4:
            return b""
        return tokens.feature_ext_ack(federated=login.federated is not None, nonce=self._offer.nonce)

    def _refuse(self, login: login7.Login7, error: SqlError) -> None:
        """The error, after 4060 also the general one, as SQL Server does."""
        name = self._settings.server_name
        out = tokens.error(error, name)
        if error.number == 4060:
            user = login.request.user if login.federated is None else "<token-identified principal>"
            out += tokens.error(SqlError(18456, f"Login failed for user '{user}'.", 14), name)
        self._send(out + tokens.done(Done.DONE, Status.ERROR))

    def _send_on(self, login: login7.Login7, there: SentOn) -> None:
        """As one that is let in, with a way to go on; the client hangs up."""
        acknowledged = tokens.login_ack(min(login.tds_version, login7.TDS_7_4))
        routed = tokens.routing_change(there.host, there.port)
        self._send(acknowledged + routed + self._acknowledged(login) + tokens.done(Done.DONE, Status.FINAL))

    def _welcome(self, login: login7.Login7, session: Session, size: int) -> bytes:
        name = self._settings.server_name
        database = session.database
        changed = Info(5701, f"Changed database context to '{database}'.", 0, 2)
        language = Info(5703, "Changed language setting to us_english.")
        version = min(login.tds_version, login7.TDS_7_4)
        return b"".join(
            (
                tokens.text_change(Environment.DATABASE, database, "master"),
                tokens.info(changed, name),
                tokens.collation_change(session.collation),
                tokens.text_change(Environment.LANGUAGE, "us_english"),
                tokens.info(language, name),
                tokens.login_ack(version),
                tokens.text_change(Environment.PACKET_SIZE, str(size), str(login.packet_size)),
                self._acknowledged(login),
                tokens.done(Done.DONE, Status.FINAL),
            )
        )

    # Requests

    def _serve(self, session: Session) -> None:
        prepared = PreparedStatements(session, self._settings.statement_log)
        while True:
            self._may_fall_silent(Stage.READING)
            message = self._receive()
            if message.type is PacketType.ATTENTION:
                self._may_fall_silent(Stage.ATTENTION)
                self._send(tokens.done(Done.DONE, Status.ATTENTION))
            elif message.status & IGNORE:
                self._send(tokens.done(Done.DONE, Status.ERROR))
            else:
                self._request(message, session, prepared)

    def _request(self, message: Message, session: Session, prepared: PreparedStatements) -> None:
        try:
            if message.status & RESET_CONNECTION_SKIP_TRAN:
                raise SqlError(50001, "The emulator does not support RESETCONNECTIONSKIPTRAN.")
            if message.status & RESET_CONNECTION:
                prepared.reset()
                self._write(tokens.environment_change(Environment.RESET_DONE))
            if message.type is PacketType.SQL_BATCH:
                self._batch(message.body, session)
            elif message.type is PacketType.RPC:
                self._calls(message.body, session, prepared)
            elif message.type is PacketType.TRANSACTION_MANAGER:
                self._transaction(message.body, session)
            else:
                raise SqlError(50001, f"The emulator does not support {message.type.name} requests.")
        except SqlError as error:
            response = self._response(session)
            self._write(response.fail(error) + response.finish())
        self._finish()

    def _batch(self, body: bytes, session: Session) -> None:
        reader = after_all_headers(body)
        text = decode_ucs2(reader.take(reader.remaining))
        self._settings.statement_log(text)
        self._answer(partial(session.batch, text, {}, self.cancelled), self._response(session))

    def _calls(self, body: bytes, session: Session, prepared: PreparedStatements) -> None:
        calls = rpc.parse(body)
        for place, call in enumerate(calls):
            response = Response(
                self._settings.server_name, lambda: session.in_transaction, call=call, more=place + 1 < len(calls)
            )
            self._answer(partial(prepared.run, call, self.cancelled), response)
            if self._attention or self._fatal:
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
            if not self._attention:
                self._write(response.fail(error))
        except (_Closed, ProtocolError, OSError):
            raise
        except Exception as error:
            log.exception("running a request: defect of the emulator")
            self._write(response.fail(SqlError(50001, f"Defect of the emulator: {error!r}", 16)))
        if self._attention:
            self._may_fall_silent(Stage.ATTENTION)
        self._write(response.cancelled() if self._attention else response.finish())

    def _events(self, events: Iterator[Event], response: Response) -> None:
        try:
            for event in events:
                try:
                    for chunk in response.tokens(event):
                        self._write(chunk)
                        if self.cancelled():
                            return
                finally:
                    if isinstance(event, ResultSet):
                        _close(event.rows)
        finally:
            _close(events)

    # Socket

    def cancelled(self) -> bool:
        """Whether the client sent an ATTENTION or went away; looks at the socket at most every 10 ms."""
        if not (self._attention or self._gone):
            now = time.monotonic()
            if now - self._polled >= _POLL_SECONDS:
                self._polled = now
                self._poll()
        return self._attention or self._gone

    def _poll(self) -> None:
        """Read what came meanwhile. With a whole message waiting nothing more is read: the client is ahead of its answers."""
        self._socket.setblocking(False)
        try:
            while not self._incoming.waiting:
                data = self._socket.recv(_RECEIVE)
                if not data:
                    self._gone = True
                    return
                self._feed(data)
        except BlockingIOError:
            pass
        except OSError:
            self._gone = True
            return
        finally:
            self._socket.setblocking(True)
        self._attention = self._incoming.take_attention()

    def _receive(self) -> Message:
        """The next message. Before TLS begins no byte after a message is read: it may be a record."""
        while (message := self._incoming.pop()) is None:
            exact = self._tls is None and not self._logged_in
            data = self._socket.recv(self._incoming.wanted if exact else _RECEIVE)
            if not data:
                raise _Closed
            self._feed(data)
        return message

    def _feed(self, data: bytes) -> None:
        self._incoming.feed(data if self._tls is None else self._tls.decrypt(data))

    def _transmit(self, packets: bytes) -> None:
        if self._quota is not None and (some := self._quota.of(packets)) is not None:
            self._last_words(some if self._tls is None else self._tls.encrypt(some))
            self._fall_silent()
        allowed = self._settings.faults.sending(len(packets))
        if allowed < len(packets):
            self._last_words(packets[:allowed] if self._tls is None else self._tls.encrypt(packets[:allowed]))
            raise _Closed
        self._socket.sendall(packets if self._tls is None else self._tls.encrypt(packets))

    def _last_words(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError:
            log.debug("closing a connection that had ended")

    def _write(self, data: bytes) -> None:
        if self._gone:
            raise _Closed
        if packets := self._outgoing.add(data):
            self._transmit(packets)

    def _send(self, data: bytes) -> None:
        self._write(data)
        self._transmit(self._outgoing.finish())

    def _finish(self) -> None:
        """End the answer; an ATTENTION is acknowledged in a message of its own (drivers wait for the first one's end)."""
        self._transmit(self._outgoing.finish())
        if self._attention:
            self._attention = False
            self._send(tokens.done(Done.DONE, Status.ATTENTION))
        if self._fatal:
            raise _Closed

    # Silence

    def _about_to_run(self, text: str) -> None:
        self._may_fall_silent(Stage.QUERY, text)
        self._limit_answer(Stage.ANSWER, text)

    def _may_fall_silent(self, stage: Stage, text: str = "") -> None:
        if (found := self._settings.faults.silent(stage, text)) is not None:
            if stage in (Stage.ACCEPT, Stage.READING):
                silence.wait_unread(self._socket, found)
            self._fall_silent()

    def _limit_answer(self, stage: Stage, text: str = "") -> None:
        if (found := self._settings.faults.silent(stage, text)) is not None:
            self._quota = silence.Quota(found)

    def _fall_silent(self) -> NoReturn:
        silence.wait(self._socket)
        raise _Closed


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
