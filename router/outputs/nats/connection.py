"""The one owner of nats-py: one connection for all senders of an output, in its event loop, and its faults in plain words.

The library's own reconnecting is off: it sends again what it had buffered, without knowing what was accepted. Here a connection that is lost is
gone, with everything that was under way on it, and whoever needs one next opens another.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.manager import JetStreamManager

from common.errors import EntityUnavailable, TransientError
from router.outputs.nats.answers import not_allowed
from router.outputs.nats.nkey import Signer, of_credentials, of_seed
from router.outputs.nats.settings import NatsSettings, trust

_T = TypeVar("_T")

_CLOSING = 2.0
_PING_SECONDS = 20
_NO_RESPONDERS = "503"
_ABOUT_SUBJECT = re.compile(r'permissions violation for (?:publish|subscription) to "([^"]+)"', re.IGNORECASE)
_CREDENTIALS = "check user and password, token, nkey_seed or credentials against the server's configuration; the account may have expired"


class Lost(TransientError):
    """The connection is lost or cannot be made: what was under way on it is in doubt."""


class NobodyAnswers(Exception):
    """No stream listens on the subject."""


class Link:
    """One connection. `dead`: why it can no longer be used. `doubtful`: somebody gave up waiting for an answer, so that it is to be looked at.
    `violations`: how often the server said that a right is missing; `violation`: its last words."""

    def __init__(self, client: Client, where: str) -> None:
        self._client = client
        self._where = where
        self._numbers = itertools.count()
        self._waiting: dict[str, tuple[str, asyncio.Future[bytes]]] = {}
        self._inbox = ""
        self.dead: Lost | None = None
        self.doubtful = False
        self.violations = 0
        self.violation = ""

    @property
    def max_payload(self) -> int:
        """Bytes of the largest message that the server takes, headers included."""
        return self._client.max_payload

    async def listen(self) -> None:
        self._inbox = self._client.new_inbox()
        await self._client.subscribe(f"{self._inbox}.*", cb=self._answered)

    async def publish(self, subject: str, headers: Mapping[str, str], body: bytes) -> asyncio.Future[bytes]:
        """The answer to come, which may be Lost, NobodyAnswers or EntityUnavailable. Raises Lost."""
        if self.dead is not None:
            raise self.dead
        number = str(next(self._numbers))
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = subject, future
        future.add_done_callback(lambda done: self._waiting.pop(number, None))
        try:
            await self._client.publish(subject, body, reply=f"{self._inbox}.{number}", headers=dict(headers))
        except (nats.errors.Error, OSError) as error:
            future.cancel()
            raise self.lose(_words(error)) from error
        return future

    async def asked(self, question: Callable[[JetStreamManager], Awaitable[_T]], doing: str, domain: str | None) -> _T:
        """An answer of JetStream's API. Raises nats.js.errors.APIError, Lost and EntityUnavailable."""
        known = self.violations
        manager = self._client.jsm() if domain is None else self._client.jsm(domain=domain)
        try:
            return await question(manager)
        except nats.js.errors.APIError as error:
            if error.err_code is not None:
                raise
            raise _no_jetstream(doing) from error
        except nats.errors.NoRespondersError as error:
            raise _no_jetstream(doing) from error
        except (nats.errors.Error, OSError, TimeoutError) as error:
            if self.violations > known:
                raise not_allowed(doing, self.violation) from error
            raise Lost(f"{doing}: {_words(error)}") from error

    async def alive(self) -> bool:
        """Whether the server still answers, when a stream does not."""
        try:
            await self._client.flush(timeout=int(_CLOSING))
        except (nats.errors.Error, OSError, TimeoutError) as error:
            self.lose(_words(error))
        self.doubtful = False
        return self.dead is None

    def lose(self, words: str) -> Lost:
        """Everything under way fails."""
        self.dead = self.dead or Lost(f"the connection to {self._where} is lost: {words}")
        for _, future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(self.dead)
                future.exception()  # retrieved: whoever waits still gets it, and nobody may
        return self.dead

    async def close(self) -> None:
        self.lose("it was closed")
        transport = getattr(getattr(self._client, "_transport", None), "_io_writer", None)
        with suppress(Exception):  # a peer that is mute, or a connection half made: the socket is closed in any case
            await asyncio.wait_for(self._client.close(), _CLOSING)
        if transport is not None:
            transport.transport.abort()

    async def _answered(self, message: Msg) -> None:
        _, future = self._waiting.get(message.subject.rpartition(".")[2], (None, None))
        if future is None or future.done():
            return
        if message.headers and message.headers.get("Status") == _NO_RESPONDERS:
            future.set_exception(NobodyAnswers())
            future.exception()
        else:
            future.set_result(message.data)

    async def on_error(self, error: Exception) -> None:
        """What the server says outside of an answer. A right that is missing names the subject, in lower case."""
        words = _words(error)
        if (about := _ABOUT_SUBJECT.search(words)) is None:
            return
        self.violations, self.violation = self.violations + 1, words
        inbox = about[1].startswith("_inbox")
        for subject, future in list(self._waiting.values()):
            if not future.done() and (inbox or subject.lower() == about[1].lower()):
                future.set_exception(not_allowed(f"sending to {subject}", words))
                future.exception()

    async def on_end(self) -> None:
        self.lose(_words(self._client.last_error) if self._client.last_error else "the server has closed it")


