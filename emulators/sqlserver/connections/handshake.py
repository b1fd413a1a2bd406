"""From a client's first message to its session: PRELOGIN, TLS, LOGIN7, and the answer that lets it in, refuses it or sends it on.

Who may log in is the engine's decision. Refused here is what the emulator does not speak: integrated authentication, TDS before 7.3,
and tokens in a message of their own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from emulators.sqlserver.connections.channel import Channel, Closed
from emulators.sqlserver.connections.settings import Settings
from emulators.sqlserver.injection import FaultySession, SentOn, Stage
from emulators.sqlserver.results import Engine, Info, Session, SqlError
from emulators.sqlserver.wire import login7, prelogin, tokens
from emulators.sqlserver.wire.errors import ProtocolError
from emulators.sqlserver.wire.packets import PacketType
from emulators.sqlserver.wire.prelogin import Encryption
from emulators.sqlserver.wire.tls import TlsChannel
from emulators.sqlserver.wire.tokens import Done, Environment, Status


class Handshake:
    """One client's way in. `about_to_run`: called with the text of what its session runs later."""

    def __init__(
        self, channel: Channel, engine: Engine, settings: Settings, about_to_run: Callable[[str], None]
    ) -> None:
        self._channel = channel
        self._engine = engine
        self._settings = settings
        self._about_to_run = about_to_run
        self._tls: TlsChannel | None = None
        self._login_only = False
        self._offer = prelogin.Prelogin(Encryption.NOT_SUPPORTED, mars=False)
        self._nonce: bytes | None = None

    def log_in(self) -> Session:
        """Raises Closed when the client was refused or sent on, ProtocolError when it does not keep to the protocol."""
        self._channel.may_fall_silent(Stage.ACCEPT)
        message = self._channel.receive()
        if message.type is PacketType.PRELOGIN:
            self._channel.may_fall_silent(Stage.PRELOGIN)
            self._negotiate(prelogin.parse(message.body))
            message = self._channel.receive()
        if message.type is not PacketType.LOGIN7:
            raise ProtocolError(f"{message.type.name} where LOGIN7 was due")
        login = login7.parse(message.body)
        self._channel.may_fall_silent(Stage.LOGIN)
        if self._tls is not None and self._login_only:
            self._tls.drop()
        try:
            session = self._session(login)
        except SqlError as error:
            self._refuse(login, error)
            raise Closed from None
        except SentOn as there:
            self._send_on(login, there)
            raise Closed from None
        self._channel.use_session(session.session_id)
        size = login.packet_size if self._settings.packet_size is None else self._settings.packet_size
        try:
            self._channel.send(self._welcome(login, session, size))
        except BaseException:  # the client is gone before its session has begun
            session.close()
            raise
        self._channel.use_packets_of(size)
        return session

    def _negotiate(self, offer: prelogin.Prelogin) -> None:
        tls = self._settings.tls
        self._offer = offer
        self._nonce = None if offer.nonce is None else secrets.token_bytes(32)
        encryption = prelogin.agreed(offer.encryption, tls=tls is not None)
        federated = self._settings.federated if offer.federated else None
        self._channel.send(prelogin.answer(encryption, federated=federated, nonce=self._nonce))
        if tls is None or encryption is Encryption.NOT_SUPPORTED:
            if offer.demands_encryption:
                raise Closed
            return
        self._login_only = encryption is Encryption.OFF
        tls_channel = TlsChannel(tls.context, login_only=self._login_only)
        while not tls_channel.established:
            message = self._channel.receive()
            if message.type is not PacketType.PRELOGIN:
                raise ProtocolError(f"{message.type.name} where the TLS handshake was due")
            if answer := tls_channel.handshake(message.body):
                self._channel.limit_answer(Stage.TLS)
                self._channel.send_handshake(answer)
        self._tls = tls_channel
        self._channel.encrypt(tls_channel)

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
        self._channel.send(out + tokens.done(Done.DONE, Status.ERROR))

    def _send_on(self, login: login7.Login7, there: SentOn) -> None:
        """As one that is let in, with a way to go on; the client hangs up."""
        acknowledged = tokens.login_ack(min(login.tds_version, login7.TDS_7_4))
        routed = tokens.routing_change(there.host, there.port)
        self._channel.send(acknowledged + routed + self._acknowledged(login) + tokens.done(Done.DONE, Status.FINAL))

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