class Connection:
    """Opened when it is needed. Used inside the event loop alone."""

    def __init__(self, settings: NatsSettings) -> None:
        """Raises OSError and ValueError for files and secrets that cannot be used, ConfigurationError for a variable that is not set."""
        self._settings = settings
        self._trust = trust(settings)
        self._signer = _signer(settings)
        self._secrets = [
            None if each is None else each.get_secret_value() for each in (settings.password, settings.token)
        ]
        self._link: Link | None = None
        self._opening: asyncio.Lock | None = None

    async def opened(self) -> Link:
        """Raises Lost and EntityUnavailable."""
        if (link := self._link) is not None and link.dead is None and not link.doubtful:
            return link
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if (link := self._link) is not None:
                if link.dead is None and (not link.doubtful or await link.alive()):
                    return link
                self._link = None
                await link.close()
            self._link = await self._open()
            return self._link

    async def close(self) -> None:
        link, self._link, self._opening = self._link, None, None
        if link is not None:
            await link.close()

    def forget(self) -> None:
        """For a loop that is gone."""
        self._link = self._opening = None

    async def _open(self) -> Link:
        where, seconds = self._settings.where, self._settings.seconds
        client = Client()
        link = Link(client, where)
        said: list[Exception] = []

        async def on_error(error: Exception) -> None:
            said.append(error)
            await link.on_error(error)

        try:
            async with asyncio.timeout(seconds):
                await client.connect(**self._options(client), error_cb=on_error, closed_cb=link.on_end)
                if self._settings.tls and not _encrypted(client):
                    raise nats.errors.SecureConnRequiredError
                await link.listen()
        except BaseException as error:
            await link.close()
            if isinstance(error, TimeoutError) and not isinstance(error, nats.errors.Error):
                raise Lost(f"connecting to {where}: no answer within {seconds:g} s") from error
            if isinstance(error, (nats.errors.Error, OSError)):
                raise _not_opened(error, said, where) from error
            raise
        return link

    def _options(self, client: Client) -> dict[str, Any]:
        password, token = self._secrets
        options: dict[str, Any] = {
            "servers": list(self._settings.servers),
            "name": "dstream",
            "tls": self._trust,
            "connect_timeout": self._settings.seconds,
            "allow_reconnect": False,
            "max_reconnect_attempts": 1,
            "reconnect_time_wait": 0,
            "ping_interval": _PING_SECONDS,
        }

        def guarded(secret: str) -> Callable[[], str]:
            """Called when it is about to be sent: to nobody who does not encrypt, where TLS was asked for."""

            def give() -> str:
                if self._settings.tls and not _encrypted(client):
                    raise nats.errors.SecureConnRequiredError
                return secret

            return give

        if self._settings.user is not None and password is not None:
            options |= {"user": self._settings.user, "password": guarded(password)}
        if token is not None:
            options["token"] = guarded(token)
        if (signer := self._signer) is not None:
            options["signature_cb"] = lambda nonce: signer.sign(guarded(nonce)())
            if signer.jwt is not None:
                jwt = signer.jwt
                options["user_jwt_cb"] = lambda: guarded(jwt)().encode()
            else:
                client._public_nkey = signer.public  # the library sets it only together with a seed in a file
        return options


def _signer(settings: NatsSettings) -> Signer | None:
    if settings.credentials is not None:
        return of_credentials(settings.credentials.get_secret_value())
    return None if settings.nkey_seed is None else of_seed(settings.nkey_seed.get_secret_value())


def _encrypted(client: Client) -> bool:
    writer = getattr(getattr(client, "_transport", None), "_io_writer", None)
    return writer is not None and writer.get_extra_info("ssl_object") is not None


def _not_opened(error: Exception, said: list[Exception], where: str) -> TransientError | EntityUnavailable:
    doing = f"connecting to {where}"
    if isinstance(error, nats.errors.NoServersError):
        error = next(reversed(said), error)
    words = _words(error)
    if isinstance(error, nats.errors.SecureConnRequiredError):
        return EntityUnavailable(
            f"{doing}: the server offers no TLS",
            hint="enable TLS on the server, or write nats:// for a connection in the clear",
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return Lost(
            f"{doing}: its certificate is not trusted: {error.verify_message}",
            hint="name the authority's certificate as ca_file, or correct the host in servers",
        )
    if re.search(r"authorization violation|authentication|authorization failed|account", words, re.IGNORECASE):
        return EntityUnavailable(f"{doing}: the server answered: {words}", hint=_CREDENTIALS)
    return Lost(f"{doing}: {words}")


def _no_jetstream(doing: str) -> EntityUnavailable:
    return EntityUnavailable(
        f"{doing}: JetStream does not answer", hint="enable JetStream on the server and for the account; check domain"
    )


def _words(error: BaseException) -> str:
    text = str(error).removeprefix("nats: ").strip("' ")
    return text or type(error).__name__
